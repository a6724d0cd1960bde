"""The pages under docs/: their Python runs, their commands parse, their links lead somewhere."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import types
import warnings
from pathlib import Path
from typing import Any

import pytest
from commandline import command, environment
from page_blocks import _FENCE, Block, blocks_of
from places import ROOT

import evalkit as ek

USER_PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
PAGES = sorted([*USER_PAGES, ROOT / "CONTRIBUTING.md", *(ROOT / "docs" / "adr").glob("*.md")])

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(?P<text>.+?)\s*$", re.MULTILINE)
_SHELL = ("bash", "console", "sh", "shell")


def python_blocks(page: Path) -> list[Block]:
    return [block for block in blocks_of(page.read_text(encoding="utf-8")) if block.words[:1] == ("python",)]


def commands_of(text: str) -> list[list[str]]:
    """The arguments of each `evalkit` command in shell blocks, up to a pipe, redirection or comment."""
    commands = []
    for block in blocks_of(text):
        if not block.words or block.words[0] not in _SHELL:
            continue
        for line in block.body.replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line.strip().removeprefix("$ "), posix=True, punctuation_chars="|;&<>")
            lexer.whitespace_split = True
            words = list(lexer)
            end = next((at for at, word in enumerate(words) if word[0] in "|;&<>"), len(words))
            if words[:1] == ["evalkit"]:
                commands.append(words[1:end])
    return commands


def anchors_of(page: Path) -> set[str]:
    """Anchors of the headings, as repository hosts make them."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    plain = (re.sub(r"[^\w\- ]", "", match["text"].casefold()) for match in _HEADING.finditer(text))
    return {heading.replace(" ", "-") for heading in plain}


