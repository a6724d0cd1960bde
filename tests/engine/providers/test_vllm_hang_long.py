"""An engine of vLLM whose process died: calls end, the next one starts another engine: `vllm`, `in_process_models`."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import vllm_stand_in
from vllm_stand_in import LLM, LLMEngine

import evalkit as ek
from evalkit.engine.providers import in_process_models, vllm

ITEMS = [{"item_id": str(at), "question": f"{at} + 2?", "answer": "4", "reference": "4"} for at in range(3)]


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Steps do not return while the event is unset."""
    vllm_stand_in.install(monkeypatch)
    goes_on, step = threading.Event(), LLMEngine.step

    def waiting(self: LLMEngine) -> Any:
        goes_on.wait()
        return step(self)

    monkeypatch.setattr(LLMEngine, "step", waiting)
    monkeypatch.setattr(LLM, "reply", staticmethod(lambda *_: '{"explanation": "x", "score": 1}'))
    monkeypatch.setattr(vllm.VllmModel, "hangs_after_s", 0.3)
    monkeypatch.setattr(in_process_models, "_LOOK_S", 0.05)
    monkeypatch.setattr(in_process_models, "_DEAD_S", 0.1)
    yield goes_on
    goes_on.set()
    ek.engine.release_models()


def judged(cache: Path, timeout_s: float = 0.3, **options: Any) -> Any:
    judge = ek.Judge("vllm", "m", timeout_s=timeout_s)
    return ek.judge(ITEMS, "correctness", judge, samples=1, cache=cache, progress=False, **options)


def test_the_call_ends_with_a_timeout_and_the_next_starts_a_new_engine(tmp_path: Path, engine: threading.Event) -> None:
    assert judged(tmp_path, retries=0)["error"].tolist() == ["timeout"] * 3
    deadline = time.monotonic() + 60
    n_hung = len(LLM.made)  # more than one if a call came only after the first was given up
    while len(LLM.closed) < n_hung and time.monotonic() < deadline:  # by a thread of its own
        time.sleep(0.01)
    assert len(LLM.closed) == n_hung > 0, "its process is ended, which frees the memory"
    engine.set()
    assert judged(tmp_path, timeout_s=60)["score"].notna().all()
    assert len(LLM.made) == n_hung + 1
    assert judged(tmp_path, offline=True)["score"].notna().all()


def test_a_retry_finds_the_new_engine(tmp_path: Path, engine: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalkit.engine.providers.waits.FIRST_WAIT_S", 0.01)
    init = LLM.__init__

    def made(self: LLM, *arguments: Any, **options: Any) -> None:
        init(self, *arguments, **options)
        if len(LLM.made) == 2:
            engine.set()

    monkeypatch.setattr(LLM, "__init__", made)
    assert judged(tmp_path)["score"].notna().all()
    assert len(LLM.made) >= 2


def test_what_the_library_knows_of_its_dead_process_is_not_waited_for(tmp_path: Path, engine: threading.Event) -> None:
    del engine
    init = LLM.__init__

    def dead(self: LLM, *arguments: Any, **options: Any) -> None:
        init(self, *arguments, **options)
        self.llm_engine.engine_core.resources = SimpleNamespace(engine_dead=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LLM, "__init__", dead)
        table = judged(tmp_path, timeout_s=1000, retries=0)
    assert table["error"].notna().all()


def test_releasing_ends_too(tmp_path: Path) -> None:
    thread = threading.Thread(target=judged, args=(tmp_path,), kwargs={"retries": 0}, daemon=True)
    thread.start()
    while not LLM.made:
        assert thread.is_alive()
    assert ek.engine.release_models() == 1
    thread.join(60)
    assert not thread.is_alive()


def test_a_model_that_cannot_be_closed_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: threading.Event
) -> None:
    monkeypatch.setattr(in_process_models, "_CLOSE_WAIT_S", 0.1)
    monkeypatch.setattr(vllm.VllmModel, "close", lambda _: threading.Event().wait())
    assert judged(tmp_path, retries=0)["error"].eq("timeout").all()
    engine.set()
    assert judged(tmp_path, timeout_s=60)["score"].notna().all()
