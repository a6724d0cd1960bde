"""Versions in the tuner: names, notes, differences, undo and redo, side by side, and what chance changes."""

from __future__ import annotations

import copy
import json
import re
import threading
import time
from collections import Counter

import pandas as pd
import pytest
from small_tuner import RUBRIC, do

import evalkit as ek
from evalkit.core.reply_keys import digest
from evalkit.notebook.tuner.rubric_form import form_of
from evalkit.notebook.tuner.tuning_session import Session
from evalkit.notebook.tuner.version_history import Memo, changed_words, rebase
from evalkit.stats.comparison.comparison_table import chance_sentences

ITEMS = pd.DataFrame({"item_id": [f"i{at:02d}" for at in range(12)], "answer": [f"answer {at}" for at in range(12)]})
LABELS = pd.DataFrame({"item_id": ITEMS["item_id"], "criterion": "c", "annotator": "ann", "label": ["0", "2"] * 6})


class Counting:
    """A judge that counts its calls; it passes each prompt twice of three times."""

    def __init__(self):
        self.calls, self._asked, self._lock = 0, Counter[str](), threading.Lock()
        self.seconds = 0.0

    def __call__(self, prompt):
        time.sleep(self.seconds)
        with self._lock:
            self.calls += 1
            self._asked[str(prompt)] += 1
            begin = int(re.findall(r"answer (\d+)", str(prompt))[-1])  # whatever call comes first
            return "2" if (begin + self._asked[str(prompt)]) % 3 else "0"


@pytest.fixture
def counting(monkeypatch, tmp_path):
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "cache"))
    return Counting()


def start(folder, counting=None, **options):
    judge = (
        "fake:strict" if counting is None else ek.Judge.function(counting, name="own", version="1", price=(1.0, 1.0))
    )
    made = ek.RubricTuner(ITEMS, RUBRIC, judge, LABELS, folder=folder, **{"samples": 2} | options)
    assert made.wait_idle(300)
    return made


def level(tuner, text, step=""):
    """Type the text of level 1."""
    form = form_of(tuner.session.drafts.draft)
    form["criteria"][0]["scale"][1][1] = text
    do(tuner, do="form", form=form, step=step)


def level_of(tuner):
    return dict(tuner.rubric.criterion("c").scale)[1]


def two_versions(folder, counting=None, **options):
    tuner = start(folder, counting, **options)
    do(tuner, do="run")
    level(tuner, "nearly so")
    do(tuner, do="run")
    return tuner


def change(tuner):
    return next(tile for tile in tuner.state["figures"]["tiles"] if tile["title"] == "Changed")


def test_a_version_has_one_name_everywhere_and_keeps_it(tmp_path):
    tuner = start(tmp_path)
    assert (tuner.state["draft"]["name"], tuner.state["draft"]["ran"]) == ("v1", False)
    do(tuner, do="run")
    assert tuner.state["draft"]["ran"]
    level(tuner, "nearly so")
    assert (tuner.state["draft"]["name"], tuner.state["draft"]["ran"]) == ("v1.1", False)  # as after the run
    do(tuner, do="run")
    assert (tuner.state["draft"]["name"], tuner.state["draft"]["ran"]) == ("v1.1", True)
    do(tuner, do="jury", active={"fake:strict": 1}, samples=3, aggregate="mean")
    assert tuner.state["draft"]["name"] == "v1.2"  # another jury is another version
    do(tuner, do="run")
    assert tuner.versions["name"].tolist() == ["v1", "v1.1", "v1.2"]
    assert "from v1.1" in change(tuner)["note"]
    assert "showing v1.2" in repr(tuner)
    again = start(tmp_path)
    assert again.versions["name"].tolist() == ["v1", "v1.1", "v1.2"]


def test_a_saved_version_is_called_as_saved_and_its_edits_after_it(tmp_path, monkeypatch):
    monkeypatch.setenv("EVALKIT_RUBRICS", str(tmp_path / "rubrics"))
    RUBRIC.save(tmp_path / "rubrics")
    tuner = two_versions(tmp_path)
    tuner.save()
    tuner.wait_idle(60)
    assert tuner.versions["name"].tolist() == ["v1", "v2"]
    assert (tuner.state["draft"]["name"], tuner.state["draft"]["ran"]) == ("v2", True)
    level(tuner, "almost")
    assert tuner.state["draft"]["name"] == "v2.1"


