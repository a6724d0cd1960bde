"""Three judges, three samples, 200 items against a server that fails in every way; then dead judges.

Every item must end scored or unscored with the right reason, no verdict may be wrong, and no answer that came may be
asked for twice: the server's own counters and log say so. Needs the stub server (see `stub.py`).
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from stub import RUBRIC, Checks, control, needed_folder, rows, stub_server

import evalkit as ek
from evalkit.errors import JudgeError

N_ITEMS, SAMPLES = 200, 3
MODELS = ("judge-a", "judge-b", "judge-c")
FAULTS = {
    "p429": 0.05, "p500": 0.02, "preset": 0.02, "ptimeout": 0.01, "pmalformed": 0.02, "punparse": 0.02,
    "pempty": 0.01, "ptrunc": 0.01, "prefuse": 0.01,
}  # fmt: skip
# the server's text without a verdict begins "I am not able to decide", which reads as a refusal
REASONS = {"unparse": "refused", "empty": "empty", "trunc": "truncated", "refuse": "refused"}
DEAD = "http://127.0.0.1:9/v1"


def judges_at(*urls: str) -> list[ek.Judge]:
    """One judge a model, each at its address."""
    return [ek.Judge("openai", model, base_url=url, timeout_s=2.0) for model, url in zip(MODELS, urls, strict=True)]


def judged(items: list[dict[str, Any]], judges: list[ek.Judge], cache: str) -> tuple[Any, str, float]:
    """The table, what was said at the end, seconds."""
    said, started = io.StringIO(), time.perf_counter()
    with contextlib.redirect_stderr(said):
        table = ek.judge(items, RUBRIC, judges, samples=SAMPLES, item_id="id", cache=cache, progress=True)
    last = re.findall(r"evalkit: \d+ called and scored.*", said.getvalue())
    return table, last[-1] if last else "", time.perf_counter() - started


def check_run(checks: Checks, table: Any, stats: dict[str, Any], log: Path, said: str, n_per_call: int) -> None:
    """Compare the table with what the server knows."""
    truth = {row["id"]: row["truth"] for row in rows(needed_folder(), N_ITEMS)}
    scored = table[table["error"].isna()]
    wrong = int((scored["passed"] != scored["item_id"].map(lambda at: truth[int(at)])).sum())
    checks("rows", len(table), N_ITEMS * len(MODELS) * SAMPLES)
    checks.true("scored", len(scored) > 0.9 * len(table), f"{len(scored)}; {table['error'].value_counts().to_dict()}")
    checks("wrong verdicts", wrong, 0)
    kinds = stats["kinds"]
    n_failed = int(table["error"].isin(["timeout", "rate_limited", "server_error", "judge_down"]).sum())
    stored = (len(table) - n_failed) // n_per_call
    checks("answers billed = stored + those cut on the way", stats["paid"], stored + kinds.get("malformed", 0))
    lost = kinds.get("malformed", 0) + kinds.get("reset", 0) + kinds.get("timeout", 0)
    counted = re.search(r"(\d+) calls without an answer that may have been billed", said)
    checks("counted as maybe paid", int(counted[1]) if counted else 0, lost)
    seen: dict[str, Counter[str]] = {}
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        if entry["kind"] in REASONS and entry["code"] == 200:
            seen.setdefault(str(entry["qid"]), Counter())[REASONS[entry["kind"]]] += n_per_call
    unscored = table[table["error"].isin(list(REASONS.values()))]
    ours = {
        str(item): Counter(group["error"].astype(str)) for item, group in unscored.groupby("item_id", observed=True)
    }
    checks.true("reasons, item by item, as the server's log has them", ours == seen, f"{len(ours)} items")


def main() -> int:
    """Run everything."""
    folder, checks = needed_folder(), Checks()
    items = rows(folder, N_ITEMS)
    for name, options, n_works in (
        ("all faults, several samples in a request", FAULTS, True),
        ("all faults, one sample a request", FAULTS, False),
        ("a limit of 60 requests a second", {"rps_limit": 60, "burst": 20}, True),
    ):
        with tempfile.TemporaryDirectory() as scratch:
            log, cache = Path(scratch, "log.jsonl"), str(Path(scratch, "cache"))
            with stub_server(folder, latency_ms=50, log=log, **options) as base:
                if not n_works:
                    for model in MODELS:
                        ek.engine.ReplyStore.open(cache).learn("local", model, "n_supported", False).result()
                table, said, seconds = judged(items, judges_at(*[f"{base}/v1"] * 3), cache)
                print(f"\n{name}: {seconds:.1f} s\n  {said}")
                time.sleep(0.2)  # the server writes its log behind its answers
                check_run(checks, table, control(base, "/_stats"), log, said, SAMPLES if n_works else 1)
                control(base, "/_defaults", {})
                again, _, seconds = judged(items, judges_at(*[f"{base}/v1"] * 3), cache)
                left = int(table["error"].isin(["timeout", "rate_limited", "server_error"]).sum())
                checks("asked in a second run", control(base, "/_stats")["n_choices"], left)
                checks.true("the second run's table is that of the first", _same(table, again))
            ek.engine.ReplyStore.open(cache).close()
    dead(checks, folder, items)
    return int(not checks.met)


def _same(first: Any, second: Any) -> bool:
    reached = ~first["error"].isin(["timeout", "rate_limited", "server_error"])
    columns = ["item_id", "judge", "sample", "score", "error", "key"]
    return bool(first.loc[reached, columns].equals(second.loc[reached, columns]))


def dead(checks: Checks, folder: Path, items: list[dict[str, Any]]) -> None:
    """One judge of three dead, then all."""
    with tempfile.TemporaryDirectory() as cache, stub_server(folder, latency_ms=20) as base:
        table, said, seconds = judged(items, judges_at(f"{base}/v1", f"{base}/v1", DEAD), cache)
        print(f"\none judge of three dead: {seconds:.1f} s\n  {said}")
        down = table["judge"] == "openai:judge-c"
        checks("rows of the dead judge", set(table.loc[down, "error"]), {"judge_down"})
        checks("unscored rows of the others", int(table.loc[~down, "error"].notna().sum()), 0)
        ek.engine.ReplyStore.open(cache).close()
    with tempfile.TemporaryDirectory() as cache:
        print("\nall judges dead:")
        try:
            judged(items, judges_at(DEAD, DEAD, DEAD), cache)
        except JudgeError as error:
            checks.true("JudgeError", True, str(error)[:300])
        else:
            checks.true("JudgeError", False, "nothing was raised")


if __name__ == "__main__":
    sys.exit(main())
