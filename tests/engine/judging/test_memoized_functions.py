"""`ek.memory`: functions that ask judges, by judge's own key or by what they are, get and read."""

from __future__ import annotations

import asyncio
import functools
import itertools
import linecache
import pickle
import random
import sqlite3
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pandas as pd
import pytest
from cache_setup import BOTH, opened, parts, reply

import evalkit as ek
from evalkit.core.prompts_and_replies import Reply
from evalkit.engine.cache import ReplyStore
from evalkit.engine.cache.sync import sync
from evalkit.engine.judging.function_keys import client_address
from evalkit.errors import CacheError, ConfigError, EvalkitWarning, InputError

ITEM = {"question": "2 + 2?", "answer": "4", "reference": "4"}


@pytest.fixture(params=BOTH)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ReplyStore:
    return opened(request, tmp_path / "cache")


@pytest.fixture
def memory(tmp_path: Path) -> ek.engine.Memory:
    return ek.memory(tmp_path / "cache")


_cells = itertools.count()


def cell(source: str, /, **names: Any) -> dict[str, Any]:
    """The names that a notebook has after a cell with this text; the cell's source can be looked up, as in IPython."""
    file = f"<cell {next(_cells)}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    namespace = {"__name__": "__main__", **names}
    exec(compile(source, file, "exec"), namespace)
    return namespace


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
    def by_item(judge, rubric, item, sample=0):
        asked.append(sample)
        return Reply('{"explanation": "as I see it", "score": 1}', cost_usd=0.5)

    ek.judge(items.head(2), rubric, judge, samples=2, cache=store.cache)
    texts = [ask(judge, ek.build_prompt(rubric, items.iloc[number]), sample) for number in (0, 1) for sample in (0, 1)]
    table = ek.engine.replies(ek.judge(items.head(2), rubric, judge, samples=2, cache=store.cache), cache=store.cache)
    assert texts == [*table]
    assert texts == [
        by_item("fake:strict", rubric, items.iloc[number], sample) for number in (0, 1) for sample in (0, 1)
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
    assert store.n_values("test_memoized_functions.test_judge_and_functions_find_each_others_replies.<locals>.ask") <= 1


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


def test_what_is_not_judges_own_is_not_taken_for_it(memory: ek.engine.Memory) -> None:
    judge, rubric = ek.Judge("fake", "strict"), ek.load_rubric("correctness")
    prompt = ek.build_prompt(rubric, ITEM)
    ek.judge([ITEM], rubric, judge, samples=1, cache=memory.store.cache)
    asked: list[object] = []
    ask = memory.cache(lambda judge, prompt, temperature=0.0: asked.append(1) or f"at {temperature}")
    assert [ask(judge, prompt), ask(judge, prompt, 0.5), ask(judge, prompt, temperature=0.5)] == [
        "at 0.0",
        *["at 0.5"] * 2,
    ]
    assert len(asked) == 2
    # a prompt that was changed, one made by hand, and a rubric of several criteria
    other = ek.core.Prompt(**{**vars(prompt), "messages": prompt.messages[1:]})
    by_hand = ek.core.Prompt(prompt.messages, "number", None, "r", "v1", "c", "t@v1", "ordinal", (), {})
    plain = memory.cache(lambda judge, prompt: asked.append(prompt) or "mine")
    assert [plain(judge, other), plain(judge, by_hand), plain(judge, other)] == ["mine"] * 3
    assert asked[2:] == [other, by_hand]
    # of another service than the judge's it is no reply of the judge
    client = Client("https://llm.example.org/v1")
    with_client = memory.cache(lambda client, judge, prompt: asked.append("client") or "mine")
    assert [with_client(client, judge, prompt), with_client(client, judge, prompt)] == ["mine"] * 2
    assert asked[4:] == ["client"]
    there = ek.Judge("openai", "m", base_url="https://llm.example.org/v1")
    assert with_client(client, there, prompt) == "mine"
    assert memory.store.get_many([parts().key]) == {}


def test_functions_that_return_no_reply_have_values_beside_it(memory: ek.engine.Memory) -> None:
    judge, rubric = ek.Judge("fake", "strict"), ek.load_rubric("correctness")
    first, second = (ek.build_prompt(rubric, {**ITEM, "answer": text}) for text in ("4", "5"))
    asked: list[int] = []

    @memory.cache
    def score(judge, prompt):
        asked.append(1)
        return {"score": 2}

    assert (score(judge, first), score(judge, first), len(asked)) == ({"score": 2}, {"score": 2}, 1)
    # it is known by now that it returns no reply, here and in any process, so judge's reply does not stand in for it
    ek.judge([{**ITEM, "answer": "5"}], rubric, judge, samples=1, cache=memory.store.cache)
    again = pickle.loads(pickle.dumps(ek.memory(memory.store.cache))).cache(score.func)
    assert (again(judge, second), len(asked)) == ({"score": 2}, 2)

    @memory.cache
    def typed(judge, prompt) -> float:
        return 0.5

    assert typed(judge, second) == 0.5
    # a refusal has no text: nothing that is paid for is lost, and judge takes it for no reply
    none = memory.cache(lambda judge, prompt: asked.append(1))
    third = ek.build_prompt(rubric, {**ITEM, "answer": "6"})
    assert (none(judge, third), none(judge, third), len(asked)) == (None, None, 3)
    rows = ek.judge([{**ITEM, "answer": "6"}], rubric, judge, samples=1, cache=memory.store.cache)
    assert rows["source"].tolist() == ["live"]


def test_texts_stay_texts_and_replies_replies(memory: ek.engine.Memory) -> None:
    prompt = ek.build_prompt("correctness", ITEM)
    for kind, function in (
        (Reply, lambda judge, prompt: Reply("2", cost_usd=0.5, created=1.0)), (str, lambda judge, prompt: "2")
    ):  # fmt: skip
        judge = ek.Judge("fake", "strict" if kind is str else "lenient")
        ask = memory.cache(function)
        first, second = ask(judge, prompt), ask(judge, prompt)
        assert isinstance(first, kind)
        assert isinstance(second, kind)
        assert first == second
        assert first.text == "2"
        assert first.cost_usd == (None if kind is str else 0.5)
        assert pickle.loads(pickle.dumps(first)) == first
        shelved = ask.call_and_shelve(judge, prompt)
        assert isinstance(shelved.get(), kind)
        assert shelved.get() == first


# --- any other function


FIRST = """
def tidy(text):
    return HELP + text

@memory.cache
def ask(text, n=1, *rest, deep=False, **more):
    asked.append(text)
    for word in [TONE + text for _ in range(1)]:
        return {"text": tidy(word), "jury": [judge.model for judge in JURY]}
"""


@pytest.mark.long
def test_every_part_of_the_key_counts_and_nothing_else(memory: ek.engine.Memory) -> None:
    """Of random pairs of worlds, a call is asked again exactly if something that can change its answer differs."""
    choices: dict[str, list[Any]] = {
        "source": [FIRST, FIRST.replace("range(1)", "range(2)")],
        "decorator": ["@memory.cache", "@memory.cache(verbose=0)", "@memory.cache()"],  # no part of the source
        "helper": ["return HELP + text", "return HELP  + text  # edited"],
        "TONE": ["kind ", "rude "],
        "HELP": ["a ", "b "],
        "JURY": [[ek.Judge("fake", "strict")], [ek.Judge("fake", "lenient")]],
        "name": ["one", "two"],  # of a judge: no part
        "unread": [1, 2],
        "text": [1, 2],  # a name that the function has as parameter only
        "arguments": [(("x",), {}), (("y",), {}), (("x", 1), {"z": [1]}), (("x",), {"deep": True})],
        "spelling": [0, 1],
    }
    neutral = {"decorator", "name", "unread", "text", "spelling"}
    random_ = random.Random(7)
    seen: set[tuple[int, ...]] = set()
    for _ in range(250):
        picked = {name: random_.randrange(len(values)) for name, values in choices.items()}
        one = {name: choices[name][number] for name, number in picked.items()}
        source = one["source"].replace("@memory.cache", one["decorator"]).replace("return HELP + text", one["helper"])
        asked: list[str] = []
        jury = [judge.replace(name=one["name"]) for judge in one["JURY"]]
        names = cell(
            source, memory=memory, asked=asked, **{n: one[n] for n in ("TONE", "HELP", "unread", "text")}, JURY=jury
        )
        args, kwargs = one["arguments"]
        if one["spelling"] and len(args) == 1:
            args, kwargs = (), {"n": 1, **kwargs, "text": args[0]}
        result = names["ask"](*args, **kwargs)
        assert result["jury"] == [judge.model for judge in jury]
        assert result["text"] == one["HELP"] + one["TONE"] + (args[0] if args else kwargs["text"])
        identity = tuple(number for name, number in picked.items() if name not in neutral)
        assert bool(asked) == (identity not in seen), picked
        seen.add(identity)
    assert len(seen) > 60


class Client:
    """A client as people write it: an address, a key, and a count that changes."""

    def __init__(self, base_url: str, api_key: str = "k", model: str = "m") -> None:
        self.base_url, self.api_key, self.model, self.n = base_url, api_key, model, 0
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self.create))

    def create(self, **options: Any) -> str:
        self.n += 1
        return f"{self.base_url} {options}"


