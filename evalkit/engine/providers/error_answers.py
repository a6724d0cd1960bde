"""What an answer with an error status says: its texts and codes, and the tables that tell kinds of errors apart.

Services word the same error in many ways, so each kind is one pattern over the message and one over the codes.
"""

from __future__ import annotations

import email.utils
import math
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from evalkit.engine.providers.provider_interface import ProblemKind

DROPPABLE = ("n", "top_logprobs", "logprobs", "response_format", "temperature", "max_tokens")
"""Parameters that evalkit can leave out or send otherwise, in the order in which a message is searched for them."""
SYSTEM_ROLE = "system_role"
"""Stands for the role ``system`` among the parameters that a model refuses."""

_TEXTS = ("message", "msg", "detail", "error", "errors", "error_message", "error_msg", "errorMessage", "Message",
          "description", "faultstring", "fault", "title")  # fmt: skip
_CODES = ("code", "type", "status", "reason", "error_code", "error_type", "innererror", "details")
_LONGEST, _DEEPEST = 2000, 8

_REFUSES = re.compile(
    r"unsupported|n[o']t (?:be |been |currently |yet )?(?:support|permit|allow|accept|enable|implement|available|valid)|"
    r"unknown|unrecogni[sz]ed|unexpected|extra (?:fields|inputs)|only the default|must be (?:exactly )?1\b|only 1\b|"
    r"cannot be set|deprecated|invalid (?:parameter|argument)|unavailable|use 'max_completion_tokens'",
    re.IGNORECASE,
)
_NAMES = {
    # not the n of an escaped line end, of a path or of "isn't"
    "n": re.compile(r"(?<![\w\\/.’'-])(?:['\"`]n['\"`]|n)(?![\w’/]|'\w)|candidate[_ ]?count|(?:multiple|number of|only one) "
                    r"(?:candidates?|choices|completions)|num_return_sequences", re.IGNORECASE),
    "top_logprobs": re.compile(r"top_?log_?probs?", re.IGNORECASE),
    "logprobs": re.compile(r"(?<!top_)(?<!top)log_?probs?|log[- ]probabilit", re.IGNORECASE),
    "response_format": re.compile(
        r"response[_ ]?format|json[_ -]?schema|json[_ ]object|json mode|structured[_ ]?outputs?|response_?schema|"
        r"response_?mime_?type|guided[_ ](?:json|decoding)|grammar|additionalProperties|invalid schema|output_config\.format",
        re.IGNORECASE,
    ),
    "temperature": re.compile(r"\btemperature\b", re.IGNORECASE),
    "max_tokens": re.compile(r"\bmax_tokens\b", re.IGNORECASE),
}  # fmt: skip
_SYSTEM = re.compile(
    r"system[_ ](?:role|messages?|prompts?|instructions?)|role\W{1,6}system|system\W{1,4}role|developer instruction|"
    r"support ['\"]?system\b|messages(?:\[0\]|\.0)\.role",
    re.IGNORECASE,
)
_ROLES = re.compile(r"only user(?:,| and) assistant|roles? must alternate|requests? alternate", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"context[_ ](?:length|window|size)|maximum (?:context|prompt|input|model) |(?:prompt|input|message)s? (?:is|are) too "
    r"long|too many (?:input |prompt )?tokens|reduce the length|output limit was reached|exceeds? the (?:available|model)",
    re.IGNORECASE,
)
_RANGE = re.compile(
    r"at most|at least|less than|greater than|<|>|≤|≥|maximum|minimum|between|range|or less|too (?:large|high|big)|\[\d",
    re.IGNORECASE,
)
_MOST = re.compile(
    r"(?:at most|no more than|up to|<=?|≤|maximum(?: value)?(?: of| is|:)?|or equal to|between \d+ and|(?:from|range)\D{0,12}"
    r"\d+\D{1,20}to|(?:range|between)\D{0,12}\d+ ?(?:,|\.\.|-)|\[\d+ ?,)[^\w\d-]{0,4}(\d+)(\s*\(exclusive)?",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)")

