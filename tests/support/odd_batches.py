"""A batch service that answers oddly, in one way at a time, and what becomes of a ticket there."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web
from batch_server import BatchServer, batch_server

import evalkit as ek
from evalkit.engine import tickets
from evalkit.errors import JudgeError

N_ITEMS, SAMPLES = 6, 2
KEY = "sk-of-these-tests-0815"
Line = dict[str, Any]


class OddBatchServer(BatchServer):
    """See `BatchServer`; each hook changes one kind of answer."""

    def __init__(self, odd: Odd) -> None:
        super().__init__()
        self.odd = odd
        self.n_asked: dict[str, int] = {}

    def finish(self, batch: dict[str, Any], status: str, share: float = 1.0) -> None:
        super().finish(batch, status, share)
        name = batch["output_file_id"]
        if self.odd.lines and name:
            purpose, file, content = self.files[name]
            lines = self.odd.lines([json.loads(line) for line in content.splitlines()])
            texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
            self.files[name] = purpose, file, b"".join(text + b"\n" for text in texts)

    def count(self, what: str) -> int:
        self.n_asked[what] = self.n_asked.get(what, 0) + 1
        return self.n_asked[what]

    @web.middleware
    async def fail(self, request: web.Request, handler: Any) -> web.StreamResponse:
        odd, path = self.odd, request.path
        if path == "/v1/batches" and request.method == "POST":
            made = await handler(request) if odd.created else None
            if odd.create is not None and self.count("create") <= odd.times:
                return (
                    odd.create
                    if isinstance(odd.create, web.Response)
                    else _json({"error": {"message": "no"}}, odd.create)
                )
            return made or await handler(request)  # type: ignore[no-any-return]
        if path == "/v1/batches" and odd.listed:
            page = {"data": [self.progress(one) for one in reversed(self.batches.values())], "has_more": False}
            return odd.listed(page, request.query.get("after"))  # type: ignore[no-any-return]
        answer: web.StreamResponse = await handler(request)
        if path.startswith("/v1/batches/") and (odd.hides_cancel or not path.endswith("/cancel")) and odd.get:
            body = json.loads(answer.body)  # type: ignore[attr-defined]
            return odd.get(body, self.count("get")) or answer
        if path.endswith("/content") and odd.content:
            return odd.content(answer.body, self.count("content")) or answer  # type: ignore[attr-defined]
        return answer


@dataclass(frozen=True)
class Odd:
    """One odd way to answer, and what is right then.

    Attributes
    ----------
    create, created, times
        What a creation is answered, whether the batch was made, and how often.
    get, listed, content, lines
        What becomes of the state of a batch, of the list, of a file of results, and of its lines.
    n_lost
        Requests whose reply nobody can read.
    ends, unsent
        Whether the ticket ends, at the latest when it is cancelled; whether nothing could be sent.
    hides_cancel, needs_cancel
        Whether the answer to a cancellation is as odd as that about a state; whether only a cancellation ends it.
    """

    name: str
    create: Any = None
    created: bool = True
    times: int = 1
    get: Callable[[dict[str, Any], int], Any] | None = None
    listed: Callable[[dict[str, Any], str | None], Any] | None = None
    content: Callable[[bytes, int], Any] | None = None
    lines: Callable[[list[Line]], list[Any]] | None = None
    n_lost: int = 0
    ends: bool = True
    unsent: bool = False
    hides_cancel: bool = False
    needs_cancel: bool = False


@dataclass
class Became:
    """What became of a ticket, and of the same judgments afterwards, by the server's own count."""

    said: list[str] = field(default_factory=list)
    is_open: bool = False
    n_scored: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    n_stored: int = 0
    n_paid_later: int = 0
    n_billed: int = 0
    n_twice: int = 0
    shows_key: bool = False


def _json(body: Any, status: int = 200) -> web.Response:
    return web.Response(body=json.dumps(body).encode(), status=status, content_type="application/json")


HTML = "<html><body>Sign in</body></html>"


def _page(status: int = 200) -> web.Response:
    return web.Response(text=HTML, status=status, content_type="text/html")


def first(n: int, answer: Callable[[Any], Any]) -> Callable[[Any, int], Any]:
    """The odd answer, so many times."""
    return lambda value, at: answer(value) if at <= n else None


def _others(n: int, of: Callable[[int], Any]) -> list[dict[str, Any]]:
    return [
        {"id": f"batch_other{at}", "created_at": of(at), "metadata": None, "status": "completed"} for at in range(n)
    ]


def _with(others: list[Any], **more: Any) -> Callable[[dict[str, Any], str | None], Any]:
    """These entries before those that there are."""
    return lambda page, _: _json(page | {"data": [*others, *page["data"]]} | more)


