"""Labels of Label Studio, Argilla and evalkit's log: what people said, and nothing that a model said."""

from __future__ import annotations

import itertools
import json
import random
import re
import warnings
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pandas as pd
import pytest

import evalkit as ek
from evalkit.errors import ConfigError, EvalkitWarning, InputError
from evalkit.rubrics import write_label_studio
from evalkit.tables.files import write_frame

RUBRIC = ek.Rubric(
    id="review",
    inputs=["question", "answer"],
    criteria=[
        {"name": "tone", "scale": {1: "rude", 2: "neutral", 3: "kind"}, "pass_at": 2},
        {"name": "pick", "scale": {"A": "the first", "B": "the second", "tie": "both"}, "level": "nominal"},
        {"name": "stars", "scale": {n: f"{n} stars" for n in range(1, 6)}, "pass_at": 4},
    ],
)
MAIL = {"3": "ana@example.org", "8": "ben@example.org"}
Truth = dict[tuple[str, str, str], str]


def result(name: str, kind: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"id": f"r{name}", "from_name": name, "to_name": "answer", "type": kind, "value": value, **more}


def results(labels: dict[str, str], rng: random.Random) -> list[dict[str, Any]]:
    """Label Studio's results: what each kind of control writes."""
    sides = {"A": "left", "B": "right"}
    made = []
    for name, label in labels.items():
        if name == "pick" and label in sides and rng.random() < 0.5:
            made.append(result(name, "pairwise", {"selected": sides[label]}))
        elif name == "stars":
            kind = rng.choice(["rating", "number"])
            made.append(result(name, kind, {kind: rng.choice([int(label), float(label)])}))
        elif name == "tone":
            text = rng.choice([label, RUBRIC.criterion("tone").scale[int(label)].upper()])
            made.append(result(name, "choices", {"choices": [text]}))
        else:
            made.append(result(name, "choices", {"choices": [label]}))
    made.append(result("why", "textarea", {"text": ["2", "3"]}))
    rng.shuffle(made)
    return made


def draw(rng: random.Random) -> dict[str, str]:
    scales = {one.name: [str(code) for code in one.scale.codes or ()] for one in RUBRIC.criteria}
    return {name: rng.choice(codes) for name, codes in scales.items() if rng.random() < 0.8}


def annotation(labels: dict[str, str], who: Any, rng: random.Random, day: int, **more: Any) -> dict[str, Any]:
    at = f"2026-03-{day:02d}T10:00:00.000000Z"
    return {
        "id": rng.randrange(10**6), "completed_by": who, "result": results(labels, rng), "was_cancelled": False,
        "ground_truth": rng.random() < 0.1, "created_at": at, "updated_at": at, "lead_time": 4.2,
        "parent_prediction": None,
    } | more  # fmt: skip


def ids(task: dict[str, Any]) -> str:
    return str(task["data"].get("item_id", task["id"]))


def project(rng: random.Random) -> tuple[list[dict[str, Any]], Truth]:
    """Tasks as Label Studio exports them, with all that is no label of a person; and the labels of people."""
    form = rng.choice(["id", "object", "email"])
    name = {"id": lambda who: int(who), "object": lambda who: {"id": int(who), "email": MAIL[who], "first_name": ""},
            "email": lambda who: {"email": MAIL[who]}}[form]  # fmt: skip
    shown = (lambda who: who) if form == "id" else MAIL.__getitem__
    tasks, truth, own_ids = [], {}, rng.random() < 0.5
    for number in range(6):
        data = {"answer": f"Answer {number}", "tone": "of the data"} | ({"item_id": f"i{number}"} if own_ids else {})
        annotations = []
        for who in MAIL:
            last = draw(rng)
            older = {key: "tie" if key == "pick" else "1" for key in last}
            annotations += [annotation(older, name(who), rng, 1)] * rng.randrange(2)
            annotations.append(annotation(last, name(who), rng, 9))
            if rng.random() < 0.3:
                annotations.append(annotation(draw(rng), name(who), rng, 11, was_cancelled=True))
            if rng.random() < 0.3:
                machine = {"parent_prediction": 5, "lead_time": None}
                annotations.append(annotation(draw(rng), name(who), rng, 12, **machine))
            task = {"id": 100 + number, "data": data}
            truth |= {(ids(task), what, shown(who)): label for what, label in last.items()}
        rng.shuffle(annotations)
        predictions = [{"model_version": "m", "score": 0.9, "result": results(draw(rng), rng)}]
        tasks.append({"id": 100 + number, "data": data, "annotations": annotations, "predictions": predictions,
                      "drafts": [{"result": results(draw(rng), rng)}], "project": 1})  # fmt: skip
    return tasks, truth


