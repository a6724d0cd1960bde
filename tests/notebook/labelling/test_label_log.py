"""The log of labels: what lines mean, whoever wrote them, and what becomes of broken ones."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from evalkit.errors import CacheError, InputError
from evalkit.notebook.labelling import label_log
from evalkit.notebook.labelling.label_log import LabelEdit, LabelLog
from evalkit.notebook.labelling.label_queue import LabelQueue
from evalkit.rubrics import Rubric, load_labels
from evalkit.rubrics.human_labels import COUNTED, SOURCES

pytestmark = pytest.mark.usefixtures("unsynced")

RUBRIC = Rubric(id="r", inputs=["answer"], criteria=[{"name": name, "scale": {0: "no", 1: "yes"}} for name in "ab"])
TEXTS = {f"i{at}": f"hash {at}" for at in range(6)}


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of lines need not reach the disk."""
    monkeypatch.setattr(label_log.os, "fsync", lambda _: None)


def log_at(path: Path) -> LabelLog:
    log = LabelLog(path, TEXTS, None, RUBRIC)
    log.read()
    return log


def content(log: LabelLog) -> list[tuple[str, ...]]:
    return sorted((*key, str(edit.label), edit.source) for key, edit in log.last().items())


def test_logs_of_one_file_always_agree_with_a_plain_replay(tmp_path: Path) -> None:
    """Three logs add, undo, skip and read at random; a dictionary of stacks knows the truth."""
    draw = random.Random(4)
    for attempt in range(40):
        path = tmp_path / f"{attempt}.jsonl"
        logs, stacks = [log_at(path) for _ in range(3)], dict[tuple[str, str, str], list[str | None]]()
        for _ in range(40):
            log, who = draw.choice(logs), draw.choice(["ann", "ben"])
            key = (draw.choice([*TEXTS]), draw.choice("ab"), who)
            what = draw.choice(["add", "add", "add", "remove", "undo", "skip", "read", "torn"])
            if what == "add":
                label = draw.choice("01")
                log.add(*key, LabelEdit(label, "random"))
                stacks.setdefault(key, []).append(label)
            elif what == "remove":
                log.add(*key, LabelEdit(None))
                stacks.setdefault(key, []).append(None)
            elif what == "undo" and stacks.get(key):
                log.undo(who, [key[:2]])
                stacks[key].pop()
            elif what == "skip":
                log.skip([key[0]], who, "cannot tell")
            elif what == "torn":
                with path.open("ab") as file:
                    file.write(b'{"item_id": "i0", "criterion": "a", "annota')
            else:
                log.read()
        truth = {(*key, stack[-1]) for key, stack in stacks.items() if stack and stack[-1] is not None}
        for log in [*logs, log_at(path)]:
            log.read()
            assert {row[:4] for row in content(log)} == truth
            assert log.read() is False  # nothing is applied twice


def test_a_line_counts_when_it_is_whole(tmp_path: Path) -> None:
    """A reader that comes amid a write sees the line later, once; one that a crash truncated is left out."""
    path = tmp_path / "l.jsonl"
    log_at(path).add("i0", "a", "ann", LabelEdit("1", "random"))
    line = path.read_bytes().strip().replace(b'"i0"', b'"i1"').replace(b"hash 0", b"hash 1")
    for cut in range(1, len(line)):
        path.write_bytes(b"\n" + line.replace(b'"i1"', b'"i0"').replace(b"hash 1", b"hash 0") + b"\n\n" + line[:cut])
        reader = log_at(path)
        assert [row[0] for row in content(reader)] == ["i0"], cut
        if cut % 9 == 0:
            with path.open("ab") as file:
                file.write(line[cut:] + b"\n")
            assert reader.read()
            assert [row[0] for row in content(reader)] == ["i0", "i1"]
        else:
            reader.add("i2", "a", "ann", LabelEdit("0", "random"))
            assert [row[0] for row in content(log_at(path))] == ["i0", "i2"] == [row[0] for row in content(reader)]