def _endless(page: dict[str, Any], after: str | None) -> Any:
    number = int(after.removeprefix("batch_x")) if after else 0
    data = [{"id": f"batch_x{number + at + 1}", "created_at": 0} for at in range(100)]
    return _json({"data": data, "has_more": True})


def _deep(levels: int) -> str:
    return "[" * levels + "]" * levels


def _text_of(line: Line, text: Any, at: int = 0) -> Line:
    line["response"]["body"]["choices"][at]["message"]["content"] = text
    return line


def _each_nth(change: Callable[[Line], Any], n: int = N_ITEMS) -> Callable[[list[Line]], list[Any]]:
    return lambda lines: [change(line) if at % n == 0 else line for at, line in enumerate(lines)]


def _raw_body(text: str) -> Callable[[Line], bytes]:
    """A line whose body has, beside the reply, a field that no writer of JSON writes."""
    return lambda line: json.dumps(line).replace('"response": {', f'"response": {{"more": {text}, ', 1).encode()


def _failed(line: Line) -> Line:
    return {"custom_id": line["custom_id"], "error": None,
            "response": {"status_code": 500, "body": {"error": {"message": "try again"}}}}  # fmt: skip


def _model(name: str, value: str) -> Callable[[Line], Line]:
    def change(line: Line) -> Line:
        if name == "model":
            line["response"]["body"]["model"] = value
        elif name == "finish_reason":
            line["response"]["body"]["choices"][0]["finish_reason"] = value
        else:
            line["response"] = None
            line["error"] = {"code": value, "message": value}
        return line

    return change


def _early(body: dict[str, Any], **fields: Any) -> Any:
    return _json(body | fields) if body["status"] == "completed" else None


_NONE: dict[str, Any] = {"output_file_id": None, "error_file_id": None}
_STATUSES = (307, 400, 403, 404, 408, 409, 413, 418, 422, 425, 429, 451, 499, 500, 502, 503, 504, 520, 599)
_REFUSALS = (400, 401, 403, 404, 413, 422)
_COUNTS: tuple[Any, ...] = ({"total": 0, "completed": 0, "failed": 0}, None, {}, [], "many")


