"""`start`: guessing what columns are for, the card by its messages, and the code that it prints."""

from __future__ import annotations

import json
import os

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evalkit as ek
from evalkit.errors import ConfigError, InputError, RubricError
from evalkit.notebook.start.column_roles import guess_roles, suggest_rubric
from evalkit.notebook.start.table_columns import Column
from evalkit.notebook.tuner.code_snippets import judge_code
from evalkit.tables import as_frame, split_messages
from evalkit.tables.files import write_frame


def said(role, content):
    return {"role": role, "content": content}


CHATS = pd.DataFrame(
    {
        "ConvUUID": [f"9f-{at}" for at in range(12)],
        "log": [
            [said("system", "Be kind."), said("user", f"May I return order {at}?"), said("assistant", f"Yes, {at}.")]
            for at in range(12)
        ],
        "system_id": ["small", "large"] * 6,
        "lang": ["en", "de", "fr"] * 4,
        "Human Score": [1, 2, 3, 4, 5, 5] * 2,
        "n_turns": [7, 8] * 6,
    }
)
GAPS = pd.DataFrame(
    {
        "nr": [7, 8, 9, 9],
        "question": ["How long is the warranty of the kettle?"] * 4,
        "answer": ["It is two years for the kettle.", None, "It is three years for it.", "That is not known to me."],
        "reference": ["The warranty is two years."] * 4,
        "ana": [2, None, 0, 1],
        "ben": [2, None, 0, 0],
    }
)
PAIRS = pd.DataFrame(
    {
        "question_id": [81, 82, 83, 84],
        "question": ["Name a river in Italy.", "Name a lake.", "Name a hill.", "Name a sea."],
        "model_a": ["x", "y", "x", "y"],
        "answer_a": ["The Po is a river.", "Garda is a lake.", "I do not know any.", "The Baltic Sea."],
        "answer_b": ["I do not know.", "Como is a lake.", "Monte Testaccio.", "A sea."],
        "winner": ["A", "tie", "B", "A"],
    }
)
TABLES = {"chats": CHATS, "gaps": GAPS, "pairs": PAIRS}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def start(table, rubric=None, *judges, **options):
    return ek.start(table, rubric, list(judges) or None, **options)


def guess_columns(table, rubric=None):
    columns = {str(name): Column(str(name), cells) for name, cells in as_frame(table).items()}
    return guess_roles(columns, rubric or suggest_rubric(columns))


# -- proposals by shape
def test_a_chat_log_with_odd_names_and_a_column_of_messages():
    roles = guess_columns(CHATS)
    assert roles.roles == {
        "ConvUUID": "id",
        "log": "messages",
        "system_id": "system",
        "lang": "",
        "Human Score": "label: helpfulness",
        "n_turns": "",
    }


def test_questions_and_answers_with_gaps_and_two_columns_that_may_be_labels():
    roles = guess_columns(GAPS)
    assert roles.inputs == {"question": "question", "answer": "answer", "reference": "reference"}
    assert roles.labels == {}
    assert roles.column("id") is None  # 9 comes twice
    assert (
        "people's labels may be in 'ana', 'ben': use those that hold them as 'label: correctness'" in start(GAPS).notes
    )


def test_pairs_with_a_winner():
    roles = guess_columns(PAIRS)
    assert roles.inputs == {name: name for name in ("question", "answer_a", "answer_b")}
    assert (roles.labels, roles.column("id")) == ({"preference": ["winner"]}, "question_id")
    assert roles.column("system") is None  # model_a is not who wrote the answer to the item


TEXTS = {name: [f"a text of some words {name} {at}" for at in range(40)] for name in ("x", "y", "z", "question")}


@pytest.mark.parametrize(
    ("names", "rubric", "inputs"),
    [
        (["question", "x"], None, {"question": "question", "answer": "x"}),  # one text is left for one input
        (["x", "y"], None, {}),
        (["question", "x", "y"], None, {"question": "question"}),
        (["x"], "coherence", {"answer": "x"}),
        (["x"], "helpfulness", {}),
    ],
)
def test_a_text_is_proposed_where_it_alone_fits(names, rubric, inputs):
    card = start(pd.DataFrame({name: TEXTS[name] for name in names}), rubric)
    assert card.roles.inputs == inputs
    fitting = ", ".join(repr(name) for name in names if name != "question")
    missing = [name for name in card.rubric.required_inputs if name not in inputs]
    lacking = ", ".join(map(repr, missing))
    fact = f"no column is the input {lacking}, which rubric {card.rubric.id!r} needs; choose among {fitting}"
    assert card.problems == [fact][: len(missing)]


def test_the_last_input_follows_when_all_others_are_chosen():
    card = start(pd.DataFrame({name: TEXTS[name] for name in ("x", "y", "z")}), "faithfulness")
    card.receive({"do": "role", "column": "y", "role": "input: answer"})
    assert card.roles.inputs == {"answer": "y"}
    card.receive({"do": "role", "column": "x", "role": "input: question"})
    assert (card.problems, card.roles.inputs) == ([], {"question": "x", "answer": "y", "context": "z"})
    card.receive({"do": "role", "column": "z", "role": ""})  # what is set by hand stays
    assert card.roles.inputs == {"question": "x", "answer": "y"}


def test_two_chats_are_asked_for():
    chat = [said("user", "Name a sea."), said("assistant", "The Baltic Sea.")]
    roles = guess_columns([{"conversation_a": chat, "conversation_b": chat, "winner": "A"}] * 2)
    assert (roles.inputs, roles.column("messages")) == ({}, None)


ON_SCALE = [at % 5 + 1 for at in range(40)]


@pytest.mark.parametrize(
    ("columns", "labelled"),
    [
        ({"x": ON_SCALE}, ["x"]),
        ({"x": ON_SCALE, "y": ON_SCALE}, []),  # a person and a machine, or two people: only the user knows
        ({"x": ON_SCALE, "helpfulness": ON_SCALE}, []),
        ({"x": ON_SCALE, "y": [at % 3 for at in range(40)]}, ["x"]),  # 0 is not on the scale
        ({"x": ON_SCALE, "annotator": [at % 2 + 1 for at in range(40)]}, ["x"]),  # a key of evalkit's own tables
        ({"x": [*ON_SCALE[:-1], 55]}, ["x"]),  # a typing error
        ({"x": [3] * 40}, []),
        ({"x": ["fine", "bad"] * 20}, []),
    ],
)
def test_labels_are_proposed_where_one_column_alone_fits_the_scale(columns, labelled):
    table = pd.DataFrame({"question": TEXTS["question"], "answer": TEXTS["x"]} | columns)
    card = start(table)
    assert card.roles.columns("label: ") == labelled
    unused = [name for name in columns if name not in labelled and name != "annotator" and len({*columns[name]}) > 1]
    assert any(", ".join(map(repr, unused)) in note for note in card.notes) or labelled


def test_labels_of_several_criteria_go_to_the_criterion_of_their_name():
    table = pd.DataFrame({"messages": [[said("user", "x")]] * 4, "resolution": [0, 1, 2, 1], "score": [0, 1, 2, 0]})
    rubric = ek.load_rubric("conversation_quality")
    roles = guess_columns(table, rubric)
    assert (roles.inputs, roles.labels) == ({"conversation": "messages"}, {"resolution": ["resolution"]})


