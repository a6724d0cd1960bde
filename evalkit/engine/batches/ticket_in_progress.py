"""`OpenTicket`: a ticket that is being sent or collected; its results become replies in the store."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import re
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from evalkit.core.judge_field_checks import host_of
from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import TOO_LONG, Reply
from evalkit.core.providers import PROVIDERS
from evalkit.core.reply_keys import KeyParts
from evalkit.engine.batches.batch_request_files import keys_in
from evalkit.engine.batches.ticket import WHEN_FILE_CUT, BatchRecord, Server, Ticket, TicketRecord, shower
from evalkit.engine.cache import ReplyStore
from evalkit.engine.cache.batch_tickets import StoredTicket, TicketChangedError
from evalkit.engine.calls.event_loop import wait_for
from evalkit.engine.calls.retries_and_breaker import REASONS
from evalkit.engine.providers import check_ready
from evalkit.engine.providers.api_keys import key_in
from evalkit.engine.providers.batch_http import FILE_TIMEOUT_S
from evalkit.engine.providers.batch_interface import Batch, service_of
from evalkit.engine.providers.error_answers import fact_of
from evalkit.engine.providers.openai_batches import answer_of, json_lines
from evalkit.engine.request import ProviderError
from evalkit.errors import ConfigError, InputError, JudgeError, counted, listed

CERTAIN_S = 300.0 + FILE_TIMEOUT_S
"""So long after the last sign of life of its sender, a batch that the provider does not list was not created: an upload
and the request that creates a batch each end within `FILE_TIMEOUT_S` of such a sign, with all their attempts."""
_FIRST_POLL_S, _LONGEST_POLL_S = 1.0, 60.0
_WITHOUT_FILES_S, _COUNTS_GROW_S = 900.0, 60.0
_SURELY_OVER_S = 2 * 86400.0
"""A batch runs for a day at most; so long after its ticket, one whose state cannot be learnt is over."""
_TRANSIENT = ("timeout", "connection", "rate_limited", "server_error", "malformed")
_GONE = (400, 404, 405, 410, 422)
"""Statuses for what the provider does not have, or no longer."""
_CUT_TRIES, _CANCEL_TRIES = 5, 3
_WHEN_CUT = (
    "; the readable replies are stored. Collect the ticket again later, or cancel it to give up the others (billed too)"
)
_WHEN_GONE = "; the provider no longer has these results. Cancel the ticket to give up its replies (they were billed)"
_COMPLETED = "completed"
_log = logging.getLogger("evalkit")


class OpenTicket:
    """A ticket that is being sent or collected.

    Whoever changes the record of a batch has seen the latest. `servers` are base URLs that may get a key, or judges
    of clients: others than the provider's own are in the store, where somebody else may have written them.
    """

    def __init__(self, store: ReplyStore, stored: StoredTicket, servers: Collection[Server] = ()) -> None:
        self.store, self.stored, self._servers = store, stored, servers
        self.record = TicketRecord.of(stored)
        self._n_failed = Counter[int]()  # how often in a row a batch could not be looked at
        self._n_cut = Counter[int]()  # of these, how often its results were cut short or gone

    @property
    def batches(self) -> tuple[BatchRecord, ...]:
        """Its batches as they were stored last."""
        return self.record.batches

    @property
    def waits(self) -> bool:
        """Whether replies will come by themselves."""
        return self.stored.state == "open" and (not self.batches or any(batch.waits for batch in self.batches))

    def shown(self) -> Ticket:
        """The ticket as it is now."""
        return Ticket.of(self.store, self.stored, self._servers)

    def alive(self) -> None:
        """Let other processes know, now and then, that its files are still being written."""
        if time.time() - self.record.at > CERTAIN_S / 5:
            self.change()

    def change(
        self, *, manifest: Mapping[str, Any] | None = None, free: Collection[bytes] = (), ended: bool = False,
        **changes: Any,
    ) -> None:  # fmt: skip
        """Store changed fields of its record; TicketChangedError if another process was faster."""
        record = replace(self.record, **changes, at=time.time())
        self._read(self.store.change_ticket(self.stored, record.to_dict(), manifest=manifest, free=free, ended=ended))

    def note(self, at: int, *, free: Collection[bytes] = (), **changes: Any) -> None:
        """Store changed fields of one batch; the ticket ends with its last one.

        If another process changed other batches in the meantime, these changes stay; if it changed this one,
        TicketChangedError.
        """
        old_record = self.batches[at]
        while True:
            batches = [*self.batches]
            batches[at] = replace(old_record, **changes, at=time.time())
            ended = not any(batch.is_open for batch in batches)
            try:
                self.change(batches=tuple(batches), free=free, ended=ended)
                break
            except TicketChangedError:
                self._read(self.store.ticket(self.stored.ticket))
                if self.stored.state != "open" or self.batches[at] != old_record:
                    raise

    def _read(self, stored: StoredTicket) -> None:
        self.stored, self.record = stored, TicketRecord.of(stored)

    def _judge(self, at: int) -> Judge:
        fields = self.batches[at].judge
        provider = PROVIDERS[fields["provider"]]
        url = fields["base_url"]
        if provider.url_variable:  # written out: the environment may name another server now
            url = url or f"https://{provider.host}/v1"
        judge = Judge.of({**fields, "base_url": url})
        for server in self._servers:  # of this address and variable: its key goes nowhere else
            if isinstance(server, Judge) and server.name == judge.name and _place_of(server) == _place_of(judge):
                judge = replace(judge, ask=server.ask)
        servers = {server.base_url if isinstance(server, Judge) else server for server in self._servers}
        servers |= {None, os.environ.get(provider.url_variable or "")}
        is_known_url = url in servers or host_of(url) == "local" or f"{url}/".startswith(f"https://{provider.host}/")
        secret = judge.api_key_env or judge.headers_env
        if secret and not is_known_url and self.batches[at].state != "file":  # a file is sent nowhere
            raise ConfigError(
                f"ticket {self.stored.ticket} in {self.store.place} would send the key in {secret} to "
                f"{judge.base_url}; if this is your server, pass base_url={judge.base_url!r}"
            )
        return judge

    def _ask(self, at: int, action: str, *args: Any, until: float = math.inf) -> Any:
        """The answer of the provider's batch service; a `ProviderError` if there is none until this Unix time."""
        judge = self._judge(at)

        async def ask() -> Any:
            return await getattr(service_of(judge)(judge, until), action)(*args)

        check_ready(judge)
        return wait_for(ask())

    def _name(self, at: int) -> str:
        return f"evalkit-{self.stored.ticket}-{at}"

    def send(self, at: int) -> None:
        """Upload a batch's file and create the batch; what goes wrong is in its record."""
        record, created, batch = self.batches[at], False, None
        try:
            try:
                self.note(at, state="sending")
                uploaded = self._ask(at, "upload", self._name(at), Path(record.path), until=self._until(at))
                self.note(at, uploaded=uploaded)  # only the process that wrote this may go on
                created = True
                arguments = self._name(at), self._last_id(at), self.stored.created, uploaded
                batch = self._ask(at, "create", *arguments, until=self._until(at))
                self._run(at, batch)
            except ProviderError as problem:
                if created and problem.maybe_paid:  # it may exist: `advance` looks for it
                    self.note(at, problem=problem.detail)
                else:
                    self._give_up(at, problem.detail)
        except TicketChangedError as problem:
            if self.batches[at].batch:  # another process found it in the provider's list
                return
            _log.warning("%s", problem)  # it was given up or cancelled in the meantime
            if batch is None:
                self._remove(at)
            else:
                with contextlib.suppress(ProviderError):
                    self._ask(at, "cancel", batch.id)

    def _until(self, at: int) -> float:
        """When a request to send a batch has to end: counted from what is stored, as other processes count."""
        return (self.batches[at].at or self.record.at) + FILE_TIMEOUT_S

    def _run(self, at: int, batch: Batch) -> None:
        self.note(at, state="running", batch=batch.id, word=batch.word, n_done=batch.n_done, problem="")

    def _give_up(self, at: int, why: str) -> None:
        """The provider has no such batch: others may ask for its replies."""
        if self.batches[at].state == "sending":
            self.note(at, gives_up=why)  # its sender cannot go on; if this process is killed, another one does
            self._remove(at)
        self.note(at, state="unsent", problem=why, free=self._keys(at))

    def _remove(self, at: int) -> None:
        with contextlib.suppress(ProviderError):  # a file that stays costs nothing
            self._ask(at, "remove", self._name(at))

    def _keys(self, at: int) -> list[bytes]:
        return keys_in(self.store.manifest(self.stored.ticket), at)

    def advance(self, *, cancel: bool, patient: bool) -> None:
        """Look at every open batch once, and take the replies of those that have ended.

        An error is raised when all were looked at. With `patient`, a provider that cannot be reached is none; with
        `cancel`, it is one after a few tries.
        """
        failed: ConfigError | JudgeError | None = None
        is_old = cancel or time.time() - self.record.at > CERTAIN_S
        if not self.batches and self.stored.state == "open" and is_old:  # its process ended while writing the files
            self.change(ended=True)
        for number in range(len(self.batches)):
            try:
                self._advance(number, cancel=cancel)
                self._n_failed[number] = self._n_cut[number] = 0
            except TicketChangedError:  # another process collects it too
                self._read(self.store.ticket(self.stored.ticket))
            except ProviderError as problem:
                self._n_failed[number] += 1
                # what answers, but not as a batch service does, is no outage
                lasts = self._n_cut[number] > 0 or problem.kind == "malformed"
                limit = _CANCEL_TRIES if cancel else _CUT_TRIES if lasts else math.inf
                is_transient = problem.kind in _TRANSIENT or (self._n_cut[number] and problem.status in _GONE)
                if patient and is_transient and self._n_failed[number] < limit:
                    _log.warning("ticket %s: %s; trying again", self.stored.ticket, problem.detail)
                    continue
                detail = f"{problem.detail}{self._advice(number, problem)}"
                failed = failed or JudgeError(f"ticket {self.stored.ticket}: {detail}")
            except (ConfigError, JudgeError) as error:  # such as a key that is not set
                failed = failed or error
            if self.stored.state != "open":
                return
        if failed is not None:
            raise failed

    def _advice(self, at: int, problem: ProviderError) -> str:
        if self._n_cut[at] and problem.kind == "malformed":
            return _WHEN_CUT
        if self._n_cut[at] and problem.status in _GONE:
            return _WHEN_GONE
        return ""

    def _last_id(self, at: int) -> str:
        return f"{self.stored.ticket}-{at}_{self.batches[at].n_requests - 1}"

    def _look_for(self, at: int, age: float, *, cancel: bool) -> None:
        """Look for a batch that was sent by a process that ended."""
        record = self.batches[at]
        why = record.problem if record.when_sent is None else record.when_sent
        try:
            answer = self._ask(at, "find", self._name(at), self._last_id(at), self.stored.created, record.uploaded)
        except ProviderError:
            if not (cancel and self._is_surely_over()):
                raise
            answer = None
        if isinstance(answer, Batch):
            self._run(at, answer)
            self._advance(at, cancel=cancel)
        elif answer is None and age > CERTAIN_S:
            self._give_up(at, why or "the process ended before the batch was created")
        elif answer is not None and answer != record.problem:
            self.note(at, problem=answer, when_sent=why)

    def _is_surely_over(self) -> bool:
        return time.time() - self.stored.created > _SURELY_OVER_S

    def _get(self, at: int, *, cancel: bool) -> Batch | None:
        """A batch as it is now, cancelled if it is to be; None if it is given up, since the provider has it no more."""
        record, sent = self.batches[at], False
        try:
            batch: Batch = self._ask(at, "get", record.batch)
        except ProviderError as problem:
            if not cancel:
                raise
            try:  # what does not show a batch may still cancel it
                batch, sent = self._ask(at, "cancel", record.batch), True
            except ProviderError:
                if problem.status not in _GONE and not self._is_surely_over():
                    raise problem from None
                self.note(at, state="ended", problem=problem.detail, free=self._keys(at))
                return None
        if cancel and not record.cancelled and (sent or batch.state == "running"):
            batch = batch if sent else self._ask(at, "cancel", record.batch)
            self.note(at, cancelled=True)
        return batch

    def _advance(self, at: int, *, cancel: bool) -> None:
        record = self.batches[at]
        state, age = record.state, time.time() - (record.at or self.record.at)
        if state == "written" and (cancel or age > CERTAIN_S):
            self._give_up(at, "the process ended before it was sent")
        elif state == "sending":
            self._give_up(at, why) if (why := record.gives_up) else self._look_for(at, age, cancel=cancel)
        elif state == "running" and (batch := self._get(at, cancel=cancel)) is not None:
            record = self.batches[at]
            if batch.state == "ended":
                self._take(at, batch, cancel=cancel)
            elif (batch.word, batch.n_done) != (record.word, record.n_done):
                self.note(at, word=batch.word, n_done=batch.n_done)
        elif state == "file" and cancel:
            self.note(at, state="ended", free=self._keys(at))

    def _take(self, at: int, batch: Batch, *, cancel: bool) -> None:
        """Store the replies of a batch that has ended; if some are missing, it is cancelled or tried again."""
        if not batch.files and (batch.n_done or batch.word == _COMPLETED) and self._waits_for_rest(at, batch):
            return  # it has ended, but its counts and the file of its replies are not there yet
        problem = batch.problem or ("" if batch.files else f"{batch.word} without replies")
        judge, results = self._judge(at), self._results(at)

        async def read() -> None:
            async for custom_id, answer in service_of(judge)(judge).results(batch):
                if results.add(custom_id, answer):
                    await asyncio.to_thread(results.store_rows)

        check_ready(judge)
        try:
            wait_for(read())
        except ProviderError as incomplete:
            results.store_rows()
            is_gone = incomplete.status in _GONE
            self._n_cut[at] += is_gone or incomplete.kind in ("malformed", "connection")
            if not cancel or (incomplete.kind != "malformed" and not is_gone):
                raise
            problem = incomplete.detail
        else:
            n_missing = results.n_missing() - batch.n_failed
            if batch.word == _COMPLETED and n_missing > 0 and not cancel and self._waits_for_rest(at, batch):
                results.store_rows()
                return
            if batch.word == _COMPLETED and n_missing > 0:
                problem = problem or f"{n_missing} requests have no line in the results"
        self._end(at, results, word=batch.word, n_done=batch.n_done, problem=problem)
        self._remove(at)

    def _waits_for_rest(self, at: int, batch: Batch) -> bool:
        """Whether it is too early to end a batch whose files lack something that may still come."""
        since = self.batches[at].without_files or time.time()
        # files and counts that agree, for fewer requests than were sent, are most likely all that there is
        if time.time() - since >= (_COUNTS_GROW_S if batch.files and batch.n_done else _WITHOUT_FILES_S):
            return False
        self.note(at, word=batch.word, without_files=since)
        return True

    def _results(self, at: int) -> BatchResults:
        if not (manifest := self.store.manifest(self.stored.ticket)):
            raise TicketChangedError(f"ticket {self.stored.ticket} was collected by another process")
        return BatchResults(
            self.store, self._judge(at), f"{self.stored.ticket}-{at}_", manifest["calls"], manifest["requests"][at],
            self.record.newer_than,
        )  # fmt: skip

    def _end(self, at: int, results: BatchResults, *, problem: str = "", **changes: Any) -> None:
        results.add_too_long()
        results.store_rows()
        results.learn_refusals()
        self.note(
            at, state="ended", n_stored=results.n_stored, cost_usd=results.cost_usd, reasons=dict(results.reasons),
            problem="; ".join(filter(None, [problem, *results.problems])), free=self._keys(at), **changes,
        )  # fmt: skip

    def collect(self, files: Sequence[Path], *, wait: bool, cancel: bool, progress: bool | None) -> Ticket:
        """Take what has ended; with `wait`, until all has."""
        show, pause = shower(progress), _FIRST_POLL_S
        try:
            if files:
                self.take_files(files)
            while True:
                self.advance(cancel=cancel, patient=wait)
                ticket = self.shown()
                show(ticket)
                if not wait or not self.waits:
                    return ticket
                time.sleep(pause)
                pause = min(1.5 * pause, _LONGEST_POLL_S)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"stopped; nothing is lost. To continue, call collect({self.stored.ticket!r})"
            ) from None

    def take_files(self, files: Sequence[Path]) -> None:
        """Store the replies in files of results."""
        results_of: dict[int, BatchResults] = {}
        secrets = [key_in(record.judge["api_key_env"]) for record in self.batches]
        ours, n_cut, is_late = re.compile(rf"{self.stored.ticket}-(\d+)_\d+"), 0, False
        for line in (line for file in files for line in json_lines(file, *secrets)):
            if not isinstance(line, dict):
                n_cut += 1
                continue
            match = ours.fullmatch(str(line.get("custom_id"))) if line.keys() & {"response", "error"} else None
            number = int(match[1]) if match else -1
            if not 0 <= number < len(self.batches):
                continue
            if self.batches[number].state != "file":
                is_late = True
                continue
            if number not in results_of:
                results_of[number] = self._results(number)
                results_of[number].resume(self._keys(number))
            answer = answer_of(line, self._judge(number))
            if answer is not None and results_of[number].add(line["custom_id"], answer):
                results_of[number].store_rows()
        if not results_of and is_late:
            raise InputError(
                f"ticket {self.stored.ticket} has ended, and takes no more answers from {listed(files)}; what it "
                "stored is in the cache, and judge requests what is missing"
            )
        if not results_of:
            raise InputError(
                f"no whole line of {listed(files)} answers an open request of ticket {self.stored.ticket}; pass the "
                "file of answers that your batch program wrote for this ticket"
            )
        for number, results in results_of.items():
            if n_missing := results.n_missing():
                results.store_rows()
                of_all = f"{n_missing} of {counted(self.batches[number].n_requests, 'request')} without an answer"
                problem = of_all + f" ({counted(n_cut, 'line')} cut or unreadable)" * (n_cut > 0)
                _log.warning("ticket %s: %s%s", self.stored.ticket, problem, WHEN_FILE_CUT)
                self.note(
                    number, n_stored=results.n_stored, cost_usd=results.cost_usd, n_done=results.n_answered,
                    reasons=dict(results.reasons), problem=problem,
                )  # fmt: skip
            else:
                self._end(number, results, n_done=results.n_answered)


