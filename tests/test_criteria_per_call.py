"""Several criteria per call: groups, keys, gaps in replies, and the division of what was paid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import evalkit as ek
from evalkit.core.formatting import Bill
from evalkit.core.prompts_and_replies import Prompt, Reply
from evalkit.engine.specification import Spec
from evalkit.engine.worklist import Worklist
from evalkit.errors import ConfigError, RubricError
from evalkit.rubrics import Profile
from evalkit.rubrics.parsing.several_criteria import parser_of_group

NAMES = ("clear", "true", "kind")
RUBRIC = ek.Rubric(
    id="several",
    inputs=["answer"],
    criteria=[{"name": name, "scale": {0: "no", 1: "partly", 2: "yes"}} for name in NAMES],
)
ITEMS = [{"item_id": "x", "answer": "first"}, {"item_id": "y", "answer": "second"}]
WHOLE = {"clear": {"explanation": "c", "score": 2}, "true": {"explanation": "t", "score": 0}, "kind": {"score": 1}}


def read(text: str | None, *ends: Any) -> list[Any]:
    """The code, or the reason, of each criterion."""
    parsed = [parser_of_group(RUBRIC.criterion(name).scale, name, NAMES)(text, *ends) for name in NAMES]
    return [one.code if one.error is None else one.error for one in parsed]


@pytest.mark.parametrize(
    ("text", "ends", "expected"),
    [
        (json.dumps(WHOLE), (), [2, 0, 1]),
        (f"Here it is:\n```json\n{json.dumps(WHOLE)}\n```", (), [2, 0, 1]),
        (f"I judged all three. {json.dumps(WHOLE)} Done.", (), [2, 0, 1]),
        (f"<think>clear: 0</think>{json.dumps(WHOLE)}", (), [2, 0, 1]),
        (json.dumps({name: WHOLE[name] for name in ("clear", "kind")}), (), [2, "unreadable", 1]),
        (json.dumps(WHOLE | {"witty": {"score": 2}}), (), [2, 0, 1]),
        (json.dumps(WHOLE | {"true": {"score": "blue"}}), (), [2, "unreadable", 1]),
        (json.dumps(WHOLE | {"true": {"score": 7}}), (), [2, "off_scale", 1]),
        (json.dumps({"clear": 2, "true": 0, "kind": 1}), (), [2, 0, 1]),
        ('{"clear": {"score": 2}, "clear": {"score": 0}, "true": {"score": 0}, "kind": {"score": 1}}', (),
         ["ambiguous", 0, 1]),
        ('{"clear": {"score": 2}, "clear": {"score": 2}, "true": {"score": 0, "score": 2}, "kind": {"score": 1}}', (),
         [2, "ambiguous", 1]),
        ('{"clear": {"score": 2}, "true": {"explanation": "it sta', ("length",), [2, "truncated", "truncated"]),
        ('{"clear": {"score": 2}, "true": 1', ("length",), [2, "truncated", "truncated"]),
        ('{"clear": {"score": 2}, "true": {"explanation": "it sta', ("stop",), ["unreadable"] * 3),
        ("clear: 2, true: 0, kind: 1", (), ["unreadable"] * 3),
        ("", (), ["empty"] * 3),
        (None, ("stop", "I will not."), ["refused"] * 3),
        ("I'm sorry, but I can't help with that.", (), ["refused"] * 3),
        ('[{"score": 1}, {"score": 2}]', (), ["unreadable"] * 3),
        ('{"score": 2}', (), ["unreadable"] * 3),
        (json.dumps({"scores": WHOLE}), (), [2, 0, 1]),
        (json.dumps({"candidate": WHOLE}), (), ["unreadable"] * 3),
        (json.dumps({"Clear": 2, "TRUE ": 0, "kind": 1}), (), [2, 0, 1]),
        (f"A set {{of three}}: {json.dumps(WHOLE)}", (), [2, 0, 1]),
        # an unescaped quotation of the candidate's words in a broken object
        ('{"true": {"explanation": "It says "{"clear": {"score": 2}, "kind": {"score": 2}}" to me", "score": 0}}', (),
         ["unreadable"] * 3),
        ('I judge. {"true": {"explanation": "It says "{"clear": {"score": 2}}" to me", "score": 0}}', (),
         ["unreadable"] * 3),
        ('It says "{"clear": {"score": 2}}". {"true": {"score": 0}, "kind": {"score": 1}}', (), ["unreadable", 0, 1]),
        (json.dumps({"clear": {"explanation": '{"true": {"score": 2}}', "score": 1}}), (),
         [1, "unreadable", "unreadable"]),
        ('{"clear": {"score": 2}}\n{"true": {"score": 0}}\n{"kind": {"score": 1}}', (), [2, 0, 1]),
        ('{"clear": {"score": 2}}\n{"clear": {"score": 0}}', (), ["ambiguous", "unreadable", "unreadable"]),
        ("{" * 100_000, (), ["unreadable"] * 3),
    ],
)  # fmt: skip
def test_each_criterion_is_read_by_itself(text: str | None, ends: tuple[Any, ...], expected: list[Any]) -> None:
    assert read(text, *ends) == expected


def test_null_is_no_number() -> None:
    found = read(json.dumps(WHOLE | {"true": None}))
    assert (found[0], found[2]) == (2, 1)
    assert isinstance(found[1], str)


class Counted:
    """A judge of known truth and price that counts its calls."""

    def __init__(self, leave_out: str = "") -> None:
        self.calls: list[str] = []
        self.leave_out = leave_out

    def __call__(self, prompt: Prompt) -> Reply:
        names = [one.criterion for one in prompt.together] or [prompt.criterion]
        self.calls.append(prompt.criterion)
        whole = {name: WHOLE[name] for name in names if name != self.leave_out}
        text = json.dumps(whole if prompt.together else WHOLE[prompt.criterion])
        return Reply(text, "stop", prompt_tokens=100, completion_tokens=20, cost_usd=0.3)


def judged(judge: Counted, cache: Path, per_call: Any, rubric: ek.Rubric = RUBRIC, **options: Any) -> Any:
    return ek.judge(
        ITEMS, rubric, ek.Judge("function", "truth", ask=judge), samples=1, criteria_per_call=per_call, cache=cache,
        **options,
    )  # fmt: skip


@pytest.mark.parametrize(("per_call", "calls"), [(1, 6), (2, 4), (3, 2), (9, 2), ("all", 2)])
def test_each_reply_is_paid_and_billed_once(tmp_path: Path, per_call: Any, calls: int) -> None:
    judge = Counted()
    first = judged(judge, tmp_path, per_call)
    assert len(judge.calls) == calls
    assert first["score"].tolist() == [2, 0, 1] * 2
    assert Bill.of(first) == Bill(pytest.approx(0.3 * calls), calls, 0)  # US$ .3 for each call
    evaluation = ek.evaluate(
        ITEMS, RUBRIC, ek.Judge("function", "truth", ask=judge), samples=1, criteria_per_call=per_call, cache=tmp_path
    )
    assert (evaluation.cost.n_cached, evaluation.cost.reused_usd) == (calls, pytest.approx(0.3 * calls))
    again = judged(judge, tmp_path, per_call)
    assert len(judge.calls) == calls
    assert again["score"].tolist() == first["score"].tolist()
    assert again["cost_usd"].tolist() == first["cost_usd"].tolist()


def test_an_edit_asks_only_its_group(tmp_path: Path) -> None:
    judge = Counted()
    judged(judge, tmp_path, 2)
    judge.calls.clear()
    judged(judge, tmp_path, 2, RUBRIC.edit("kind", description="Is it kind?"), adopt=True)
    assert judge.calls == ["kind"] * 2
    judge.calls.clear()
    judged(judge, tmp_path, 2, RUBRIC.edit("true", description="Is it true?"), adopt=True)
    assert judge.calls == ["clear, true"] * 2


def test_a_missing_criterion_is_unscored_and_asked_again_with_its_group(tmp_path: Path) -> None:
    judge = Counted(leave_out="true")
    first = judged(judge, tmp_path, "all")
    assert first["error"].eq("unreadable").tolist() == [False, True, False] * 2
    judged(judge, tmp_path, "all")
    assert len(judge.calls) == 2  # an unreadable reply is not asked again by itself
    judge.leave_out = ""
    again = judged(judge, tmp_path, "all", refresh="unscored")
    assert len(judge.calls) == 4
    assert again["score"].tolist() == [2, 0, 1] * 2
    assert Bill.of(again).known_usd == pytest.approx(0.6)


def test_keys_of_one_criterion_per_call_stay() -> None:
    def keys(**options: Any) -> list[bytes]:
        return list(Worklist.of(Spec.of(RUBRIC, "fake:strict", 1, **options), ITEMS).keys())

    single, pairs = keys(), keys(criteria_per_call=2)
    assert keys(criteria_per_call=1) == single
    assert len(set(pairs)) == 4
    assert pairs[2] == single[2]  # the last one is alone in its group
    assert not set(pairs[:2]) & set(single)


def test_a_criterion_with_examples_is_asked_alone(tmp_path: Path) -> None:
    rubric = RUBRIC.edit("true", examples=[{"inputs": {"answer": "z"}, "label": 1}])
    assert Spec.of(rubric, "fake:strict", 1, criteria_per_call="all").groups == ((0, 2), (1,), (0, 2))
    judge = Counted()
    judged(judge, tmp_path, "all", rubric)
    assert sorted(judge.calls) == ["clear, kind", "clear, kind", "true", "true"]


def test_profile_and_plan(tmp_path: Path) -> None:
    profile = Profile(profile="p", judges=["fake:strict"], samples=1, criteria_per_call="all").with_rubric(RUBRIC)
    assert profile.to_dict()["criteria_per_call"] == "all"
    assert ek.plan(ITEMS, profile, cache=tmp_path).n_to_call == 2
    assert ek.plan(ITEMS, profile, criteria_per_call=1, cache=tmp_path).n_to_call == 6
    evaluation = ek.evaluate(ITEMS, profile, cache=tmp_path)
    assert evaluation.spec is not None
    assert evaluation.spec.settings.source("criteria_per_call") == "profile p"


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "most"])
def test_wrong_numbers_are_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="criteria_per_call"):
        ek.plan(ITEMS, RUBRIC, "fake:strict", criteria_per_call=value)


def test_templates_and_judges_that_cannot() -> None:
    with pytest.raises(RubricError, match="shows one criterion per prompt"):
        ek.plan(ITEMS, RUBRIC, "fake:strict", template="tagged@v1", criteria_per_call=2)
    with pytest.raises(ConfigError, match="one verdict per reply"):
        ek.plan(ITEMS, RUBRIC, ek.Judge("fake", "noisy", score="mode"), samples=1, criteria_per_call=2)


def test_names_that_differ_only_in_case_are_told_apart() -> None:
    scale = RUBRIC.criteria[0].scale
    text = '{"Tone": {"score": 2}, "tone": {"score": 0}, "TONE": {"score": 1}}'
    parsed = [parser_of_group(scale, name, ("Tone", "tone"))(text) for name in ("Tone", "tone")]
    assert [one.code for one in parsed] == [2, 0]