def test_names_of_two_kernels_and_of_older_files_do_not_clash(tmp_path):
    one, other = start(tmp_path), start(tmp_path)
    for tuner, text in ((one, "nearly so"), (other, "almost")):
        level(tuner, text)
        do(tuner, do="run")
    path = tmp_path / "r.tuner.json"
    assert sorted(start(tmp_path).versions["name"]) == ["v1.1", "v1.2"]
    path.write_text(path.read_text().replace('"name":"v1.1"', '"nome":""'))  # as if written before there were names
    assert sorted(start(tmp_path).versions["name"]) == ["v1.1", "v1.2"]


def test_a_note_is_kept(tmp_path):
    tuner = two_versions(tmp_path)
    do(tuner, do="note", key=tuner.state["figures"]["current"], note="  asks for less ")
    assert tuner.versions["note"].tolist() == ["", "asks for less"]
    again = start(tmp_path)
    assert [version["note"] for version in again.state["figures"]["versions"]] == ["", "asks for less"]


def test_every_version_has_its_point_also_after_a_restart(tmp_path):
    tuner = two_versions(tmp_path)
    board = tuner.state["figures"]
    points = [version["point"] for version in board["versions"]]
    for point in points:
        low, high = map(float, re.search(r"\[(.+), (.+)\]", point["text"]).groups())
        assert 0 <= low <= point["value"] <= high <= 1
    assert points[0]["text"].startswith("agreement ")
    assert points[0]["text"].endswith(", 12 of 12 labelled items")
    assert tuner.session.tiles()[0].value in points[1]["text"]
    assert [version["point"] for version in start(tmp_path).state["figures"]["versions"]] == points
    do(tuner, do="versions", current=board["against"], against=board["current"])
    assert tuner.state["figures"]["current"] == board["against"]
    assert "from v1.1" in change(tuner)["note"]


@pytest.mark.parametrize("waits", [True, False])
def test_each_list_of_versions_is_a_choice_that_a_later_one_keeps(tmp_path, waits):
    tuner = two_versions(tmp_path)
    level(tuner, "almost")
    do(tuner, do="run")
    first, second, third = tuner.session.history.versions

    def chosen(*choices):
        busy = threading.Event()
        tuner._screen._jobs.do("busy", busy.wait)  # the choices that follow are not shown before
        for choice in choices:
            tuner.receive({"do": "versions", **choice})
            if waits:
                busy.set()
                assert tuner.wait_idle(300)
        busy.set()
        assert tuner.wait_idle(300)
        return tuple(tuner.state["figures"][name] for name in ("current", "against"))

    assert chosen({"current": first}, {"against": third}) == (first, third)
    assert chosen({"against": ""}, {"current": second}) == (second, "")
    assert chosen({"against": first}, {"current": third}) == (third, first)
    assert chosen({"against": second}, {"current": second}) == (second, third)
    # a version is not compared with itself: the one shown before takes its place
    assert chosen({"current": third}) == (third, second)
    assert chosen({"against": third}) == (third, "")


def test_without_labels_the_pass_rate_is_the_large_figure(tmp_path):
    tuner = ek.RubricTuner(ITEMS, RUBRIC, "fake:strict", folder=tmp_path)
    do(tuner, do="run")
    heads = [tile["title"] for tile in tuner.state["figures"]["tiles"] if tile["place"] == "head"]
    point = tuner.state["figures"]["versions"][0]["point"]
    assert heads == ["Pass rate"]
    assert point["text"].startswith("pass rate ")
    assert point["text"].endswith("12 items")
    assert "People among themselves" not in [tile["title"] for tile in tuner.state["figures"]["tiles"]]


def test_differences_are_words():
    assert changed_words("a b c d", "a x c d") == [("same", "a"), ("old", "b"), ("new", "x"), ("same", "c d")]
    assert changed_words("", "all new") == [("new", "all new")]
    assert changed_words("gone", "") == [("old", "gone")]


