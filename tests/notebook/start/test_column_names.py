"""Names of columns with known truth: ratings of people, scores of machines, facts about ratings."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import product

import pandas as pd
import pytest

from evalkit.notebook import guess_columns
from evalkit.notebook.start.column_names import is_about, is_machine, is_rating, words_of
from evalkit.notebook.start.column_roles import guess_roles, suggest_rubric
from evalkit.notebook.start.table_columns import Column
from evalkit.rubrics import load_rubric

RATINGS = ("rating", "score", "label", "grade", "verdict")
PEOPLE = ("human", "expert", "annotator", "crowd", "user", "customer", "turker", "reviewer", "gold", "student")
FIRST_NAMES = ("Anna", "Ben", "Chiara", "Tom", "Mei", "X", "Dr. Lee", "Olga", "J")
CALLS = ("call", "label", "rating", "verdict", "view", "vote", "opinion", "grade", "decision", "mark")
ROLES = ("reviewer", "rater", "annotator", "labeler", "coder", "grader", "marker")
MACHINES = """
gpt4 gpt-4o gpt_3.5 chatgpt claude llama3 gemini qwen2 mistral llm llm_judge model predicted suggested reward
reward_model rm bleu rougeL bertscore auto ai machine automatic classifier nli deepseek prometheus geval similarity
toxicity weak silver autolabel autorater bot copilot kimi glm ernie bert
"""
ABOUT = (
    "id", "count", "time", "timestamp", "source", "type", "confidence", "std", "variance", "version", "status",
    "comment", "reason", "entropy", "rank", "duration", "date", "agreement", "min", "max", "explanation", "weight",
)  # fmt: skip


def forms(words: str) -> Iterator[str]:
    """A name in the ways that people write names."""
    parts = words.replace(".", "").split("_")
    yield from ("_".join(parts), " ".join(parts), "-".join(parts), ".".join(parts), "_".join(parts).upper())
    yield " ".join(part.capitalize() for part in parts)
    if all(part.isalpha() for part in parts):
        yield parts[0] + "".join(part.capitalize() for part in parts[1:])


def people() -> Iterator[str]:
    for rating in RATINGS:
        yield from forms(rating)
        for who in PEOPLE:
            yield from forms(f"{who}_{rating}")
        yield from (f"{rating}_{at}" for at in (1, 2, "a", "b"))
    for name in FIRST_NAMES:
        yield from (f"{name}'s {call}" for call in CALLS)
        yield from (f"{name}’s {call}" for call in CALLS)
        yield from (f"{rating} ({name})" for rating in RATINGS)
        for role in ROLES:
            yield from (f"2nd {role} ({name})", f"{role} {name}", f"first {role} ({name})", f"{role}_{name}")
    for role in ROLES:
        yield from (f"{role}_{at}" for at in (1, 2, 3, "a", "b"))
        yield from (f"{role}1", f"{role} 2", f"{role.capitalize()} B")
    yield from (
        "is_correct",
        "winner",
        "preference",
        "thumbs_up",
        "quality",
        "ann1",
        "majority_label",
        "gold",
        "judge_1",
        "оценка_эксперта",
    )


def machines() -> Iterator[str]:
    for machine in MACHINES.split():
        for rating in RATINGS:
            yield from forms(f"{machine}_{rating}")
    yield from (
        "quality.suggestion",
        "quality.suggestion.score",
        "label.suggestion",
        "rating-suggestion",
        "judge_score",
        "grader_gpt4_score",
        "coder_model_label",
        "оценка_модели",
    )


def facts() -> Iterator[str]:
    for about in ABOUT:
        for first in (*RATINGS, "annotation", "annotator", "vote"):
            yield from forms(f"{first}_{about}")
    for rating in RATINGS:
        yield from (f"n_{rating}s", f"num_{rating}s", f"total_{rating}s", f"number of {rating}s")
    yield from (
        "annotator",
        "annotator_id",
        "annotator_name",
        "labeler",
        "grader",
        "annotateur",
        "reviewer",
        "worker",
        "labelled_by",
        "rated by",
    )


# Columns as the tools and data sets write them; what of them a person rated.
PUBLISHED = {
    "Argilla": (
        "quality.responses",
        (
            "quality.suggestion quality.suggestion.score quality.suggestion.agent quality.responses.users "
            "quality.responses.status quality-suggestion-metadata _server_id status"
        ),
    ),
    "Label Studio": (
        "sentiment_label",
        (
            "annotation_id annotator lead_time created_at updated_at total_annotations cancelled_annotations "
            "total_predictions completed_by inner_id was_cancelled ground_truth_count comment_count"
        ),
    ),
    "Prodigy": ("", "_annotator_id _session_id _timestamp _input_hash _task_hash _view_id"),
    "MT-Bench": ("winner", "question_id turn model_a model_b gpt4_judgment"),
    "Chatbot Arena": ("winner", "tstamp anony language turn openai_moderation judge_hash"),
    "PRM800K": ("rating", "labeler timestamp generation is_quality_control_question finish_reason"),
    "SummEval": ("expert_score turker_score", "model_id rouge_score bertscore_score"),
    "others": (
        "human_likert_score_1 adjudicated_label annotator_1_label human_annotation score_0 consensus_label my_rating",
        (
            "automated_score weak_label_hint label_notes last_human_rating_turn annotation_role score_ratio f1_score "
            "label_schema upvote_ratio min_harmlessness_score_transcript rater_gender gold_answer human_reference"
        ),
    ),
    "Scale": ("label", "task_id batch completed_at metadata type"),
    "UltraFeedback": ("rating", "fine-grained_score_source principle models custom_system_prompt"),
}


@pytest.mark.parametrize(("names", "truth"), [(people, True), (machines, False), (facts, False)])
def test_what_names_say(names: Callable[[], Iterator[str]], truth: bool) -> None:
    wrong = [name for name in dict.fromkeys(names()) if is_rating(words_of(name)) != truth]
    assert len(list(names())) > 150
    assert not wrong
    for name in machines():
        assert is_machine(words_of(name)), name
    for name in facts():
        assert is_about(words_of(name)), name


def test_names_of_tools_and_published_data() -> None:
    for tool, (ratings, others) in PUBLISHED.items():
        for names, truth in ((ratings, True), (others, False)):
            wrong = [name for name in names.split() if is_rating(words_of(name)) != truth]
            assert not wrong, tool


@pytest.mark.long
def test_only_people_are_proposed_in_tables_with_all_kinds_of_columns() -> None:
    """Tables of people's columns and ten of other kinds, all with values on the scale: people's alone are labels."""
    rng, n = random.Random(5), 30
    rubric = load_rubric("helpfulness")
    all_people, others = [*people()], [*machines(), *facts()]
    texts = {"prompt": [f"question {at} with some words" for at in range(n)], "id": list(range(n))}
    texts["response"] = [f"answer {at} with some words" for at in range(n)]
    for _ in range(120):
        mine = rng.sample(all_people, rng.randint(1, 2))
        names = [*mine, *rng.sample(others, 10)]
        rng.shuffle(names)
        values = {name: [rng.randint(1, 5) for _ in range(n)] for name in names}
        roles = guess_columns(pd.DataFrame(texts | values), rubric)
        labelled = {name for columns in roles.labels.values() for name in columns}
        assert labelled == {*mine}, (mine, names)
        assert roles.inputs == {"question": "prompt", "answer": "response"}


CODES = ("{:03}", "H-{:03}", "BK{}", "#T{}", "2024/{}/x", "req:{}", "ORD-17-{}", "room_{:02}.a")


@pytest.mark.long
def test_codes_of_one_form_name_rows_whatever_the_column_is_called() -> None:
    """Under a name that may hold what was expected, said or asked, codes stay texts."""
    rng = random.Random(31)
    names = ("ref", "reference", "Booking Ref", "case", "ticket", "Key", "source", "Document", "file", "no.")
    for _ in range(120):
        n, code, name = rng.randint(5, 40), rng.choice(CODES[1:]), rng.choice(names)
        texts = {
            "guest_wrote": [f"The room was not what I had booked, number {at}" for at in range(n)],
            "we_replied": [f"We are sorry to hear that, and moved you to {at}" for at in range(n)],
        }
        ids = [code.format(at) for at in rng.sample(range(100, 999), n)]
        columns = list((texts | {name: ids}).items())
        rng.shuffle(columns)
        roles = guess_columns(pd.DataFrame(dict(columns))).roles
        assert roles[name] == "id", (name, ids)
        roles = guess_columns(pd.DataFrame(dict(columns) | {"item_id": range(n)})).roles
        assert (roles[name], roles["item_id"]) == ("", "id"), (name, ids)
        expected = rng.choice(("expected", "gold_answer", "ground_truth"))
        roles = guess_columns(pd.DataFrame(texts | {expected: ids})).roles
        assert roles[expected] == "input: reference"
        twice = pd.DataFrame(
            texts | {name: ids, "annotator": "Ana", "label": ["ok", "not ok"] * (n // 2) + ["ok"] * (n % 2)}
        )
        both = pd.concat([twice, twice.assign(annotator="Ben")])
        roles = guess_columns(both).roles
        assert (roles[name], roles["annotator"]) == ("id", "annotator"), (name, ids)
    answers = ["H2O", "CO2", "NaCl", "C6H12O6", "O3", "NH3"]  # codes of no one form are texts
    frame = pd.DataFrame(
        {"ref": answers, "question": [f"What is the formula of number {at}?" for at in range(6)], "answer": answers}
    )
    assert guess_columns(frame).roles == {
        "ref": "input: reference",
        "question": "input: question",
        "answer": "input: answer",
    }
    for name, given, form in product(("ref", "reference", "expected_answer"), ("answer", "model_answer"), CODES[1:]):
        expected = [form.format(at) for at in range(100, 130)]
        documents = [f"What is the number in document {at * 7}?" for at in range(30)]
        roles = guess_columns(
            pd.DataFrame({"question": documents, given: expected, name: expected[::-1]}), load_rubric("correctness")
        ).roles
        inputs = {"question": "input: question", given: "input: answer", name: "input: reference"}
        assert roles == inputs, form  # what is to be found in a document may be a code, too


@pytest.mark.parametrize(
    "cell",
    [
        "0: bad\n1: ok\n2: good", "1: very poor\n2: poor\n3: fair\n4: good\n5: excellent", "1. Bad\n2. OK\n3. Good",
        '{"1": "bad", "2": "ok", "3": "good"}', {"0": "is wrong in all points", "1": "is right in all points"},
    ],
)  # fmt: skip
def test_a_scale_that_stands_in_each_row_is_no_list_of_criteria(cell: object) -> None:
    table = pd.DataFrame({"question": [f"How {at}?" for at in range(12)], "answer": "It is fine so.", "rubric": "",
                          "human_rating": [1, 2] * 6})  # fmt: skip
    columns = {name: Column(name, table[name]) for name in table} | {"rubric": Column("rubric", [cell] * 12)}
    rubric = suggest_rubric(columns)
    assert (rubric.id, guess_roles(columns, rubric).column("criteria")) == ("helpfulness", None)
    columns["rubric"] = Column("rubric", ["1. Names a method\n2. Gives a time"] * 12)
    assert suggest_rubric(columns).id == "requirement"
