"""Memoized calls: the same rows as the store's, whatever happens to the function's source; one call at a time."""

from __future__ import annotations

import ast
import asyncio
import inspect
import pickle
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import pytest
from cache_setup import parts, ran, reply
from in_threads import in_threads
from joblib.memory import AsyncMemorizedFunc, MemorizedFunc, MemorizedResult
from question_memory import QuestionMemory

from evalkit.core.prompts_and_replies import Reply
from evalkit.core.reply_keys import KeyParts
from evalkit.engine import cache as caching
from evalkit.engine.cache import ReplyStore
from evalkit.engine.cache.joblib_memory import ReplyBackend
from evalkit.engine.cache.writer import decoded
from evalkit.errors import CacheError, ConfigError


@dataclass(frozen=True)
class Question:
    parts: KeyParts


def question(number: int = 0, **changes: Any) -> Question:
    return Question(parts(number, **changes))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def memory(folder: Path) -> QuestionMemory:
    return QuestionMemory(folder)


class Judged:
    """A function that counts how often it is asked."""

    def __init__(self, memory: QuestionMemory) -> None:
        self.n_calls = 0

        @memory.cache
        def ask(asked: Question) -> str:
            self.n_calls += 1
            return f"reply {self.n_calls}"

        @memory.cache
        async def aask(asked: Question) -> Reply:
            self.n_calls += 1
            number = self.n_calls
            await asyncio.sleep(0.01)
            return reply(f"reply {number}")

        self.ask, self.aask = ask, aask


# --- the same rows both ways


def test_what_is_memoized_is_in_the_store(memory: QuestionMemory, folder: Path) -> None:
    judged = Judged(memory)
    first = judged.ask(question(1))
    assert judged.ask(question(1)) == first
    second = asyncio.run(judged.aask(question(2)))
    assert asyncio.run(judged.aask(question(2))) == second
    assert judged.n_calls == 2
    found = ReplyStore.open(folder).get_many([parts(1).key, parts(2).key])
    assert {key: decoded(value) for key, value in found.items()} == {parts(1).key: first, parts(2).key: second}
    # with the shared parts that export and nearest need
    assert ReplyStore.open(folder).nearest(parts(1, temperature=0.0)) == {"temperature": (1.0, 0.0)}
    # nothing of joblib's own lies there: no pickles, no sources, no arguments in clear
    assert {path.name for path in folder.rglob("*")} <= {
        ".gitignore",
        "replies.sqlite",
        "replies.sqlite-shm",
        "replies.sqlite-wal",
    }


def test_what_is_in_the_store_is_a_hit(memory: QuestionMemory, folder: Path) -> None:
    ReplyStore.open(folder).put_many([(parts(1), reply("bulk 1")), (parts(2), reply("bulk 2"))])
    judged = Judged(memory)
    assert judged.ask(question(1)) == reply("bulk 1")
    assert asyncio.run(judged.aask(question(2))) == reply("bulk 2")
    assert judged.n_calls == 0


def test_functions_share_replies_and_every_part_counts(memory: QuestionMemory) -> None:
    one, two = Judged(memory), Judged(memory)
    one.ask(question(1))
    assert two.ask(question(1)).text == "reply 1"
    assert two.n_calls == 0
    for number, other in enumerate(
        [question(1, sample=1), question(1, temperature=0.0), question(1, model="m"), question(2)], 1
    ):
        two.ask(other)
        assert two.n_calls == number


def test_a_text_becomes_a_reply_with_its_time(memory: QuestionMemory) -> None:
    before = time.time()
    given = Judged(memory).ask(question())
    assert (given.text, given.source) == ("reply 1", "live")
    assert before <= given.created <= time.time()
    assert given.latency_s is not None


def test_recorded_replies_are_hits_only_on_demand(folder: Path) -> None:
    ReplyStore.open(folder).put(parts(), reply("recorded", source="recorded")).result()
    assert QuestionMemory(folder, recorded=True).cache(lambda asked: "live")(question()).text == "recorded"
    assert QuestionMemory(folder).cache(lambda asked: "live")(question()).text == "live"
    assert QuestionMemory(folder, recorded=True).cache(lambda asked: "again")(question()).text == "live"


# --- joblib's interface