def test_differences_of_versions_are_of_rubric_and_jury(tmp_path):
    tuner = two_versions(tmp_path)
    tuner.edit("c", pass_at=1)
    do(tuner, do="jury", active={"fake:strict": 2}, samples=3, aggregate="median")
    do(tuner, do="run")
    words = {change["where"]: change["words"] for change in tuner.state["figures"]["diff"]}
    assert words == {
        "c: pass_at": [("old", "2"), ("new", "1")],
        "judges": [("same", "fake:strict (weight"), ("old", "1)"), ("new", "2)")],
        "samples": [("old", "2"), ("new", "3")],
        "aggregate": [("old", "mean"), ("new", "median")],
    }


def test_undo_and_redo(tmp_path):
    tuner = start(tmp_path)
    assert (tuner.state["draft"]["undo"], tuner.state["draft"]["redo"]) == (False, False)
    level(tuner, "near", step="view 1")
    level(tuner, "nearly so", step="view 1")  # typed on in the same field: one step
    level(tuner, "almost", step="view 2")
    do(tuner, do="undo_edit")
    assert level_of(tuner) == "nearly so"
    do(tuner, do="undo_edit")
    assert level_of(tuner) == "nearly"
    do(tuner, do="undo_edit")  # nothing is left to undo
    assert (level_of(tuner), tuner.state["draft"]["undo"]) == ("nearly", False)
    do(tuner, do="redo_edit")
    do(tuner, do="redo_edit")
    assert (level_of(tuner), tuner.state["draft"]["redo"]) == ("almost", False)
    do(tuner, do="undo_edit")
    level(tuner, "quite", step="view 3")
    assert not tuner.state["draft"]["redo"]  # after another edit there is nothing to redo
    do(tuner, do="undo_edit")
    assert level_of(tuner) == "nearly so"
    tuner.edit("c", scale={1: "from code"})
    do(tuner, do="undo_edit")
    assert level_of(tuner) == "nearly so"


def test_undo_of_what_is_invalid_and_across_a_run_and_a_version(tmp_path):
    tuner = two_versions(tmp_path)
    do(tuner, do="yaml", text="no: [")
    assert tuner.state["draft"]["problem"]
    do(tuner, do="undo_edit")
    assert (tuner.state["draft"]["problem"], level_of(tuner)) == ("", "nearly so")
    do(tuner, do="take", key=tuner.state["figures"]["against"])
    assert level_of(tuner) == "nearly"
    do(tuner, do="undo_edit")
    assert level_of(tuner) == "nearly so"
    do(tuner, do="undo_edit")  # the edit before the run
    assert (level_of(tuner), tuner.state["draft"]["name"]) == ("nearly", "v1")


def test_an_item_shows_both_sets_of_reasons(tmp_path):
    tuner = two_versions(tmp_path)
    do(tuner, do="select", item_id="i00")
    item = tuner.state["item"]
    assert item["versions"] == ["v1.1", "v1"]
    [judge] = item["judges"]
    assert [len(side["samples"]) for side in (judge, judge["before"])] == [2, 2]
    do(tuner, do="versions", current=tuner.state["figures"]["current"], against="")
    assert "versions" not in tuner.state["item"]


def test_an_item_names_judges_that_only_one_version_has(tmp_path):
    tuner = start(tmp_path)
    do(tuner, do="run")
    do(tuner, do="judge", judge="fake:lenient")
    do(tuner, do="jury", active={"fake:lenient": 1}, samples=2, aggregate="mean")
    do(tuner, do="run")
    do(tuner, do="select", item_id="i00")
    item = tuner.state["item"]
    assert [judge["judge"] for judge in item["gone"]] == ["fake:strict"]
    assert [(judge["judge"], judge["before"]) for judge in item["judges"]] == [("fake:lenient", None)]


def test_where_nothing_was_asked_again_it_says_same_replies_and_no_chance(tmp_path):
    tuner = start(tmp_path)
    do(tuner, do="run")
    tuner.edit("c", pass_at=1)  # decides the verdict, not the prompt
    do(tuner, do="run")
    assert change(tuner)["note"] == "verdicts, from v1 · 4 items lost a verdict · same replies"  # two samples tie
    assert not tuner.state["figures"]["measure"]
    do(tuner, do="select", item_id="i00")
    assert tuner.state["item"]["judges"][0]["same"]


