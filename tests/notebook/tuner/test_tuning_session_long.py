"""A session over restarts: whatever its rubric came from, nothing is asked twice and no edit is lost without a word."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from itertools import count

import pandas as pd
import pytest
from decision_server import at, decider
from servers import judge_server
from small_tuner import RUBRIC, do

import evalkit as ek
from evalkit.core.prompts_and_replies import Reply
from evalkit.errors import CacheError, InputError, JudgeError
from evalkit.evaluation.freeze_and_calibrate import write_profile
from evalkit.notebook.tuner.decision_sentence import decision_of
from evalkit.notebook.tuner.rubric_form import form_of
from evalkit.notebook.tuner.tuning_session import Session
from evalkit.notebook.tuner.version_history import rebase
from evalkit.notebook.tuner.version_runs import Runs

ITEMS = [{"item_id": f"i{at}", "answer": f"ITEM-{at % 3}, which is answer {at}"} for at in range(4)]
FIELDS = {
    "id": "review",
    "description": "Is it so?",
    "inputs": ["answer"],
    "template": "number@v1",
    "criteria": [{"name": name, "scale": {0: "no", 1: "nearly", 2: "yes"}, "pass_at": 2} for name in ("one", "two")],
}
ORIGINS = ("shipped", "folder", "id@version", "file", "object", "profile")


class Desk:
    """A project folder, the cell that opens the tuner there, and a server that counts what is paid."""

    def __init__(self, origin, folder, url, monkeypatch, per_call=1):
        self.origin, self.folder, self.monkeypatch, self.per_call = origin, folder, monkeypatch, per_call
        self.judge = ek.Judge("openai", "m", base_url=url, price=(1.0, 2.0), max_tokens=50)
        self.texts, self.asked, self.names = count(), set(), count()
        self.folder.mkdir(parents=True)
        self.enter()
        (folder / "items.jsonl").write_text("\n".join(map(json.dumps, ITEMS)))
        rubric = ek.Rubric(**FIELDS)
        if origin == "shipped":  # a folder that is read and never written
            rubric.save(folder.parent / "shipped")
        if origin in ("folder", "id@version"):
            rubric.save(folder / "rubrics")
        (folder / "mine.yaml").write_text(str(rubric))
        if origin == "profile":
            rubric.save(folder / "rubrics")
            write_profile(folder / "jury.yaml", "review@v1", [self.judge], samples=1)
        self.open()

    def enter(self):
        self.monkeypatch.chdir(self.folder)
        (self.folder / "pyproject.toml").touch()
        self.monkeypatch.setenv("EVALKIT_CACHE", str(self.folder / "cache"))
        shipped = f":{self.folder.parent / 'shipped'}" if self.origin == "shipped" else ""
        self.monkeypatch.setenv("EVALKIT_RUBRICS", f"{self.folder / 'rubrics'}{shipped}")

    def open(self):
        named = {"file": self.folder / "mine.yaml", "object": ek.Rubric(**FIELDS), "id@version": "review@v1"}
        named["profile"] = self.folder / "jury.yaml"
        rubric = named.get(self.origin, "review")
        judges = None if self.origin == "profile" else [self.judge]
        self.tuner = ek.RubricTuner("items.jsonl", rubric, judges, samples=1)
        assert self.tuner.wait_idle(300)

    # -- what a person does
    def edit(self, name="one"):
        form = form_of(self.tuner.rubric)
        form["criteria"][name == "two"]["scale"][1][1] = f"nearly so, text {next(self.texts)}"
        self.do(do="form", form=form)

    def run(self):
        self.do(do="run")
        self.asked |= {*self.tuner.rubric.prompt_hashes.values()}

    def save(self):
        self.do(do="save")

    def freeze(self):
        evaluation = self.tuner.evaluation
        if evaluation is not None:
            profile = ek.freeze(evaluation, f"judge-{next(self.names)}.yaml")
            ek.judge(ek.load_items("items.jsonl"), profile)  # pays for nothing

    def restart(self):
        before = self.seen()
        self.open()
        assert self.seen() == before
        assert [one["text"] for one in self.tuner.state["notices"] if "cell" in one["text"]] == []

    def move(self):
        self.folder = self.folder.rename(self.folder.with_name(f"moved-{next(self.names)}"))
        self.enter()
        self.restart()

    def do(self, **message):
        self.tuner.receive(message)
        assert self.tuner.wait_idle(300)
        assert self.tuner.state["alert"] == ""

    def seen(self):
        """What the editor, the strip and the table show."""
        state, evaluation = self.tuner.state, self.tuner.evaluation
        scores = (
            None if evaluation is None else evaluation.scores[["item_id", "criterion", "score"]].to_numpy().tolist()
        )
        names = [version["name"] for version in state["figures"]["versions"]]
        figures = {key: state["figures"][key] for key in ("current", "against")}
        draft = {key: state["draft"][key] for key in ("name", "ran", "form", "undo", "problem")}
        return draft, figures, names, scores, self.tuner.rubric.content_hash


@pytest.mark.parametrize("origin", ORIGINS)
def test_nothing_is_paid_twice_and_nothing_is_lost_whatever_the_rubric_came_from(origin, tmp_path, monkeypatch):
    dice = random.Random(origin)
    with judge_server() as server:
        for number in range(2):
            desk = Desk(origin, tmp_path / str(number) / "project", server.url, monkeypatch)
            server.paid.clear()
            # as it was lost: own file, edited, run, saved, frozen
            steps = ["run", "edit", "run", "save", "freeze", "restart", "edit", "restart", "move", "restart"]
            if number:
                steps = dice.choices(["edit", "edit", "run", "run", "save", "freeze", "restart", "move"], k=10)
            for step in [*steps, "run", "save", "freeze", "restart", "restart"]:
                getattr(desk, step)()
                assert len(server.paid) == len(desk.asked) * len(ITEMS), (step, steps)


def test_replies_to_several_criteria_at_once_count_for_the_saved_version_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(str(ek.Rubric(**FIELDS | {"template": "default@v1"})))
    said = {"content": json.dumps({name: {"explanation": "so", "score": 2} for name in ("one", "two")})}
    with judge_server(always=said) as server:
        profile = write_profile("both.yaml", "mine.yaml", ek.Judge("openai", "m", base_url=server.url), samples=1,
                                criteria_per_call="all")  # fmt: skip
        tuner = ek.RubricTuner(ITEMS, profile, folder=tmp_path)
        tuner.edit("one", scale={1: "nearly so"})
        tuner.run()
        n_paid = len(server.paid)
        tuner.save()
        frozen = ek.freeze(tuner.evaluation, "frozen.yaml")
        assert (n_paid, ek.plan(ITEMS, frozen).n_to_call) == (len(ITEMS), 0)


def tuner_of(folder, rubric=None, **options):
    made = ek.RubricTuner(
        ITEMS, ek.Rubric(**FIELDS) if rubric is None else rubric, "fake:strict", folder=folder, **options
    )
    assert made.wait_idle(300)
    return made


def notes_of(tuner):
    return [notice["text"] for notice in tuner.state["notices"] if "judgments" not in notice["text"]]


def test_what_was_typed_and_is_invalid_comes_back_with_its_problem(tmp_path):
    tuner = tuner_of(tmp_path)
    form = form_of(tuner.rubric)
    form["criteria"][0]["scale"][1][0] = "0"
    for message in ({"do": "form", "form": form}, {"do": "yaml", "text": "criteria: ["}):
        do(tuner, **message)
        problem = tuner.state["draft"]["problem"]
        assert problem
        for _ in range(2):
            tuner = tuner_of(tmp_path)
            assert (tuner.state["draft"]["problem"], tuner.state["alert"]) == (problem, "")
            assert tuner.state["draft"]["typed"] == {name: message[name] for name in message if name != "do"}
    do(tuner, do="undo_edit")
    assert (tuner_of(tmp_path).state["draft"]["problem"], tuner.rubric.edited) == ("", False)


def test_edits_can_be_undone_after_a_restart(tmp_path):
    tuner = tuner_of(tmp_path)
    for text in ("nearly so", "almost"):
        tuner.edit("one", scale={1: text})
    do(tuner, do="undo_edit")
    tuner = tuner_of(tmp_path)
    assert tuner.rubric.criterion("one").scale[1] == "nearly so"
    do(tuner, do="redo_edit")
    assert tuner_of(tmp_path).rubric.criterion("one").scale[1] == "almost"
    do(tuner, do="undo_edit")
    do(tuner, do="undo_edit")
    assert not tuner_of(tmp_path).rubric.edited


def test_another_rubric_in_the_cell_is_shown_and_the_last_draft_is_one_undo_away(tmp_path, monkeypatch):
    monkeypatch.setenv("EVALKIT_RUBRICS", str(tmp_path / "rubrics"))
    ek.Rubric(**FIELDS).save()
    tuner = tuner_of(tmp_path, "review")
    tuner.run()
    tuner.edit("one", scale={1: "nearly so"})
    tuner.run()
    tuner.save()  # v2
    tuner.edit("two", scale={1: "almost"})  # not run
    draft = tuner.rubric.content_hash
    assert tuner_of(tmp_path, "review").rubric.content_hash == draft  # the name means v2 now: the same session
    older = tuner_of(tmp_path, "review@v1")
    assert (older.rubric.version, older.rubric.edited, older.state["draft"]["name"]) == ("v1", False, "v1")
    assert older.session.history.versions[older.state["figures"]["current"]].name == "v1"  # as in the editor
    assert [note[:24] for note in notes_of(older)] == ["This cell names another "]
    do(older, do="undo_edit")
    assert older.rubric.content_hash == draft
    do(older, do="run")
    assert notes_of(older) == []
    third = ek.Rubric(**FIELDS).edit(description="Something else?")
    (tmp_path / "new.yaml").write_text(str(third))
    shown = tuner_of(tmp_path, tmp_path / "new.yaml")
    assert (shown.rubric.content_hash, len(notes_of(shown))) == (third.content_hash, 1)


def test_a_version_that_freeze_saved_is_found_by_its_content(tmp_path, monkeypatch):
    monkeypatch.setenv("EVALKIT_RUBRICS", str(tmp_path / "rubrics"))
    ek.Rubric(**FIELDS).save()
    tuner = tuner_of(tmp_path, "review")
    tuner.edit("one", scale={1: "nearly so"})
    tuner.run()
    ek.freeze(tuner.evaluation, tmp_path / "mine.yaml")  # saves v2
    tuner.edit("two", scale={1: "almost"})  # not run
    draft = tuner.rubric.content_hash
    again = tuner_of(tmp_path, "review")
    assert (again.versions["name"].tolist(), again.versions["label"].tolist()) == (["v2"], ["v2"])
    assert (again.rubric.content_hash, again.state["draft"]["name"], notes_of(again)) == (draft, "v2.1", [])


def test_two_rubrics_under_one_name_keep_their_drafts(tmp_path):
    other = ek.Rubric(**FIELDS | {"id": "other"})
    for rubric in (ek.Rubric(**FIELDS), other):
        tuner_of(tmp_path, rubric, name="both").edit("one", scale={1: f"of {rubric.id}"})
    for rubric in (ek.Rubric(**FIELDS), other, ek.Rubric(**FIELDS)):
        assert tuner_of(tmp_path, rubric, name="both").rubric.criterion("one").scale[1] == f"of {rubric.id}"


def test_a_version_that_cannot_be_shown_is_counted_and_stays_in_the_file(tmp_path):
    tuner_of(tmp_path).run()
    path = tmp_path / "review.tuner.json"
    path.write_text(path.read_text().replace('"provider":"fake"', '"provider":"gone"', 1))
    for _ in range(2):
        tuner = tuner_of(tmp_path)
        assert [note.split(" (")[0] for note in notes_of(tuner)] == [
            "1 version is in review.tuner.json, but cannot be shown: v1"
        ]
        tuner.edit("one", scale={1: "nearly so"})
    assert '"provider":"gone"' in path.read_text()


def test_replies_that_cannot_be_stored_under_the_saved_version_are_told_and_the_version_is_there(tmp_path, monkeypatch):
    monkeypatch.setenv("EVALKIT_RUBRICS", str(tmp_path / "rubrics"))
    tuner = tuner_of(tmp_path)
    tuner.edit("one", scale={1: "nearly so"})
    tuner.run()

    def refuse(*_):
        raise CacheError("the disk is full")

    monkeypatch.setattr("evalkit.notebook.tuner.tuning_session.promote_to", refuse)
    do(tuner, do="save")
    assert "saved as review@v2, but the replies that were paid for cannot be stored" in tuner.state["alert"]
    assert "the disk is full" in tuner.state["alert"]
    assert (tuner.rubric.version, tuner.rubric.edited, tuner.versions["name"].tolist()) == ("v2", False, ["v2"])
    assert tuner.state["draft"]["yaml"] == (tmp_path / "rubrics/review/v2.yaml").read_text()


class Wavering:
    """A judge whose verdicts differ, and that suggests an edit when it is asked for one."""

    def __init__(self):
        self.turns, self.texts, self.calls = random.Random(0), count(), 0

    def __call__(self, prompt):
        self.calls += 1
        if "suggest" in str(prompt).lower():
            edit = {
                "criterion": "one",
                "part": "level",
                "code": "1",
                "text": f"idea {next(self.texts)}",
                "reason": "so",
            }
            return self.reply(json.dumps({"edits": [edit]}))
        return self.reply(self.turns.choice("0022"))

    def reply(self, text):
        return Reply(text, prompt_tokens=100, completion_tokens=10)


def wavering_tuner(folder, judge, n_labels=0, **options):
    items = [{"item_id": f"i{at:03d}", "answer": f"answer {at}"} for at in range(max(20, n_labels))]
    rows = [(f"i{at:03d}", "one", "ann", "02"[at % 2]) for at in range(n_labels)]
    labels = pd.DataFrame(rows, columns=["item_id", "criterion", "annotator", "label"]) if rows else None
    known = ek.Judge.function(judge, name="own", version="1", price=(1.0, 1.0))
    made = ek.RubricTuner(items, ek.Rubric(**FIELDS), known, labels, folder=folder, samples=2, **options)
    assert made.wait_idle(300)
    return made


@pytest.mark.parametrize("steps", [(), ("restart",), ("save",), ("save", "restart"), ("restart", "save", "restart")])
def test_chance_is_measured_once_for_what_was_edited_at_the_price_that_is_shown(tmp_path, monkeypatch, steps):
    monkeypatch.setenv("EVALKIT_RUBRICS", str(tmp_path / "rubrics"))
    judge = Wavering()
    tuner = wavering_tuner(tmp_path, judge)
    do(tuner, do="run")
    tuner.edit("one", scale={1: "nearly so"})
    do(tuner, do="run")
    for step in steps:
        if step == "save":
            do(tuner, do="save")
        else:
            tuner = wavering_tuner(tmp_path, judge)
    assert judge.calls == 20 * 2 * 3  # twice two criteria, of which one was not edited
    assert tuner.state["figures"]["measure"]
    # two more samples of the edited criterion
    assert tuner.state["price"].startswith("at most 40 requests on 20 items, about US$ ")
    do(tuner, do="measure")
    assert (judge.calls, tuner.state["status"]["text"]) == (20 * 2 * 4, "chance measured on 20 items")
    for _ in range(2):
        assert not tuner.state["figures"]["measure"]
        do(tuner, do="criterion", name="two")
        [note] = [tile["note"] for tile in tuner.state["figures"]["tiles"] if tile["title"] == "Changed"]
        assert note.endswith("same replies")
        do(tuner, do="criterion", name="one")
        do(tuner, do="save")
        tuner = wavering_tuner(tmp_path, judge)
    assert judge.calls == 20 * 2 * 4


def test_chance_of_a_version_counts_for_others_that_were_asked_the_same(tmp_path):
    judge = Wavering()
    tuner = wavering_tuner(tmp_path, judge)
    do(tuner, do="run")
    for name in ("two", "one"):
        tuner.edit(name, scale={1: "nearly so"})
        do(tuner, do="run")
    do(tuner, do="measure")  # of the second version, on the criterion that the third one edited
    n_calls, (first, second, third) = judge.calls, tuner.session.history.versions
    for against, is_open in ((second, False), (first, False), (third, True)):
        do(tuner, do="versions", current=third if is_open is False else first, against=against)
        assert tuner.state["figures"]["measure"] == is_open
    do(tuner, do="criterion", name="two")
    do(tuner, do="versions", current=third, against=first)
    assert tuner.state["figures"]["measure"]  # that criterion was not
    assert judge.calls == n_calls


@pytest.mark.parametrize("per_call", ["all", 2, 1])
def test_chance_of_prompts_on_several_criteria_is_that_of_the_whole_prompt(tmp_path, per_call):
    def one(text):
        return {"explanation": "so", "score": int(text)}

    judge = Wavering()
    judge.reply = lambda text: Reply(
        json.dumps({name: one(text) for name in ("one", "two")} | one(text)), prompt_tokens=100, completion_tokens=10
    )
    tuner = wavering_tuner(tmp_path, judge, criteria_per_call=per_call, template="default")
    do(tuner, do="run")
    for name in ("two", "one"):
        tuner.edit(name, scale={1: "nearly so"})
        do(tuner, do="run")
        do(tuner, do="criterion", name=name)
        n_calls = judge.calls
        assert tuner.state["figures"]["measure"]
        do(tuner, do="measure")
        assert (judge.calls - n_calls, tuner.state["status"]["text"]) == (40, "chance measured on 20 items")
        assert not tuner.state["figures"]["measure"]
    # replies that are gone are asked for again, also where another version was measured
    repeats, against = tuner.session.repeats, tuner.session.runs.against
    repeats.sizes = {key: dict.fromkeys(sizes, 20) for key, sizes in repeats.sizes.items()}
    repeats.forget()
    repeats._sample = lambda evaluation, *_, **__: evaluation.judgments.assign(error="cache_miss")
    assert (repeats.of(against), repeats.measured(against)) == (None, {})


def test_all_that_was_paid_is_in_history_in_the_cache_and_on_screen(tmp_path):
    judge = Wavering()
    tuner = wavering_tuner(tmp_path, judge, 120)
    [name] = [one.name for one in tuner.session.drafts.judges]
    steps = [{"do": "run"}, {"do": "suggest", "judge": name}, {"do": "try", "number": 0}, {"do": "measure"}]
    for message in steps:
        calls = judge.calls
        do(tuner, **message)
        assert (tuner.state["alert"], judge.calls > calls) == ("", True), message
        past, stored = ek.history(), ek.evaluation.cache_stats()
        assert past["paid_usd"].sum() == pytest.approx(stored["cost_usd"])
        assert stored["session"]["paid_usd"] == pytest.approx(stored["cost_usd"])
        usd = f"US$ {stored['cost_usd']:.4f}"
        assert tuner.state["status"]["paid"] == f"paid: session {usd}, project {usd}"
    jobs = past[past["evaluation"].str.contains("[^0-9a-f]")]
    assert jobs["evaluation"].tolist() == ["measure chance", "suggest edits"]
    assert (jobs["paid_usd"] > 0).all()
    assert not past["evaluation"].isna().any()  # nothing was paid that has no name
    ids = past["evaluation"].drop(jobs.index)
    assert past.loc[ids.index, "criterion"].tolist() == ["one", "two"] * 2
    with pytest.raises(InputError, match="not found"):
        ek.evaluation.open_evaluation("measure chance", [])


def test_suggestions_that_were_tried_stay_in_the_list(tmp_path):
    judge = Wavering()
    tuner = wavering_tuner(tmp_path, judge, 120)
    [name] = [one.name for one in tuner.session.drafts.judges]
    do(tuner, do="run")
    do(tuner, do="suggest", judge=name)
    do(tuner, do="try", number=0)
    tried = tuner.state["suggestions"]["rows"]
    do(tuner, do="suggest", judge=name)
    rows = tuner.state["suggestions"]["rows"]
    assert (len(rows), rows[1:]) == (2, tried)
    again = wavering_tuner(tmp_path, judge, 120)
    assert again.state["suggestions"] == tuner.state["suggestions"]


def test_freeze_writes_the_saved_version_beside_the_session_and_replaces_a_file_only_at_the_second_press(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("EVALKIT_RUBRICS", str(tmp_path / "rubrics"))
    tuner = tuner_of(tmp_path)
    do(tuner, do="freeze")
    assert "run first" in tuner.state["alert"]
    do(tuner, do="run")
    do(tuner, do="save")
    tuner.edit("one", scale={1: "nearly so"})
    do(tuner, do="run")
    do(tuner, do="freeze")
    assert tuner.state["alert"].endswith("is not saved, so it cannot be frozen: press Save version")
    do(tuner, do="save")
    assert tuner.state["alert"] == ""
    n_stored, version = ek.evaluation.cache_stats()["n_keys"], tuner.rubric.version
    path = tmp_path / f"{tuner.session.name}-{version}.yaml"
    for _ in range(2):  # the same again writes nothing
        do(tuner, do="freeze")
        assert tuner.state["status"]["text"].startswith(f"frozen as {path}: ")
    frozen = ek.load_profile(path)
    assert (frozen.load().content_hash, ek.evaluation.cache_stats()["n_keys"]) == (tuner.rubric.content_hash, n_stored)
    before = path.read_bytes()
    do(tuner, do="jury", active={one.name: 1 for one in tuner.session.drafts.pool}, samples=1, aggregate="median")
    do(tuner, do="run")
    do(tuner, do="freeze")
    assert "press Freeze again to replace it" in tuner.state["status"]["text"]
    assert path.read_bytes() == before
    do(tuner, do="freeze")
    assert (ek.load_profile(path).aggregate, path.with_suffix(".yaml.bak").read_bytes()) == ("median", before)
    median = path.read_bytes()
    do(tuner, do="jury", active={one.name: 1 for one in tuner.session.drafts.pool}, samples=1, aggregate="min")
    do(tuner, do="run")
    with monkeypatch.context() as broken:
        broken.setattr("evalkit.notebook.tuner.tuning_session.freeze", raise_config_error)
        with pytest.raises(ek.errors.ConfigError, match="disk full"):
            tuner.session.freeze(overwrite=True)
    assert path.read_bytes() == median
    tuner.session.freeze(overwrite=True)
    assert path.with_suffix(".yaml.bak").read_bytes() == before
    assert path.with_suffix(".yaml.bak1").read_bytes() == median
    assert ek.load_profile(path).aggregate == "min"


def test_freeze_shows_that_the_name_of_a_judge_may_stand_for_another_model_later(tmp_path, monkeypatch):
    monkeypatch.setenv("EVALKIT_RUBRICS", str(tmp_path / "rubrics"))
    with decider() as (server, _):
        tuner = ek.RubricTuner(
            [{"item_id": "x", "answer": "x"}], RUBRIC, [at(server, template="decision@v1")],
            folder=tmp_path, cache=tmp_path / "cache",
        )  # fmt: skip
        do(tuner, do="run")
        do(tuner, do="save")
        do(tuner, do="freeze")
    text = tuner.state["status"]["text"]
    assert text.startswith("frozen as ")
    assert " Note: judge '" in text
    assert "answered as 'luna-2026', and its name may stand for another version later" in text


def raise_config_error(*_args, **_options):
    raise ek.errors.ConfigError("disk full")


def test_a_run_computes_the_agreement_of_earlier_versions_again_only_if_the_pass_rule_changed(tmp_path):
    items, labels = ek.load_example("support")
    tuner = ek.RubricTuner(items, "faithfulness", "fake:strict", labels, folder=tmp_path, cache=tmp_path / "cache")
    do(tuner, do="run")
    first = tuner.session.runs.current
    before = tuner.session.alignment(first)
    tuner.edit("faithfulness", scale={2: "Supported."})
    do(tuner, do="run")
    assert tuner.session.alignment(first) is before
    tuner.edit("faithfulness", pass_at=1)
    do(tuner, do="run")
    assert tuner.session.alignment(first)["n_verdicts"] == before["n_verdicts"]
    assert tuner.session.alignment(first) is not before


def test_a_version_of_another_notebook_brings_its_scale(tmp_path):
    items, labels = ek.load_example("support")
    first, second = (
        Session(items, "faithfulness", "fake:strict", labels, folder=tmp_path, name="x", cache=tmp_path)
        for _ in range(2)
    )
    first.run()
    wider = second.drafts.draft.edit("faithfulness", scale={3: "Perfect."})
    second.drafts.edit(lambda base, _draft: rebase(base, wider.to_dict()))
    second.run()
    second.labels.annotator = "zoe"
    second.label(items["item_id"].iloc[0], "3", criterion="faithfulness")
    first.history.save()
    first.runs.show([*first.history.versions][-1])
    assert "zoe" in first.label_log.table["annotator"].tolist()
    assert first.label_log.n_other_texts == 0


def test_the_queue_and_its_precision_go_by_the_levels_that_are_shown(tmp_path):
    """Of the draft before its first run, also after a restart; of the version afterwards."""
    items = [{"item_id": f"i{at:02d}", "answer": f"text {at}"} for at in range(40)]
    fields = {"name": "a", "scale": {0: "Wrong", 1: "Right"}, "pass_at": 1, "description": "Is it so?"}
    rubric = ek.Rubric(id="r", inputs=["answer"], criteria=[fields])

    def opened():
        tuner = ek.RubricTuner(items, rubric, "fake:noisy", samples=1, folder=tmp_path, cache=tmp_path / "c")
        assert tuner.wait_idle(300)
        do(tuner, do="queue", source="random", blind=True, open=True)
        return tuner

    tuner = opened()
    tuner.edit("a", scale={0: "Right", 1: "Wrong"})
    assert tuner.wait_idle(300)
    for number in range(30):
        item = tuner.state["queue"]["item_id"]
        do(tuner, do="label_next", item_id=item, criterion="a", label="01"[number % 2], id=str(number))
    again = opened()
    assert [one.state["queue"]["n_done"] for one in (tuner, again)] == [30, 30]
    do(tuner, do="run")
    assert tuner.state["queue"]["precision"].startswith("30 labels. ")
    tuner.edit("a", scale={0: "Wrong", 1: "Right"})
    do(tuner, do="run")
    assert (tuner.state["figures"]["off_scale"], tuner.state["queue"]["n_done"]) == (30, 0)
    assert tuner.state["queue"]["precision"].startswith("0 labels that count.")


def test_an_item_that_always_fails_leaves_the_unreadable_ones_to_be_asked_again(tmp_path):
    def says(prompt):
        if prompt.inputs["answer"] == "a0":
            raise ValueError("this prompt is longer than the context of the model")
        return "no idea" if prompt.inputs["answer"] in ("a1", "a2") else '{"explanation": "x", "score": 1}'

    rubric = ek.Rubric(id="q", inputs=["answer"], criteria=[{"name": "good", "scale": {0: "no", 1: "yes"}}])
    items = [{"item_id": f"i{at}", "answer": f"a{at}"} for at in range(8)]
    judge = ek.Judge.function(says, name="f", version="1")
    session = Session(items, rubric, judge, folder=tmp_path, cache=tmp_path, samples=1, retries=0)
    session.run()
    session.runs.plan_again()
    assert session.runs.again.startswith("3 requests")


def test_a_run_without_any_item_is_not_unfinished(tmp_path):
    items = [{"item_id": f"i{at}", "question": "q", "context": None, "answer": "a"} for at in range(5)]
    session = Session(items, "faithfulness", "fake:strict", on_missing="skip", folder=tmp_path, cache=tmp_path)
    session.run()
    assert decision_of(session).verdict == "Cannot tell: no item is labelled."


def test_two_notebooks_on_one_session_see_each_others_versions_in_order(tmp_path, monkeypatch):
    monkeypatch.setenv("EVALKIT_RUBRICS", str(tmp_path / "rubrics"))
    judge = Wavering()
    first = wavering_tuner(tmp_path, judge)
    do(first, do="run")
    second = wavering_tuner(tmp_path, judge)
    second.edit("one", scale={1: "in the second"})
    do(second, do="run")
    first.edit("one", scale={1: "in the first"})
    assert first.wait_idle(300)
    assert notes_of(first) == ["Another notebook works on this session, too: it added v1.1."]
    do(first, do="run")
    times = [version.at for version in first.session.history.versions.values()]
    assert (len(times), times) == (3, sorted(times))
    do(second, do="save")
    names = {one["name"] for one in second.state["figures"]["versions"]}
    do(first, do="note", key=first.session.runs.current, note="seen")
    assert names <= {one["name"] for one in first.state["figures"]["versions"]}
    third = wavering_tuner(tmp_path, judge)
    assert third.versions["at"].is_monotonic_increasing


def test_a_kernel_that_ends_during_a_run_says_so_and_an_error_does_not(tmp_path):
    judge = Wavering()
    tuner = wavering_tuner(tmp_path, judge)
    stored = []
    keep = tuner.session.history.save

    def save():
        assert tuner.session.history.lock._is_owned()
        keep()
        stored.append(tuner.session.history.path.read_bytes())

    monkey = pytest.MonkeyPatch()
    monkey.setattr(type(tuner.session.history), "save", lambda _: save())
    do(tuner, do="run")
    monkey.undo()
    during = next(text for text in stored if json.loads(text)["state"]["is_asking"])
    assert not json.loads(stored[-1])["state"]["is_asking"]
    assert not [note for note in notes_of(wavering_tuner(tmp_path, judge)) if "kernel ended" in note]
    tuner.session.history.path.write_bytes(during)
    assert [
        note for note in notes_of(wavering_tuner(tmp_path, judge)) if note.startswith("The kernel ended during a run")
    ]


def test_a_limit_of_the_screen_comes_back_unless_the_cell_names_another(tmp_path):
    def limit(**options):
        return tuner_of(tmp_path, **options).session.drafts.budget_usd

    tuner = tuner_of(tmp_path, budget_usd=0.05)
    do(tuner, do="jury", active={one.name: 1 for one in tuner.session.drafts.pool}, samples=1, aggregate="mean",
       budget_usd="7")  # fmt: skip
    assert limit(budget_usd=0.05) == 7
    assert limit(budget_usd=0.06) == 0.06
    assert limit() is None


def test_chance_with_calls_that_failed_is_of_the_other_items_if_these_are_nine_of_ten(tmp_path):
    judge = Wavering()
    tuner = wavering_tuner(tmp_path, judge)
    tuner.session.setup.options["retries"] = 0
    do(tuner, do="run")
    tuner.edit("one", scale={1: "nearly so"})
    do(tuner, do="run")
    ask, calls = judge.reply, count()

    def fails(text):
        if next(calls) in (0, 3, 7, 8, 20, 30, 40):  # two new replies per item: three items or more, then one
            raise TimeoutError("the server is busy")
        return ask(text)

    judge.reply = fails
    n_asked = judge.calls
    do(tuner, do="measure")
    missing = "6 of 80 judgments missing (6 timeout)"
    said = tuner.state["status"]["text"]
    assert said == f"chance is not measured yet: {missing}; measure again, and pay only for the rest"
    assert (tuner.state["figures"]["measure"], judge.calls - n_asked) == (True, 40)
    do(tuner, do="measure")
    assert tuner.state["status"]["text"] == "chance measured on 19 items of 20; 1 of 80 judgments missing (1 timeout)"
    assert (tuner.state["figures"]["measure"], judge.calls - n_asked) == (False, 46)
    assert tuner.state["figures"]["decision"]["kind"] != "chance"
    reopened = wavering_tuner(tmp_path, judge)
    assert reopened.state["figures"]["decision"] == tuner.state["figures"]["decision"]


def test_a_run_of_a_cell_that_fails_or_is_interrupted_does_not_stay_on_screen(tmp_path):
    n_asked = count(1)

    def ask(_prompt):
        if next(n_asked) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return "2"

    asks = ek.Judge.function(ask, name="asks", version="1")
    down = ek.Judge("openai", "m", base_url="http://127.0.0.1:9/v1", name="down")
    for judge, error in ((asks, KeyboardInterrupt), (down, JudgeError)):
        options = {"samples": 2, "retries": 0, "concurrency": 1, "folder": tmp_path / judge.name}
        tuner = ek.RubricTuner(ITEMS, ek.Rubric(**FIELDS), judge, **options)
        assert tuner.wait_idle(300)
        with pytest.raises(error):
            tuner.run()
        assert tuner.wait_idle(300)
        status = tuner.state["status"]
        assert (status["running"], status.get("decision"), tuner.session.runs.busy) == (False, None, False)
        n_left = (status["button"].split() or ["0"])[0]  # a slow signal comes when all was received
        assert tuner.plan().n_requests == int(n_left)  # what was received is not asked again


def test_labels_are_those_of_the_person_whom_the_cell_names(tmp_path):
    """A name chosen on screen comes back while the cell stays as it is, and never for another person's cell."""
    dice = random.Random(46)
    for number in range(4):
        folder, in_cell, who, labels_by = tmp_path / str(number), "me", "me", dict[str, str]()
        for _ in range(8):
            last, in_cell = in_cell, dice.choice([in_cell, in_cell, "Anna", "Ben", "me"])
            named = {} if in_cell == "me" else {"annotator": in_cell}
            tuner = ek.RubricTuner(ITEMS, ek.Rubric(**FIELDS), "fake:strict", folder=folder, **named)
            assert tuner.wait_idle(300)
            who = in_cell if in_cell != last else who
            if dice.random() < 0.4:
                do(tuner, do="annotator", name=(who := dice.choice(["Eva", "Ben", "Carl"])))
            item = dice.choice(ITEMS)["item_id"]
            tuner.label(item, dice.choice("012"), criterion="one")
            labels_by[f"{item} {who}"] = who
            assert tuner.state["figures"]["annotator"] == who
            table = tuner.session.label_log.table
            assert dict(
                zip(table["item_id"] + " " + table["annotator"].astype(str), table["annotator"], strict=True)
            ) == (labels_by)


