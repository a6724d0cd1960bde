"""The fake judge: the same replies everywhere, in every form, and in plausible agreement with people."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Message, Prompt
from evalkit.engine.providers import check_ready, connect
from evalkit.engine.providers.fake import PERSONAS, FakeClient, words
from evalkit.errors import ConfigError

LIBRARY = (
    "The Lindgren library opened in 1987. It holds 40,000 books and is closed on Mondays. "
    "Entry is free for students, others pay 5 euro."
)
STATION = (
    "Станция «Полярная» открыта в 1958 году. На ней работают 12 человек, зимой — четверо. Рейсы ходят раз в месяц."
)
# (context, answer, what a person says: 0 contradicts or invents, 1 mostly supported, 2 fully supported)
LABELLED = [
    (LIBRARY, "It opened in 1987 and holds 40,000 books.", 2),
    (LIBRARY, "The Lindgren library opened in 1987.", 2),
    (LIBRARY, "It opened in 1978 and holds 40,000 books.", 0),
    (LIBRARY, "It opened in 1987 and holds 40,000 books, among them a Gutenberg Bible.", 1),
    (LIBRARY, "The library opened in 1987. It was founded by the poet Karl Svensson.", 0),
    (LIBRARY, "The library is not closed on Mondays.", 0),
    (LIBRARY, "The library is open on Mondays.", 0),
    (LIBRARY, "On Mondays the library is closed; students enter free of charge.", 2),
    (LIBRARY, "Bananas are rich in potassium.", 0),
    (LIBRARY, "Students need not pay for entry.", 2),
    (LIBRARY, "The building dates from 1987 and has about forty thousand volumes.", 2),
    (LIBRARY, "", 0),
    (STATION, "Станция открыта в 1958 году.", 2),
    (STATION, "Станцию открыли в 1985 году.", 0),
    (STATION, "Зимой на станции работают четыре человека.", 2),
    (STATION, "Зимой на станции никто не работает.", 0),
    (STATION, "Рейсы ходят каждый день.", 0),
    (STATION, "На станции трудятся 12 человек, рейсы бывают раз в месяц.", 2),
    (STATION, "Станция принадлежит Норвегии.", 0),
    (STATION, "Двенадцать сотрудников, а директор — Иван Петров.", 1),
]


def prompt_of(
    inputs: dict[str, Any],
    *,
    criterion: str = "faithfulness",
    codes: tuple[Any, ...] = (0, 1, 2),
    level: str = "ordinal",
    form: str = "json",
    schema: dict[str, Any] | None = None,
) -> Prompt:
    return Prompt(
        (Message("user", repr(inputs)),), form, schema, criterion, "v1", criterion, "default@v1", level, codes, inputs
    )


def score(persona: str, prompt: Prompt, sample: int = 0, temperature: float = 1.0) -> Any:
    reply = FakeClient(Judge("fake", persona)).reply(prompt, sample, temperature)
    return json.loads(reply.text or "{}")["score"]


def faithfulness(context: str, answer: str) -> Prompt:
    return prompt_of({"question": "What is known?", "answer": answer, "context": [context]})


@pytest.mark.parametrize(("persona", "least"), [("strict", 0.3), ("lenient", 0.2)])
def test_it_agrees_with_people_more_than_chance_would(persona: str, least: float) -> None:
    given_scores = [score(persona, faithfulness(context, answer)) for context, answer, _ in LABELLED]
    human = [label for *_, label in LABELLED]
    agreed = sum(ours == theirs for ours, theirs in zip(given_scores, human, strict=True)) / len(human)
    # By chance: the sum over labels of the product of both shares, at most the larger share of one label.
    ours, theirs = Counter(given_scores), Counter(human)
    chance = sum(ours[code] * theirs[code] for code in (0, 1, 2)) / len(human) ** 2
    kappa = (agreed - chance) / (1 - chance)
    assert least <= kappa < 1


def test_strict_is_stricter_than_lenient_and_sees_the_same_order() -> None:
    prompts = [faithfulness(context, answer) for context, answer, _ in LABELLED]
    strict, lenient = ([score(persona, prompt) for prompt in prompts] for persona in ("strict", "lenient"))
    assert sum(strict) < sum(lenient)
    assert sum(low > high for low, high in zip(strict, lenient, strict=True)) <= 1


@pytest.mark.parametrize("persona", PERSONAS)
def test_the_same_prompt_and_sample_give_the_same_reply(persona: str) -> None:
    prompt = faithfulness(LIBRARY, "It opened in 1987.")
    first, again = (FakeClient(Judge("fake", persona)).reply(prompt, 3) for _ in range(2))
    assert (first.text, first.finish_reason, first.refusal) == (again.text, again.finish_reason, again.refusal)


@pytest.mark.long
def test_another_process_gives_the_same_reply() -> None:
    """Nothing hangs on the order of sets or on Python's hash seed."""
    script = """if True:
        import json
        from evalkit.engine.providers.fake import FakeClient
        from evalkit.core.judges import Judge
        from evalkit.core.prompts_and_replies import Message, Prompt
        inputs = {"question": "Q?", "answer": "Karl Svensson, Oslo, 1990 and 17 others.", "context": ["It was 1991."]}
        name = "faithfulness"
        prompt = Prompt((Message("user", "x"),), "json", None, name, "v1", name, "t@v1", "ordinal", (0, 1, 2), inputs)
        for persona in ("strict", "noisy"):
            for sample in range(4):
                print(FakeClient(Judge("fake", persona)).reply(prompt, sample).text)
    """
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_samples_differ_now_and_then_and_never_at_temperature_zero() -> None:
    prompts = [faithfulness(context, answer) for context, answer, _ in LABELLED]

    def flips(persona: str, temperature: float) -> int:
        return sum(len({score(persona, prompt, sample, temperature) for sample in range(5)}) > 1 for prompt in prompts)

    assert flips("strict", 0.0) == flips("noisy", 0.0) == 0
    assert 1 <= flips("strict", 1.0) <= len(prompts) // 2
    assert flips("noisy", 1.0) > flips("strict", 1.0)