CELLS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(), st.text(max_size=8), st.sampled_from(["a b", "model_a"]),
    st.lists(st.integers(0, 1), max_size=2), st.just([said("user", "hm")]),
    st.dictionaries(st.text(max_size=2), st.none()),
)  # fmt: skip
NAMES = st.one_of(
    st.text(max_size=6),
    st.sampled_from(["id", "item_id", "question", "answer", "score", "messages", "annotator", "group_id", "chosen"]),
)


@st.composite
def tables(draw):
    n_rows = draw(st.integers(0, 5))
    columns = draw(st.lists(NAMES, unique=True, max_size=6))
    cells = {name: draw(st.lists(CELLS, min_size=n_rows, max_size=n_rows)) for name in columns}
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in cells.items()})


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(tables())
def test_guessing_never_fails_and_gives_each_column_one_role(table):
    roles = guess_columns(table)
    assert list(roles.roles) == list(table.columns)
    used = [*roles.inputs.values(), *(name for names in roles.labels.values() for name in names)]
    used += [roles.column(role) for role in ("id", "group", "system", "messages")]
    used = [name for name in used if name is not None]
    assert len(set(used)) == len(used)


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@given(tables(), st.data())
def test_no_table_and_no_choice_is_an_exception_of_the_card(table, data):
    card = start(table)
    for _ in range(3):
        row = data.draw(st.sampled_from(card.state["card"]["columns"] or [None]))
        if row is not None:
            role = data.draw(st.sampled_from(row["choices"]))
            card.receive({"do": "role", "column": row["column"], "role": role})
        assert card.wait_idle()
        assert card.state["alert"] == ""
        assert card.problems or card.state["card"]["code"]
        if not card.problems:
            executed = run_code(card, table)
            pd.testing.assert_frame_equal(executed["items"], card.items)
        str(card)
    if not card.problems and len(table):
        card.tuner()


def run_code(card, table):
    values = {"table": table}
    exec(card.code.rpartition("tuner = ")[0], values)  # what a person would paste
    return values


# -- the code does the same
@pytest.mark.long
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("kind", ["frame", "rows", "jsonl", "parquet"])
def test_the_code_gives_the_same_items_and_the_same_tuner(name, kind, tmp_path):
    table = TABLES[name]
    source = {"frame": table, "rows": table.to_dict("records")}.get(kind)
    if source is None:
        source = write_frame(table, tmp_path / f"{name}.{kind}")
    card = start(source, samples=1)
    assert card.problems == []
    values = {"table": source}
    exec(card.code, values)  # what a person would paste
    tuner, other = card.tuner(), values["tuner"]
    pd.testing.assert_frame_equal(card.items, values["items"])
    pd.testing.assert_frame_equal(tuner.session.items, other.session.items)
    pd.testing.assert_frame_equal(tuner.labels, other.labels)
    assert (tuner.rubric, tuner.session.setup.spec.inputs) == (other.rubric, other.session.setup.spec.inputs)
    assert (tuner.session.folder, tuner.session.name) == (other.session.folder, other.session.name)
    assert str(tuner.plan()) == str(other.plan())


def test_a_csv_file(tmp_path):
    path = write_frame(PAIRS, tmp_path / "pairs.csv")
    card = start(path)
    assert card.labels == {"preference": ["winner"]}
    assert f"ek.tables.read_frame({str(path)!r})" in card.code
    tuner = card.tuner()
    assert (tuner.session.folder, tuner.session.name) == (tmp_path, "pairs-preference")
    assert tuner.labels["label"].tolist() == ["A", "tie", "B", "A"]


def test_empty_cells_of_a_csv_file_are_missing_as_in_a_dataframe(tmp_path):
    path = write_frame(GAPS, tmp_path / "gaps.csv")
    labels = {"ana": "label: correctness", "ben": "label: correctness"}
    cards = [start(path, roles=labels), start(pd.read_csv(path), roles=labels)]
    for card in cards:
        rows = {row["column"]: row["missing"] for row in card.state["card"]["columns"]}
        assert (rows["answer"], rows["question"]) == ("25%", "–")
        assert card.labels == {"correctness": ["ana", "ben"]}
        assert any("1 of 4 items lack a required input" in note for note in card.notes)
        card.wait_idle()
    assert len({card.state["status"]["plan"] for card in cards}) == 1
    values = {}
    exec(cards[0].code, values)  # the printed code reads the same
    pd.testing.assert_frame_equal(values["items"], cards[0].items)


@pytest.mark.long
def test_the_card_names_the_cache_and_a_saved_session(tmp_path):
    path = write_frame(PAIRS, tmp_path / "pairs.csv")
    card = start(path, cache=tmp_path / "replies")
    assert card.state["card"]["cache"] == str(tmp_path / "replies")
    assert not any("saved session" in note for note in card.notes)
    card.tuner().run()
    saved = tmp_path / "pairs-preference.tuner.json"
    assert (
        f"a saved session exists ({saved}); press 'Open the tuner' to continue it with the same roles"
        in start(path).notes
    )


def test_the_card_plans_the_saved_session(tmp_path):
    """Its draft, its jury and its samples; what was judged is in the cache."""
    path, options = write_frame(PAIRS, tmp_path / "pairs.csv"), {"cache": tmp_path / "replies", "samples": 1}

    def plan_of():
        card = start(path, **options)
        card.wait_idle()
        return card.state["status"]["plan"]

    tuner = start(path, **options).tuner()
    before = plan_of()
    assert "0 cached (0%)" in before
    tuner.run()
    assert "(100%), 0 to call" in plan_of()
    tuner.edit(description="Which answer is the better one?")
    assert plan_of() == before  # of another question nothing is cached
    tuner.receive({"do": "undo_edit"})
    assert "(100%), 0 to call" in plan_of()


def test_a_limit_that_cannot_be_kept_is_reported_before_run():
    def plan_of(**options):
        card = start(PAIRS, None, "openai:model-without-a-price", **options)
        card.wait_idle()
        return card.state["status"]["plan"]

    way_out = "pass price=(input, output) to ek.Judge, US$ per million tokens"
    assert plan_of().endswith(f"price unknown: {way_out}")
    assert f"price unknown, so the spending limit cannot be kept: {way_out}, or remove" in plan_of(budget_usd=1.0)


def test_a_table_of_labels_of_its_own_and_a_path_as_option(tmp_path):
    items, labels = ek.load_example("support")
    card = ek.start(items, labels=labels, folder=tmp_path)
    assert (card.rubric.id, card.problems, card.labels) == ("faithfulness", [], {})
    values = {"items": items, "labels": labels}
    exec(card.code, values)  # what a person would paste
    pd.testing.assert_frame_equal(values["tuner"].labels, card.tuner().labels)
    assert len(card.tuner().labels) == len(labels)


def test_a_dataset():
    datasets = pytest.importorskip("datasets")
    card = start(datasets.Dataset.from_pandas(PAIRS))
    assert card.roles.inputs == {name: name for name in ("question", "answer_a", "answer_b")}


