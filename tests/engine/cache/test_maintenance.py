"""Export, import, promote, prune, clear, statistics."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cache_setup import BOTH, in_a_file, opened, parts, reply, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st
from in_threads import in_threads

from evalkit.cli import main
from evalkit.core.prompts_and_replies import Reply
from evalkit.engine.cache import ReplyStore
from evalkit.engine.cache import maintenance as transfer
from evalkit.engine.cache.writer import decoded
from evalkit.errors import CacheError


@pytest.fixture(params=BOTH)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ReplyStore]:
    store = opened(request, tmp_path / "cache")
    yield store
    store.close()


@pytest.mark.parametrize("usd", [0.0, 0.0001, 0.0036, 0.0049, 0.005, 0.25, 12.345, 1234.5])
def test_all_that_names_a_sum_names_the_same(usd: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, shown = ReplyStore.open(tmp_path), f"US$ {usd:.4f}"
    store.put(parts(0), reply(cost_usd=usd)).result()
    with pytest.raises(CacheError, match="which cost") as refused:
        store.clear()
    assert f"which cost {shown};" in str(refused.value)
    assert f"MB, {shown})" in str(store.prune(older_than=1e12, apply=False))
    store.close()
    assert not main(["cache", "stats", "--cache", str(tmp_path)])
    assert shown in capsys.readouterr().out
    assert not main(["cache", "prune", "--older-than", "2100-01-01", "--cache", str(tmp_path)])
    assert shown in capsys.readouterr().err


@pytest.fixture
def other(tmp_path: Path) -> ReplyStore:
    return ReplyStore.open(tmp_path / "other")


def fill(store: ReplyStore) -> ReplyStore:
    """A store with ten replies of nine keys: two judges, two rubrics, one recorded, one refreshed."""
    store.put_many(
        [(parts(number), reply(f"ответ {number}", created=1000.0 + number, cost_usd=0.25)) for number in range(4)]
        + [(parts(number, model="other", provider="fake", service="local"), reply()) for number in range(2)]
        + [(parts(0, rubric="tone", rubric_version="v2"), reply("t", cost_usd=0.5))]
        + [(parts(1, order="AB", sample=3), reply(None, source="recorded", refusal="no"))]
        + [(parts(2, params={"top_p": 0.9}), reply("p", sent={"top_p": None}))]
    )
    store.put(parts(0), reply("refreshed", created=5000.0), newer_than=4000.0).result()
    return store


def exported(store: ReplyStore, folder: Path) -> Path:
    """The file to which a store was exported."""
    store.export(folder / "replies.jsonl")
    return folder / "replies.jsonl"


def everything(store: ReplyStore) -> list[tuple[Any, ...]]:
    return rows_of(
        store,
        'SELECT key, generation, parts, input_hash, "order", sample, content_key, created, source, cost_usd, '
        "promoted_from, value FROM replies JOIN calls USING (call_id) ORDER BY key, generation",
    )


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# --- export and import


def test_exported_lines_are_sorted_and_say_it_all(store: ReplyStore, tmp_path: Path) -> None:
    fill(store)
    path = tmp_path / "replies.jsonl"
    assert store.export(path) == 10
    lines = lines_of(path)
    places = [(line["key"], line["generation"]) for line in lines]
    assert places == sorted(places)
    assert path.read_bytes().endswith(b"}\n")
    refreshed = [line for line in lines if line["key"] == parts(0).key.hex()]
    assert [(line["generation"], line["reply"]["text"]) for line in refreshed] == [(0, "ответ 0"), (1, "refreshed")]
    assert refreshed[0] == {
        "key": parts(0).key.hex(),
        "generation": 0,
        "parts": parts(0).as_dict(),
        "reply": {"text": "ответ 0", "created": 1000.0, "source": "live", "cost_usd": 0.25},
    }


def test_import_makes_an_equal_store_and_equal_bytes(store: ReplyStore, other: ReplyStore, tmp_path: Path) -> None:
    fill(store)
    store.promote("support", "v1", "v2", ["a" * 64])
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    store.export(first)
    n_replies = store.stats()["n_replies"]
    report = other.import_(first)
    assert (report.n_lines, report.n_added, report.n_present, report.n_conflicts) == (n_replies, n_replies, 0, 0)
    assert everything(other) == everything(store)
    other.export(second)
    assert second.read_bytes() == first.read_bytes()
    # again: nothing changes
    again = other.import_(first)
    assert (again.n_added, again.n_present) == (0, n_replies)
    assert str(again) == f"{n_replies} replies read: 0 added, {n_replies} stored already"
    assert everything(other) == everything(store)


def test_lines_may_come_in_any_order(store: ReplyStore, other: ReplyStore, tmp_path: Path) -> None:
    path = exported(fill(store), tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    random.Random(3).shuffle(lines)
    path.write_bytes(b"\n".join(lines) + b"\n  \n")  # blank lines between
    other.import_(path)
    assert everything(other) == everything(store)


def test_an_empty_file_and_an_empty_store(store: ReplyStore, other: ReplyStore, tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    assert store.export(path) == 0
    assert path.read_bytes() == b""
    assert other.import_(path).n_lines == 0


@pytest.mark.parametrize(
    ("chosen", "count"),
    [
        ({"rubric": "tone"}, 1),
        ({"rubric": "tone@v2"}, 1),
        ({"rubric": "tone@v1"}, 0),
        ({"rubric": "support"}, 9),
        ({"model": "other"}, 2),
        ({"model": "fake:other"}, 2),
        ({"model": "openai:other"}, 0),
        ({"model": "gpt-4o-mini", "rubric": "support"}, 7),
        ({"source": "recorded"}, 1),
    ],
)
def test_export_of_a_part(store: ReplyStore, tmp_path: Path, chosen: dict[str, Any], count: int) -> None:
    fill(store)
    path = tmp_path / "part.jsonl"
    assert store.export(path, **chosen) == count
    assert len(lines_of(path)) == count


def test_an_unknown_source_is_named(store: ReplyStore, tmp_path: Path) -> None:
    with pytest.raises(CacheError, match="unknown source 'cache'; allowed: 'live', 'batch', 'recorded'"):
        store.export(tmp_path / "x.jsonl", source="cache")


def test_export_that_cannot_be_written_leaves_the_old_file(store: ReplyStore, tmp_path: Path) -> None:
    fill(store)
    with pytest.raises(CacheError, match=r"could not be exported to .*missing"):
        store.export(tmp_path / "missing" / "x.jsonl")
    (tmp_path / "folder").mkdir()
    with pytest.raises(CacheError, match="could not be exported"):
        store.export(tmp_path / "folder")
    assert {path.name for path in tmp_path.iterdir()} - {"cache"} == {"folder"}


def test_an_export_through_a_link_leaves_the_link(store: ReplyStore, tmp_path: Path) -> None:
    fill(store)
    (tmp_path / "real.jsonl").write_text("old")
    (tmp_path / "link.jsonl").symlink_to("real.jsonl")
    assert store.export(tmp_path / "link.jsonl") == 10
    assert (tmp_path / "link.jsonl").is_symlink()
    assert len(lines_of(tmp_path / "real.jsonl")) == 10
    with pytest.raises(CacheError, match="already exists; choose another path for export_to"):
        store.prune(model="other", apply=True, export_to=tmp_path / "link.jsonl")


def test_export_holds_what_is_still_being_written(store: ReplyStore, tmp_path: Path) -> None:
    for number in range(200):
        store.put(parts(number), reply())
    assert store.export(tmp_path / "x.jsonl") == 200


Spoil = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda line: line.update(key="0" * 64), r"the key 000000000000… does not belong to this reply"),
        (lambda line: line["parts"].update(temperature=0.0), "does not belong to this reply"),
        (lambda line: line["parts"].update(temperature=1), "does not belong to this reply"),  # 1 and 1.0 are two keys
        (lambda line: line["parts"].update(schema=2), r"parts\.schema: must be 1"),
        (lambda line: line["parts"].update(sample=-1), r"parts\.sample: .*greater than or equal to 0"),
        (lambda line: line["parts"].update(sample=2**40), r"parts\.sample"),
        (lambda line: line["parts"].update(input_hash="zz"), r"parts\.input_hash"),
        (lambda line: line["parts"].update(input_hash="A" * 64), r"parts\.input_hash"),
        (lambda line: line["parts"].update(order="BC"), r"parts\.order: must be 'AB' or 'BA', got 'BC'"),
        (lambda line: line["parts"].update(extra=1), r"unknown key 'parts\.extra'"),
        (lambda line: line["parts"].pop("model"), r"the key 'parts\.model' is missing"),
        (lambda line: line["reply"].pop("text"), r"the key 'reply\.text' is missing"),
        (lambda line: line["reply"].update(text=2), r"reply\.text: must be a valid string"),
        (lambda line: line["reply"].update(created=0), r"reply\.created"),
        (lambda line: line["reply"].update(created="now"), r"reply\.created"),
        (lambda line: line["reply"].update(cost_usd=-1.0), r"reply\.cost_usd"),
        (lambda line: line["reply"].update(prompt_tokens=True), r"reply\.prompt_tokens"),
        (lambda line: line["reply"].update(source="trace"), r"reply\.source"),
        (lambda line: line["reply"].update(pickle="gASV"), r"unknown key 'reply\.pickle'"),
        (lambda line: line.update(generation="0"), "generation"),
        (lambda line: line.update(generation=-1), "generation"),
        (lambda line: line.update(promoted_from="x"), "promoted_from"),
        (lambda line: line.update(call_id=1), "unknown key 'call_id'"),
    ],
)
@pytest.mark.long
def test_a_line_that_is_wrong_is_named_and_nothing_imported(
    store: ReplyStore, other: ReplyStore, tmp_path: Path, spoil: Spoil, message: str
) -> None:
    path = exported(fill(store), tmp_path)
    lines = path.read_text(encoding="utf-8").splitlines()
    seventh = json.loads(lines[6])
    spoil(seventh)
    lines[6] = json.dumps(seventh, ensure_ascii=False)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(CacheError, match=rf"replies\.jsonl, line 7: .*{message}.*; nothing was imported"):
        other.import_(path)
    assert other.stats()["n_replies"] == 0


@pytest.mark.parametrize(
    "tail",
    [b'{"key":"00', b"[1]\n", b"null\n", b'"x"\n', b"\xff\xfe\n", b"{}\n", b"{}{}\n", b"[" * 5000 + b"\n", b"\x00\n"],
)
def test_what_is_no_line_is_an_error_that_names_it(
    store: ReplyStore, other: ReplyStore, tmp_path: Path, tail: bytes
) -> None:
    path = exported(fill(store), tmp_path)
    path.write_bytes(path.read_bytes() + tail)
    with pytest.raises(CacheError, match=r"line 11: .*nothing was imported"):
        other.import_(path)
    assert other.stats()["n_replies"] == 0


def test_every_truncation_of_the_last_line_is_seen(store: ReplyStore, other: ReplyStore, tmp_path: Path) -> None:
    store.put_many([(parts(number), reply()) for number in range(2)])
    path = exported(store, tmp_path)
    whole = path.read_bytes()
    start = whole.index(b"\n") + 1
    for end in range(start + 1, len(whole) - 1, 7):
        path.write_bytes(whole[:end])
        with pytest.raises(CacheError, match=r"line 2: .*may be truncated"):
            other.import_(path)
    assert other.stats()["n_replies"] == 0
    path.write_bytes(whole[:-1])  # the line break alone is missing: the line is whole
    assert other.import_(path).n_added == 2


def test_one_place_given_twice_is_an_error(store: ReplyStore, other: ReplyStore, tmp_path: Path) -> None:
    store.put(parts(), reply()).result()
    path = exported(store, tmp_path)
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(CacheError, match="line 2: an earlier line is the same reply"):
        other.import_(path)
    assert other.stats()["n_replies"] == 0


def test_a_missing_file_is_an_error(store: ReplyStore, tmp_path: Path) -> None:
    with pytest.raises(CacheError, match=r"cannot be imported: .*No such file"):
        store.import_(tmp_path / "none.jsonl")


def test_on_a_conflict_the_stores_own_history_stays(store: ReplyStore, other: ReplyStore, tmp_path: Path) -> None:
    """Two people judged apart: shared history is continued, another one is not mixed in."""
    path = tmp_path / "replies.jsonl"
    for both in (store, other):
        both.put_many([(parts(1), reply("same")), (parts(2), reply("same"))])
    store.put(parts(2), reply("refreshed there", created=3000.0), newer_than=2000.0).result()
    store.put_many([(parts(3), reply("theirs")), (parts(4), reply("new"))])
    store.put(parts(3), reply("theirs, refreshed", created=3000.0), newer_than=2000.0).result()
    other.put(parts(3), reply("mine")).result()
    store.export(path)
    report = other.import_(path)
    # six lines: 1 and the first of 2 are there; the refresh of 2 and 4 are new; both of 3 are left out
    assert (report.n_lines, report.n_present, report.n_added, report.n_conflicts) == (6, 2, 2, 2)
    assert str(report).endswith("2 left out because the store has other replies for their keys")
    found = other.get_many([parts(number).key for number in range(1, 5)])
    assert [decoded(found[parts(number).key]).text for number in range(1, 5)] == [
        "same",
        "refreshed there",
        "mine",
        "new",
    ]


def test_what_was_pruned_can_be_put_back(store: ReplyStore, tmp_path: Path) -> None:
    fill(store)
    before = everything(store)
    path = tmp_path / "pruned.jsonl"
    store.prune(keep_generations=1, apply=True, export_to=path)
    assert len(everything(store)) == len(before) - 1
    store.import_(path)
    assert everything(store) == before


def test_others_write_while_a_file_is_checked(
    store: ReplyStore, other: ReplyStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checking a long file does not lock the store: only taking over does."""
    store.put_many([(parts(number), reply()) for number in range(5)])
    path = exported(store, tmp_path)
    from evalkit.engine.cache import maintenance as transfer

    read, written = transfer._read, []

    def read_slowly(line: bytes) -> Any:
        written.append(other.put(parts(100 + len(written)), reply()).result(timeout=300))
        return read(line)

    monkeypatch.setattr(transfer, "_read", read_slowly)
    assert other.import_(path).n_added == 5
    assert len(written) == 5
    assert other.stats()["n_replies"] == 10