def _place_of(judge: Judge) -> tuple[str | None, ...]:
    return judge.provider, judge.base_url, judge.api_key_env, judge.headers_env


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
        n_samples = self._add_rows(int(number), answer)
        for reply in answer[:n_samples]:
            self._count(reply)
        if n_samples > 1:
            self._learn("n_supported", len(answer) >= n_samples)
        return len(self._rows) >= _REPLIES_PER_WRITE

    def _add_rows(self, number: int, replies: Sequence[Reply]) -> int:
        """Have `store_rows` store the replies of a request; how many it asked for."""
        call, input_hash, order, samples, *_ = self._requests[number]
        parts, sent = self._calls[call]
        for sample, reply in zip(samples, replies, strict=False):
            self._rows.append(
                (
                    replace(parts, input_hash=input_hash, order=order).of_sample(sample),
                    replace(reply, source="batch", sent=sent),
                )
            )
        return len(samples)

    def add_too_long(self) -> None:
        """Have the refusals of too long prompts stored: another run would be refused as well."""
        for number, problem in self._failures():
            if problem.kind == "too_long" and problem.status is not None:
                reply = Reply(None, TOO_LONG, cost_usd=0.0, created=time.time())
                self._add_rows(number, [reply] * len(self._requests[number][3]))

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