def test_chats_become_question_answer_and_what_was_said_before():
    items = start(CHATS).items
    assert items.loc[1, ["item_id", "question", "answer", "system_id"]].tolist() == [
        "9f-1",
        "May I return order 1?",
        "Yes, 1.",
        "large",
    ]
    assert items["conversation"][1] == [said("system", "Be kind.")]
    assert "large" in set(items["system_id"])


def test_messages_are_split_at_the_last_answer():
    chat = [
        said("user", "one"),
        said("assistant", "1"),
        said("user", "two"),
        said("assistant", "2"),
        said("user", "bye"),
    ]
    parts = [said("user", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])]
    table = pd.DataFrame({"log": [chat, json.dumps(chat[:2]), parts, None]})
    made = split_messages(table, "log").to_dict("list")
    assert made["question"] == ["two", "one", "a\nb", None]
    assert made["answer"] == ["2", "1", None, None]
    assert made["conversation"] == [chat[:2], None, None, None]
    assert guess_columns([{"conversations": chat}]).column("messages") == "conversations"
    with pytest.raises(InputError, match="list of messages"):
        split_messages(pd.DataFrame({"log": ["hello"]}), "log")
    with pytest.raises(InputError, match="no column 'chat'"):
        split_messages(table, "chat")


def test_a_table_with_one_row_per_item_and_annotator():
    table = pd.DataFrame(
        {
            "item_id": ["a", "a", "b", "b"],
            "question": ["What is the capital of Italy?"] * 4,
            "answer": ["It is Rome.", "It is Rome.", "It is Bari.", "It is Bari."],
            "annotator": ["ana", "ben", "ana", "ben"],
            "rating": [5, 4, 5, None],
        }
    )
    (problem,) = start(table).problems
    assert problem.startswith(
        "'item_id' has one row per annotator; pass the items once, and the labels as a table: ek."
    )
    card = eval(problem.partition("as a table: ")[2], {"ek": ek, "table": table})
    assert (card.problems, len(card.items)) == ([], 2)
    labels = card.tuner().labels
    assert sorted(labels[["item_id", "annotator", "label"]].itertuples(index=False, name=None)) == [
        ("a", "ana", "5"),
        ("a", "ben", "4"),
        ("b", "ana", "5"),
    ]
    by_code = start(table.rename(columns={"item_id": "task"}).assign(task=["T-1", "T-1", "T-2", "T-2"]))
    assert "'task' has one row per annotator" in by_code.problems[0]
    other = start(table.assign(answer=["It is Rome.", "It is Oslo.", "It is Bari.", "It is Bari."]))
    assert "1 row with the same 'item_id' differ" in other.problems[0]


# -- the card
@pytest.mark.long
def test_nothing_is_judged_before_run_in_the_tuner():
    calls = []

    @ek.Judge.function(name="counting", version="1")
    def judge(prompt):
        calls.append(prompt)
        return '{"explanation": "so", "score": 3}'

    card = ek.start(CHATS, "helpfulness", judge, samples=1)
    str(card)
    tuner = card.tuner()
    assert tuner.wait_idle()
    assert calls == []
    tuner.run()
    assert len(calls) == 12


def test_an_item_with_an_image_lacks_no_input():
    image = "data:image/png;base64," + "A" * 40
    rows = [{"question": "q", "answer": f"a{image * (at == 1)}", "context": "c"} for at in range(4)]
    for gap in (False, True):
        card = start([*rows, *([{"question": "q", "answer": None, "context": "c"}] if gap else [])], "faithfulness")
        lacking = [note for note in card.notes if "a required input" in note]
        assert lacking == (["1 of 5 items lack a required input: they count as unscored (on_missing='skip')"] * gap)


@pytest.mark.long
def test_gaps_are_counted_and_skipped():
    card = start(GAPS)
    assert "1 of 4 items lack a required input: they count as unscored (on_missing='skip')" in card.notes
    assert any("row number" in note for note in card.notes)
    assert "on_missing='skip'" in card.code
    tuner = card.tuner()
    tuner.run()
    assert tuner.scores["score"].isna().tolist() == [False, True, False, False]


def test_the_stand_ins_are_named_as_such():
    assert any("not LLMs" in note for note in start(PAIRS).notes)
    card = start(PAIRS, None, "openai:gpt-4o-mini")
    assert not any("not LLMs" in note for note in card.notes)
    assert card.wait_idle()
    assert "24 to call; about US$" in card.state["status"]["plan"]  # 4 items, 2 orders, 3 samples


def test_print_is_a_table_within_80_columns():
    for table in TABLES.values():
        text = str(start(table))
        assert max(map(len, text.splitlines())) <= 80
    lines = str(start(GAPS)).splitlines()
    assert lines[3].split()[:5] == ["answer", "input:", "answer", "25%", "31"]
    assert any("24 judgments" in line for line in str(start(PAIRS, "preference", "fake:strict")).splitlines())


def test_wrong_mappings_are_named_and_the_tuner_stays_closed():
    card = start(GAPS)
    card.receive({"do": "role", "column": "question", "role": "id"})
    card.receive({"do": "role", "column": "nr", "role": "id"})
    assert "two columns are used as id: 'nr', 'question'" in card.problems
    assert "no column is the input 'question', which rubric 'correctness' needs" in card.problems
    card.receive({"do": "open"})
    assert "two columns are used as id" in card.state["alert"]
    with pytest.raises(InputError, match="two columns are used as id"):
        card.tuner()
    card.receive({"do": "role", "column": "question", "role": "input: question"})
    assert "repeated in column 'nr': '9'" in card.problems[0]
    card.receive({"do": "role", "column": "nr", "role": ""})
    assert card.problems == []


def test_labels_off_the_scale_are_counted():
    card = start(CHATS, "relevancy")
    assert card.labels == {}
    assert any(note.startswith("'system_id'") is False and "'Human Score'" in note for note in card.notes)
    card.receive({"do": "role", "column": "Human Score", "role": "label: relevancy"})
    assert card.problems == [
        (
            "8 of 12 labels in 'Human Score' are not on the scale of 'relevancy' (0, 1, 2): '5' (4), '3' (2), '4' (2); "
            "choose the rubric 'new' or one with this scale ('geval', 'helpfulness'), or replace these labels in the "
            "table by levels of the scale, or by '' for none: table.replace({'Human Score': {5: ''}})"
        )
    ]
    with pytest.raises(InputError, match="not on the scale"):
        card.tuner()
    # what is possible is there: items, inputs and code without these labels
    assert (len(card.items), card.labels) == (12, {})
    assert "# without labels off the scale: 'Human Score'" in card.state["card"]["code"]
    pd.testing.assert_frame_equal(run_code(card, CHATS)["items"], card.items)


