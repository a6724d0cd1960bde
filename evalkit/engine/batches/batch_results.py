"""From the results of a batch to replies in the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import orjson

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Reply
from evalkit.core.reply_keys import KeyParts
from evalkit.engine.cache import ReplyStore
from evalkit.engine.calls.retries_and_breaker import REASONS
from evalkit.engine.providers.error_answers import fact_of
from evalkit.engine.providers.provider_interface import ProviderError

_REPLIES_PER_WRITE = 2000
_SHOWN = 3


class BatchResults:
    """The results of one batch, which come in any order, perhaps twice, and perhaps not all.

    Attributes
    ----------
    n_stored, cost_usd
        Replies, and their cost; None if a price is unknown.
    """

    def __init__(
        self, store: ReplyStore, judge: Judge, prefix: str, calls: Sequence[Sequence[Any]],
        requests: Sequence[Sequence[Any]], newer_than: float | None,
    ) -> None:  # fmt: skip
        self.n_stored = 0
        self.cost_usd: float | None = 0.0
        self._store, self._judge, self._prefix, self._newer_than = store, judge, prefix, newer_than
        self._calls = [(KeyParts.from_dict(orjson.loads(shared)), sent) for shared, sent in calls]
        self._requests = requests
        self._facts = store.facts(judge.service, judge.model)
        self._answered: set[int] = set()
        self._failed: dict[int, ProviderError] = {}
        self._rows: list[tuple[KeyParts, Reply]] = []

    def add(self, custom_id: str, answer: list[Reply] | ProviderError) -> bool:
        """Take the answer to a request, if there was none yet; whether it is time to store.

        A reply counts wherever it is: some services write an error and then, after they tried again, the reply.
        """
        number = custom_id.removeprefix(self._prefix)
        if number == custom_id or not number.isdecimal() or int(number) >= len(self._requests):
            return False
        if int(number) in self._answered:
            return False
        if isinstance(answer, ProviderError):
            self._failed.setdefault(int(number), answer)
            return False
        self._answered.add(int(number))
        call, input_hash, order, samples, *_ = self._requests[int(number)]
        parts, sent = self._calls[call]
        for sample, reply in zip(samples, answer, strict=False):
            self._rows.append(
                (
                    replace(parts, input_hash=input_hash, order=order).of_sample(sample),
                    replace(reply, source="batch", sent=sent),
                )
            )
            self._count(reply)
        if len(samples) > 1:
            self._learn("n_supported", len(answer) >= len(samples))
        return len(self._rows) >= _REPLIES_PER_WRITE

    def resume(self, keys: Sequence[bytes]) -> None:
        """Count as answered what earlier results brought; `keys` are those of all samples, in the order of requests."""
        stored, rest = self._store.get_many(keys, since=self._newer_than), iter(keys)
        for number, (_, _, _, samples, *_) in enumerate(self._requests):
            of_request = [stored.get(key) for key in islice(rest, len(samples))]
            if None not in of_request:
                self._answered.add(number)
                for reply in of_request:
                    self._count(Reply.from_dict(orjson.loads(reply)))  # type: ignore[arg-type]

    def _count(self, reply: Reply) -> None:
        self.n_stored += 1
        has_cost = self.cost_usd is not None and reply.cost_usd is not None
        self.cost_usd = self.cost_usd + reply.cost_usd if has_cost else None  # type: ignore[operator]

    def store_rows(self) -> None:
        """Store what came so far."""
        rows, self._rows = self._rows, []
        self._store.put_many(rows, newer_than=self._newer_than)

    def learn_refusals(self) -> None:
        """Remember which parameters the errors refuse; not where a line was answered with the same ones."""
        for number, problem in self._failures():
            if problem.kind == "refused_parameter" and not self._answered:
                _, sent = self._calls[self._requests[number][0]]
                is_last = problem.parameter == "response_format" and problem.parameter in (sent or {})
                self._learn(fact_of(str(problem.parameter), self._judge), None if is_last else problem.instead)

    @property
    def n_answered(self) -> int:
        """Requests with a reply."""
        return len(self._answered)

    def n_missing(self) -> int:
        """Requests without a line."""
        return len(self._requests) - len(self._answered | self._failed.keys())

    @property
    def reasons(self) -> Counter[str]:
        """Why requests have no reply: reason -> number of replies."""
        reasons = Counter[str]()
        for number, problem in self._failures():
            reasons[REASONS.get(problem.kind, "server_error")] += len(self._requests[number][3])
        return reasons

    @property
    def problems(self) -> list[str]:
        """What requests for several inputs have in common that have no reply.

        What a server says about a single request may repeat its prompt, which is not stored.
        """
        inputs: dict[str, set[str]] = {}
        for number, problem in self._failures():
            inputs.setdefault(problem.detail, set()).add(self._requests[number][1])
        common = [text for text in inputs if len(inputs[text]) > 1]
        return sorted(common, key=lambda text: -len(inputs[text]))[:_SHOWN]

    def _failures(self) -> list[tuple[int, ProviderError]]:
        """The requests without a reply, with the reason."""
        return [(number, problem) for number, problem in self._failed.items() if number not in self._answered]

    def _learn(self, name: str, value: object) -> None:
        if name not in self._facts or self._facts[name] != value:
            self._facts[name] = value
            self._store.learn(self._judge.service, self._judge.model, name, value)
