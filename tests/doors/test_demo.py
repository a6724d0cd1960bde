"""The demo in processes of its own: offline, from any folder, and without a call the second time."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from places import ROOT

from evalkit.cli import demo
from evalkit.evaluation import load_example

# every connection that is no pipe is refused, as on a machine without a network
COMMAND = "import sys, runpy; sys.argv = ['evalkit', 'demo']; runpy.run_module('evalkit', run_name='__main__')"
CODE = """
import socket
def refuse(*_): raise OSError("no network")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
from evalkit.cli import demo
demo.run()
"""


def ran(folder: Path, code: str = CODE, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", code],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )


def test_twice_the_second_time_from_a_locked_folder(tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir()
    first = ran(tmp_path)  # no project: the replies lie in the user's cache
    folder.chmod(0o555)  # does not stop root, so what lies there afterwards is looked at too
    try:
        second = ran(folder, EVALKIT_CACHE=str(tmp_path / ".cache" / "evalkit"))
    finally:
        folder.chmod(0o755)
    for done in (first, second):
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        assert "Traceback" not in done.stdout
        assert "A fake judge is not an LLM" in done.stdout
        lines = [line for line in done.stdout.splitlines() if str(tmp_path) not in line]
        assert max(map(len, lines)) <= 120
        assert re.findall(r"^── (\d)\. ", done.stdout, re.MULTILINE) == list("12345")
        assert re.search(r"judge +changed +by chance", done.stdout)
        assert re.search(r"jury +\d+ of 24 +up to \d", done.stdout)
    assert "0 cached (0%), 216 to call; free" in first.stdout
    assert "216 cached (100%), 0 to call; nothing to pay" in second.stdout
    assert [int(n) for n in re.findall(r"(\d+) asked now", second.stdout)] == [0]
    figures = [re.findall(r"\d\.\d\d \[.*?\]", done.stdout) for done in (first, second)]
    assert figures[0] == figures[1] != []
    assert {path.name for path in tmp_path.iterdir()} == {".cache", "locked"}  # nothing in the working folder
    assert list(folder.iterdir()) == []


def test_a_narrow_terminal_is_kept_to_and_no_prompt_is_cut(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path))
    whole = "You pay the return postage yourself unless the tent is faulty."
    for width in (80, 100):
        monkeypatch.setenv("COLUMNS", str(width))
        demo.run()
        # below stand commands to copy: they are not broken
        steps, _, _ = capsys.readouterr().out.partition("── Next steps")
        assert max(map(len, steps.splitlines())) <= width
        prompt = steps.partition("── 1.")[2].partition("── 2.")[0]
        assert whole in " ".join(line.strip().removeprefix("│").strip() for line in prompt.splitlines())
        assert re.search(r"^jury +\d+ of 24 +up to \d", steps.partition("── 5.")[2], re.MULTILINE)


def test_a_project_keeps_its_replies_beside_it(tmp_path):
    (tmp_path / "pyproject.toml").touch()
    done = ran(tmp_path, COMMAND, PYTHONIOENCODING="ascii")  # a terminal that knows no box-drawing
    assert done.returncode == 0, done.stderr
    assert "The replies are stored in cache/demo" in done.stdout
    assert (tmp_path / "cache" / "demo").is_dir()


def test_a_cache_that_cannot_be_written_is_one_line_of_error(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    done = ran(tmp_path, COMMAND, EVALKIT_CACHE=str(blocked / "cache"))
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("evalkit: error: ")
    assert str(blocked) in line


def test_its_numbers_are_those_of_the_example(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path))
    demo.run()
    text = capsys.readouterr().out
    items, labels = load_example("support")
    assert f"reads {len(items)} answers" in text
    assert f"{len(items)} items, {len(items) * len(demo.JURY) * 3} judgments" in text
    assert all(judge in text for judge in demo.JURY)
    assert f"{labels['item_id'].nunique()} of {len(items)}" in text
    assert f"The replies are stored in {tmp_path / 'demo'}" in text


def test_every_call_it_shows_is_there():
    import evalkit

    text = Path(demo.__file__).read_text(encoding="utf-8")
    for name in set(re.findall(r"\bek\.(\w+)", text)):
        assert hasattr(evalkit, name), name
