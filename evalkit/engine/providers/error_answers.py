"""What an answer with an error status means, by its status, its documented fields and `KNOWN_ERRORS`; never by wording.

ADR 19 says why. A parameter counts as refused if the error names it: the names that were sent are the list.
"""

from __future__ import annotations

import email.utils
import math
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from evalkit.core.judges import Judge
from evalkit.engine.providers.known_errors import KNOWN_ERRORS, KnownError
from evalkit.engine.request import ProblemKind

DROPPABLE = ("n", "top_logprobs", "logprobs", "response_format", "temperature", "max_tokens")
"""Parameters that evalkit can leave out or send otherwise, in the order in which a message is searched for them."""
SYSTEM_ROLE = "system_role"
"""Stands for the role ``system`` among the parameters that a model refuses."""
JSON_OBJECT = "json_object"
"""Is asked for instead of a schema that is refused: a ``response_format`` that most servers know."""
_NEW_LIMIT = "max_completion_tokens"
_LEFT_OUT = {
    SYSTEM_ROLE: "evalkit puts the system text before the user's",
    "response_format": "evalkit leaves it out, so no schema binds the replies,",
}

_TEXTS = ("message", "msg", "detail", "error", "errors", "error_message", "error_msg", "errorMessage", "Message",
          "description", "faultstring", "fault", "title",
          "status_msg", "base_resp", "Response", "Error",
          "innererror", "inner_error", "details",
          "metadata", "provider_name", "raw", "reasons")  # fmt: skip
_CODES = ("code", "type", "status", "reason", "error_code", "error_type", "status_code", "Code")
_LONGEST, _DEEPEST, _MOST_TEXTS = 2000, 8, 100


def _any(*parts: str) -> re.Pattern[str]:
    """A pattern that matches any of the parts, in capital letters or not."""
    return re.compile("|".join(parts), re.IGNORECASE)


_SEPARATED = {
    "top_logprobs": "top_logprobs",
    "logprobs": "logprobs",
    # the field and its values; Anthropic's has another name
    "response_format": r"(?:response_format|json_schema|json_object|output_config(?:\.format|(?!\.)))",
    "temperature": "temperature",
    "max_tokens": "max_tokens",
}
_WORD = "a-z0-9_À-ɏ"  # no letters of other scripts, which may follow a name without a blank
_NAMES = {name: _any(rf"(?<![{_WORD}]){form.replace('_', '[ _-]?')}(?![{_WORD}])") for name, form in _SEPARATED.items()}
# not the n of an escaped line end, of a path, of "isn't" or "n-gram"
_NAMES["n"] = _any(rf"(?<![{_WORD}\\/.’'-])(?:['\"`]n['\"`]|n)(?![{_WORD}’/-]|'[{_WORD}])")
_NAMES[SYSTEM_ROLE] = _any(rf"\A(?=.*(?<![{_WORD}])roles?(?![{_WORD}])).*(?<![{_WORD}])system(?![{_WORD}])")
_WHOLE_NUMBER = re.compile(r"(?<![\w.-])(?:\d{1,3}(?:,\d{3})+|\d{1,9})(?![\w]|[.,]\d)")
_HIGHEST_OWN_TEMPERATURE = 1.0
_LEAST_LIMIT = 64  # in tokens; a smaller number is part of a model's name
_NAMES_COUNT = (0, 400, 422)
"""The statuses whose error refuses what it names; 0: none is known."""

_KINDS: dict[int, ProblemKind] = {
    401: "auth", 402: "quota", 403: "forbidden", 404: "unknown_model", 408: "server_error", 409: "server_error",
    425: "server_error", 429: "rate_limited",
}  # fmt: skip
"""HTTP status -> kind of problem."""
_STATUSES = {
    # OpenAI
    "invalid_request_error": 400, "invalid_api_key": 401, "model_not_found": 404, "rate_limit_exceeded": 429,
    "server_error": 500,
    # Anthropic
    "authentication_error": 401, "billing_error": 402, "permission_error": 403, "not_found_error": 404,
    "request_too_large": 413, "rate_limit_error": 429, "api_error": 500, "timeout_error": 504, "overloaded_error": 529,
    # Google
    "invalid_argument": 400, "failed_precondition": 400, "unauthenticated": 401, "permission_denied": 403,
    "not_found": 404, "resource_exhausted": 429, "internal": 500, "unavailable": 503, "deadline_exceeded": 504,
}  # fmt: skip
"""Documented type or code -> the HTTP status that it comes with, for an error that came with status 200."""

