"""Notebooks that nobody watches: no progress, and outputs that nbval finds again, the cache being empty or full."""

from __future__ import annotations

import configparser
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from page_blocks import blocks_of
from places import ROOT
from servers import judge_server
from warm_process import OF_KERNEL, WarmProcess

pytest.importorskip("ipykernel", reason="the notebook extra is not installed")
nbformat = pytest.importorskip("nbformat", reason="nbval is not installed")
pytest.importorskip("nbval", reason="nbval is not installed")

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
RULES = ROOT / "notebooks" / "sanitize.cfg"


def code_cells(path: Path) -> list[Any]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def rules_of(text: str) -> list[tuple[str, str]]:
    parsed = configparser.RawConfigParser()
    parsed.read_string(text)
    return [(parsed[name]["regex"], parsed[name]["replace"]) for name in parsed.sections()]


def page_rules() -> str:
    page = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
    return next(block.body for block in blocks_of(page) if block.words == ("ini",))


@pytest.fixture(scope="module")
def regenerate() -> Any:
    spec = importlib.util.spec_from_file_location("regenerate", ROOT / "notebooks" / "regenerate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_the_replacements_that_the_notebooks_are_checked_with() -> None:
    assert rules_of(page_rules()) == rules_of(RULES.read_text(encoding="utf-8"))


def test_stored_outputs_have_nothing_left_to_replace(regenerate: Any) -> None:
    assert len(NOTEBOOKS) == 12
    for path in NOTEBOOKS:
        for cell in code_cells(path):
            for output in cell.outputs:
                for text in (output.get("text"), *output.get("data", {}).values()):
                    assert regenerate.plain(text) == text, (path.name, cell.source)


def test_a_cell_whose_output_is_not_compared_asserts_something() -> None:
    ignored = [
        (path.name, cell.source)
        for path in NOTEBOOKS
        for cell in code_cells(path)
        if "nbval-ignore-output" in cell.metadata.get("tags", [])
    ]
    assert ignored
    assert all("\nassert " in source for _, source in ignored), ignored


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("run in /tmp/tmp1lrlem4z/run, ok", "run in .../run, ok"),
        ("--registry '/var/folders/a1/T/tmpab_d1234/r.sqlite'", "--registry '.../r.sqlite'"),
        ("<p>/tmp/tmp1lrlem4z</p>", "<p>...</p>"),
        ("cached in /tmp/tmp.Xa5bC9dE0f", "cached in ..."),  # mktemp -d
        ("/tmp/ipykernel_271/40252.py:2: UserWarning: hm", "cell:2: UserWarning: hm"),
        ("run 20261126-142352-af126d: succeeded in 35 s", "run 20260131-120000-000000: succeeded in ... s"),
        ("fitted on 2026-11-26", "fitted on 2026-01-31"),
        # what says something stays
        ("72 of 72, 0.69 [0.47, 0.85], US$ 0.0120, pages/tmpfile.html", None),
        ("216 live replies, 0% from the cache", None),
        ("Cost: 216 asked now (US$ 0.0000), 0 from the cache (US$ 0.0000 when bought)", None),
    ],
)
def test_what_differs_from_run_to_run_is_not_stored(regenerate: Any, text: str, stored: str | None) -> None:
    assert regenerate.plain(text) == (text if stored is None else stored)


@pytest.fixture(scope="module", autouse=True)
def _warm_kernels() -> Iterator[None]:
    """Kernels are forks of a process that has loaded the libraries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", WarmProcess("kernels", OF_KERNEL).kernels())
        yield


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client of a running kernel with an offline judge in it."""
    from jupyter_client.manager import start_new_kernel

    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "EVALKIT_CACHE": str(tmp_path_factory.mktemp("cache")),
        "IPYTHONDIR": str(tmp_path_factory.mktemp("ipython")),
    }
    running, client = start_new_kernel(kernel_name="python3", env=environment)
    try:
        client.execute_interactive("import evalkit as ek\nitems, _ = ek.load_example('facts')", timeout=300)
        yield client
    finally:
        client.stop_channels()
        running.shutdown_kernel(now=True)