def test_the_first_answer_is_liked_by_first_alone() -> None:
    pair = {
        "question": "How long do I boil an egg?",
        "answer_a": "Boil an egg for 8 minutes.",
        "answer_b": "Boil an egg for 7 minutes.",
    }
    swapped = pair | {"answer_a": pair["answer_b"], "answer_b": pair["answer_a"]}
    for inputs in (pair, swapped):
        prompt = prompt_of(inputs, criterion="preference", codes=("A", "B", "tie"), level="nominal")
        assert score("first", prompt) == "A"
    good = pair | {"answer_b": "Bananas."}
    for inputs, expected in ((good, "A"), (good | {"answer_a": good["answer_b"], "answer_b": good["answer_a"]}, "B")):
        prompt = prompt_of(inputs, criterion="preference", codes=("A", "B", "tie"), level="nominal")
        assert score("strict", prompt) == expected


def test_verbose_likes_long_answers() -> None:
    more = " It is a place that people like to visit for many reasons, and there is much to say about it." * 6

    def gain(persona: str) -> float:
        total = 0.0
        for year in range(1950, 1990):  # each draw has noise of its own: the mean of 40 tells
            short = f"The library opened in {year} and has books."
            prompts = [
                prompt_of(
                    {"question": "When did the library open?", "answer": text},
                    criterion="relevancy",
                    level="interval",
                    codes=(0, 100),
                )
                for text in (short, short + more)
            ]
            total += score(persona, prompts[1]) - score(persona, prompts[0])
        return total / 40

    assert gain("verbose") > gain("strict") + 10


def test_broken_writes_every_kind_of_malformed_reply() -> None:
    client = FakeClient(Judge("fake", "broken"))
    replies = [
        client.reply(faithfulness(LIBRARY, f"It holds {i} books."), sample) for i in range(20) for sample in range(3)
    ]
    assert any(reply.finish_reason == "length" for reply in replies)
    assert any(reply.refusal for reply in replies)
    assert any(reply.text == "" for reply in replies)
    texts = [reply.text or "" for reply in replies]
    assert any("99" in text for text in texts)  # off the scale 0-2
    assert any("```json" in text and "'" in text for text in texts)  # near-JSON
    assert any("depends" in text for text in texts)


@pytest.mark.parametrize(
    ("form", "pattern"),
    [
        ("tagged", r"\[FEEDBACK\] .+ \[RESULT\] (\d) \[END\]"),
        ("number", r"(\d)"),
        ("label", r"(\d)"),
        (r"regex:Score:\s*(\d)", r"(?s).+Score: (\d)"),
        (r"regex:\[\[(\d)\]\]", r"(?s).+\[\[(\d)\]\]"),
        (r"regex:(?i)final mark is <(?P<score>\d)>\s*$", r"(?s)final mark is <(\d)>"),
        (r"regex:^оценка (\d) из 2", r"(?s).*оценка (\d) из 2"),
    ],
)
def test_replies_are_written_in_the_form_asked_for(form: str, pattern: str) -> None:
    inputs = {"question": "When?", "answer": "The library opened in 1987.", "context": LIBRARY}
    reply = FakeClient(Judge("fake", "strict")).reply(prompt_of(inputs, form=form), 0)
    found = re.search(pattern, reply.text or "")
    assert found[1] == "2"
    if form.startswith("regex:"):
        asked = re.search(form.removeprefix("regex:"), reply.text or "", re.MULTILINE)
        assert asked[1] == "2"