def test_joblibs_methods(memory: QuestionMemory) -> None:
    judged = Judged(memory)
    assert not judged.ask.check_call_in_cache(question())
    shelved = judged.ask.call_and_shelve(question())
    assert isinstance(shelved, MemorizedResult)
    assert shelved.get().text == "reply 1"
    assert pickle.loads(pickle.dumps(shelved)).get().text == "reply 1"
    assert judged.ask.check_call_in_cache(question())
    # asked anew: a generation more, the old one kept
    forced, metadata = judged.ask.call(question())
    assert (forced.text, metadata) == ("reply 2", {})
    assert judged.ask(question()).text == "reply 2"
    assert memory.store.stats()["n_replies"] == 2
    assert memory.eval(judged.ask, question()).text == "reply 2"
    assert judged.n_calls == 2
    assert judged.ask.__name__ == "ask"


def test_joblibs_methods_awaited(memory: QuestionMemory) -> None:
    judged = Judged(memory)

    async def main() -> None:
        shelved = await judged.aask.call_and_shelve(question())
        assert shelved.get().text == "reply 1"
        forced, metadata = await judged.aask.call(question())
        assert (forced.text, metadata) == ("reply 2", {})
        assert (await judged.aask(question())).text == "reply 2"
        assert judged.aask.check_call_in_cache(question())

    asyncio.run(main())
    assert judged.n_calls == 2


def test_decorated_with_options_and_twice(memory: QuestionMemory, capsys: pytest.CaptureFixture[str]) -> None:
    @memory.cache(verbose=1)
    def ask(asked: Question) -> str:
        return "2"

    ask(question())
    assert "ask" in capsys.readouterr().out  # joblib says which call it makes
    again = memory.cache(ask)
    assert again(question()).text == "2"
    assert capsys.readouterr().out == ""
    for options in ({"ignore": ["asked"]}, {"mmap_mode": "r"}, {"cache_validation_callback": lambda metadata: False}):
        with pytest.raises(ConfigError, match="the reply key alone decides"):
            memory.cache(ask, **options)


def test_nothing_of_joblibs_removes_replies(memory: QuestionMemory) -> None:
    judged = Judged(memory)
    shelved = judged.ask.call_and_shelve(question())
    removals: list[Callable[[], object]] = [
        judged.ask.clear,
        shelved.clear,
        lambda: memory.reduce_size(items_limit=0),
        memory.clear,
        lambda: memory.clear(warn=False),
        lambda: memory.clear(confirm="delete 2 replies"),
        lambda: memory.store_backend.clear_item(["f", parts().key.hex()]),
        lambda: memory.store_backend.clear_path(["f"]),
    ]
    for remove in removals:
        with pytest.raises(CacheError, match=r"removed|must not remove"):
            remove()
    assert judged.ask(question()).text == "reply 1"
    report = memory.clear(confirm="delete 1 replies")
    assert report.n_replies == 1
    assert judged.ask(question()).text == "reply 2"


def test_memory_survives_pickling(memory: QuestionMemory) -> None:
    Judged(memory).ask(question())
    copy = pickle.loads(pickle.dumps(memory))
    assert copy.cache(lambda asked: "never")(question()).text == "reply 1"


def test_default_folder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("EVALKIT_CACHE", str(folder))
    assert QuestionMemory().store is ReplyStore.open(folder)


def test_used_insides_of_joblib() -> None:
    """What `memory` and `backend` rely on; a joblib that changes it must fail here, not in a notebook."""
    signatures = {
        MemorizedFunc._cached_call: ["self", "args", "kwargs", "shelving"],
        MemorizedFunc.call: ["self", "args", "kwargs"],
        MemorizedFunc._get_args_id: ["self", "args", "kwargs"],
        MemorizedFunc._check_previous_func_code: ["self", "stacklevel"],
        MemorizedFunc._is_in_cache_and_valid: ["self", "call_id"],
        MemorizedFunc._before_call: ["self", "args", "kwargs"],
        MemorizedFunc._get_memorized_result: ["self", "call_id", "metadata"],
        MemorizedFunc.clear: ["self", "warn"],
        joblib.Memory.clear: ["self", "warn"],
        joblib.Memory.cache: ["self", "func", "ignore", "verbose", "mmap_mode", "cache_validation_callback"],
    }
    for function, names in signatures.items():
        assert list(inspect.signature(function).parameters) == names, function
    wanted = ["location", "backend", "mmap_mode", "compress", "verbose", "backend_options"]
    assert list(inspect.signature(joblib.Memory).parameters) == wanted
    # the public methods go through the two that are replaced
    for method in (MemorizedFunc.__call__, MemorizedFunc.call_and_shelve, AsyncMemorizedFunc.__call__):
        assert "_cached_call" in method.__code__.co_names
    # and the backend implements all that joblib's base asks for
    assert ReplyBackend.__abstractmethods__ == frozenset()


