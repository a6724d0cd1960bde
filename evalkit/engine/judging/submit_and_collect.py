"""`submit` and `collect`: judgments that a provider makes within a day, at a lower price.

The ticket is in the reply store before anything is sent, and replies are stored under the keys of live calls. So a
process may be killed at any moment: `collect` goes on from the ticket and from what the provider has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from evalkit.core.judges import Judge, JudgesLike
from evalkit.core.lists_of_choices import OnMissing
from evalkit.core.settings import Options, Refresh
from evalkit.engine.batches.batch_request_files import FILE_LIMITS, FileWriter
from evalkit.engine.batches.ticket import Ticket, TicketRecord
from evalkit.engine.batches.ticket_in_progress import OpenTicket
from evalkit.engine.cache import ReplyStore
from evalkit.engine.cache.batch_tickets import IN_BATCH
from evalkit.engine.calls.budget import Budget
from evalkit.engine.calls.event_loop import wait_for
from evalkit.engine.judging.judge import missing_requests
from evalkit.engine.judging.specification import Spec, is_none
from evalkit.engine.judging.worklist import Worklist
from evalkit.engine.providers import check_ready
from evalkit.engine.providers.batch_interface import service_of
from evalkit.engine.request import Request
from evalkit.errors import ConfigError, InputError, JudgeError, listed
from evalkit.rubrics.profiles import RubricLike
from evalkit.tables.items import ItemsLike

_TAKEN = "meanwhile, other processes sent, requested or stored all of these replies; see `evalkit batch list`"
_KEYS_PER_CLAIM = 500


def submit(
    items: ItemsLike,
    rubric: RubricLike,
    judges: JudgesLike | None = None,
    *,
    samples: int | None = None,
    template: str | None = None,
    criteria_per_call: int | Literal["all"] | None = None,
    item_id: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    on_missing: OnMissing = "raise",
    refresh: Refresh = False,
    adopt: bool = False,
    cache: str | Path | None = None,
    budget_usd: float | None = None,
    to: str | Path | None = None,
) -> Ticket:
    """Send to the judges' providers, in batches, what `judge` would ask live; `collect` brings the replies.

    Batches cost half of live calls at OpenAI and Anthropic, and are answered within a day. Replies are stored under the
    keys of live calls: afterwards `judge` with the same arguments returns all of them (with ``refresh=True``, pass it
    ``refresh=ticket.created``). What the cache has, and what another ticket asks for already, is not sent.

    Parameters
    ----------
    items, rubric, judges, samples, template, criteria_per_call, item_id, inputs, on_missing, refresh, adopt, cache
        As in `judge`.
    budget_usd
        Maximum US$, by the highest price of each request; requests beyond it are not sent.
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

    Examples
    --------
    Requests for a program such as ``vllm run-batch``; without `to`, they go to the provider.

    >>> import tempfile
    >>> from evalkit.core import Judge
    >>> judge, folder = Judge("openai", "qwen", base_url="http://localhost:8000/v1"), tempfile.mkdtemp()
    >>> items = [{"question": "When?", "answer": "In May.", "context": "It opens in May."}]
    >>> ticket = submit(items, "faithfulness", judge, samples=1, cache=folder, to=f"{folder}/requests.jsonl")
    >>> ticket.is_open
    True
    """
    spec = Spec.of(
        rubric, judges, samples, template, inputs=inputs, on_missing=on_missing, criteria_per_call=criteria_per_call
    )
    options = Options(refresh=refresh, adopt=adopt, cache=cache, budget_usd=budget_usd)
    if is_none(judges):
        raise ConfigError("judges='none' makes no calls, so there is nothing to send; name judges, or omit judges=")
    for judge in spec.judges:
        if judge.decides:
            raise ConfigError(f"judge '{judge.name}' is a decision model, and these take no batches; call ek.judge")
        if to is None:
            service_of(judge)
            check_ready(judge)
        elif judge.provider in ("fake", "function"):
            raise ConfigError(f"judge '{judge.name}' runs in this process and reads no request file; call ek.judge")
    for judge in spec.judges if budget_usd is not None else ():
        Budget(options).check(judge)
    worklist = Worklist.of(spec, items, item_id)
    requests, store, newer_than, why_none = missing_requests(worklist, options)
    if not requests:
        return Ticket.of(store, why_none)
    _check_texts(worklist)
    store.check_writable()
    keys = [key for request in requests for key in request.keys]
    stored, ticket_keys = store.open_ticket(TicketRecord(newer_than).to_dict(), keys)
    ticket = OpenTicket(store, stored, [judge if judge.given else judge.base_url for judge in spec.judges])
    with TemporaryDirectory(prefix="evalkit-batch-") as folder:
        try:
            unasked = ticket_keys - wait_for(_asked_or_stored(store, sorted(ticket_keys), newer_than))
            paths = _numbered(Path(folder), None if to is None else Path(to), len({r.judge.name for r in requests}))
            writer = _write(ticket, _only(requests, unasked), paths, budget_usd, to_file=to is not None)
            left_out = sum(len(request.keys) for request in writer.left_out)
            batches = tuple(file.record("written" if to is None else "file") for file in writer.files)
            for file in writer.files:
                file.part.replace(file.path)
            ticket.change(
                batches=batches, n_left_out=left_out, manifest=writer.manifest, free=ticket_keys - writer.keys,
                ended=not batches,
            )  # fmt: skip
        except BaseException:
            ticket.change(ended=True)  # nothing was sent
            raise
        for number in range(len(writer.files) if to is None else 0):
            ticket.send(number)
    result = ticket.shown()
    if writer.files and (result.table["state"] == "unsent").all():
        raise JudgeError(f"no batch could be sent: {'; '.join(result.table['problem'].unique())}")
    return result if writer.files or result.n_left_out else Ticket.of(store, _TAKEN)


def _check_texts(worklist: Worklist) -> None:
    """InputError if items have images that a judge is shown."""
    if worklist.with_images:
        names = listed([worklist.ids[number] for number in sorted(worklist.with_images)])
        raise InputError(f"items with images (item {names}) are not sent in batches; call ek.judge for them")


def collect(
    ticket: Ticket | str,
    *,
    wait: bool = True,
    cancel: bool = False,
    results: str | Path | Sequence[str | Path] = (),
    cache: str | Path | None = None,
    base_url: str | None = None,
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
    base_url
        The judge's server, if it is not the provider's own and another process sent the ticket: your key is not sent
        to a server that only the cache names.
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
    ConfigError
        If a key would be sent to a server that you did not name.
    JudgeError
        If the provider refuses to answer or, without `wait` or with `cancel`, cannot be reached; or if its answers
        stay unreadable, or a file of results stays cut short or is gone. The other batches are collected before, and
        the ticket stays open.

    Examples
    --------
    >>> ticket = submit(items, "faithfulness", "openai:gpt-4o-mini")  # doctest: +SKIP
    >>> collect(ticket.id)  # on another day, in another process  # doctest: +SKIP
    """
    store = ticket.store if isinstance(ticket, Ticket) and ticket.store and cache is None else ReplyStore.open(cache)
    if isinstance(ticket, Ticket) and not ticket.id:
        return ticket
    servers = [base_url, *(ticket.servers if isinstance(ticket, Ticket) else ())]
    opened = OpenTicket(store, store.ticket(ticket.id if isinstance(ticket, Ticket) else ticket), servers)
    files = [Path(path) for path in ([results] if isinstance(results, (str, Path)) else results)]
    return opened.collect(files, wait=wait, cancel=cancel, progress=progress)