def broken_links(page: Path) -> list[str]:
    broken = []
    for match in _LINK.finditer(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        target = match["target"]
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        name, _, anchor = target.partition("#")
        place = (page.parent / name).resolve() if name else page
        if not place.exists() or (anchor and anchor not in anchors_of(place)):
            broken.append(target)
    return broken


def run_block(block: Block, names: dict[str, Any], page: str) -> str:
    """Run one block in `names`; gives what it printed. Errors show the page's own line."""
    code = compile("\n" * (block.line - 1) + block.body, page, "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    return printed.getvalue()


def refuse_live_calls(judge: Any) -> None:
    raise AssertionError(f"a page must not ask judge {judge.name!r}: mark the block 'python no-run'")


# -- the pages


@pytest.mark.parametrize("page", USER_PAGES, ids=lambda page: page.name)
def test_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from evalkit.engine.providers import openai

    blocks = python_blocks(page)
    if not blocks:
        pytest.skip("no Python on this page")
    monkeypatch.chdir(tmp_path)
    for table in (ROOT / "docs").glob("*.csv"):  # those that pages offer for download
        shutil.copy(table, tmp_path)
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(openai, "check", refuse_live_calls)
    monkeypatch.setattr(openai, "connect", refuse_live_calls)
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # dataclasses look their module up
    for block in blocks:
        if "no-run" in block.words:
            compile(block.body, f"{page.name}:{block.line}", "exec")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ek.errors.EvalkitWarning)
            printed = run_block(block, vars(module), page.name)
        if block.output is not None:
            assert printed.rstrip() == block.output.rstrip(), f"{page.name}, line {block.line}"


def _all_commands() -> list[tuple[str, list[str]]]:
    return [(page.name, command) for page in USER_PAGES for command in commands_of(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("page", "command"), _all_commands(), ids=lambda value: " ".join(value)[:60])
def test_commands_parse(page: str, command: list[str]) -> None:
    try:
        commands = importlib.import_module("evalkit.cli.main_command")
    except ImportError as problem:
        pytest.skip(f"the command line cannot be imported: {problem}")
    try:
        commands.parse_arguments(command)
    except SystemExit as end:
        assert not end.code, f"{page}: evalkit {shlex.join(command)}"  # noqa: PT017  # --help ends with 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_the_page_lists_the_layers_that_are_enforced() -> None:
    kept = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = page.partition("```\ncli\n")[2].partition("\n```")[0]
    assert ["cli", *listed.split("\n")] == kept[0]["layers"]
    rooms = {name for layer in kept[0]["layers"] for name in layer.split(" | ")}
    assert {path.name for path in (ROOT / "evalkit").iterdir() if (path / "__init__.py").exists()} == rooms
    described = re.findall(r"^\| `(\w+)` \|", page.partition("## The packages")[2].partition("## ")[0], re.MULTILINE)
    assert set(described) == rooms


def test_the_pages_list_each_column_and_each_command() -> None:
    items, _ = ek.load_example("support")
    made = ek.evaluate(items.head(2), "faithfulness", "fake:strict", progress=False)
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## Tables")[2]
    for name in ("judgments", "votes", "scores", "rubric scores", "summary"):
        row = re.search(rf"^\| {name} \|.*$", page, re.MULTILINE)
        assert row is not None
        listed = {*re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", row[0]))), "rubric", "rubric_version"}
        assert listed == {*getattr(made, name.replace(" ", "_"))}, name
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    rows = "".join(re.findall(r"^\| (`.*?) \|", page, re.MULTILINE))
    commands = importlib.import_module("evalkit.cli.main_command")._COMMANDS
    assert {*re.findall(r"\w+", rows)} >= {name for own in commands.values() for name in own}


def _linked(page: Path) -> set[Path]:
    """The pages to which a page links."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = (match["target"].partition("#")[0] for match in _LINK.finditer(text))
    return {place for target in targets if (place := (page.parent / target).resolve()).suffix == ".md"}


def test_the_index_leads_to_every_page() -> None:
    reached, new = set(), {ROOT / "docs" / "index.md"}
    for _ in range(4):  # the index, its four parts, their pages, decision records
        reached |= new
        new = {page for place in new if place.is_file() for page in _linked(place)} - reached
    pages = {page.resolve() for page in (ROOT / "docs").rglob("*.md")}
    assert {page.name for page in pages - reached if page.parent.name != "api"} == set()  # its contents list them


# -- what docs/cache.md says of who is asked again

_TALK: list[dict[str, str]] = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]
_ITEMS: list[dict[str, Any]] = [
    {"item_id": name, "conversation": [*_TALK, {"role": "user", "content": name}]} for name in "ab"
]
_JUDGES = (ek.Judge("fake", "strict"), ek.Judge("fake", "lenient"))
_RUBRIC = ek.load_rubric("conversation_quality")  # four criteria: 2 items × 4 criteria × 2 judges × 3 samples = 48


def _with(**changes: Any) -> tuple[ek.Judge, ek.Judge]:
    """The judges, the first one changed."""
    return _JUDGES[0].replace(**changes), _JUDGES[1]


def _again(items: Any = _ITEMS, rubric: Any = _RUBRIC, judges: Any = _JUDGES, samples: int = 3, **options: Any) -> int:
    return ek.plan(items, rubric, list(judges), samples=samples, **options).n_to_call


def _edited(**changes: Any) -> ek.Rubric:
    return _RUBRIC.edit("tone", **changes)


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        ({}, 0),
        ({"items": _ITEMS[::-1]}, 0),
        ({"items": [{**item, "item_id": item["item_id"] + "2", "note": 1} for item in _ITEMS]}, 0),
        ({"rubric": _edited(pass_at=2)}, 0),
        ({"rubric": _edited(weight=3.0, critical=True)}, 0),
        ({"rubric": _edited(better="low")}, 0),
        ({"judges": _with(name="x", weight=2.0, price=(1, 1), timeout_s=5.0, api_key_env="SOME_KEY")}, 0),
        ({"samples": 5}, 2 * 4 * 2 * 2),
        ({"samples": 1}, 0),
        ({"items": [_ITEMS[0], {"item_id": "b", "conversation": _TALK}]}, 1 * 4 * 2 * 3),
        ({"rubric": _edited(scale={1: "other words"})}, 2 * 1 * 2 * 3),
        ({"rubric": _edited(description="other words")}, 2 * 1 * 2 * 3),
        ({"rubric": _edited(name="manners")}, 2 * 1 * 2 * 3),
        ({"rubric": _RUBRIC.edit(description="other words")}, 48),
        ({"rubric": _RUBRIC.edit(layout="item_first")}, 48),
        ({"rubric": ek.Rubric(**(_RUBRIC.to_dict() | {"version": "v9"}))}, 48),
        ({"template": "tagged@v1"}, 48),
        ({"judges": _with(template="tagged@v1")}, 24),
        ({"judges": _with(temperature=0.5)}, 24),
        ({"judges": _with(max_tokens=100)}, 24),
        ({"judges": _with(params={"seed": 1})}, 24),
        ({"judges": _with(service="elsewhere")}, 24),
        ({"judges": (*_JUDGES, ek.Judge("fake", "noisy"))}, 24),
        ({"items": [*_ITEMS, {"item_id": "c", "conversation": _TALK}, {"item_id": "d", "conversation": _TALK}]}, 24),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else str(value),
)  # fmt: skip
def test_who_is_asked_again(change: dict[str, Any], asked: int) -> None:
    ek.judge(_ITEMS, _RUBRIC, list(_JUDGES), samples=3)
    assert _again(**change) == asked


def test_a_store_opened_to_read_replays_and_takes_nothing(tmp_path: Path) -> None:
    ek.judge(_ITEMS, _RUBRIC, list(_JUDGES), samples=1, cache=tmp_path)
    ek.engine.ReplyStore.open(tmp_path).close()
    store = ek.engine.ReplyStore.open(tmp_path, read_only=True)
    assert store.stats()["n_replies"] == 2 * 4 * 2
    with pytest.raises(ek.errors.CacheError, match="read-only"):
        store.check_writable()


# -- the first block of a page that the list of tasks names


class AskedError(Exception):
    """A block came as far as asking a judge."""


def _run_shell(block: Block, page: str, folder: Path) -> None:
    """Run the commands of a block with bash, fake judges in place of live ones."""
    for match in re.finditer(r"here `([\w.]+)`.*?^```\w+\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        (folder / match[1]).write_text(match[2])  # a file that the page shows
    skipped = ("pip ", "export ", "EVALUATOR_")  # an installation; a server; a model
    lines = [line for line in block.body.splitlines() if not line.startswith(skipped) and "postgresql:" not in line]
    script = re.sub(r"--judge openai:\S+", "--judge fake:strict", "\n".join(lines))
    (folder / "evalkit").write_text(f'#!/bin/sh\nexec {shlex.join(command())} "$@"\n')
    (folder / "evalkit").chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    env = environment() | {"PATH": path, "EVALKIT_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-ec", script], cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"


@pytest.mark.long
def test_the_first_block_of_each_how_to_page_runs_from_an_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evalkit.engine.providers import openai

    def asked(*_: object, **__: object) -> None:
        raise AskedError

    for name in ("check", "connect"):
        monkeypatch.setattr(openai, name, asked)
    how_to = ROOT / "docs" / "how-to.md"
    ran = []
    for page in sorted({how_to, *_linked(how_to)}):
        text = page.read_text(encoding="utf-8")
        block = next(
            (one for one in blocks_of(text) if one.words[:1] in [(kind,) for kind in ("python", *_SHELL)]), None
        )
        folder = tmp_path / page.stem
        folder.mkdir()
        if block is None or "evalkit label" in block.body:  # it serves until Ctrl+C
            continue
        monkeypatch.chdir(folder)
        monkeypatch.setenv("EVALKIT_CACHE", str(folder / "cache"))
        if block.words[0] == "python":
            module = types.ModuleType("page")
            monkeypatch.setitem(sys.modules, "page", module)
            with (
                warnings.catch_warnings(action="ignore", category=ek.errors.EvalkitWarning),
                contextlib.suppress(AskedError),
            ):
                run_block(block, vars(module), page.name)
        else:
            _run_shell(block, text, folder)
        ran.append(page.stem)
    assert {"tuner", "batches", "gate-in-ci", "gate", "label-together", "local-models"} <= {*ran}


def test_the_command_of_the_label_page_reads_the_file_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = next(
        words for words in commands_of((ROOT / "docs" / "how-to.md").read_text("utf-8")) if words[0] == "label"
    )
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "docs" / "library.csv", tmp_path)
    options = importlib.import_module("evalkit.cli.main_command").parse_arguments(words)
    page = ek.notebook.LabelPage(
        options.items,
        options.rubric,
        annotator=options.annotator[0],
        item_id=options.item_id,
        inputs=dict(options.inputs),
    )
    assert page.state["form"]["n"] == 96


# -- the reading of pages can fail

SAMPLE = """# A page: with `code`
```python
print(1)
```

```text
1
```
Prose.
```python no-run
x =
```
```text
no output of the block above? it is
```
```console
$ evalkit plan items.jsonl \\
    --rubric faithfulness | head > out.txt
1 row
```
"""


def test_blocks_and_their_output_are_found() -> None:
    first, _, second, *_ = blocks_of(SAMPLE)
    assert (first.words, first.body, first.line, first.output) == (("python",), "print(1)\n", 3, "1\n")
    assert (second.words, second.line) == (("python", "no-run"), 11)


def test_commands_end_at_the_pipe_and_go_on_over_lines() -> None:
    assert commands_of(SAMPLE) == [["plan", "items.jsonl", "--rubric", "faithfulness"]]


def test_links_to_nowhere_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(SAMPLE + "[a](page.md) [b](#a-page-with-code) [c](none.md) [d](page.md#none) [e](https://x.org)")
    assert broken_links(page) == ["none.md", "page.md#none"]
