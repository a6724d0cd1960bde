"""What the gate reads is refused where it is doubtful, and what it writes is there whole or not at all."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from commandline import environment, write_lines

from evalkit.cli import main
from evalkit.core.files import write_whole
from evalkit.errors import ConfigError, InputError
from evalkit.gate import GateOptions, enrich, run_gate
from evalkit.gate.config import load_gate
from evalkit.gate.trace_enriching import stamp_of
from evalkit.gate.traces import read_traces

TRACE = {"schema_version": 1, "type": "verdict.trace", "request_id": "t", "prompt": "p", "response": "30 days"}
CONFIG = "tests:\n  - id: t\n    expected: {type: must_contain, value: '30'}\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("eval.yaml").write_text(CONFIG, encoding="utf-8")
    write_lines(Path("traces.jsonl"), [TRACE])
    return tmp_path


def ci(*flags: str) -> int:
    return main(["ci", "--config", "eval.yaml", "--trace-file", "traces.jsonl", *flags])


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('"prompt": "p"', '"prompt": "p", "prompt": "q"', "prompt"),
        ('"30 days"', '"30 days", "meta": {"own": [{"x": 1, "x": 1}]}', "x"),
        ('"30 days"', '"30 days", "meta": {"a\\u0062": 1, "ab": 2}', "ab"),
    ],
    ids=["top", "deep", "escaped"],
)
def test_a_key_that_stands_twice_in_a_trace(here: Path, old: str, new: str, key: str) -> None:
    good = json.dumps(TRACE)
    Path("traces.jsonl").write_text(f"{good}\n\n{good.replace(old, new)}\n", encoding="utf-8")
    with pytest.raises(InputError, match=rf"traces.jsonl, line 3: duplicate key '{key}'; keep"):
        list(read_traces("traces.jsonl"))


def test_equal_keys_in_different_objects_are_no_doubles(here: Path) -> None:
    write_lines(Path("traces.jsonl"), [TRACE | {"meta": {"prompt": {"prompt": 1}, "list": [{"a": 1}, {"a": 1}]}}])
    assert len(list(read_traces("traces.jsonl"))) == 1


@pytest.mark.parametrize("depth", [200, 990, 2_000, 100_000])
def test_a_line_nested_too_deeply_is_named(here: Path, depth: int) -> None:
    deep = json.dumps(TRACE)[:-1] + ', "meta": {"own": ' + "[" * depth + "]" * depth + "}}\n"
    Path("traces.jsonl").write_text(deep, encoding="utf-8")
    with pytest.raises(InputError, match=r"traces.jsonl, line 1: .*nested"):
        list(read_traces("traces.jsonl"))


def test_a_line_may_be_nested_as_deeply_as_anybody_needs(here: Path) -> None:
    own: list[object] = []
    for _ in range(190):
        own = [own]
    write_lines(Path("traces.jsonl"), [TRACE | {"meta": {"own": own}}])
    assert len(list(read_traces("traces.jsonl"))) == 1


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("eval.yaml", CONFIG + "settings: {timeout_seconds: 1}\ntests: []\n", 5),
        ("eval.yaml", CONFIG.replace("value: '30'", "value: '30', value: '31'"), 3),
        ("eval.json", '{\n "tests": [{"id": "a",\n  "id": "b", "expected": {"type": "faithfulness"}}]}', 3),
    ],
    ids=["block", "flow", "json"],
)
def test_a_key_that_stands_twice_in_a_configuration(here: Path, name: str, text: str, line: int) -> None:
    Path(name).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"{name}, line {line}: .*duplicate key '[a-z]+'; keep one") as caught:
        load_gate(name)
    assert "31" not in str(caught.value), "values are not quoted"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--json", "eval.yaml"), "--json eval.yaml would overwrite --config"),
        (("--junit", "./traces.jsonl"), "--junit traces.jsonl would overwrite --trace-file"),
        (("--out", "."), "--out .: traces.jsonl would overwrite --trace-file"),
        (("--json", "x", "--markdown", "x"), "would overwrite --markdown"),
        (("--json", "main.json"), "--json main.json would overwrite the baseline"),
        (("--json", "-"), "--json - is not a path of a file"),
        (("--json", "none/x.json"), "folder none not found"),
        (("--out", "eval.yaml"), "--out eval.yaml must be a folder, but is a file; name a folder"),
    ],
    ids=["config", "traces", "out", "twice", "baseline", "stdout", "folder", "file"],
)
def test_reports_replace_nothing_that_is_read(
    here: Path, flags: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("main.json").write_text('{"type": "verdict.result", "schema_version": 1, "tests": []}', encoding="utf-8")
    judged = CONFIG.replace("{type: must_contain, value: '30'}", "{type: faithfulness}")
    Path("eval.yaml").write_text(judged + "baseline: main.json\n", encoding="utf-8")
    before = {path.name: path.read_bytes() for path in here.iterdir()}
    assert ci(*flags) == 2
    assert said in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in here.iterdir()} == before


def test_a_link_stays_a_link_and_permissions_stay(here: Path) -> None:
    Path("real.json").write_text("old", encoding="utf-8")
    Path("real.json").chmod(0o640)
    Path("link.json").symlink_to("real.json")
    assert ci("--json", "link.json") == 0
    assert Path("link.json").is_symlink()
    assert json.loads(Path("real.json").read_bytes())["type"] == "verdict.result"
    assert Path("real.json").stat().st_mode & 0o777 == 0o640


def test_a_report_may_go_to_a_pipe(here: Path) -> None:
    code = "from evalkit.core.files import write_whole; write_whole('/dev/stdout', [b'half ', b'and half'])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout == "half and half"
    assert Path("/dev/stdout").exists()


def started(code: str, here: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=here, env=environment(), stdout=subprocess.PIPE, text=True
    )


WRITER = """
import time
from evalkit.core.files import write_whole
def chunks():
    yield b"new " * 100_000
    print("half", flush=True)
    time.sleep(60)