def test_hostile_params_do_not_confuse_the_key(store: ReplyStore, other: ReplyStore, tmp_path: Path) -> None:
    odd = parts(params={"a": 987654321987654321, "b": "input hash"})
    store.put(odd, reply()).result()
    path = exported(store, tmp_path)
    assert other.import_(path).n_added == 1
    assert list(other.get_many([odd.key])) == [odd.key]


replies = st.builds(
    Reply,
    text=st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    finish_reason=st.none() | st.sampled_from(["stop", "length"]),
    prompt_tokens=st.none() | st.integers(0, 10**6),
    cost_usd=st.none() | st.floats(0, 1e3),
    latency_s=st.none() | st.floats(0, 1e4) | st.integers(0, 9),
    created=st.floats(1, 2e9) | st.integers(1, 2 * 10**9),
    source=st.sampled_from(["live", "recorded"]),
    sent=st.none() | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.none() | st.floats(0, 1)),
)


@settings(max_examples=20)  # each makes two stores, and waits for the disk
@given(st.lists(st.tuples(st.integers(0, 3), replies), max_size=20))
@pytest.mark.long
def test_any_replies_survive_a_round_trip(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, Reply]]
) -> None:
    folder = tmp_path_factory.mktemp("trip")
    store, other = (ReplyStore(folder / name, read_only=False) for name in ("a", "b"))
    store.put_many([(parts(number), one) for number, one in rows], overwrite=True)
    first, second = folder / "first.jsonl", folder / "second.jsonl"
    n_lines = store.export(first)
    assert other.import_(first).n_added == n_lines
    other.export(second)
    assert first.read_bytes() == second.read_bytes()
    store.close()
    other.close()


