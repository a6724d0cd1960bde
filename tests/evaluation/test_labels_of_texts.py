"""Labels of a log count for the texts that people read, wherever labels and items meet."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import orjson
import pandas as pd
import pytest
from small_rubrics import rubric_of

import evalkit as ek
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
from evalkit.errors import EvalkitWarning
from evalkit.evaluation import Evaluation
from evalkit.evaluation.evaluation import labels_of
from evalkit.rubrics.human_labels import LEVELS, QUESTION_HASH, text_hashes
from evalkit.stats import confusion
from evalkit.tables.items import as_items

RUBRIC = rubric_of("r", {0: "no", 1: "yes"}, inputs="question answer hint?", pass_at=1)
INPUTS = {"answer": "reply"}
ODD = ["", "7", 7, 7.5, None, "x" * 300, "Ünï\n", ["a", "b"], [{"role": "user", "content": "hi"}], {"k": 1}]


def rows(n: int = 12) -> list[dict[str, Any]]:
    return [{"question": f"q{at}", "reply": f"a{at % 9}", "note": "n", "hint": None} for at in range(n)]


def log_of(tmp_path: Path, items: list[dict[str, Any]]) -> pd.DataFrame:
    pytest.importorskip("anywidget")
    for who in ("Ana", "Ben"):
        page = ek.notebook.LabelPage(items, RUBRIC, annotator=who, labels=tmp_path / "l.jsonl", inputs=INPUTS)
        while form := page.state["form"]["form"]:
            page.receive({"do": "save", "form": form, "answers": ["1"]})
    return ek.load_labels(tmp_path / "l.jsonl", rubric=RUBRIC)


def read(items: list[dict[str, Any]]) -> dict[str, Any]:
    """Item -> what people and judges read of it."""
    names = [str(one.get("item_id", at)) for at, one in enumerate(items)]
    return {name: (one["question"], one["reply"], one["hint"]) for name, one in zip(names, items, strict=True)}


@pytest.mark.long
def test_a_label_of_another_text_is_none_of_the_item(tmp_path: Path) -> None:
    """Rows without ids: inserted, moved, edited in columns that are read and in others."""
    before = rows()
    labels, draw = log_of(tmp_path, before), random.Random(5)
    assert len(labels) == 24
    for attempt in range(60):
        items = [dict(row) for row in before]
        for _ in range(draw.randint(0, 3)):
            at = draw.randrange(len(items))
            match draw.choice(["insert", "move", "drop", "edit", "note", "hint", "blank", "double"]):
                case "insert":
                    items.insert(at, rows(20)[-1])
                case "move":
                    items.append(items.pop(at))
                case "drop" if len(items) > 9:
                    items.pop(at)
                case "edit":
                    items[at]["reply"] += "!"
                case "note":
                    items[at]["note"] = "another"
                case "hint":
                    items[at]["hint"] = "look"
                case "blank":
                    items[at]["hint"] = " " if attempt % 2 else ""
                case "double":
                    items.append(dict(items[at]))
        then, now = read(before), read([row | {"hint": row["hint"] or None} for row in items])
        truth = {name for name in now if name in then and now[name] == then[name]}
        n_other = len({*now} & {*then}) - len(truth)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            used = labels_of(labels, as_items(items), RUBRIC, INPUTS)
        said = [str(one.message) for one in caught if "of other texts" in str(one.message)]
        assert {*used["item_id"]} == truth, attempt
        assert len(said) == bool(n_other)
        assert all(text.startswith(f"{2 * n_other} labels of 24 left out") for text in said)
        plain = labels.drop(columns="text_hash")  # labels of other tools count as before
        assert {*labels_of(plain, as_items(items), RUBRIC, INPUTS)["item_id"]} == {*now} & {*then}


@pytest.mark.long
def test_all_that_has_items_and_labels_leaves_them_out(tmp_path: Path) -> None:
    labels, items = log_of(tmp_path, rows()), rows()
    items[3]["reply"] = "another"
    options: dict[str, Any] = {"samples": 1, "inputs": INPUTS, "progress": False}
    with pytest.warns(
        EvalkitWarning, match="2 labels of 24 left out, as of other texts than the items have now .rubric 'r', item '3'"
    ):
        evaluation = ek.evaluate(items, RUBRIC, ["fake:strict"], labels=labels, **options)
    assert evaluation.alignment is not None
    assert evaluation.alignment["n_labelled"].tolist() == [11]
    assert "2 labels of 24 left out, as of other texts" in evaluation.alignment["notes"].iloc[0]
    with pytest.warns(EvalkitWarning, match="of other texts"):
        assert ek.align(evaluation, labels)["n_labelled"].tolist() == [11]
    with pytest.warns(EvalkitWarning, match="of other texts"):
        assert Evaluation.of(evaluation.judgments, items, labels, RUBRIC, inputs=INPUTS).labels is not None
    with pytest.warns(EvalkitWarning, match="of other texts"):
        confusion(evaluation, labels)
    bare = ek.align(evaluation.votes, labels)  # a table has no texts
    assert bare["n_labelled"].tolist() == [12]
    assert "not checked whether the texts are those that people labelled" in bare["notes"].iloc[0]


def test_the_hash_of_a_text_is_that_of_the_work_list() -> None:
    """Logs that exist hold hashes of the work list."""
    items = as_items([{"question": "q", "reply": value, "hint": hint} for value in ODD if value for hint in ODD[:5]])
    spec = Spec.of(RUBRIC, "fake:strict", inputs=INPUTS, on_missing="skip")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        work = Worklist.of(spec, items)
    hashes = {item: of_item[0][:16] for item, of_item in zip(items["item_id"], work.hashes, strict=True)}
    assert text_hashes(RUBRIC, items, INPUTS) == hashes


WORDS = ["Wrong", "Partly right", "Right", "Excellent", "Cannot be used", "Half of it is missing."]


def asked(question: str, levels: dict[Any, str], level: str = "ordinal") -> ek.Rubric:
    criterion = {"name": "c", "description": question, "level": level, "scale": levels}
    return ek.Rubric(id="r", inputs=["question", "reply"], criteria=[criterion])


def label_all(log: Path, items: list[dict[str, Any]], rubric: ek.Rubric, answers: list[str]) -> None:
    page = ek.notebook.LabelPage(items, rubric, annotator="Ana", labels=log, order="given")
    for answer in answers:
        page.receive({"do": "save", "form": page.state["form"]["form"], "answers": [answer]})


@pytest.mark.long
def test_a_label_means_what_its_level_said(tmp_path: Path) -> None:
    """Levels are moved, said in other words, added and removed, or the question is another: page, lead and tables."""
    pytest.importorskip("anywidget")
    draw = random.Random(3)
    for attempt in range(12):
        level = draw.choice(["ordinal", "nominal"])
        codes: list[Any] = draw.choice(
            [[0, 1, 2], [1, 2, 3, 4], [-1, 0, 1]] if level == "ordinal" else [["A", "B", "C"]]
        )
        start = draw.choice(["", "Read all of the answer, with its tables and footnotes, before you decide. " * 4])
        then = {code: start + text for code, text in zip(codes, draw.sample(WORDS, len(codes)), strict=True)}
        if level == "ordinal" and draw.random() < 0.4:  # two levels of the same words
            then[codes[1]] = then[codes[2]]
        answers = [str(draw.choice(codes)) for _ in range(10)]
        items, log = rows(10), tmp_path / f"{attempt}.labels.jsonl"
        label_all(log, items, asked("Is it so?", then, level), answers)
        now, question = dict(then), "Is it so?"
        for _ in range(draw.randint(0, 2)):
            one, other = draw.sample([*now], 2)
            match draw.choice(["swap", "reword", "insert", "remove", "question", "spaces"]):
                case "swap":
                    now[one], now[other] = now[other], now[one]
                case "reword":
                    now[one] = f"New words {draw.random()}"
                case "insert" if level == "ordinal":  # the words above move up by one
                    texts = [*now.values()]
                    texts.insert(draw.randrange(len(texts) + 1), f"Between {draw.random()}")
                    now = {min(now) + at: text for at, text in enumerate(texts)}
                case "remove" if len(now) > 2:
                    del now[one]
                case "question":
                    question = "Is it another thing?"
                case "spaces":
                    now[one] = f" {now[one]} "
        place = {str(code): text.strip() for code, text in now.items()}
        meant = {str(code): text for code, text in then.items()}
        came = {text for code, text in place.items() if meant.get(code) != text}
        is_moved = any(text in came and place.get(code) != text for code, text in meant.items())
        counts = [label in map(str, now) and not is_moved for label in answers]
        is_same = question == "Is it so?" and {code: text.strip() for code, text in now.items()} == then
        rubric = asked(question, now, level)
        n_gone = sum(label not in map(str, now) for label in answers)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            page = ek.notebook.LabelPage(items, rubric, annotator="Ana", labels=log)
            lead = ek.notebook.LabelPage(items, rubric, annotator="Eva", labels=log, view="lead")
            n_of_pages = len(caught)
            table = ek.load_labels(log, rubric=rubric)
        assert page.labels["label"].tolist() == [a for a, stays in zip(answers, counts, strict=True) if stays], attempt
        assert {*table["item_id"]} == {*page.labels["item_id"]}
        assert page.state["form"]["n_done"] == sum(counts)
        notes = f"{sum(counts)} label{'s' * (sum(counts) != 1)} of 'c' counted, though given to another wording"
        assert (notes in lead.state["form"]["sentence"][2]) == (not is_same and any(counts)), attempt
        assert n_of_pages == 2 * (not is_same and any(counts))
        texts = " ".join(str(one.message) for one in caught[n_of_pages:])
        assert (notes in texts) == (not is_same and any(counts))
        n_moved = 10 - sum(counts) - n_gone
        assert (
            f"{n_moved} label{'s' * (n_moved != 1)} of 'c' left out, as levels are gone or have another code" in texts
        ) == (n_moved > 0)
        plain = ek.load_labels(log)  # no rubric yet: it is met where labels are used
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            used = labels_of(plain[plain["label"].isin(list(map(str, now)))], as_items(items), rubric, {})
        assert {*used["item_id"]} == {*table["item_id"]}


def test_numbers_and_levels_without_words_mean_their_place(tmp_path: Path) -> None:
    pytest.importorskip("anywidget")
    hundred = {0: "Useless", 100: "Perfect"}
    for then, now, level, answer, stays in [
        (hundred, {0: "Perfect", 100: "Useless"}, "interval", "85", False),
        (hundred, {0: "Useless", 10: "Perfect"}, "interval", "8", False),
        (hundred, {0: "Useless", 50: "Middling", 100: "Superb"}, "interval", "85", True),
        ({1: "", 5: "", 3: ""}, {1: "", 3: "", 10: ""}, "ordinal", "3", False),
        ({1: "", 5: "", 3: ""}, {1: "bad", 3: "", 5: "good"}, "ordinal", "3", True),
        ({1: "bad", 5: "good", 3: ""}, {1: "good", 3: "", 5: "bad"}, "ordinal", "3", False),
        ({1: "", 5: "", 3: ""}, {1: "", 5: ""}, "ordinal", "3", False),
        ({1: "", 5: "", 3: ""}, {1: "", 2: "", 3: "", 5: ""}, "ordinal", "3", True),
        ({"A": "", "B": ""}, {"A": "", "B": "", "C": ""}, "nominal", "A", True),
    ]:
        log = tmp_path / f"{len([*tmp_path.iterdir()])}.labels.jsonl"
        label_all(log, rows(3), asked("Q", then, level), [answer] * 3)
        with pytest.warns(EvalkitWarning, match="counted" if stays else "left out"):
            assert len(ek.load_labels(log, rubric=asked("Q", now, level))) == 3 * stays, now


def test_a_log_without_questions_counts_as_before(tmp_path: Path) -> None:
    pytest.importorskip("anywidget")
    log, swapped = tmp_path / "old.labels.jsonl", asked("Q", {0: "Right", 1: "Wrong"})
    label_all(log, rows(3), asked("Q", {0: "Wrong", 1: "Right"}), ["0", "1", "1"])
    lines = [orjson.loads(line) for line in log.read_bytes().splitlines() if line]
    old = [{name: value for name, value in line.items() if name not in (QUESTION_HASH, LEVELS)} for line in lines]
    log.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in old))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = ek.notebook.LabelPage(rows(3), swapped, annotator="Ana", labels=log)
        assert ek.load_labels(log, rubric=swapped)["label"].tolist() == page.labels["label"].tolist() == ["0", "1", "1"]


@pytest.mark.long
def test_a_tuner_leaves_out_labels_whose_level_moved(tmp_path: Path) -> None:
    """In the version in which it moved, and only there."""
    pytest.importorskip("anywidget")
    session = ek.RubricTuner(
        rows(12), asked("Q", {0: "Wrong", 1: "Right"}), ["fake:strict"], folder=tmp_path, inputs={}
    ).session
    session.run()
    for item in map(str, range(12)):
        session.label(item, "1")
    assert (session.n_off_scale, len(session.labels.log.table)) == (0, 12)
    session.drafts.edit(lambda *_: asked("Q", {0: "Right", 1: "Wrong"}))
    session.run()
    assert session.n_off_scale == 12
    session.label("0", "0")
    assert (session.n_off_scale, session.alignment(session.runs.current)["n_labelled"]) == (11, 1)
    with pytest.warns(EvalkitWarning, match="11 labels of 'c' left out, as levels are gone or have another code now"):
        ek.align(session.evaluation, session.labels.log.table)
