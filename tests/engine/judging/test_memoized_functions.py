"""`ek.memory`: functions that ask judges, by judge's own key; every other call is refused before it asks."""

from __future__ import annotations

import asyncio
import functools
import pickle
import re
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cache_setup import BOTH, opened
from in_threads import in_threads
from small_rubrics import rubric_of

import evalkit as ek
from evalkit.core.prompts_and_replies import Reply
from evalkit.engine.cache import ReplyStore
from evalkit.errors import ConfigError, InputError

ITEM = {"question": "2 + 2?", "answer": "4", "reference": "4"}


@pytest.fixture(params=BOTH)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ReplyStore:
    return opened(request, tmp_path / "cache")


@pytest.fixture
def memory(tmp_path: Path) -> ek.engine.Memory:
    return ek.memory(tmp_path / "cache")


# --- the reply key of judge


@pytest.mark.long
def test_judge_and_functions_find_each_others_replies(store: ReplyStore) -> None:
    memory, asked = ek.memory(store.cache), []
    items, _ = ek.load_example("support")
    judge, rubric = ek.Judge("fake", "strict"), ek.load_rubric("faithfulness")

    @memory.cache
    def ask(judge: Any, prompt: Any, sample: int = 0) -> str:
        asked.append(sample)
        return '{"explanation": "as I see it", "score": 1}'

    @memory.cache
    def by_item(judge, rubric, item, sample=0) -> Reply:
        asked.append(sample)
        return Reply('{"explanation": "as I see it", "score": 1}', cost_usd=0.5)

    ek.judge(items.head(2), rubric, judge, samples=2, cache=store.cache)
    texts = [ask(judge, ek.build_prompt(rubric, items.iloc[number]), sample) for number in (0, 1) for sample in (0, 1)]
    table = ek.engine.replies(ek.judge(items.head(2), rubric, judge, samples=2, cache=store.cache), cache=store.cache)
    assert texts == [*table]
    assert texts == [
        by_item("fake:strict", rubric, items.iloc[number], sample).text for number in (0, 1) for sample in (0, 1)
    ]
    assert asked == []
    # and the other way round: each of the forms, in any order of arguments
    for number, argument in enumerate([items.iloc[2], dict(items.iloc[3])], 2):
        by_item(item=argument, judge=judge, rubric=rubric)
        ask(judge, ek.build_prompt(rubric, items.iloc[number]))
    ask("fake:strict", ek.build_prompt(rubric, items.iloc[4]))
    assert asked == [0, 0, 0]
    rows = ek.judge(items.iloc[2:5], rubric, judge, samples=1, cache=store.cache)
    assert (rows["source"].tolist(), rows["score"].tolist()) == (["cache"] * 3, [1.0] * 3)


@pytest.mark.parametrize("name", ["preference", "conversation_quality", "safety", "faithfulness"])
def test_the_key_is_that_of_judge_for_every_kind_of_rubric(memory: ek.engine.Memory, name: str) -> None:
    rubric = ek.load_rubric(name)
    item = {input_name: f"text of {input_name}" for input_name in rubric.input_names}
    if "conversation" in item:
        item["conversation"] = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    judge = ek.Judge("fake", "lenient")
    ek.judge([item], rubric, judge, samples=1, cache=memory.store.cache)
    ask = memory.cache(lambda judge, prompt: pytest.fail("asked"))
    by_item = memory.cache(lambda judge, rubric, item, criterion: pytest.fail("asked"))
    for criterion in rubric.criteria:
        prompt = ek.build_prompt(rubric, item, criterion.name)
        assert (
            ask(judge, prompt)
            == by_item(judge, rubric, item, criterion)
            == by_item(judge, rubric, item, criterion.name)
        )
        assert ask(judge, pickle.loads(pickle.dumps(prompt))) == ask(judge, prompt)


def test_a_criterion_alone_is_a_rubric_of_one(memory: ek.engine.Memory) -> None:
    criterion = ek.Criterion(name="short", description="Is it short?", scale={0: "no", 1: "yes"})
    rubric = ek.Rubric(id="short", version="v1", inputs=["answer"], criteria=[criterion])
    ask = memory.cache(lambda judge, criterion, item: '{"explanation": "", "score": 1}')
    ask("fake:strict", criterion, {"item_id": "a", "answer": "yes"})
    again = memory.cache(lambda judge, rubric, text: pytest.fail("asked"))
    again("fake:strict", rubric, "yes")  # the text of the only input
    rows = ek.judge([{"answer": "yes"}], rubric, "fake:strict", samples=1, cache=memory.store.cache)
    assert rows["source"].tolist() == ["cache"]