def test_the_line_for_a_few_labels_off_the_scale_works(tmp_path):
    marks = ["2", " 2", "1.0", "0", "2.0 ", "1", "0 ", "2", "O", "1 "]  # a letter O among them
    table = pd.DataFrame({"uuid": [f"a{n}" for n in range(10)], "question": ["Is it in stock?"] * 10})
    table["answer"], table["Kim's rating"] = [f"Yes, number {n} ships today." for n in range(10)], marks
    card = start(table, "relevancy", folder=tmp_path)
    assert card.labels == {}  # proposed, and off by one label
    assert '1 of 10 labels in "Kim\'s rating" are not on the scale' in card.problems[0]
    without = eval(card.problems[0].partition("for none: ")[2], {"table": table})
    card = start(without, "relevancy", folder=tmp_path)
    assert (card.problems, card.labels) == ([], {"relevancy": ["Kim's rating"]})
    assert card.tuner().labels["label"].tolist() == ["2", "2", "1", "0", "2", "1", "0", "2", "1"]


def test_shares_of_labels_are_of_those_that_were_given(tmp_path):
    """Cells that are empty texts, as in JSONL, are no labels."""
    n = 100
    table = pd.DataFrame({"question": [f"Is number {at} in stock?" for at in range(n)]})
    table["answer"] = [f"Yes, number {at} ships today." for at in range(n)]
    for marks, is_proposed in ((["2", "0", "1", "7", "8"], False), (["2", "0", "1", "2", "2"] * 3 + ["7"], True)):
        table["Kim's rating"] = marks + [""] * (n - len(marks))
        card = start(table, "relevancy", folder=tmp_path)
        assert bool(card.roles.columns("label: ") or card.problems) == is_proposed
    for marks, rare in ((["fine", "bad", "odd"] * 3, []), (["fine", "bad"] * 6 + ["odd"], ["'odd' (1)"])):
        table["Kim's rating"] = marks + [" "] * (n - len(marks))
        card = start(table, "new", folder=tmp_path)
        assert card.roles.roles["Kim's rating"] == "label: quality"
        assert [note for note in card.notes if note.startswith("few labels say ")] == [
            f"few labels say {one}: each is a level of its own, misspelt or not" for one in rare
        ]


def test_the_id_may_be_an_index_or_named_as_elsewhere():
    table = pd.DataFrame({"nr": ["b7", "a2"], "code": ["x", "y"], "question": ["Is it?"] * 2, "answer": ["yes", "no"]})
    card = start(table.set_index("nr"), "relevancy")
    assert any("the index of the table is the id" in note for note in card.notes)
    assert card.items["item_id"].tolist() == ["b7", "a2"]
    card = start(table.rename(columns={"nr": "item_id"}), "relevancy", item_id="code")
    assert (card.problems, card.items["item_id"].tolist()) == ([], ["x", "y"])
    card = start(table.set_index(["nr", "code"]), "relevancy")
    assert "several levels ('nr', 'code')" in card.problems[0]
    assert "reset_index" in card.problems[0]


def test_two_columns_for_one_input():
    card = start(GAPS, roles={"reference": "input: answer"})
    assert "two columns give the input 'answer': 'answer', 'reference'" in card.problems
    card = start(CHATS, roles={"lang": "input: question"})
    assert "two columns give the input 'question': 'log', 'lang'" in card.problems


def test_a_prompt_for_each_criterion_without_gaps():
    card = start(GAPS.iloc[::-1].iloc[1:], "helpfulness")
    (prompt,) = card.state["card"]["prompts"].values()
    assert "It is three years for it." in prompt
    several = start(CHATS, "conversation_quality").state["card"]["prompts"]
    assert list(several) == list(ek.load_rubric("conversation_quality").names)


def test_another_rubric_another_guess():
    card = start(GAPS)
    card.receive({"do": "rubric", "name": "faithfulness"})
    assert card.roles.roles["reference"] == ""
    fact = "no column is the input 'context', which rubric 'faithfulness' needs"
    assert card.problems == [f"{fact}; choose among 'reference'"]
    card.receive({"do": "rubric", "name": "faithfulnes"})
    assert "faithfulness" in card.problems[-1]
    assert card.rubric.id == "faithfulness"
    card.receive({"do": "rubric", "name": "helpfulness"})
    assert card.problems == []


def test_a_rubric_from_a_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(str(ek.load_rubric("relevancy")))
    card = start(GAPS)
    card.receive({"do": "rubric", "name": str(path)})
    assert card.state["card"]["rubric"] == str(path)
    assert f"rubric = {str(path)!r}" in card.code
    assert card.state["card"]["file"] == str(path)
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(path.read_text().replace("version: v1", "version: '1'"))
    long = "a" * 300 + ".yaml"
    for typed, reason in [
        ("nofile.yaml", "nofile.yaml"),
        (long, "too long"),
        (str(wrong), "version: '1'"),
        ("nothing", "nothing"),
    ]:
        card.receive({"do": "rubric", "name": typed})
        shown = card.state["card"]
        assert (card.state["alert"], shown["file"], shown["rubric"]) == ("", typed, str(path))
        assert reason in shown["problems"][0], "it stands where it was typed"
    card.receive({"do": "rubric", "name": ""})
    assert (card.problems, card.state["card"]["file"]) == ([], str(path))
    card.receive({"do": "rubric", "name": "nothing"})
    card.receive({"do": "rubric", "name": "correctness"})
    assert (card.problems, card.state["card"]["file"]) == ([], "")
    with pytest.raises(RubricError):
        start(GAPS, "nothing")


@pytest.mark.long
def test_a_new_rubric_has_the_chosen_inputs_and_the_scale_of_the_labels():
    table = CHATS[["ConvUUID", "Human Score"]].assign(note=[f"a remark of some words {at}" for at in range(12)])
    card = start(table, "new")
    assert card.rubric.inputs == ("answer",)
    assert card.rubric.criterion("quality").scale.codes == (1, 2, 3, 4, 5)
    card.receive({"do": "role", "column": "note", "role": "input: context"})
    assert card.rubric.inputs == ("context",)
    assert card.problems == ["no column holds what is judged; use one as an input such as 'answer'"]
    with pytest.raises(InputError, match="what is judged"):
        card.tuner()
    card.receive({"do": "role", "column": "note", "role": "input: answer"})
    assert "ek.Rubric(" in card.code
    card.receive({"do": "role", "column": "Human Score", "role": ""})
    assert card.rubric.criterion("quality").scale.codes == (0, 1, 2)
    tuner = card.tuner()
    tuner.run()
    values = {"table": table}
    exec(tuner.code(), values)  # the rubric is in no file, and the code has it nevertheless
    assert values["ev"].rubric == tuner.rubric


def test_another_rubric_keeps_the_roles_set_by_hand():
    roles = {"reference": "input: answer", "answer": "", "question": "group", "nr": "input: question", "ben": ""}
    card = start(GAPS, "helpfulness", roles=roles | {"ana": "label: helpfulness"})
    for name in (
        "correctness",
        "conversation_quality",
        "faithfulness",
        "preference",
        "helpfulness",
        "new",
        "relevancy",
    ):
        card.receive({"do": "rubric", "name": name})
        assert card.roles.roles["question"] == "group"
        assert (card.roles.roles["answer"], card.roles.roles["ben"]) == ("", "")
        if "question" in card.rubric.input_names:
            assert card.roles.roles["nr"] == "input: question"
        if "answer" in card.rubric.input_names:
            assert card.roles.roles["reference"] == "input: answer"
        if len(card.rubric.names) == 1:
            assert card.roles.labels == {card.rubric.names[0]: ["ana"]}
    chat = start(CHATS, roles={"lang": "group"})
    chat.receive({"do": "rubric", "name": "conversation_quality"})
    assert (chat.roles.roles["log"], chat.roles.roles["lang"]) == ("input: conversation", "group")


