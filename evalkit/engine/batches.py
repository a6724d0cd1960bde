"""`submit` and `collect`: judgments that a provider makes within a day, at a lower price.

The ticket is in the reply store before anything is sent, and replies are stored under the keys of live calls. So a
process may be killed at any moment: `collect` goes on from the ticket and from what the provider has.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pandas as pd

from evalkit.core.allowed_choices import OnMissing
from evalkit.core.judges import Judge, JudgesLike
from evalkit.core.prompts_and_replies import Request
from evalkit.core.reply_keys import KeyMaker
from evalkit.core.settings import Options, Refresh
from evalkit.engine.batch_files import FILE_LIMITS, FileWriter
from evalkit.engine.batch_results import BatchResults
from evalkit.engine.cache import ReplyStore
from evalkit.engine.cache.batch_tickets import IN_BATCH, StoredTicket, TicketChangedError
from evalkit.engine.cache.leases import NOTHING, Amount, BudgetLease, Granted
from evalkit.engine.calls.budget import Budget
from evalkit.engine.calls.event_loop import wait_for
from evalkit.engine.judging import missing_requests
from evalkit.engine.providers import check_ready
from evalkit.engine.providers.batch_interface import Batch, service_of
from evalkit.engine.providers.openai_batches import answer_of, json_lines
from evalkit.engine.providers.provider_interface import ProviderError
from evalkit.engine.specification import Spec
from evalkit.engine.ticket import Ticket, shower
from evalkit.engine.worklist import Worklist
from evalkit.errors import ConfigError, InputError, JudgeError, listed
from evalkit.rubrics import RubricLike
from evalkit.tables import ItemsLike

CERTAIN_S = 300.0
"""So long after it was sent, a batch that the provider does not list was not created."""
_WITHOUT_FILES_S = 900.0
_FIRST_POLL_S, _LONGEST_POLL_S = 1.0, 60.0
_KEYS_PER_CLAIM = 500
_WAITING = ("written", "sending", "running")
_OPEN = (*_WAITING, "file")
_TRANSIENT = ("timeout", "connection", "rate_limited", "server_error", "malformed")
_NOT_FOUND = 404
_log = logging.getLogger("evalkit")


def submit(
    items: ItemsLike,
    rubric: RubricLike,
    judges: JudgesLike | None = None,
    *,
    samples: int | None = None,
    template: str | None = None,
    item_id: str | None = None,
    inputs: Mapping[str, str] | None = None,
    on_missing: OnMissing = "raise",
    refresh: Refresh = False,
    adopt: bool = False,
    cache: str | Path | None = None,
    budget_usd: float | None = None,
    run: str | None = None,
    live_after: str | timedelta | None = None,
    to: str | Path | None = None,
) -> Ticket:
    """Send to the judges' providers, in batches, what `judge` would ask live; `collect` brings the replies.

    Batches cost half of live calls at OpenAI and Anthropic, and are answered within a day. Replies are stored under the
    keys of live calls: afterwards `judge` with the same arguments returns all of them. What the cache has, and what
    another ticket asks for already, is not sent.

    Parameters
    ----------
    items, rubric, judges, samples, template, item_id, inputs, on_missing, refresh, adopt, cache
        As in `judge`.
    budget_usd
        Maximum US$, by the highest price of each request; requests beyond it are not sent.
    run
        A name: the budget holds for all calls and batches that use the same cache and name.
    live_after
        Such as ``"20h"``: when the ticket is older, `collect` and `judge` cancel what still runs and take the replies
        so far, and `judge` asks the rest live.
    to
        Write the requests to this JSONL file instead, one per judge, for a program such as ``vllm run-batch``;
        ``collect(ticket, results=…)`` reads its output.

    Returns
    -------
    Ticket
        What was sent. Its id is all that `collect` needs, also in another process or on another day.

    Raises
    ------
    InputError, RubricError, ConfigError
        As `judge`, before anything is sent; ConfigError also for a provider without batches.
    JudgeError
        If no batch could be sent.
    CacheError
        If the ticket cannot be stored.
    """
    live_after_s = _seconds(live_after)
    spec = Spec.of(rubric, judges, samples, template, inputs=inputs, on_missing=on_missing)
    options = Options(refresh=refresh, adopt=adopt, cache=cache, budget_usd=budget_usd, run=run)
    for judge in spec.judges if to is None else ():
        service_of(judge)
        check_ready(judge)
    for judge in spec.judges if budget_usd is not None else ():
        Budget(options).check(judge)
    requests, store, newer_than = missing_requests(Worklist.of(spec, items, item_id), options)
    if not requests:
        return Ticket.of(store, None)
    store.check_writable()
    details = {
        "batches": [], "n_left_out": 0, "run": run, "live_after_s": live_after_s, "newer_than": newer_than,
        "at": time.time(),
    }  # fmt: skip
    keys = [key for request in requests for key in request.keys]
    stored, held = store.open_ticket(details, keys)
    ticket = _OpenTicket(store, stored)
    with TemporaryDirectory(prefix="evalkit-batch-") as folder:
        try:
            own = held - wait_for(_asked_or_stored(store, sorted(held), newer_than))
            paths = _numbered(Path(folder), None if to is None else Path(to), len({r.judge.name for r in requests}))
            writer = _write(ticket, _only(requests, own), paths, options, to_file=to is not None)
            left_out = sum(len(request.keys) for request in writer.left_out)
            batches = [file.details() | ({} if to is None else {"state": "file"}) for file in writer.files]
            changes = {"batches": batches, "n_left_out": left_out}
            ticket.change(changes, manifest=writer.manifest, free=held - writer.keys, ended=not batches)
        except BaseException:
            ticket.change({}, ended=True)  # nothing was sent
            raise
        for at in range(len(batches)) if to is None else ():
            ticket.send(at)
    made = ticket.shown()
    if writer.files and (made.table["state"] == "unsent").all():
        raise JudgeError(f"no batch could be sent: {'; '.join(made.table['problem'].unique())}")
    return made if writer.files or made.n_left_out else Ticket.of(store, None)


def collect(
    ticket: Ticket | str,
    *,
    wait: bool = True,
    cancel: bool = False,
    results: str | Path | Sequence[str | Path] = (),
    cache: str | Path | None = None,
    progress: bool | None = None,
) -> Ticket:
    """Take the replies of a ticket's batches into the cache, where `judge` finds them.

    It may be interrupted or killed at any moment, and repeated as often as one likes, also while another process
    collects the same ticket.

    Parameters
    ----------
    ticket
        What `submit` returned, or its id (or the beginning of it).
    wait
        Wait until all batches have ended; False: take what has ended by now.
    cancel
        Cancel what has not ended. What is answered by then is billed, and stored.
    results
        For a ticket that was written to a file: the output of the program that answered its requests.
    cache
        As in `judge`; by default that of the ticket.
    progress
        Show the ticket while waiting; by default on a terminal and in notebooks.

    Returns
    -------
    Ticket
        The ticket as it is now.

    Raises
    ------
    InputError
        For an unknown ticket, or a file of results that does not belong to it.
    JudgeError
        If the provider cannot be asked.
    """
    store = ticket.store if isinstance(ticket, Ticket) and ticket.store and cache is None else ReplyStore.open(cache)
    if isinstance(ticket, Ticket) and not ticket.id:
        return ticket
    opened = _OpenTicket(store, store.ticket(ticket.id if isinstance(ticket, Ticket) else ticket))
    files = [Path(one) for one in ([results] if isinstance(results, (str, Path)) else results)]
    show, pause = shower(progress), _FIRST_POLL_S
    try:
        if files:
            opened.take_files(files)
        while True:
            opened.advance(cancel=cancel)
            shown = opened.shown()
            show(shown)
            if not wait or not opened.waits:
                return shown
            time.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_POLL_S)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; nothing is lost: collect({opened.stored.ticket!r}) goes on") from None


def tickets(cache: str | Path | None = None, *, only_open: bool = False) -> list[Ticket]:
    """The tickets of a cache, the oldest first."""
    store = ReplyStore.open(cache)
    return [Ticket.of(store, stored) for stored in store.tickets(only_open=only_open)]


def take_overdue(store: ReplyStore, ids: Collection[str]) -> bool:
    """Cancel and collect those of the tickets that are older than their `live_after`; whether there were any."""
    overdue = [stored for stored in store.tickets(only_open=True) if stored.ticket in ids and _is_overdue(stored)]
    for stored in overdue:
        _log.info("ticket %s is older than its live_after; what still runs is cancelled", stored.ticket)
        collect(stored.ticket, cache=store.cache, progress=False)
    return bool(overdue)


def _seconds(live_after: str | timedelta | None) -> float | None:
    if live_after is None:
        return None
    try:
        if isinstance(live_after, (str, timedelta)):
            seconds = pd.Timedelta(live_after).total_seconds()
            if seconds > 0:
                return float(seconds)
    except ValueError:
        pass
    raise ConfigError(f"live_after must be a time such as '20h' or '90min', not {live_after!r}")


def _is_overdue(stored: StoredTicket) -> bool:
    live_after_s = orjson.loads(stored.details)["live_after_s"]
    return live_after_s is not None and time.time() - stored.created > live_after_s


async def _asked_or_stored(store: ReplyStore, keys: Sequence[bytes], since: float | None) -> set[bytes]:
    """Those of the keys that a live call is asking for, or that were stored in the meantime.

    Calls that come later see the ticket.
    """
    gone: set[bytes] = set()
    portions = [list(keys[at : at + _KEYS_PER_CLAIM]) for at in range(0, len(keys), _KEYS_PER_CLAIM)]
    while portions:
        some = portions.pop()
        found = await store.claim(some, since=since)
        if found is not None:
            store.claims.release(some)
            gone |= {key for key, value in found.items() if value != IN_BATCH}
        elif len(some) == 1:
            gone |= {*some}
        else:
            half = len(some) // 2
            portions += [some[:half], some[half:]]
    return gone


def _only(requests: Sequence[Request], keys: Collection[bytes]) -> list[Request]:
    """The requests without samples of other keys."""
    kept = []
    for request in requests:
        pairs = [pair for pair in zip(request.samples, request.keys, strict=True) if pair[1] in keys]
        if len(pairs) == len(request.keys):
            kept.append(request)
        elif pairs:
            samples, left = zip(*pairs, strict=True)
            kept.append(replace(request, samples=samples, keys=left))
    return kept


def _numbered(folder: Path, to: Path | None, n_judges: int) -> Iterator[Path]:
    """The paths of a ticket's files."""
    if to is None:
        return (folder / f"{number}.jsonl" for number in count())
    to.absolute().parent.mkdir(parents=True, exist_ok=True)
    if n_judges == 1:
        return iter([to])
    return (to.with_name(f"{to.stem}-{number}{to.suffix}") for number in count())