def as_truth(table: pd.DataFrame) -> Truth:
    rows = table.astype(str).itertuples(index=False)
    return {(row.item_id, row.criterion, row.annotator): row.label for row in rows}


def read(source: Any, **options: Any) -> Truth:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvalkitWarning)
        return as_truth(ek.load_labels(source, **options))


@pytest.mark.long
def test_all_that_label_studio_writes_gives_the_labels_of_people(tmp_path: Path) -> None:
    for seed in range(30):
        rng = random.Random(seed)
        tasks, truth = project(rng)
        path = tmp_path / "export.json"
        path.write_text(json.dumps(tasks))
        assert read(path, rubric=RUBRIC) == truth, seed
        same = {name: name for name in RUBRIC.names}
        assert set(read(path, criteria=same)) == set(truth), seed  # the same people and things, in their own words
        assert read(tasks, rubric=RUBRIC, reader="label_studio") == truth, seed
        with pytest.raises(
            InputError, match=r"'why' by .*: answers of kind textarea are no labels; name the questions"
        ):
            read(path)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ek.load_labels(path, rubric=RUBRIC)
        assert "no criterion of the rubric, left out: 'why'" in str(caught[-1].message)


def records_of_argilla(rng: random.Random) -> tuple[list[dict[str, Any]], Truth]:
    """Records as ``to_list(flatten=True)`` gives them, and the labels that people submitted."""
    records, truth = [], {}
    for number in range(5):
        row: dict[str, Any] = {
            "id": f"r{number}",
            "status": "completed",
            "_server_id": "s",
            "answer": f"Answer {number}",
        }
        for name in RUBRIC.names:
            said = []
            for user in ("0d1f", "77aa"):
                label, state = draw(rng).get(name), rng.choice(["submitted", "submitted", "draft", "discarded"])
                if label is not None:
                    said.append((int(label) if name == "stars" else label, user, state))
                    truth |= {(f"r{number}", name, user): label} if state == "submitted" else {}
            ends = (".responses", ".responses.users", ".responses.status")
            row |= {f"{name}{end}": [answer[place] for answer in said] for place, end in enumerate(ends)}
            row |= {f"{name}.suggestion": "1", f"{name}.suggestion.agent": "m", f"{name}.suggestion.score": 0.9}
        records.append(row)
    return records, truth


@pytest.mark.long
def test_all_that_argilla_writes_gives_what_people_submitted(tmp_path: Path) -> None:
    for seed in range(30):
        records, truth = records_of_argilla(random.Random(seed))
        for name in ("records.json", "records.jsonl", "records.parquet"):
            write_frame(pd.DataFrame(records), tmp_path / name)
            assert read(tmp_path / name, rubric=RUBRIC) == truth, (seed, name)
        assert set(read(records)) == set(truth)


def argilla(**answers: Any) -> list[dict[str, Any]]:
    columns = {"": [*answers.values()], ".users": [*answers], ".status": ["submitted"] * len(answers)}
    return [{"id": "a", "status": "pending", "text": "x"} | {f"q.responses{end}": of for end, of in columns.items()}]