# of money: certain as a code or type, in a text unless that is about a rate
_NO_MONEY_CODE = re.compile(
    r"insufficient[_ -]?(?:\w+[_ -])?(?:quota|balance|credits?|funds)|(?:credits?|balance|funds)\w*[_ -](?:exhaust|deplet|"
    r"too_low|not_enough)|out[_ -]of[_ -]credits?|no[_ -]credits?|billing|payment|arrear|quota_not_enough|exceeded_current_"
    r"quota|hard_limit|spend\w*_limit|usage_limit_reached",
    re.IGNORECASE,
)
_NO_MONEY = re.compile(
    r"insufficient (?:\w+ ){0,2}(?:quota|balance|credits?|funds)|balance (?:is |was )?(?:too low|exhausted|insufficient|not "
    r"enough|negative)|(?:\bno|not enough|out of|used (?:up )?all|ran out of|run out of|exhausted|any|more|add|purchase|buy) "
    r"(?:\w+ ){0,3}credits?\b|payment required|exceeded your current quota|arrear|overdue|in good standing|"
    r"(?:month|spend|billing|budget|usage|credit|hard|key|weekly|included)\w*(?: \w+){0,3} (?:limits?|caps?|allowance|quota)\b"
    r".{0,40}(?:reached|exceed|hit|used)|(?:reached|exceed\w*|hit|used)\b.{0,60}(?:month|spend|billing|budget|usage|credit|hard"
    r"|key|included)\w*(?: \w+){0,3} (?:limits?|caps?|allowance|quota|credits)|key limit|余额|欠费|额度(?:不足|已用)",
    re.IGNORECASE,
)
_RATE = re.compile(
    r"per[ _-]?(?:second|minute|min|hour|day)\b|\b[rt]p[smd]\b|(?:try again|retry) (?:in|after) [\d.]|rate[ _-]?limit|"
    r"RESOURCE_EXHAUSTED|concurren|too many requests|/(?:min|minute|sec|second|hour|day)\b",
    re.IGNORECASE,
)
_BAD_KEY = re.compile(
    r"(?:invalid|incorrect|wrong|expired|missing|malformed|bad|unknown|revoked|disabled|provide an?|no)[ _](?:\w+[ _]){0,2}"
    r"(?:api[ _-]?key|access[ _]token|auth\w*[ _](?:token|header)|credentials)|api[ _-]?key[\w' ,:]{0,40}(?:not valid|invalid|"
    r"expired|incorrect|missing|not found|revoked|disabled|suspended|required)|authentication[ _](?:error|fail)|"
    r"(?:organi[sz]ation|account|project)[\w' -]{0,30}(?:disabled|deactivated|suspended|terminated)",
    re.IGNORECASE,
)
_FILTERED_CODE = re.compile(
    r"content_?(?:filter|polic|block|moderat|violat|safety)|responsible_?ai|data_?inspection|moderation|prohibited_?content|"
    r"sensitive|^safety$|guardrail|invalid_prompt|policy_violation|unsafe|^1301$",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"content (?:management|filter\w*|moderation|safety) ?(?:policy|system)?|(?:violat\w*|against|breach\w*)(?: \w+){0,4} "
    r"(?:polic|guideline|terms)|flagged (?:as|for|by|because)|requires moderation|inappropriate|content exists risk|"
    r"considered high risk|safety (?:system|filter|check|reason)|blocked by(?: \w+){0,5} (?:guardrail|safety|filter|polic)|"
    r"prohibited[ _]content|sensitive (?:content|words?|information|material)|guardrail|敏感|不安全|违规",
    re.IGNORECASE,
)
_BROKEN_JSON = re.compile(
    r"json_validate_failed|failed to (?:generate|validate) json|json mode couldn.?t be met|failed_generation", re.IGNORECASE
)
_TOO_LARGE = re.compile(
    r"request (?:is )?too large|input or output tokens must be reduced|reduce (?:your|the) (?:message|request|prompt|input)|"
    r"larger than (?:the|your)|single request (?:exceeds|is)",
    re.IGNORECASE,
)
_LIMIT = re.compile(r"limit:?\s*([\d,]+)\D{1,40}requested:?\s*([\d,]+)", re.IGNORECASE)
_KINDS: dict[int, ProblemKind] = {
    401: "auth", 402: "quota", 403: "forbidden", 404: "unknown_model", 408: "server_error", 409: "server_error",
    425: "server_error", 429: "rate_limited",
}  # fmt: skip
"""HTTP status -> kind of problem."""