def test_a_new_rubric_keeps_the_inputs_and_shows_them():
    table = pd.DataFrame(
        {
            "question": ["How long is the warranty?", "Do you deliver?"] * 6,
            "model_output": [f"It is {at} years long." for at in range(12)],
            "stars": [1, 5] * 6,
        }
    )
    changed = start(table, "helpfulness")
    changed.receive({"do": "rubric", "name": "new"})
    for card in (changed, start(table, "new"), start(table, "new", roles={"stars": ""})):
        assert card.roles.inputs == {"question": "question", "answer": "model_output"}
        (prompt,) = card.state["card"]["prompts"].values()
        assert "How long is the warranty?" in prompt
        assert "It is 0 years long." in prompt
    chat = start(CHATS, "new")
    assert (chat.roles.roles["log"], chat.roles.roles["Human Score"]) == ("messages", "label: quality")
    assert chat.rubric.inputs == ("conversation?", "question", "answer")
    assert "May I return order 0?" in chat.state["card"]["prompts"]["quality"]
    assert chat.problems == []


def yes_no(*words):
    texts = [f"It is number {at} of the list." for at in range(len(words))]
    return pd.DataFrame({"question": texts, "answer": texts, "reference": texts, "is_correct": words})


def test_booleans_are_verdicts():
    table = yes_no(True, "False", "true", None, False, "")
    card = start(table, "correctness")
    assert (card.problems, card.labels) == ([], {"correctness": ["is_correct"]})
    executed = {"table": table}
    exec(card.code, executed)  # what a person would paste
    for tuner in (card.tuner(), executed["tuner"]):
        assert tuner.labels["label"].tolist() == ["true", "false", "true", "false"]


def test_other_words_are_counted_without_gaps_and_the_problem_says_what_to_do():
    card = start(yes_no("good", "bad", "", None, "good", ""), "correctness")
    card.receive({"do": "role", "column": "is_correct", "role": "label: correctness"})
    (problem,) = card.problems
    assert problem.startswith(
        "3 of 3 labels in 'is_correct' are not on the scale of 'correctness' (0, 1, 2): 'good' (2)"
    )
    assert "; choose the rubric 'new', or replace these labels in the table by levels of the scale" in problem
    card.receive({"do": "rubric", "name": "new"})
    assert (card.problems, card.labels) == ([], {"quality": ["is_correct"]})
    scale = card.rubric.criterion("quality").scale
    assert (scale.level, scale.codes, scale.has_rule) == ("nominal", ("bad", "good"), False)
    assert card.tuner().labels["label"].tolist() == ["good", "bad", "good"]


def test_a_new_rubric_has_the_words_of_labels_as_levels():
    card = start(yes_no("Yes", "no", "yes", "No"), "new")
    scale = card.rubric.criterion("quality").scale
    assert (scale.level, scale.codes, scale.pass_if) == ("nominal", ("no", "yes"), None)
    assert card.tuner().labels["label"].tolist() == ["yes", "no", "yes", "no"]
    flags = start(yes_no(True, False, True, False), "new")
    assert flags.rubric.criterion("quality").scale.pass_if == ("True",)
    assert flags.problems == []


@pytest.mark.parametrize(
    ("values", "is_id"),
    [
        ([7, 8, 9], True),
        (["C-2000", "C-2001", "C-2002"], True),
        (["2024-01-01", "2024-01-02", "2024-01-03"], False),
        ([0.25, 0.5, 0.75], False),
        (["Oslo", "Bari", "Rome"], False),
        ([7, 8, 8], False),
    ],
)
def test_unique_numbers_and_codes_are_the_id_if_one_column_alone_has_them(values, is_id):
    table = pd.DataFrame({"answer": ["It is so.", "It is not.", "No."], "nr": values})
    assert (guess_columns(table).column("id") == "nr") == is_id
    assert guess_columns(table.assign(item_id=["x", "y", "z"])).column("id") == "item_id"
    again = start(table.assign(code=["A1", "B2", "C3"]), "coherence")
    assert again.roles.column("id") == (None if is_id else "code")
    assert any("several columns may be the id: 'nr', 'code'" in note for note in again.notes) == is_id


SERVER = "http://127.0.0.1:8000/v1"


def stub(model, server=SERVER):
    return ek.Judge("openai", model, base_url=server, api_key_env="STUB_KEY")


def test_a_judge_that_is_typed_stays_on_the_server_of_the_jury():
    card = start(PAIRS, None, stub("stub-a"), stub("stub-b"))
    calls = f"'openai:stub-a', 'openai:stub-b': calls go to {SERVER} (key in STUB_KEY)"
    assert calls in card.notes
    card.receive({"do": "judges", "text": "openai:stub-a, openai:stub-"})  # half typed
    card.receive({"do": "judges", "text": "openai:stub-a, openai:stub-b"})
    assert card.judges == [stub("stub-a"), stub("stub-b")]
    assert calls in card.notes
    card.receive({"do": "judges", "text": "openai:stub-c"})
    assert card.judges == [stub("stub-c")]
    assert f"[ek.Judge('openai', 'stub-c', base_url='{SERVER}', api_key_env='STUB_KEY')]" in card.code


def test_a_judge_that_may_be_on_several_servers_is_a_problem():
    card = start(PAIRS, None, stub("stub-a"), stub("stub-b", "http://127.0.0.1:9000/v1"))
    card.receive({"do": "judges", "text": "openai:stub-a, openai:other"})
    (problem,) = card.problems
    assert problem.startswith(
        "judge openai:other names no server; pass it to start with its base_url: 'http://127.0.0.1:8"
    )
    assert card.state["card"]["judges"] == "openai:stub-a, openai:other"
    with pytest.raises(InputError, match="names no server"):
        card.tuner()
    card.receive({"do": "judges", "text": "openai:stub-a"})
    assert (card.problems, card.judges) == ([], [stub("stub-a")])


def test_judges_by_name():
    card = start(PAIRS, None, "fake:strict")
    card.receive({"do": "judges", "text": "fake:first, openai:gpt-4o-mini"})
    assert [judge.name for judge in card.judges] == ["fake:first", "openai:gpt-4o-mini"]
    card.receive({"do": "judges", "text": "nobody"})
    assert "nobody" in card.problems[-1]
    card.receive({"do": "judges", "text": "fake:strict, fake:strict"})
    assert "are the same" in card.problems[0]
    card.receive({"do": "judges", "text": ""})
    assert [judge.name for judge in card.judges] == ["fake:strict", "fake:lenient"]
    assert (card.problems, card.state["alert"]) == ([], "")


