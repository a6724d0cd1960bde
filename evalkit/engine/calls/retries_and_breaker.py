"""When a judge gets no more calls: it cannot answer, or its first replies are of no use."""

from __future__ import annotations

from dataclasses import dataclass, field

from evalkit.core.lists_of_choices import Reason
from evalkit.core.prompts_and_replies import Failure, Prompt, Reply
from evalkit.engine.providers.waits import OF_ONE_PROMPT, PERMANENT
from evalkit.engine.request import ProviderError
from evalkit.rubrics.parsing.reply_cleanup import broke_off

FAILURES_TO_OPEN = 8
_ALONE_TO_OPEN = 12
LAST_ERROR = "; the last error: "

REASONS: dict[str, Reason] = {
    "timeout": "timeout", "rate_limited": "rate_limited", "content_filter": "refused", "too_long": "too_long",
}  # fmt: skip
"""Kind of problem -> why a sample has no score; ``server_error`` for the others."""
_TRANSPORT = ("connection", "timeout", "malformed")
_FIRST_REPLIES, _REPLIES_READ = 5, 20
IN_FLIGHT, EMPTY, REPEATED = range(3)
"""States of a call among a judge's first ones."""
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
    _n_alone: int = 0

    def succeeded(self) -> None:
        """A reply came."""
        self.n_answered += 1
        self._n_alone = 0
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

    def timed_out_alone(self, problem: ProviderError) -> None:
        """Count a call that got no answer in time though no other was in flight; twelve in a row end all calls."""
        self._n_alone += 1
        if self._n_alone >= _ALONE_TO_OPEN:
            self.down = Failure(
                "timeout", f"{_ALONE_TO_OPEN} calls in a row timed out, one at a time: {problem.detail}"
            )

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


@dataclass(slots=True)
class FirstReplies:
    """The first new replies of a judge and template: it gets no more calls if they are paid for and of no use.

    Replies from the cache do not count, nor do those that the server lost. Replies to one prompt alone say nothing.

    Attributes
    ----------
    n
        Replies that count.
    sent
        Calls that were sent and have no outcome yet -> `IN_FLIGHT`, `EMPTY` (came back so) or `REPEATED`.
    """

    n: int = 0
    sent: dict[object, int] = field(default_factory=dict)
    _n_cut: int = 0
    _n_unreadable: int = 0
    _prompts: set[object] = field(default_factory=set)

    @property
    def are_cut(self) -> bool:
        """Whether five replies or more are all cut off or empty so far: the calls in `sent` may still refute it."""
        if self._n_cut < self.n:
            return False
        n_empty = sum(state > IN_FLIGHT for state in self.sent.values())
        return self.n + n_empty >= _FIRST_REPLIES and (n_empty > 0 or len(self._prompts) > 1)

    @property
    def must_be_awaited(self) -> bool:
        """Whether no new calls are sent: the outcome of those in `sent` decides whether the judge gets more."""
        return bool(self.sent) and self.are_cut

    def begin_repeat(self, call: object) -> bool:
        """Whether a call is sent again now: five of those that came back empty decide for all of them."""
        is_one_more = self.sent.get(call) == EMPTY
        n_repeated = sum(state == REPEATED for state in self.sent.values())
        can_decide = n_repeated > 0 or len(self._prompts) > 1
        if is_one_more and self.must_be_awaited and can_decide and self.n + n_repeated >= _FIRST_REPLIES:
            return False
        if is_one_more:
            self.sent[call] = REPEATED
        return True

    @property
    def are_read(self) -> bool:
        """Whether the next replies need not be read."""
        return self.n >= _REPLIES_READ and not self.are_cut

    def add(self, reply: Reply, reason: str | None, prompt: object) -> None:
        """Count a reply, and why it has no score."""
        if reason is None or not broke_off(reply.finish_reason):
            self.n += 1
            self._n_cut += reason in ("truncated", "empty")
            self._n_unreadable += reason == "unreadable"
            self._prompts.add(prompt)

    def why_stop(self, prompt: Prompt) -> str | None:
        """Why the judge gets no more calls, and what to change; None while it does."""
        is_open = self.n < _FIRST_REPLIES or any(state != EMPTY for state in self.sent.values())
        if self.are_cut and len(self._prompts) > 1 and not (self.sent and is_open):
            return (
                f"stopped, since its first {self.n} replies were all cut off or empty; raise its max_tokens or the "
                "limit in its params (thinking counts too), then judge again. These replies may have been billed; "
                "those that were cut off are stored"
            )
        if not self.are_read or self._n_unreadable <= self.n / 2 or len(self._prompts) == 1:
            return None
        return (
            f"stopped, since {self._n_unreadable} of its first {self.n} replies could not be read in the form "
            f"{prompt.form!r}, which the template {prompt.template} asks for; look at them (replies=True), and ask for "
            f"another form, as with template={'tagged@v1' if prompt.form == 'json' else 'default@v1'!r}"
        )