# --- promote


def test_promote_writes_unchanged_criteria_under_the_new_version(store: ReplyStore) -> None:
    store.put_many([(parts(number), reply(f"kept {number}", cost_usd=0.25)) for number in range(3)])
    store.put_many([(parts(number, rubric_hash="e" * 64), reply("edited")) for number in range(3)])
    store.put(parts(0), reply("refreshed", created=9000.0, cost_usd=0.25), newer_than=8000.0).result()
    new = [parts(number, rubric_version="v2") for number in range(3)]
    edited = [parts(number, rubric_version="v2", rubric_hash="e" * 64) for number in range(3)]
    keys = [asked.key for asked in new]
    assert store.promote("support", "v1", "v2", ["a" * 64]) == 3
    found = store.get_many(keys)
    assert [decoded(found[key]).text for key in keys] == ["refreshed", "kept 1", "kept 2"]
    assert store.get_many([asked.key for asked in edited]) == {}
    # they can be told from own ones, and left out
    assert store.get_many(keys, promoted=False) == {}
    origins = dict(rows_of(store, "SELECT key, promoted_from FROM replies WHERE promoted_from IS NOT NULL"))
    assert origins == {asked.key: parts(number).key for number, asked in enumerate(new)}
    # again: nothing; and what they cost is not counted twice (3 + the refresh)
    assert store.promote("support", "v1", "v2", ["a" * 64]) == 0
    assert store.stats()["cost_usd"] == pytest.approx(4 * 0.25)
    assert store.stats()["n_promoted"] == 3


