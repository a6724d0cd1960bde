"""Odd answers of a judge's server, each with what `judge` makes of it; for the tests and the benchmark of messages."""

from __future__ import annotations

import gzip
import json
import logging
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servers import JudgeServer

import evalkit as ek

RUBRIC = ek.Rubric(
    id="numbers", description="Which number?", inputs=["answer"],
    criteria=[{"name": "number", "scale": {0: "a", 1: "b"}}],
)  # fmt: skip
REPLY = '{"explanation": "so", "score": 1}'
_DEEP, _NESTED = 50_000, 900  # beyond every reader; beyond Python's own, and not beyond all of its writers


def completion(content: str = json.dumps(REPLY), tokens: str = "100", **fields: str) -> bytes:
    """An answer whose parts are given as JSON text, so that they may be what no writer of JSON writes."""
    message = f'{{"role": "assistant", "content": {content}}}'
    choices = f'[{{"index": 0, "message": {message}, "finish_reason": "stop"}}]'
    usage = f'{{"prompt_tokens": {tokens}, "completion_tokens": {tokens}}}'
    parts = {"model": '"odd-2026"', "choices": choices, "usage": usage} | fields
    return ("{" + ", ".join(f'"{name}": {value}' for name, value in parts.items()) + "}").encode()


def deep(levels: int = _DEEP) -> str:
    """Brackets within brackets."""
    return "[" * levels + "]" * levels


