"""The timer of computing time leaves the handlers of signals as they were."""

import signal

import pytest

from evalkit.gate.computing_time import can_limit, limited


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
