"""The tuner without a browser: session, labels, versions, drafts, what the widget is sent and what it sends."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_setup import wait_for
from servers import judge_server
from small_tuner import RUBRIC, do

import evalkit as ek
from evalkit.core.formatting import figure
from evalkit.errors import (
    CacheError,
    ConfigError,
    EvalkitWarning,
    InputError,
    JudgeError,
    MissingExtraError,
    RubricError,
)
from evalkit.notebook.judgments.item_table import FILTERS, VERDICT_CHANGED, Query, Row, page_of
from evalkit.notebook.labelling.label_log import LabelEdit
from evalkit.notebook.labelling.label_queue import draw_disputed, random_order
from evalkit.notebook.tuner.code_snippets import session_code
from evalkit.notebook.tuner.rubric_form import form_of, from_form, from_yaml
from evalkit.notebook.tuner.rubric_tuner import RubricTuner
from evalkit.notebook.tuner.suggested_edits import SuggestedEdits
from evalkit.notebook.tuner.tuner_controller import figures_payload
from evalkit.notebook.tuner.tuning_session import Session
from evalkit.notebook.tuner.version_history import History, Version, rebase
from evalkit.notebook.widget_base import Worker, new_widget
from evalkit.stats.alignment.label_splits import held_out_looks

EDITED = RUBRIC.edit("c", scale={1: "nearly so"})
ITEMS = pd.DataFrame({"item_id": list("abcd"), "answer": ["first", "second", "<b>third</b>", "fourth"]})
LABELS = {"a": "2", "b": "0", "c": "0", "d": "2"}
JUDGES = [ek.Judge("openai", name, name=name, base_url="http://127.0.0.1:9/v1") for name in ("x", "y")]


def people(labels=LABELS, annotator="ann"):
    rows = [(item, "c", annotator, label) for item, label in labels.items()]
    return pd.DataFrame(rows, columns=["item_id", "criterion", "annotator", "label"])


def record(rubric, *replies):
    for judge, said in zip(JUDGES, replies, strict=False):
        ek.record(ITEMS, rubric, judge, [[text] for text in said], overwrite=True)


@pytest.fixture
def session(tmp_path):
    """One judge, one sample: right on a and b, passes c, which people fail, and fails d, which people pass.

    The edit turns c alone, to where people are.
    """
    record(RUBRIC, ["2", "0", "2", "1"])
    record(EDITED, ["2", "0", "0", "1"])
    return start(tmp_path)


def start(folder, labels=None, **options):
    given = people() if labels is None else labels
    options = {"samples": 1, "recorded": "use", "folder": folder} | options
    return Session(ITEMS, options.pop("rubric", RUBRIC), options.pop("judges", JUDGES[:1]), labels=given, **options)


def edit(session, rubric=EDITED):
    session.drafts.edit(lambda base, _draft: rebase(base, rubric.to_dict()))
    session.run()


def test_a_cell_of_the_matrix_is_no_filter_once_it_is_empty(session, tmp_path):
    tuner = ek.RubricTuner(ITEMS, RUBRIC, JUDGES[:1], people(), samples=1, recorded="use", folder=tmp_path)
    tuner.receive({"do": "run"})
    assert tuner.wait_idle(300)
    tuner.receive({"do": "query", "query": {"cell": ["0", "2", ""]}})
    assert [row["item_id"] for row in tuner.state["page"]["rows"]] == ["c"]
    tuner.edit("c", scale={1: "nearly so"})
    tuner.receive({"do": "run"})
    assert tuner.wait_idle(300)
    page = tuner.state["page"]
    assert (page["n"], page["query"]["cell"]) == (4, None)


def test_what_is_paid_is_named_before_the_click(tmp_path):
    """*Try* and *Suggest edits* name requests and price, by the plan of what a press then asks."""
    items = [{"item_id": f"i{at}", "answer": f"text {at}"} for at in range(12)]
    rubric = RUBRIC.edit("c", scale={0: "no", 1: "nearly", 2: "yes"})
    labels = people({f"i{at}": "0" for at in range(12)})
    with judge_server(always={"content": "2", "usage": {"prompt_tokens": 10, "completion_tokens": 1}}) as server:
        judge = ek.Judge("openai", "m", name="m", base_url=server.url, price=(1.0, 2.0), max_tokens=50)
        tuner = ek.RubricTuner(items, rubric, judge, labels, samples=1, folder=tmp_path, cache=tmp_path / "cache")
        tuner.run()
        assert tuner.wait_idle(300)
        assert re.fullmatch(r"at most US\$ 0\.\d+", tuner.state["suggestions"]["prices"]["m"])
        tuner.suggest("fake:strict")
        assert tuner.wait_idle(300)
        row = tuner.state["suggestions"]["rows"][0]
        asked = len(server.seen)
        found = re.fullmatch(r"(\d+) requests, (?:about|under|at most) US\$ \d\.\d\d", row["price"])
        assert found, row
        tuner.receive({"do": "try", "number": 0})
        assert tuner.wait_idle(300)
        assert len(server.seen) - asked == int(found[1]) == 12
        assert tuner.state["suggestions"]["rows"][0]["price"] == ""  # it is tried


# -- what is seen
def test_nothing_is_shown_before_the_first_run(session):
    assert session.tiles() == []
    assert session.cells() == []
    assert session.page().rows == []
    assert session.detail("a") == {}


def test_tiles_show_agreement_kappa_coverage_and_change(session):
    session.run()
    tiles = {tile.title: tile for tile in session.tiles()}
    # right on 2 of 4; both pass half of the items, so chance is .5 and kappa is 0
    assert tiles["Agreement with people"].value.startswith("0.50")
    assert tiles["Agreement with people"].note == "4 of 4 labelled items, dev · 4 given labels, ann"
    assert tiles["Kappa"].value.startswith("0.00")
    assert tiles["Scored"].value == "4 of 4"
    assert tiles["Pass rate"].value.startswith("0.50")
    assert tiles["Changed"].value == "–"
    edit(session)
    tiles = {tile.title: tile for tile in session.tiles()}
    assert tiles["Agreement with people"].value.startswith("0.75")
    assert (tiles["Agreement with people"].moved, tiles["Agreement with people"].mark) == ("▲ 0.25 from v1", "better")
    assert tiles["Changed"].value == "1 of 4"
    assert tiles["Changed"].moved == "▲ 1 fixed ▼ 0 broke on dev labels"


def test_a_judge_without_a_price_makes_the_cost_unknown_everywhere(tmp_path):
    """A stand-in is free, a server on this machine has no price: 4 of 8 replies are of unknown price."""
    with judge_server(always={"content": "2"}) as server:
        jury = ["fake:strict", ek.Judge("openai", "m", name="mine", base_url=server.url)]
        session = Session(ITEMS, RUBRIC, jury, samples=1, labels=people(), folder=tmp_path)
        told = []
        session.run(told.append)
    tile = next(one for one in session.tiles() if one.title == "Cost of this run")
    assert tile.value == "4 of 8 replies of unknown price"
    assert "(4 of 8 replies of unknown price)" in str(session.evaluation.cost)
    assert told[-1].n_unpriced == 4
    heads = str(ek.compare(session.evaluation, session.evaluation)).splitlines()[:2]
    assert all("of unknown price" in head and "US$" not in head for head in heads)
    assert "US$ 0.0000)" not in session.evaluation._repr_html_().split("asked now")[1][:40]


def test_matrix_marks_and_filter_go_by_one_rule_the_verdict(tmp_path):
    """Three judges say 2, 2, 0 of a: the mean is 1.33, nearest to 1 which fails, but two of three pass it."""
    jury = [ek.Judge("openai", name, name=name, base_url="http://127.0.0.1:9/v1") for name in ("x", "y", "z")]
    for judge, said in zip(jury, (["2", "0", "2", "0"], ["2", "2", "2", "0"], ["0", "1", "1", "0"]), strict=True):
        ek.record(ITEMS, RUBRIC, judge, [[text] for text in said], overwrite=True)
    session = start(tmp_path, people({"a": "2", "b": "0", "c": "0", "d": "2"}), judges=jury)
    session.run()
    # b: 0, 2, 1 is 1, fails. c: 2, 2, 1 is 1.67, nearest to 2, passes. d: 0, fails
    seen = {(cell.human, cell.jury, cell.verdict): (cell.n, cell.kind) for cell in session.cells() if cell.n}
    assert seen == {
        ("2", "1", "pass"): (1, "near"),  # in the matrix of labels alone this was a false fail, in the table a ✓
        ("0", "1", ""): (1, "near"),
        ("0", "2", ""): (1, "false pass"),
        ("2", "0", ""): (1, "false fail"),
    }
    rows = {row.item_id: row for row in session.rows()}
    assert {item: row.wrong for item, row in rows.items()} == {"a": False, "b": False, "c": True, "d": True}
    assert rows["a"].conflicts == {"": "pass"}
    assert session.page().counts["wrong"] == 2
    columns = list(dict.fromkeys((cell.jury, cell.verdict) for cell in session.cells()))
    assert columns == [("0", ""), ("1", ""), ("1", "pass"), ("2", "")]
    session.query = Query(cell=("2", "1", "pass"))
    assert [row.item_id for row in session.page().rows] == ["a"]
    session.query = Query(cell=("2", "1", ""))
    assert session.page().rows == []


@pytest.mark.parametrize("criterion", ["faithfulness", "correctness"])
def test_each_cell_shows_its_items_and_errors_are_the_wrong_ones(tmp_path, criterion):
    items, labels = ek.load_example({"faithfulness": "support", "correctness": "facts"}[criterion])
    one = labels[labels["annotator"] == "ann1"].sample(frac=1, random_state=3)
    session = Session(items, criterion, ["fake:strict", "fake:lenient", "fake:verbose"], labels=one, folder=tmp_path)
    session.run()
    wrong = set()
    for cell in session.cells():
        session.query = Query(cell=(cell.human, cell.jury, cell.verdict))
        assert session.page().n == cell.n, cell
        found = page_of(session.rows(), session.query, 100).rows
        if cell.kind.startswith("false"):
            wrong |= {row.item_id for row in found}
        elif cell.kind in ("same", "near"):
            assert all(row.wrong is False for row in found)
    assert sum(cell.n for cell in session.cells()) == len(one)
    assert wrong == {row.item_id for row in session.rows() if row.wrong}


def test_the_matrix_counts_labels_and_names_errors(session):
    session.run()
    seen = {(cell.human, cell.jury): (cell.n, cell.kind) for cell in session.cells() if cell.n}
    assert seen == {
        ("2", "2"): (1, "same"),
        ("0", "0"): (1, "same"),
        ("0", "2"): (1, "false pass"),
        ("2", "1"): (1, "false fail"),
    }


def test_a_label_is_counted_once_however_people_write_it(tmp_path):
    """A verdict is the only level that has it; where several have it, it has a row of its own among those."""
    record(RUBRIC, ["2", "0", "2", "1"])
    session = start(tmp_path, people({"a": "true", "b": "0", "c": "FALSE", "d": "2.0"}))
    session.run()
    seen = {(cell.human, cell.jury): (cell.n, cell.kind) for cell in session.cells() if cell.n}
    assert seen == {
        ("2", "2"): (1, "same"),
        ("0", "0"): (1, "same"),
        ("fail", "2"): (1, "false pass"),
        ("2", "1"): (1, "false fail"),
    }
    assert list(dict.fromkeys(cell.human for cell in session.cells())) == ["0", "1", "fail", "2"]
    session.query = Query(cell=("fail", "2", ""))
    assert [row.item_id for row in session.page().rows] == ["c"]
    session.query = Query(cell=("2", "1", ""))
    assert [row.people for row in session.page().rows] == [{"ann": "2"}]


def test_rows_come_in_the_order_of_what_needs_eyes(session):
    session.run()
    assert {row.item_id for row in session.page().rows[:2]} == {"c", "d"}
    edit(session)
    rows = {row.item_id: row for row in session.page().rows}
    assert session.page().rows[0].item_id == "d"
    assert (rows["c"].change, rows["c"].wrong) == ("fixed", False)
    assert (rows["d"].change, rows["d"].wrong) == ("", True)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (Query(filter="wrong"), {"d"}),
        (Query(filter="fixed"), {"c"}),
        (Query(filter="changed"), {"c"}),
        (Query(filter="broke"), set()),
        (Query(filter="unlabelled"), set()),
        (Query(cell=("2", "1", "")), {"d"}),
        (Query(cell=("0", "0", "")), {"b", "c"}),
        (Query(search="SECOND"), {"b"}),
        (Query(search="d", cell=("2", "2", "")), set()),
        (Query(page=99), set("abcd")),
    ],
    ids=["wrong", "fixed", "changed", "broke", "unlabelled", "cell", "cell-two", "search", "search-cell", "beyond"],
)
def test_filters_cells_and_search(session, query, found):
    session.run()
    edit(session)
    session.query = query
    assert {row.item_id for row in session.page().rows} == found


def test_rows_and_compare_count_the_same(tmp_path):
    items, labels = ek.load_example("support")
    session = Session(
        items, "faithfulness", ["fake:strict", "fake:lenient", "fake:noisy"], labels=labels, folder=tmp_path
    )
    session.run()
    edited = session.drafts.draft.edit(
        "faithfulness", scale={2: "Supported in the main. Minor or small additions are mostly acceptable."}
    )
    edit(session, edited)
    table = ek.compare(
        session.runs.compared, session.evaluation, labels=session.labels.log.counted.query("part == 'dev'")
    ).table
    jury = table[table["judge"] == "jury"].iloc[0]
    changes = [row.change for row in session.rows() if row.change]
    assert len(changes) == jury["changed"] > 0
    assert (changes.count("fixed"), changes.count("broke")) == (jury["fixed"], jury["broke"])


def test_items_that_changed_are_asked_for_blind_and_count_in_their_own_figure_alone(tmp_path):
    items, labels = ek.load_example("support")
    few = labels[labels["item_id"].isin(items["item_id"][:12])]
    judges = ["fake:strict", "fake:lenient", "fake:noisy"]
    tuner = ek.RubricTuner(items, "faithfulness", judges, few, folder=tmp_path, annotator="Ana")
    session = tuner.session
    session.run()
    scale = {2: "Supported in the main. Minor or small additions are mostly acceptable."}
    edit(session, session.drafts.draft.edit("faithfulness", scale=scale))
    session.labels.count_annotator("Ana")
    changed = {row.item_id for row in session.rows() if row.change in VERDICT_CHANGED}
    to_ask = changed - {*few["item_id"]}
    before, tiles = figures_payload(session), session.tiles()
    assert before["to_label"] == len(to_ask) > 0
    queue, asked = open_queue(tuner, "changed", blind=False), []
    assert (queue["n"], queue["n_done"], queue["blind"], queue["precision"]) == (len(to_ask), 0, True, "")
    while tuner.state["queue"]["item_id"]:
        assert tuner.state["queue"]["judges"] == []
        asked.append(label_next(tuner, "2"))
    assert {*asked} == to_ask
    last = asked[-1]
    do(tuner, do="undo_label")
    assert (tuner.state["queue"]["item_id"], session.n_changed_open) == (last, 1)
    label_next(tuner, "2")
    row, _ = session.change()
    assert (row["against"], row["n_unlabelled"]) == ("changed", 0)
    assert row["n_paired"] == row["n_verdicts"] > len(changed)
    assert figures_payload(session)["cells"] == before["cells"]
    agreement = [tile for tile in session.tiles() if tile.title == "Agreement with people"]
    assert [tile.value for tile in agreement] == [tile.value for tile in tiles if tile.title == agreement[0].title]
    own = tuner.labels.set_index("item_id")["source"]
    assert {*own[own == "changed"].index} == to_ask


def test_the_detail_holds_prompt_replies_votes_and_labels(session):
    session.run()
    item = session.detail("c")
    assert item["inputs"] == [("answer", "<b>third</b>")]
    assert "Is it so?" in item["prompt"]
    assert [(judge["judge"], judge["label"], judge["samples"][0]["reply"]) for judge in item["judges"]] == [
        ("x", "2", "2")
    ]
    assert (item["labels"], item["held"]) == ({"ann": "0"}, False)
    assert [[code, key] for code, _, key in item["levels"]] == [["0", "0"], ["1", "1"], ["2", "2"]]
    assert session.detail("nobody") == {}


# -- labels to tune on, labels held out
def many(tmp_path, n=80):
    items = pd.DataFrame(
        {"item_id": [f"i{at}" for at in range(n)], "question": "2 + 2?", "answer": [f"{at % 20}" for at in range(n)]}
    )
    items["reference"] = "4"
    labels = pd.DataFrame({"item_id": items["item_id"], "criterion": "correctness", "annotator": "ann", "label": "0"})
    return Session(items, "correctness", "fake:lenient", labels=labels, folder=tmp_path, samples=1)


def test_held_out_labels_are_nowhere_on_screen(tmp_path):
    session = many(tmp_path)
    session.run()
    parts = session.labels.log.table.set_index("item_id")["part"]
    held = set(parts.index[parts == "held-out"])
    assert 20 <= len(held) <= 45
    for row in session.rows():
        assert row.held == (row.item_id in held)
        assert row.people == ({} if row.held else {"ann": "0"})
        assert row.wrong is None or not row.held
    n_dev = 80 - len(held)
    assert session.tiles()[0].note.startswith(f"{n_dev} of {n_dev} labelled items, dev")
    assert sum(cell.n for cell in session.cells()) == n_dev
    assert session.detail(min(held))["labels"] == {}


def test_each_figure_of_held_out_labels_is_one_look(tmp_path):
    session = many(tmp_path)
    with pytest.raises(InputError, match="run first"):
        session.look_held_out()
    session.run()
    shown = session.look_held_out()
    assert shown["looks"] == "look 1"
    assert session.look_held_out() == shown  # the same figure again tells nothing new
    again = many(tmp_path)  # nor does it after a restart
    again.run()
    assert again.look_held_out() == shown
    assert held_out_looks()["n_looks"].sum() == 1
    again.drafts.edit(lambda base, draft: draft.edit(again.shown_criterion, description="Is it really so?"))
    again.run()
    second = again.look_held_out()
    assert second["looks"] == "look 2"
    again.save(tmp_path)
    assert again.look_held_out() == second  # Save version gives the same figures another name
    again.drafts.edit(lambda base, draft: draft.edit(again.shown_criterion, pass_at=1))
    again.run()
    assert again.look_held_out()["looks"] == "look 3"  # other verdicts of the same scores
    assert session.look_held_out() == shown


def test_a_look_is_of_the_labels_that_it_was_made_of(tmp_path):
    session = many(tmp_path)
    session.run()
    shown, labels = session.look_held_out(), session.labels.log.table
    held = labels.loc[(labels["part"] == "held-out").to_numpy(), "item_id"].iloc[0]
    dev = labels.loc[(labels["part"] == "dev").to_numpy(), "item_id"].iloc[0]
    session.labels.annotator = "ann"
    session.label(dev, "2")
    assert session.look["words"] == shown
    session.label(held, "2")
    assert "before labels or verdicts changed" in session.look["words"]["looks"], "the result stands until then"
    session.label(held, "0")
    assert session.look["words"] == shown


def test_a_label_is_seen_at_once_and_survives(session, tmp_path):
    session.run()
    session.labels.annotator = "eva"
    session.label("d", "1")
    assert {row.item_id: row.people for row in session.rows()}["d"] == {"ann": "2", "eva": "1"}
    again = start(tmp_path)
    assert again.labels.log.of("d", "c") == {"ann": "2", "eva": "1"}
    again.labels.annotator = "eva"
    again.label("d", None)
    assert start(tmp_path).labels.log.of("d", "c") == {"ann": "2"}


@pytest.mark.parametrize(
    ("n", "joins", "counts"), [(1, True, False), (9, True, False), (10, True, True), (10, False, False)]
)
def test_who_has_just_begun_to_label_moves_no_figure(tmp_path, n, joins, counts):
    # ann has the jury right on 12 of 12; eva, who says the contrary, on 0 of n: of all labels that is 12/22 at n = 10
    items = pd.DataFrame(
        {"item_id": [f"i{at:02d}" for at in range(12)], "answer": [f"answer {at}" for at in range(12)]}
    )
    ek.record(items, RUBRIC, JUDGES[0], [["2" if at % 2 else "0"] for at in range(12)])
    given = people({f"i{at:02d}": "2" if at % 2 else "0" for at in range(12)})
    session = Session(items, RUBRIC, JUDGES[:1], labels=given, samples=1, recorded="use", folder=tmp_path)
    session.run()
    assert session.tiles()[0].value.startswith("1.00")
    session.labels.annotator = "eva"
    for at in range(n):
        session.label(f"i{at:02d}", "0" if at % 2 else "2")
    if joins:
        session.labels.count_annotator("eva")
    agreement, _, among = session.tiles()[:3]
    assert agreement.value.startswith("0.55" if counts else "1.00")
    assert agreement.note.startswith("12 of 12 labelled items, dev")
    assert ("; without eva (under 10 labels)" in agreement.note) is (joins and not counts)
    assert ("without eva (not in the figures yet)" in agreement.note) is not joins
    assert among.value.startswith("0.00" if counts else "NA")
    assert sum(cell.n for cell in session.cells()) == 12 + n * counts  # matrix and filters count what figures count
    assert sum(bool(row.wrong) for row in session.rows()) == 0
    assert {row.item_id: row.people for row in session.rows()}["i00"] == {"ann": "0", "eva": "2"}


def test_who_labels_alone_counts_from_the_first_label_on(session, tmp_path):
    alone = start(tmp_path, labels=people({"a": "2"}))
    alone.run()
    assert alone.tiles()[0].value == "1.00"
    assert alone.tiles()[0].note.startswith("1 of 1 labelled item, dev")


LABELLER = """
import sys
import pandas as pd
import evalkit as ek
from evalkit.notebook.tuner.tuning_session import Session
items = pd.DataFrame({"item_id": [f"i{at}" for at in range(400)], "answer": [f"answer {at}" for at in range(400)]})
scale = {0: "no", 1: "yes"}
rubric = ek.Rubric(id="r", inputs=["answer"], template="number@v1", criteria=[{"name": "c", "scale": scale}])
session = Session(items, rubric, "fake:strict", folder=sys.argv[1])
for at in range(400):
    session.label(f"i{at}", str(at % 2), criterion="c")
    print(at, flush=True)
