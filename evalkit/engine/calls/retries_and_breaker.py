"""The circuit breaker of a judge."""

from __future__ import annotations

from dataclasses import dataclass, field

from evalkit.core.lists_of_choices import Reason
from evalkit.core.prompts_and_replies import Failure
from evalkit.engine.providers.provider_interface import ProviderError
from evalkit.engine.providers.waits import OF_ONE_PROMPT, PERMANENT

FAILURES_TO_OPEN = 8
LAST_ERROR = "; the last error: "

REASONS: dict[str, Reason] = {
    "timeout": "timeout", "rate_limited": "rate_limited", "content_filter": "refused", "too_long": "too_long",
}  # fmt: skip
"""Kind of problem -> why a sample has no score; ``server_error`` for the others."""
_TRANSPORT = ("connection", "timeout", "malformed")
_PROMPTS_TO_OPEN, _MORE_PER_REPLIES, _MOST_PROMPTS = 3, 10, 50


@dataclass(slots=True)
class Breaker:
    """Circuit breaker: stops all calls to a judge that cannot answer.

    Attributes
    ----------
    down
        Why no calls are sent, or None.
    n_answered
        How many requests were answered; after one, failures in transport do not open the breaker.
    """

    down: Failure | None = None
    n_answered: int = 0
    _alike: dict[tuple[str, int | None], set[object]] = field(default_factory=dict)
    _n_failures: int = 0
    _n_given_up: int = 0

    def succeeded(self) -> None:
        """A reply came."""
        self.n_answered += 1
        self._alike.clear()

    def failed(self, problem: ProviderError, prompt: object) -> bool:
        """Count a failed attempt; return whether the judge is down.

        HTTP 403 and 404 may be about one prompt: only three different `prompt` that fail alike, without a reply
        between them, mean that the judge is down; and one more for every ten requests that were answered before, since
        in a long run three such prompts meet by chance. A model that cannot be loaded has no status.
        """
        if problem.kind in PERMANENT or (problem.kind in OF_ONE_PROMPT and problem.status is None):
            self.down = Failure("judge_down", problem.detail)
        elif problem.kind in OF_ONE_PROMPT:
            prompts = self._alike.setdefault((problem.kind, problem.status), set())
            prompts.add(prompt)
            if len(prompts) >= min(_PROMPTS_TO_OPEN + self.n_answered // _MORE_PER_REPLIES, _MOST_PROMPTS):
                self.down = Failure("judge_down", problem.detail)
        elif problem.kind in _TRANSPORT and not self.n_answered:
            self._n_failures += 1
            if self._n_failures >= FAILURES_TO_OPEN:
                self._open(f"{FAILURES_TO_OPEN} failures in a row before any answer", problem)
        return self.down is not None

    def gave_up(self, problem: ProviderError, failure: Failure, *, hopeless: bool) -> bool:
        """Count a call that ended with `failure`; return whether the judge is down.

        A server that is still loading its model answers 503; therefore only calls that failed on every attempt count. A
        rate limit longer than the longest wait ends all calls with that reason.
        """
        if problem.kind == "rate_limited" and hopeless:
            self.down = self.down or failure
        elif problem.kind == "server_error" and not hopeless and not self.n_answered:
            self._n_given_up += 1
            if self._n_given_up >= FAILURES_TO_OPEN:
                self._open(f"{FAILURES_TO_OPEN} calls failed on every attempt before any answer", problem)
        return self.down is not None

    def _open(self, why: str, problem: ProviderError) -> None:
        if self.down is None:
            self.down = Failure("judge_down", why + LAST_ERROR + problem.detail)