@pytest.mark.long
def test_the_tuner_takes_the_place_of_the_card():
    card = start(PAIRS)
    card.receive({"do": "open"})
    tuner = card.tuner()
    assert tuner.widget is card.widget
    assert card.state["card"] == {}
    card.receive({"do": "role", "column": "winner", "role": ""})  # late: the tuner is open
    assert card.labels == {"preference": ["winner"]}
    tuner.receive({"do": "run"})
    assert tuner.wait_idle()
    assert len(tuner.scores) == 4
    assert (repr(card), card._repr_html_()) == (repr(tuner), tuner._repr_html_())


def test_columns_that_were_not_chosen_are_not_used():
    table = pd.DataFrame(
        {
            "item_id": ["a", "a", "b"],
            "group_id": [1, 2, 3],
            "conversation": ["earlier words of the chat"] * 3,
            "question": ["What is the capital of Italy?"] * 3,
            "answer": ["Rome, of course, it is.", "It is Bari.", "It is Oslo."],
        }
    )
    card = start(table, "helpfulness", roles={"conversation": "", "group_id": "", "item_id": ""})
    assert card.items.columns.tolist() == ["item_id", "question", "answer"]
    assert card.items["item_id"].tolist() == ["0", "1", "2"]
    pd.testing.assert_frame_equal(run_code(card, table)["items"], card.items)


def test_roles_by_argument():
    card = start(GAPS, "helpfulness", roles={"reference": "input: answer", "answer": ""})
    assert card.roles.inputs == {"question": "question", "answer": "reference"}
    with pytest.raises(InputError, match="no column 'x'"):
        start(GAPS, roles={"x": "id"})
    with pytest.raises(ConfigError, match="cannot be 'input: colour'; allowed"):
        start(GAPS, roles={"nr": "input: colour"})


def test_a_tuner_without_a_rubric_names_start():
    with pytest.raises(ConfigError, match=r"ek\.start\(items\)"):
        ek.RubricTuner(GAPS)


def test_the_card_as_html_and_its_texts_are_escaped():
    html = start(
        [{"question": "<b>What is it that you want?</b>", "answer": "<script>x</script> it is so"}]
    )._repr_html_()
    assert "&lt;script&gt;" in html
    assert "<script>" not in html


# -- the code as it stands
ROWS = [
    {
        "uid": f"u{at}",
        "question": f"Is it number {at} in the list?",
        "reply": f"It is number {at}.",
        "rating": at % 5 + 1,
    }
    for at in range(40)
]


def pasted(card, names):
    """The items that the code gives where only these names are known, as in a fresh cell of the same notebook."""
    card.wait_idle()
    assert card.problems == []
    assert card.state["card"]["code"] == card.code
    values = dict(names)
    exec(card.code, values)
    pd.testing.assert_frame_equal(values["items"], card.items)
    pd.testing.assert_frame_equal(values["tuner"].labels, card.tuner().labels)
    return card.code