_UNITS = {
    "d|days?": 86400.0, "h|hrs?|hours?": 3600.0, "m|mins?|minutes?": 60.0, "s|secs?|seconds?": 1.0,
    "ms|milliseconds?": 1e-3, "us|µs": 1e-6, "ns": 1e-9,
}  # fmt: skip
_DURATION = _any(rf"(\d+(?:\.\d*)?|\.\d+) ?(?:{'|'.join(f'({unit})' for unit in _UNITS)})(?![a-zµ])")
_WAIT = _any(
    r"(?:try again|retry|wait|reset\w*)(?: your request)? ?(?:in|after|for)?:? ?((?:\d[\d.]* ?[a-zµ]+(?:,| and)? ?)+)",
    r"\"?retry_?(?:delay|after)\"?: ?\"?(\d+(?:\.\d+)?)",
)
_LONGEST_WAIT_S = 300.0
_EPOCH_S = 1e9
_LONGEST_TIME, _MOST_LIMITS = 64, 20  # characters of a header, and limits whose resets are read
_NOTHING = re.compile(r"\s*0+(?:\.0*)?(?![\d.])")  # "0", "0/60", "0, 0;w=60"; not "0.5"


@dataclass(frozen=True, slots=True)
class ErrorText:
    """What an error says.

    Attributes
    ----------
    text
        All its messages, the outermost first, without repetitions: routers wrap the reason of the server behind them.
    codes
        Its codes and types.
    param
        The path of the parameter that it names in a field of its own, as in ``messages.0.role``.
    reset
        Seconds until a limit is reset, by the headers that a router passes on in its body.
    """

    text: str = ""
    codes: tuple[str, ...] = ()
    param: str = ""
    reset: float | None = None

    @classmethod
    def of(cls, body: Any) -> ErrorText:
        """What the JSON value of an answer says; blank if it has no message in any known place."""
        parts, lines = {name: list[str]() for name in ("text", "code", "param", "reset")}, list[str]()
        for kind, value in _walk(body, 0):
            parts[kind].append(value)
        for text in parts["text"][:_MOST_TEXTS]:
            line = " ".join(text.split())[:_LONGEST]
            if line and not any(line in earlier for earlier in lines):
                lines.append(line)
        reset, param = max(map(float, parts["reset"]), default=0.0) or None, next(iter(parts["param"]), "")
        return cls(": ".join(lines)[:_LONGEST], tuple(dict.fromkeys(parts["code"])), param, reset)


def _walk(value: Any, depth: int) -> Iterator[tuple[str, str]]:
    """The messages, codes and parameters in an error, outermost first; never its echoes of the request."""
    if depth > _DEEPEST:
        return
    if isinstance(value, str):
        inner = _json_in(value)
        yield from [("text", value)] if inner is None else _walk(inner, depth + 1)
    elif isinstance(value, list):
        for entry in value[:4]:
            yield from _walk(entry, depth + 1)
    elif isinstance(value, dict):
        yield from _walk_mapping(value, depth)


def _walk_mapping(value: Mapping[str, Any], depth: int) -> Iterator[tuple[str, str]]:
    where = value.get("loc")
    if isinstance(where, list) and isinstance(value.get("msg"), str):  # pydantic's form
        path = ".".join(str(step) for step in where if step != "body")
        yield from [("text", f"{path}: {value['msg']}"), ("param", path)]
        return
    codes = [code for name in _CODES if isinstance(code := value.get(name), (str, int)) and not isinstance(code, bool)]
    yield from (("code", str(code)) for code in codes)
    wait = value.get("retryDelay") or value.get("retry_after") or value.get("retryAfter")
    if isinstance(wait, (str, int, float)) and not isinstance(wait, bool):
        yield "text", f"retry after {wait}{'' if str(wait)[-1:].isalpha() else ' s'}"
    if isinstance(inner := value.get("headers"), dict):  # those of the server behind a router
        yield "reset", str(reset_in({str(name).lower(): str(text) for name, text in inner.items()}) or 0.0)
    if isinstance(param := value.get("param"), str) and param:
        yield "param", param.replace("[", ".").replace("]", "")
    for name in _TEXTS:
        if value.get(name):
            yield from _walk(value[name], depth + 1)


def _json_in(text: str) -> Any:
    """The JSON object or list that a message consists of, or ends with; None if there is none."""
    start = re.search(r"[{\[]", text[:_LONGEST])
    if start is None or text.rstrip()[-1:] not in ("}", "]"):
        return None
    try:
        inner = orjson.loads(text[start.start() :])
    except orjson.JSONDecodeError:
        return None
    head = text[: start.start()].rstrip(" :-\n")
    return None if not ErrorText.of(inner).text else [head, inner] if head else inner