def counted(function: Callable[..., Any], asked: list[Any], *args: Any, **kwargs: Any) -> int:
    before = len(asked)
    function(*args, **kwargs)
    return len(asked) - before


def test_a_client_stands_by_its_address(memory: ek.engine.Memory) -> None:
    asked: list[int] = []

    def asking(client: Any) -> Any:
        @memory.cache
        def ask(text):
            asked.append(1)
            return client.chat.completions.create(text=text)

        return ask

    http = "https://llm.example.org/v1"
    for client, n in [
        (Client(http), 1), (Client(http), 0), (Client(http, "another key"), 0), (Client(f"{http}/"), 0),
        (Client("https://ann:secret@llm.example.org/v1?key=1"), 0), (Client(http, model="m2"), 1),
        (Client("http://llm.example.org:8000/v1"), 1),
    ]:  # fmt: skip
        assert counted(asking(client), asked, "x") == n, client.base_url
        assert counted(asking(client), asked, "x") == 0
    by_argument = memory.cache(lambda client, text: asked.append(1) or client.create(text=text))
    assert [counted(by_argument, asked, Client(url), "x") for url in (http, http, "https://b.example.org")] == [1, 0, 1]
    # what only holds values is no client, though it has an address
    settings = [SimpleNamespace(base_url=http, model=model) for model in ("a", "b")]
    assert [client_address(one) for one in (*settings, {"base_url": http}, pd.Series({"base_url": http}))] == [None] * 4
    by_settings = memory.cache(lambda settings: asked.append(1) or settings.model)
    assert [by_settings(one) for one in (*settings, *settings)] == ["a", "b", "a", "b"]