def test_what_is_written_for_label_studio_comes_back(tmp_path: Path) -> None:
    for seed in range(10):
        rng = random.Random(seed)
        items = [
            {"item_id": f"i{n}", "question": "<b>&\"'", "answer": rng.choice(["Да.", "]]>", "x\ny"])} for n in range(4)
        ]
        interface = ET.fromstring(write_label_studio(tmp_path / "tasks.json", items, RUBRIC))
        objects = {one.get("name"): one.get("value", "")[1:] for one in interface.iter("Text")}
        controls = {one.get("name"): one for one in interface if one.get("toName")}
        assert {one.get("toName") for one in controls.values()} <= {*objects}
        offered = {name: [choice.get("alias") for choice in one] for name, one in controls.items()}
        tasks, truth = json.loads((tmp_path / "tasks.json").read_bytes()), Truth()
        for number, task in enumerate(tasks):
            assert {*objects.values()} <= {*task["data"]}
            labels = {name: rng.choice(aliases) for name, aliases in offered.items()}
            answers = [result(name, "choices", {"choices": [label]}) for name, label in labels.items()]
            task |= {"id": number, "annotations": [annotation({}, 1, rng, 3) | {"result": answers}]}
            truth |= {(task["data"]["item_id"], name, "1"): str(label) for name, label in labels.items()}
        assert read(tasks, rubric=RUBRIC) == truth, seed


@pytest.mark.long
def test_the_log_and_plain_tables_are_read_too(tmp_path: Path) -> None:
    items = [{"item_id": name, "question": "q", "answer": name} for name in "abcd"]
    tuner = ek.RubricTuner(items, RUBRIC, ["fake:strict"], folder=tmp_path, name="t", budget_usd=0)
    for item, label in (("a", 3), ("b", 1), ("b", 2), ("c", 1), ("c", None)):
        tuner.label(item, label)
    with (tmp_path / "t.labels.jsonl").open("a") as log:
        lost = {"item_id": "d", "criterion": "tone", "annotator": "me", "text": "old", "label": "1", "at": "2026"}
        log.write(json.dumps(lost) + "\n" + json.dumps(lost | {"text": "new", "label": "3", "undo": False}) + "\n")
        log.write(json.dumps(lost | {"text": "new", "label": "2"}) + "\n")
        log.write(json.dumps(lost | {"text": "new", "label": None, "undo": True}) + "\n")
        log.write(json.dumps({"annotator": "me", "counts": False}) + "\n")
        log.write('{"item_id": "a", "criterion": "to\n[]\n{"annotator": "me", "counts": true}\n{"item_id"')  # crashes
    with pytest.warns(EvalkitWarning, match=r"3 lines of the log left out, .* \(line 16, 17, 19\)"):
        table = ek.load_labels(tmp_path / "t.labels.jsonl", rubric=RUBRIC)
    assert as_truth(table) == {("a", "tone", "me"): "3", ("b", "tone", "me"): "2", ("d", "tone", "me"): "3"}
    assert {"source", "probability", "blind", "round", "text_hash"} <= {*table.columns}
    (tmp_path / "plain.csv").write_text(
        "item_id,criterion,annotator,label\na,tone,Ana,kind\nb,tone,Ana,true\nc,tone,Ana,\n"
    )
    assert read(tmp_path / "plain.csv", rubric=RUBRIC) == {("a", "tone", "Ana"): "3", ("b", "tone", "Ana"): "true"}