def shown(client: Any, samples: int, progress: str, *, watched: bool) -> str:
    """What a cell writes on stderr that asks for a further sample, so for live calls."""
    said: list[str] = []

    def hook(message: dict[str, Any]) -> None:
        assert message["msg_type"] != "error", message["content"]
        if message["content"].get("name") == "stderr":
            said.append(message["content"]["text"])

    cell = f"_ = ek.judge(items, 'correctness', 'fake:strict', samples={samples}{progress})"
    client.execute_interactive(cell, allow_stdin=watched, output_hook=hook, timeout=300)
    return "".join(said)


def test_progress_is_shown_in_notebooks_that_somebody_watches(kernel: Any) -> None:
    assert "evalkit: 0 of 20 judgments cached" in shown(kernel, 1, "", watched=True)
    assert shown(kernel, 2, "", watched=False) == ""
    assert "evalkit: 40 of 60 judgments cached" in shown(kernel, 3, ", progress=True", watched=False)
    assert shown(kernel, 4, ", progress=False", watched=True) == ""
    assert "evalkit: 80 of 100 judgments cached" in shown(kernel, 5, "", watched=True)


CELLS = (
    (
        "import tempfile\nimport warnings\nimport evalkit as ek\n"
        "items, labels = ek.load_example('facts')\n"
        "@ek.Judge.function(name='always', version='1')\n"
        "def always(prompt):\n"
        '    return \'{"explanation": "so", "score": 2}\''
    ),
    "evaluation = ek.evaluate(items, 'correctness', ['fake:strict', always], samples=2, labels=labels)\nevaluation",
    "plan = ek.plan(items, 'correctness', 'fake:strict')\nassert plan.table['n_judgments'].sum() > 0\nplan",
    "evaluation.judgments[['item_id', 'judge', 'score', 'explanation']].head(3)",
    "ek.plots.plot_calibration(ek.calibrate(evaluation, labels))",
    "warnings.warn('mind this')\nprint(tempfile.mkdtemp())",
)


def test_a_notebook_written_as_the_page_says_passes_strictly_cold_and_warm(tmp_path: Path) -> None:
    path, rules = tmp_path / "verdicts.ipynb", tmp_path / "sanitize.cfg"
    rules.write_text(page_rules(), encoding="utf-8")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    book.cells[2].metadata["tags"] = ["nbval-ignore-output"]
    nbformat.write(book, path)

    def run(*command: str, cache: str) -> str:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "EVALKIT_CACHE": str(tmp_path / cache),
            "IPYTHONDIR": str(tmp_path / "ipython"),
        }
        done = subprocess.run(
            [sys.executable, "-m", *command, path.name],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500, check=False,
        )  # fmt: skip
        return done.stdout + done.stderr

    run("nbconvert", "--to", "notebook", "--execute", "--inplace", cache="stored")
    stored = code_cells(path)
    assert "80 asked now" in str(stored[1].outputs)
    assert {output.name for output in stored[5].outputs} == {"stderr", "stdout"}
    check = ("pytest", "-q", "-p", "no:cacheprovider", "--nbval", "--nbval-current-env")
    strictly = (*check, "--nbval-sanitize-with", rules.name)
    assert "6 passed" in run(*strictly, cache="own")
    assert "6 passed" in run(*strictly, cache="own")
    bare = run(*check, cache="own")  # what the file of replacements is for
    assert "2 failed, 4 passed" in bare
    assert all(f"::Cell {at} " in bare for at in (1, 5))


JUDGED = (
    (
        "import evalkit as ek\n"
        "judge = ek.Judge('openai', 'judge-7b', base_url={url!r}, api_key_env='NBVAL_KEY')\n"
        "items = [{{'question': f'{{n}}?', 'answer': f'ITEM-{{n % 3}}', 'reference': 'r'}} for n in range(4)]\n"
        "memory = ek.memory()"
    ),
    "evaluation = ek.evaluate(items, 'correctness', judge, samples=2)\nevaluation",
    (
        "@memory.cache\ndef ask(judge, prompt):\n"
        "    from urllib.request import Request, urlopen\n    import json, os\n"
        "    body = json.dumps({{'model': judge.model, 'messages': prompt.messages}}).encode()\n"
        "    request = Request({url!r} + '/chat/completions', body, {{'Content-Type': 'application/json'}})\n"
        "    return json.load(urlopen(request))['choices'][0]['message']['content']\n"
        "ask(judge, ek.build_prompt('correctness', {{'question': '9?', 'answer': 'ITEM-2', 'reference': 'r'}}))"
    ),
)