_WAIT = re.compile(
    r"(?:try again|retry|wait|reset\w*)(?: your request)? ?(?:in|after|for)?:? ?(?:(\d+)m(?!s))?(\d+(?:\.\d+)?) ?"
    r"(ms|milliseconds?|s\b|sec|m\b|min)|\"?retry_?(?:delay|after)\"?: ?\"?()(\d+(?:\.\d+)?)(s?)",
    re.IGNORECASE,
)
_LONGEST_WAIT_S = 300.0
_EPOCH_S = 1e9


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
        The parameter that it names in a field of its own, without its path.
    """

    text: str = ""
    codes: tuple[str, ...] = ()
    param: str = ""

    @classmethod
    def of(cls, body: Any) -> ErrorText:
        """What the JSON value of an answer says; blank if it has no message in any known place."""
        texts: list[str] = []
        codes: list[str] = []
        params: list[str] = []
        for kind, value in _walk(body, 0):
            {"text": texts, "code": codes, "param": params}[kind].append(value)
        kept: list[str] = []
        for text in texts:
            line = " ".join(text.split())[:_LONGEST]
            if line and not any(line in other for other in kept):
                kept.append(line)
        return cls(": ".join(kept)[:_LONGEST], tuple(dict.fromkeys(codes)), next(iter(params), ""))


def _walk(value: Any, depth: int) -> Iterator[tuple[str, str]]:
    """The messages, codes and parameters in an error, outermost first; never its echoes of the request."""
    if depth > _DEEPEST:
        return
    if isinstance(value, str):
        inner = _json_in(value)
        if inner is None:
            yield "text", value
        else:
            yield from _walk(inner, depth + 1)
    elif isinstance(value, list):
        for entry in value[:4]:
            yield from _walk(entry, depth + 1)
    elif isinstance(value, dict):
        yield from _walk_mapping(value, depth)


def _walk_mapping(value: Mapping[str, Any], depth: int) -> Iterator[tuple[str, str]]:
    where = value.get("loc")
    if isinstance(where, list) and isinstance(value.get("msg"), str):  # pydantic's form
        path = [str(step) for step in where if step != "body"]
        yield "text", f"{'.'.join(path)}: {value['msg']}"
        if path:
            yield "param", path[0]
        return
    for name in _CODES:
        code = value.get(name)
        if isinstance(code, (str, int)) and not isinstance(code, bool):
            yield "code", str(code)
        elif isinstance(code, (dict, list)) and name in ("innererror", "details"):
            yield from _walk(code, depth + 1)
    wait = value.get("retryDelay") or value.get("retry_after") or value.get("retryAfter")
    if isinstance(wait, (str, int, float)) and not isinstance(wait, bool):
        yield "text", f"retry after {str(wait).rstrip('s')} s"
    if isinstance(param := value.get("param"), str) and param:
        yield "param", param.split(".")[0].split("[")[0]
    for name in _TEXTS:
        if value.get(name):
            yield from _walk(value[name], depth + 1)
    metadata = value.get("metadata")
    if isinstance(metadata, dict):  # a router's: what the server behind it said
        raw, by, why = metadata.get("raw"), metadata.get("provider_name"), metadata.get("reasons")
        if isinstance(by, str) and raw:
            yield "text", by
        if isinstance(raw, (str, dict, list)):
            yield from _walk(raw, depth + 1)
        if isinstance(why, list):
            yield "text", ", ".join(str(reason)[:60] for reason in why[:4])


def _json_in(text: str) -> Any:
    """The JSON object or list that a message consists of, or ends with; None if there is none."""
    start = min((at for mark in "{[" if (at := text.find(mark)) >= 0), default=-1)
    if not 0 <= start < _LONGEST or text.rstrip()[-1:] not in ("}", "]"):
        return None
    try:
        inner = orjson.loads(text[start:])
    except orjson.JSONDecodeError:
        return None
    if not ErrorText.of(inner).text:
        return None
    head = text[:start].rstrip(" :-\n")
    return [head, inner] if head else inner


def kind_of(status: int, said: ErrorText, wait: float | None = None) -> ProblemKind:
    """The kind of an error by its status, codes and text; `wait` are the seconds that it asks to wait."""
    codes, text = " ".join(said.codes), said.text
    if status in (429, 413) and is_too_large(text):
        return "client_error"
    if 400 <= status < 500 and status not in (401, 402, 404, 408, 409, 429):
        if any(_FILTERED_CODE.search(code) for code in said.codes) or _FILTERED.search(text):
            return "content_filter"
        if _BROKEN_JSON.search(codes + text):
            return "server_error"
    if 400 <= status < 500 and status != 401:
        by_text = _NO_MONEY.search(text) and not (_RATE.search(text + codes) or (status == 429 and wait))
        if _NO_MONEY_CODE.search(codes) or by_text:
            return "quota"
        if status in (400, 403, 422) and _BAD_KEY.search(f"{text} {codes}"):
            return "auth"
    return _KINDS.get(status, "server_error" if status >= 500 else "client_error")


def is_too_large(text: str) -> bool:
    """Whether a rate limit is refused because one request is larger than all of it: waiting cannot help.

    Examples
    --------
    >>> is_too_large("tokens per min: Limit 30000, Requested 34000")
    True
    >>> is_too_large("tokens per min: Limit 30000, Used 29000, Requested 2000")
    False
    """
    found = _LIMIT.search(text)
    return bool(_TOO_LARGE.search(text)) or (
        found is not None and int(found[2].replace(",", "") or 0) > int(found[1].replace(",", "") or 0)
    )


def refused_parameter(
    status: int, said: ErrorText, body: Mapping[str, Any]
) -> tuple[str, int | str | None] | None:
    """The parameter of `body` that an error refuses, and what to send instead; None if it refuses none of them.

    A parameter counts as refused if the error names it, whatever its words. Exceptions: a prompt that is too long, and
    values of the user's own that are out of range, which the user must correct. The values of `body` may be None.
    """
    if status in (401, 402, 403, 408, 409, 429) or not 400 <= status < 600 or _TOO_LONG.search(said.text):
        return None
    text, refuses = said.text, bool(_REFUSES.search(said.text)) or bool(_REFUSES.search(" ".join(said.codes)))
    if _has_system(body.get("messages")) and (_ROLES.search(text) or (refuses and _SYSTEM.search(text))):
        return SYSTEM_ROLE, None
    if status >= 500 and not refuses:
        return None
    sent = [name for name in DROPPABLE if name in body]
    if said.param in sent:
        names = [said.param]
    elif said.param in body and said.param != "messages":
        return None
    else:
        names = [name for name in sent if _NAMES[name].search(text)]
    for name in names:
        value = body[name]
        if name in ("n", "top_logprobs"):
            return name, _most(text, value)
        if name == "logprobs" and "top_logprobs" in body and _most(text, 21):
            return "top_logprobs", _most(text, 21)
        if name in ("logprobs", "response_format"):
            return name, None
        if name == "temperature" and not _is_out_of_range(text, value):
            return name, None
        if name == "max_tokens" and refuses and not _RANGE.search(text):
            return name, "max_completion_tokens"
    return None


def instead_of(name: str, other: str | int | None) -> str:
    """What evalkit does in place of sending a parameter that is refused, in words."""
    if name == "n":
        return f"evalkit requests {'one reply' if other is None else f'at most {other} replies'} at a time"
    if name == SYSTEM_ROLE:
        return "evalkit puts the system text before the user's"
    if name == "response_format":
        return "evalkit leaves it out, so no schema binds the replies,"
    return f"evalkit sends {other} instead" if isinstance(other, str) else (
        "evalkit leaves it out" if other is None else f"evalkit sends {other}"
    )


def _has_system(messages: Any) -> bool:
    return messages is None or any(message.get("role") == "system" for message in messages)


def _most(text: str, sent: Any) -> int | None:
    """The highest number that is allowed, if it is over 1 and below what was sent; else None."""
    for found in _MOST.finditer(text):
        most = int(found[1][:9]) - bool(found[2])
        if 1 < most < (sent if isinstance(sent, int) else math.inf):
            return most
    return None


def _is_out_of_range(text: str, value: Any) -> bool:
    """Whether a temperature is refused only because it is too high, or the stated range contains it."""
    if not _RANGE.search(text) or not isinstance(value, (int, float)):
        return False
    bounds = [float(number) for number in _NUMBER.findall(text)]
    return value > 1 or (value > 0 and bool(bounds) and max(bounds) > value and "only" not in text.lower())


def wait_in(headers: Mapping[str, str], text: str = "") -> float | None:
    """Seconds that the server asks to wait: the longest sensible one of all forms; None if it says nothing.

    These are ``retry-after-ms``, ``Retry-After`` (seconds, a date or a Unix time) and the words of the error. Up to five
    minutes are sensible; a longer wait counts only if it is alone.

    Examples
    --------
    >>> wait_in({"retry-after-ms": "0", "retry-after": "1"}), wait_in({}, "Please try again in 1m30s."), wait_in({})
    (1.0, 90.0, None)
    """
    waits = [
        *_header_seconds(headers.get("retry-after-ms", ""), 1000.0),
        *(_header_seconds(headers.get("retry-after", ""), 1.0) or _date_seconds(headers.get("retry-after", ""))),
        *_seconds_in(text),
    ]
    sensible = [seconds for seconds in waits if seconds <= _LONGEST_WAIT_S]
    return max(sensible if any(sensible) else waits, default=None)


def _header_seconds(value: str, unit: float) -> list[float]:
    try:
        seconds = float(value) / unit
    except ValueError:
        return []
    if math.isfinite(seconds) and seconds >= _EPOCH_S:  # a Unix time
        seconds = max(0.0, seconds - time.time())
    return [seconds] if math.isfinite(seconds) and seconds >= 0 else []


def _date_seconds(value: str) -> list[float]:
    try:
        date = email.utils.parsedate_tz(value)
        return [] if date is None else [max(0.0, email.utils.mktime_tz(date) - time.time())]
    except (ValueError, OverflowError):  # a year beyond 9999: no date at all
        return []


def _seconds_in(text: str) -> Iterator[float]:
    for found in _WAIT.finditer(text):
        minutes, number, unit = (found[1], found[2], found[3]) if found[2] else ("", found[5], "s")
        scale = 0.001 if unit.lower().startswith(("ms", "milli")) else 60.0 if unit.lower().startswith("m") else 1.0
        yield float(number) * scale + 60.0 * float(minutes or 0)