def odd_batches() -> list[Odd]:
    """All odd ways, with what is right."""
    ways = [
        *(Odd(f"created, answered {status}", status) for status in _STATUSES),
        Odd("created, answered with a web page", _page()),
        Odd("created, answered without an id", _json({"status": "validating"})),
        Odd("created, answered with a list", _json([])),
        Odd("created, answered 429 twice", 429, times=2),
        *(Odd(f"refused with {status}", status, created=False, unsent=True) for status in _REFUSALS),
        Odd("refused with 429 once", 429, created=False),
    ]  # fmt: skip
    lists = {
        "an old entry first": _with(_others(1, lambda _: 1.6e9)),
        "dates": _with(_others(3, lambda at: f"2026-01-0{at + 1}T00:00:00Z")),
        "dates without a zone": _with(_others(2, lambda _: "2026-01-01 00:00:00")),
        "milliseconds": _with(_others(2, lambda _: 1_600_000_000_000)),
        "no dates": _with(_others(2, lambda _: None)),
        "words for dates": _with(_others(2, lambda _: "yesterday")),
        "the oldest first": _with(_others(130, lambda at: 1.5e9 + at)),
        "entries of other forms": _with([None, 5, "x", {}, {"id": None}, {"id": {}}]),
        "no has_more": lambda page, _: _json({"data": page["data"]}),
        "has_more for ever": lambda page, _: _json(page | {"has_more": True}),
    }
    ways += [Odd(f"created, answered 500; a list with {name}", 500, listed=listed) for name, listed in lists.items()]
    unreadable = {
        "null": lambda page, _: _json(page | {"data": None}), "an object": lambda page, _: _json(page | {"data": {}}),
        "a web page": lambda page, _: _page(), "no end": _endless,
    }  # fmt: skip
    ways += [Odd(f"created, answered 500; a list that is {name}", 500, listed=listed, ends=False)
             for name, listed in unreadable.items()]  # fmt: skip
    ways += [Odd(f"completed first, counts {counts} and files later", get=first(3, partial(
             _early, request_counts=counts, **_NONE))) for counts in _COUNTS]  # fmt: skip
    ways += [
        Odd("completed, without counts, lines still missing",
            get=lambda body, _: _early(body, request_counts=None), content=first(4, lambda content: web.Response(
                body=b"".join(content.splitlines(keepends=True)[:2])))),
        Odd("completed, without counts, an empty file at first",
            get=lambda body, _: _early(body, request_counts=None), content=first(2, lambda _: web.Response(body=b""))),
        Odd("a state that is a web page at first", get=first(2, lambda _: _page())),
        Odd("a state that is null at first", get=first(2, lambda _: _json(None))),
        Odd("a state that is always a web page", get=lambda *_: _page(), ends=False, hides_cancel=True),
        Odd("a state that only the answer to a cancellation shows", get=lambda *_: _page(), needs_cancel=True),
        Odd("results that come late", content=first(2, lambda _: _json({}, 404))),
        Odd("results that are gone", content=lambda *_: _json({}, 404), n_lost=N_ITEMS),
        Odd("results that are gone for good", content=lambda *_: _json({}, 410), n_lost=N_ITEMS),
        Odd("results that are a web page", content=lambda *_: _page(), n_lost=N_ITEMS),
        Odd("an error before each answer", lines=lambda lines: [
            one for line in lines for one in (_failed(line), line)]),
        Odd("an error after each answer", lines=lambda lines: [
            one for line in lines for one in (line, _failed(line))]),
        Odd("all errors first", lines=lambda lines: [*map(_failed, lines), *lines]),
        Odd("a line twice in place of another, at first", content=first(2, lambda content: web.Response(
            body=b"".join((rows := content.splitlines(keepends=True))[:-1] + rows[:1])))),
        Odd("half of a surrogate pair", lines=_each_nth(
            lambda line: _text_of(line, '{"explanation": "cut \ud83d", "score": 1}'))),
        Odd("300 brackets beside a reply", lines=_each_nth(_raw_body(_deep(300)))),
        Odd("a reply within 300 brackets", lines=_each_nth(
            lambda line: json.dumps(_text_of(line, "DEEP")).replace('"DEEP"', _deep(300)).encode()), n_lost=0),
        Odd("100,000 brackets beside a reply", lines=_each_nth(_raw_body(_deep(100_000))), n_lost=1),
        Odd("a status written as a text", lines=lambda lines: [
            line | {"response": line["response"] | {"status_code": "200"}} for line in lines]),
        Odd("lines of other forms between", lines=lambda lines: [b"{}", b"[]", b"null", b"<p>", b"", *lines, b"5"]),
        Odd("lines with a carriage return and a byte order mark",
            content=lambda content, _: web.Response(body=b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n"))),
        Odd("a number too long for JSON", lines=_each_nth(_raw_body("1" * 5000))),
        Odd("NaN beside a reply", lines=_each_nth(_raw_body("NaN"))),
        *(Odd(f"the key as {name}", lines=_each_nth(_model(name, KEY), 1)) for name in ("model", "finish_reason")),
        Odd("the key as an error", lines=_each_nth(_model("error", KEY)), n_lost=1),
    ]  # fmt: skip
    return ways


@contextlib.contextmanager
def odd_server(odd: Odd) -> Iterator[OddBatchServer]:
    """A running server."""
    with batch_server(OddBatchServer(odd)) as server:
        yield server


def became_of(odd: Odd, server: OddBatchServer, cache: Path) -> Became:
    """Submit, collect, cancel if that fails; then judge live; then let all batches end."""
    became = Became()
    judge = ek.Judge("openai", "m", base_url=server.url, service="api.openai.com", price=(1, 1), timeout_s=5,
                     api_key_env="OPENAI_API_KEY")  # fmt: skip
    items = [{"item_id": str(at), "question": f"q{at}", "answer": "4", "reference": "4"} for at in range(N_ITEMS)]
    ask: Any = {"rubric": "correctness", "judges": judge, "samples": SAMPLES, "cache": cache}
    try:
        ek.submit(items, **ask)
    except JudgeError as error:
        became.said.append(str(error))
    for options in ({}, {"cancel": True}) if not became.said else ():
        try:
            ek.collect(tickets(cache)[-1], progress=False, **options)  # type: ignore[arg-type]
            break
        except JudgeError as error:
            became.said.append(str(error))
    became.n_stored = int(tickets(cache)[-1].table["n_stored"].sum())
    became.is_open = tickets(cache)[-1].is_open
    before = sum(server.billed.values())
    table = ek.judge(items, **ask, progress=False, retries=0)
    became.n_paid_later = sum(server.billed.values()) - before
    for batch in server.batches.values():
        if batch["status"] in ("validating", "in_progress", "cancelling"):
            BatchServer.finish(server, batch, "completed")
    became.n_scored, became.reasons = int(table["score"].notna().sum()), Counter(table["error"].dropna())
    became.n_billed = sum(server.billed.values())
    became.n_twice = sum(max(0, n - SAMPLES) for n in server.billed.values())
    stored = b"".join(file.read_bytes() for file in cache.rglob("*") if file.is_file())
    became.shows_key = KEY.encode() in stored or KEY in table.to_csv() or KEY in str(tickets(cache)[-1])
    return became
