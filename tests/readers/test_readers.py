"""Readers of criteria: what each form holds, what it refuses, and one that a package brings."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import evalkit as ek
from evalkit.cli import main
from evalkit.errors import ConfigError, InputError
from evalkit.gate import GateConfig, GateOptions, Trace, run_gate
from evalkit.readers import find, names, renamed
from evalkit.rubrics.item_criteria import CriteriaForm, criteria_in

DATA = Path(os.environ.get("EVALKIT_DATA", "../shared/data")) / "item_criteria"

HEALTHBENCH = [
    {"criterion": "Names a dose", "points": 5, "tags": ["level:example", "axis:accuracy"]},
    {"criterion": "Invents a source", "points": -2, "tags": ["level:cluster", "cluster:x"]},
]
DEVAI = [
    {"requirement_id": 0, "prerequisites": [], "criteria": "Loads the data", "category": "Data", "satisfied": None},
    {"requirement_id": 1, "prerequisites": [0], "criteria": "Trains a model", "category": "Model", "satisfied": None},
]
PAPERBENCH = {
    "id": "root", "requirements": "All of it", "weight": 1, "task_category": None,
    "sub_tasks": [
        {"id": "x", "requirements": "X", "weight": 3, "sub_tasks": [], "task_category": "Code"},
        {"id": "g", "requirements": "G", "weight": 1, "sub_tasks": [
            {"id": "y", "requirements": "Y", "weight": 2, "sub_tasks": [], "finegrained_task_category": "Method"}]},
    ],
}  # fmt: skip
APEX = {
    "criterion 1": {"description": "States the tax", "weight": "Primary objective(s)", "sources": "a file",
                    "criterion_type": ["Reasoning"], "dependent_criteria": []},
    "criterion 2": {"description": "States the sum", "weight": "Not primary objective", "human_rating": True,
                    "criterion_type": ["Extraction", "Reasoning"], "dependent_criteria": [1]},
}  # fmt: skip
DR_TULU = {
    "query": "Why?",
    "rubrics": [{"description": "Names a cause", "title": "Cause", "weight": 0.5}],
    "positive_rubrics": [{"description": "Cites a review", "title": "Review"}],
    "negative_rubrics": [{"description": "Repeats itself", "title": "Again"}],
}
# id, text, points, axis, requires, the group above
READ = {
    "healthbench": (HEALTHBENCH, [("1", "Names a dose", 5, "accuracy", (), None),
                                  ("2", "Invents a source", -2, None, (), None)]),
    "devai": (DEVAI, [("0", "Loads the data", 1, "Data", (), None),
                      ("1", "Trains a model", 1, "Model", ("0",), None)]),
    "paperbench": (PAPERBENCH, [("x", "X", 3, "Code", (), ("root", 1)), ("y", "Y", 2, None, (), ("g", 1))]),
    "apex": (APEX, [("1", "States the tax", 1, "Reasoning", (), None),
                    ("2", "States the sum", 1, "Extraction, Reasoning", ("1",), None)]),
    "dr_tulu": (DR_TULU, [("1", "Names a cause", 0.5, None, (), None), ("2", "Cites a review", 1, None, (), None),
                          ("3", "Repeats itself", -1, None, (), None)]),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("as_json", [False, True])
def test_a_form_is_read_as_its_own_program_counts_it(name: str, *, as_json: bool) -> None:
    cell, expected = READ[name]
    criteria = criteria_in(json.dumps(cell) if as_json else cell, CriteriaForm(fields=name))
    rows = [(c.id, c.text, c.points, c.axis, c.requires, c.parents[0] if c.parents else None) for c in criteria]
    assert rows == expected


def test_every_reader_of_evalkit_is_tested() -> None:
    assert {*READ, "argilla", "label_studio"} == {*names("criteria"), *names("labels")}


def entries_of(name: str, cell: Any) -> list[dict[str, Any]]:
    """The innermost mappings of a form, each of which is a criterion."""
    return {"healthbench": lambda: cell, "devai": lambda: cell, "paperbench": lambda: cell["sub_tasks"],
            "apex": lambda: [*cell.values()], "dr_tulu": lambda: cell["negative_rubrics"]}[name]()  # fmt: skip


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("field", ["polarity", "weight_class", "text2", "must", "children"])
def test_what_a_reader_does_not_know_is_refused_by_name_and_may_be_left_out(name: str, field: str) -> None:
    cell = json.loads(json.dumps(READ[name][0]))
    entries_of(name, cell)[-1][field] = "x"
    with pytest.raises(InputError, match=rf"{field}.*ignore="):
        criteria_in(cell, CriteriaForm(fields=name))
    assert len(criteria_in(cell, CriteriaForm(fields=name, ignore=[field]))) == len(READ[name][1])


@pytest.mark.parametrize("name", READ)
def test_the_form_of_another_program_is_refused(name: str) -> None:
    others: list[Any] = [cell for other, (cell, _) in READ.items() if other != name]
    for cell in [*others, 3, {"criteria": ["a"], "penalties": ["b"]}, [{"title": "a", "weight": 2}]]:
        with pytest.raises(InputError):
            criteria_in(cell, CriteriaForm(fields=name))


def test_signs_that_a_reader_cannot_know_are_refused() -> None:
    for field in ("weight", "points"):
        negative = [{"description": "Repeats itself", "title": "Again", field: 2}]
        with pytest.raises(InputError, match=f"count -1 has '{field}'"):
            criteria_in({"negative_rubrics": negative}, CriteriaForm(fields="dr_tulu"))
    with pytest.raises(InputError, match="got one of 'rubrics', 'deductions'"):
        criteria_in({"rubrics": [], "deductions": []}, CriteriaForm(fields="dr_tulu"))
    with pytest.raises(InputError, match="several axes"):
        criteria_in([{"criterion": "a", "tags": ["axis:a", "axis:b"]}], CriteriaForm(fields="healthbench"))


def test_a_parent_that_the_tree_does_not_give_is_refused() -> None:
    tree = {"id": "root", "requirements": "All", "sub_tasks": [{"id": "x", "requirements": "X", "parent": "root"}]}
    for own, allowed in (("root", True), ("elsewhere", False)):
        tree["sub_tasks"][0]["parent"] = own
        if allowed:
            assert [one.id for one in criteria_in(tree, CriteriaForm(fields="paperbench"))] == ["x"]
        else:
            with pytest.raises(InputError, match="'x' has the parent 'elsewhere', but stands below 'root'"):
                criteria_in(tree, CriteriaForm(fields="paperbench"))


def test_two_fields_of_one_meaning_are_refused() -> None:
    with pytest.raises(InputError, match="the fields 'title', 'text' both give 'text'"):
        renamed({"title": "a", "text": "b"}, {"title": "text"})
    assert renamed("a", {"title": "text"}) == "a"


PACKAGE = """\
from evalkit.readers import Reader, renamed