@pytest.mark.long
def test_the_clients_of_libraries_stand_by_their_addresses() -> None:
    openai, anthropic = pytest.importorskip("openai"), pytest.importorskip("anthropic")
    http = "https://llm.example.org/v1"
    assert client_address(MagicMock()) == "MagicMock"
    for kind in (openai.OpenAI, openai.AsyncOpenAI):
        client = kind(api_key="k", base_url=http)
        for one in (client, client.chat.completions, client.with_options(timeout=1)):
            assert client_address(one) == http
    assert client_address(anthropic.AsyncAnthropic(api_key="k")) == "https://api.anthropic.com"
    azure = openai.AzureOpenAI(api_key="k", azure_endpoint="https://me.openai.azure.com", api_version="2024-06-01")
    assert client_address(azure) == "https://me.openai.azure.com/openai"


def test_what_cannot_be_hashed_is_named_before_anything_is_asked(memory: ek.engine.Memory, tmp_path: Path) -> None:
    held: list[tuple[str, Any]] = [
        ("lock", threading.Lock()), ("rows", (number for number in [1])), ("db", sqlite3.connect(":memory:")),
        ("frame", sys._getframe()),
    ]  # fmt: skip
    with (tmp_path / "log").open("w") as file:
        for name, value in [*held, ("file", file)]:
            text = f"def helper():\n    return {name}\n@memory.cache%s\ndef ask(text):\n    helper()\n"
            text += "    asked.append(1)\n    return text\n"
            for source in (text, text.replace("    helper()\n", f"    str({name})\n")):
                asked: list[int] = []
                names = cell(source % "", memory=memory, asked=asked, **{name: value})
                with pytest.raises(
                    InputError, match=rf"__main__\.ask: '{name}', which it reads.*cannot be hashed.*nothing was asked"
                ):
                    names["ask"]("x")
                assert asked == []
                names = cell(source % f"(ignore=[{name!r}])", memory=memory, asked=asked, **{name: value})
                assert [names["ask"]("x") for _ in range(2)] == ["x", "x"]
            ask = memory.cache(lambda value: "x")
            with pytest.raises(InputError, match=r"the argument 'value' .* cannot be hashed"):
                ask(value)
    with pytest.raises(InputError, match=r"cannot ignore 'wrong': .* neither takes nor reads it; it takes 'text'"):
        memory.cache(lambda text: text, ignore=["wrong"])("x")
    with pytest.raises(InputError, match=r"ignore= is a list of names, got the text 'text'; pass \['text'\]"):
        memory.cache(lambda text: text, ignore="text")
    with pytest.raises(InputError, match="takes a function, got type"):
        memory.cache(Client)
    with pytest.raises(ConfigError, match="takes no mmap_mode"):
        memory.cache(lambda text: text, mmap_mode="r")