def test_promote_leaves_own_replies_alone_and_live_ones_replace_promoted(store: ReplyStore) -> None:
    old, new = parts(rubric_version="v1"), parts(rubric_version="v2")
    store.put(old, reply("old")).result()
    store.put(new, reply("own")).result()
    assert store.promote("support", "v1", "v2", ["a" * 64]) == 0
    assert decoded(store.get_many([new.key])[new.key]).text == "own"
    third = parts(rubric_version="v3")
    assert store.promote("support", "v1", "v3", ["a" * 64]) == 1
    # --no-promoted judged anew: what was paid for under this very key counts from now on
    assert decoded(store.put(third, reply("paid")).result()).text == "paid"
    assert decoded(store.get_many([third.key], promoted=False)[third.key]).text == "paid"


def test_promoted_twice_names_the_first_origin(store: ReplyStore) -> None:
    store.put(parts(rubric_version="v1"), reply()).result()
    store.promote("support", "v1", "v2", ["a" * 64])
    store.promote("support", "v2", "v3", ["a" * 64])
    rows = rows_of(store, "SELECT promoted_from FROM replies WHERE promoted_from IS NOT NULL")
    assert rows == [(parts(rubric_version="v1").key,)] * 2


@pytest.mark.parametrize("arguments", [("support", "v9", "v2", ["a" * 64]), ("other", "v1", "v2", ["a" * 64])])
def test_promote_of_what_is_not_there(store: ReplyStore, arguments: Any) -> None:
    store.put(parts(), reply()).result()
    assert store.promote(*arguments) == 0
    assert store.promote("support", "v1", "v2", []) == 0
    assert store.stats()["n_replies"] == 1