def test_a_file_that_was_replaced_or_cut_is_read_from_its_start(tmp_path: Path) -> None:
    path, log = tmp_path / "l.jsonl", log_at(tmp_path / "l.jsonl")
    for item in TEXTS:
        log.add(item, "a", "ann", LabelEdit("1", "random"))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    log.read()
    assert content(log) == content(log_at(path))
    path.write_bytes(whole.replace(b'"1"', b'"0"', 1))  # by hand, and of the same length
    log.read()
    assert [row[3] for row in content(log)] == ["0", *["1"] * (len(TEXTS) - 1)]
    path.unlink()
    log.add("i0", "b", "cat", LabelEdit("1", "random"))
    assert [row[2] for row in content(log)] == ["cat"]


def test_odd_lines_are_left_out(tmp_path: Path) -> None:
    good = {"item_id": "i0", "criterion": "a", "annotator": "ann", "text": "hash 0", "label": "1", "source": "random"}
    odd: list[object] = [
        [], 1, None, "text", {}, {"annotator": "ann"}, {"drawn": {}}, {"criterion": 4, "drawn": {"i0": 1}},
        *({**good, name: value} for name in [*good][:4] for value in (None, 7, [], {}, True)),
        *({**good, "label": value} for value in (7, [], {}, True, "9", "yes or no")),
        {**good, "item_id": "unknown"}, {**good, "text": "another"}, {**good, "criterion": "c"},
    ]  # fmt: skip
    path = tmp_path / "l.jsonl"
    lines = [b"\xff\xfe{", b"{" * 1_000, *(json.dumps(value).encode() for value in odd)]
    path.write_bytes(b"\n".join([*lines, json.dumps(good).encode(), b""]))
    assert content(log_at(path)) == [("i0", "a", "ann", "1", "random")]


def test_skips_and_comments_are_no_labels(tmp_path: Path) -> None:
    log = log_at(tmp_path / "l.jsonl")
    log.skip(["i0", "i1"], "ann", "the text is broken")
    log.add_form("ann", {("i2", "a"): LabelEdit("1", "random", comment="sure?"), ("i2", "b"): LabelEdit("0", "random")})
    again = log_at(log.path)
    assert again.why_skipped("i0", "ann") == "the text is broken"
    assert again.why_skipped("i0", "ben") is None
    assert [*again.acts("ann")] == [("i2", "b"), ("i2", "a"), ("i1", ""), ("i0", "")]
    assert content(again) == [("i2", "a", "ann", "1", "random"), ("i2", "b", "ann", "0", "random")]
    assert again.last()["i2", "a", "ann"].comment == "sure?"
    assert again.n_other_texts == 0
    again.undo("ann", [("i1", ""), ("i0", "")])
    log.read()
    assert log.why_skipped("i0", "ann") is None
    assert not log.counted.empty


def test_decisions_do_not_count_in_figures(tmp_path: Path) -> None:
    log = log_at(tmp_path / "l.jsonl")
    for who, label in [("ann", "1"), ("ben", "0")]:
        log.add("i0", "a", who, LabelEdit(label, "random"))
    log.set_counting("ben", counts=True)
    log.add("i0", "a", "decided by cat", LabelEdit("1", "adjudicated"))
    assert log.of("i0", "a") == {"ann": "1", "ben": "0", "decided by cat": "1"}
    assert set(log.counted["annotator"]) == set(log.weighted["annotator"]) == {"ann", "ben"}
    assert log.newcomers() == {}
    assert log.not_counted("a") == "1 adjudicated not counted"