def test_values_are_json_and_come_back_as_they_were(memory: ek.engine.Memory) -> None:
    asked: list[int] = []
    fine: list[tuple[Any, Any]] = [
        (value, value) for value in (None, True, 0, 10**40, -0.5, "", "\ud800 \0 ü", [], {}, [{"a": [None, 1.5]}])
    ]
    fine += [((1, "a"), [1, "a"]), (np.float32(0.5), 0.5), (np.int64(3), 3), (np.bool_(True), True)]
    for number, (value, expected) in enumerate(fine):
        give = memory.cache(lambda number, value=value: asked.append(1) or value, ignore=["value"])
        results = [give(number), give(number)]
        assert results == [expected] * 2
        assert {type(result) for result in results} == {type(expected)}
    assert len(asked) == len(fine)
    bad = [{1}, b"x", float("nan"), {1: 2}, [float("inf")], object(), pd.DataFrame(), {"a": [np.array([1])]}, Client]
    for number, value in enumerate(bad):
        give = memory.cache(lambda number, value=value: value, ignore=["value"])
        with pytest.raises(InputError, match="which is no JSON and was not stored") as caught:
            give(-number)
        assert caught.value.value is value  # what was paid for is not lost

    async def later() -> str:
        return "x"

    with pytest.raises(InputError, match="coroutine; define the function with async def") as caught:
        memory.cache(lambda: later())()
    caught.value.value.close()


