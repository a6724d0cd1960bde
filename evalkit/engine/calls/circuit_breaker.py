"""What a failed attempt means: for the call, how long to wait; for the judge, whether it is down."""

from __future__ import annotations

import random
from typing import NamedTuple

from evalkit.core.choices import Reason
from evalkit.core.records import Failure
from evalkit.engine.providers.client import ProviderError

__all__ = ["FAILURES_TO_CLOSE", "Breaker", "Wait", "reason_of", "wait_of"]

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
LONGEST_RETRY_AFTER_S = 300.0
FAILURES_TO_CLOSE = 8

_REASONS: dict[str, Reason] = {"timeout": "timeout", "rate_limited": "rate_limited"}
_TRANSPORT = ("connection", "timeout", "malformed")
_FOR_GOOD = ("auth", "unknown_model")
_HOPELESS = ("client_error", "refused_parameter")


def reason_of(problem: ProviderError) -> Reason:
    """The reason of a call that ends with this problem."""
    return _REASONS.get(problem.kind, "server_error")


class Wait(NamedTuple):
    """Seconds until a call is tried again, and for which nobody else on its lane is to start (429)."""

    call_s: float
    lane_s: float = 0.0


def wait_of(problem: ProviderError, tried: int) -> Wait | None:
    """How long to wait after the `tried`-th repetition; None where there is no hope, or no patience that long."""
    asked = problem.retry_after
    if problem.kind in _HOPELESS or (asked or 0.0) > LONGEST_RETRY_AFTER_S:
        return None
    spread = random.uniform(0.5, 1.0)  # noqa: S311  # jitter, no secret
    wait = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0**tried) * spread
    if problem.kind != "rate_limited":
        return Wait(max(wait, asked or 0.0))
    if asked is None:
        return Wait(wait, wait)
    # each call a little longer than the lane, so that they do not all come back at once
    return Wait(asked + FIRST_WAIT_S * spread / 4, asked)


class Breaker:
    """Closes a judge that cannot answer, so that its other calls are not tried one after another.

    Attributes
    ----------
    down
        Why no more is asked, or None.
    """

    def __init__(self) -> None:
        self.down: Failure | None = None
        self._answered = False
        self._in_row = 0
        self._gave_up = 0

    def answered(self) -> None:
        """A reply came: from now on failures are those of single calls."""
        self._answered = True

    def failed(self, problem: ProviderError) -> bool:
        """Count a failed attempt; whether the judge is down."""
        if problem.kind in _FOR_GOOD:
            self.down = Failure("judge_down", problem.detail)
        elif problem.kind in _TRANSPORT and not self._answered:
            self._in_row += 1
            if self._in_row >= FAILURES_TO_CLOSE:
                self._close(f"{FAILURES_TO_CLOSE} failures in a row before any answer", problem)
        return self.down is not None

    def gave_up(self, problem: ProviderError, failure: Failure, *, hopeless: bool) -> bool:
        """Count a call that ended with `failure`; whether the judge is down.

        A server that is still loading its model says so by 503: single refusals count for nothing, calls that were
        tried to the end do. A limit that lasts longer than anybody waits ends all calls with that reason.
        """
        if problem.kind == "rate_limited" and hopeless:
            self.down = self.down or failure
        elif problem.kind == "server_error" and not hopeless and not self._answered:
            self._gave_up += 1
            if self._gave_up >= FAILURES_TO_CLOSE:
                self._close(f"{FAILURES_TO_CLOSE} calls were tried to the end before any answer", problem)
        return self.down is not None

    def _close(self, why: str, problem: ProviderError) -> None:
        if self.down is None:
            self.down = Failure("judge_down", f"{why}, the last: {problem.detail}")
