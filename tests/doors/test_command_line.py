"""The command line as people run it: a process with its streams, signals and files."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from commandline import ITEMS, LABELS, environment, evalkit, write_lines

FAKE = ("--rubric", "faithfulness", "--judge", "fake")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    write_lines(tmp_path / "items.jsonl", ITEMS)
    write_lines(tmp_path / "labels.jsonl", LABELS)
    return tmp_path


def test_data_on_stdout_and_the_rest_on_stderr(here: Path) -> None:
    done = evalkit("judge", "items.jsonl", *FAKE, "-o", "-", folder=here, cold=True)
    assert done.returncode == 0
    assert [json.loads(line)["item_id"] for line in done.stdout.splitlines()] == [f"i{at // 3}" for at in range(12)]
    assert done.stderr.splitlines() == [
        "evalkit: 12 judgments: 12 asked now (US$ 0.0000), 0 from the cache (US$ 0.0000 when bought)"
    ]
    done = evalkit("evaluate", "--judgments", "-", "--json", folder=here, stdin=done.stdout, cold=True)
    assert (done.returncode, json.loads(done.stdout)["n_judgments"], done.stderr) == (0, 12, "")


def test_exit_codes(here: Path) -> None:
    (here / "bad.yaml").write_text("id: bad\nversion: v1\n", encoding="utf-8")
    for arguments, code in {
        ("rubric", "lint", "bad.yaml"): 1,
        ("judge", "items.jsonl", "--rubric", "faithfulness", "--judge", "openai:m"): 2,
        ("nonsense",): 2,
        ("--version",): 0,
    }.items():
        done = evalkit(*arguments, folder=here)
        assert done.returncode == code, (arguments, done.stderr)
        assert "Traceback" not in done.stderr
        assert len(done.stderr.splitlines()) == (1 if code == 2 else 0)


def test_help_loads_nothing_heavy(here: Path) -> None:
    heavy = {"pandas", "numpy", "pydantic", "ruamel", "joblib", "openai", "aiohttp", "scipy", "asyncio", "sqlite3"}
    for arguments in (["--help"], ["judge", "--help"], ["rubric", "lint", "--help"], ["--version"], ["judge"]):
        code = f"import sys; from evalkit.cli import main; main({arguments!r}); print(*sys.modules, file=sys.stderr)"
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True, timeout=300
        )
        assert sorted(heavy & set(done.stderr.split())) == []


def test_text_in_any_terminal(here: Path) -> None:
    done = evalkit("rubric", "list", folder=here, PYTHONUTF8="0", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert done.returncode == 0, done.stderr
    assert "\\u" in done.stdout, "what the terminal cannot show is marked"
    done = evalkit("rubric", "list", "--json", folder=here, PYTHONUTF8="0", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert {"pollux"} <= {row["id"] for row in json.loads(done.stdout)}, "data is UTF-8 whatever the terminal says"


# several commands in one process
IN_TURN = """
import sys
from evalkit.cli import main
for words in " ".join(sys.argv[1:]).split(" then "):
    if code := main(words.split()):
        sys.exit(code)