def _write(
    ticket: _OpenTicket, requests: Sequence[Request], paths: Iterator[Path], options: Options, *, to_file: bool
) -> FileWriter:
    """Write the files of the requests that the budget allows."""
    shared, budget_usd = options.run is not None and options.budget_usd is not None, options.budget_usd
    if shared and budget_usd is not None:
        budget_usd -= ticket.lease().others.usd
    writer = FileWriter(ticket.stored.ticket, ticket.store, budget_usd)
    by_judge: dict[str, list[Request]] = {}
    for request in requests:
        by_judge.setdefault(request.judge.name, []).append(request)
    for own in by_judge.values():
        service = service_of(own[0].judge if not to_file else Judge("openai", "any"))
        limits = FILE_LIMITS if to_file else (service.max_requests, service.max_bytes)
        writer.write(own, service, paths, limits, ticket.alive)
    if shared and not ticket.lease(Amount(writer.usd_at_most, len(writer.keys)), options.budget_usd).fits:
        raise ConfigError(f"another process used the budget of run={options.run!r} in the meantime; repeat the call")
    return writer


class _OpenTicket:
    """A ticket that is being sent or collected.

    Each of its batches has details that change; whoever changes them has seen the latest.
    """

    def __init__(self, store: ReplyStore, stored: StoredTicket) -> None:
        self.store, self.stored = store, stored
        self.details: dict[str, Any] = orjson.loads(stored.details)

    @property
    def batches(self) -> list[dict[str, Any]]:
        """The details of its batches."""
        return self.details["batches"]  # type: ignore[no-any-return]

    @property
    def waits(self) -> bool:
        """Whether replies will come by themselves."""
        return self.stored.state == "open" and any(part["state"] in _WAITING for part in self.batches)

    def shown(self) -> Ticket:
        """The ticket as it is now."""
        return Ticket.of(self.store, self.stored)

    def alive(self) -> None:
        """Let other processes know, now and then, that its files are still being written."""
        if time.time() - self.details["at"] > CERTAIN_S / 5:
            self.change({})

    def change(
        self,
        changes: dict[str, Any],
        *,
        manifest: Mapping[str, Any] | None = None,
        free: Collection[bytes] = (),
        ended: bool = False,
    ) -> None:
        """Store changed details; TicketChangedError if another process was faster."""
        details = self.details | changes | {"at": time.time()}
        self.stored = self.store.change_ticket(self.stored, details, manifest=manifest, free=free, ended=ended)
        self.details = details

    def note(self, at: int, *, free: Collection[bytes] = (), **changes: Any) -> None:
        """Store changed details of one batch; the ticket ends with its last one.

        If another process changed other batches in the meantime, these changes stay; if it changed this one,
        TicketChangedError.
        """
        seen = self.batches[at]
        while True:
            changed = [*self.batches]
            changed[at] = seen | changes | {"at": time.time()}
            ended = not any(part["state"] in _OPEN for part in changed)
            try:
                self.change({"batches": changed}, free=free, ended=ended)
                break
            except TicketChangedError:
                self._reload()
                if self.stored.state != "open" or self.batches[at] != seen:
                    raise
        if ended:
            self._end_lease()

    def _reload(self) -> None:
        self.stored = self.store.ticket(self.stored.ticket)
        self.details = orjson.loads(self.stored.details)

    def lease(self, need: Amount = NOTHING, budget_usd: float | None = None) -> Granted:
        """Reserve money of the run that the ticket belongs to; the answer has what others spent."""
        most = Amount(math.inf if budget_usd is None else budget_usd, math.inf)
        asked = BudgetLease(str(self.details["run"]), self.stored.ticket, NOTHING, need, NOTHING, most)
        return wait_for(self._lease(asked))

    async def _lease(self, lease: BudgetLease) -> Granted:
        return await self.store.lease(lease)  # type: ignore[no-any-return]

    def _end_lease(self) -> None:
        if self.details["run"] is None:
            return
        spent = [part["usd_at_most"] if part["cost_usd"] is None else part["cost_usd"] for part in self.batches]
        held = Amount(sum(usd or 0.0 for usd in spent), sum(part["n_requests"] for part in self.batches))
        wait_for(self._lease(BudgetLease(self.details["run"], self.stored.ticket, held, ended=True)))

    def _judge(self, at: int) -> Judge:
        return Judge.of(self.batches[at]["judge"])

    def _ask(self, at: int, action: str, *args: Any) -> Any:
        """The answer of the provider's batch service."""
        judge = self._judge(at)

        async def ask() -> Any:
            return await getattr(service_of(judge)(judge), action)(*args)

        check_ready(judge)
        return wait_for(ask())

    def _name(self, at: int) -> str:
        return f"evalkit-{self.stored.ticket}-{at}"

    def send(self, at: int) -> None:
        """Upload a batch's file and create the batch; what goes wrong is in its details."""
        part, created = self.batches[at], False
        try:
            self.note(at, state="sending")
            uploaded = self._ask(at, "upload", self._name(at), Path(part["path"]))
            self.note(at, uploaded=uploaded)  # only the process that wrote this may go on
            created = True
            self._run(at, self._ask(at, "create", self._name(at), uploaded))
        except TicketChangedError as problem:  # it was given up or cancelled during the upload
            _log.warning("%s", problem)
            self._remove(at)
        except ProviderError as problem:
            if created and problem.maybe_paid:  # it may exist: `advance` looks for it
                self.note(at, problem=problem.detail)
            else:
                self._give_up(at, problem.detail)

    def _run(self, at: int, batch: Batch) -> None:
        self.note(at, state="running", batch=batch.id, word=batch.word, n_done=batch.n_done, problem="")

    def _give_up(self, at: int, why: str) -> None:
        """The provider has no such batch: others may ask for its replies."""
        was_sent = self.batches[at]["state"] == "sending"
        self.note(at, state="unsent", problem=why, free=self._keys(at))
        if was_sent:
            self._remove(at)

    def _remove(self, at: int) -> None:
        with contextlib.suppress(ProviderError):  # a file that stays costs nothing
            self._ask(at, "remove", self._name(at))

    def _keys(self, at: int) -> list[bytes]:
        """The reply keys of a batch."""
        manifest, makers = self.store.manifest(self.stored.ticket), dict[int, KeyMaker]()
        calls, requests = manifest.get("calls", []), manifest.get("requests", [])
        keys: list[bytes] = []
        for number, shown, order, samples in requests[at] if at < len(requests) else ():
            if number not in makers:
                makers[number] = KeyMaker(orjson.loads(calls[number][0]))
            keys += makers[number](shown, order, samples)
        return keys

    def advance(self, *, cancel: bool) -> None:
        """Look at every open batch once, and take the replies of those that have ended."""
        cancel = cancel or _is_overdue(self.stored)
        is_old = cancel or time.time() - self.details["at"] > CERTAIN_S
        if not self.batches and self.stored.state == "open" and is_old:  # its process ended while writing the files
            self.change({}, ended=True)
        for at in range(len(self.batches)):
            try:
                self._advance(at, cancel=cancel)
            except TicketChangedError:  # another process collects it too
                self._reload()
            except ProviderError as problem:
                if problem.kind in _TRANSIENT:
                    _log.warning("ticket %s: %s; trying again", self.stored.ticket, problem.detail)
                    continue
                raise JudgeError(f"ticket {self.stored.ticket}: {problem.detail}") from None
            if self.stored.state != "open":
                return

    def _advance(self, at: int, *, cancel: bool) -> None:
        part = self.batches[at]
        state, age = part["state"], time.time() - part.get("at", self.details["at"])
        if state == "written" and (cancel or age > CERTAIN_S):
            self._give_up(at, "the process ended before it was sent")
        elif state == "sending":
            found = self._ask(at, "find", self._name(at), f"{self.stored.ticket}-{at}_0", self.stored.created)
            if found is not None:
                self._run(at, found)
                self._advance(at, cancel=cancel)
            elif age > CERTAIN_S:
                self._give_up(at, part["problem"] or "the process ended before the batch was created")
        elif state == "running":
            try:
                batch = self._ask(at, "get", part["batch"])
            except ProviderError as problem:
                if problem.status != _NOT_FOUND or not cancel:
                    raise
                self.note(at, state="ended", problem=problem.detail, free=self._keys(at))
                return
            if batch.state == "running" and cancel and not part.get("cancelled"):
                batch = self._ask(at, "cancel", part["batch"])
                self.note(at, cancelled=True)
            if batch.state == "ended":
                self._take(at, batch, cancel=cancel)
            elif (batch.word, batch.n_done) != (part["word"], part["n_done"]):
                self.note(at, word=batch.word, n_done=batch.n_done)
        elif state == "file" and cancel:
            self.note(at, state="ended", free=self._keys(at))

    def _take(self, at: int, batch: Batch, *, cancel: bool) -> None:
        """Store the replies of a batch that has ended; if some are missing, it is cancelled or tried again."""
        part = self.batches[at]
        if (
            batch.n_done and not batch.files and not cancel
        ):  # said to be complete, but the file of its replies is not there yet
            since = part.get("without_files") or time.time()
            if time.time() - since < _WITHOUT_FILES_S:
                self.note(at, word=batch.word, without_files=since)
                return
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
            if not cancel or incomplete.kind != "malformed":
                raise
            problem = incomplete.detail
        self._end(at, results, word=batch.word, n_done=batch.n_done, problem=problem)
        self._remove(at)

    def _results(self, at: int) -> BatchResults:
        manifest = self.store.manifest(self.stored.ticket)
        if not manifest:
            raise TicketChangedError(f"ticket {self.stored.ticket} was collected by another process")
        return BatchResults(
            self.store, self._judge(at), f"{self.stored.ticket}-{at}_", manifest["calls"], manifest["requests"][at],
            self.details["newer_than"],
        )  # fmt: skip

    def _end(self, at: int, results: BatchResults, *, problem: str = "", **changes: Any) -> None:
        results.store_rows()
        self.note(
            at, state="ended", n_stored=results.n_stored, cost_usd=results.cost_usd, reasons=dict(results.reasons),
            problem="; ".join(filter(None, [problem, *results.problems])), free=self._keys(at), **changes,
        )  # fmt: skip

    def take_files(self, files: Sequence[Path]) -> None:
        """Store the replies in files of results."""
        found: dict[int, BatchResults] = {}
        ours = re.compile(rf"{self.stored.ticket}-(\d+)_\d+")
        for file in files:
            for line in json_lines(file):
                match = ours.fullmatch(str(line.get("custom_id"))) if line.keys() & {"response", "error"} else None
                at = int(match[1]) if match else -1
                if not 0 <= at < len(self.batches) or self.batches[at]["state"] != "file":
                    continue
                if at not in found:
                    found[at] = self._results(at)
                answer = answer_of(line, self._judge(at))
                if answer is not None and found[at].add(line["custom_id"], answer):
                    found[at].store_rows()
        if not found:
            raise InputError(
                f"{listed(files)} has no answer to a request of ticket {self.stored.ticket} that is still open; pass "
                "the file that the program wrote from the requests of this ticket"
            )
        for at, results in found.items():
            self._end(at, results)