def test_a_notebook_with_a_real_judge_is_checked_against_its_recorded_replies(tmp_path: Path) -> None:
    path, rules = tmp_path / "verdicts.ipynb", tmp_path / "sanitize.cfg"
    rules.write_text(page_rules(), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("EVALKIT", "NBVAL"))}
    environment |= {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "IPYTHONDIR": str(tmp_path / "ipython"),
    }

    def run(*command: str, ok: bool = True, **more: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=tmp_path, env=environment | more, capture_output=True, text=True, timeout=500, check=False,
        )  # fmt: skip
        assert not ok or done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    execute = ("nbconvert", "--to", "notebook", "--execute", "--inplace", path.name)
    strictly = ("pytest", "-q", "-p", "no:cacheprovider", "--nbval", "--nbval-current-env")
    strictly += ("--nbval-sanitize-with", rules.name, path.name)
    paid, recorded = {"EVALKIT_CACHE": str(tmp_path / "paid")}, {"EVALKIT_CACHE": str(tmp_path / "recorded")}
    with judge_server() as server:
        cells = [nbformat.v4.new_code_cell(source.format(url=server.url)) for source in JUDGED]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
        run(*execute, **paid, NBVAL_KEY="secret")
        assert len(server.seen) == 5
    run("evalkit", "cache", "export", "replies.jsonl", "--cache", "paid")
    run("evalkit", "cache", "import", "replies.jsonl", "--cache", "recorded")
    (tmp_path / "recorded" / ".gitignore").unlink()
    assert [file.name for file in (tmp_path / "recorded").iterdir()] == ["replies.sqlite"]
    run(*execute, **recorded)  # no key, and the server is gone
    assert "0 asked now" in str(code_cells(path)[1].outputs)
    assert "3 passed" in run(*strictly, **recorded)
    book = nbformat.read(path, as_version=4)
    book.cells[1].source = book.cells[1].source.replace("samples=2", "samples=3")  # what was not recorded
    nbformat.write(book, path)
    assert "1 failed, 2 passed" in run(*strictly, ok=False, **recorded)


def test_a_notebook_runs_again_in_a_new_kernel_with_the_same_cache(tmp_path: Path) -> None:
    # The first cell shows the run's number, which the cache keeps; the second one that the kernel knows nothing.
    count = "import os, pathlib\nfile = pathlib.Path(os.environ['EVALKIT_CACHE'], 'runs')\n"
    count += "_ = file.write_text(file.read_text() + 'x' if file.exists() else 'x')\nprint(len(file.read_text()))"
    book = nbformat.v4.new_notebook()
    for source, text in ((count, "1\n"), ("print('seen' in globals())\nseen = 1", "False\n")):
        output = nbformat.v4.new_output("stream", name="stdout", text=text)
        book.cells.append(nbformat.v4.new_code_cell(source, outputs=[output], execution_count=1))
    nbformat.write(book, tmp_path / "runs.ipynb")
    (tmp_path / "conftest.py").write_text((ROOT / "notebooks" / "conftest.py").read_text(encoding="utf-8"))
    (tmp_path / "sanitize.cfg").write_text("")
    command = ["-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--nbval", "--nbval-current-env", "-rA"]
    own = {"EVALKIT_CACHE": str(tmp_path), "NOTEBOOKS_TWICE": "1"}
    done = subprocess.run(
        [sys.executable, *command, "--rootdir", str(tmp_path), "runs.ipynb"], cwd=tmp_path, env=os.environ | own,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    ends = [line.split(" - ")[0] for line in done.stdout.splitlines() if line.startswith(("PASSED", "FAILED"))]
    first, again = "runs.ipynb::Cell", "runs.ipynb::again::Cell"
    assert sorted(ends) == [f"FAILED {again} 0", f"PASSED {first} 0", f"PASSED {first} 1", f"PASSED {again} 1"]