def known_error(said: ErrorText) -> KnownError | None:
    """The first of `KNOWN_ERRORS` whose signs an error has."""
    codes, text = set(map(str.casefold, said.codes)), said.text.casefold()
    return next((row for row in KNOWN_ERRORS if (not row.code or row.code in codes) and row.text in text), None)


def kind_of(status: int, said: ErrorText) -> ProblemKind:
    """The kind of an error by what is known of providers, else by its status (0: none is known).

    Examples
    --------
    >>> kind_of(400, ErrorText("no", ("content_filter",))), kind_of(402, ErrorText("no")), kind_of(0, ErrorText("no"))
    ('content_filter', 'quota', 'server_error')
    """
    row = known_error(said)
    if row is not None and not row.parameter:
        return row.kind
    return _KINDS.get(status, "client_error" if 0 < status < 500 else "server_error")


def status_named(said: ErrorText) -> int:
    """The HTTP status that an error names which came with status 200: as a number, else by its codes; 0 if none.

    Of several codes, one that says more than ``invalid_request_error`` counts.

    Examples
    --------
    >>> status_named(ErrorText("no", ("invalid_api_key", "invalid_request_error"))), status_named(ErrorText("no"))
    (401, 0)
    """
    for code in said.codes:
        if code.isdecimal() and len(code) == 3 and "400" <= code <= "599":
            return int(code)
    return max((_STATUSES.get(code.casefold(), 0) for code in said.codes), default=0)


def refused_parameter(
    status: int, said: ErrorText, body: Mapping[str, Any], user_set: Collection[str] = ()
) -> tuple[str, int | str | None] | None:
    """The parameter of `body` that an error refuses, and what to send instead; None if it refuses none of evalkit's.

    It is the one that a row of `KNOWN_ERRORS` refuses, else, with HTTP 400 or 422, the one that the error names. Those
    in `user_set` are never left out, nor is a temperature above evalkit's own. The values of `body` may
    be None, if only the names are known.
    """
    sent = [name for name in DROPPABLE if name in body and name not in user_set]
    if "temperature" in sent and (body["temperature"] or 0) > _HIGHEST_OWN_TEMPERATURE:
        sent.remove("temperature")
    if _has_system(body.get("messages")):
        sent.append(SYSTEM_ROLE)
    if (row := known_error(said)) is not None:
        name = row.parameter
    elif status in _NAMES_COUNT:
        name = _named(said, body, sent)
    else:
        return None
    text = re.sub(rf"^\W*(?:[A-Za-z]+\W+){{0,3}}{status}\b", "", said.text)  # at the head of a message, it is no limit
    if name == "logprobs" and "top_logprobs" in sent and _lower_number(text, body["top_logprobs"]):
        name = "top_logprobs"  # more than the server takes
    if name not in sent:
        return None
    instead = _instead(name, text, body.get(name))
    # without any limit, a reply could cost more than a budget reserved for it
    return None if name == "max_tokens" and instead is None else (name, instead)


def _named(said: ErrorText, body: Mapping[str, Any], sent: Sequence[str]) -> str:
    """Which of the names in `sent` an error names: in its field `param`, else the first in its text; or blank."""
    field, _, path = said.param.partition(".")
    if field == "messages" and path:
        return SYSTEM_ROLE if path.startswith("0.") and path.endswith("role") else ""
    if field in body and field != "messages":
        return field
    return next((name for name in sent if _NAMES[name].search(said.text)), "")


def _instead(name: str, text: str, value: Any) -> str | int | None:
    """What to send in place of a refused parameter, by what was sent: a lower number, another form, or nothing.

    An error about `max_tokens` that states no number is about its name.
    """
    if name == "response_format":
        return JSON_OBJECT if isinstance(value, Mapping) and value.get("type") == "json_schema" else None
    if name == "max_tokens" and (_NEW_LIMIT in text or not _WHOLE_NUMBER.search(text)):
        return _NEW_LIMIT
    if name in ("n", "top_logprobs", "max_tokens"):
        return _lower_number(text, value, least=_LEAST_LIMIT if name == "max_tokens" else 2)
    return None


def _lower_number(text: str, sent: Any, least: int = 2) -> int | None:
    """The highest whole number in an error that is at least `least` and below the one that was sent; else None."""
    numbers = (int(match[0].replace(",", "")) for match in _WHOLE_NUMBER.finditer(text))
    return max((number for number in numbers if isinstance(sent, int) and least <= number < sent), default=None)


def fact_of(parameter: str, judge: Judge) -> str:
    """The name of the fact that a model refuses a parameter; of a temperature, only the judge's own is known."""
    return f"adapt.{parameter}" + f"={judge.temperature}" * (parameter == "temperature")