def test_an_item_that_was_drawn_at_random_stays_so(tmp_path: Path) -> None:
    """Whatever order further labels come in, the label of the random draw stands, here and in what reads the file."""
    path = tmp_path / "l.jsonl"
    log = log_at(path)
    log.add("i0", "a", "ann", LabelEdit("1", "random"))
    for number, source in enumerate(name for name in SOURCES if name not in COUNTED):
        log.add("i0", "a", "ann", LabelEdit("0", source))
        log.add(f"i{number + 1}", "a", "ann", LabelEdit("0", source))
        assert log.table.set_index("item_id").loc["i0", "source"] == source  # the screen shows what was said last
        assert log.standing.set_index("item_id").loc["i0", ["label", "source"]].tolist() == ["1", "random"]
        assert load_labels(path).set_index("item_id").loc["i0", ["label", "source"]].tolist() == ["1", "random"]
        assert log.counted["item_id"].tolist() == ["i0"]
    of_figure = log.with_changed.set_index("item_id")["source"].astype(str).to_dict()
    assert of_figure == {"i0": "random", "i2": "changed"}
    log.add("i0", "a", "ann", LabelEdit(None))
    assert "i0" not in {*log.standing["item_id"]} | {*load_labels(path)["item_id"]}


def test_undo_takes_back_the_same_label_whatever_scales_are_known(tmp_path: Path) -> None:
    wider = Rubric(id="r", inputs=["answer"], criteria=[{"name": "a", "scale": {0: "no", 1: "yes", 2: "very"}}])
    newer = LabelLog(tmp_path / "l.jsonl", TEXTS, None, wider)
    for label in "12":
        newer.add("i0", "a", "ann", LabelEdit(label, "random"))
    older, late = log_at(newer.path), log_at(newer.path)
    assert [*older.acts("ann")] == []  # it cannot show what *Undo* would take back
    late.add_scales(wider)  # after it read the line
    assert [content(log)[0][3] for log in (newer, late, older)] == ["2", "2", "1"]
    newer.undo("ann", [("i0", "a")])
    for log in (newer, late, older, log_at(newer.path)):
        log.read()
        assert ([row[3] for row in content(log)], [*log.acts("ann")]) == (["1"], [("i0", "a")])
        assert log.counted["label"].tolist() == ["1"]


def test_a_draw_of_other_items_leaves_the_queue_usable(tmp_path: Path) -> None:
    log = log_at(tmp_path / "l.jsonl")
    log.add_draw("a", {"of another page": 0.5, "i2": 0.25}, 4)
    queue = LabelQueue(log, TEXTS)
    queue.set("disputed", blind=True, is_open=True)
    turn = queue.turn(RUBRIC.criterion("a"), "ann", {}, "v1")
    assert (turn.item_id, turn.form, turn.round, turn.n) == ("i2", {"i2": 0.25}, 4, 1)
    log.add("i2", "a", "ann", LabelEdit("1", "disputed", 0.25, True, 4))
    queue.set("disputed", blind=True, is_open=True)
    assert queue.turn(RUBRIC.criterion("a"), "ann", {"i0": 1.0, "i1": 1.0}, "v1").round == 5
    assert [number for number, _ in log_at(log.path).draws["a"]] == [4, 5]


def test_labels_by_the_words_of_a_draft_count_and_those_of_moved_levels_come_again(tmp_path: Path) -> None:
    swapped = Rubric(id="r", inputs=["answer"], criteria=[{"name": "a", "scale": {0: "yes", 1: "no"}}])
    log = log_at(tmp_path / "l.jsonl")
    log.add("i0", "a", "ann", LabelEdit("1", "random"), RUBRIC)
    for item in ("i1", "i2"):  # before the draft has run
        log.add(item, "a", "ann", LabelEdit("1", "random"), swapped)
    assert sorted(log.table["item_id"]) == ["i0", "i1", "i2"]
    queue = LabelQueue(log, TEXTS)
    turns = [queue.turn(rubric.criterion("a"), "ann", {}, "v1") for rubric in (RUBRIC, swapped)]
    assert [turn.n_done for turn in turns] == [1, 2]
    assert (turns[0].item_id != "i0", turns[1].item_id not in ("i1", "i2")) == (True, True)