def bomb(size: int) -> bytes:
    """A gzip stream of a few kilobytes that becomes `size` bytes: one compressed MiB, over and over."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    block = packer.compress(b" " * (1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + block * (size >> 20) + packer.flush()


@dataclass(frozen=True)
class Odd:
    """One odd answer.

    `step` is what the server does; `error` the reason of the row (None: scored); `counted` whether its tokens are
    known; `said` what must stand in the message of an answer that is no reply.
    """

    name: str
    step: dict[str, Any]
    error: str | None = None
    counted: bool = True
    said: str = ""

    @property
    def is_stored(self) -> bool:
        """Whether there is a reply, which a second run then finds."""
        return self.error not in ("server_error", "rate_limited", "timeout")


def _body(name: str, body: bytes, error: str | None = None, counted: bool = True, said: str = "", **step: Any) -> Odd:
    return Odd(name, {"body": body} | step, error, counted, said)


_COUNTS = {
    "2⁶³": str(2**63), "2⁶⁴": str(2**64), "2³¹": str(2**31), "of 309 digits": "1" * 309, "of 5,000 digits": "1" * 5_000,
    "below 0": "-1", "a float": "1.5", "a text": '"12"', "NaN": "NaN", "infinite": "Infinity", "true": "true",
    "a list": "[1]",
}  # fmt: skip
_USAGES = {"a text": '"many"', "a list": "[1, 2]", "null": "null", "a number": "5"}
_SCORED = '{"explanation": "x", "score": ?}'
_TEXTS: dict[str, tuple[str, str | None]] = {
    "50,000 brackets": (deep(), "unreadable"),
    "50,000 objects in the score": (_SCORED.replace("?", '{"a":' * _DEEP + "1" + "}" * _DEEP), "unreadable"),
    "a score of 900 brackets": (_SCORED.replace("?", deep(_NESTED)), "unreadable"),
    "a score of 309 digits": (_SCORED.replace("?", "1" * 309), "off_scale"),
    "a score of 5,000 digits": (_SCORED.replace("?", "1" * 5_000), "off_scale"),
    "a score that is NaN": (_SCORED.replace("?", "NaN"), "off_scale"),
    "half of a surrogate pair": ('{"explanation": "\ud800", "score": 1}', None),
    "NUL characters": ('{"explanation": "\\u0000", "score": 1}\0', None),
    "a byte order mark": ("\ufeff" + REPLY, None),
}
_CONTENTS: dict[str, tuple[str, str | None]] = {
    "a number": ("1", None),
    "an object": ('{"score": 1}', None),
    "null": ("null", "empty"),
    "a list of parts": (json.dumps([{"type": "text", "text": REPLY}]), None),
    "900 brackets": (deep(_NESTED), "empty"),
    "50,000 brackets": (deep(), "server_error"),
}
_CHOICES = {
    "null": "null", "an object": "{}", "a text": '"x"', "none": "[]", "a null": "[null]", "without message": "[{}]",
    "a message of null": '[{"message": null}]', "a message of text": '[{"message": "x"}]',
    "900 brackets": deep(_NESTED),
}  # fmt: skip
_BODIES = {
    "null": b"null", "a number": b"5", "a text": b'"x"', "a list": b"[]", "nothing": b"",
    "a web page": b"<html>Hello</html>", "50,000 brackets": deep().encode(), "50,000 open brackets": b"[" * _DEEP,
    "half an answer": completion()[:60], "not text": bytes(range(256)),
}  # fmt: skip
_ERROR = '{"error": {"message": ?, "code": ?, "param": ?}}'
_ERRORS = {
    "50,000 brackets": deep(), "fields of 900 brackets": _ERROR.replace("?", deep(_NESTED)),
    "fields of NaN": _ERROR.replace("?", "NaN"), "fields of 2⁷⁰": _ERROR.replace("?", json.dumps({"n": 2**70})),
    "half of a surrogate pair": _ERROR.replace("?", '"\\ud800"'), "true": '{"error": true}', "null": "null",
}  # fmt: skip
_YEAR = "Fri, 31 Dec 99999 23:59:59 GMT"
_WAITS = (_YEAR, "-5", "1e400", "nan", "soon", "9" * 400, "Wed, 21 Oct 2015 07:28:00 +99999999999")
_HEADERS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_RAW = {
    "a chunked body cut short": _HEADERS + b"Transfer-Encoding: chunked\r\n\r\nff\r\n" + completion()[:80],
    "a chunk of no size": _HEADERS + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + completion(),
    "a body shorter than it says": _HEADERS + b"Content-Length: 100000\r\n\r\n" + completion(),
    "a length that is no number": _HEADERS + b"Content-Length: many\r\n\r\n" + completion(),
    "a header of 100 kB": _HEADERS + b"X: " + b"x" * 100_000 + b"\r\nContent-Length: 2\r\n\r\n{}",
    "10,000 headers": _HEADERS + b"".join(b"X-%d: x\r\n" % n for n in range(10_000)) + b"Content-Length: 2\r\n\r\n{}",
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "nothing": b"",
}


def odd_answers() -> list[Odd]:
    """All of them."""
    return [
        *(_body(f"tokens: {name}", completion(tokens=count), counted=False) for name, count in _COUNTS.items()),
        *(_body(f"usage: {name}", completion(usage=usage), counted=False) for name, usage in _USAGES.items()),
        *(_body(f"text: {name}", completion(json.dumps(text)), error) for name, (text, error) in _TEXTS.items()),
        *(_body(f"content: {name}", completion(content), error) for name, (content, error) in _CONTENTS.items()),
        *(_body(f"choices: {name}", completion(choices=value), "server_error") for name, value in _CHOICES.items()),
        *(_body(f"body: {name}", value, "server_error") for name, value in _BODIES.items()),
        _body("model: a list", completion(model="[1]")),
        _body("model: half of a surrogate pair", completion(model='"\\ud800"')),
        _body("another field: NaN", completion(created="NaN")),
        _body("another field: 50,000 brackets", completion(extra=deep()), "server_error"),
        _body("an error with status 200: 900 brackets", b'{"error": %s}' % deep(_NESTED).encode(), "server_error"),
        *_encoded(),
        *_too_large(),
        *(_failed(f"HTTP 500: {name}", text.encode(), 500) for name, text in _ERRORS.items()),
        *(_failed(f"Retry-After: {wait[:30]}", b"{}", 503, {"retry-after": wait}) for wait in _WAITS),
        _failed("retry-after-ms: nan", b"{}", 503, {"retry-after-ms": "nan"}),
        _body("HTTP 429, Retry-After: year 99999", b"{}", "rate_limited", status=429, headers={"retry-after": _YEAR}),
        *(Odd(f"connection: {name}", {"raw": raw}, "server_error") for name, raw in _RAW.items()),
    ]


def _failed(name: str, body: bytes, status: int, headers: dict[str, str] | None = None) -> Odd:
    return _body(name, body, "server_error", said=f"HTTP {status}", status=status, headers=headers)


def _encoded() -> list[Odd]:
    whole = completion()
    packed, bare, brotli = ({"content-encoding": name} for name in ("gzip", "deflate", "br"))
    members = gzip.compress(whole[:50]) + gzip.compress(whole[50:])
    latin = completion(json.dumps(REPLY).replace("so", "s\xf6")).decode().encode("latin-1")
    return [
        _body("body: with a byte order mark", b"\xef\xbb\xbf" + whole),
        _body("body: in UTF-16", whole.decode().encode("utf-16")),
        _body("body: in Latin-1", latin),
        _body("body: gzip", gzip.compress(whole), headers=packed),
        _body("body: gzip of two members", members, headers=packed),
        _body("body: bare deflate", zlib.compress(whole)[2:-4], headers=bare),
        _body("body: gzip that is none", whole, "server_error", said="cannot be decompressed", headers=packed),
        _body("body: an encoding nobody asked for", b"x", "server_error", said="'br'", headers=brotli),
    ]


def _too_large() -> list[Odd]:
    said, packed = "larger than 16 MiB", {"content-encoding": "gzip"}
    large = b'{"error": {"message": "%s"}}' % (b"sk-" * (5 << 20))
    return [
        _body("body: a gzip bomb of 1 GiB", bomb(1 << 30), "server_error", said=said, headers=packed),
        _body("body: 17 MiB", b" " * (17 << 20), "server_error", said=said),
        _body("an error with status 200: a message of 15 MiB", large, "server_error", said=": sk-"),
        _failed("HTTP 500: a gzip bomb of 1 GiB", bomb(1 << 30), 500, packed),
    ]


@dataclass(frozen=True)
class Found:
    """What came back of an odd answer: both judges' tables, what is stored, what two runs asked for."""

    table: Any
    again: Any
    n_stored: int
    n_asked_again: int
    said: str

    @property
    def odd(self) -> Any:
        """The row of the odd judge."""
        return self.table[self.table["judge"] == "openai:odd"].iloc[0]

    @property
    def sound(self) -> Any:
        """The rows of the other judge."""
        return self.table[self.table["judge"] == "openai:sound"]


class _Said(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def judged(server: JudgeServer, odd: Odd, cache: Path) -> Found:
    """Judge three items by two judges, of whom one gets the odd answer for one item; then once more."""
    good = {"content": REPLY}
    server.faults = lambda body: (
        odd.step if body["model"] == "odd" and "ITEM-0 " in body["messages"][-1]["content"] else good
    )
    judges = [ek.Judge("openai", name, base_url=server.url, timeout_s=60) for name in ("sound", "odd")]
    items = [{"item_id": str(n), "answer": f"ITEM-{n} "} for n in range(3)]

    def run() -> Any:
        return ek.judge(items, RUBRIC, judges, samples=1, cache=cache, retries=0, progress=False)

    said = _Said()
    logging.getLogger("evalkit").addHandler(said)
    try:
        table = run()
    finally:
        logging.getLogger("evalkit").removeHandler(said)
    asked = len(server.seen)
    again = run()
    store = ek.engine.ReplyStore.open(cache)
    found = Found(table, again, store.stats()["n_replies"], len(server.seen) - asked, " ".join(said.messages))
    store.close()
    return found