def test_promote_keeps_order_and_sample(store: ReplyStore) -> None:
    asked = [parts(1, order="AB", sample=2), parts(1, order="AB", sample=3)]
    store.put_many([(one, reply(str(number))) for number, one in enumerate(asked)])
    store.promote("support", "v1", "v2", ["a" * 64])
    new = [parts(1, order="AB", sample=sample, rubric_version="v2") for sample in (2, 3)]
    found = store.get_many([one.key for one in new])
    assert [decoded(found[one.key]).text for one in new] == ["0", "1"]
    assert len(store.get_by_content([one.content_key for one in asked])) == 2


# --- prune and clear


def test_prune_is_a_dry_run_unless_told_otherwise(store: ReplyStore) -> None:
    fill(store)
    before = everything(store)
    report = store.prune(older_than=1002.0)
    # support 0 and 1 (1000, 1001: US$ 0.25 each), the two of the other model, tone (0.5), recorded, top_p: all at 1000
    assert (report.n_replies, report.n_keys, report.cost_usd, report.applied) == (7, 7, 1.0, False)
    assert str(report).startswith("would remove 7 replies of 7 keys")
    assert everything(store) == before
    assert [path.name for path in store.folder.glob("*.jsonl")] == []


@pytest.mark.parametrize(
    ("chosen", "n_removed"),
    [
        ({"older_than": 1002.0}, 7),
        ({"older_than": 1.0}, 0),
        ({"older_than": 1e10}, 10),
        ({"rubric": "tone"}, 1),
        ({"model": "fake:other"}, 2),
        ({"keep_generations": 1}, 1),
        ({"keep_generations": 2}, 0),
        ({"keep_generations": 1, "model": "other"}, 0),
        ({"rubric": "support@v1", "older_than": 1001.5}, 6),
        ({"rubric": "none"}, 0),
    ],
)
def test_prune_removes_what_it_said_and_exports_it_before(
    store: ReplyStore, other: ReplyStore, chosen: dict[str, Any], n_removed: int
) -> None:
    fill(store)
    before = everything(store)
    dry = store.prune(**chosen)
    report = store.prune(**chosen, apply=True)
    after = everything(store)
    assert dry.n_replies == report.n_replies == n_removed == len(before) - len(after)
    assert (dry.n_keys, dry.n_bytes, dry.cost_usd) == (report.n_keys, report.n_bytes, report.cost_usd)
    assert report.exported_to.parent == store.folder
    assert set(after) <= set(before)
    # what is gone is in the file, all of it
    other.import_(report.exported_to)
    assert set(everything(other)) == set(before) - set(after)