"""


def test_files_and_cache_of_any_name_where_the_locale_is_ascii(here: Path) -> None:
    (here / "кэш").mkdir()
    (here / "items.jsonl").rename(here / "вопросы.jsonl")
    ascii_only = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "EVALKIT_CACHE": str(here / "кэш")}
    words = []
    for ending in ("csv", "jsonl", "parquet"):
        words += ["judge", "вопросы.jsonl", *FAKE, "--quiet", "-o", f"суждения.{ending}", "then"]
        words += ["evaluate", "--judgments", f"суждения.{ending}", "--json", "then"]
    done = subprocess.run(
        [sys.executable, "-c", IN_TURN, *words, "cache", "stats"],
        cwd=here, env=environment(**ascii_only), capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines().count(f'  "n_items": {len(ITEMS)},') == 3, done.stdout + done.stderr


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="needs pipes that can break")
@pytest.mark.parametrize("arguments", [("judge", "many.jsonl", *FAKE, "--samples", "1", "-o", "-"), ("rubric", "list")])
def test_a_reader_that_goes_away_is_no_error(here: Path, arguments: tuple[str, ...]) -> None:
    write_lines(here / "many.jsonl", [ITEMS[0] | {"item_id": f"i{at}"} for at in range(3000)])
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "evalkit", *arguments],
        cwd=here,
        env=environment(),
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(write)
    os.close(read)
    err = process.communicate(timeout=300)[1]
    assert process.returncode == 141
    assert "rror" not in err
    assert "Traceback" not in err


class _Slow(BaseHTTPRequestHandler):
    """An OpenAI-compatible server: the first 3 replies come at once, the next 4 when `stop` is set, then on `over`."""

    asked = 0
    lock = threading.Lock()
    stop, over = threading.Event(), threading.Event()

    def do_POST(self) -> None:
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"]))).get("n") or 1
        with self.lock:
            type(self).asked += 1
            at = type(self).asked
        if at > 3:
            (self.stop if at <= 7 else self.over).wait(600)
        choice = {
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": '{"explanation": "ok", "score": 2}'},
        }
        body = json.dumps(
            {
                "id": "x",
                "object": "chat.completion",
                "created": 1,
                "model": "m",
                "choices": [choice | {"index": at} for at in range(wanted)],
                "usage": {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10},
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("number", "code", "start"),
    [(signal.SIGINT, 2, "evalkit: stopped"), (signal.SIGTERM, 143, "evalkit: warning: stopped")],
)
def test_a_signal_says_how_to_go_on_and_keeps_what_came(here: Path, number: int, code: int, start: str) -> None:
    _Slow.asked = 0
    _Slow.stop.clear()
    _Slow.over.clear()
    write_lines(
        here / "ten.jsonl", [ITEMS[0] | {"item_id": f"i{at}", "question": f"How long, {at}?"} for at in range(10)]
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Slow)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    arguments = ["judge", "ten.jsonl", "--rubric", "faithfulness", "--judge", "openai:m", "--samples", "1"]
    arguments += ["--judge-base-url", f"http://127.0.0.1:{server.server_port}/v1", "--concurrency", "4"]
    process = subprocess.Popen(
        [sys.executable, "-m", "evalkit", *arguments, "-o", "out.jsonl"],
        cwd=here,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 300
        while _Slow.asked < 7 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert _Slow.asked >= 7, process.communicate()[1] if process.poll() is not None else "the server was not asked"
        process.send_signal(number)
        time.sleep(0.5)  # what is in flight usually comes to its end after the signal
        _Slow.stop.set()
        out, err = process.communicate(timeout=300)
    finally:
        if process.poll() is None:
            process.kill()
    assert (process.returncode, out) == (code, "")
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith(f"{start}; all replies received so far are stored in ")
    assert err.splitlines()[-1].endswith("run it again: you pay only for the rest")
    assert not (here / "out.jsonl").exists()
    before = _Slow.asked
    _Slow.over.set()
    done = evalkit(*arguments, "-o", "out.jsonl", folder=here)
    server.shutdown()
    server.server_close()
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (here / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    sources = [row["source"] for row in rows]
    assert len(rows) == 10
    assert sources.count("cache") >= 3
    assert _Slow.asked - before == sources.count("live")


def without_override(*command: str) -> list[str]:
    """The command as a user who is bound by permissions, even where the tests run as root."""
    if os.geteuid() != 0:
        return list(command)
    if shutil.which("setpriv") is None:
        pytest.skip("root ignores permissions, and there is no setpriv to give that up")
    drop = "-dac_override,-dac_read_search"
    return ["setpriv", f"--bounding-set={drop}", f"--inh-caps={drop}", *command]


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX permissions")
def test_a_cache_that_cannot_be_written(here: Path) -> None:
    evalkit("judge", "items.jsonl", *FAKE, folder=here, EVALKIT_CACHE=str(here / "cache"))
    (here / "cache").chmod(0o555)
    run = without_override(sys.executable, "-m", "evalkit")

    def bound(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*run, *arguments],
            cwd=here,
            env=environment(EVALKIT_CACHE=str(here / "cache")),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    try:
        done = bound("judge", "items.jsonl", "--rubric", "faithfulness", "--judge", "fake:lenient")
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 1
        assert "is read-only, so replies could not be stored; set EVALKIT_CACHE to a folder" in done.stderr
        done = bound("judge", "items.jsonl", *FAKE, "--json", "--quiet")
        assert (done.returncode, done.stderr) == (0, "")
        assert {row["source"] for row in json.loads(done.stdout)} == {"cache"}, "what is stored is still read"
        done = bound("doctor", "--json")
        found = json.loads(done.stdout)
        assert (found["cache"]["writable"], found["cache"]["integrity"]) == (False, "ok")
        assert "cannot be written" in found["problems"][0]
    finally:
        (here / "cache").chmod(0o755)
