"""Claims between calls and between processes: taken whole or not at all, gone when the process is."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cache_setup import parts, python, reply

from evalkit.engine.cache import ReplyStore
from evalkit.engine.cache.in_flight import Claims
from evalkit.errors import CacheError

A, B, C = (bytes([n]) * 32 for n in (1, 2, 3))

HOLD = """
import sys
from pathlib import Path
from evalkit.engine.cache.in_flight import Claims
claims = Claims(Path(sys.argv[1]))
print(claims.take([bytes.fromhex(key) for key in sys.argv[2:]]), flush=True)
sys.stdin.readline()
"""

posix = pytest.mark.skipif(sys.platform == "win32", reason="there are no claims between processes on Windows")


def holder(folder: Path, *keys: bytes) -> subprocess.Popen[str]:
    return python(HOLD, folder, *(key.hex() for key in keys))


def said(child: subprocess.Popen[str]) -> str:
    return child.stdout.readline().strip()


def end(child: subprocess.Popen[str]) -> None:
    child.communicate("\n", timeout=300)


def test_two_calls_of_one_process_cannot_claim_the_same_sample(tmp_path: Path) -> None:
    claims = Claims(tmp_path)
    assert claims.take([A, B])
    assert not claims.take([C, B])
    assert claims.take([C]), "what a refused claim held was let go"
    claims.release([B])
    assert claims.take([B])
    claims.close()


def test_a_call_that_names_a_sample_twice_does_not_claim_it(tmp_path: Path) -> None:
    claims = Claims(tmp_path)
    assert not claims.take([A, A])
    assert claims.take([A])
    claims.close()


@posix
def test_another_process_sees_a_claim_until_it_is_released(tmp_path: Path) -> None:
    claims = Claims(tmp_path)
    assert claims.take([A])
    child = holder(tmp_path, A)
    assert said(child) == "False"
    end(child)
    child = holder(tmp_path, B)
    assert said(child) == "True"
    assert not claims.take([C, B])
    claims.release([A])
    other = holder(tmp_path, A, C)
    assert said(other) == "True", "C was not kept by the claim that failed at B"
    assert not claims.take([C])
    end(child)
    end(other)
    assert claims.take([A, B, C]), "the ends of the others let theirs go"
    claims.close()


@posix
def test_a_killed_process_leaves_no_claim(tmp_path: Path) -> None:
    claims, child = Claims(tmp_path), holder(tmp_path, A)
    assert said(child) == "True"
    assert not claims.take([A])
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=300)
    assert claims.take([A])
    claims.close()


@posix
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_holds_none_of_the_parents_claims_and_frees_none(tmp_path: Path) -> None:
    claims = Claims(tmp_path)
    assert claims.take([A])
    pid = os.fork()
    if pid == 0:
        claims = Claims(tmp_path)  # as the store does in a forked child
        refused = not claims.take([A])
        granted = claims.take([B])
        claims.close()
        os._exit(0 if refused and granted else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    other = holder(tmp_path, A)
    assert said(other) == "False", "the child's end did not let go what the parent holds"
    end(other)
    claims.close()


@posix
def test_a_folder_that_was_removed_and_made_anew_has_a_new_file(tmp_path: Path) -> None:
    claims, folder = Claims(tmp_path / "cache"), tmp_path / "cache"
    folder.mkdir()
    assert claims.take([A])
    for file in folder.iterdir():
        file.unlink()
    assert claims.take([B])
    other = holder(folder, B)
    assert said(other) == "False"
    end(other)
    claims.close()


def test_where_no_file_can_be_made_every_claim_is_granted(tmp_path: Path) -> None:
    claims = Claims(tmp_path / "nowhere")
    assert claims.take([A])
    assert not claims.take([A]), "within the process it counts all the same"
    claims.release([A])
    assert claims.take([A])
    claims.close()


def test_calls_of_one_turn_are_looked_up_together_and_claim_each_sample_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, looked_up = ReplyStore.open(tmp_path), list[int]()
    stored = store.put(parts(0), reply()).result()
    keys = [parts(number).key for number in range(4)]
    get_many = ReplyStore.get_many

    def counted(self: ReplyStore, wanted: Any, **options: Any) -> dict[bytes, bytes]:
        looked_up.append(len(wanted))
        return get_many(self, wanted, **options)

    monkeypatch.setattr(ReplyStore, "get_many", counted)

    async def ask() -> list[Any]:
        calls = [keys[:1], keys[1:3], keys[2:], keys[3:]]
        return await asyncio.gather(*(store.claim(some, since=None) for some in calls))

    assert asyncio.run(ask()) == [{keys[0]: stored}, {}, None, {}]
    assert looked_up == [4]
    store.claims.release(keys)
    assert asyncio.run(ask())[2] is None
    store.close()


@pytest.mark.parametrize("turns", range(5))
def test_a_call_that_is_cancelled_holds_no_claim(tmp_path: Path, turns: int) -> None:
    store = ReplyStore.open(tmp_path)

    async def ask() -> tuple[Any, Any]:
        held = await store.claim([B], since=None)
        calls = [asyncio.ensure_future(store.claim(keys, since=None)) for keys in ([A], [C, B])]
        for _ in range(turns):
            await asyncio.sleep(0)
        cancelled = [call for call in calls if call.cancel()]
        await asyncio.wait(calls)
        if not cancelled:
            store.claims.release([A])
        return held, [await store.claim([key], since=None) for key in (A, B, C)]

    assert asyncio.run(ask()) == ({}, [{}, None, {}])
    store.close()


def test_an_error_of_the_look_up_reaches_every_call_and_leaves_no_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ReplyStore.open(tmp_path)

    def broken(*_: Any, **__: Any) -> dict[bytes, bytes]:
        raise CacheError("the disk is gone")

    async def ask() -> list[Any]:
        with monkeypatch.context() as patch:
            patch.setattr(ReplyStore, "get_many", broken)
            failed = await asyncio.gather(*(store.claim([key], since=None) for key in (A, B)), return_exceptions=True)
        return [*map(str, failed), await store.claim([A, B], since=None)]

    assert asyncio.run(ask()) == ["the disk is gone", "the disk is gone", {}]
    store.close()