def test_forms_of_functions(memory: ek.engine.Memory) -> None:
    """Two lambdas of one line, partials, methods, objects and wrapped functions are told apart by what they are."""
    asked: list[int] = []
    one, two = memory.cache(lambda t: asked.append(1) or t + "1"), memory.cache(lambda t: asked.append(1) or t + "2")
    assert [one("a"), two("a"), one("a"), two("a"), len(asked)] == ["a1", "a2", "a1", "a2", 2]

    def base(tone: str, text: str) -> str:
        asked.append(1)
        return tone + text

    class Agent:
        def __init__(self, tone: str) -> None:
            self.tone = tone
            self.bound = memory.cache(self.ask)

        def ask(self, text: str) -> str:
            asked.append(1)
            return self.tone + text

        @memory.cache
        def decorated(self, text: str) -> str:
            asked.append(1)
            return self.tone + text

        def __call__(self, text: str) -> str:
            asked.append(1)
            return self.tone + text

        @classmethod
        @memory.cache
        def of_class(cls, text: str) -> str:
            return f"{cls.__name__} {text}"

        @memory.cache
        @staticmethod
        def static(text: str) -> str:
            return text

    for _ in range(2):
        assert (Agent.of_class("a"), Agent("x").of_class("a")) == ("Agent a", "Agent a")
        assert (Agent.static("a"), Agent("x").static("a")) == ("a", "a")

    def loud(function: Callable[..., str]) -> Callable[..., str]:
        @functools.wraps(function)
        def wrapper(*args: Any) -> str:
            return function(*args) + "!"

        return wrapper

    forms: list[Callable[[str], Callable[[str], str]]] = [
        lambda tone: memory.cache(functools.partial(base, tone)),
        lambda tone: memory.cache(functools.partial(base, tone=tone)),
        lambda tone: Agent(tone).bound,
        lambda tone: Agent(tone).decorated,
        lambda tone: memory.cache(Agent(tone)),
        lambda tone: memory.cache(loud(lambda text: base(tone, text))),
        lambda tone: memory.cache(functools.lru_cache(lambda text: base(tone, text))),
    ]
    for number, form in enumerate(forms):
        call = {"text": "t"} if number == 1 else {}
        args = () if call else ("t",)
        end = "!" if number == 5 else ""
        assert [form(tone)(*args, **call) for tone in ("x", "y", "x", "y")] == [f"{tone}t{end}" for tone in "xyxy"], (
            number
        )
        assert len(asked) == 2 + 2 * (number + 1), number
    assert memory.cache(len)([1, 2]) == memory.cache(len)([1, 2]) == 2


def test_without_source_the_code_counts(memory: ek.engine.Memory) -> None:
    n_asked = 0
    for body in ("text + 'a'", "text + 'b'", "text in {'x', 'y', 'a'}", "[one for one in text]"):
        for _ in range(2):
            namespace = {"asked": [], "__name__": "__main__"}
            exec(f"def ask(text):\n    return {body}\n", namespace)
            ask = memory.cache(namespace["ask"])
            assert ask.check_call_in_cache("a") == bool(n_asked % 2)
            assert ask("a") == eval(body, {"text": "a"})
            n_asked += 1