def test_what_cannot_be_written_does_not_count(tmp_path: Path) -> None:
    folder = tmp_path / "file"
    folder.write_text("not a folder")
    log = LabelLog(folder / "l.jsonl", TEXTS, None, RUBRIC)
    with pytest.raises(CacheError, match="cannot be saved"):
        log.add("i0", "a", "ann", LabelEdit("1"))
    assert log.of("i0", "a") == {}
    with pytest.raises(CacheError, match="cannot be saved"):
        log.check_writable()
    log = log_at(tmp_path / "l.jsonl")
    with pytest.raises(InputError, match="allowed: 0, 1"):
        log.add_form("ann", {("i0", "a"): LabelEdit("1"), ("i0", "b"): LabelEdit("5")})
    assert not log.path.exists()  # nothing of a form is written if one answer is off its scale


def test_a_decision_holds_while_people_say_what_they_said(tmp_path: Path) -> None:
    """Random labels, undos and decisions of two leads; a dictionary knows what was said at each decision."""
    draw = random.Random(9)
    question, people, leads = ("i0", "a"), ["ann", "ben", "cat"], ["decided by x", "decided by y"]
    n_stale = 0
    for attempt in range(60):
        logs = [log_at(tmp_path / f"d{attempt}.jsonl") for _ in range(2)]
        stacks: dict[str, list[str]] = {who: [] for who in [*people, *leads]}
        then: list[tuple[str, str, dict[str, str]]] = []  # the decisions in their order
        for _ in range(14):
            log, who = draw.choice(logs), draw.choice([*people, *people, *leads])
            log.read()
            said = {name: stacks[name][-1] for name in people if stacks[name]}
            if draw.random() < 0.25 and stacks[who]:
                log.undo(who, [question])
                stacks[who].pop()
                own = [at for at, (lead, _, _) in enumerate(then) if lead == who]
                then = then[: own[-1]] + then[own[-1] + 1 :] if own else then
            else:
                label = draw.choice("01")
                log.add(*question, who, LabelEdit(label, "adjudicated" if who in leads else "random"))
                stacks[who].append(label)
                then += [(who, label, said)] if who in leads else []
        now = {name: stacks[name][-1] for name in people if stacks[name]}
        changed = [name for name, label in then[-1][2].items() if now.get(name) != label] if then else []
        for log in [*logs, log_at(logs[0].path)]:
            log.read()
            assert {key: (*one[:2], sorted(one[2])) for key, one in log.decided().items()} == (
                {question: (*then[-1][:2], changed)} if then else {}
            )
        n_stale += bool(changed)
    assert n_stale > 10


def test_labels_that_are_left_out_are_counted_once_each(tmp_path: Path) -> None:
    log = log_at(tmp_path / "l.jsonl")
    for label in "000":
        log.add("i0", "a", "ann", LabelEdit(label, "random"))
    for item in ("i1", "i2", "i3"):
        log.add(item, "a", "ann", LabelEdit("1", "random"))
    log.undo("ann", [("i3", "a")])
    less = Rubric(id="r", inputs=["answer"], criteria=[{"name": "a", "scale": {1: "yes", 2: "much"}}])
    changed = LabelLog(log.path, {"i0": TEXTS["i0"], "i1": "new", "i3": "new"}, None, less)
    changed.read()
    assert changed.n_other_texts == 3
    changed.add("i1", "a", "ann", LabelEdit("2", "random"))
    assert changed.n_other_texts == 2
    with log.path.open("ab") as file:
        file.write(b'{"item_id": "i4", "crit\n')
    log.read()
    number = log.path.read_bytes().split(b"\n").index(b'{"item_id": "i4", "crit') + 1
    assert log.not_used == f"1 line of the log left out, as cut or none of a log (line {number})."
    for wrong in (log.path.read_bytes().decode().encode("utf-16"), b"[{},\n{}]"):
        log.path.write_bytes(wrong)
        with pytest.raises(InputError, match="no line that is a JSON object"):
            log_at(log.path)


def test_of_a_form_that_could_not_be_written_nothing_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_at(tmp_path / "l.jsonl")
    log.add("i0", "a", "ann", LabelEdit("1", "random"))
    before = log.path.read_bytes()

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(label_log.os, "fsync", fail)
    with pytest.raises(CacheError, match="all saved before is kept"):
        log.add_form("ann", {("i1", name): LabelEdit("1", "random") for name in "ab"})
    assert log.path.read_bytes() == before
