"""People label at once, in processes of their own, and one of them is killed; a tuner is open beside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from label_screen import RUBRIC, form_labels, page_of, reviews

import evalkit as ek

N = 200
PATIENCE_S = 240
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def person(log: Path, name: str, n: int) -> None:
    """The work of one process: labels until nothing is left; says so when another's name reaches its screen."""
    page = page_of(log, name, n)
    others = [one for one in ("Anna", "Ben", "Cleo", "Dan") if one != name]
    while page.state["form"]["form"]:
        text = json.dumps(page.state)
        assert not [one for one in others if one in text]
        before = page.state["form"]["n_done"]
        page.receive({"do": "save", **form_labels(page, name), "comment": f"of {name}"})
        assert page.state["alert"] == ""
        assert page.state["form"]["n_done"] == before + 1  # what the others do is no progress of mine


def start(log: Path, name: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, str(log), name, str(N)], stderr=subprocess.PIPE, env=ENV)


def done(log: Path, name: str) -> int:
    text = log.read_bytes() if log.exists() else b""
    return text.count(f'"annotator":"{name}"'.encode()) // len(RUBRIC.names)


def wait_for(log: Path, name: str, n: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while done(log, name) < n:
        assert time.monotonic() < deadline, (name, done(log, name))
        time.sleep(0.02)


def test_people_label_at_once_and_one_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "review.labels.jsonl"
    tuner = ek.RubricTuner(
        reviews(N), RUBRIC, "fake:strict", annotator="Dan", folder=tmp_path, cache=tmp_path / "cache"
    )
    running = {name: start(log, name) for name in ("Anna", "Ben", "Cleo")}
    try:
        wait_for(log, "Cleo", 30)
        running["Cleo"].send_signal(signal.SIGKILL)
        running["Cleo"].communicate()
        n_seen = 0
        for number, item in enumerate(reviews(40)):
            tuner.label(item["item_id"], 1, criterion="tone")
            labels = tuner.labels
            assert not labels.duplicated(["item_id", "criterion", "annotator"]).any()
            assert (labels["annotator"] == "Dan").sum() == number + 1
            assert len(labels) >= n_seen  # what was seen once stays
            n_seen = len(labels)
        running["Cleo"] = start(log, "Cleo")
        for process in running.values():
            _, errors = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0, errors.decode()
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    labels = tuner.labels
    counts = Counter(labels["annotator"].astype(str))
    assert counts == {"Anna": 3 * N, "Ben": 3 * N, "Cleo": 3 * N, "Dan": 40}
    for name in ("Anna", "Ben", "Cleo"):
        mine = labels[labels["annotator"] == name].set_index(["item_id", "criterion"])["label"].astype(str).to_dict()
        page = page_of(tmp_path / "other.jsonl", name, N)
        expected = {
            key: label
            for form in page._forms.questions
            for key, label in zip(page._forms.questions[form], form_labels(page, name, form)["answers"], strict=True)
        }
        assert mine == expected
    lines = [json.loads(line) for line in log.read_bytes().split(b"\n") if line]
    keys = Counter((line["item_id"], line["criterion"], line["annotator"]) for line in lines)
    assert set(keys.values()) == {1}  # the killed one went on where it was: nothing was written twice
    tuner.receive({"do": "criterion", "name": "tone"})
    assert tuner.wait_idle(60)
    assert set() < set(tuner.state["figures"]["newcomers"]) < {"Anna", "Ben", "Cleo", "Dan"}
    lead = page_of(log, "Eve", N, view="lead")
    assert [(name, n) for name, n, _, _ in lead.state["form"]["people"]][:3] == [("Anna", N), ("Ben", N), ("Cleo", N)]


if __name__ == "__main__":
    person(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
