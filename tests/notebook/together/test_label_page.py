"""The label page from Python: every form once, in order, resumed, skipped and undone; and the lead's view."""

from __future__ import annotations

import json
import random
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from label_screen import CRITERIA, RUBRIC, labelled, page_of, reviews, save

import evalkit as ek
from evalkit.errors import ConfigError, EvalkitWarning, InputError
from evalkit.notebook.labelling import label_log
from evalkit.notebook.labelling.label_log import LabelEdit
from evalkit.notebook.labelling.label_queue import random_order


@pytest.fixture(autouse=True)
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of forms need not reach the disk."""
    monkeypatch.setattr(label_log.os, "fsync", lambda _: None)


def form(page: Any) -> dict[str, Any]:
    shown: dict[str, Any] = page.state["form"]
    return shown


def skip(page: Any, reason: str = "I cannot tell") -> None:
    page.receive({"do": "skip", "form": form(page)["form"], "reason": reason})


def undo(page: Any) -> None:
    page.receive({"do": "undo", "form": form(page)["undo"]})


def test_a_form_has_all_questions_and_nothing_of_others(tmp_path: Path) -> None:
    log = tmp_path / "r.labels.jsonl"
    ben = page_of(log, "Ben")
    save(ben, "210", "secret of Ben")
    page = page_of(log, "Anna")
    shown = form(page)
    assert [one["title"] for one in shown["questions"]] == ["correct", "actionable", "tone"]
    assert [text for _, text, _ in shown["questions"][0]["levels"]] == [*CRITERIA[0]["scale"].values()]
    assert (shown["n"], shown["n_done"], shown["n_skipped"], shown["undo"]) == (30, 0, 0, "")
    assert shown["form"] == random_order([item["item_id"] for item in reviews(30)])[0]
    assert "secret" not in json.dumps(page.state)
    assert "Ben" not in json.dumps(page.state)
    seeing = page_of(log, "Anna", show_others=True)
    assert form(seeing)["questions"][0]["people"] == [["Ben", "2"]]
    save(seeing, "010")
    assert seeing.labels.set_index("annotator").loc["Anna", "blind"].tolist() == [False] * 3
    assert page.labels.set_index("annotator").loc["Ben", "blind"].tolist() == [True] * 3


@pytest.mark.long
def test_whatever_a_person_does_every_form_is_labelled_once(tmp_path: Path) -> None:
    """Two pages of one person, restarted now and then, and one of another; a dictionary knows what is saved."""
    draw, log, n = random.Random(7), tmp_path / "r.labels.jsonl", 12
    pages = [page_of(log, who, n) for who in ("Anna", "Anna", "Ben")]
    history: dict[tuple[str, str], list[list[str]]] = {}  # what each form held, the last answers last
    acts: dict[str, list[tuple[str, str]]] = {"Anna": [], "Ben": []}
    n_corrected = 0
    for _ in range(100):
        at = draw.randrange(3)
        if draw.random() < 0.1:
            pages[at] = page_of(log, pages[at].annotator, n)
        page = pages[at]
        page.receive({"do": "open", "form": ""})  # reads what the other page did
        who, name, what = page.annotator, form(page)["form"], draw.random()
        assert not form(page)["answered"]
        answers = [draw.choice("012"), draw.choice("012"), draw.choice("01")]
        earlier = dict(form(page)["earlier"])
        assert {form: said.split(", ") for form, said in earlier.items() if said != "skipped"} == {
            form: given[-1] for (person, form), given in history.items() if person == who
        }
        if what < 0.2 and form(page)["undo"]:
            last = form(page)["undo"]
            expected, kind = acts[who].pop()
            assert last == expected
            undo(page)
            shown = [one["answer"] for one in form(page)["questions"]]
            assert form(page)["form"] == last
            if kind == "save":
                taken = history[who, last].pop()
                assert shown == (history[who, last][-1] if history[who, last] else taken)
                if not history[who, last]:
                    del history[who, last]
            assert form(page)["answered"] == ((who, last) in history)
        elif what < 0.3 and name:
            skip(page)
            if not form(page)["again"]:
                assert form(page)["form"] != name
            acts[who].append((name, "skip"))
        elif what < 0.55 and (done := [one for one, said in earlier.items() if said != "skipped"]):
            name = draw.choice(done)
            page.receive({"do": "open", "form": name})
            assert form(page)["form"] == name
            assert form(page)["answered"]
            assert [one["answer"] for one in form(page)["questions"]] == history[who, name][-1]
            skip(page)  # nothing: it has answers
            save(page, answers)
            assert not form(page)["answered"]
            if answers != history[who, name][-1]:  # else nothing is written
                history[who, name].append(answers)
                acts[who].append((name, "save"))
                n_corrected += 1
        elif name:
            assert (who, name) not in history
            history[who, save(page, answers)] = [answers]
            acts[who].append((name, "save"))
    assert n_corrected > 5
    truth = {key: given[-1] for key, given in history.items()}
    assert (
        len([line for line in log.read_text().splitlines() if '"label":"' in line]) >= 3 * len(truth) + 3 * n_corrected
    )
    labels = pages[0].labels
    saved = {
        (str(who), str(item)): rows.set_index("criterion")["label"].astype(str).to_dict()
        for (who, item), rows in labels.groupby(["annotator", "item_id"], observed=True)
    }
    assert saved == {key: dict(zip(RUBRIC.names, answers, strict=True)) for key, answers in truth.items()}
    for page in pages:
        page.receive({"do": "undo", "form": ""})
        assert form(page)["n_done"] == sum(who == page.annotator for who, _ in truth)


def test_only_the_form_on_screen_is_saved_and_only_whole(tmp_path: Path) -> None:
    page = page_of(tmp_path / "r.labels.jsonl", "Anna")
    name = form(page)["form"]
    for message in (
        {"do": "save", "form": "CR-1001" if name != "CR-1001" else "CR-1002", "answers": ["1", "1", "1"]},
        {"do": "skip", "form": "other", "reason": "no"},
        {"do": "undo", "form": "other"},
        {"do": "look"},
        {"do": "decide", "item": name, "criterion": "tone", "label": "1"},
        {"do": "run"},
    ):
        page.receive(message)
        assert (page.state["alert"], form(page)["form"], len(page.labels)) == ("", name, 0), message
    for answers in (
        ["1", "1", None],
        ["1", "1"],
        ["1", "1", "1", "1"],
        ["", "1", "1"],
        ["1", "1", "2"],
        ["9", "1", "1"],
        [True, "1", "1"],
        ["true", "1", "1"],
        ["0.5", "1", "1"],
        7,
        None,
        "111",
        {"0": "1"},
    ):
        page.receive({"do": "save", "form": name, "answers": answers, "id": "m"})
        assert page.state["alert"].startswith("not saved: "), answers
        assert (form(page)["form"], form(page)["answers"], len(page.labels)) == (name, "m", 0)
    half = "\ud83d"  # of a character
    page.receive({"do": "save", "form": name, "answers": ["1", "1", "1"], "comment": f"a{half} <b>\n" + "x" * 20_000})
    assert page.state["alert"] == ""
    (line,) = [json.loads(line) for line in page.path.read_bytes().split(b"\n") if b"<b>" in line]
    assert line["comment"].startswith("a <b>\nxx")
    assert len(line["comment"]) == 10_000
    first, second = page_of(page.path, "Anna"), page_of(page.path, "Anna")  # two windows of one person
    first.receive({"do": "save", "form": form(first)["form"], "answers": ["0", "0", "0"], "comment": ["a"]})
    assert "['a']" not in page.path.read_text()
    second.receive({"do": "save", "form": form(second)["form"], "answers": ["1", "1", "1"]})
    assert second.state["alert"].startswith("not saved: you answered")
    assert [len(first.labels), form(second)["undo"]] == [6, form(first)["undo"]]
    for _ in range(2):  # what was answered stays chosen in all forms that were taken back
        undo(first)
    assert save(first, [one["answer"] for one in form(first)["questions"]]) == name
    assert [one["answer"] for one in form(first)["questions"]] == ["0", "0", "0"]


@pytest.mark.long
def test_a_second_press_replaces_what_this_window_saved_and_nothing_of_another(tmp_path: Path) -> None:
    log = tmp_path / "r.labels.jsonl"
    page, other = page_of(log, "Anna"), page_of(log, "Anna")
    name = form(page)["form"]
    for answers in ("111", "111", "210"):  # the first answer came late, so the person pressed again, and changed two
        page.receive({"do": "save", "form": name, "answers": [*answers], "id": answers})
        assert (page.state["alert"], form(page)["n_done"], form(page)["answers"]) == ("", 1, answers)
    following = form(page)["form"]
    assert following != name
    assert page.labels["label"].tolist() == ["2", "1", "0"]
    assert len([line for line in log.read_text().splitlines() if line]) == 6  # the second press wrote nothing
    other.receive({"do": "save", "form": name, "answers": [*"000"]})  # it shows the form without an answer
    assert "you answered CR-" in other.state["alert"]
    assert "“Earlier” shows" in other.state["alert"]
    other.receive({"do": "open", "form": following})  # not answered: what comes is not to be chosen
    assert form(other)["form"] == following
    for unread in ("CR-1001", "CR-1002", "CR-1003"):
        before = form(other)["form"]
        if unread not in (name, before):
            other.receive({"do": "open", "form": unread})
            assert form(other)["form"] == before
    other.receive({"do": "open", "form": name})
    page.receive({"do": "open", "form": name})
    save(page, "200")
    other.receive({"do": "save", "form": name, "answers": [*"111"]})
    assert "in another window" in other.state["alert"]
    assert page.labels["label"].tolist() == ["2", "0", "0"]
    labels = ek.load_labels(log, rubric=RUBRIC)  # and all who read the log have the last answers only
    assert dict(zip(labels["criterion"], labels["label"], strict=True)) == dict(zip(RUBRIC.names, "200", strict=True))


def test_pictures_are_shown_to_people_and_no_address_is_loaded(tmp_path: Path) -> None:
    data = "iVBORw0KGgo" + "A" * 80
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    linked = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    script = {"type": "image_url", "image_url": {"url": "javascript:alert(1)"}}
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA" * 30, "format": "wav"}}
    contents: dict[str, Any] = {
        "part": [picture, {"type": "text", "text": "What is it?"}], "chat": [{"role": "user", "content": [picture]}],
        "text": f"see data:image/png;base64,{data}", "link": [linked], "both": [linked, picture], "script": [script],
        "sound": [sound], "plain": "What is it?",
    }  # fmt: skip
    items = [{"item_id": name, "question": content, "answer": "A cat."} for name, content in contents.items()]
    log = tmp_path / "p.labels.jsonl"
    options: dict[str, Any] = {"labels": log, "order": "given"}
    with pytest.warns(EvalkitWarning, match="1 item has a file that the page cannot show; left out") as warned:
        page = ek.notebook.LabelPage(items, "helpfulness", annotator="Anna", **options)
    assert not [one for one in warned if "judges cannot be shown" in str(one.message)]
    seen = {}
    while name := form(page)["form"]:
        of_question = form(page)["forms"]["question"]
        text = dict(form(page)["inputs"])["question"] + str(of_question["turns"])
        seen[name] = len(of_question["images"]), of_question["links"], text.count("shown below"), "not shown" in text
        save(page, ["1"])
    address = "https://example.org/a.png"
    assert seen == {
        "part": (1, [], 1, False), "chat": (1, [], 2, False), "text": (1, [], 1, False),
        "link": (0, [address], 0, True), "both": (1, [address], 1, True), "script": (0, [], 0, True),
        "plain": (0, [], 0, False),
    }  # fmt: skip
    assert set(page.labels["item_id"]) == set(contents) - {"sound"}


def test_the_log_is_the_tuners(tmp_path: Path) -> None:
    items = reviews(8)
    path = tmp_path / "chats.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    page = ek.notebook.LabelPage(path, RUBRIC, annotator="Anna")
    assert page.path == tmp_path / "chats-review.labels.jsonl"
    tuner = ek.RubricTuner(path, RUBRIC, "fake:strict", annotator="Ben", cache=tmp_path / "cache")
    name = save(page, ["2", "1", "0"])
    assert tuner.labels[["item_id", "annotator", "label"]].astype(str).values.tolist()[0] == [name, "Anna", "2"]
    tuner.receive({"do": "queue", "open": True, "source": "random", "blind": True})
    assert tuner.state["queue"]["item_id"] == name  # Ben has not labelled it
    tuner.receive({"do": "label_next", "item_id": name, "criterion": "correct", "label": "0"})
    tuner.receive({"do": "queue", "open": False, "source": "random", "blind": True})
    assert len(page.labels) == 4
    assert tuner.wait_idle(60)
    assert tuner.state["figures"]["newcomers"] == {"Ben": 1}
    save(page, ["1", "1", "1"])
    tuner.receive({"do": "criterion", "name": "tone"})
    assert tuner.wait_idle(60)
    assert len(tuner.labels) == 7


def test_drawn_items_keep_their_probability(tmp_path: Path) -> None:
    log = tmp_path / "r.labels.jsonl"
    with pytest.raises(InputError, match="press Disputed in the tuner"):
        page_of(log, "Anna", order="disputed")
    rows = [("CR-1003", "tone", 0.5, 1), ("CR-1001", "tone", 0.25, 1), ("CR-1003", "correct", 1.0, 1)]
    drawn = pd.DataFrame(rows, columns=["item_id", "criterion", "probability", "round"])
    for _ in range(2):  # a restart draws nothing new
        page = page_of(log, "Anna", order=drawn)
    assert form(page)["n"] == 2
    while name := form(page)["form"]:
        save(page, ["1"] * len(form(page)["questions"]))
        assert name in ("CR-1001", "CR-1003")
    labels = page.labels.set_index(["item_id", "criterion"])
    assert {key: labels.loc[key[:2], "probability"] for key in rows} == {key: key[2] for key in rows}
    assert set(labels["source"]) == {"disputed"}
    assert set(labels["round"]) == {1}
    assert page.path.read_bytes().count(b'"drawn"') == 2
    assert form(page_of(log, "Ben", order="disputed"))["n"] == 2
    labels.reset_index().to_csv(tmp_path / "labels.csv")
    third = pd.DataFrame(
        [("CR-1002", "tone", 0.5, 3), ("CR-9", "tone", 0.5, 3), ("CR-1004", "wit", 0.5, 3)], columns=drawn.columns
    )
    for order in (third, third.head(2), "disputed"):  # what is not here is left out; the round is that of the table
        page = page_of(log, "Cem", order=order)
        assert {key: draw for key, draw in page._forms.drawn.items() if key[1] != "correct"} == {
            ("CR-1002", "tone"): (0.5, 3)
        }
        assert page.path.read_bytes().count(b'"drawn"') == 3
    for wrong in (float("nan"), None, 0.0, 1.7, -1, "often"):
        with pytest.raises(InputError, match="'CR-1002', criterion 'tone': the probability is"):
            page_of(log, "Cem", order=third.assign(probability=wrong))
    with pytest.raises(InputError, match="none of these items"):
        page_of(log, "Cem", order=third.iloc[1:])
    assert page.path.read_bytes().count(b'"drawn"') == 3  # only what can be labelled is in the log
    for whole in ("given", "random"):  # the hard items are asked again, else the figures were of the easy rest
        assert form(page_of(log, "Anna", order=whole))["n_done"] == 0
    with pytest.raises(InputError, match="no column 'probability'"):
        page_of(log, "Anna", order=drawn[["item_id", "criterion"]])
    with pytest.raises(ConfigError, match="'random', 'given', 'disputed'"):
        page_of(log, "Anna", order="shuffled")


def test_items_with_criteria_of_their_own_are_one_form(tmp_path: Path) -> None:
    items = [
        {"item_id": f"q{at}", "answer": f"Boil it {at}.", "criteria": [f"Names {at}.{n}" for n in range(at + 1)]}
        for at in range(3)
    ]
    page = ek.notebook.LabelPage(
        ek.rubrics.explode_criteria(items),
        "requirement", annotator="Anna", order="given", labels=tmp_path / "r.labels.jsonl",
    )  # fmt: skip
    for at in range(3):
        shown = form(page)
        assert shown["form"] == f"q{at}"
        assert [one["title"] for one in shown["questions"]] == [f"Names {at}.{n}" for n in range(at + 1)]
        assert [name for name, _ in shown["inputs"]] == ["answer"]
        if at == 1:
            skip(page)
        else:
            save(page, ["1"] * (at + 1))
    assert form(page)["form"] == "q1"
    assert form(page)["again"] == "I cannot tell"
    assert sorted(page.labels["item_id"].astype(str)) == ["q0#1", "q2#1", "q2#2", "q2#3"]
    assert page.labels["source"].astype(str).unique().tolist() == ["given"]


def test_scales_without_levels_and_with_many(tmp_path: Path) -> None:
    criteria = [
        {"name": "percent", "level": "interval", "scale": {0: "none", 100: "all"}},
        {"name": "kind", "level": "nominal", "scale": {f"k{n}": "" for n in range(12)}},
    ]
    rubric = ek.Rubric(id="odd", inputs=["answer"], criteria=criteria)
    page = ek.notebook.LabelPage([{"answer": "x"}] * 1, rubric, annotator="A", labels=tmp_path / "l.jsonl")
    percent, kind = form(page)["questions"]
    assert percent["ends"] == [0, 100]
    assert kind["levels"][9:] == [("k9", "k9", "0"), ("k10", "k10", ""), ("k11", "k11", "")]
    page.receive({"do": "save", "form": form(page)["form"], "answers": ["101", "k3"]})
    assert "not on the scale" in page.state["alert"]
    save(page, ["62.5", "k11"])
    assert page.labels["label"].astype(str).tolist() == ["62.5", "k11"]
    assert form(page)["form"] == ""


@pytest.mark.parametrize("name", ["", "  ", "decided by me"])
def test_names_that_are_nobodys_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="is no name of a person"):
        page_of(tmp_path / "l.jsonl", name)
    with pytest.raises(InputError, match=r"pass a list of names, such as people=\['Anna'\]"):
        page_of(tmp_path / "l.jsonl", "lead", view="lead", people="Anna")


@pytest.mark.long
def test_the_lead_sees_agreement_and_where_people_differ(tmp_path: Path) -> None:
    """`labelled` gives 24 items to two people; here the figures are counted by hand from its rule."""
    log = tmp_path / "r.labels.jsonl"
    empty = page_of(log, "Chris", view="lead")
    assert form(empty)["sentence"][0] == "Nobody has labelled yet."
    save(page_of(log, "Anna"), ["2", "1", "1"])
    assert "Only Anna" in repr(page_of(log, "Chris", view="lead"))
    log.unlink()
    labelled(log)
    lead = page_of(log, "Chris", view="lead")
    shown = form(lead)
    differ = {
        "correct": [at for at in range(24) if at % 9 == 0],  # 0 against 1
        "actionable": [at for at in range(24) if at % 2],
        "tone": [],
    }
    assert [(one["criterion"], one["n"], one["differ"]) for one in shown["agreement"]] == [
        (name, 24, len(places)) for name, places in differ.items()
    ]
    assert [one["value"] for one in shown["agreement"]] == pytest.approx([21 / 24, 0.5, 1])
    assert shown["agreement"][1]["course"] == pytest.approx([0.5, 0.5, 0.5])
    save(page_of(log, "Cleo"), ["2", "1", "1"])  # the course ends at the figure, with three people on some items, too
    for row in form(page_of(log, "Chris", view="lead"))["agreement"]:
        assert row["course"][-1] == pytest.approx(row["value"])
    order = random_order([item["item_id"] for item in reviews(30)])
    rows = {(order.index(one["item"]), one["criterion"]) for one in shown["rows"]}
    assert rows == {(at, name) for name, places in differ.items() for at in places}
    assert (
        shown["sentence"][0]
        == "Anna and Ben agree on “tone”; on “actionable” they do not yet; on “correct” it cannot be told yet."
    )
    assert shown["people"][0][:3] == ["Anna", 24, 30]
    agreement = form(page_of(log, "Chris", view="lead"))["agreement"]
    for who, code in (("Anna", "0"), ("Ben", "1")):  # to be decided, but no evidence of how far people agree
        lead._forms.log.add(order[28], "tone", who, LabelEdit(code, "disputed"))
    again = form(page_of(log, "Chris", view="lead"))
    assert again["agreement"] == agreement
    assert (order[28], "tone") in {(row["item"], row["criterion"]) for row in again["rows"]}
    assert "2 labels of items that were not drawn at random not in the agreement." in again["sentence"][2]
    anna = page_of(log, "Anna")
    for reason in ("I cannot tell", "Other: torn", "I cannot tell"):
        skip(anna, reason)
    notes = form(page_of(log, "Chris", view="lead"))["people"][0][3]
    assert notes.startswith("3 skipped (2 × I cannot tell; 1 × Other: torn)")
    assert shown["rows"][0]["text"] in {item["comment"].replace("\n", " ") for item in reviews(4)}


@pytest.mark.long
def test_a_decision_holds_while_people_say_what_they_said(tmp_path: Path) -> None:
    log = tmp_path / "r.labels.jsonl"
    anna, ben = page_of(log, "Anna"), page_of(log, "Ben")
    item = save(anna, "011")
    save(ben, "211")
    lead = page_of(log, "Chris", view="lead")
    lead.receive({"do": "decide", "item": item, "criterion": "correct", "label": "2"})

    def final() -> list[str]:
        labels = lead.final_labels
        return labels[labels["criterion"] == "correct"]["label"].astype(str).tolist()

    assert final() == ["2", "2"]
    ben.receive({"do": "open", "form": item})
    save(ben, "011")  # both say 0 now
    assert final() == ["0", "0"]
    ben.receive({"do": "open", "form": item})
    save(ben, "111")  # not what he said when it was decided
    assert final() == ["0", "1"]
    ben.receive({"do": "open", "form": item})
    save(ben, "211")
    assert final() == ["2", "2"]
    undo(ben)
    assert final() == ["0", "1"]


def test_labels_of_other_texts_are_counted_once_each(tmp_path: Path) -> None:
    log = tmp_path / "r.labels.jsonl"
    page = page_of(log, "Anna")
    for answers in ("011", "022", "110"):
        save(page, [*answers[:2], "1"])
    first = form(page)["earlier"][0][0]
    page.receive({"do": "open", "form": first})
    save(page, "001")
    changed = [item | {"comment": f"{item['comment']} Really."} for item in reviews(30)]
    other = ek.notebook.LabelPage(changed, RUBRIC, annotator="Anna", labels=log)
    assert "9 labels of texts, levels or items that changed or are gone left out" in repr(other)
    undo(page)
    undo(page)  # the third form is open again
    other.receive({"do": "look"})
    assert "6 labels of texts" in repr(other)
    save(other, "000")  # the first one again, in its new text
    assert "3 labels of texts" in repr(other)


def test_people_who_choose_near_numbers_agree(tmp_path: Path) -> None:
    rubric = ek.Rubric(
        id="h", inputs=["answer"], criteria=[{"name": "q", "level": "interval", "scale": {0: "a", 100: "b"}}]
    )
    items = [{"item_id": at, "answer": f"Answer {at}"} for at in range(27)]
    dice = random.Random(5)
    for far, says in ((3, "Anna and Ben agree on “q”."), (200, "Anna and Ben do not agree yet on “q”.")):
        log = tmp_path / f"{far}.labels.jsonl"
        truth = {str(at): dice.randint(0, 100) for at in range(27)}
        for who in ("Anna", "Ben"):
            page = ek.notebook.LabelPage(items, rubric, annotator=who, labels=log)
            while name := form(page)["form"]:
                save(page, [str(min(100, max(0, truth[name] + (who == "Ben") * dice.randint(-far, far))))])
        lead = ek.notebook.LabelPage(items, rubric, annotator="C", labels=log, view="lead")
        verdict, value, reason = form(lead)["sentence"]
        assert verdict == says
        assert value.startswith("“q”: ")
        assert value.endswith(" apart on average.")
        assert "against" not in reason
        assert "Label more" not in reason


def test_the_lead_sees_who_has_not_begun_and_who_only_skipped(tmp_path: Path) -> None:
    log = tmp_path / "r.labels.jsonl"
    lead = page_of(log, "Chris", view="lead", people=["Anna", "Ben"])

    def people() -> list[list[Any]]:
        lead.receive({"do": "look"})
        return [row[:3] for row in form(lead)["people"]]

    assert people() == [["Anna", 0, 30], ["Ben", 0, 30], ["decided by Chris", 0, 0]]
    skip(page_of(log, "Dora"))
    save(page_of(log, "Ben"), "111")
    assert people() == [["Ben", 1, 30], ["Anna", 0, 30], ["Dora", 0, 30], ["decided by Chris", 0, 0]]
    assert "1 skipped (1 × I cannot tell)" in form(lead)["people"][2][3]
    for opened in (["a"], {"b": 1}, None, "other"):
        lead.receive({"do": "open", "item": opened, "criterion": opened})
        lead.receive({"do": "decide", "item": opened, "criterion": opened})
        assert people()[0] == ["Ben", 1, 30]


@pytest.mark.long
def test_a_decision_is_a_label_of_its_own(tmp_path: Path) -> None:
    log = tmp_path / "r.labels.jsonl"
    labelled(log)
    lead = page_of(log, "Chris", view="lead")
    before = lead.labels
    for number in range(15):
        rows, panel = form(lead)["rows"], form(lead)["panel"]
        left = [one for one in rows if one["decision"] is None and one["item"] != panel["item"]]
        after = {"next_item": left[-1]["item"], "next_criterion": left[-1]["criterion"]} if left and number % 2 else {}
        lead.receive(
            {
                "do": "decide",
                "item": panel["item"],
                "criterion": panel["criterion"],
                "label": "1",
                "comment": "so",
                **after,
            }
        )
        assert lead.state["alert"] == ""
        assert form(lead)["people"][-1][:3] == ["decided by Chris", number + 1, 15]
    labels = lead.labels
    decisions = labels[labels["source"] == "adjudicated"]
    assert set(decisions["annotator"].astype(str)) == {"decided by Chris"}
    people = labels[labels["source"] != "adjudicated"].reset_index(drop=True)
    assert people.astype(str).equals(before.astype(str))
    final = lead.final_labels
    decided = set(zip(decisions["item_id"].astype(str), decisions["criterion"].astype(str), strict=True))
    for was, now in zip(before.itertuples(), final.itertuples(), strict=True):
        assert str(now.label) == ("1" if (str(was.item_id), str(was.criterion)) in decided else str(was.label))
    assert len(decided) == 15
    assert form(lead)["sentence"][2].endswith("all differences are decided.")
    assert form(lead)["agreement"][1]["value"] == 0.5  # decisions do not make people agree
    last = form(lead)["undo"]
    lead.receive({"do": "undo"})
    assert f"{form(lead)['panel']['item']}: {form(lead)['panel']['criterion']}" == last
    assert form(lead)["people"][-1][1] == 14
    assert (form(lead)["panel"]["decision"], form(lead)["panel"]["comment"]) == ("1", "so")
    assert form(lead)["sentence"][2].endswith("then decide the items below.")
    wrong = {"do": "decide", "item": "CR-1", "criterion": "tone", "label": "1"}
    lead.receive(wrong)
    assert form(lead)["people"][-1][1] == 14


@pytest.mark.long
def test_the_lead_compares_meanings_counts_all_pairs_and_the_newest_decision_holds(tmp_path: Path) -> None:
    items = [{"item_id": f"i{at:02}", "answer": f"a{at}"} for at in range(12)]
    scales = [{"name": "percent", "level": "interval", "scale": {0: "none", 10: "all"}},
              {"name": "c", "scale": {0: "no", 1: "mid", 2: "yes"}}]  # fmt: skip
    rubric = ek.Rubric(id="r", inputs=["answer"], criteria=scales)
    options = {"rubric": rubric, "labels": tmp_path / "l.jsonl", "order": "given"}
    codes = {"Ana": "000" + "1" * 9, "Ben": "1" * 12, "Cem": "22222" + "1" * 7}
    for who, number in zip(codes, ("3", "3.0", "3,00"), strict=True):
        page = ek.notebook.LabelPage(items, annotator=who, **options)
        for code in codes[who]:
            save(page, [number, code])
    leads = [ek.notebook.LabelPage(items, annotator=who, view="lead", **options) for who in ("Eva", "Fay")]
    assert [one["differ"] for one in form(leads[0])["agreement"]] == [0, 5]
    assert "5 of the 5 differences are “mid” against “yes”." in form(leads[0])["sentence"][2]
    for at, code in [(0, "0"), (1, "1"), (0, "2")]:
        leads[at].receive({"do": "open", "item": "i00", "criterion": "c"})
        leads[at].receive({"do": "decide", "item": "i00", "criterion": "c", "label": code})
        for lead in leads:
            lead.receive({"do": "look"})
            final = lead.final_labels.astype(str)
            mine = final[(final["item_id"] == "i00") & (final["criterion"] == "c")]
            assert [*mine["label"], form(lead)["rows"][0]["decision"]] == [code] * 4
    edited = [items[0], *({**item, "answer": "new"} for item in items[1:])]
    for view in ("label", "lead"):  # 11 items of three people with two labels each
        shown = repr(ek.notebook.LabelPage(edited, annotator="Gil", view=view, **options))
        assert shown.endswith("66 labels of texts, levels or items that changed or are gone left out.")


@pytest.mark.long
def test_figures_of_the_lead_are_pairs_of_labels_and_numbers_that_are_near_agree(tmp_path: Path) -> None:
    """Three people label unequally many items; pairs are counted by hand, and by `align`."""
    items = [{"item_id": f"i{at:02}", "answer": f"a{at}"} for at in range(40)]
    scales = [{"name": "c", "level": "nominal", "scale": {"x": "one", "y": "two"}},
              {"name": "n", "level": "interval", "scale": {0: "none", 100: "all"}}]  # fmt: skip
    rubric = ek.Rubric(id="r", inputs=["answer"], criteria=scales)
    options = {"rubric": rubric, "labels": tmp_path / "l.jsonl", "order": "given"}
    draw, said = random.Random(2), dict[str, list[tuple[str, int]]]()
    for who, n in (("Ana", 40), ("Ben", 30), ("Cem", 8)):
        page = ek.notebook.LabelPage(items, annotator=who, **options)
        said[who] = [(draw.choice("xxxy"), at * 2 + draw.randint(-3, 3) + 5) for at in range(n)]
        for code, number in said[who]:
            save(page, [code, str(number)])
    lead = ek.notebook.LabelPage(items, annotator="Eva", view="lead", **options)
    pairs = [
        (one, other)
        for at in range(30)
        for one, other in combinations([all_[at] for all_ in said.values() if at < len(all_)], 2)
    ]
    figures = {one["criterion"]: one for one in form(lead)["agreement"]}
    same = sum(one[0] == other[0] for one, other in pairs) / len(pairs)
    assert figures["c"]["value"] == pytest.approx(same)
    evaluation = ek.evaluate(items, rubric, ["fake:strict"], samples=1, progress=False)
    aligned = ek.align(evaluation.votes, lead.labels).set_index("criterion")
    assert figures["c"]["value"] == pytest.approx(aligned.loc["c", "accuracy_people"])
    assert (figures["n"]["value"], figures["n"]["differ"]) == (1, 0)  # at most 6 apart
    gap = sum(abs(one[1] - other[1]) for one, other in pairs) / len(pairs)
    assert figures["n"]["gap"] == f", the numbers {gap:.3g} apart on average"
    assert form(lead)["sentence"][0].startswith("Ana, Ben and Cem agree on “n”")
    for who, item, number in (("Ana", "i00", "60"), ("Ben", "i01", "99")):
        page = ek.notebook.LabelPage(items, annotator=who, **options)
        page._forms.log.add(item, "n", who, label_log.LabelEdit(number, "given"))
    lead = ek.notebook.LabelPage(items, annotator="Eva", view="lead", **options)
    assert {one["item"] for one in form(lead)["rows"] if one["criterion"] == "n"} == {"i00", "i01"}


@pytest.mark.long
def test_a_decision_from_before_people_changed_their_labels_is_shown_and_not_used(tmp_path: Path) -> None:
    log = tmp_path / "r.labels.jsonl"
    for who, code in (("Anna", "0"), ("Ben", "2")):
        save(page_of(log, who), [code, "1", "1"])
    lead = page_of(log, "Chris", view="lead")
    item = form(lead)["panel"]["item"]
    decision = {"do": "decide", "item": item, "criterion": "correct", "label": "2"}
    lead.receive(decision)
    assert [*lead.final_labels.query("criterion == 'correct'")["label"]] == ["2", "2"]
    undo(page_of(log, "Ben"))
    save(page_of(log, "Ben"), ["0", "1", "1"])
    for again in (lead, page_of(log, "Chris", view="lead"), page_of(log, "Kim", view="lead")):
        again.receive({"do": "look"})
        assert [*again.final_labels.query("criterion == 'correct'")["label"]] == ["0", "0"]
        (row,) = form(again)["rows"]
        assert (row["decision"], row["labels"]) == (None, ["0", "0"])
        assert row["text"].startswith("Decided as 2 before Ben changed. ")
        assert "1 decision from before people changed their labels: decide again" in form(again)["sentence"][2]
    lead.receive({"do": "undo"})
    assert form(lead)["rows"] == []
    lead.receive({"do": "look"})
    assert form(lead)["people"][-1] == ["decided by Chris", 0, 0, ""]


def test_the_levels_that_are_confused_look_different(tmp_path: Path) -> None:
    start = "The answer is supported by the context that stands above "
    scale = {0: f"{start}in no part.", 1: f"{start}in all of its parts."}
    rubric = ek.Rubric(id="same", inputs=["a"], criteria=[{"name": "c", "scale": scale}])
    items = [{"item_id": str(at), "a": str(at)} for at in range(4)]
    for who, answer in (("Anna", "0"), ("Ben", "1")):
        page = ek.notebook.LabelPage(items, rubric, annotator=who, labels=tmp_path / "l.labels.jsonl")
        while form(page)["form"]:
            save(page, [answer])
    lead = ek.notebook.LabelPage(items, rubric, annotator="Eva", labels=tmp_path / "l.labels.jsonl", view="lead")
    reason = form(lead)["sentence"][2]
    assert "in no part” against “" in reason
    assert "in all of its parts”" in reason