def test_what_a_cell_runs_right_after_a_restart_stays_on_screen(tmp_path, monkeypatch):
    """The versions of the last session are restored in the background, before or after the run of the cell."""
    for is_slow in (False, True):
        folder, is_done = tmp_path / str(is_slow), threading.Event()
        tuner = tuner_of(folder)
        for text in ("nearly so", "almost"):
            tuner.run()
            tuner.edit("one", scale={1: text})
        tuner.run()
        load = Runs.load

        def slow(runs, key, load=load, is_done=is_done):
            if threading.current_thread() is not threading.main_thread():
                is_done.wait(300)
            return load(runs, key)

        with monkeypatch.context() as patched:
            if is_slow:
                patched.setattr(Runs, "load", slow)
            again = ek.RubricTuner(ITEMS, ek.Rubric(**FIELDS), "fake:strict", folder=folder)
            again.edit("one", scale={1: "half"})
            again.run()
            names = [version.name for version in again.session.history.versions.values()]
            assert again.session.runs.compared is not None  # that of the last session, loaded for it
            is_done.set()
            assert again.wait_idle(300)
        runs, figures = again.session.runs, again.state["figures"]
        shown = [again.session.history.versions[key].name for key in (runs.current, runs.against)]
        assert shown == [names[-1], names[-2]]
        assert (figures["current"], figures["against"]) == (runs.current, runs.against)
        assert again.evaluation.rubric.criterion("one").scale[1] == "half"