def test_json_replies_keep_to_the_schema() -> None:
    schema = {
        "properties": {
            "explanation": {"type": "string"},
            "label": {"type": "string", "enum": ["unsupported", "partly", "supported"]},
        }
    }
    inputs = {"question": "When?", "answer": "The library opened in 1987.", "context": LIBRARY}
    prompt = prompt_of(inputs, codes=("unsupported", "partly", "supported"), level="nominal", schema=schema)
    reply = json.loads(FakeClient(Judge("fake", "lenient")).reply(prompt, 0).text or "")
    assert list(reply) == ["explanation", "label"]  # the explanation first
    assert reply["label"] == "supported"


@pytest.mark.parametrize(
    "codes",
    [("yes", "no"), ("no", "yes"), ("нет", "да"), ("fail", "pass"), ("incorrect", "partially correct", "correct")],
)
def test_labels_are_ordered_by_what_they_mean(codes: tuple[str, ...]) -> None:
    good = {"yes", "да", "pass", "correct"}
    for answer, expected in (("The library opened in 1987.", True), ("It opened in 2001 in Rome.", False)):
        prompt = prompt_of({"question": "When?", "answer": answer, "context": LIBRARY}, codes=codes, level="nominal")
        assert (score("strict", prompt) in good) is expected


def test_a_high_score_of_hallucination_is_bad() -> None:
    for answer, expected in (("The library opened in 1987.", 0), ("It opened in 2001 in Rome.", 2)):
        prompt = prompt_of({"question": "When?", "answer": answer, "context": LIBRARY}, criterion="hallucination")
        assert score("strict", prompt) == expected


def test_explanations_name_what_was_not_found() -> None:
    reply = FakeClient(Judge("fake", "strict")).reply(faithfulness(LIBRARY, "It opened in 2021."), 0)
    assert json.loads(reply.text or "")["explanation"] == "not in the context: '2021'"


def test_replies_cost_nothing_and_say_who_wrote_them() -> None:
    reply = FakeClient(Judge("fake", "lenient")).reply(faithfulness(LIBRARY, "It opened in 1987."), 0)
    assert (reply.model, reply.cost_usd, reply.latency_s, reply.finish_reason) == ("fake:lenient", 0.0, 0.0, "stop")
    assert (reply.prompt_tokens or 0) > 0
    assert (reply.completion_tokens or 0) > 0


@pytest.mark.parametrize(
    "inputs",
    [
        {},
        {"answer": ""},
        {"answer": "a"},
        {"answer": "12"},
        {"answer": "!!!", "context": ""},
        {"answer": "…", "reference": "—"},
        {"conversation": []},
        {"conversation": [{"role": "user", "content": "Hi"}]},
        {
            "conversation": [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "Hello, how can I help?"},
            ]
        },
        {"answer": {"nested": [1, 2]}, "context": [["a"], None]},
    ],
)
@pytest.mark.parametrize(
    "criterion", ["faithfulness", "correctness", "relevancy", "helpfulness", "safety", "coherence", "tone", "x"]
)
def test_odd_inputs_get_a_verdict_on_the_scale(inputs: dict[str, Any], criterion: str) -> None:
    assert score("strict", prompt_of(inputs, criterion=criterion)) in (0, 1, 2)


@settings(max_examples=30)
@given(answer=st.text(max_size=200), context=st.text(max_size=200), sample=st.integers(0, 9))
def test_any_text_gets_a_verdict_on_the_scale(answer: str, context: str, sample: int) -> None:
    prompt = prompt_of({"question": "?", "answer": answer, "context": context}, level="interval", codes=(1, 5))
    assert 1 <= score("noisy", prompt, sample) <= 5


def test_words_are_compared_without_their_endings() -> None:
    assert words("opened") == words("opening") == words("opens") == {"open"}
    assert words("станция") == words("станцию") == words("станции")
    assert words("40,000 volumes") == words("about 40000 volumes") - words("about")


def test_an_unknown_persona_is_refused_with_the_list() -> None:
    with pytest.raises(ConfigError, match=r"unknown persona 'nice'.*strict, lenient, verbose, first, noisy, broken"):
        connect(Judge("fake", "nice"))
    with pytest.raises(ConfigError, match="unknown persona"):
        check_ready(Judge("fake", "nice"))