def test_chance_is_measured_by_one_button_that_names_its_price_first(tmp_path, counting):
    tuner = two_versions(tmp_path, counting)
    assert counting.calls == 48  # 12 items × 2 samples × 2 versions
    assert tuner.state["figures"]["measure"]
    assert "not measured" in change(tuner)["note"]
    assert tuner.state["price"].startswith("at most 24 requests on 12 items, about US$ ")
    assert counting.calls == 48  # the price costs nothing
    do(tuner, do="measure")
    assert counting.calls == 48 + 24
    assert tuner.state["status"]["text"] == "chance measured on 12 items"
    assert "(measured: " in change(tuner)["note"]
    assert not tuner.state["figures"]["measure"]
    row = ek.compare(
        tuner.session.runs.compared,
        tuner.session.evaluation,
        floor=tuner.session.repeats._tables[tuner.session.runs.against],
    )
    assert f"changes 0 to {row.table['chance_up_to'].iloc[0]:.0f} (measured" in change(tuner)["note"]
    note = change(tuner)["note"]
    again = start(tmp_path, counting)
    assert (change(again)["note"], counting.calls) == (note, 72)  # kept, and not paid for again


def test_measuring_chance_respects_the_budget_and_keeps_what_was_paid(tmp_path, counting):
    tuner = two_versions(tmp_path, counting)
    tuner.session.drafts.budget_usd = 0.0
    do(tuner, do="measure")
    assert counting.calls == 48
    assert tuner.state["figures"]["measure"]  # nothing is shown as measured
    tuner.session.drafts.budget_usd = None
    do(tuner, do="measure")
    assert counting.calls == 72


def test_measuring_chance_can_be_stopped_and_goes_on_for_the_rest(tmp_path, counting):
    tuner = two_versions(tmp_path, counting, concurrency=1)

    def stop(_progress):
        tuner.session.runs.stop()

    counting.seconds = 0.1  # progress is reported ten times per second
    text = tuner.session.repeats.measure(stop)
    counting.seconds = 0.0
    assert text.startswith("stopped: chance is not measured yet")
    assert tuner.session.floor_missing
    first = counting.calls
    assert 48 <= first < 72
    assert tuner.session.repeats.measure() == "chance measured on 12 items"
    assert counting.calls == 72


def test_sentences_about_chance():
    row = {"floor_source": "measured", "chance_up_to": 12.0, "change_p": 0.0005, "floor": 0.25, "floor_low": 0.15}
    row |= {"floor_high": 0.38, "n_floor": 30, "n_common": 40, "n_clusters": 40}
    assert chance_sentences(row) == (
        "Asking the same prompt again changes 0 to 12 (measured: 0.25 [0.15, 0.38] of 30 items). "
        "The replies changed more than by chance, p <0.001."
    )
    grouped = chance_sentences(row | {"n_clusters": 12})  # the interval is of groups, so their number is named
    measured = "Asking the same prompt again changes 0 to 12 (measured: 0.25 [0.15, 0.38] of 30 items"
    assert grouped.startswith(f"{measured}; 12 different texts or groups). ")
    grouped = chance_sentences(row | {"n_clusters": 12, "floor_source": "range", "floor": float("nan")})
    assert "changes 0 to 12 (not measured: all that the samples allow; 12 different texts or groups). " in grouped
    row |= {"floor_source": None, "chance_up_to": float("nan"), "change_p": 0.3}
    assert chance_sentences(row) == (
        "How many change when the same prompt is asked again: not measured. "
        "The replies changed no more than by chance, p 0.300."
    )
    assert chance_sentences({"floor_source": "same replies"}) == "same replies"
    row["change_p"] = float("nan")
    assert chance_sentences(row) == "cannot tell change from noise"


def test_an_edit_is_found_after_a_restart(tmp_path):
    tuner = start(tmp_path)
    tuner.session.drafts.edit(lambda base, _draft: rebase(base, RUBRIC.edit("c", scale={1: "x"}).to_dict()))
    assert level_of(start(tmp_path)) == "x"