def tickets(cache: str | Path | None = None, *, only_open: bool = False) -> list[Ticket]:
    """The tickets of a cache, the oldest first."""
    store = ReplyStore.open(cache)
    return [Ticket.of(store, stored) for stored in store.tickets(only_open=only_open)]


async def _asked_or_stored(store: ReplyStore, keys: Sequence[bytes], since: float | None) -> set[bytes]:
    """Those of the keys that a live call is asking for, or that were stored in the meantime.

    Calls that come later see the ticket.
    """
    gone: set[bytes] = set()
    portions = [list(keys[start : start + _KEYS_PER_CLAIM]) for start in range(0, len(keys), _KEYS_PER_CLAIM)]
    while portions:
        some = portions.pop()
        stored = await store.claim(some, since=since)
        if stored is not None:
            store.claims.release(some)
            gone |= {key for key, value in stored.items() if value != IN_BATCH}
        elif len(some) == 1:
            gone |= {*some}
        else:
            half = len(some) // 2
            portions += [some[:half], some[half:]]
    return gone


def _only(requests: Sequence[Request], keys: Collection[bytes]) -> list[Request]:
    """The requests without samples of other keys."""
    chosen = []
    for request in requests:
        pairs = [pair for pair in zip(request.samples, request.keys, strict=True) if pair[1] in keys]
        if len(pairs) == len(request.keys):
            chosen.append(request)
        elif pairs:
            samples, chosen_keys = zip(*pairs, strict=True)
            chosen.append(replace(request, samples=samples, keys=chosen_keys))
    return chosen


def _numbered(folder: Path, to: Path | None, n_judges: int) -> Iterator[Path]:
    """The paths of a ticket's files."""
    if to is None:
        return (folder / f"{number}.jsonl" for number in count())
    to.absolute().parent.mkdir(parents=True, exist_ok=True)
    if n_judges == 1:
        return iter([to])
    return (to.with_name(f"{to.stem}-{number}{to.suffix}") for number in count())


def _write(
    ticket: OpenTicket, requests: Sequence[Request], paths: Iterator[Path], budget_usd: float | None, *, to_file: bool
) -> FileWriter:
    """Write the files of the requests that the budget allows."""
    writer = FileWriter(ticket.stored.ticket, ticket.store, budget_usd)
    by_judge: dict[str, list[Request]] = {}
    for request in requests:
        by_judge.setdefault(request.judge.name, []).append(request)
    for judge_requests in by_judge.values():
        service = service_of(judge_requests[0].judge if not to_file else Judge("openai", "any"))
        limits = FILE_LIMITS if to_file else (service.max_requests, service.max_bytes)
        writer.write(judge_requests, service, paths, limits, ticket.alive)
    return writer