"""


def test_no_label_that_was_given_is_lost_when_the_kernel_is_killed(tmp_path):
    with subprocess.Popen([sys.executable, "-c", LABELLER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as kernel:
        assert kernel.stdout is not None
        given = [kernel.stdout.readline() for _ in range(25)]
        kernel.send_signal(signal.SIGKILL)
        given += kernel.stdout.readlines()
    given = [line for line in given if line.endswith("\n")]
    assert 25 <= len(given) < 400
    lines = (tmp_path / "r.labels.jsonl").read_bytes().split(b"\n")
    found = {one["item_id"]: one["label"] for one in (json.loads(line) for line in lines if line.endswith(b"}"))}
    assert {f"i{int(line)}": str(int(line) % 2) for line in given}.items() <= found.items()
    items = pd.DataFrame({"item_id": [f"i{at}" for at in range(400)], "answer": [f"answer {at}" for at in range(400)]})
    rubric = ek.Rubric(
        id="r", inputs=["answer"], template="number@v1", criteria=[{"name": "c", "scale": {0: "n", 1: "y"}}]
    )
    again = Session(items, rubric, "fake:strict", folder=tmp_path)
    again.label("i399", "1", criterion="c")  # what was cut short does not spoil what follows
    assert set(again.labels.log.table["item_id"]) == {*found, "i399"}


def test_a_given_label_can_be_corrected(session, tmp_path):
    session.labels.annotator = "ann"
    session.label("c", "2")
    assert start(tmp_path).labels.log.of("c", "c") == {"ann": "2"}


@pytest.mark.parametrize(
    ("item", "label", "annotator", "message"),
    [("a", "7", "me", "allowed: 0, 1, 2"), ("z", "1", "me", "item 'z' not found"), ("a", "1", " ", "annotator")],
    ids=["off-scale", "no-item", "nobody"],
)
def test_a_label_that_means_nothing_is_refused(session, item, label, annotator, message):
    session.labels.annotator = annotator
    with pytest.raises(InputError, match=message):
        session.label(item, label)
    assert not session.labels.log.path.exists()


def test_labels_of_another_text_are_left_out_but_stay_in_the_file(session, tmp_path):
    session.label("a", "1")
    changed = ITEMS.assign(answer=["another first", *ITEMS["answer"][1:]])
    other = Session(changed, RUBRIC, JUDGES[:1], samples=1, folder=tmp_path)
    assert (other.labels.log.n_other_texts, other.labels.log.of("a", "c")) == (1, {})
    assert start(tmp_path).labels.log.of("a", "c")["me"] == "1"


def test_a_line_cut_short_by_a_crash_is_passed_over(session, tmp_path):
    session.label("a", "1")
    with session.labels.log.path.open("ab") as file:
        file.write(b'\n{"item_id": "b", "crit')
    again = start(tmp_path)
    again.label("b", "2")
    assert {item: start(tmp_path).labels.log.of(item, "c").get("me") for item in "ab"} == {"a": "1", "b": "2"}


def test_a_label_that_cannot_be_written_does_not_count(session, tmp_path):
    session.labels.log.path = tmp_path / "file" / "x.jsonl"
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(CacheError, match="labels cannot be saved"):
        session.label("a", "1")
    assert session.labels.log.of("a", "c") == {"ann": "2"}


# -- the label queue
QUEUE_ITEMS = pd.DataFrame(
    {"item_id": [f"q{at:02d}" for at in range(60)], "answer": [f"answer number {at}" for at in range(60)]}
)


def queue_tuner(folder, labels=None, annotator="Ana"):
    """x passes every second of 60 items; y agrees with x on two items of three, so that the judges disagree on 20."""
    x = ["2" if at % 2 else "0" for at in range(60)]
    y = [{"2": "0", "0": "2"}[reply] if at % 3 == 0 else reply for at, reply in enumerate(x)]
    for judge, replies in zip(JUDGES, (x, y), strict=True):
        ek.record(QUEUE_ITEMS, RUBRIC, judge, [[reply] for reply in replies], overwrite=True)
    options = {"samples": 1, "recorded": "use", "folder": folder, "annotator": annotator}
    made = ek.RubricTuner(QUEUE_ITEMS, RUBRIC, JUDGES, labels, **options)
    do(made, do="run")
    return made


def open_queue(tuner, source="random", *, blind=True):
    do(tuner, do="queue", open=True, source=source, blind=blind)
    return tuner.state["queue"]


def label_next(tuner, label):
    """Label the item on screen, and return its id."""
    queue = tuner.state["queue"]
    do(tuner, do="label_next", id="m", item_id=queue["item_id"], criterion=queue["criterion"], label=label)
    return queue["item_id"]


def close_queue(tuner):
    """Close the queue, and return the tiles by title."""
    do(tuner, do="queue", open=False, source="random", blind=True)
    return {tile["title"]: tile for tile in tuner.state["figures"]["tiles"]}


def test_the_queue_says_how_precisely_the_mean_is_known(tmp_path):
    tuner = queue_tuner(tmp_path)
    assert open_queue(tuner)["precision"].startswith("0 labels that count. From 30 on, people's")
    assert open_queue(tuner, "disputed")["precision"].startswith("0 labels that count. From 30 on, people's")
    open_queue(tuner)
    for at in range(30):
        label_next(tuner, "2" if at % 3 else "0")
    shown = re.fullmatch(r"30 labels\. People's (.*) over all items: known to ± (.*); with ten more labels, ± (.*)\.",
                         tuner.state["queue"]["precision"])  # fmt: skip
    figure = "passed" if "pass rate" in shown[1] else "score"
    labels = tuner.labels.drop(columns="part")
    row = ek.corpus_estimate(tuner.evaluation.scores, labels, figure=figure).iloc[0]
    half = (row["estimate_high"] - row["estimate_low"]) / 2
    assert float(shown[2]) == pytest.approx(half, abs=6e-4)
    assert float(shown[3]) == pytest.approx(half * (30 / 40) ** 0.5, abs=6e-4)
    while tuner.state["queue"]["item_id"]:  # from 50 on some are held out, and only they count
        label_next(tuner, "2" if int(tuner.state["queue"]["item_id"][1:]) % 3 else "0")
    held = int((tuner.labels["part"] == "held-out").sum())
    assert 0 < held < 30
    assert tuner.state["queue"]["precision"].startswith(f"{held} held-out labels that count. From 30 on")


def test_the_random_order_is_fixed_and_has_every_item_once():
    ids = list(QUEUE_ITEMS["item_id"])
    order = random_order(ids)
    assert order == random_order(ids[::-1])
    assert sorted(order) == ids != order
    assert [item for item in random_order([*ids, "new-1", "new-2"]) if item in ids] == order


def test_a_disputed_item_is_drawn_with_the_probability_that_is_stated():
    # 20 disputed of 60: 20 expected, of which 30 % evenly: .3 · 20/60 = .1, and the disputed + .7 · 20/20 = .8
    disagreements = {f"q{at:02d}": 1.0 if at % 3 == 0 else 0.0 for at in range(60)}
    draws = [draw_disputed(disagreements, f"v{at}") for at in range(1000)]
    assert draws[0] == draw_disputed(dict(reversed(disagreements.items())), "v0") != draws[1]
    for item, expected in (("q00", 0.8), ("q01", 0.1)):
        drawn = [draw[item] for draw in draws if item in draw]
        assert drawn == pytest.approx([expected] * len(drawn))
        assert len(drawn) / 1000 == pytest.approx(expected, abs=0.05)  # 4 standard errors: 4 · √(.8 · .2/1000)
    first = [int(item[1:]) % 3 == 0 for draw in draws for item in list(draw)[:5]]  # the order says nothing of them
    assert sum(first) / len(first) == pytest.approx(16 / 20, abs=0.03)  # 4 standard errors: 4 · √(.8 · .2/5000) = .023
    assert draw_disputed({"a": 0.0, "b": 0.0}, "v1") == {} == draw_disputed({}, "v1")


def test_the_queue_asks_all_items_in_the_random_order_and_shows_nothing_of_the_jury(tmp_path):
    tuner = queue_tuner(tmp_path)
    queue = open_queue(tuner)
    assert (queue["n_done"], queue["n"], queue["undo"]) == (0, 60, None)
    assert queue["levels"] == [("0", "no", "0"), ("1", "nearly", "1"), ("2", "yes", "2")]
    assert queue["inputs"] == [("answer", f"answer number {int(queue['item_id'][1:])}")]
    assert queue["judges"] == []
    before = tuner.state["figures"]
    asked = [label_next(tuner, str(at % 3)) for at in range(60)]
    assert asked == random_order(QUEUE_ITEMS["item_id"])
    assert (tuner.state["queue"]["item_id"], tuner.state["queue"]["n_done"]) == (None, 60)
    assert tuner.state["figures"] is before  # figures that move with a label would show what the jury said
    lines = [json.loads(line) for line in (tmp_path / "r.labels.jsonl").read_text().split("\n") if line]
    assert [line["item_id"] for line in lines] == asked
    assert {(line["source"], line["probability"], line["blind"]) for line in lines} == {("random", None, True)}
    assert close_queue(tuner)["Agreement with people"]["note"].endswith("random labels, Ana, blind")
    assert open_queue(tuner, blind=False)["item_id"] is None


def test_disputed_and_picked_labels_move_no_figure(tmp_path):
    # 45 labels: with 5 more, labels would be held out, which would change every figure
    given = {f"q{at:02d}": "2" if at % 5 < 2 else "0" for at in range(45)}
    tuner = queue_tuner(tmp_path, people(given, "Ana"))
    before, alignment = close_queue(tuner), tuner.alignment
    assert before["Agreement with people"]["note"] == "30 of 45 labelled items, dev · 45 given labels, Ana"
    n = open_queue(tuner, "disputed")["n"]
    done = tuner.state["queue"]["n_done"]  # given labels are not asked again
    asked = []
    while tuner.state["queue"]["item_id"]:
        asked.append(label_next(tuner, "1"))
    assert asked
    assert len(asked) == n - done
    assert not {*asked} & {*given}
    close_queue(tuner)
    do(tuner, do="query", query={"filter": "wrong"})
    picked = [row["item_id"] for row in tuner.state["page"]["rows"]][:6]
    for item in picked:  # Ana changes her mind where the jury disagrees with her
        do(tuner, do="label", item_id=item, label="0" if given[item] == "2" else "2", criterion="c")
    after = close_queue(tuner)
    not_counted = f" · {len(asked)} disputed, 6 picked not counted"
    assert after["Agreement with people"].pop("note") == before["Agreement with people"].pop("note") + not_counted
    assert after == before
    pd.testing.assert_frame_equal(tuner.alignment, alignment)
    assert set(tuner.labels["part"]) == {"dev"}
    shown = tuner.labels.set_index("item_id")
    assert shown.loc[picked, "source"].eq("given").all()  # a label that may stand for all items stands
    assert shown.loc[asked, "probability"].between(0.1, 1.0).all()
    assert shown.loc[asked, "round"].eq(1).all()
    assert len(tuner.evaluation.labels) == 45
    # after a restart as before it
    again = queue_tuner(tmp_path, people(given, "Ana"))
    pd.testing.assert_frame_equal(again.alignment, alignment)
    pd.testing.assert_frame_equal(again.labels, tuner.labels)


def test_disputed_items_are_drawn_in_rounds_and_weighted(tmp_path):
    tuner = queue_tuner(tmp_path)
    open_queue(tuner)
    for at in range(15):
        label_next(tuner, "2" if at % 3 else "0")
    before = set(tuner.labels["item_id"])
    for number in (1, 2):
        queue = open_queue(tuner, "disputed")
        n = queue["n"]
        label_next(tuner, "1")
        tuner = queue_tuner(tmp_path)  # after a restart the draw is the same
        queue = open_queue(tuner, "disputed")
        assert (queue["n_done"], queue["n"]) == (1, n)
        while tuner.state["queue"]["item_id"]:
            label_next(tuner, "1")
        labels = tuner.labels.set_index("item_id")
        mine = labels[labels["round"].eq(number)]
        assert len(mine) == n > 0
        assert not {*mine.index} & before
        before |= {*mine.index}
    drawn = [json.loads(line) for line in (tmp_path / "r.labels.jsonl").read_text().split("\n") if '"drawn"' in line]
    assert [len(one["drawn"]) for one in drawn] == labels["round"].value_counts().sort_index().tolist()
    row = ek.corpus_estimate(tuner.evaluation, tuner.labels.drop(columns="part")).iloc[0]
    assert row["n_labelled"] == len(before) == len(tuner.labels)
    held = int((tuner.session.labels.log.weighted["part"] == "held-out").sum())
    assert tuner.state["queue"]["precision"].startswith(f"{held or len(before)} ")
    others = tuner.labels.drop(columns=["part", "round"])  # by an earlier version: nobody knows the draw
    assert ek.corpus_estimate(tuner.evaluation, others).iloc[0]["n_labelled"] == 15


def test_an_item_that_was_disputed_is_asked_again_blind_and_counts_then(tmp_path):
    tuner = queue_tuner(tmp_path)
    open_queue(tuner, "disputed")
    while tuner.state["queue"]["item_id"]:
        label_next(tuner, "2")
    n = tuner.state["queue"]["n_done"]
    disputed = set(tuner.labels["item_id"])
    assert len(disputed) == n > 0
    queue = open_queue(tuner, blind=False)
    assert (queue["n_done"], queue["n"]) == (0, 60)
    while item := tuner.state["queue"]["item_id"]:
        assert bool(tuner.state["queue"]["judges"]) is (item not in disputed)
        label_next(tuner, "0")
    labels = tuner.labels.set_index("item_id")
    assert set(labels["source"]) == {"random"}
    assert set(labels["label"]) == {"0"}
    assert labels["blind"].eq(labels.index.isin(disputed)).all()
    do(tuner, do="undo_label")  # the disputed label of that item, if there was one, is valid again
    last = random_order(QUEUE_ITEMS["item_id"])[-1]
    assert tuner.session.labels.log.of(last, "c") == ({"Ana": "2"} if last in disputed else {})
    label_next(tuner, "0")
    note = close_queue(tuner)["Agreement with people"]["note"]
    n_dev = (tuner.labels["part"] == "dev").sum()
    n_blind = (tuner.labels.loc[tuner.labels["part"] == "dev", "blind"]).sum()
    assert note.endswith(f"{n_dev} random labels, Ana, {n_blind} blind")


def test_undo_goes_back_one_label_at_a_time_also_after_a_restart(tmp_path):
    tuner = queue_tuner(tmp_path)
    open_queue(tuner)
    do(tuner, do="undo_label", id="1")  # nothing to undo
    first, second, third = (label_next(tuner, label) for label in "012")
    assert tuner.state["queue"]["undo"] == (third, "2")
    do(tuner, do="undo_label", id="2")
    assert (tuner.state["queue"]["item_id"], tuner.state["queue"]["undo"]) == (third, (second, "1"))
    do(tuner, do="query", query={"filter": "unlabelled"})  # the filter of the table is not the queue's
    again = queue_tuner(tmp_path)
    queue = open_queue(again)
    assert (queue["item_id"], queue["undo"], queue["n_done"]) == (third, (second, "1"), 2)
    do(again, do="undo_label", id="3")
    do(again, do="undo_label", id="4")
    assert (again.state["queue"]["item_id"], again.state["queue"]["undo"]) == (first, None)
    assert len(again.labels) == 0
    assert len((tmp_path / "r.labels.jsonl").read_text().split("\n\n")) == 6  # lines are only added


def test_a_key_for_an_item_that_is_not_on_screen_is_ignored_and_answered(tmp_path):
    tuner = queue_tuner(tmp_path)
    item = open_queue(tuner)["item_id"]
    for number in "ab":  # the same key twice
        do(tuner, do="label_next", id=number, item_id=item, criterion="c", label="1")
    assert tuner.state["queue"]["answers"] == "b"
    assert tuner.labels["item_id"].tolist() == [item]
    do(tuner, do="label_next", id="c", item_id=tuner.state["queue"]["item_id"], criterion="c", label="9")
    assert "not on the scale" in tuner.state["alert"]
    assert tuner.state["queue"]["answers"] == "c"
    do(tuner, do="queue", open=True, source="best", blind=True)
    assert "allowed: 'random', 'disputed'" in tuner.state["alert"]


def test_a_new_annotator_counts_when_the_person_says_so(tmp_path):
    given = {f"q{at:02d}": "2" if at % 5 < 2 else "0" for at in range(30)}
    tuner = queue_tuner(tmp_path, people(given, "ann"), annotator="Bob")
    before = close_queue(tuner)
    open_queue(tuner)
    for _ in range(12):
        label_next(tuner, "1")
    after = close_queue(tuner)
    assert tuner.state["figures"]["newcomers"] == {"Bob": 12}
    for title, tile in after.items():
        assert tile["value"] == before[title]["value"]
    assert after["Agreement with people"]["note"].endswith(
        "30 given labels, ann · without Bob (not in the figures yet)"
    )
    do(tuner, do="count_labels", annotator="Bob", counts=True)
    for made in (tuner, queue_tuner(tmp_path, people(given, "ann"))):
        tiles = close_queue(made)
        assert made.state["figures"]["newcomers"] == {}
        assert tiles["Agreement with people"]["note"].endswith("30 given labels, ann · 12 random labels, Bob, blind")
        assert made.alignment.iloc[0]["n_annotators"] == 2
    do(tuner, do="count_labels", annotator="Bob", counts=False)
    assert close_queue(tuner) == after


def test_labels_of_an_earlier_file_count_as_given(tmp_path):
    tuner = queue_tuner(tmp_path)
    open_queue(tuner)
    for _ in range(12):
        label_next(tuner, "0")
    path = tmp_path / "r.labels.jsonl"
    lines = [json.loads(line) for line in path.read_text().split("\n") if line]
    old = [
        {name: line[name] for name in ("item_id", "criterion", "annotator", "label", "text", "at")} for line in lines
    ]
    path.write_text("".join(json.dumps(line | {"annotator": who}) + "\n" for line in old for who in ("eva", "Ana")))
    again = queue_tuner(tmp_path)
    assert close_queue(again)["Agreement with people"]["note"].endswith("24 given labels, Ana, eva")
    assert again.alignment.iloc[0]["n_annotators"] == 2
    assert again.labels["blind"].isna().all()
    # a labels table keeps how its labels were drawn
    other = queue_tuner(tmp_path / "other", tuner.labels)
    pd.testing.assert_frame_equal(other.labels, tuner.labels, check_categorical=False)


# -- versions
@pytest.mark.parametrize("options", [{"progress": False}, {"adopt": False}, {"refresh": "unscored"}], ids=str)
def test_every_option_of_judge_can_be_set_and_a_restart_makes_no_calls(tmp_path, options):
    first = Session(ITEMS, RUBRIC, "fake:strict", samples=1, folder=tmp_path, **options)
    first.run()
    again = Session(ITEMS, RUBRIC, "fake:strict", samples=1, folder=tmp_path, **options)
    again.runs.show(again.runs.current)
    assert again.evaluation.cost.n_cached == len(ITEMS)


def test_offline_a_session_shows_what_is_in_the_cache(tmp_path):
    Session(ITEMS, RUBRIC, "fake:strict", samples=1, folder=tmp_path).run()
    again = Session(ITEMS, RUBRIC, "fake:strict", samples=1, folder=tmp_path, offline=True)
    again.runs.show(again.runs.current)
    again.run()
    assert again.evaluation.judgments["error"].isna().all()
    with pytest.raises(TypeError, match=r"RubricTuner\(\) got unexpected arguments: 'sampels'; allowed: offline,"):
        Session(ITEMS, RUBRIC, "fake:strict", folder=tmp_path, sampels=1)


def test_all_is_found_again_after_a_restart(session, tmp_path):
    session.run()
    edit(session)
    session.labels.annotator = "eva"
    session.history.save()
    again = start(tmp_path)
    assert list(again.history.versions) == list(session.history.versions)
    assert (again.drafts.draft.label, again.drafts.draft.edited, again.labels.annotator) == (EDITED.label, True, "eva")
    again.runs.show(again.runs.current, again.runs.against)
    assert again.tiles()[:4] == session.tiles()[:4]
    assert [row.item_id for row in again.page().rows] == [row.item_id for row in session.page().rows]


def test_any_two_versions_can_be_compared(session):
    session.run()
    first = session.runs.current
    edit(session)
    second = session.runs.current
    session.runs.show(first, second)
    assert {tile.title: tile for tile in session.tiles()}["Changed"].moved == "▲ 0 fixed ▼ 1 broke on dev labels"
    session.runs.show(second)
    assert session.runs.compared is None
    with pytest.raises(InputError, match="not found"):
        session.runs.show("nothing")


def test_the_same_again_is_no_new_version(session):
    session.run()
    session.run()
    edit(session, RUBRIC)
    assert len(session.history.versions) == 1
    assert session.runs.against == ""


def test_another_rubric_than_last_time_is_what_is_given(session, tmp_path):
    edit(session)
    third = RUBRIC.edit("c", scale={0: "not at all"})
    again = start(tmp_path, rubric=ek.Rubric(**third.to_dict()))
    assert again.drafts.draft.content_hash == third.content_hash
    assert len(again.history.versions) == 1


def test_two_kernels_do_not_lose_each_others_versions(session, tmp_path):
    other = start(tmp_path)
    session.run()
    edit(other)
    assert len(start(tmp_path).history.versions) == 2


@pytest.mark.parametrize("text", ["no json", '{"schema": 99}', "[]"], ids=["no-json", "newer", "list"])
def test_a_foreign_state_file_is_left_alone(tmp_path, text):
    (tmp_path / "r.tuner.json").write_text(text)
    with pytest.raises(CacheError, match="move it away"):
        start(tmp_path)
    assert (tmp_path / "r.tuner.json").read_text() == text


def test_saving_makes_the_next_version_and_keeps_its_replies(tmp_path, monkeypatch):
    monkeypatch.setenv("EVALKIT_RUBRICS", str(tmp_path / "rubrics"))
    items, labels = ek.load_example("facts")
    session = Session(items, "correctness", "fake:strict", labels=labels, folder=tmp_path)
    session.run()
    edit(session, session.drafts.draft.edit("correctness", scale={1: "mostly right"}))
    assert session.drafts.draft.edited
    saved = session.save()
    assert (saved.version, session.drafts.draft.edited, session.drafts.problem) == ("v2", False, "")
    assert ek.load_rubric("correctness").content_hash == saved.content_hash
    assert session.history.versions[session.runs.current].label == "v2"
    assert ek.plan(items, saved, "fake:strict").n_to_call == 0
    again = Session(items, "correctness", "fake:strict", labels=labels, folder=tmp_path)
    assert (again.runs.current, again.drafts.draft.label) == (session.runs.current, "v2")


def test_versions_know_judges_and_rules(tmp_path):
    version = Version(RUBRIC, EDITED, tuple(JUDGES), 3, "median", "2026-01-01T00:00:00+00:00")
    stored = json.loads(json.dumps(version.to_dict()))
    back = Version.from_dict(stored)
    assert (back.key, back.label, back.judges, back.aggregate) == (version.key, EDITED.label, tuple(JUDGES), "median")
    assert len({version.key, Version(RUBRIC, EDITED, tuple(JUDGES), 5, "median").key}) == 2
    history = History(tmp_path / "x.json")
    history.versions[version.key] = version
    history.save()
    loaded = History(tmp_path / "x.json")
    loaded.load("another")
    assert loaded.versions == {}
    loaded.save()  # what it did not take in stays in the file
    loaded.load("r")
    assert list(loaded.versions) == [version.key]


# -- the draft
@pytest.mark.parametrize(
    "name", sorted(set(ek.rubrics.list_rubrics()["id"] + "@" + ek.rubrics.list_rubrics()["version"]))
)
def test_form_and_yaml_of_every_rubric_come_back(name):
    rubric = ek.load_rubric(name)
    assert from_form(rubric, rubric, form_of(rubric)).content_hash == rubric.content_hash
    made = from_yaml(rubric, str(rubric))
    assert (made.content_hash, made.edited) == (rubric.content_hash, False)


def test_criteria_and_levels_come_go_and_change_their_names():
    rubric = ek.Rubric(
        id="two",
        inputs=["answer"],
        criteria=[
            {"name": "one", "scale": {0: "no", 1: "yes"}, "pass_at": 1, "weight": 2.0, "critical": True},
            {"name": "two", "level": "nominal", "scale": {"A": "a", "B": "b"}, "pass_if": ["A"]},
        ],
    )
    form = form_of(rubric)
    one, two = form["criteria"]
    one["name"] = " first "
    one["scale"] += [["2", "very"]]
    new = {"name": "three", "description": "New?", "level": "ordinal", "scale": [["0", "no"], ["1", "yes"]]}
    form["criteria"] = [two, one, new | {"rule": "pass_at", "passes": "1", "rest": {}}]
    made = from_form(rubric, rubric, form)
    assert made.names == ("two", "first", "three")
    first = made.criterion("first")
    assert (first.weight, first.critical, dict(first.scale)) == (2.0, True, {0: "no", 1: "yes", 2: "very"})
    assert made.criterion("two").scale.passed("A")
    form["criteria"] = [one]
    assert from_form(rubric, made, form).names == ("first",)
    for change, message in (
        ({"criteria": []}, "criteria is empty"),
        ({"criteria": [one | {"name": ""}]}, "has no name"),
        ({"criteria": [one, one]}, "two criteria have the same name"),
        ({"criteria": [two | {"level": "ordinal"}]}, "must be a number"),
    ):
        with pytest.raises(RubricError, match=message):
            from_form(rubric, rubric, form | change)


def test_labels_of_a_level_that_was_removed_are_left_out_and_said(tmp_path):
    # level 0 goes: b's label 0 means nothing any more; a and c have others, and the jury is right on a alone
    without = RUBRIC.edit("c", scale={0: None})
    record(RUBRIC, ["2", "0", "2", "1"])
    record(without, ["2", "1", "2", "1"])
    session = Session(
        ITEMS, RUBRIC, JUDGES[:1], labels=people({"a": "2", "b": "0", "c": "1"}), samples=1, recorded="use",
        folder=tmp_path,
    )  # fmt: skip
    session.run()
    session.drafts.edit(lambda _base, _draft: without)
    session.run()
    assert session.n_off_scale == 1
    assert session.tiles()[0].value.startswith("0.50")
    assert session.tiles()[0].note.startswith("2 of 2 labelled items")
    assert {row.item_id: row.wrong for row in session.rows()} == {"a": False, "b": None, "c": True, "d": None}
    assert sum(cell.n for cell in session.cells()) == 2
    tuner = RubricTuner.of(session, new_widget("TunerWidget", "", ""))
    with pytest.warns(EvalkitWarning, match="1 label is not on the scale of the version shown"):
        labels = tuner.labels
    assert labels["item_id"].tolist() == ["a", "c"]
    assert ek.align(tuner.scores, labels).iloc[0]["accuracy"] == tuner.alignment.iloc[0]["accuracy"] == 0.5
    assert ek.corpus_estimate(tuner.evaluation, labels.drop(columns="part")).iloc[0]["n_labelled"] == 2
    tuner.wait_idle()
    session.runs.show(session.runs.against)
    assert session.n_off_scale == 0
    assert len(tuner.labels) == 3


def test_a_criterion_that_was_added_can_be_labelled(tmp_path):
    longer = ek.Rubric(
        **(RUBRIC.to_dict() | {"criteria": [*RUBRIC.criteria, {"name": "d", "scale": {0: "n", 1: "y"}}]})
    )
    added = rebase(RUBRIC, longer.to_dict())
    session = Session(ITEMS, RUBRIC, "fake:strict", samples=1, folder=tmp_path)
    session.run()
    with pytest.raises(InputError, match="none until a version with this criterion has run"):
        session.label("a", "1", criterion="d")
    session.drafts.edit(lambda _base, _draft: added)
    session.run()
    session.label("a", "1", criterion="d")
    again = Session(ITEMS, RUBRIC, "fake:strict", samples=1, folder=tmp_path)
    assert again.labels.log.table[["criterion", "label"]].values.tolist() == [["d", "1"]]
    assert again.labels.log.n_other_texts == 0


@given(st.lists(st.text(max_size=40), min_size=3, max_size=3))
def test_any_text_of_a_level_survives_the_form(texts):
    form = form_of(RUBRIC)
    form["criteria"][0]["scale"] = [[str(code), text] for code, text in enumerate(texts)]
    made = from_form(RUBRIC, RUBRIC, form)
    again = form_of(made)
    assert from_form(RUBRIC, made, again).content_hash == made.content_hash


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": [["0", "no"], ["0", "yes"]]}, "duplicate code"),
        ({"scale": [["", "no"], ["2", "yes"]]}, "has no code"),
        ({"scale": [["2", "yes"]]}, "only one level, 2; add at least one more"),
        ({"scale": [["0", "no"], ["high", "yes"]]}, "must be a number"),
        ({"passes": "seven"}, "must be a number"),
        ({"passes": "7"}, "7"),
    ],
    ids=["double", "blank", "one-level", "word", "rule-word", "rule-off"],
)
def test_a_faulty_form_says_what_is_wrong(session, change, message):
    form = form_of(RUBRIC)
    form["criteria"][0] |= change
    session.drafts.edit(lambda base, draft: from_form(base, draft, form))
    assert message in session.drafts.problem
    assert session.drafts.draft.content_hash == RUBRIC.content_hash
    with pytest.raises(RubricError, match="fix the rubric first"):
        session.run()
    session.drafts.edit(lambda base, draft: from_form(base, draft, form_of(draft)))
    assert session.drafts.problem == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "line"),
        ("just words", "mapping"),
        ("id: other\n", "id must stay"),
        ("inputs: [answer]\nwhat: 1\n", "unknown rubric key"),
    ],
    ids=["yaml", "words", "id", "key"],
)
def test_faulty_yaml_says_what_is_wrong(text, message):
    with pytest.raises(RubricError, match=message):
        from_yaml(RUBRIC, text)


# -- the jury
def test_the_jury_can_be_changed(tmp_path):
    record(RUBRIC, ["2", "0", "2", "1"], ["2", "0", "0", "2"])
    session = start(tmp_path, judges=JUDGES)
    session.drafts.set_jury({"y": 2.0}, 1, "median")
    session.run()
    assert session.evaluation.judgments["judge"].unique().tolist() == ["y"]
    assert {tile.title: tile.value for tile in session.tiles()}["Judges disagree"] == "NA"
    session.drafts.set_jury({"x": 1.0, "y": 1.0}, 1, "mean")
    session.run()
    assert {tile.title: tile.value for tile in session.tiles()}["Judges disagree"] == "2 of 4"
    session.drafts.add_judge("fake:strict")
    assert [judge.name for judge in session.drafts.judges] == ["x", "y", "fake:strict"]
    with pytest.raises(ConfigError):
        session.drafts.add_judge("fake:strict")
    with pytest.raises(ConfigError, match="samples"):
        session.drafts.set_jury({"x": 1.0}, 0, "mean")
    session.drafts.set_jury({}, 1, "mean")
    with pytest.raises(ConfigError, match="no judge is selected"):
        session.run()


def test_the_jury_is_found_again_unless_the_cell_names_another(tmp_path):
    given = ["fake:strict", "fake:lenient"]
    first = Session(ITEMS, RUBRIC, given, folder=tmp_path)
    first.drafts.add_judge("fake:noisy")
    first.drafts.set_jury({"fake:strict": 2.0, "fake:noisy": 1.0}, 5, "median")
    first.drafts.budget_usd = 0.5
    first.history.save()
    again = Session(ITEMS, RUBRIC, given, folder=tmp_path)
    assert [(judge.name, judge.weight) for judge in again.drafts.judges] == [("fake:strict", 2.0), ("fake:noisy", 1.0)]
    assert (len(again.drafts.pool), again.drafts.samples, again.drafts.aggregate, again.drafts.budget_usd) == (
        3,
        5,
        "median",
        0.5,
    )
    other = Session(ITEMS, RUBRIC, given, samples=1, folder=tmp_path)
    assert (len(other.drafts.judges), other.drafts.samples, other.drafts.aggregate) == (2, 1, "mean")


def test_options_of_judge_are_checked_before_anything_else(tmp_path):
    with pytest.raises(TypeError, match="budgte"):
        start(tmp_path, budgte=1)
    with pytest.raises(ConfigError, match="concurrency"):
        start(tmp_path, concurrency=0)


# -- running and stopping
def test_a_stopped_run_shows_what_came_and_goes_on_with_the_rest(tmp_path):
    items = pd.DataFrame(
        {"item_id": [str(at) for at in range(30)], "answer": [f"ITEM-{at % 3} {at}" for at in range(30)]}
    )
    with judge_server(always={"delay": 0.05}) as server:
        judge = ek.Judge("openai", "m", base_url=server.url)
        session = Session(items, RUBRIC, judge, samples=1, folder=tmp_path, concurrency=2, retries=0)
        told = []

        def watch(progress):
            told.append(progress)
            if progress.done >= 4:
                session.runs.stop()

        said = session.run(watch)
        errors = session.evaluation.judgments["error"]
        n_first = int(errors.isna().sum())
        assert said.startswith("stopped:")
        assert set(errors.dropna().astype(str)) == {"stopped"}
        assert 4 <= n_first < 30
        assert len(server.seen) == n_first
        assert {row.status for row in session.rows()} == {"ok", "unscored"}
        session.run()
        assert len(server.seen) == 30
    assert session.evaluation.judgments["error"].isna().all()


def test_stop_is_about_the_run_that_was_asked_for(tmp_path):
    with judge_server(always={"delay": 0.05}) as server:
        items = [{"item_id": str(at), "answer": f"ITEM-1 {at}"} for at in range(12)]
        judge = ek.Judge("openai", "m", base_url=server.url)
        session = Session(items, RUBRIC, judge, samples=1, folder=tmp_path, concurrency=1)
        session.runs.begin_run()
        session.runs.stop()  # before the thread came to it
        assert session.run().startswith("stopped:")
        session.runs.end_run()
        session.runs.stop()  # nothing runs
        assert not session.run().startswith("stopped:")
        assert len(server.seen) == 12


def test_stop_is_about_all_that_runs_on_screen_and_in_a_cell(tmp_path):
    with judge_server(always={"delay": 0.25}) as server:
        items = [{"item_id": str(at), "answer": f"ITEM-1 {at}"} for at in range(12)]
        judge = ek.Judge("openai", "m", base_url=server.url)
        session = Session(items, RUBRIC, judge, samples=1, folder=tmp_path, concurrency=1)
        said = []
        cell = threading.Thread(target=lambda: said.append(session.run()))
        cell.start()
        wait_for(lambda: server.seen)
        session.runs.begin_run()  # on screen another one begins, and is over first
        session.runs.end_run()
        assert session.runs.busy
        session.runs.stop()
        cell.join(300)
        assert said[0].startswith("stopped:")
        assert not session.runs.busy


def test_a_version_whose_replies_are_gone_says_so(session, tmp_path, monkeypatch):
    session.run()
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "empty"))
    tuner = ek.RubricTuner(ITEMS, RUBRIC, JUDGES[:1], people(), samples=1, folder=tmp_path)
    assert tuner.wait_idle(300)
    said = "4 of 4 judgments (100.0%) have no score: 4 without a reply. The last session stored its replies in "
    assert tuner.state["notices"][0]["text"].startswith(said)
    ways = "name that one with cache= or EVALKIT_CACHE, or press Run to pay for them again."
    assert tuner.state["notices"][0]["text"].endswith(f", and this one reads another cache: {ways}")
    assert "The last session stored its replies in" in tuner.state["figures"]["decision"]["reason"]
    assert len(tuner.versions) == 1


def test_when_no_judge_answers_what_was_shown_stays(session):
    session.run()
    session.setup.options["retries"] = 0
    session.drafts.edit(lambda base, draft: base.edit("c", scale={0: "never seen"}))
    with pytest.raises(JudgeError, match="no judge could be called"):
        session.run()
    assert session.evaluation is not None
    assert session.tiles()[0].value.startswith("0.50")
    assert len(session.history.versions) == 1


@pytest.mark.parametrize("n", [0, 1])
def test_no_items_and_one_item(tmp_path, n):
    record(RUBRIC, ["2", "0", "2", "1"])
    session = Session(ITEMS.head(n), RUBRIC, JUDGES[:1], samples=1, recorded="use", folder=tmp_path)
    session.run()
    assert len(session.rows()) == n
    assert session.tiles()[-1].title == "Cost of this run"
    assert session.cells() == []


def test_the_order_of_the_items_does_not_matter(tmp_path):
    record(RUBRIC, ["2", "0", "2", "1"])
    shuffled = Session(
        ITEMS.iloc[[2, 0, 3, 1]], RUBRIC, JUDGES[:1], labels=people(), samples=1, recorded="use", folder=tmp_path
    )
    shuffled.run()
    seen = {cell.n for cell in shuffled.cells() if cell.kind in ("false pass", "false fail")}
    assert seen == {0, 1}
    assert {row.item_id for row in shuffled.page().rows[:2]} == {"c", "d"}


def test_a_rubric_without_pass_rule_compares_labels(tmp_path):
    plain = ek.Rubric(
        id="p", inputs=["answer"], template="number@v1", criteria=[{"name": "c", "scale": {0: "a", 1: "b", 2: "c"}}]
    )
    record(plain, ["2", "0", "2", "1"])
    session = start(tmp_path, rubric=plain)
    session.run()
    assert {row.item_id for row in session.rows() if row.wrong} == {"c", "d"}
    assert {cell.kind for cell in session.cells() if cell.human != cell.jury} == {"differs"}
    other = plain.edit("c", scale={1: "bb"})
    record(other, ["2", "0", "0", "1"])
    edit(session, other)
    assert {row.item_id: row.change for row in session.rows() if row.change} == {"c": "changed"}


# -- as code
def test_the_code_gives_what_is_on_screen(session):
    session.run()
    edit(session)
    place = {"items": ITEMS}
    code = (
        session_code(session)
        .replace("ek.load_rubric('r@v1')", "RUBRIC")
        .replace("adopt=True", "adopt=True, offline=True")
    )
    last = code.splitlines()[-1]
    exec(compile(code.replace(last, f"made = {last}"), "code", "exec"), place | {"RUBRIC": RUBRIC}, place)
    assert place["ev"].alignment.iloc[0]["accuracy"] == 0.75
    assert place["last"].alignment.iloc[0]["accuracy"] == 0.5
    assert place["made"].table.iloc[0][["changed", "fixed", "broke"]].tolist() == [1, 1, 0]


@pytest.mark.parametrize("scale", [{2: None}, {0: "yes", 2: "no"}])
@pytest.mark.parametrize("is_back", [True, False])
def test_the_code_uses_for_each_version_the_labels_on_its_scale(tmp_path, scale, is_back):
    """A removed level, and two that are swapped; the file holds all labels that one of the two versions counts."""
    levels = {0: "no", 1: "nearly", 2: "yes"}
    criteria = [{"name": "a", "scale": levels, "pass_at": 1, "description": "Is it so?"}]
    rubric = ek.Rubric(id="r", inputs=["answer"], criteria=criteria)
    items = pd.DataFrame({"item_id": [f"i{at:02d}" for at in range(60)], "answer": [f"text {at}" for at in range(60)]})
    tuner = ek.RubricTuner(items, rubric, "fake:noisy", samples=2, folder=tmp_path, annotator="ann")
    tuner.run()
    for at, item in enumerate(items["item_id"]):
        tuner.session.label(item, "0012"[at % 4])
    tuner.edit("a", scale=scale)
    tuner.run()
    v1, v2 = tuner.session.history.versions
    tuner.session.runs.show(*((v1, v2) if is_back else (v2, v1)))
    shown = tuner.session.alignment(tuner.session.runs.current)
    place = {"items": items}
    code = tuner.code()
    last = code.splitlines()[-1]
    exec(compile(code.replace(last, f"made = {last}"), "code", "exec"), place)
    if shown is None:
        assert place["ev"].alignment["n_labelled"].sum() == 0
    else:
        names = ["accuracy", "kappa", "n_labelled", "n_verdicts"]
        row = place["ev"].alignment.iloc[0]
        pd.testing.assert_series_equal(row[names], shown[names], check_names=False, check_dtype=False)
    change, _ = tuner.session.change()
    values = [table.get("n_paired", 0) for table in (place["made"].table.iloc[0], change)]
    assert values[0] == values[1]


def test_the_code_says_which_items_it_needs(session):
    session.run()
    assert session_code(session).splitlines()[0] == (
        "# items: the table that was passed to the tuner, with the columns 'item_id', 'answer'"
    )
    assert not session_code(session, "mine").startswith("#")


def test_the_code_of_a_tuner_that_the_card_opened_reads_the_file(tmp_path):
    path = tmp_path / "rows.csv"
    pd.DataFrame(
        {"name": ["i1", "i2"], "question": ["2 + 2?", "1 + 1?"], "answer": ["It is four.", "That makes two."]}
    ).to_csv(path, index=False)
    tuner = ek.start(str(path), judges=["fake:strict"], rubric="relevancy").tuner()
    tuner.session.run()
    values = {}
    exec(compile(tuner.code(), "code", "exec"), values)
    assert len(values["ev"].scores) == 2
    assert set(values["ev"].judgments["source"]) == {"cache"}


def test_the_file_of_a_saved_version_is_named(tuner, tmp_path):
    tuner.edit(description="Is it so, then?")
    saved = tuner.save(tmp_path / "mine")
    path = tmp_path / "mine" / saved.id / f"{saved.version}.yaml"
    assert path.exists()
    assert tuner.state["status"]["text"] == (
        f"saved as {saved.id}@{saved.version}: {path}. evalkit does not look for rubrics in this folder: "
        f"name the file, or set EVALKIT_RUBRICS={tmp_path / 'mine'}"
    )


@pytest.mark.parametrize("has_file", [True, False])
def test_a_saved_version_is_named_and_the_older_one_only_if_it_loads(tmp_path, monkeypatch, has_file):
    monkeypatch.setenv("EVALKIT_RUBRICS", str(tmp_path / "rubrics"))
    tuner = ek.RubricTuner(ITEMS, RUBRIC.save() if has_file else RUBRIC, JUDGES[:1], folder=tmp_path)
    tuner.edit(description="Is it so, then?")
    tuner.save()
    older = "; to use the older one, name 'r@v1'" if has_file else ""
    means = f"'r' without a version now means v2 wherever evalkit looks in this folder{older}"
    assert tuner.state["status"]["text"] == f"saved as r@v2: {tmp_path / 'rubrics/r/v2.yaml'}. {means}"


def test_the_code_reads_a_file_and_holds_out_what_the_tuner_holds_out(tmp_path):
    # groups of four, split as groups: by items of their own the code would look at what is held out here
    rows = [
        {
            "name": f"i{at:03d}",
            "group_id": f"g{at // 4}",
            "question": "?",
            "answer": f"{at}",
            "context": [f"{at}"],
            "says": "2",
        }
        for at in range(80)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    rubric = ek.load_rubric("faithfulness")
    jury = ["fake:strict", "fake:lenient"]
    options = {"item_id": "name", "samples": 1, "annotator": "eva"}
    session = Session(path, rubric, jury, labels={"faithfulness": "says"}, **options)
    session.run()
    session.label("i000", "2")
    place = {}
    exec(compile(session_code(session), "code", "exec"), place, place)
    assert set(place["ev"].judgments["source"]) == {"cache"}
    dev = session.labels.log.counted.query("part == 'dev'")
    assert 20 < len(dev) < 70
    assert set(place["labels"]["item_id"]) == set(dev["item_id"])
    row = place["ev"].alignment.set_index("judge").loc["jury"]
    shown = session.alignment(session.runs.current)
    names = ["accuracy", "accuracy_low", "accuracy_high", "n_verdicts", "n_annotators"]
    pd.testing.assert_series_equal(row[names], shown[names], check_names=False, check_dtype=False)
    assert row["n_annotators"] == 1  # eva's one label is on screen, and in no figure


def test_a_figure_of_other_items_is_no_step_and_one_without_interval_says_why(tmp_path):
    # x and y are of one mind on a and b: 2 verdicts; the edit ends the ties on c and d, where both are wrong then
    x, y = ["2", "0", "2", "0"], ["2", "0", "0", "2"]
    for rubric, second in ((RUBRIC, y), (EDITED, ["2", "0", "2", "0"])):
        record(rubric, x, second)
    session = start(tmp_path, judges=JUDGES)
    session.run()
    agreement, kappa = session.tiles()[:2]
    assert (agreement.value, agreement.note) == (
        "1.00",
        "2 of 4 labelled items, dev; no interval: the figure is at the end of its range · 4 given labels, ann",
    )
    assert "; no interval: " in kappa.note
    edit(session)
    agreement = session.tiles()[0]
    assert agreement.value.startswith("0.50")
    assert (agreement.moved, agreement.mark) == ("▼ 0.50 from v1, which has 2 verdicts", "")
    assert "no interval" not in agreement.note or "[" not in agreement.value


# -- suggestions
FACTS = ek.load_example("facts")


@pytest.fixture
def facts(tmp_path):
    made = Session(FACTS[0], "correctness", ["fake:strict", "fake:lenient"], labels=FACTS[1], folder=tmp_path)
    made.run()
    return made


def test_edits_are_suggested_tried_and_found_again(facts, tmp_path):
    draft = facts.drafts.draft.content_hash
    facts.suggestions.suggest("fake:strict", "correctness")
    rows = facts.suggestions.edits.rows
    assert 1 <= len(rows) <= 3
    assert "20 dev items" not in facts.suggestions.edits.head  # of those with a verdict on both sides
    base = facts.runs.current
    facts.suggestions.try_edit(1)
    facts.suggestions.try_edit(0)
    assert facts.runs.against == base  # each edit is compared with what it is of, not with the last one
    assert facts.drafts.draft.content_hash == draft  # what a person was editing stays
    assert len(facts.history.versions) == 3
    tried = facts.suggestions.edits.rows[0]
    assert tried.key == facts.runs.current
    assert facts.evaluation.rubric.content_hash == tried.edit.apply(FACTS_RUBRIC).content_hash
    change = next(tile for tile in facts.tiles() if tile.title == "Changed")
    assert [effect["part"] for effect in tried.effects] == ["dev"]  # 20 labelled items: nothing is held out
    assert tried.effects[0]["counts"].split(" fixed")[0] in change.moved
    again = Session(FACTS[0], "correctness", ["fake:strict", "fake:lenient"], labels=FACTS[1], folder=tmp_path)
    assert again.suggestions.edits == facts.suggestions.edits
    again.runs.load(again.runs.current)
    again.drafts.edit_version(again.history.versions[tried.key])
    assert again.drafts.draft.content_hash == facts.evaluation.rubric.content_hash


FACTS_RUBRIC = ek.load_rubric("correctness")


def test_an_edit_that_is_tried_again_is_measured_on_its_own_criterion(tmp_path):
    """Whatever criterion was asked about since: people say nothing of the other that the jury could agree with."""
    criteria = [{"name": name, "description": f"Is {name} so?", "scale": {0: "no", 1: "nearly", 2: "yes"}, "pass_at": 2}
                for name in "ab"]  # fmt: skip
    rubric = ek.Rubric(id="two", inputs=["answer"], criteria=criteria)
    items = [{"item_id": f"i{at}", "answer": f"answer {at}"} for at in range(30)]
    rows = [(f"i{at}", name, "ann", "02"[name == "a" and at % 2 == 0]) for at in range(30) for name in "ab"]
    given = pd.DataFrame(rows, columns=["item_id", "criterion", "annotator", "label"])
    session = Session(items, rubric, "fake:noisy", labels=given, samples=1, folder=tmp_path)
    session.run()
    session.suggestions.suggest("fake:strict", "a")
    session.suggestions.try_edit(0)
    effects = session.suggestions.edits.rows[0].effects
    session.suggestions.suggest("fake:strict", "b")
    (number,) = [at for at, row in enumerate(session.suggestions.edits.rows) if row.key]
    session.suggestions.try_edit(number)
    assert session.suggestions.edits.rows[number].effects == effects


def test_the_same_question_is_another_draw_and_another_version_starts_afresh(facts):
    facts.suggestions.suggest("fake:strict", "correctness")
    first = facts.suggestions.edits
    facts.suggestions.suggest("fake:strict", "correctness")
    assert (first.draw, facts.suggestions.edits.draw) == (0, 1)
    assert facts.suggestions.edits.rows[0].edit.text != first.rows[0].edit.text
    facts.suggestions.try_edit(0)
    facts.suggestions.suggest("fake:strict", "correctness")
    assert (facts.suggestions.edits.draw, facts.suggestions.edits.base) == (0, facts.runs.current)


def test_what_cannot_be_suggested_or_tried_is_said(facts, tmp_path):
    with pytest.raises(InputError, match="suggestion 1 not found"):
        facts.suggestions.try_edit(0)
    facts.suggestions.suggest("fake:broken", "correctness")
    assert facts.suggestions.edits.rows == ()
    assert facts.suggestions.edits.notes[0].startswith("the reply is not a JSON object")
    with pytest.raises(ConfigError, match="unknown judge provider"):
        facts.suggestions.suggest("nobody:x", "correctness")
    with pytest.raises(InputError, match="run first"):
        start(tmp_path / "other").suggestions.suggest("fake:strict", "correctness")


def test_a_judge_that_is_asked_for_edits_can_be_stopped_and_its_answer_is_kept(facts):
    answer = json.dumps({"edits": []})
    with judge_server(always={"delay": 1.0, "content": answer}) as server:
        helper = ek.Judge("openai", "helper", base_url=server.url)
        stopping = threading.Timer(0.4, facts.runs.stop)
        stopping.start()
        with pytest.raises(JudgeError, match="stopped before the judge replied"):
            facts.suggestions.suggest(helper, "correctness")
        stopping.join()
        assert facts.suggestions.edits.rows == ()
        facts.suggestions.suggest(helper, "correctness")  # the same question: what was under way is there
        assert facts.suggestions.edits.notes == ("the judge suggests no edit",)
        assert len(server.seen) == 1


def test_a_tried_edit_looks_at_held_out_labels_and_the_look_counts(tmp_path, monkeypatch):
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "cache"))
    n = 120
    items = pd.DataFrame({"item_id": [f"i{at:03d}" for at in range(n)], "answer": [f"answer {at}" for at in range(n)]})
    labels = people({f"i{at:03d}": "0" if at % 3 else "2" for at in range(n)})
    ek.record(items, RUBRIC, JUDGES[0], [["2"]] * n)
    session = Session(items, RUBRIC, JUDGES[:1], labels=labels, samples=1, recorded="use", folder=tmp_path)
    session.run()
    session.suggestions.suggest("fake:strict", "c")
    edit = session.suggestions.edits.rows[0].edit
    # after the edit the judge is right on every second of those that it passed wrongly
    ek.record(items, edit.apply(RUBRIC), JUDGES[0], [["0" if at % 3 == 1 else "2"] for at in range(n)])
    assert held_out_looks().empty
    session.suggestions.try_edit(0)
    dev, held = session.suggestions.edits.rows[0].effects
    assert (dev["part"], held["part"]) == ("dev", "held-out")
    split = ek.split_labels(labels)
    for effect, part in ((dev, "dev"), (held, "held-out")):
        at = split.loc[split["part"] == part, "item_id"].str[1:].astype(int)
        fixed = int((at % 3 == 1).sum())
        assert effect["counts"] == f"▲ {fixed} fixed ▼ 0 broke"
        # judged once each: what chance alone changes is not known; every third verdict changed
        assert effect["changed"] == "40 verdicts changed, unlabelled items included · cannot tell change from noise"
        assert effect["coverage"].startswith(f"{len(at)} of {len(at)} labelled items")
        assert effect["effect"].startswith(f"+{fixed / len(at):.2f} [")
    # a try is one look, the same as that of the button
    assert held_out_looks()["n_looks"].sum() == 1
    assert held["coverage"].endswith("; look 1 at these labels")
    assert session.look["words"] == session.look_held_out()
    assert held_out_looks()["n_looks"].sum() == 1
    assert (dev["interval"][:49], held["interval"]) == ("95 % interval of these two versions alone; the se", "")
    assert len(session.suggestions.edits.rows[0].effects[1]["agreement"].split("→")) == 2


@pytest.mark.parametrize(
    "stored",
    [None, 7, {}, {"base": "x"}, {"base": "k", "rows": [{"edit": {}}], "notes": []}, {"base": "k", "rows": 3}],
    ids=["none", "number", "empty", "unknown base", "other edit", "no list"],
)
def test_suggestions_that_were_written_otherwise_are_none(stored):
    assert SuggestedEdits.from_dict(stored, {"k": None}) == SuggestedEdits()


# -- the widget
@pytest.fixture
def tuner(session, tmp_path):
    made = ek.RubricTuner(ITEMS, RUBRIC, JUDGES[:1], people(), samples=1, recorded="use", folder=tmp_path)
    assert made.wait_idle(300)
    return made


def test_a_person_tunes_by_messages(tuner, tmp_path):
    do(tuner, do="run")
    assert tuner.state["page"]["n"] == 4
    assert tuner.state["status"]["running"] is False
    form = form_of(RUBRIC)
    form["criteria"][0]["scale"][1][1] = "nearly so"
    do(tuner, do="form", form=form)
    assert tuner.rubric.edited
    do(tuner, do="run")
    board = tuner.state["figures"]
    assert [version["label"] for version in board["versions"]] == ["v1", EDITED.label]
    assert [version["name"] for version in board["versions"]] == ["v1", "v1.1"]
    assert [tile["moved"] for tile in board["tiles"] if tile["title"] == "Changed"] == [
        "▲ 1 fixed ▼ 0 broke on dev labels"
    ]
    do(tuner, do="query", query={"filter": "wrong", "cell": ["2", "1", ""]})
    assert [row["item_id"] for row in tuner.state["page"]["rows"]] == ["d"]
    do(tuner, do="select", item_id="d")
    assert tuner.state["item"]["labels"] == {"ann": "2"}
    do(tuner, do="annotator", name="eva")
    do(tuner, do="label", item_id="d", label="1")
    assert tuner.state["item"]["labels"] == {"ann": "2", "eva": "1"}
    assert tuner.labels["annotator"].tolist().count("eva") == 1
    do(tuner, do="versions", current=board["against"], against="")
    assert tuner.state["figures"]["current"] == board["against"]
    do(tuner, do="take", key=board["current"])
    assert tuner.rubric.content_hash == EDITED.content_hash
    do(tuner, do="code")
    assert "ek.evaluate(items" in tuner.state["code"]
    do(tuner, do="suggest", judge="fake:strict")
    advice = tuner.state["suggestions"]
    assert advice["rows"][0]["where"] == "c: level 2"
    assert (advice["judge"], advice["of"], board["split"]) == ("fake:strict", "v1", False)
    do(tuner, do="jury", active={"x": "2"}, samples="1", aggregate="median", budget_usd="0.5")
    assert (tuner.session.drafts.aggregate, tuner.session.drafts.budget_usd) == ("median", 0.5)
    assert tuner.state["alert"] == ""


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"do": "label", "item_id": "a", "label": "9"}, "not on the scale"),
        ({"do": "judge", "judge": "nobody:x"}, "unknown judge provider"),
        ({"do": "versions", "current": "none"}, "not found"),
        ({"do": "held_out"}, "run first"),
        ({"do": "jury", "active": {"x": "two"}}, "ValueError"),
        ({"do": "suggest", "judge": "fake:strict"}, "run first"),
        ({"do": "try", "number": 0}, "not found"),
    ],
    ids=["label", "judge", "version", "held-out", "number", "suggest", "try"],
)
def test_what_goes_wrong_is_told_on_screen(tuner, said, message):
    do(tuner, **said)
    assert message in tuner.state["alert"]
    do(tuner, do="dismiss")
    assert tuner.state["alert"] == ""


def test_a_label_is_of_the_criterion_that_was_on_screen(tmp_path):
    fields = RUBRIC.to_dict()
    two = ek.Rubric(
        **fields
        | {"template": "default", "criteria": [one | {"name": name} for one in fields["criteria"] for name in "cd"]}
    )
    tuner = ek.RubricTuner(ITEMS, two, JUDGES[:1], samples=1, folder=tmp_path)
    do(tuner, do="criterion", name="d")
    do(tuner, do="label", item_id="a", criterion="c", label="1")  # said before the other criterion was drawn
    assert tuner.labels[["item_id", "criterion", "label"]].astype(str).to_numpy().tolist() == [["a", "c", "1"]]


def test_a_run_is_of_the_draft_that_was_on_screen(tuner):
    form = form_of(RUBRIC)
    form["criteria"][0]["scale"][1][1] = "nearly so"
    release = threading.Event()
    tuner.session.runs.show = lambda *_: release.wait(300)
    tuner.receive({"do": "versions", "current": ""})  # it takes long
    tuner.receive({"do": "run"})
    tuner.receive({"do": "form", "form": form})
    release.set()
    assert tuner.wait_idle(300)
    assert [version["label"] for version in tuner.state["figures"]["versions"]] == ["v1"]
    assert tuner.rubric.edited


def test_a_double_click_looks_once_at_held_out_labels(tmp_path):
    given = many(tmp_path)
    made = ek.RubricTuner(
        given.items, "correctness", "fake:strict", given.labels.log.table, samples=1, folder=tmp_path / "x"
    )
    do(made, do="run")
    for _ in range(2):
        do(made, do="held_out", seen="")  # what was on screen: no look
    assert made.state["figures"]["held_out"]["looks"] == "look 1"


def test_what_is_typed_while_a_version_is_saved_is_answered(tuner):
    saving, done = threading.Event(), threading.Event()

    class Message(dict):
        def get(self, *args):
            value = super().get(*args)
            if threading.current_thread() is saves:
                saving.set()
                done.wait(0.5)
            return value

    saves = threading.Thread(target=tuner.edit, kwargs={"description": "Is it so, then?"})
    tuner.receive(Message(do="form", form=form_of(RUBRIC), id="view 1"))
    saves.start()
    assert saving.wait(300)
    tuner.receive({"do": "form", "form": form_of(RUBRIC), "id": "view 2"})
    done.set()
    saves.join()
    assert tuner.state["draft"]["answers"] == "view 2"


def test_a_judge_that_fails_is_told_with_what_to_do(tuner):
    tuner.session.setup.options["retries"] = 0
    form = form_of(RUBRIC)
    form["description"] = "not recorded"
    do(tuner, do="form", form=form)
    do(tuner, do="run")
    assert "no judge could be called" in tuner.state["alert"]
    assert tuner.state["status"]["running"] is False


def test_a_fault_in_the_rubric_is_told_as_one_types(tuner):
    form = form_of(RUBRIC)
    form["criteria"][0]["scale"][0][0] = "2"
    do(tuner, do="form", form=form)
    assert "duplicate code" in tuner.state["draft"]["problem"]
    do(tuner, do="run")
    assert "fix the rubric first" in tuner.state["alert"]


def test_stop_after_a_fault_is_not_about_the_next_run(tuner):
    do(tuner, do="try", number=5)  # there is no such suggestion
    do(tuner, do="stop")
    tuner.session.runs.check_stop()  # raises where something is to end
    do(tuner, do="run")
    assert tuner.state["page"]["n"] == 4


@pytest.fixture
def slow(tmp_path):
    """A tuner of 12 items whose only judge takes its time, and the server that answers for it."""
    with judge_server(always={"delay": 0.25}) as server:
        items = [{"item_id": str(at), "answer": f"ITEM-1 {at}"} for at in range(12)]
        judge = ek.Judge("openai", "m", base_url=server.url)
        yield ek.RubricTuner(items, RUBRIC, judge, samples=1, folder=tmp_path, concurrency=1, retries=0), server


def test_run_pressed_twice_is_one_run_and_one_stop_ends_it(slow):
    tuner, server = slow
    for said in ("run", "run", "suggest", "try"):
        tuner.receive({"do": said, "judge": "fake:strict", "number": 0})
    wait_for(lambda: len(server.seen) >= 2)
    do(tuner, do="stop")
    assert tuner.state["status"]["text"].startswith("stopped:")
    n_asked = len(server.seen)
    assert 2 <= n_asked < 12
    do(tuner, do="run")  # pressed anew it goes on
    assert len(server.seen) == 12
    assert tuner.state["status"]["running"] is False


def test_what_is_pressed_as_soon_as_a_run_is_over_is_heard(tuner):
    runs = []

    def press_again(change):
        runs.append(change["new"]["running"])
        if runs == [True, False]:
            tuner.receive({"do": "run"})

    tuner.widget.observe(press_again, "status")
    do(tuner, do="run")
    assert [one for one in runs if one] == [True, True]
    assert runs[-1] is False


def test_a_fault_while_something_runs_leaves_it_running(slow):
    tuner, server = slow
    tuner.receive({"do": "run"})
    wait_for(lambda: server.seen)
    seen = []
    tuner.widget.observe(lambda change: seen.append(change["new"]["running"]), "status")
    tuner.receive({"do": "judge", "judge": "nobody:x"})
    assert "unknown judge provider" in tuner.state["alert"]
    tuner.receive({"do": "stop"})
    assert tuner.wait_idle(300)
    assert seen[-1] is False
    assert seen.index(False) == len([one for one in seen if one])  # it never looked as if nothing ran


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samples": 0}, "samples must be a whole number from 1 to 25, got 0"),
        ({"samples": 100000}, "samples must be a whole number from 1 to 25, got 100000"),
        ({"budget_usd": "-5"}, "budget_usd must be a number ≥ 0, not -5.0"),
        ({"active": {"x": -1}}, "must be 0, or a number from 1e-9 to 1e9, got -1.0"),
    ],
    ids=["none", "huge", "budget", "weight"],
)
def test_a_refused_jury_is_told_until_it_is_mended_and_changes_nothing(tuner, change, message):
    sound = {"active": {"x": 2}, "samples": 1, "aggregate": "mean", "budget_usd": "0.5"}
    do(tuner, do="jury", **sound, id="view 1")
    do(tuner, do="jury", **sound | change, id="view 2")
    assert message in tuner.state["alert"]
    jury = tuner.state["jury"]
    assert jury["answers"] == "view 2"  # the view hears that this is the answer
    assert (jury["samples"], jury["budget_usd"], jury["judges"][0]["weight"]) == (1, 0.5, 2.0)
    do(tuner, do="query", query={})  # what else goes well says nothing of it
    assert message in tuner.state["alert"]
    do(tuner, do="jury", **sound, id="view 3")
    assert tuner.state["alert"] == ""


def test_what_was_given_as_samples_may_be_kept(tmp_path):
    session = start(tmp_path, samples=40)
    session.drafts.set_jury({"x": 2.0}, 40, "mean")
    with pytest.raises(ConfigError, match="from 1 to 40, got 41"):
        session.drafts.set_jury({"x": 2.0}, 41, "mean")


def test_without_a_judge_there_is_no_plan_until_there_is_one(tuner):
    jury = {"samples": 1, "aggregate": "mean", "budget_usd": ""}
    plan = tuner.state["status"]["plan"]
    assert "4 judgments" in plan
    do(tuner, do="jury", active={}, **jury)
    do(tuner, do="run")
    assert "no judge is selected" in tuner.state["alert"]
    assert tuner.state["status"]["plan"] == ""
    do(tuner, do="jury", active={"x": 1}, **jury)
    assert (tuner.state["alert"], tuner.state["status"]["plan"]) == ("", plan)


def test_a_faulty_draft_is_shown_to_another_view_as_it_was_typed(tuner):
    form = form_of(RUBRIC)
    form["criteria"][0]["scale"][0][0] = "2"
    do(tuner, do="form", form=form, id="view 1")
    assert tuner.state["draft"]["typed"] == {"form": form}
    do(tuner, do="yaml", text="- 1", id="view 2")
    assert tuner.state["draft"]["typed"] == {"text": "- 1"}
    tuner.edit("c", scale={1: "nearly so"})
    assert (tuner.state["draft"]["typed"], tuner.state["draft"]["problem"]) == ({}, "")
    do(tuner, do="form", form=form_of(EDITED), id="view 3")
    assert tuner.state["draft"]["typed"] == {}


def test_labels_under_the_old_name_of_a_criterion_are_said(tmp_path):
    tuner = ek.RubricTuner(ITEMS, RUBRIC, "fake:strict", people(), samples=1, folder=tmp_path)
    tuner.run()
    assert tuner.state["figures"]["other_criteria"] == {}
    form = form_of(RUBRIC)
    form["criteria"][0]["name"] = "renamed"
    do(tuner, do="form", form=form)
    do(tuner, do="run")
    assert tuner.state["figures"]["other_criteria"] == {"c": 4}


def test_a_criterion_that_leaves_the_draft_stays_in_sight_until_the_next_run(tmp_path):
    fields = RUBRIC.to_dict()
    two = ek.Rubric(
        **fields
        | {"template": "default", "criteria": [one | {"name": name} for one in fields["criteria"] for name in "cd"]}
    )
    tuner = ek.RubricTuner(ITEMS, two, "fake:strict", samples=1, folder=tmp_path)
    do(tuner, do="run")
    do(tuner, do="criterion", name="d")
    do(tuner, do="select", item_id="a")
    form = form_of(two)
    del form["criteria"][1]
    do(tuner, do="form", form=form)
    do(tuner, do="label", item_id="a", criterion="d", label="1")
    assert (tuner.state["item"]["criterion"], tuner.state["item"]["labels"]) == ("d", {"me": "1"})
    do(tuner, do="run")
    assert (tuner.state["item"]["criterion"], tuner.state["figures"]["criterion"]) == ("c", "c")


@pytest.mark.parametrize("said", [None, "run", {}, {"do": "rm"}, {"do": "query"}], ids=str)
def test_messages_that_nobody_sends_do_no_harm(tuner, said):
    tuner.receive(said)
    assert tuner.wait_idle(300)


def test_progress_is_told_while_it_runs(tuner):
    seen = []
    tuner.widget.observe(lambda change: seen.append(change["new"]), "status")
    progress = SimpleNamespace(done=3, total=9, n_failed=1, cost_usd=0.5, n_unpriced=0, stopped=False)
    tuner.session.run = lambda report, *_: report(progress) or "done"
    do(tuner, do="run")
    shown = next(status for status in seen if status["total"])
    assert shown["text"] == "3 of 9 replies, 1 failed, US$ 0.5000"
    assert (shown["done"], shown["total"], shown["running"]) == (4, 9, True)


def test_alignment_and_tiles_count_the_same_annotators(tmp_path):
    """Two annotators gave 24 labels each, a third one: the third counts in neither, and is in `labels` and `wide`."""
    items, labels = ek.load_example("support")
    tuner = ek.RubricTuner(items, "faithfulness", ["fake:strict", "fake:lenient"], labels, folder=tmp_path)
    tuner.run()
    before = tuner.alignment.iloc[0]
    tuner.label("gym-cora", 0)
    row = tuner.alignment.iloc[0]
    tile = next(tile for tile in tuner.session.tiles() if tile.title == "Agreement with people")
    assert (row["n_annotators"], row["accuracy"]) == (2, before["accuracy"])
    assert tile.value == figure(row["accuracy"], row["accuracy_low"], row["accuracy_high"])
    assert "without me" in tile.note
    assert "me" in set(tuner.labels["annotator"])
    assert "faithfulness_me" in tuner.wide().columns


def test_what_an_exported_table_says_of_its_rows_is_true(tmp_path):
    """Ten of 24 rows are shown; how many of the 24 need eyes is counted by hand from the rows."""
    items, labels = ek.load_example("support")
    tuner = ek.RubricTuner(items, "faithfulness", "fake:strict", labels, folder=tmp_path)
    tuner.run()
    n_wrong = sum(row.wrong is True for row in tuner.session.rows())
    assert 0 < n_wrong < 24
    n_more = sum(row.wrong is not True and row.status != "ok" for row in tuner.session.rows())
    assert f"the first 10 of 24 items; {n_wrong + n_more} need review (" in tuner._repr_html_()


def test_what_is_exported_is_html_without_script_and_escaped(tuner):
    tuner.run()
    data, _ = tuner._repr_mimebundle_()
    page = data["text/html"]
    assert "Agreement with people" in page
    assert "&lt;b&gt;third" in page
    assert "<b>third" not in page
    assert "<script" not in page
    assert "application/vnd.jupyter.widget-view+json" in data
    assert "Agreement with people" in data["text/plain"]


def test_the_same_by_call(tuner, tmp_path):
    tuner.run()
    tuner.edit("c", scale={1: "nearly so"})
    tuner.run()
    assert tuner.state["figures"]["diff"] == [{"where": "c: level 1", "words": [("same", "nearly"), ("new", "so")]}]
    tuner.label("d", 1)
    assert len(tuner.versions) == 2
    assert len(tuner.judgments) == len(tuner.scores) == 4
    assert tuner.plan().n_items == 4
    assert tuner.alignment.iloc[0]["n_labelled"] == 4
    assert "c_ann" in tuner.wide().columns
    with pytest.raises(AttributeError, match="no attribute"):
        tuner.nothing  # noqa: B018
    with pytest.raises(RubricError):
        tuner.edit("c", scale={2: None, 1: None})


def test_without_the_extra_the_message_names_it(monkeypatch, tmp_path):
    monkeypatch.delitem(sys.modules, "evalkit.notebook.anywidgets", raising=False)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[notebook\]'"):
        ek.RubricTuner(ITEMS, RUBRIC, JUDGES[:1], folder=tmp_path)


# -- small parts
def test_the_worker_does_the_newest_of_a_name_and_ends():
    worker, go, done = Worker(), threading.Event(), []
    worker.do("first", lambda: go.wait(300))
    for at in range(5):
        worker.do("plan", lambda at=at: done.append(at))
    go.set()
    assert worker.wait(300)
    assert done == [4]
    for thread in [one for one in threading.enumerate() if one.name == "evalkit-widget"]:
        thread.join(300)  # it has said that it ends, and may need a moment
        assert not thread.is_alive()


def test_pages_are_cut_and_counted():
    rows = [Row(f"{at:03d}", "", {}, False, "1", True, "ok", (), None, "", None, None) for at in range(53)]
    page = page_of(rows, Query(sort="item", down=False, page=2), 25)
    assert ([row.item_id for row in page.rows], page.n_pages, page.n) == (["050", "051", "052"], 3, 53)
    assert page.counts["all"] == page.counts["unlabelled"] == 53
    assert set(page.counts) == set(FILTERS)
    assert page_of([], Query()).n_pages == 1


# -- any judgments table
def test_judgments_of_anybody_can_be_browsed(tmp_path):
    items, _ = ek.load_example("support")
    judgments = ek.judge(items, "faithfulness", ["fake:strict", "fake:broken"], samples=2)
    browser = ek.notebook.JudgmentBrowser(judgments.sample(frac=1, random_state=1), items)
    assert {row.item_id for row in browser.rows} == set(items["item_id"])
    assert [tile["title"] for tile in browser.state["figures"]["tiles"]] == [
        "Judges disagree", "Pass rate", "Scored", "Cost of this run",
    ]  # fmt: skip
    assert "(fake:broken)" in browser.state["notices"][0]["text"]  # a few of its replies: no alarm
    assert browser.state["alert"] == ""
    browser.receive({"do": "query", "query": {"filter": "split"}})
    split = {row["item_id"] for row in browser.state["page"]["rows"]}
    apart = ek.disagreement(ek.vote(judgments))
    assert split == set(apart.loc[apart["split"].fillna(value=False), "item_id"])
    assert browser.state["figures"]["tiles"][0]["value"] == f"{len(split)} of {apart['split'].count()}"
    browser.receive({"do": "select", "item_id": "gym-cora"})
    item = browser.state["item"]
    assert [judge["judge"] for judge in item["judges"]] == ["fake:strict", "fake:broken"]
    assert len(item["judges"][0]["samples"]) == 2
    assert item["prompt"] == ""
    browser.receive({"do": "select", "item_id": "nobody"})
    assert browser.state["item"] == {}
    browser.receive({"do": "query", "query": {"filter": "nothing"}})
    assert "KeyError" in browser.state["alert"]
    browser.receive({"do": "dismiss"})
    assert browser.state["alert"] == ""
    assert "gym-cora" in browser._repr_html_()
    assert "text/html" in browser._repr_mimebundle_()[0]


def test_what_cannot_be_browsed_is_refused():
    items, _ = ek.load_example("support")
    judgments = ek.judge(items, "faithfulness", "fake:strict", samples=1)
    assert len(ek.notebook.JudgmentBrowser(judgments).rows) == 24
    assert len(ek.notebook.JudgmentBrowser(judgments.head(1), items).rows) == 1
    with pytest.raises(InputError, match=r"were judged, but are not among the items"):
        ek.notebook.JudgmentBrowser(judgments, items.head(3))
    with pytest.raises(InputError, match="one version"):
        ek.notebook.JudgmentBrowser(judgments.head(0))


def test_a_browser_shows_only_filters_that_have_rows():
    items, _ = ek.load_example("support")
    two = ek.judge(items, "faithfulness", ["fake:strict", "fake:broken"], samples=2)
    page = ek.notebook.JudgmentBrowser(two, items).state["page"]
    assert (page["judged_inputs"], page["annotators"], page["start"]) == (["answer"], [], 0)
    assert page["filters"] == ["all", "unscored"]  # half of the replies unread: means differ, verdicts do not
    jury = ek.judge(items, "faithfulness", ["fake:strict", "fake:lenient"], samples=1)
    assert ek.notebook.JudgmentBrowser(jury, items).state["page"]["filters"] == ["all", "split", "tied"]
    # one judge cannot disagree, one that answers everything leaves nothing unscored, and ids alone have no text
    page = ek.notebook.JudgmentBrowser(two[(two["judge"] == "fake:strict") & (two["sample"] == 0)]).state["page"]
    assert page["inputs"] == []
    assert page["filters"] == ["all"]


def test_a_browser_filters_and_sorts_by_a_column_of_the_items():
    rows = [
        {"item_id": str(at), "answer": f"answer {at}", "shots": shots, "system_id": system, "note": f"note {at}"}
        for at, (shots, system) in enumerate([(10, "b"), (9, "a"), (10, "a"), (9, None), (100, "b"), (10, "b")])
    ]
    rubric = ek.Rubric(
        id="r", inputs=["answer"], template="number@v1", criteria=[{"name": "c", "scale": {0: "n", 1: "y"}}]
    )
    browser = ek.notebook.JudgmentBrowser(ek.judge(rows, rubric, "fake:strict", samples=1), rows)

    def shown(**query):
        browser.receive({"do": "query", "query": query})
        assert browser.state["alert"] == ""
        return [row["item_id"] for row in browser.state["page"]["rows"]]

    # numbers by value, not by their digits; a missing value is one of them; columns without repetition are left out
    assert browser.state["page"]["item_columns"] == {"shots": ["9", "10", "100"], "system_id": ["", "a", "b"]}
    assert shown(column=["system_id", "b"], sort="item", down=False) == ["0", "4", "5"]
    assert shown(column=["system_id", ""]) == ["3"]
    assert shown(column=["system_id", "b"], search="answer 4") == ["4"]
    assert browser.state["page"]["counts"]["all"] == 1
    by_shots = shown(column=["shots", None], sort="column", down=True)
    assert (by_shots[0], set(by_shots[1:4]), set(by_shots[4:])) == ("4", {"0", "2", "5"}, {"1", "3"})
    assert shown(column=["shots", None], sort="column", down=False)[-1] == "4"
    assert len(shown(sort="column")) == 6, "without a column the order is that of the items"
    assert browser.state["page"]["query"]["column"] is None


def test_a_browser_shows_replies_of_its_cache_and_keeps_the_item_when_the_criterion_changes(tmp_path):
    items = [{"item_id": "a", "question": "2 + 2?", "answer": "4"}, {"item_id": "b", "question": "3?", "answer": "3"}]
    rubric = ek.Rubric(
        id="r", inputs=["question", "answer"], template="number@v1",
        criteria=[{"name": name, "scale": {0: "n", 1: "y"}} for name in ("first", "second")],
    )  # fmt: skip
    judgments = ek.judge(items, rubric, "fake:strict", samples=2, cache=tmp_path / "cache")
    replies = ek.engine.replies(judgments, cache=tmp_path / "cache")
    for cache, found in ((tmp_path / "cache", True), (tmp_path / "other", False)):
        browser = ek.notebook.JudgmentBrowser(judgments, items, cache=cache)
        browser.receive({"do": "select", "item_id": "b"})
        for name in ("first", "second"):
            browser.receive({"do": "criterion", "name": name})
            item = browser.state["item"]
            assert (item["item_id"], item["criterion"], item["labels"]) == ("b", name, {})
            assert item["inputs"] == [("question", "3?"), ("answer", "3")]
            mine = replies[((judgments["item_id"] == "b") & (judgments["criterion"] == name)).to_numpy()].tolist()
            assert [sample["reply"] for sample in item["judges"][0]["samples"]] == (mine if found else [None, None])
        assert not (tmp_path / "other").exists(), "it writes nothing"


def test_who_labels_a_criterion_first_counts_there_whoever_labelled_another(tmp_path):
    """Labels count where nobody else's do; elsewhere the annotator stays new until somebody counts them."""
    two = RUBRIC.edit(criteria=[RUBRIC.criterion("c"), {"name": "d", "scale": {0: "no", 1: "yes"}, "pass_at": 1}])
    for _ in range(2):  # and so after a restart
        session = Session(ITEMS, two, ["fake:strict"], labels=people(), samples=1, folder=tmp_path, annotator="Bob")
        for item, (label, other) in zip(ITEMS["item_id"], ("01", "10", "02", "12"), strict=True):
            session.labels.label(item, "d", LabelEdit(label, "random"), session.shown_rubric)
            session.labels.label(item, "c", LabelEdit(other, "random"), session.shown_rubric)
        log = session.label_log
        used = log.counted.groupby(["criterion", "annotator"], observed=True).size()
        assert used.to_dict() == {("c", "ann"): 4, ("d", "Bob"): 4}
        assert (log.counts("Bob", "d"), log.counts("Bob", "c"), log.counts("Eve", "d")) == (True, False, False)
        assert (log.not_counted("d"), log.newcomers()) == ("", {"Bob": 4})
    session.labels.count_annotator("Bob", counts=False)
    assert set(session.label_log.counted["criterion"].astype(str)) == {"c"}
    session.labels.count_annotator("Bob", counts=True)
    assert len(session.label_log.counted) == 12


