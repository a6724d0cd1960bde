"""The timer of computing time ends what it should, and leaves the handlers of signals as they were."""

import gc
import signal

import pytest

from evalkit.gate.time_limit import TooSlowError, can_limit, limited


@pytest.mark.skipif(not can_limit(), reason="no timer of computing time here")
def test_a_handler_is_as_before_also_after_an_error() -> None:
    def own(*_: object) -> None:
        raise AssertionError

    before = signal.signal(signal.SIGVTALRM, own)
    try:
        with limited(60):
            assert signal.getsignal(signal.SIGVTALRM) is not own
        assert signal.getsignal(signal.SIGVTALRM) is own
        with pytest.raises(ValueError, match="within"), limited(60):
            raise ValueError("within")
        assert signal.getsignal(signal.SIGVTALRM) is own
        assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    finally:
        signal.signal(signal.SIGVTALRM, before)


@pytest.mark.skipif(not can_limit(), reason="no timer of computing time here")
@pytest.mark.parametrize("where", ["callback", "finalizer"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_limit_that_runs_out_where_python_ignores_errors_ends_the_computing_all_the_same(where: str) -> None:
    def busy(*_: object) -> None:
        for _number in range(5_000_000):
            pass

    class Garbage:
        __del__ = busy

    def compute() -> None:
        if where == "callback":
            gc.collect()
        else:
            Garbage()
        for _number in range(500_000_000):  # ends after some seconds if the limit is broken
            pass

    if where == "callback":
        gc.callbacks.append(busy)
    try:
        with pytest.raises(TooSlowError), limited(0.02):
            compute()
    finally:
        if busy in gc.callbacks:
            gc.callbacks.remove(busy)