def test_an_item_that_gets_or_loses_its_verdict_is_a_change(tmp_path):
    jury = [ek.Judge("openai", name, name=name, base_url="http://127.0.0.1:9/v1") for name in ("x", "y")]
    items, edited = ITEMS.head(4), RUBRIC.edit("c", scale={1: "nearly so"})
    replies = {
        RUBRIC: (["2", "2", "2", "0"], ["0", "0", "2", "0"]),
        edited: (["2", "0", "2", "0"], ["2", "0", "0", "0"]),
    }
    for rubric, said in replies.items():
        for judge, texts in zip(jury, said, strict=True):
            ek.record(items, rubric, judge, [[text] for text in texts], overwrite=True)
    tuner = ek.RubricTuner(items, RUBRIC, jury, LABELS, folder=tmp_path, samples=1, recorded="use")
    assert tuner.wait_idle(300)
    do(tuner, do="run")
    level(tuner, "nearly so")
    do(tuner, do="run")
    # i00 and i01 tie at first, then pass and fail; i02 passes, then ties; i03 fails twice
    tile = change(tuner)
    assert tile["value"].startswith("0 of 1")
    assert "2 items got a verdict, 1 item lost a verdict" in tile["note"]
    do(tuner, do="query", query={"filter": "moved"})
    page = tuner.state["page"]
    changes = {"i00": "verdict appeared", "i01": "verdict appeared", "i02": "verdict lost"}
    assert {row["item_id"]: row["change"] for row in page["rows"]} == changes
    assert (page["counts"]["moved"], page["counts"]["tied"], page["counts"]["unscored"]) == (3, 1, 0)
    scored = next(tile for tile in tuner.state["figures"]["tiles"] if tile["title"] == "Scored")
    assert scored["note"] == "items; all judgments scored; 1 without a verdict, 1 of them tied"


def test_the_price_of_measuring_chance_is_the_most_that_it_may_take(tmp_path, monkeypatch):
    """Where chance changes little it stops early; the button says at most how many requests, and that it may stop."""
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "cache"))
    items = [{"item_id": f"i{at:03d}", "answer": f"answer {at}"} for at in range(150)]
    labels = LABELS.assign(item_id=[f"i{at:03d}" for at in range(12)])
    for name, noise, stops in (("calm", 0, True), ("noisy", 2, False)):
        calls = []

        def answer(prompt, calls=calls, noise=noise):
            calls.append(1)
            text = "\n".join(message.content for message in prompt.messages)
            place = int(digest([text, len(calls) if noise else 0]), 16)
            return "2" if place % 3 else "0"

        judge = ek.Judge.function(answer, name=name, version="1", price=(1.0, 1.0))
        tuner = ek.RubricTuner(items, RUBRIC, judge, labels, folder=tmp_path / name, samples=2)
        assert tuner.wait_idle(300)
        do(tuner, do="run")
        level(tuner, "nearly so")
        do(tuner, do="run")
        n_before, shown = len(calls), tuner.state["price"]
        assert shown.startswith("at most 300 requests on 150 items, about US$ ")
        assert "ends early at ± 3 points" in shown
        do(tuner, do="measure")
        assert (0 < len(calls) - n_before < 300) is stops, (name, len(calls) - n_before)
        assert len(calls) - n_before <= 300
        assert "Asking the same prompt again changes 0 to" in change(tuner)["note"]


def test_a_session_file_that_was_edited_opens_and_keeps_what_cannot_be_read(tmp_path):
    """Each key that a version or the state has is taken out in turn."""
    two_versions(tmp_path)
    path = next(tmp_path.glob("*.tuner.json"))
    whole = json.loads(path.read_text())
    places = [*((1, name) for name in whole["versions"][1]), *((None, name) for name in whole["state"])]
    for at, name in places:
        values = copy.deepcopy(whole)
        del (values["state"] if at is None else values["versions"][at])[name]
        path.write_text(json.dumps(values))
        session = Session(ITEMS, RUBRIC, "fake:strict", labels=LABELS, folder=tmp_path, samples=2)
        is_read = len(session.history.versions) == 2
        assert is_read or len(session.history.notes) == 1
        assert is_read == (at is None or name not in ("key", "base", "rubric", "judges", "samples", "aggregate"))
        session.history.save()
        n_kept = len(json.loads(path.read_text())["versions"])
        assert n_kept == 2, (at, name)


def test_what_was_computed_is_returned_to_the_thread_that_computed_it():
    memo = Memo()

    def slow():
        assert memo.once("change", "new", lambda: "new value") == "new value"  # another thread, meanwhile
        return "old value"

    assert memo.once("change", "old", slow) == "old value"
    assert memo.once("change", "new", lambda: "new again") == "new again"
    assert memo.once("change", "new", lambda: "never") == "new again"
