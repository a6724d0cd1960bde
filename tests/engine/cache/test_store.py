"""What the store gives back: generations, refresh, conflicts, content, nearest, facts; threads and event loops."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import pickle
import random
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from cache_setup import BOTH, in_a_file, opened, parts, reply, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st
from in_threads import in_threads

from evalkit.core.prompts_and_replies import Reply
from evalkit.core.reply_keys import Params, canonical_json
from evalkit.engine.cache import ReplyStore, lookups
from evalkit.engine.cache.lookups import Counters
from evalkit.engine.cache.writer import Job, decoded, encoded, row_of
from evalkit.errors import CacheError, InputError


@pytest.fixture(params=BOTH)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ReplyStore]:
    store = opened(request, tmp_path / "cache")
    yield store
    store.close()


def texts(found: dict[bytes, bytes]) -> dict[bytes, str | None]:
    return {key: decoded(value).text for key, value in found.items()}


def generations(store: ReplyStore, key: bytes) -> list[tuple[int, str]]:
    rows = rows_of(store, "SELECT generation, value FROM replies WHERE key = ? ORDER BY 1", (key,))
    return [(generation, orjson.loads(value)["text"]) for generation, value in rows]


# --- one reply in, the same out


def test_a_reply_comes_back_as_it_was(store: ReplyStore) -> None:
    whole = Reply(
        text="Объяснение\n[RESULT] 2 [END] \U0001f600 \x00",
        finish_reason="stop",
        refusal="no",
        model="gpt-4o-mini-2024-07-18",
        prompt_tokens=812,
        completion_tokens=0,
        cost_usd=1.5e-05,
        latency_s=0.25,
        created=1760000000.123,
        source="live",
        sent={"temperature": None, "max_completion_tokens": 512},
    )
    value = store.put(parts(), whole).result()
    assert decoded(value) == whole
    assert store.get_many([parts().key]) == {parts().key: value}
    # stored bytes are canonical: fields sorted, absent ones left out
    assert encoded(reply(None).as_dict()) == b'{"created":1000.0,"source":"live","text":null}'


def test_an_empty_store_has_nothing_and_makes_nothing(store: ReplyStore) -> None:
    assert store.get_many([parts().key]) == {}
    assert store.get_many([]) == {}
    assert store.get_by_content([parts().content_key]) == {}
    assert store.nearest(parts()) is None
    assert store.facts("api.openai.com", "gpt-4o-mini") == {}
    assert store.stats()["n_replies"] == 0
    assert store.stats()["n_bytes"] == 0


def test_many_keys_in_any_order_and_any_number(store: ReplyStore) -> None:
    # 2,000 keys are three queries; every third one is asked for without being there
    rows = [(parts(number), reply(str(number))) for number in range(2000)]
    stored = store.put_many(rows)
    keys = [asked.key for asked, _ in rows]
    missing = [parts(number, sample=1).key for number in range(1000)]
    mixed = [key for trio in zip(keys[::2], keys[1::2], missing, strict=True) for key in trio]
    found = store.get_many(mixed[::-1])
    assert found == dict(zip(keys, stored, strict=True))
    assert list(texts(found).values()).count("1999") == 1
    assert store.get_many({keys[7]}) == {keys[7]: stored[7]}
    assert store.put_many([]) == []


def test_rows_that_fill_one_statement_or_several(store: ReplyStore) -> None:
    for version, n_rows in enumerate((1, 74, 75, 76, 149, 150, 151, 700)):
        asked = [parts(number, rubric_version=f"v{version}") for number in range(n_rows)]
        stored = store.put_many([(each, reply(f"{n_rows} {number}")) for number, each in enumerate(asked)])
        assert store.get_many([each.key for each in asked]) == {
            each.key: value for each, value in zip(asked, stored, strict=True)
        }
        assert [orjson.loads(value)["text"] for value in stored] == [f"{n_rows} {number}" for number in range(n_rows)]
    assert rows_of(store, "SELECT count(*), max(generation) FROM replies") == [(1376, 0)]


def test_a_row_says_what_its_reply_and_its_parts_say() -> None:
    draw = random.Random(44)
    values: dict[str, list[Any]] = {
        "text": ["", "2", "é\x00\U0001f600", None], "finish_reason": ["stop", None], "refusal": ["no", "", None],
        "model": ["m", None], "prompt_tokens": [0, 812, None], "completion_tokens": [2**31 - 1, None],
        "cost_usd": [0.0, 1.5, None], "latency_s": [0.25, 3, None], "created": [1.5, 1760000000.25],
        "source": ["live", "batch", "recorded"], "sent": [{"n": None}, {}, None], "id": ["c1", None],
        "logprobs": [{"stage": "raw", "tokens": [["2", -0.5]]}, None], "prompt_cut": [True, None],
        "fingerprint": ["fp", None],
    }  # fmt: skip
    assert {*values} == {*Reply.__slots__}
    for number in range(2000):
        fields = {name: draw.choice(choices) for name, choices in values.items()}
        params, sample = draw.choice([{}, {"seed": 7}, {"seed": -1, "top_p": 0.5}]), draw.randrange(3)
        row = row_of(parts(number, params=params).of_sample(sample), Reply(**fields))
        assert parts(number, sample).of_input("e" * 64, "AB") == replace(
            parts(0, sample), input_hash="e" * 64, order="AB"
        )
        stored = json.loads(row.value)
        assert stored == {name: value for name, value in fields.items() if value is not None or name == "text"}
        assert [*stored] == sorted(stored)
        seeded = params | ({"seed": 7 + sample} if params.get("seed") == 7 else {})
        whole = asdict(parts(number, sample, params=seeded)) | {"schema": 1}
        content = {name: value for name, value in whole.items() if name not in ("rubric", "rubric_version")}
        for key, hashed in ((row.key, whole), (row.content_key, content)):
            assert key == hashlib.sha256(json.dumps(hashed, sort_keys=True, separators=(",", ":")).encode()).digest()
        assert (row.created, row.source, row.cost_usd) == (fields["created"], fields["source"], fields["cost_usd"])


def test_a_store_that_is_read_whole_gives_the_newest_of_each_key(
    store: ReplyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, newest = random.Random(5), dict[bytes, bytes]()
    for turn in range(6):
        asked = [parts(number) for number in draw.sample(range(60), 25)]
        for one, value in zip(
            asked, store.put_many([(one, reply(f"{turn}")) for one in asked], overwrite=True), strict=True
        ):
            newest[one.key] = value
    assert max(len(values) for values in store.generations(newest).values()) > 2
    monkeypatch.setattr(lookups, "_FEW", 0)
    scans = []
    with store.database.reading() as connection:
        assert connection is not None
        monkeypatch.setattr(type(connection), "most_replies", lambda _: scans.append(1) or 0.5)
    for _ in range(50):
        keys = [parts(number).key for number in draw.choices(range(90), k=draw.randrange(1, 80))]
        assert store.get_many(keys) == {key: newest[key] for key in keys if key in newest}
    assert len(scans) == 50


def test_samples_orders_and_inputs_are_apart(store: ReplyStore) -> None:
    asked = [parts(1), parts(1, sample=1), parts(2), parts(1, order="AB"), parts(1, temperature=0.0)]
    store.put_many([(one, reply(str(number))) for number, one in enumerate(asked)])
    assert texts(store.get_many([one.key for one in asked])) == {
        one.key: str(number) for number, one in enumerate(asked)
    }


def test_a_reply_without_a_time_gets_the_present_one(store: ReplyStore) -> None:
    before = time.time()
    value = store.put(parts(), Reply("2")).result()
    assert before <= decoded(value).created <= time.time()


def test_half_a_surrogate_pair_costs_no_reply(store: ReplyStore) -> None:
    broken = reply("good \ud83d end", sent={"a": ["\udfff"]})
    assert decoded(store.put(parts(), broken).result()).text == "good ? end"


def test_what_is_no_json_is_refused_by_name(store: ReplyStore) -> None:
    with pytest.raises(CacheError, match="gpt-x contains something that is not a JSON value"):
        store.put(parts(), reply("2", model="gpt-x", sent={"a": object()}))


@pytest.mark.parametrize("input_hash", ["", "x" * 64, "A" * 64, "ab" * 31, " " + "a" * 63])
def test_an_input_hash_that_is_none_is_refused(store: ReplyStore, input_hash: str) -> None:
    with pytest.raises(InputError, match="is not a sha256"):
        store.put(replace(parts(), input_hash=input_hash), reply())


@given(st.sampled_from([1, 1.0, 0.0, None]), st.dictionaries(st.text(max_size=3), st.integers(0, 2)))
@pytest.mark.long
def test_shared_json_is_that_of_the_parts(temperature: float | None, params: dict[str, int]) -> None:
    for given_params in (params, Params(params)):
        asked = parts(3, temperature=temperature, params=given_params)
        assert asked.shared_json() == canonical_json(replace(asked, input_hash="", order=None, sample=0).as_dict())
        row = row_of(asked, reply())
        assert (row.key, row.content_key) == (asked.key, asked.content_key)


# --- conflicts, generations, refresh


def test_the_first_reply_stays_and_both_see_it(store: ReplyStore) -> None:
    first = store.put(parts(), reply("first")).result()
    second = store.put(parts(), reply("second", created=2000.0)).result()
    assert second == first
    assert generations(store, parts().key) == [(0, "first")]
    # within one commit too
    values = store.put_many([(parts(5), reply("a")), (parts(5), reply("b"))])
    assert [decoded(value).text for value in values] == ["a", "a"]


def test_a_refresh_appends_and_keeps_the_old_reply(store: ReplyStore) -> None:
    store.put(parts(), reply("old", created=1000.0)).result()
    value = store.put(parts(), reply("new", created=2000.0), newer_than=1500.0).result()
    assert decoded(value).text == "new"
    assert generations(store, parts().key) == [(0, "old"), (1, "new")]
    assert texts(store.get_many([parts().key])) == {parts().key: "new"}


def test_an_interrupted_refresh_is_resumed_by_its_time(store: ReplyStore) -> None:
    start = 1500.0
    asked = [parts(number) for number in range(4)]
    keys = [one.key for one in asked]
    store.put_many([(one, reply("old", created=1000.0)) for one in asked])
    # the first run got half-way
    store.put_many([(one, reply("new", created=1600.0)) for one in asked[:2]], newer_than=start)
    # the second asks for what is older than the start of the first alone
    present = store.get_many(keys, since=start)
    assert set(present) == set(keys[:2])
    # a reply of the same refresh that another process already stored is read back
    again = store.put(asked[0], reply("twice", created=1700.0), newer_than=start).result()
    assert decoded(again).text == "new"
    store.put_many([(one, reply("new", created=1700.0)) for one in asked[2:]], newer_than=start)
    assert set(texts(store.get_many(keys, since=start)).values()) == {"new"}
    assert all(generations(store, key) == [(0, "old"), (1, "new")] for key in keys)


def test_since_counts_the_very_moment(store: ReplyStore) -> None:
    store.put(parts(), reply(created=1500.0)).result()
    assert parts().key in store.get_many([parts().key], since=1500.0)
    assert store.get_many([parts().key], since=1500.001) == {}
    assert decoded(store.put(parts(), reply("x", created=1600.0), newer_than=1500.0).result()).text == "2"


def test_overwrite_appends_unless_it_is_the_very_same(store: ReplyStore) -> None:
    store.put(parts(), reply("a", source="recorded")).result()
    store.put(parts(), reply("a", source="recorded"), overwrite=True).result()
    assert generations(store, parts().key) == [(0, "a")]
    store.put(parts(), reply("b", source="recorded"), overwrite=True).result()
    assert generations(store, parts().key) == [(0, "a"), (1, "b")]


def test_recorded_replies_can_be_passed_over_and_yield_to_live_ones(store: ReplyStore) -> None:
    key = parts().key
    store.put(parts(), reply("recorded", source="recorded")).result()
    assert texts(store.get_many([key])) == {key: "recorded"}
    assert store.get_many([key], recorded=False) == {}
    # what a live judge then pays for is not thrown away for the recorded one …
    assert decoded(store.put(parts(), reply("paid")).result()).text == "paid"
    assert texts(store.get_many([key], recorded=False)) == {key: "paid"}
    # … and a recorded one never replaces a live one unasked
    assert decoded(store.put(parts(), reply("late", source="recorded")).result()).text == "paid"
    assert generations(store, key) == [(0, "recorded"), (1, "paid")]


def test_the_newest_generation_alone_decides_what_counts(store: ReplyStore) -> None:
    key = parts().key
    store.put(parts(), reply("live", created=2000.0)).result()
    store.put(parts(), reply("recorded", created=1000.0, source="recorded"), overwrite=True).result()
    assert store.get_many([key], recorded=False) == {}
    assert store.get_many([key], since=1500.0) == {}
    assert texts(store.get_many([key])) == {key: "recorded"}


# --- by content, nearest


def test_adopt_finds_an_unchanged_criterion_of_another_version(store: ReplyStore) -> None:
    old, new = parts(rubric_version="v1"), parts(rubric_version="v2")
    edited = parts(rubric_version="v2", rubric_hash="c" * 64)
    value = store.put(old, reply("kept")).result()
    assert store.get_many([new.key]) == {}
    assert store.get_by_content([new.content_key, edited.content_key]) == {new.content_key: (old.key, value)}
    # it wrote nothing
    assert store.stats()["n_replies"] == 1
    assert store.get_by_content([new.content_key], since=1000.5) == {}


def test_adopt_takes_the_reply_received_last(store: ReplyStore) -> None:
    content = parts().content_key
    store.put(parts(rubric_version="v1"), reply("one", created=1000.0)).result()
    store.put(parts(rubric_version="v2"), reply("two", created=3000.0)).result()
    store.put(parts(rubric="copy"), reply("three", created=2000.0)).result()
    key, value = store.get_by_content([content])[content]
    assert (key, decoded(value).text) == (parts(rubric_version="v2").key, "two")
    # a refresh of the first makes that one the last
    store.put(parts(rubric_version="v1"), reply("again", created=4000.0), newer_than=3500.0).result()
    key, value = store.get_by_content([content])[content]
    assert (key, decoded(value).text) == (parts(rubric_version="v1").key, "again")


def test_adopt_passes_over_recorded_replies(store: ReplyStore) -> None:
    content = parts().content_key
    store.put(parts(rubric_version="v1"), reply("live", created=1000.0)).result()
    store.put(parts(rubric_version="v2"), reply("recorded", created=2000.0, source="recorded")).result()
    assert decoded(store.get_by_content([content])[content][1]).text == "recorded"
    assert decoded(store.get_by_content([content], recorded=False)[content][1]).text == "live"


def test_nearest_names_the_fields_that_differ(store: ReplyStore) -> None:
    store.put(parts(), reply()).result()
    assert store.nearest(parts(temperature=0.0)) == {"temperature": (1.0, 0.0)}
    assert store.nearest(parts(rubric_version="v2", rubric_hash="c" * 64)) == {
        "rubric_version": ("v1", "v2"),
        "rubric_hash": ("a" * 64, "c" * 64),
    }
    assert store.nearest(parts(params={"top_p": 0.5})) == {"params": ({}, {"top_p": 0.5})}


def test_nearest_takes_the_entry_that_differs_least(store: ReplyStore) -> None:
    store.put(parts(temperature=0.5, max_tokens=64), reply()).result()
    store.put(parts(max_tokens=64), reply()).result()
    store.put(parts(temperature=0.5, max_tokens=64, model="other"), reply()).result()
    assert store.nearest(parts()) == {"max_tokens": (64, 512)}


def test_nearest_prefers_the_sample_asked_for_then_others(store: ReplyStore) -> None:
    store.put_many([(parts(sample=0), reply()), (parts(sample=2), reply())])
    assert store.nearest(parts(sample=7)) == {"sample": (0, 7)}
    assert store.nearest(parts(sample=2, temperature=0.0)) == {"temperature": (1.0, 0.0)}
    assert store.nearest(parts(sample=1, temperature=0.0)) == {"temperature": (1.0, 0.0), "sample": (0, 1)}


def test_nearest_of_an_unknown_input_is_none(store: ReplyStore) -> None:
    store.put(parts(1), reply()).result()
    assert store.nearest(parts(2)) is None
    assert store.nearest(parts(1, order="AB")) is None


# --- facts, counters


def test_facts_are_seen_at_once_and_kept(store: ReplyStore) -> None:
    store.learn("local", "m", "temperature", None).result()
    store.learn("local", "m", "max_tokens", {"as": "max_completion_tokens"})
    assert store.facts("local", "m") == {"temperature": None, "max_tokens": {"as": "max_completion_tokens"}}
    store.learn("local", "m", "temperature", 1.0).result()  # learnt better
    assert store.facts("local", "other") == {}
    store.close()
    fresh = type(store)(store.cache, read_only=True)
    assert fresh.facts("local", "m") == {"temperature": 1.0, "max_tokens": {"as": "max_completion_tokens"}}
    fresh.close()


def test_counters_lose_nothing_between_threads() -> None:
    counters = Counters()

    def count() -> None:
        for _ in range(1000):
            counters.add(hits=1, misses=2, joins=3, saved_usd=0.25)
        counters.add(saved_usd=None)

    in_threads(*[count] * 8)
    # 8 threads × 1000; quarters add up exactly
    counts = {"hits": 8000, "misses": 16000, "joins": 24000, "stored": 0, "saved_usd": 2000.0, "paid_usd": 0.0}
    assert counters.as_dict() == counts


def test_stored_counts_what_was_appended(store: ReplyStore) -> None:
    store.put_many([(parts(1), reply()), (parts(2), reply()), (parts(1), reply("again"))])
    assert store.counters.as_dict()["stored"] == 2


# --- sharing


def test_open_gives_one_object_per_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ReplyStore.open(tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    assert ReplyStore.open(Path("x") / ".." / "cache") is store
    assert ReplyStore.open(str(tmp_path / "cache")) is store
    assert ReplyStore.open(tmp_path / "other") is not store
    reader = ReplyStore.open(tmp_path / "cache", read_only=True)
    assert reader is not store
    assert reader.read_only
    assert not store.read_only


def test_a_pickled_store_is_opened_again(store: ReplyStore) -> None:
    store.put(parts(), reply()).result()
    assert pickle.loads(pickle.dumps(store)) is store  # the same process


@in_a_file
def test_a_closed_store_opens_itself_again(store: ReplyStore) -> None:
    store.put(parts(1), reply()).result()
    store.close()
    store.close()
    # nothing is left over beside the file: the log was moved into it
    assert sorted(path.name for path in store.folder.iterdir()) == [".gitignore", "replies.sqlite"]
    store.put(parts(2), reply()).result()
    assert len(store.get_many([parts(1).key, parts(2).key])) == 2


def test_close_writes_what_was_handed_in(store: ReplyStore) -> None:
    waiters = [store.put(parts(number), reply()) for number in range(500)]
    store.close()
    assert all(waiter.done() for waiter in waiters)
    assert len(store.get_many([parts(number).key for number in range(500)])) == 500


def test_a_cancelled_waiter_costs_no_reply(store: ReplyStore) -> None:
    waiters = [store.put(parts(number), reply()) for number in range(200)]
    cancelled = [number for number, waiter in enumerate(waiters) if waiter.cancel()]
    store.put(parts(1000), reply()).result()
    assert len(store.get_many([parts(number).key for number in range(200)])) == 200
    for number in cancelled:
        with pytest.raises(CancelledError):
            waiters[number].result()


@pytest.mark.long
def test_threads_that_write_the_same_and_other_keys(store: ReplyStore) -> None:
    seen: list[tuple[bytes, bytes]] = []

    def work(who: int) -> None:
        for number in range(100):
            for asked in (parts(number), parts(number, sample=1 + who)):
                seen.append((asked.key, store.put(asked, reply(f"by {who}")).result()))
                assert asked.key in store.get_many([asked.key])

    in_threads(*(partial(work, who) for who in range(6)))
    # 100 shared keys, and 100 of each thread; every thread was shown the one stored value
    assert len({key for key, _ in seen}) == 700
    assert dict(seen) == store.get_many({key for key, _ in seen})
    assert len(set(seen)) == 700


def test_awaited_puts_resolve_in_the_loop(store: ReplyStore) -> None:
    async def main() -> list[bytes]:
        waiters = [store.aput(parts(number), reply(str(number))) for number in range(1500)]
        waiters[0].cancel()
        return await asyncio.gather(*waiters[1:])

    values = asyncio.run(main())
    assert [decoded(value).text for value in values] == [str(number) for number in range(1, 1500)]
    assert len(store.get_many([parts(number).key for number in range(1500)])) == 1500


def test_a_loop_that_ended_before_its_reply_was_stored(store: ReplyStore) -> None:
    async def main() -> None:
        for number in range(50):
            store.aput(parts(number), reply())

    asyncio.run(main())
    store.put(parts(99), reply()).result()
    assert len(store.get_many([parts(number).key for number in range(50)])) == 50


def test_a_reply_is_stored_before_anybody_sees_it(store: ReplyStore) -> None:
    seen = list[int]()  # replies that another connection reads while a reply is handed over

    def look(*_: object) -> None:
        seen.append(len(rows_of(store, "SELECT 1 FROM replies")))

    class Loop(asyncio.SelectorEventLoop):
        def call_soon_threadsafe(self, *arguments: Any, **options: Any) -> Any:
            look()
            return super().call_soon_threadsafe(*arguments, **options)

    async def main() -> None:
        await store.aput(parts(3), reply())

    for number in (1, 2):
        waiter = Future[Any]()
        waiter.add_done_callback(look)
        store._writer.submit(Job(waiter, [row_of(parts(number), reply())]))
        waiter.result()
    store.flush()  # the callback of a waiter runs after whoever waits goes on
    assert seen == [1, 2]
    loop = Loop()
    loop.run_until_complete(main())
    loop.close()
    assert set(seen[2:]) == {3}


@in_a_file
def test_a_failed_commit_reaches_everybody_who_waits(store: ReplyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(parts(0), reply()).result()
    with sqlite3.connect(store.path, isolation_level=None) as blocker:
        # another process in the middle of a write, and no patience left
        monkeypatch.setattr("evalkit.engine.cache.sqlite_connections._BUSY_S", 0.05)
        store.close()
        blocker.execute("BEGIN IMMEDIATE")

        async def main() -> BaseException | bytes:
            return (await asyncio.gather(store.aput(parts(1), reply()), return_exceptions=True))[0]

        waiters: list[Any] = [store.put(parts(2), reply()), store.put(parts(3), reply())]
        for waiter in waiters:
            with pytest.raises(CacheError, match=r"replies\.sqlite.*locked.*another process"):
                waiter.result()
        assert isinstance(asyncio.run(main()), CacheError)
        with pytest.raises(CacheError, match="locked"):
            store.put_many([(parts(4), reply())])
        blocker.execute("ROLLBACK")
    blocker.close()
    # afterwards all is well again, new shared parts included
    store.put(parts(5, model="new"), reply()).result()
    assert sorted(store.get_many([parts(n).key for n in range(5)])) == [parts(0).key]


operations = st.lists(
    st.tuples(
        st.sampled_from(["put", "overwrite", "refresh"]),
        st.integers(0, 2),
        st.sampled_from(["live", "recorded"]),
        st.integers(1, 30),
    ),
    max_size=20,
)


@pytest.mark.long
@settings(max_examples=30)  # each makes a store, and waits for the disk
@given(operations)
def test_puts_follow_the_stated_rule(tmp_path_factory: pytest.TempPathFactory, operations: list[Any]) -> None:
    """The rule of `put`, restated over plain lists: what is newest, and nothing ever lost."""
    store = ReplyStore(tmp_path_factory.mktemp("rule"), read_only=False)
    model: dict[int, list[Reply]] = {}
    numbers = itertools.count()
    for kind, number, source, created in operations:
        new = reply(f"reply {next(numbers)}", created=float(created), source=source)
        history = model.setdefault(number, [])
        appended = (
            not history
            or kind == "overwrite"
            or (kind == "refresh" and history[-1].created < 15.0)
            or (source == "live" and history[-1].source == "recorded")
        )
        if appended:
            history.append(new)
        value = store.put(
            parts(number), new, overwrite=kind == "overwrite", newer_than=15.0 if kind == "refresh" else None
        ).result()
        assert decoded(value) == history[-1]
    for number, history in model.items():
        assert [text for _, text in generations(store, parts(number).key)] == [old.text for old in history]
    found = store.get_many([parts(number).key for number in range(3)])
    assert {key: decoded(value) for key, value in found.items()} == {
        parts(number).key: history[-1] for number, history in model.items()
    }
    store.close()


def test_the_reply_of_an_earlier_time(tmp_path):
    store = ReplyStore.open(tmp_path)
    for created, text in ((1000.0, "old"), (2000.0, "new")):
        store.put(parts(0), reply(text, created), overwrite=True).result()
    key, content = parts(0).key, parts(0).content_key
    for until, expected in ((None, "new"), (2000.0, "new"), (1999.0, "old"), (999.0, None)):
        stored = store.get_many([key], until=until)
        by_content = store.get_by_content([content], until=until)
        assert [decoded(value).text for value in stored.values()] == [expected] * len(stored)
        assert list(by_content.values()) == list(stored.items())
        assert list(stored) == ([] if expected is None else [key])