def test_settings_in_modules_and_classes(
    memory: ek.engine.Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_settings.py").write_text("MODEL = 'a'\nOTHER = 'b'\nclass Config:\n    MODEL = 'c'\n")
    monkeypatch.syspath_prepend(tmp_path)
    names = cell(
        "import own_settings\nfrom own_settings import Config\n@memory.cache\ndef ask(text):\n    asked.append(1)\n"
        "    return own_settings.MODEL + Config.MODEL + text\n",
        memory=memory, asked=[],
    )  # fmt: skip
    ask, module, asked = names["ask"], names["own_settings"], names["asked"]
    for owner, name, n in ((module, "OTHER", 0), (module, "MODEL", 1), (module.Config, "MODEL", 1)):
        ask("t")
        setattr(owner, name, "new")
        assert counted(ask, asked, "t") == n
        assert counted(ask, asked, "t") == 0
    assert ask("t") == "newnewt"
    del sys.modules["own_settings"]


def test_a_function_that_changes_what_it_reads_is_told(memory: ek.engine.Memory) -> None:
    log: list[str] = []

    @memory.cache
    def ask(text):
        log.append(text)
        return f"{len(log)} asked"

    with pytest.warns(EvalkitWarning, match="changed 'log', which it reads, so the same call will be asked again"):
        assert ask("a") == "1 asked"

    class Agent:
        n = 0

        @memory.cache
        def ask(self, text):
            self.n += 1
            return text

    with pytest.warns(EvalkitWarning, match="changed 'self', which it reads"):
        Agent().ask("a")
    count = {"n": 0}

    @memory.cache
    def fine(text):
        nonlocal count
        count["n"] += 1
        return text

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [fine("a"), fine("a"), count["n"]] == ["a", "a", 1]


# --- joblib's interface, threads and tasks, stores


def test_joblibs_options_and_methods(memory: ek.engine.Memory, capsys: pytest.CaptureFixture[str]) -> None:
    asked, seen, valid = [], [], [True]

    def is_valid(metadata: dict[str, Any]) -> bool:
        seen.append(metadata)
        return valid[0]

    @memory.cache(ignore=["verbose"], cache_validation_callback=is_valid, verbose=1)
    def ask(text, verbose=False):
        asked.append(text)
        return [text]

    assert ask("a") == ask("a", verbose=True) == ["a"]
    assert "ask" in capsys.readouterr().out
    assert (asked, sorted(seen[0]), seen[0]["input_args"]) == (
        ["a"],
        ["duration", "input_args", "time"],
        {"text": "'a'"},
    )
    assert ask.check_call_in_cache("a")
    assert not ask.check_call_in_cache("b")
    valid[0] = False
    assert (ask("a"), len(asked)) == (["a"], 2)
    valid[0] = True
    assert (ask.call("a"), len(asked)) == ((["a"], {}), 3)
    assert pickle.loads(pickle.dumps(ask.call_and_shelve("a"))).get() == ["a"]
    assert memory.cache(ask).func is ask.func
    ask("b")
    with pytest.raises(
        CacheError, match=r"nothing was removed: 2 values of .*ask in .* clear\(confirm='delete 2 values'\)"
    ):
        ask.clear()
    assert memory.store.stats()["n_replies"] == 0  # values are no replies
    assert (ask.clear(confirm="delete 2 values"), ask("b"), len(asked)) == (2, ["b"], 5)


def test_threads_and_tasks_pay_once(memory: ek.engine.Memory) -> None:
    asked: list[str] = []
    started = threading.Event()

    @memory.cache(ignore=["started"])
    def ask(text):
        asked.append(text)
        started.wait(5)
        return text

    threads = [threading.Thread(target=ask, args=("a",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    started.set()
    for thread in threads:
        thread.join()
    assert asked == ["a"]
    slots = asyncio.Semaphore(2)

    @memory.cache
    async def later(text):
        async with slots:
            asked.append(text)
            await asyncio.sleep(0.01)
            return {"text": text}

    async def main() -> list[dict[str, str]]:
        return await asyncio.gather(*(later(text) for text in "bcbcbc"))

    assert asyncio.run(main()) == [{"text": text} for text in "bcbcbc"]
    assert asked == ["a", "b", "c"]

    class Judging:
        async def __call__(self, text):
            asked.append(text)
            return text

    assert asyncio.run(memory.cache(Judging())("d")) == asyncio.run(memory.cache(Judging())("d")) == "d"
    assert asked == ["a", "b", "c", "d"]


def test_values_in_stores_of_all_kinds(store: ReplyStore, tmp_path: Path) -> None:
    asked: list[str] = []

    def ask(text):
        asked.append(text)
        return {"text": text, "n": len(text)}

    memory = ek.memory(store.cache)
    assert memory.cache(ask)("a") == {"text": "a", "n": 1}
    store.put(parts(), reply("2")).result()
    read_only = ek.memory(store.cache, read_only=True).cache(ask)
    assert read_only("a") == {"text": "a", "n": 1}
    with pytest.raises(CacheError, match=r"read-only"):
        read_only("b")
    assert asked == ["a"]
    assert ek.memory(store.cache, since=2**40).cache(ask)("a")["n"] == 1
    assert asked == ["a", "a"]
    # it is copied with the replies, and neither exported nor removed with them
    elsewhere = ReplyStore.open(tmp_path / "elsewhere")
    sync(store, elsewhere)
    assert ek.memory(elsewhere.cache).cache(ask)("a") == {"text": "a", "n": 1}
    assert store.export(tmp_path / "replies.jsonl") == 1
    memory.clear(confirm="delete 1 replies")
    assert memory.cache(ask)("a") == {"text": "a", "n": 1}
    assert asked == ["a", "a"]


def test_older_evalkits_open_a_store_with_values(memory: ek.engine.Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """They refuse tables that they do not know and newer schemas: values add neither."""
    memory.cache(lambda text: text)("a")
    memory.store.close()
    with sqlite3.connect(memory.store.path) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        (schema,) = connection.execute("PRAGMA user_version").fetchone()
    assert tables == {"calls", "replies", "facts", "evaluations", "leases", "rates", "tickets", "ticket_keys"}
    assert schema == 3


@pytest.mark.long
def test_importing_evalkit_loads_no_joblib() -> None:
    import subprocess

    code = "import sys, evalkit; assert 'joblib' not in sys.modules; evalkit.memory; assert 'joblib' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_the_place_of_a_row_counts_only_where_the_function_may_ask_for_it(memory: ek.engine.Memory) -> None:
    asked: list[str] = []

    @memory.cache
    def ask(row: Any) -> str:
        asked.append(row["question"])
        return str(row["question"]).upper()

    def place_of(row: Any) -> str:
        return f"{row.name} {row['question']}"

    @memory.cache
    def ask_with_place(row: Any) -> str:
        asked.append(row["question"])
        return place_of(row)

    table = pd.DataFrame({"question": ["a", "b", "c", "d"], "n": [1, 2, 3, 4]})
    later = table[table["n"] > 2].reset_index(drop=True)
    assert table.apply(ask, axis=1).tolist() == ["A", "B", "C", "D"]
    assert later.apply(ask, axis=1).tolist() == ["C", "D"]
    assert [ask(row) for _, row in later.iloc[::-1].iterrows()] == ["D", "C"]
    assert asked == ["a", "b", "c", "d"]
    assert table.apply(ask_with_place, axis=1).tolist() == ["0 a", "1 b", "2 c", "3 d"]
    assert later.apply(ask_with_place, axis=1).tolist() == ["0 c", "1 d"]
    assert asked == ["a", "b", "c", "d", "a", "b", "c", "d", "c", "d"]


class Place:
    """Ways to read the place of a row."""

    @staticmethod
    def whole(row: Any) -> str:
        return f"{row}"

    @staticmethod
    def framed(row: Any) -> str:
        return str(pd.DataFrame([row]).index[0])

    @staticmethod
    def method(row: Any) -> str:
        return str(row.to_frame().columns[0])

    @staticmethod
    def part(row: Any) -> str:
        return str(row[["question"]].name)

    @staticmethod
    def rest(row: Any) -> str:
        return str(row[...].name)

    @staticmethod
    def passed(*rows: Any) -> str:
        return str(rows[0].name)

    @staticmethod
    def named(**row: Any) -> str:
        return str(row["row"].name)

    @staticmethod
    def local(row: Any) -> str:
        return str(next(iter(locals().values())).name)

    @staticmethod
    def hidden(row: Any) -> str:
        return str(row._name)

    @staticmethod
    def nested(row: Any) -> str:
        return (lambda each=row: str(each.name))()

    @staticmethod
    def held(row: Any) -> str:
        return str({"row": row}["row"].name)

    @staticmethod
    def sliced(row: Any) -> str:
        return str(row["question"].name)


def test_two_rows_of_equal_cells_have_each_its_own_answer_unless_only_cells_are_taken(memory: ek.engine.Memory) -> None:
    table = pd.DataFrame({"question": ["a", "a"], "n": [1, 1]}, index=[7, 9])
    for name in ("whole", "framed", "method", "part", "rest", "passed", "local", "hidden", "nested", "held"):
        ask = getattr(Place, name)
        assert [memory.cache(ask)(row) for _, row in table.iterrows()] == [ask(row) for _, row in table.iterrows()], (
            name
        )
    assert [memory.cache(Place.named)(row=row) for _, row in table.iterrows()] == ["7", "9"]
    twice = pd.DataFrame([["a", "b"]] * 2, columns=["question", "question"], index=[7, 9])
    assert [memory.cache(Place.sliced)(row) for _, row in twice.iterrows()] == ["7", "9"]
    asked: list[str] = []

    @memory.cache
    def cells(row: Any, *, upper: bool = True) -> list[Any]:
        asked.append(row.question)
        return [f"{row['question']}{row.n}" for _ in range(1 if upper else 2)] + [row.get("none", None)]

    assert [cells(row) for _, row in table.iterrows()] == [["a1", None]] * 2
    assert asked == ["a"]
