"""What a person reads when something is wrong: no key, wrong key, wrong URL, unknown model, HTML, silence, Ctrl-C.

With ``--odd`` instead a table of odd answers of a server: what comes back, what is stored, what a second run pays.

Uses the tests' own loopback server; no part of it is the stub server's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from odd_answers import judged as judged_oddly
from odd_answers import odd_answers
from servers import judge_server

import evalkit as ek
from evalkit.errors import EvalkitError

ROOT = Path(__file__).resolve().parents[1]
ITEMS = [{"question": f"ITEM-{n}?", "answer": "4", "reference": "4"} for n in range(70)]
KEY = "sk-not-to-be-seen-0123456789"

CTRL_C = """
import sys
import evalkit as ek
items = [{"question": f"ITEM-{n}?", "answer": "4", "reference": "4"} for n in range(400)]
judge = ek.Judge("openai", "m", base_url=sys.argv[1])
ek.judge(items, "correctness", judge, samples=1, cache=sys.argv[2], progress=True, concurrency=8)
"""


def said_by(work: Callable[[], object]) -> str:
    """The message of the error that `work` raises."""
    try:
        work()
    except EvalkitError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def judged(url: str | None, **fields: object) -> Callable[[], object]:
    """A call of judge on a server."""
    judge = ek.Judge("openai", "gpt-4o-mini", base_url=url, **fields)  # type: ignore[arg-type]

    def work() -> object:
        with tempfile.TemporaryDirectory() as cache:
            return ek.judge(ITEMS, "correctness", judge, samples=1, cache=cache, progress=False)

    return work


def interrupted() -> tuple[str, float]:
    """What a script that gets Ctrl-C prints, and how many seconds it takes to end."""
    with judge_server(always={"delay": 0.3}) as server, tempfile.TemporaryDirectory() as cache:
        child = subprocess.Popen(
            [sys.executable, "-c", CTRL_C, server.url, cache],
            stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        while len(server.seen) < 30:
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        started = time.perf_counter()
        _, said = child.communicate(timeout=60)
    lines = [line for part in said.split("\n") for line in part.split("\r")]
    return "\n".join(line for line in lines if "stopp" in line), time.perf_counter() - started


def messages() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Situation -> what is said, and words that must be in it."""
    os.environ.pop("OPENAI_API_KEY", None)
    told: dict[str, tuple[str, tuple[str, ...]]] = {}
    told["no key"] = said_by(judged(None)), ("OPENAI_API_KEY", "not set")
    os.environ["SOME_KEY"] = KEY
    refused = {"status": 401, "body": {"error": {"message": f"Incorrect API key provided: {KEY}"}}}
    with judge_server(always=refused) as server:
        told["wrong key"] = (
            said_by(judged(server.url, api_key_env="SOME_KEY")),
            ("401", "Incorrect API key", "SOME_KEY"),
        )
    told["wrong URL"] = said_by(judged("http://127.0.0.1:9/v1")), ("no connection", "127.0.0.1:9")
    with judge_server() as server:
        told["wrong path"] = said_by(judged(server.url.removesuffix("/v1"))), ("404", "/chat/completions", "/v1")
    unknown = {"status": 404, "body": {"error": {"message": "The model does not exist", "code": "model_not_found"}}}
    with judge_server(always=unknown) as server:
        told["unknown model"] = said_by(judged(server.url)), ("404", "gpt-4o-mini")
    with judge_server(always={"body": b"<html><body>Welcome</body></html>"}) as server:
        told["HTML"] = said_by(judged(server.url)), ("HTML", "base_url")
    with judge_server(always={"hang": 30}) as server:
        told["never answers"] = said_by(judged(server.url, timeout_s=1.0)), ("no answer", "1 s")
    said, seconds = interrupted()
    told[f"Ctrl-C (ended after {seconds:.1f} s)"] = said, ("stopped", "only the rest is paid")
    return told


def odd_table() -> bool:
    """One row per odd answer to one item of a judge; whether each is as it should be, and the other rows came back."""
    print("| the judge's server answers | row | tokens | stored | asked again |\n| --- | --- | --- | --- | --- |")
    met = True
    with judge_server() as server:
        for odd in odd_answers():
            with tempfile.TemporaryDirectory() as cache:
                found = judged_oddly(server, odd, Path(cache))
            row, others = found.odd, found.table.drop(found.odd.name)
            error = row["error"] if isinstance(row["error"], str) else None
            good = (error, found.n_stored, found.n_asked_again) == (odd.error, 5 + odd.is_stored, 1 - odd.is_stored)
            good &= len(found.table) == 6 and bool(others["error"].isna().all())
            met &= good
            stored = "yes" if found.n_stored == 6 else "no"
            name = odd.name if good else f"{odd.name} **BROKEN**"
            cells = name, error or "scored", row["prompt_tokens"], stored, found.n_asked_again
            print(f"| {' | '.join(map(str, cells))} |")
    print(f"\n{len(odd_answers())} odd answers, each beside five good ones: {'all met' if met else 'BROKEN'}")
    return met


def main() -> int:
    """Print all of them."""
    if "--odd" in sys.argv:
        return int(not odd_table())
    met = True
    for situation, (said, words) in messages().items():
        good = bool(said) and KEY not in said and all(word in said for word in words)
        met &= good
        print(f"{'met   ' if good else 'BROKEN'} {situation}\n    {said}\n")
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