def test_weights_tabs_and_failed_calls_are_the_same_after_a_restart(tmp_path):
    """Random juries of judges that no file can hold: functions of a cell, of any weight, some of whose calls fail."""
    for seed in range(3):
        dice, n_asked, fails = random.Random(seed), count(), [False]
        items = [{"item_id": f"i{at:02}", "answer": f"answer {at}"} for at in range(20)]

        def ask(prompt, n_asked=n_asked, fails=fails):
            if next(n_asked) % 4 == 3 and fails[0]:
                raise TimeoutError("busy")
            return random.Random(str(prompt)).choice("012")

        judges = [ek.Judge.function(ask, name=name, version="1") for name in "xyz"]
        options = {"samples": 1, "folder": tmp_path / str(seed), "cache": tmp_path / str(seed), "retries": 0}
        tuner = ek.RubricTuner(items, ek.Rubric(**FIELDS), judges, **options)
        for step in range(4):
            weights = {judge.name: dice.choice([1, 1, 2, 0.5]) for judge in dice.sample(judges, dice.randint(1, 3))}
            do(tuner, do="jury", active=weights, samples=1, aggregate="mean", budget_usd="")
            tuner.edit(dice.choice(["one", "two"]), scale={1: f"text {step}"})
            fails[0] = step == 2
            do(tuner, do="run")
            do(tuner, do="criterion", name=dice.choice(["one", "two"]))
            before, n_before = tuner.state, next(n_asked)
            tuner = ek.RubricTuner(items, ek.Rubric(**FIELDS), judges, **options)
            assert tuner.wait_idle(300)
            after = tuner.state
            for name in ("criterion", "current", "against", "versions", "agreements", "diff"):
                assert after["figures"][name] == before["figures"][name], (seed, step, name)
            marks = [{row["item_id"]: row["change"] for row in state["page"]["rows"]} for state in (before, after)]
            assert marks[0] == marks[1]
            juries = [[judge for judge in state["jury"]["judges"] if judge["on"]] for state in (before, after)]
            assert (juries[1], next(n_asked)) == (juries[0], n_before + 1)
            assert not [one["text"] for one in after["notices"] if "cannot be shown" in one["text"]]