class Client:
    base_url = "https://llm.example.org/v1"


RUBRIC = ek.load_rubric("correctness")
PROMPT = ek.build_prompt(RUBRIC, ITEM)
JUDGE = ek.Judge("fake", "strict")
TWO = rubric_of("two", {0: "no", 1: "yes"}, "short", "polite", version="v1")
OTHER_CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "a text": (lambda text: 0, {"text": "Is 4 right?"}),
    "messages": (lambda messages: 0, {"messages": PROMPT.messages}),
    "a table": (lambda table: 0, {"table": pd.DataFrame([ITEM])}),
    "a row and a text": (lambda row, words: 0, {"row": pd.Series(ITEM), "words": "be brief"}),
    "nothing": (lambda: 0, {}),
    "a text like a judge": (lambda text: 0, {"text": "openai: is that good?"}),
    "a prompt alone": (lambda prompt: 0, {"prompt": PROMPT}),
    "a rubric and an item alone": (lambda rubric, item: 0, {"rubric": RUBRIC, "item": ITEM}),
    "a temperature": (lambda judge, prompt, temperature=0.0: 0, {"judge": JUDGE, "prompt": PROMPT}),
    "a client": (lambda client, judge, prompt: 0, {"client": Client(), "judge": JUDGE, "prompt": PROMPT}),
    "more by name": (lambda judge, prompt, **more: 0, {"judge": JUDGE, "prompt": PROMPT, "tone": "kind"}),
    "two judges": (lambda one, two, prompt: 0, {"one": JUDGE, "two": "fake:lenient", "prompt": PROMPT}),
    "two prompts": (lambda judge, one, two: 0, {"judge": JUDGE, "one": PROMPT, "two": PROMPT}),
    "a prompt and an item": (lambda judge, prompt, item: 0, {"judge": JUDGE, "prompt": PROMPT, "item": ITEM}),
    "a negative sample": (lambda judge, prompt, sample: 0, {"judge": JUDGE, "prompt": PROMPT, "sample": -1}),
    "a sample that is no number": (lambda judge, prompt, sample: 0, {"judge": JUDGE, "prompt": PROMPT, "sample": True}),
    "a changed prompt": (
        lambda judge, prompt: 0,
        {"judge": JUDGE, "prompt": ek.core.Prompt(**{**vars(PROMPT), "messages": PROMPT.messages[1:]})},
    ),
    "a prompt by hand": (
        lambda judge, prompt: 0,
        {
            "judge": JUDGE,
            "prompt": ek.core.Prompt(PROMPT.messages, "number", None, "r", "v1", "c", "t@v1", "ordinal", (), {}),
        },
    ),
    "an item without an input": (
        lambda judge, rubric, item: 0, {"judge": JUDGE, "rubric": RUBRIC, "item": {"question": "2 + 2?"}}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER_CALLS)
@pytest.mark.parametrize("way", ["plain", "async", "check"])
def test_every_other_call_is_refused_before_it_asks(memory: ek.engine.Memory, name: str, way: str) -> None:
    function, arguments = OTHER_CALLS[name]
    asked: list[str] = []

    def ask(*args: Any, **kwargs: Any) -> str:
        asked.append(name)
        return "2"

    async def later(*args: Any, **kwargs: Any) -> str:
        return ask()

    wrapped = functools.wraps(function)(later if way == "async" else ask)
    memoized = memory.cache(wrapped)
    call: Any = {
        "plain": memoized,
        "async": lambda **arguments: asyncio.run(memoized(**arguments)),
        "check": memoized.check_call_in_cache,
    }[way]
    with pytest.raises(InputError, match="nothing was asked") as caught:
        call(**arguments)
    said = str(caught.value)
    assert said.startswith("memory.cache takes calls with a judge and a prompt as ek.build_prompt made it, or with a")
    assert all(f"{argument}: {type(value).__name__}" in said for argument, value in arguments.items())
    assert "nothing was asked; for any other function use joblib.Memory, whose rules differ: an edit" in said
    assert "the globals that it reads do not count" in said
    assert asked == []


def test_a_method_has_one_argument_too_many(memory: ek.engine.Memory) -> None:
    class Asking:
        @memory.cache
        def ask(self, judge, prompt):
            pytest.fail("asked")

        @staticmethod
        @memory.cache
        def alone(judge, prompt):
            return "2"

    with pytest.raises(InputError, match=r"got \(self: Asking, judge: Judge, prompt: Prompt\)"):
        Asking().ask(JUDGE, PROMPT)
    assert Asking().alone(JUDGE, PROMPT) == "2"


