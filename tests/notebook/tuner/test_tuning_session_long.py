"""A session over restarts: whatever its rubric came from, nothing is asked twice and no edit is lost without a word."""

from __future__ import annotations

import json
import random
from itertools import count

import pandas as pd
import pytest
from servers import judge_server

import evalkit as ek
from evalkit.evaluation.freeze_and_calibrate import write_profile
from evalkit.notebook.tuner.rubric_form import form_of

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
        assert self.tuner.wait_idle(60)

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
        assert self.tuner.wait_idle(60)
        assert self.tuner.state["alert"] == ""

    def seen(self):
        """What the editor, the strip and the table show."""
        state, evaluation = self.tuner.state, self.tuner.evaluation
        scores = None if evaluation is None else evaluation.scores[["item_id", "criterion", "score"]].to_numpy().tolist()
        names = [version["name"] for version in state["figures"]["versions"]]
        figures = {key: state["figures"][key] for key in ("current", "against")}
        draft = {key: state["draft"][key] for key in ("name", "ran", "form", "undo", "problem")}
        return draft, figures, names, scores, self.tuner.rubric.content_hash


@pytest.mark.parametrize("origin", ORIGINS)
def test_nothing_is_paid_twice_and_nothing_is_lost_whatever_the_rubric_came_from(origin, tmp_path, monkeypatch):
    dice = random.Random(origin)
    with judge_server() as server:
        for number in range(3):
            desk = Desk(origin, tmp_path / str(number) / "project", server.url, monkeypatch)
            server.paid.clear()
            # as it was lost: own file, edited, run, saved, frozen
            steps = ["run", "edit", "run", "save", "freeze", "restart", "edit", "restart", "move", "restart"]
            if number:
                steps = dice.choices(["edit", "edit", "run", "run", "save", "freeze", "restart", "move"], k=10)
            for step in [*steps, "run", "save", "freeze", "restart", "restart", "restart"]:
                getattr(desk, step)()
                assert len(server.paid) == len(desk.asked) * len(ITEMS), (step, steps)
