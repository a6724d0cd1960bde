"""The threads that evalkit starts."""

import threading

import pandas as pd

import evalkit as ek
from evalkit.core.threads import daemon_thread


def test_no_thread_counts_as_started_by_one_that_ends(monkeypatch, tmp_path):
    """As ipykernel 6.29 to 6.31 keeps threads: a circle of numbers that the system gave again hangs what is printed."""
    started: list[tuple[str, int]] = []
    init, run = threading.Thread.__init__, threading.Thread.run

    def kept_init(self, *args, **kwargs):
        init(self, *args, **kwargs)
        self._ipykernel_parent_thread_ident = threading.get_ident()

    def kept_run(self):
        started.append((self.name, self._ipykernel_parent_thread_ident))
        run(self)

    monkeypatch.setattr(threading.Thread, "__init__", kept_init)
    monkeypatch.setattr(threading.Thread, "run", kept_run)
    items = pd.DataFrame({"item_id": ["a", "b"], "question": ["2 + 2?", "3 + 3?"], "answer": ["4", "7"]})

    def study() -> None:
        ek.judge(items, "relevancy", "fake:strict", cache=tmp_path / "cache")
        tuner = ek.RubricTuner(items, "relevancy", "fake:noisy", cache=tmp_path / "cache", folder=tmp_path)
        tuner.receive({"do": "run"})
        assert tuner.wait_idle(60)

    outer = daemon_thread(study, "of a user")
    outer.start()
    outer.join(120)
    assert not outer.is_alive()
    ours = {name: parent for name, parent in started if name.startswith("evalkit")}
    assert {"evalkit-widget"} < set(ours)
    assert set(ours.values()) == {threading.main_thread().ident}


def test_arguments_and_name_arrive():
    seen: list[tuple[str, object]] = []
    thread = daemon_thread(lambda value: seen.append((threading.current_thread().name, value)), "one", 3)
    assert thread.daemon
    thread.start()
    thread.join(10)
    assert seen == [("one", 3)]