write_whole({name!r}, chunks())
"""
ENRICHER = """
import time
from evalkit.gate import trace_enriching as enrichment
written, at = enrichment._rewritten, []
def slow(line, *rest, **more):
    at.append(1)
    if len(at) == 150:
        print("half", flush=True)
        time.sleep(60)
    return written(line, *rest, **more)
enrichment._rewritten = slow
enrichment.enrich({name!r}, {name!r}, {{line: {{"r": {{"score": 1.0}}}} for line in range(1, 301)}})
"""


@pytest.mark.parametrize("code", [WRITER, ENRICHER], ids=["report", "traces"])
def test_kill_9_half_way_leaves_the_old_file(here: Path, code: str) -> None:
    """The process is killed after half of the content was handed over: the old file is there, byte by byte."""
    rows = [TRACE | {"request_id": f"t{at}", "response": "x" * 4_000} for at in range(300)]
    write_lines(here / "old.jsonl", rows)
    before = (here / "old.jsonl").read_bytes()
    process = started(code.format(name="old.jsonl"), here)
    assert process.stdout is not None
    guard = threading.Timer(60, process.kill)
    guard.start()
    try:
        assert process.stdout.readline() == "half\n"
        process.send_signal(signal.SIGKILL)
        assert process.wait(300) == -signal.SIGKILL
    finally:
        guard.cancel()
        process.stdout.close()
    assert (here / "old.jsonl").read_bytes() == before
    assert any(path.name.startswith(".old.jsonl.") for path in here.iterdir()), "it was really under way"


def test_a_full_disk_leaves_the_old_file_and_says_so(here: Path) -> None:
    """A limit on file size stands for the full disk: the write itself fails, half-way."""
    (here / "old.json").write_text("old", encoding="utf-8")
    code = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))\n"
        "from evalkit.errors import InputError\n"
        "from evalkit.core.files import write_whole\n"
        "try:\n"
        "    write_whole('old.json', [b'x' * 3_000] * 4)\n"
        "except InputError as problem:\n"
        "    print(problem)\n"
    )
    process = started(code, here)
    said, _ = process.communicate(timeout=300)
    assert said == "old.json cannot be written: file too large\n"
    assert (here / "old.json").read_text(encoding="utf-8") == "old"
    assert not [path for path in here.iterdir() if path.name.startswith(".old")], "nothing is left beside it"


def test_a_trace_file_that_changed_since_it_was_judged_is_left_alone(here: Path) -> None:
    since = stamp_of("traces.jsonl")
    changed = json.dumps(TRACE | {"request_id": "before"}) + "\n" + json.dumps(TRACE) + "\n"
    Path("traces.jsonl").write_text(changed, encoding="utf-8")
    with pytest.raises(InputError, match="changed after evalkit read it, so nothing was written"):
        enrich("traces.jsonl", "traces.jsonl", {1: {"r": {"score": 1.0}}}, since=since)
    assert Path("traces.jsonl").read_text(encoding="utf-8") == changed


def test_two_who_judge_a_trace_file_at_once_lose_nothing_unsaid(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second comes after the first looked whether the file changed, and before it is replaced."""
    since, fsync, refused = stamp_of("traces.jsonl"), os.fsync, []

    def write() -> None:
        try:
            enrich("traces.jsonl", "traces.jsonl", {1: {"second": {"score": 0.0}}}, since=since)
        except InputError as problem:
            refused.append(str(problem))

    second = threading.Thread(target=write)

    def slow_fsync(file: int) -> None:
        monkeypatch.setattr(os, "fsync", fsync)
        second.start()
        second.join(0.5)  # it waits for the first to end, or is faster and loses what it wrote
        fsync(file)

    monkeypatch.setattr(os, "fsync", slow_fsync)
    enrich("traces.jsonl", "traces.jsonl", {1: {"first": {"score": 1.0}}}, since=since)
    second.join(300)
    assert len(refused) == 1
    assert refused[0].startswith("traces.jsonl changed after evalkit read it, so nothing was written")
    assert list(json.loads(Path("traces.jsonl").read_text("utf-8"))["meta"]["verdict"]["judge"]) == ["first"]
    assert sorted(path.name for path in here.iterdir()) == ["eval.yaml", "traces.jsonl"]