def test_what_judge_could_not_ask_is_named(memory: ek.engine.Memory) -> None:
    ask = memory.cache(lambda judge, rubric, item: pytest.fail("asked"))
    with pytest.raises(ek.errors.RubricError, match="short"):
        ask("fake:strict", TWO, {"answer": "yes"})  # which of its criteria
    with pytest.raises(ConfigError, match="needs a model"):
        ask("openai:", RUBRIC, ITEM)


@pytest.mark.parametrize("value", [{"score": 2}, 2, None, ["2"]])
def test_what_is_no_reply_is_an_error_that_has_it(memory: ek.engine.Memory, value: Any) -> None:
    ask = memory.cache(lambda judge, prompt: value)
    with pytest.raises(InputError, match=r"must return a Reply or its text, got .*; nothing was stored") as caught:
        ask(JUDGE, PROMPT)
    assert caught.value.value == value  # type: ignore[attr-defined]
    assert not ask.check_call_in_cache(JUDGE, PROMPT)


def test_a_function_that_says_that_it_returns_no_reply_is_refused_at_once(memory: ek.engine.Memory) -> None:
    def score(judge, prompt) -> dict[str, float]:
        return {}

    def maybe(judge, prompt) -> float | None:
        return None

    for function, kind in ((score, "dict[str,float]"), (maybe, "float")):
        with pytest.raises(InputError, match=re.escape(f"got one that returns {kind}; for any other function use")):
            memory.cache(function)
    for value in (7, int, "text"):
        with pytest.raises(InputError, match=r"memory\.cache takes a function, got"):
            memory.cache(value)

    def text(judge, prompt) -> str | None:
        return "2"

    assert memory.cache(text)(JUDGE, PROMPT) == "2"
    with pytest.raises(ConfigError, match="takes no ignore="):
        memory.cache(text, ignore=["judge"])


def test_texts_stay_texts_and_replies_replies(memory: ek.engine.Memory) -> None:
    def by_reply(judge, prompt) -> ek.core.Reply:
        return Reply("2", cost_usd=0.5, created=1.0)

    functions: dict[type, Any] = {Reply: by_reply, str: lambda judge, prompt: Reply("2", cost_usd=0.5, created=1.0)}
    for kind, function in functions.items():
        judge = ek.Judge("fake", "strict" if kind is str else "lenient")
        ask = memory.cache(function)
        first, second = ask(judge, PROMPT), ask(judge, PROMPT)
        assert isinstance(first, kind)
        assert isinstance(second, kind)
        assert first == second
        assert (first.text, first.cost_usd) == ("2", 0.5)
        assert pickle.loads(pickle.dumps(first)) == first
        shelved = ask.call_and_shelve(judge, PROMPT)
        assert isinstance(shelved.get(), kind)
        assert shelved.get() == first
    other = memory.cache(by_reply)  # the reply is stored once, whatever the functions make of it
    assert other(ek.Judge("fake", "strict"), PROMPT) == Reply("2", cost_usd=0.5, created=1.0)


def test_an_edit_of_the_function_drops_nothing(memory: ek.engine.Memory) -> None:
    asked: list[int] = []

    @memory.cache
    def ask(judge, prompt):
        asked.append(1)
        return "2"

    ask(JUDGE, PROMPT)

    @memory.cache
    def ask(judge, prompt):  # another body under the same name
        asked.append(2)
        return "3"

    assert (ask("fake:strict", PROMPT), ask(prompt=PROMPT, judge=JUDGE), asked) == ("2", "2", [1])
    assert ask.call(JUDGE, PROMPT) == ("3", {})
    assert (ask(JUDGE, PROMPT), asked) == ("3", [1, 2])


def test_threads_and_tasks_pay_once(memory: ek.engine.Memory) -> None:
    asked: list[str] = []

    @memory.cache
    def ask(judge, prompt):
        asked.append("threads")
        return "2"

    assert in_threads(*[lambda: ask(JUDGE, PROMPT)] * 8) == ["2"] * 8
    assert asked == ["threads"]

    class Judging:
        async def __call__(self, judge, prompt, sample):
            asked.append("tasks")
            await asyncio.sleep(0.01)
            return "1"

    async def main() -> list[str]:
        later = memory.cache(Judging())
        return await asyncio.gather(*(later(JUDGE, PROMPT, sample) for sample in (1, 2, 1, 2)))

    assert asyncio.run(main()) == ["1"] * 4
    assert asked == ["threads", "tasks", "tasks"]


@pytest.mark.long
def test_importing_evalkit_loads_no_joblib() -> None:
    import subprocess

    code = "import sys, evalkit; assert 'joblib' not in sys.modules; evalkit.memory; assert 'joblib' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