def learnt(facts: Mapping[str, Any], judge: Judge) -> dict[str, Any]:
    """The parameters of a judge that its model refuses, by what is known of it, and what to send instead.

    Examples
    --------
    >>> learnt({"adapt.n": 8, "adapt.temperature=0.0": None, "n_supported": True}, Judge("openai", "m"))
    {'n': 8}
    """
    names = {name: fact_of(name, judge) for name in (*DROPPABLE, SYSTEM_ROLE)}
    return {name: facts[fact] for name, fact in names.items() if fact in facts}


def instead_of(name: str, other: str | int | None) -> str:
    """What evalkit does in place of sending a parameter that is refused, in words."""
    if other == JSON_OBJECT:
        return "evalkit asks for a JSON object without a schema"
    if name == "n":
        return f"evalkit requests {'one reply' if other is None else f'at most {other} replies'} at a time"
    if other is None:
        return _LEFT_OUT.get(name, "evalkit leaves it out")
    return f"evalkit sends {other}{' (or the limit in params) instead' * isinstance(other, str)}"


def _has_system(messages: Any) -> bool:
    return messages is None or any(message.get("role") == "system" for message in messages)


def wait_in(headers: Mapping[str, str], text: str = "", *, resets: bool = True) -> float | None:
    """Seconds that the server asks to wait: the longest sensible one of all forms; None if it says nothing.

    The forms are ``retry-after-ms``, ``Retry-After`` (seconds, a duration, a date or a Unix time) and the words of the
    error; with `resets`, if these say nothing, the reset of a limit of which nothing remains. Up to five minutes are
    sensible; a longer wait counts only if it is alone.

    Examples
    --------
    >>> wait_in({"retry-after-ms": "0", "retry-after": "1"}), wait_in({}, "Please try again in 11h6m40s."), wait_in({})
    (1.0, 40000.0, None)
    >>> limit = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m30s"}
    >>> wait_in(limit), wait_in(limit | {"retry-after": "2s"}), wait_in({"x-ratelimit-reset": "200"})
    (90.0, 2.0, None)
    """
    in_ms = headers.get("retry-after-ms") or headers.get("x-ms-retry-after-ms", "")
    waits = [*_header_seconds(in_ms, 0.001), *_header_seconds(headers.get("retry-after", "")), *_seconds_in(text)]
    if resets and not any(waits):
        waits += filter(None, [reset_in(headers)])
    sensible = [seconds for seconds in waits if seconds <= _LONGEST_WAIT_S]
    return max(sensible if any(sensible) else waits, default=None)


def reset_in(headers: Mapping[str, str]) -> float | None:
    """Seconds until the last limit of which the headers say that nothing remains is reset; None: there is none."""
    waits = [0.0]
    for name in [name for name in map(str.lower, headers) if "ratelimit" in name and "reset" in name][:_MOST_LIMITS]:
        is_used_up = _NOTHING.match(headers.get(name.replace("reset", "remaining"), ""))
        waits += _header_seconds(headers.get(name, "")) if is_used_up else []
    return max(waits) or None


def _header_seconds(value: str, unit: float = 1.0) -> list[float]:
    """The seconds in a header: numbers (two, if a proxy adds its own), a duration such as 1m30s, or a date."""
    value = value.strip() if len(value) <= _LONGEST_TIME else ""
    try:
        seconds = [float(number) * unit for number in value.split(",")]
    except ValueError:
        seconds = [_duration(value)]
        if not value or _DURATION.sub("", value).strip():
            seconds = _moment(value)
    # a Unix time, which some write in milliseconds
    seconds = [wait / 1000 if wait >= 1000 * _EPOCH_S else wait for wait in seconds if math.isfinite(wait)]
    return [max(0.0, wait - time.time()) if wait >= _EPOCH_S else wait for wait in seconds if wait >= 0]


def _moment(value: str) -> list[float]:
    """The Unix time of a date, as ISO 8601 or HTTP writes it."""
    for date_of in (datetime.fromisoformat, email.utils.parsedate_to_datetime):
        with suppress(ValueError, OverflowError):  # a year beyond 9999: no date at all
            date = date_of(value)
            return [max(_EPOCH_S, (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp())]
    return []


def _seconds_in(text: str) -> Iterator[float]:
    for match in _WAIT.finditer(text):
        yield from filter(None, [_duration(match[1]) if match[1] else float(match[2])])


def _duration(text: str) -> float:
    """The seconds of all times in a text, as in ``11h6m40s`` and "1 hour and 5 minutes"."""
    return sum(float(match[1]) * [*_UNITS.values()][(match.lastindex or 0) - 2] for match in _DURATION.finditer(text))