def read(cell):
    return [renamed(entry, {'label': 'text', 'worth': 'points'}) for entry in cell['graders']]


def answers(rows):
    for row in rows:
        about = {'id': row['task'], 'fields': {}, 'criterion': 'requirement'}
        yield from (about | {'annotator': who, 'label': mark} for who, mark in row['marks'].items())


def sessions(rows):
    roles = {'bot': 'assistant', 'person': 'user'}
    for row in rows:
        messages = [{'role': roles[turn['by']], 'content': turn['says']} for turn in row['turns']]
        yield {'item_id': row['task'], 'task': row['goal'], 'answer': row['turns'][-1]['says'],
               'tests': row['tests'], 'messages': messages}


READER = Reader('graders', 'criteria', read)
LABELS = Reader('board', 'labels', lambda rows: [*answers(rows)])
TRACES = Reader('sessions', 'traces', lambda rows: [*sessions(rows)])
OTHER = 3
"""
ENTRY_POINTS = """\
[evalkit.readers]
graders = graders:READER
board = graders:LABELS
sessions = graders:TRACES
odd = graders:OTHER
apex = graders:READER
"""
# per task: says A is worth 2 and is met, the words of the second are not in the answer
TESTS = [{"graders": [{"label": f"Says A{n}", "worth": 2}, {"label": "Quantum", "worth": 3}]} for n in range(3)]
ROWS = [{"task": f"t{n}", "goal": "Why?", "tests": tests, "turns": [
    {"by": "person", "says": "Why?"}, {"by": "bot", "says": f"It says A{n}."}]}
    for n, tests in enumerate(TESTS)]  # fmt: skip
FORM = {"column": "tests", "fields": "graders"}
ASK: dict[str, Any] = {"inputs": {"criteria": FORM}, "samples": 1, "progress": False}


@pytest.fixture
def items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pd.DataFrame]:
    """Items by the reader of an installed package, whose only module also reads their criteria and labels."""
    (tmp_path / "graders.py").write_text(PACKAGE)
    info = tmp_path / "graders-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: graders\nVersion: 1\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    find.cache_clear()
    monkeypatch.delitem(sys.modules, "graders", raising=False)
    yield ek.load_items(ROWS, form="sessions")
    find.cache_clear()


def by_gate(items: pd.DataFrame) -> list[float]:
    expected = {"type": "criteria", "min_points": 0.4, "criteria": FORM}
    config = GateConfig(tests=[{"id": name, "expected": expected} for name in items["item_id"]])
    traces = [Trace(n, row["item_id"], row["task"], None, row["answer"], inputs={"tests": row["tests"]})
              for n, row in enumerate(items.to_dict("records"))]  # fmt: skip
    result = run_gate(config, traces, GateOptions(judge="fake:strict", cache=Path("cache")))
    return [test.metrics[0].measured[0].points["all"]["score"] for test in result.tests]


def by_card(items: pd.DataFrame) -> list[float]:
    return by_rows(ek.start(items, judges="fake:strict", fields="graders").items)


def by_rows(rows: pd.DataFrame) -> list[float]:
    judgments = ek.judge(rows, "requirement", "fake:strict", samples=1, progress=False)
    return ek.points(ek.aggregate(ek.vote(judgments)), rows)["score"].tolist()


def by_command_line(_: pd.DataFrame) -> list[float]:
    Path("log.json").write_text(json.dumps(ROWS))
    given = ["--rubric", "requirement", "--judge", "fake:strict", "--samples", "1", "--form", "sessions"]
    command = ["evaluate", "log.json", *given, "--input", f"criteria={json.dumps(FORM)}", "--out", "out", "--quiet"]
    assert main(command) == 0
    return [json.loads(row)["score"] for row in Path("out", "points.jsonl").read_text().splitlines()]


DOORS: dict[str, Callable[[pd.DataFrame], list[float]]] = {
    "explode_criteria": lambda items: by_rows(ek.explode_criteria(items, "tests", fields="graders")),
    "evaluate": lambda items: ek.evaluate(items, "requirement", "fake:strict", **ASK).points["score"].tolist(),
    "reward": lambda items: ek.engine.reward(
        "requirement", "fake:strict", inputs={"criteria": FORM}, samples=1)(
        prompts=items["task"].tolist(), completions=items["answer"].tolist(), tests=items["tests"].tolist()),
    "gate": by_gate, "start": by_card, "command line": by_command_line,
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("door", DOORS)
def test_criteria_are_read_at_every_door_by_a_reader_of_another_package(door: str, items: pd.DataFrame) -> None:
    assert DOORS[door](items) == pytest.approx([0.4] * 3)  # 2 of 5 points


def test_labels_are_read_by_a_reader_of_another_package(items: pd.DataFrame, capsys: Any) -> None:
    rows = [{"task": f"{name}#1", "marks": {"Ana": "1", "Ben": "0"}} for name in items["item_id"]]
    assert ek.load_labels(rows[:1], reader="board")[["annotator", "label"]].values.tolist() == [
        ["Ana", "1"],
        ["Ben", "0"],
    ]
    evaluation = ek.evaluate(items, "requirement", "fake:strict", **ASK)
    evaluation.votes.to_json("votes.jsonl", orient="records", lines=True)
    Path("labels.json").write_text(json.dumps(rows))
    assert main(["align", "votes.jsonl", "labels.json", "--reader", "board", "--json"]) == 0
    assert [(row["accuracy"], row["n_annotators"]) for row in json.loads(capsys.readouterr().out)] == [(0.5, 2)]


def test_a_reader_that_fails_or_is_none_is_named(items: pd.DataFrame) -> None:
    for cell in ({"tests": []}, [3], {"graders": 4}):  # KeyError, TypeError, TypeError in the reader
        with pytest.raises(
            InputError, match=r"item '1': reading the form 'graders': something is not as .* \((Key|Type)Error"
        ):
            ek.explode_criteria([{"item_id": 1, "tests": cell}], "tests", fields="graders")
    with pytest.raises(ConfigError, match=r"column 'tests' cannot be 'criteria' \(its criteria are a mapping.*fields="):
        ek.start(items, "requirement", "fake:strict", roles={"tests": "criteria"})
    with pytest.raises(ConfigError, match=r"'odd' is no reader of criteria; available: .*healthbench"):
        find("odd", "criteria")
    with pytest.raises(ConfigError, match="several readers have the name 'apex'"):
        find("apex", "criteria")
    with pytest.raises(ConfigError, match=r"unknown reader 'grader'; did you mean 'graders'\? available: 'apex'"):
        find("grader", "criteria")


def lines(name: str) -> list[dict[str, Any]]:
    path = DATA / f"{name}.jsonl.gz"
    if not path.exists():
        pytest.skip(f"no {path}: development data")
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def test_recorded_criteria_in_the_form_of_their_files_are_read_as_in_evalkits_own() -> None:
    for name, fields, form in (
        ("devai_items", "devai", {"text": "criteria", "id": "requirement_id", "requires": "prerequisites",
                                  "axis": "category"}),
        ("healthbench_items", "healthbench", {"text": "criterion"}),
    ):  # fmt: skip
        items = lines(name)
        own = ek.explode_criteria(items)
        foreign = [{**item, "rubrics": [{form.get(field, field): value for field, value in entry.items()}
                                        for entry in item["criteria"]]} for item in items]  # fmt: skip
        for item in foreign:
            item.pop("criteria")
        for chosen in (fields, form):
            rows = ek.explode_criteria(foreign, "rubrics", fields=chosen)
            columns = ["item_id", "requirement", "points", "axis", "requires"]
            assert rows[columns].equals(own[columns])