@pytest.mark.long
def test_the_log_of_the_label_page_gives_the_labels_that_it_shows(tmp_path: Path) -> None:
    pytest.importorskip("anywidget")
    items = [{"item_id": f"i{n}", "question": "q", "answer": f"a{n}"} for n in range(6)]
    for seed in range(4):
        rng, path = random.Random(seed), tmp_path / f"{seed}.labels.jsonl"
        pages = [ek.notebook.LabelPage(items, RUBRIC, annotator=who, labels=path) for who in ("Ana", "Ben")]
        for _ in range(25):
            page = rng.choice(pages)
            form, undo = page.state["form"]["form"], page.state["form"]["undo"]
            answers = [rng.choice([str(code) for code in one.scale.codes or ()]) for one in RUBRIC.criteria]
            page.receive(rng.choice([
                {"do": "save", "form": form, "answers": answers, "comment": "why"},
                {"do": "save", "form": form, "answers": answers},
                {"do": "skip", "form": form, "reason": "Not clear"},
                {"do": "undo", "form": undo},
            ]))  # fmt: skip
        lead = ek.notebook.LabelPage(items, RUBRIC, annotator="Eva", labels=path, view="lead")
        for _ in range(2):
            if item := lead.state["form"]["panel"].get("item"):
                panel = lead.state["form"]["panel"]
                code = panel["question"]["levels"][0][0]
                lead.receive({"do": "decide", "item": item, "criterion": panel["criterion"], "label": code})
        labels = lead.labels
        assert seed or (labels["source"] == "adjudicated").any()
        of_people = labels[(labels["source"] != "adjudicated").to_numpy()]  # a decision is no third person
        shown = as_truth(of_people[["item_id", "criterion", "annotator", "label"]])
        assert shown
        assert read(path, rubric=RUBRIC) == shown, seed
        labels.to_csv(tmp_path / "labels.csv", index=False)
        assert read(tmp_path / "labels.csv", rubric=RUBRIC) == shown


def one_task(kind: str, value: Any) -> list[dict[str, Any]]:
    return [{"id": 1, "data": {}, "annotations": [{"completed_by": 1, "result": [result("tone", kind, value)]}]}]