@pytest.mark.parametrize("content", [[], [b""]], ids=["none", "empty"])
def test_no_content_is_an_empty_file(here: Path, content: list[bytes]) -> None:
    write_whole("empty", content)
    assert Path("empty").read_bytes() == b""


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--template", "tagged@v1", "--offline"), "unrecognized arguments: --template tagged@v1 --offline"),
        (("--json",), "unrecognized arguments: --json"),
        (("--judge", "fake", "--no-judge"), "--judge takes one judge, got fake, none, which is what --no-judge means"),
        (
            ("--judge", "fake", "--judge", "fake:lenient"),
            "write it once with 'evalkit freeze jury.yaml --rubric R --judge fake --judge fake:lenient', then pass",
        ),
        (("-o", "none/t.jsonl"), "--out none/t.jsonl cannot be written"),
        (("-o", "eval.yaml"), "--out eval.yaml cannot be written"),
    ],
    ids=["flags", "json", "judges", "jury", "folder", "config"],
)
def test_flags_that_mean_nothing_to_traces_are_refused(
    here: Path, flags: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", "--config", "eval.yaml", "--trace-file", "traces.jsonl", *flags]) == 2
    assert said in capsys.readouterr().err


def test_the_gates_flags_record_too(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = {"context": ["Goods are taken back for 30 days."]}
    write_lines(Path("traces.jsonl"), [TRACE | context])
    Path("eval.yaml").write_text("tests: [{id: t, expected: {type: faithfulness}}]\n", encoding="utf-8")
    files = ("judge", "--config", "eval.yaml", "--trace-file", "traces.jsonl")

    def samples() -> list[Any]:
        line = json.loads(Path("traces.jsonl").read_text(encoding="utf-8"))
        found: list[Any] = line["meta"]["verdict"]["judge"]["faithfulness"]["samples"]
        return found

    assert main([*files, "--judge", "fake", "--judge-samples", "2"]) == 0
    assert len(samples()) == 2
    assert main([*files, "--judge", "fake", "--judge-samples", "4"]) == 0
    assert len(samples()) == 4
    monkeypatch.setenv("VERDICT_JUDGE", "fake")
    assert main([*files, "--no-judge", "--judge-samples", "3"]) == 0, "three of the four are cached"
    assert len(samples()) == 3


def test_no_report_says_passed_where_the_exit_code_is_2(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The traces change while they are judged: the enriched copy is refused, and no report was written before it."""
    from evalkit.gate import runner as running

    match = running.match

    def change(*given: Any, **more: Any) -> Any:
        found = match(*given, **more)
        Path("traces.jsonl").write_text(json.dumps(TRACE) + "\n\n", encoding="utf-8")
        return found

    monkeypatch.setattr(running, "match", change)
    assert ci("--out", "results", "--junit", "junit.xml") == 2
    assert list(Path("results").iterdir()) == []
    assert not Path("junit.xml").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tests": None}, "is not a result file"),
        ({"tests": [{"id": "t", "metrics": [{"type": "faithfulness", "judgments": [{}]}]}]}, "is not a result file"),
        ("passed", "is not a result file"),
        ("score", "is not a result file"),
        ("twice", "has two results for one metric of a test"),
    ],
)
def test_a_baseline_that_was_damaged_is_refused(
    here: Path, change: Any, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    judgment = {"passed": True, "score": 1.0} | ({change: "yes"} if change in ("passed", "score") else {})
    test = {"id": "t", "metrics": [{"type": "faithfulness", "judgments": [judgment]}]}
    result = {"type": "verdict.result", "schema_version": 1, "tests": [test] * (2 if change == "twice" else 1)}
    Path("main.json").write_text(json.dumps(result | (change if isinstance(change, dict) else {})), encoding="utf-8")
    judged = CONFIG.replace("{type: must_contain, value: '30'}", "{type: faithfulness}")
    Path("eval.yaml").write_text(judged + "baseline: main.json\n", encoding="utf-8")
    assert ci() == 2
    assert f"baseline main.json {said}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options", [{"samples": True}, {"samples": 3.0}, {"samples": 0}, {"budget_usd": True}], ids=str
)
def test_a_flag_that_is_no_number_is_refused(here: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="must be a"):
        run_gate("eval.yaml", "traces.jsonl", GateOptions(**options))


# -- a configuration of several tests in blocks


def _block(n: int) -> str:
    rows = [f"  - id: t{at}\n    expected:\n      type: faithfulness\n      min_score: 0.85\n" for at in range(n)]
    return "tests:\n" + "".join(rows)


def test_a_typo_in_every_test_is_shown_once(tmp_path: Path) -> None:
    tests = [{"id": f"t{at}", "expected": {"type": "faithfulness", "min_scor": 1}} for at in range(9)]
    (tmp_path / "eval.json").write_text(json.dumps({"tests": tests}))
    with pytest.raises(ConfigError) as caught:
        load_gate(tmp_path / "eval.json")
    assert str(caught.value).count("min_scor'") == 1
    assert str(caught.value).endswith("schema_file, calls) (and 8 more)")
    (tmp_path / "eval.json").write_text('{"tests": []}')
    with pytest.raises(ConfigError, match="line 1: tests: must have at least 1 item, got a list"):
        load_gate(tmp_path / "eval.json")


def test_a_yaml_word_like_on_is_text(tmp_path: Path) -> None:
    path = tmp_path / "eval.yaml"
    path.write_text(_block(20).replace("id: t3", "id: on"), encoding="utf-8")
    assert load_gate(path).tests[3].id == "on", "YAML 1.2: no boolean"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    expected:\n", "    id: again\n    expected:\n", "line 7: .*duplicate key 'id'"),
        ("id: t1\n", "id: [t1\n", "line "),
        ("0.85", "1.85", "line 9: tests.1..expected.0..min_score"),
    ],
    ids=["duplicate", "syntax", "range"],
)
def test_errors_of_a_long_file_name_their_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "eval.yaml"
    head, tail = _block(1), _block(3).removeprefix("tests:\n")
    rest = tail.replace("t0", "t9")
    path.write_text(head + rest.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_gate(path)


def test_an_empty_configuration_and_one_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "eval.yaml"
    path.write_bytes(b"")
    with pytest.raises(ConfigError, match="mapping with tests"):
        load_gate(path)
    path.write_bytes(b"tests: \xff\xfe")
    with pytest.raises(ConfigError, match=r"eval.yaml.*UTF-8"):
        load_gate(path)