@pytest.mark.long
def test_the_code_runs_as_it_stands_whatever_the_table_came_from(tmp_path, monkeypatch):
    """A file, a variable of any name and kind, a data set on the hub; what is in no variable is to be put into one."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.chdir(tmp_path)
    frame, listed_rows, dataset = pd.DataFrame(ROWS), list(ROWS), datasets.Dataset.from_list(ROWS)
    names = {"frame": frame, "listed_rows": listed_rows, "dataset": dataset, "pd": pd, "holder": {"deep": frame}}
    holder = names.pop("holder")
    write_frame(frame, tmp_path / "chats.jsonl")
    hub = {"org/chats": dataset, "org/chats-v1.5": dataset}
    monkeypatch.setattr(datasets, "load_dataset", lambda name, *_, **__: hub[name])
    assert "read_frame('chats.jsonl')" in pasted(ek.start("chats.jsonl"), {})
    assert "read_frame(" in pasted(ek.start(tmp_path / "chats.jsonl"), {})
    assert "table = frame\n" in pasted(ek.start(frame), names)
    assert "as_frame(listed_rows)" in pasted(ek.start(listed_rows), names)
    assert "as_frame(dataset)" in pasted(ek.start(dataset), names)
    assert "read_frame('org/chats')" in pasted(ek.start("org/chats"), {})
    assert "read_frame('org/chats-v1.5')" in pasted(ek.start("org/chats-v1.5"), {})
    assert "table = frame\n" in pasted(ek.start(holder["deep"]), names)
    few = [{"uid": "a", "question": "Is it one of them?", "reply": "It is one.", "rating": 2}]
    for make in (lambda: frame.head(20), lambda: pd.DataFrame(listed_rows), lambda: [*few]):
        made = pasted(ek.start(make()), {"table": make()})
        assert made.count("# put the table that was passed to ek.start into the variable table") == 1
    table = frame.copy()
    assert "\ntable = " not in pasted(ek.start(table), {"table": table})
    cell = "import evalkit as ek\ncard = ek.start(some_rows)\n"  # source unknown, as with exec: by the variable
    values = {"some_rows": listed_rows}
    exec(cell, values)
    assert "as_frame(some_rows)" in pasted(values["card"], {"some_rows": listed_rows})
    exec("import evalkit as ek\ncard = ek.start([*some_rows, *some_rows[:0]])\n", values)
    assert "# put the table that was passed to ek.start" in values["card"].code


def test_the_code_of_a_judge_keeps_its_server(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", SERVER)
    for judge in (ek.Judge("openai", "m", base_url=SERVER), ek.Judge("openai", "m")):
        assert judge_code(judge) == f"ek.Judge('openai', 'm', base_url='{SERVER}')"


@pytest.mark.long
def test_judges_are_as_short_in_the_code_as_they_can_be():
    """Only fields that differ from what the others give are written, and the code gives the same judge."""
    for judge, text in (
        (ek.Judge("openai", "gpt-4o-mini"), "'openai:gpt-4o-mini'"),
        (ek.Judge("openai", "gpt-4o-mini", temperature=0.0), "ek.Judge('openai', 'gpt-4o-mini', temperature=0.0)"),
        (stub("m"), f"ek.Judge('openai', 'm', base_url='{SERVER}', api_key_env='STUB_KEY')"),
        (ek.Judge("openai", "m", base_url=SERVER), f"ek.Judge('openai', 'm', base_url='{SERVER}')"),
        (ek.Judge("fake", "strict", weight=2, name="A"), "ek.Judge('fake', 'strict', weight=2, name='A')"),
        (ek.Judge("openai", "m", price=(1, 2), params={"top_p": 0.9}), None),
        (ek.Judge("openai", "m", max_tokens=None, timeout_s=9.0, score="expected", params={"logprobs": True}), None),
    ):
        code = judge_code(judge)
        assert text in (None, code)
        value = eval(code, {"ek": ek})
        assert (ek.Judge.of(value) if isinstance(value, str) else value) == judge
        assert code.count("=") <= 4


# -- words, groups, ids
def answers_of(n: int = 60, **columns: object) -> pd.DataFrame:
    texts = {name: [f"{name} {at} of some words" for at in range(n)] for name in ("question", "answer")}
    return pd.DataFrame(texts | columns)


@pytest.mark.parametrize(
    ("name", "values", "is_group"),
    [
        ("Vorgang", [f"V{at // 2:04d}" for at in range(60)], True),  # codes of one form
        ("client", [f"cust_{at % 20}" for at in range(60)], True),  # not in blocks, of several lengths
        ("trace", [f"{at // 3 * 7919:08x}-{at // 3 * 104729 % 65536:04x}a1" for at in range(60)], True),  # hexadecimal
        ("order no", [10400 + at // 2 for at in range(60)], None),  # numbers in blocks: it asks
        ("order no", [str(10400 + at // 2) for at in range(60)], None),
        ("waited", [101 + at * 37 % 30 for at in range(60)], False),  # numbers, not in blocks
        ("month", [f"2026-{1 + at // 5:02d}" for at in range(60)], False),  # dates
        ("batch", [f"B-{at // 10}" for at in range(60)], False),  # too few
        ("unit", [f"U-{at % 10}" for at in range(600)], False),  # many rows of each
        ("town", [["north", "south", "west", "east"][at % 4] + "bury" * (at % 13) for at in range(60)], False),  # words
        ("annotator", [f"R-{at // 5}" for at in range(60)], False),  # who rated
        ("nr", [f"N-{at}" for at in range(60)], False),  # an id
    ],
)
def test_a_column_of_codes_with_few_rows_each_is_the_group(name, values, is_group):
    card = start(answers_of(len(values), **{name: values}))
    assert (card.roles.column("group") == name) is bool(is_group)
    assert any(f"which items belong together: {name!r}" in note for note in card.notes) is (is_group is None)


@pytest.mark.long
def test_a_new_rubric_is_named_after_the_file(tmp_path):
    for file, name in (
        ("Chats May 2026.csv", "chats-may-2026"), ("support.jsonl", "support"), ("safety.csv", "safety-new"),
        ("чаты.csv", "new"), ("templates.csv", "templates-new"),
    ):  # fmt: skip
        path = tmp_path / file
        write_frame(answers_of(12), path)
        card = start(path, "new")
        assert card.rubric.id == name
        assert card.widget.card["rubric"] == "new"
        card.receive({"do": "role", "column": "question", "role": ""})
        assert card.rubric.id == name
        card.tuner()
        assert (tmp_path / f"{path.stem}-{name}.tuner.json").exists()
        again = start(path)  # continues that session
        assert (again.rubric.id, again.widget.card["rubric"]) == (name, "new")
    assert start(answers_of(12), "new").rubric.id == "new"
    (tmp_path / "old-new.tuner.json").write_text("{}")
    write_frame(answers_of(12), tmp_path / "old.csv")
    assert start(tmp_path / "old.csv", "new").rubric.id == "new"


@pytest.mark.long
def test_all_columns_that_are_kept_can_be_shown_and_searched():
    table = answers_of(
        80, ticket=[f"T-{at // 2:03d}" for at in range(80)], remark=[f"note {at} " * 40 for at in range(80)]
    )
    tuner = start(table.assign(lang=["de", "en"] * 40, same="x"), "relevancy", "fake:strict").tuner()
    tuner.run()
    assert tuner.wait_idle(300)
    columns = tuner.state["page"]["item_columns"]
    assert columns == {"group_id": [], "remark": [], "lang": ["de", "en"]}  # the ticket is the group
    for search, n in (("t-007", 2), ("note 31 note", 1), ("answer 5 of", 1), ("nowhere", 0)):
        tuner.receive({"do": "query", "query": {"search": search}})
        assert tuner.wait_idle(300)
        assert tuner.state["page"]["n"] == n, search
    tuner.receive({"do": "query", "query": {"column": ["group_id", None], "sort": "column", "down": False}})
    assert tuner.wait_idle(300)
    assert [row["item_columns"]["group_id"] for row in tuner.state["page"]["rows"][:3]] == ["T-000", "T-000", "T-001"]


def test_a_group_among_several_columns_is_asked():
    table = pd.DataFrame(ROWS).assign(client=[f"c{at % 15}" for at in range(40)])
    assert guess_columns(table).column("group") == "client"
    both = table.assign(topic=[f"t{at % 11}" for at in range(40)])
    card = start(both)
    assert card.roles.column("group") is None
    (note,) = [note for note in card.notes if "belong together" in note]
    assert "'client', 'topic'" in note
    assert "intervals treat all items as independent" in note
    card.receive({"do": "role", "column": "topic", "role": "group"})
    assert not [note for note in card.notes if "belong together" in note]
    alike = table.assign(document=[f"d{at % 15}" for at in range(40)])  # the same division: nothing to ask
    assert guess_columns(alike).column("group") == "client"
    assert guess_columns(both.assign(group_id=[at % 4 for at in range(40)])).column("group") == "group_id"


def test_a_column_of_ids_that_is_not_used_says_why():
    table = pd.DataFrame(ROWS).drop(columns="uid")
    again = table.assign(item_id=[f"u{at % 39}" for at in range(40)])
    (note,) = [note for note in start(again).notes if "row number is the id" in note]
    assert note.startswith("'item_id' is not used as id: 1 value is in several rows (first: 'u0'); no column")
    gaps = table.assign(item_id=[None, None, *(f"u{at}" for at in range(38))])
    (note,) = [note for note in start(gaps).notes if "row number is the id" in note]
    assert "'item_id' is not used as id: 2 rows have none" in note
    assert not [note for note in start(table.assign(nr=range(40))).notes if "row number" in note]


def test_a_saved_session_brings_its_roles_back_and_names_labels_that_are_missing(tmp_path):
    rows = [
        {
            "ref": f"t{at}",
            "txt": f"answer {at} of the desk",
            "doc": f"policy {at} of the shop",
            "Marta": word,
            "x": at % 3,
        }
        for at, word in enumerate(["true", "false", "", "true"] * 5)
    ]
    table = pd.DataFrame(rows)
    rubric = ek.Rubric(
        id="desk",
        inputs=["answer", "context"],
        criteria=[
            {"name": "right", "scale": {0: "no", 1: "yes"}, "pass_at": 1},
            {"name": "tone", "scale": {0: "bad", 1: "fair", 2: "good"}},
        ],
    )
    by_hand = {
        "txt": "input: answer",
        "doc": "input: context",
        "Marta": "label: right",
        "x": "label: tone",
        "ref": "id",
    }
    options = {"folder": tmp_path, "cache": tmp_path / "cache"}
    card = ek.start(table, rubric, roles={"txt": "input: answer", "doc": "input: context"}, **options)
    # what it says of a column is what it accepts
    assert any("in 'Marta'" in note and "'label: right'" in note for note in card.notes), card.notes
    for column, role in by_hand.items():
        card.receive({"do": "role", "column": column, "role": role})
    assert card.problems == []
    tuner = card.tuner()
    assert len(tuner.labels) == 35

    again = ek.start(table, rubric, **options)  # the same cell after a restart
    assert again.roles.roles == by_hand
    assert again.problems == []
    assert again.notes[0].endswith("press 'Open the tuner' to continue it with the same roles")
    assert len(again.tuner().labels) == 35
    assert again.tuner().state["notices"] == []

    # a role that is chosen goes first; a column that is gone is no error
    chosen = ek.start(table.drop(columns="ref"), rubric, roles={"Marta": "", "x": ""}, **options)
    assert (chosen.roles.roles["Marta"], chosen.roles.roles["doc"]) == ("", "input: context")
    for _ in range(2):  # until the next run
        dropped = ek.start(table, rubric, roles={"Marta": "", "x": ""}, **options).tuner()
        notices = json.dumps(dropped.state["notices"])
        assert "15 labels of Marta for 'right' were in the last session and are missing now" in notices
        assert "20 labels of x for 'tone' were" in notices


def test_the_same_cell_proposes_the_rubric_of_the_last_session(tmp_path):
    path = tmp_path / "desk.csv"
    texts = ["context", "question", "answer"]
    pd.DataFrame([{name: f"{name} {at}" for name in texts} for at in range(4)]).to_csv(path, index=False)
    guessed = ek.start(path).rubric.id
    for chosen, rubric in (("relevancy", "relevancy"), ("new", "desk"), ("coherence", "coherence")):
        assert rubric != guessed
        ek.start(path, chosen).tuner()
        os.utime(tmp_path / f"desk-{rubric}.tuner.json", ns=(2 * 10**18, 2 * 10**18 + len(list(tmp_path.glob("*")))))
        again = ek.start(path)  # after a restart
        assert again.rubric.id == rubric
        assert again.notes[0].startswith("a saved session exists")
    (tmp_path / "desk-gone.tuner.json").write_text("{}")  # of a rubric that is no longer there
    assert ek.start(path).rubric.id == "coherence"
    assert ek.start(path, "relevancy").rubric.id == "relevancy"
    assert ek.start(path, folder=tmp_path / "other").rubric.id == guessed
    mine = tmp_path / "mine.yaml"
    mine.write_text(str(ek.load_rubric("relevancy")).replace("id: relevancy", "id: mine"))
    ek.start(path, str(mine)).tuner()
    os.utime(tmp_path / "desk-mine.tuner.json", ns=(3 * 10**18, 3 * 10**18))
    again = ek.start(path)
    assert (again.rubric.id, again.state["card"]["file"], again.problems) == ("mine", str(mine), [])
    mine.write_text("id: mine\ncriteria: [\n")  # what is wrong with it stands where it was typed
    again = ek.start(path)
    assert (again.rubric.id, again.state["card"]["file"]) == (guessed, str(mine))
    assert "invalid YAML" in again.problems[0]
    again.receive({"do": "rubric", "name": ""})
    assert again.problems == []
    mine.unlink()
    assert ek.start(path).rubric.id == "coherence"


CRITERIA = {
    "list": ["Names a method", {"text": "Invents a source", "points": -2}],
    "mapping": {"a": "Names a method", "b": "Gives a time"},
    "json": '["Names a method", "Gives a time"]',
    "lines": "1. Names a method\n2. Gives a time",
}


@pytest.mark.long
@pytest.mark.parametrize("kind", CRITERIA)
def test_a_column_of_criteria_opens_the_tuner_on_one_row_per_criterion(kind, tmp_path):
    table = [
        {"case": f"q{at}", "question": f"How long for egg {at}?", "answer": "Boil it for six minutes.", "ok": at % 2}
        for at in range(6)
    ]
    cells = [json.loads(json.dumps(CRITERIA[kind]).replace("a method", f"method {at}")) for at in range(6)]
    rows = [row | {"criteria": cell} for row, cell in zip(table, cells, strict=True)]
    card = start(rows, None, "fake:strict", folder=tmp_path)
    assert (card.roles.roles["criteria"], card.roles.roles["ok"], card.rubric.id) == ("criteria", "", "requirement")
    assert (card.problems, len(card.items)) == ([], 12)
    tuner = card.tuner()
    tuner.run()
    assert len(tuner.scores) == 12
    assert card.code == "" or "ek.explode_criteria(items, " in card.code
    # under another name it may be chosen; an answer with numbered lines is no criterion
    card = start([row | {"must": CRITERIA[kind]} for row in table], "requirement", "fake:strict")
    fact = "no column is the input 'requirement', which rubric 'requirement' needs"
    assert card.problems == [f"{fact}; choose among 'must' as 'criteria'"]
    card.receive({"do": "role", "column": "must", "role": "criteria"})
    assert (card.problems, len(card.items)) == ([], 12)
    for same in ({"answer": CRITERIA["lines"]}, {"criteria": "1: bad\n2: fair\n3: good"}):
        assert start([row | same for row in table]).rubric.id != "requirement"


def test_several_criteria_in_one_call_are_planned_and_run_as_such(tmp_path):
    names = ("a", "b", "c")
    rubric = ek.Rubric(id="r", inputs=["answer"], criteria=[{"name": n, "scale": {0: "no", 1: "yes"}} for n in names])
    table = [{"id": f"i{at}", "answer": f"text {at}"} for at in range(5)]
    card = start(table, rubric, "fake:strict", criteria_per_call="all", samples=1, folder=tmp_path)
    assert "criteria_per_call='all'" in card.code
    tuner = card.tuner()
    assert tuner.plan().n_requests == 5
    tuner.run()
    assert (tuner.evaluation.spec.criteria_per_call, len(tuner.judgments)) == ("all", 15)
    assert tuner.judgments["key"].nunique() == 5 or "own_key" in tuner.judgments
    assert "criteria_per_call='all'" in tuner.code()


def test_the_code_names_the_address_also_if_a_variable_has_the_same(monkeypatch):
    url = "http://127.0.0.1:9/v1"
    judge = ek.Judge("openai", "m", base_url=url)
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    for same in (judge, ek.Judge.of("openai:m"), ek.Judge("openai", "m", base_url=url, price=(1.0, 2.0))):
        code = judge_code(same)
        monkeypatch.delenv("OPENAI_BASE_URL")
        assert eval(code, {"ek": ek}) == same
        monkeypatch.setenv("OPENAI_BASE_URL", url)
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert judge_code(ek.Judge.of("openai:m")) == "'openai:m'"


@pytest.mark.parametrize("decisions", [["accept", "reject", "ignore"], ["accept"] * 3])
def test_an_input_with_a_few_values_beside_texts_is_asked_for(decisions):
    # as annotation tools export it: what people decided stands in `answer`
    table = pd.DataFrame({"text": [f"Review {at} of the new phone, at length" for at in range(9)],
                          "answer": decisions * 3})  # fmt: skip
    card = ek.start(table)
    assert [card.roles.roles[name] for name in table] == ["", ""]
    assert "no column is the input 'answer', which rubric 'coherence' needs; choose among 'answer', 'text'" in " ".join(
        str(card).split()
    )
    alone = ek.start(table.rename(columns={"text": "question"}))
    assert alone.roles.roles["answer"] == "input: answer", "no other column can be the answer"
    assert ek.start(table, roles={"answer": "input: answer"}).roles.roles["answer"] == "input: answer"
    one_question = ek.start(table.assign(question="Is it?"), "relevancy", roles={"text": "input: answer"})
    assert one_question.roles.roles["question"] == "input: question", "rows may share a question"