def test_prune_keeps_the_newest_generation(store: ReplyStore) -> None:
    for number in range(5):
        store.put(parts(), reply(str(number), created=1000.0 + number), overwrite=True).result()
    assert store.prune(keep_generations=2, apply=True).n_replies == 3
    assert decoded(store.get_many([parts().key])[parts().key]).text == "4"
    store.put(parts(), reply("5"), overwrite=True).result()
    assert [row[1] for row in everything(store)] == [3, 4, 5]


def test_prune_needs_a_condition_and_a_new_file(store: ReplyStore, tmp_path: Path) -> None:
    fill(store)
    with pytest.raises(CacheError, match=r"prune\(\) needs a condition; .*remove everything with clear\(\)"):
        store.prune(apply=True)
    with pytest.raises(CacheError, match="keep_generations must be 1 or more, got 0"):
        store.prune(keep_generations=0, apply=True)
    (tmp_path / "there.jsonl").touch()
    with pytest.raises(CacheError, match="already exists; choose another path for export_to; no replies were removed"):
        store.prune(model="other", apply=True, export_to=tmp_path / "there.jsonl")
    with pytest.raises(CacheError, match="could not be exported"):
        store.prune(model="other", apply=True, export_to=tmp_path / "missing" / "x.jsonl")
    assert store.stats()["n_replies"] == 10


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What the calls gave, each in a thread of its own; a CacheError as its text."""

    def run(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except CacheError as problem:
            return str(problem)

    return in_threads(*(partial(run, call) for call in calls))


def test_two_prunes_at_once_into_one_file_lose_nothing(store: ReplyStore, other: ReplyStore, tmp_path: Path) -> None:
    """Who comes second finds the file there, and does not replace it by an empty one."""
    for turn in range(3):
        store.put(parts(turn), reply(str(turn))).result()
        target = tmp_path / f"pruned-{turn}.jsonl"
        prune = partial(store.prune, model="gpt-4o-mini", apply=True, export_to=target)
        found = at_once(prune, prune)
        refused = [one for one in found if isinstance(one, str)]
        assert len(refused) == 1, found
        assert "already exists; choose another path for export_to; no replies were removed" in refused[0]
        assert other.import_(target).n_added == 1


def test_a_prune_replaces_no_file_that_another_store_just_wrote(
    store: ReplyStore, other: ReplyStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store)
    fill(other)
    target, lines = tmp_path / "pruned.jsonl", transfer._lines

    def slow_lines(*given: Any) -> Iterator[bytes]:
        yield from lines(*given)
        if given[1].model == "gpt-4o-mini":
            other.prune(model="other", apply=True, export_to=target)

    monkeypatch.setattr(transfer, "_lines", slow_lines)
    with pytest.raises(CacheError, match="already exists; choose another path for export_to; no replies were removed"):
        store.prune(model="gpt-4o-mini", apply=True, export_to=target)
    assert store.stats()["n_replies"] == 10
    assert {line["parts"]["model"] for line in lines_of(target)} == {"other"}
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["pruned.jsonl"]


def test_exports_at_once_into_one_file_are_each_whole(store: ReplyStore, tmp_path: Path) -> None:
    fill(store)
    target = tmp_path / "all.jsonl"
    for _ in range(3):
        assert at_once(*[partial(store.export, target)] * 4) == [10] * 4
        assert len(lines_of(target)) == 10
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["all.jsonl"]


def test_imports_at_once_add_each_reply_once(store: ReplyStore, other: ReplyStore, tmp_path: Path) -> None:
    fill(store)
    store.export(tmp_path / "all.jsonl")
    found = at_once(*[partial(other.import_, tmp_path / "all.jsonl")] * 3)
    assert sorted(report.n_added for report in found) == [0, 0, 10]
    assert everything(other) == everything(store)


@in_a_file
def test_prune_gives_the_space_back(store: ReplyStore) -> None:
    store.put_many([(parts(number), reply("x" * 1000)) for number in range(1000)])
    store.close()
    before = store.path.stat().st_size
    store.prune(model="gpt-4o-mini", apply=True)
    store.close()
    assert store.path.stat().st_size < before / 10
    store.put(parts(1), reply()).result()
    assert len(store.get_many([parts(1).key])) == 1


def test_a_writer_goes_on_after_a_prune(store: ReplyStore) -> None:
    # the writer remembers ids of shared parts: they must outlive their replies
    store.put(parts(1), reply()).result()
    store.prune(model="gpt-4o-mini", apply=True)
    store.put(parts(2), reply()).result()
    assert store.stats()["judges"][0]["model"] == "gpt-4o-mini"


def test_clear_asks_for_the_number(store: ReplyStore) -> None:
    fill(store)
    for confirm in (None, "yes", "delete 9 replies", "delete 10 replies "):
        with pytest.raises(
            CacheError, match=r"all 10 replies .* cost US\$ 1\.5000; .*clear\(confirm='delete 10 replies'"
        ):
            store.clear(confirm=confirm)
    assert store.stats()["n_replies"] == 10
    report = store.clear(confirm="delete 10 replies")
    assert report.applied
    assert str(report).endswith(str(report.exported_to))
    assert store.stats()["n_replies"] == 0
    assert store.import_(report.exported_to).n_added == 10


# --- statistics


def test_stats(store: ReplyStore) -> None:
    fill(store)
    store.promote("support", "v1", "v2", ["a" * 64])
    stats = store.stats()
    # promoted: the 8 keys of support@v1
    assert stats["n_replies"] == 18
    assert stats["n_keys"] == 17
    assert (stats["n_live"], stats["n_recorded"], stats["n_promoted"]) == (16, 2, 8)
    assert stats["cost_usd"] == pytest.approx(4 * 0.25 + 0.5)
    assert stats["path"] == store.place
    assert stats["n_bytes"] > sum(len(value) for (value,) in rows_of(store, "SELECT value FROM replies"))
    assert stats["judges"] == [
        {"provider": "fake", "service": "local", "model": "other", "n_replies": 4, "cost_usd": 0.0},
        {
            "provider": "openai",
            "service": "api.openai.com",
            "model": "gpt-4o-mini",
            "n_replies": 14,
            "cost_usd": pytest.approx(1.5),
        },
    ]
    assert stats["rubrics"] == [
        {"rubric": "support", "rubric_version": "v1", "n_replies": 9, "cost_usd": pytest.approx(1.0)},
        {"rubric": "support", "rubric_version": "v2", "n_replies": 8, "cost_usd": 0.0},
        {"rubric": "tone", "rubric_version": "v2", "n_replies": 1, "cost_usd": pytest.approx(0.5)},
    ]
    assert stats["session"]["stored"] == 10
    json.dumps(stats)