def test_the_tuner_says_what_probabilities_showed_as_the_report_does(tmp_path):
    rubric = ek.Rubric(
        id="kind", inputs=["answer"],
        criteria=[{"name": "kind", "scale": {0: "It is rude.", 1: "It is kind."}, "pass_at": 1}],
    )  # fmt: skip
    items = [{"item_id": f"i{n}", "answer": f"P {0.9 if n % 2 else 0.6} {n}"} for n in range(100)]
    labels = people({f"i{n}": str(n % 2) for n in range(100)}).assign(criterion="kind")

    def stated(prompt):
        share = float(prompt.messages[-1].content.split("P ")[1].split()[0])
        return json.dumps({"type": "predicate", "probability": share})

    judge = ek.Judge.function(stated, name="stated", version="1", template="decision")
    jury = [judge, "fake:strict"]
    options = {"samples": 1, "folder": tmp_path, "cache": tmp_path / "cache", "annotator": "ann"}
    tuner = ek.RubricTuner(items, rubric, jury, labels, **options)
    assert tuner.state["figures"]["pass_prob"] == []
    tuner.run()
    assert tuner.wait_idle(300)
    (line,) = tuner.state["figures"]["pass_prob"]  # chat judges state no P(pass)
    counted = tuner.session.label_log.counted
    report = str(ek.evaluate(items, rubric, jury, labels=counted, cache=tmp_path / "cache", samples=1))
    # people pass the share s that has P of .9, and the others have .6: P is .6 + .3 s in the mean
    share = counted.loc[counted["part"] == "dev", "label"].eq("1").mean()
    gap = f"people pass fewer items than P(pass) says, by {0.6 - 0.7 * share:.2f} of the items; a cut at 0.605"
    assert line.startswith(f"P(pass) of stated: {gap} agrees with people on 1.00 of the items out of fold")
    assert line.removeprefix("P(pass) of stated: ")[:-1] in " ".join(report.split())
    assert counted["part"].eq("held-out").any()
    assert held_out_looks(tmp_path / "cache").empty
    item = counted.loc[(counted["part"] == "dev") & (counted["label"] == "0"), "item_id"].iloc[0]
    tuner.session.label(item, "1")
    assert "on 1.00 of the items out of fold" not in tuner.session.pass_prob_lines()[0]