@pytest.mark.parametrize(
    ("source", "options", "says"),
    [
        ([{"id": 1, "data": {}, "predictions": []}], {}, "ek.extract_labels reads labels beside the texts"),
        ([{"text": "a", "score": 1}], {}, r"no labels of people in a known form \(columns: 'score', 'text'\)"),
        ([{"id": 1, "annotator": 1, "annotation_id": 2, "lead_time": 1, "tone": "kind"}], {}, "JSON export of Label"),
        ([{"id": 1, "data": {}, "completions": [{"result": []}]}], {}, "JSON export of Label Studio"),
        ([{"id": 1, "task": one_task("rating", {"rating": 1})[0], "result": []}], {}, "JSON export of Label Studio"),
        ([{"id": "a", "responses": {"tone": [{"value": "3", "user_id": "u"}]}}], {}, r"to_list\(flatten=True\)"),
        ([{key: value for key, value in argilla(u="x")[0].items() if "status" not in key}], {}, r"\(flatten=True\)"),
        ([{key: str(value) for key, value in argilla(u="x")[0].items()}], {}, r"to_list\(flatten=True\)"),  # of a CSV
        (argilla(u=["x", "y"]), {}, "item 'a', 'q' by 'u': answers of kind several values are no labels; name the"),
        (argilla(u=[{"value": "x", "rank": 1}]), {}, "answers of kind several values are no labels"),
        ([argilla(u="x")[0] | {"q.responses.users": []}], {}, "has not as many responses to 'q' as users"),
        (argilla(u="x"), {"reader": "argila"}, "unknown reader 'argila'; did you mean 'argilla'"),
        (argilla(u="x"), {"reader": "devai"}, "'devai' is no reader of labels; available: 'argilla'"),
        (one_task("choices", {"choices": ["3"], "start": 3, "end": 9}), {}, "kind choices with 'end', 'start' are no"),
        (one_task("pairwise", {"selected": "both"}), {}, "not as the tool writes it"),
        ([], {}, "no labels of people in a known form"),
        (one_task("choices", {"choices": ["3"]}),
         {"criteria": {"manners": "tone"}}, r"has labels for .* and none for 'manners'; say what they are for"),
        (one_task("choices", {"choices": ["kind", "rude"]}), {"rubric": RUBRIC}, "expected one answer, got"),
        (one_task("choices", {"choices": ["lovely"]}), {"rubric": RUBRIC}, "'lovely' is not on the scale"),
        (one_task("rectanglelabels", {"rectanglelabels": ["x"]}), {"rubric": RUBRIC},
         "kind rectanglelabels are no labels"),
        ([{"id": 1, "data": {}, "annotations": [{"result": [result("tone", "rating", {"rating": 3})]}] * 2}],
         {}, "annotations without completed_by"),
        ([{"id": 1, "data": {}, "annotations": "none"}], {}, "JSON export of Label Studio"),
        (one_task("choices", {"choices": ["3"]}),
         {"item_id": "uuid"}, "no id in the field 'uuid'"),
        ([{"item_id": "a", "criterion": "tone", "annotator": "x", "label": label} for label in "12"], {}, "tone"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said(source: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises((InputError, ConfigError), match=says) as caught:
        ek.load_labels(source, **options)
    assert "InputError" not in str(caught.value)  # said once


def test_tasks_have_all_inputs_that_the_interface_shows(tmp_path: Path) -> None:
    rubric = ek.Rubric(id="r", inputs=["question?", "answer"], criteria=[{"name": "c", "scale": {0: "no", 1: "yes"}}])
    interface = ek.rubrics.write_label_studio(tmp_path / "t.json", [{"item_id": "a", "answer": "x"}], rubric)
    (task,) = json.loads((tmp_path / "t.json").read_text())
    assert {*re.findall(r"\$(\w+)", interface)} <= {*task["data"]}


def test_annotations_that_nobody_looked_at_are_counted() -> None:
    rng = random.Random(1)
    made = annotation({"tone": "3"}, 1, rng, 1, parent_prediction=4, lead_time=None)
    seen = annotation({"tone": "1"}, 2, rng, 1, parent_prediction=4, lead_time=9.0)
    tasks = [{"id": 1, "data": {}, "annotations": [made, seen]}]
    with pytest.warns(EvalkitWarning, match="1 annotation made from predictions of a model, which no person looked at"):
        table = ek.load_labels(tasks, rubric=RUBRIC, criteria={"tone": "tone"})
    assert as_truth(table) == {("1", "tone", "2"): "1"}


@pytest.mark.parametrize(("accepted", "n"), [([], 2), ([False, True], 2), ([True, False], 1), ([None], 2)])
def test_annotations_that_a_reviewer_rejected_last_are_counted(accepted: list[Any], n: int) -> None:
    rng = random.Random(1)
    reviews = [{"accepted": value, "created_at": f"2026-03-{day:02d}"} for day, value in enumerate(accepted, 10)]
    annotations = [annotation({"tone": "3"}, 1, rng, 1, reviews=rng.sample(reviews, len(reviews))),
                   annotation({"tone": "1"}, 2, rng, 1, ground_truth=True)]  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = ek.load_labels([{"id": 1, "data": {}, "annotations": annotations}], criteria={"tone": "tone"})
    assert len(table) == n
    assert sum("1 annotation whose last review is a rejection, left out" in str(w.message) for w in caught) == 2 - n


def test_lists_of_labels_are_refused_with_lines_that_work() -> None:
    one = pd.DataFrame({"item_id": ["a", "b"], "criterion": "tone", "label": [["kind"], ["rude"]]})
    several = one.assign(label=[["kind", "polite"], ["rude"]])
    for read in (lambda table: ek.load_labels(table), lambda table: ek.extract_labels(table, {"tone": "label"})):
        with pytest.raises(InputError, match=r"table\.explode\('label'\) makes a row .* table\.assign\(criterion="):
            read(several)
    assert ek.load_labels(one.explode("label"))["label"].tolist() == ["kind", "rude"]
    made = several.assign(criterion="polite", label=["polite" in cell for cell in several["label"]])
    assert ek.load_labels(made)["label"].tolist() == ["true", "false"]


LINE = {
    "item_id": "a",
    "criterion": "tone",
    "annotator": "Zoë",
    "text": "h",
    "label": "3",
    "at": "2026-11-27T08:00:00+00:00",
}


def test_a_log_that_was_cut_is_read_and_one_that_is_none_is_refused(tmp_path: Path) -> None:
    whole = json.dumps(LINE, ensure_ascii=False).encode()
    others = [json.dumps(LINE | {"item_id": name}, ensure_ascii=False).encode() for name in "bc"]
    nobodys = [json.dumps({**LINE, "annotator": None}).encode(), whole.replace(b'"annotator"', b'"who"')]
    path, draw = tmp_path / "log.jsonl", random.Random(3)  # any name
    for _ in range(60):
        lines, cut = [], []
        for number in range(1, draw.randint(3, 8)):
            is_cut = draw.random() < 0.4
            lines.append(
                draw.choice([whole[: draw.randint(2, len(whole) - 1)], *nobodys]) if is_cut else draw.choice(others)
            )
            cut += [str(number)] if is_cut else []
        path.write_bytes(b"\n".join(lines))
        expected = {(json.loads(line)["item_id"], "tone", "Zoë"): "3" for line in lines if line in others}
        if not expected:
            continue
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert as_truth(ek.load_labels(path, rubric=RUBRIC)) == expected
        assert [f"(line {', '.join(cut[:5])}" in str(one.message) for one in caught] == [True] * bool(cut)
    text = "\n".join(json.dumps(LINE | {"item_id": name}, ensure_ascii=False) for name in "ab") + "\n"
    none, array = "no line that is a JSON object", ("[" + ",\n".join(text.split("\n")[:2]) + "]").encode()
    wrongs = {text.encode("utf-16"): none, text.encode("latin-1"): "line 1 is not in UTF-8", array: none}
    for wrong, why in (wrongs | {b"\x89PNG\r\n\x1a\n": none}).items():
        path.write_bytes(wrong)
        with pytest.raises(InputError, match=why):
            ek.load_labels(path)


def test_labels_on_levels_and_criteria_that_are_gone_are_counted(tmp_path: Path) -> None:
    rows = [
        LINE,
        LINE | {"item_id": "b", "label": "9"},
        LINE | {"criterion": "gone"},
        LINE | {"item_id": 7, "label": 2},
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with pytest.warns(EvalkitWarning, match="2 labels on no criterion or level that rubric 'review' has now"):
        assert as_truth(ek.load_labels(path, rubric=RUBRIC)) == {("a", "tone", "Zoë"): "3", ("7", "tone", "Zoë"): "2"}


def test_the_later_answer_counts_whatever_its_time_zone() -> None:
    moments = [("1", "2026-03-05T09:00:00+09:00"), ("2", "2026-03-05T01:00:00Z"), ("3", "2026-03-04T20:30:00-05:00")]
    for order in itertools.permutations(moments):  # in UTC: 00:00, 01:00, 01:30
        answers = [(result("tone", "choices", {"choices": [code]}), moment) for code, moment in order]
        made = [{"completed_by": 3, "updated_at": moment, "result": [answer]} for answer, moment in answers]
        task = {"id": 1, "data": {"item_id": "a"}, "annotations": made}
        assert read([task], rubric=RUBRIC) == {("a", "tone", "3"): "3"}


def test_no_name_of_a_labeling_interface_is_there_twice(tmp_path: Path) -> None:
    own = ek.Rubric(id="x", inputs=["answer", "tone"], criteria=[{"name": "tone", "scale": {0: "no", 1: "yes"}},
        {"name": "n", "level": "interval", "scale": {0: "none", 2.5: "all"}}])  # fmt: skip
    for rubric in (own, "requirement"):
        rows = [{"item_id": "a", "answer": "x", "tone": "t", "requirement": "r", "question": "q"}]
        interface = ET.fromstring(write_label_studio(tmp_path / "t.json", rows, rubric))
        names = [one.get("name") for one in interface.iter() if one.get("name")]
        assert len({*names}) == len(names)
        assert {one.get("toName") for one in interface.iter() if one.get("toName")} <= {*names}
        ends = [(one.get("min"), one.get("max")) for one in interface.iter("Number")]
        assert ends == ([("0", "2.5")] if rubric is own else [])
    with pytest.raises(InputError, match=r"allowed: any number from 0 to 2\.5"):
        ek.extract_labels([{"n": 3}], {"n": "n"}, rubric=own)