# --- the function's source


MODULE = """
from pathlib import Path
from question_memory import QuestionMemory
memory = QuestionMemory(Path(__file__).parent / "cache")
{before}
@memory.cache
def {name}(asked):
    {comment}
    with open(Path(__file__).parent / "paid", "a") as file:
        file.write("x")
    return {value!r}

@memory.cache
async def a{name}(asked):
    with open(Path(__file__).parent / "paid", "a") as file:
        file.write("x")
    return {value!r}  {comment}
"""
USE = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
from types import SimpleNamespace
from cache_setup import parts
import judge_module
ask, aask = getattr(judge_module, sys.argv[2]), getattr(judge_module, "a" + sys.argv[2])
print([ask(SimpleNamespace(parts=parts(number))).text for number in range(5)])
async def main():
    return await asyncio.gather(*(aask(SimpleNamespace(parts=parts(number))) for number in range(5, 10)))
print([reply.text for reply in asyncio.run(main())])
"""


@pytest.mark.long
def test_editing_or_moving_the_function_pays_nothing_again(tmp_path: Path) -> None:
    module, paid = tmp_path / "judge_module.py", tmp_path / "paid"
    plain = {"before": "", "name": "ask", "comment": "# as it was", "value": "first"}
    edits = [
        {},
        {"comment": "# one comment edited", "before": "import os\n\n\ndef helper():\n    return 1\n\n"},  # moved down
        # another name, and even another body: the key says what was asked
        {
            "name": "ask_judge",
            "value": "another text",
            "before": "import joblib\njoblib.memory._FUNCTION_HASHES.clear()\n",
        },
    ]
    for edit in edits:
        module.write_text(MODULE.format(**{**plain, **edit}), encoding="utf-8")
        said = ran(USE, tmp_path, edit.get("name", "ask"))
        assert said == f"{['first'] * 5}\n" * 2
        assert paid.read_text() == "x" * 10  # in the first round alone


# --- one call at a time


def test_samples_are_never_joined(memory: QuestionMemory) -> None:
    judged = Judged(memory)

    async def main() -> list[Reply]:
        return await asyncio.gather(*(judged.aask(question(sample=number)) for number in range(5)))

    assert {given.text for given in asyncio.run(main())} == {f"reply {number}" for number in range(1, 6)}


def test_functions_and_memories_share_one_call(folder: Path) -> None:
    judges = [Judged(QuestionMemory(folder)) for _ in range(3)]

    async def main() -> list[Reply]:
        return await asyncio.gather(*(judged.aask(question()) for judged in judges))

    assert len({given.text for given in asyncio.run(main())}) == 1
    assert sum(judged.n_calls for judged in judges) == 1


def test_loops_in_threads_share_one_call(memory: QuestionMemory) -> None:
    judged = Judged(memory)
    given = in_threads(*[lambda: asyncio.run(judged.aask(question()))] * 8)
    assert [one.text for one in given] == ["reply 1"] * 8
    assert judged.n_calls == 1


def test_threads_share_one_call(memory: QuestionMemory) -> None:
    n_calls = 0

    @memory.cache
    def ask(asked: Question) -> str:
        nonlocal n_calls
        n_calls += 1
        time.sleep(0.05)
        return f"reply {n_calls}"

    given = in_threads(*[lambda: ask(question())] * 8)
    assert [one.text for one in given] == ["reply 1"] * 8
    assert n_calls == 1


def test_a_waiter_that_is_cancelled_cancels_no_call(memory: QuestionMemory) -> None:
    judged = Judged(memory)

    async def main() -> Reply:
        first, second = (asyncio.ensure_future(judged.aask(question())) for _ in range(2))
        await asyncio.sleep(0.002)
        assert judged.n_calls == 1
        first.cancel()  # it made the call
        given: Reply = await second
        with pytest.raises(asyncio.CancelledError):
            await first
        return given

    assert asyncio.run(main()).text == "reply 1"
    assert judged.n_calls == 1
    assert len(memory.store.get_many([parts().key])) == 1


def test_a_call_whose_loop_ends_is_made_by_another(memory: QuestionMemory) -> None:
    judged = Judged(memory)
    under_way, joined = threading.Event(), threading.Event()
    n_calls = 0

    @memory.cache
    async def slow(asked: Question) -> str:
        nonlocal n_calls
        n_calls += 1
        if n_calls == 1:
            under_way.set()
            await asyncio.sleep(60)
        return f"reply {n_calls}"

    def first_loop() -> None:
        async def main() -> None:
            task = asyncio.ensure_future(slow(question()))
            await asyncio.to_thread(joined.wait)
            del task  # the loop ends here, and with it the call

        asyncio.run(main())

    thread = threading.Thread(target=first_loop)
    thread.start()
    under_way.wait()

    async def second() -> Reply:
        waiting = asyncio.ensure_future(slow(question()))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        joined.set()
        given: Reply = await waiting
        return given

    assert asyncio.run(second()).text == "reply 2"
    thread.join()
    assert judged.n_calls == 0


def test_an_error_reaches_all_who_wait_and_is_not_kept(memory: QuestionMemory) -> None:
    n_calls = 0

    @memory.cache
    async def ask(asked: Question) -> str:
        nonlocal n_calls
        n_calls += 1
        await asyncio.sleep(0.01)
        if n_calls == 1:
            raise TimeoutError("no answer")
        return "2"

    async def main() -> list[Any]:
        return await asyncio.gather(*(ask(question()) for _ in range(3)), return_exceptions=True)

    assert [repr(one) for one in asyncio.run(main())] == ["TimeoutError('no answer')"] * 3
    assert [one.text for one in asyncio.run(main())] == ["2"] * 3
    assert n_calls == 2


def test_an_interrupted_call_is_made_by_who_waits(memory: QuestionMemory) -> None:
    under_way = threading.Event()
    given: list[Reply] = []
    n_calls = 0

    @memory.cache
    def ask(asked: Question) -> str:
        nonlocal n_calls
        n_calls += 1
        if n_calls == 1:
            under_way.set()
            time.sleep(0.1)
            raise KeyboardInterrupt
        return "2"

    def wait() -> None:
        under_way.wait()
        given.append(ask(question()))

    thread = threading.Thread(target=wait)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        ask(question())
    thread.join()
    assert [one.text for one in given] == ["2"]


def test_a_thread_that_runs_a_loop_does_not_wait_for_a_call_of_that_loop(memory: QuestionMemory) -> None:
    judged = Judged(memory)

    async def main() -> tuple[Reply, Reply]:
        awaited = asyncio.ensure_future(judged.aask(question()))
        await asyncio.sleep(0.002)
        return judged.ask(question()), await awaited

    blocking, awaited = asyncio.run(main())
    assert blocking == awaited  # two calls, one truth


# --- failures


def test_a_reply_that_cannot_be_stored_is_an_error(memory: QuestionMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    judged = Judged(memory)
    judged.ask(question(1))
    memory.store.close()
    monkeypatch.setattr("evalkit.engine.cache.sqlite_connections._BUSY_S", 0.05)
    blocker = sqlite3.connect(memory.store.path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    for attempt in (lambda: judged.ask(question(2)), lambda: asyncio.run(judged.aask(question(3)))):
        with pytest.raises(CacheError, match="locked"):
            attempt()
    blocker.close()
    assert judged.ask(question(1)).text == "reply 1"


def test_without_a_writable_store_nothing_is_paid(folder: Path) -> None:
    ReplyStore.open(folder).put(parts(1), reply("kept")).result()
    judged = Judged(QuestionMemory(folder, read_only=True))
    assert judged.ask(question(1)).text == "kept"
    with pytest.raises(CacheError, match="read-only, so replies could not be stored"):
        judged.ask(question(2))
    with pytest.raises(CacheError, match="read-only"):
        asyncio.run(judged.aask(question(2)))
    assert judged.n_calls == 0


def test_an_unreadable_store_is_an_error_not_a_miss(memory: QuestionMemory) -> None:
    judged = Judged(memory)
    judged.ask(question())
    memory.store.close()
    memory.store.path.write_bytes(b"something else")
    with pytest.raises(CacheError, match="is not a SQLite file"):
        judged.ask(question())
    assert judged.n_calls == 1


def test_the_store_knows_no_joblib_and_no_pandas() -> None:
    for path in Path(caching.__path__[0]).glob("*.py"):
        imported = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").split(".")[0])
        assert "pandas" not in imported, path
        assert ("joblib" in imported) == (path.name == "joblib_memory.py"), path
