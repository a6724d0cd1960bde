"""What an answer with an error status says: its texts and codes, and the tables that tell kinds of errors apart.

Services word the same error in many ways, so each kind is one pattern over the message and one over the codes.
"""

from __future__ import annotations

import email.utils
import math
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import orjson

from evalkit.engine.providers.provider_interface import ProblemKind

DROPPABLE = ("n", "top_logprobs", "logprobs", "response_format", "temperature", "max_tokens")
"""Parameters that evalkit can leave out or send otherwise, in the order in which a message is searched for them."""
SYSTEM_ROLE = "system_role"
"""Stands for the role ``system`` among the parameters that a model refuses."""

_TEXTS = ("message", "msg", "detail", "error", "errors", "error_message", "error_msg", "errorMessage", "Message",
          "description", "faultstring", "fault", "title",
          "status_msg", "base_resp", "Response", "Error")  # fmt: skip
_INNER = ("innererror", "inner_error", "details")
_CODES = ("code", "type", "status", "reason", "error_code", "error_type", "status_code", "Code", *_INNER)
_LONGEST, _DEEPEST, _MOST_TEXTS = 2000, 8, 100


def _any(*parts: str) -> re.Pattern[str]:
    """A pattern that matches any of the parts, in capital letters or not."""
    return re.compile("|".join(parts), re.IGNORECASE)


_REFUSES = _any(
    r"unsupported|unknown|unrecogni[sz]ed|unexpected|deprecated|unavailable|cannot be set|only the default|only 1\b",
    r"n[o']t (?:be |been |currently |yet )?(?:support|permit|allow|accept|enable|implement|available|valid)",
    r"(?:not|n't) (?:handle|work with)\b",
    r"only (?:supports?|accepts?|allows?|one\b)|incompatible|disallowed|no longer",
    r"extra (?:fields|inputs)|must be (?:exactly )?1\b|invalid (?:parameter|argument|(?:message )?role)",
    r"use 'max_completion_tokens'",
)
_NAMES = {
    # not the n of an escaped line end, of a path or of "isn't"
    "n": _any(
        r"(?<![\w\\/.’'-])(?:['\"`]n['\"`]|n)(?![\w’/]|'\w)",
        r"candidate[_ ]?count|num_return_sequences|best_of",
        r"(?:multiple|several|number of|only (?:one|1|a single)|more than (?:one|1)|parallel) "
        r"(?:completion |chat |output )?(?:candidate|choice|completion|generation|sequence|response|sample"
        r"|output(?! tokens))s?\b",
    ),
    "top_logprobs": _any(r"top_?log_?probs?"),
    "logprobs": _any(r"(?<!top_)(?<!top)log_?probs?|log[- ]probabilit"),
    "response_format": _any(
        r"response[_ ]?format|json[_ -]?schema|json[_ ]object|json mode|structured[_ ]?outputs?|response_?schema",
        r"response_?mime_?type|guided[_ ](?:json|decoding)|grammar|additionalProperties|invalid schema",
        r"output_config\.format|(?:\ba|specified) schema\b",
    ),
    "temperature": _any(r"(?<![a-z_])temperature(?![a-z_])"),
    "max_tokens": _any(r"(?<![a-z_])max_(?:new_)?tokens(?![a-z_])"),
}
_SYSTEM = _any(
    r"system[_ ](?:role|messages?|prompts?|instructions?)|role\W{1,6}system|system\W{1,4}role|developer instruction",
    r"support ['\"]?system\b|messages(?:\[0\]|\.0)\.role",
)
_ROLES = _any(
    r"only user(?:,| and) assistant|roles? must alternate|requests? alternate",
    # the roles that are allowed, without system
    r"\broles?\b(?:(?!system).){0,60}\W(?:be|of|are|expected|allowed)\b(?: either| one of)?\W{1,4}(?:user|assistant)\b"
    r"\W{1,4}(?:(?:or|and)\W{1,3})?(?:assistant|user|model)\b(?!.{0,30}system)",
)
_LONG_PROMPT = _any(
    r"context[_ ](?:length|window|size|limit)|maximum (?:context|prompt|input|model) |reduce the length",
    r"(?:prompt|input|message)s? (?:is|are) too long|too many (?:input |prompt )?tokens",
    r"exceeds? the (?:available|model)|range of input length",
    r"(?:input|prompt) tokens?(?: count)?(?: \(\d+\))? exceeds?\b",
    r"\binputs`? (?:must have (?:less|fewer) than|tokens \+)",
)
_TOO_LONG = _any(_LONG_PROMPT.pattern, "output limit was reached")
# the limit of a reply alone, though the reason given may name the context
_LONG_REPLY = re.compile(r"(?:\A|:)\W*max_tokens\W{0,2} must be (?:less than or equal to|at most|<=)")
_RANGE = _any(
    r"at most|at least|less than|greater than|<|>|≤|≥|maximum|minimum|between|range|or less|too (?:large|high|big)|\[\d"
)
_MOST = re.compile(
    r"(?:at most|no more than|up to|<=?|≤|\d >|不能大于|max(?:imum)?(?: value| allowed)?(?: of| is|:)?|or equal to"
    r"|between \d+ and|\[\d+ ?,|(?:from|range)\D{0,12}\d+\D{1,20}to|(?:range|between)\D{0,12}\d+ ?(?:,|\.\.|-))"
    r"[^\w\d-]{0,4}(\d+)(\s*\(exclusive)?",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)")

# of money: certain as a code or type, in a text unless that is about a rate
_NO_MONEY_CODE = _any(
    r"insufficient[_ -]?(?:\w+[_ -])?(?:quota|balance|credits?|funds)|quota_not_enough|exceeded_current_quota",
    r"not_enough_(?:balance|credits?|quota|funds)|budget_?exceeded|token_quota_failed|free_?tier_?only",
    r"(?:credits?|balance|funds)\w*[_ -](?:exhaust|deplet|too_low|not_enough)|(?:out[_ -]of|no)[_ -]credits?",
    r"billing|payment|arrear|hard_limit|spend\w*_limit|usage_limit_reached",
)
_ALLOWANCE = (
    r"(?:month|spend|billing|budget|usage|credit|hard|weekly|included)\w*(?: \w+){0,3} (?:limit|cap|quota|credit)s?\b"
)
_NO_MONEY = _any(
    r"insufficient (?:\w+ ){0,2}(?:quota|balance|credits?|funds)|exceeded your current quota|payment required",
    r"key limit|pay-as-you-go limit|\bbilling (?:to be |is not |not )enabled|exceeded\w*budget|not enough balance",
    r"(?<!token )(?<!thinking )(?<!reasoning )\bbudget (?:(?:has been|was|is) )?exceeded|exceeded (?:\w+ )?budget",
    r"free (?:tier|allocation|quota)\b.{0,40}(?:exhausted|used up)|used up .{0,20}free (?:tier|allocation|quota)",
    r"balance (?:is |was )?(?:too low|exhausted|insufficient|not enough|negative)|in good standing",
    r"(?:\bno|not enough|out of|used (?:up )?all|exhausted|any|more|add|purchase|buy) (?:\w+ ){0,3}credits?\b",
    rf"{_ALLOWANCE}.{{0,40}}(?:reached|exceed|hit|used)|(?:reach\w*|exceed\w*|hit|used)\b.{{0,60}}{_ALLOWANCE}",
    r"余额|欠费|额度(?:不足|已用)",
)
# of money, beside a code that stands for rates too: Google's RESOURCE_EXHAUSTED
_NO_CREDIT = _any(
    r"(?:credits?|balance|funds)\b(?: \w+){0,3} (?:deplet|exhaust|expired|insufficient|used up|negative|too low)",
    r"(?:credits?|balance|funds)\b(?: \w+){0,3} run out|out of credits",
    r"insufficient (?:\w+ ){0,2}(?:balance|credits?|funds)|payment required|arrear|overdue|unpaid",
    r"outstanding (?:invoice|balance)",
)
_RATE = _any(
    r"per[ _-]?(?:second|minute|min|hour|day)\b|/(?:min|minute|sec|second|hour|day)\b|\b[qrt]p[smd]\b|rate[ _-]?limit",
    r"(?:try again|retry) (?:in|after) [\d.]|RESOURCE_EXHAUSTED|concurren|too many requests",
)
_BAD_KEY = _any(
    r"(?:invalid|incorrect|wrong|expired|missing|malformed|bad|unknown|revoked|disabled|provide an?|no)[ _]"
    r"(?:\w+[ _]){0,2}(?:api[ _-]?key|access[ _]token|auth\w*[ _](?:token|header)|credentials)",
    r"api[ _-]?key[\w' ,:]{0,40}"
    r"(?:not valid|invalid|expired|incorrect|missing|not found|revoked|disabled|suspended|required)",
    r"authentication[ _](?:error|fail)",
    r"(?:organi[sz]ation|account|project)[\w' -]{0,30}(?:disabled|deactivated|suspended|terminated)",
)
_FILTERED_CODE = _any(
    r"content_?(?:filter|polic|block|moderat|violat|safety)|responsible_?ai|data_?inspection|prohibited_?content",
    r"moderation|sensitive|^safety$|guardrail|invalid_prompt|policy_violation|unsafe|^1301$",
)
_FILTERED = _any(
    r"content (?:management|filter\w*|moderation|safety) ?(?:policy|system)?|requires moderation|content exists risk",
    r"(?:violat\w*|against|breach\w*)(?: \w+){0,4} (?:polic|guideline|terms|rules)|flagged (?:as|for|by|because)",
    r"inappropriate content|considered high risk|safety (?:system|filter|check|reason)|prohibited[ _]content|guardrail",
    r"blocked by(?: \w+){0,5} (?:guardrail|safety|filter|polic)|sensitive (?:content|words?|information|material)",
    r"\b(?:prompt|input|output|response) (?:(?:was|is|has been) )?blocked|blocked (?:prompt|input|output|content)\b",
    r"jailbreak|prompt injection|toxic (?:content|language)|contains? PII\b|policy violation|_sensitive\b",
    r"敏感|不安全|违规",
)
_BROKEN_JSON = _any(
    r"json_validate_failed|failed to (?:generate|validate) json|json mode couldn.?t be met|failed_generation"
)
_TOO_LARGE = _any(
    r"request (?:is )?too large|input or output tokens must be reduced|larger than (?:the|your)",
    r"reduce (?:your|the) (?:message|request|prompt|input)|single request (?:exceeds|is)",
)
_LIMIT = re.compile(r"limit:?\s*([\d,]+)\D{1,40}requested:?\s*([\d,]+)", re.IGNORECASE)
_KINDS: dict[int, ProblemKind] = {
    401: "auth", 402: "quota", 403: "forbidden", 404: "unknown_model", 408: "server_error", 409: "server_error",
    425: "server_error", 429: "rate_limited",
}  # fmt: skip
"""HTTP status -> kind of problem."""
_STATUSES = {
    401: _any(r"authentication_?error|unauthenticated|unauthorized|^invalid_(?:api_)?key$"),
    403: _any(r"permission_?(?:error|denied)|forbidden|access_denied"),
    404: _any(r"model_not_found|not_?found_?error|^not_found$|unknown_model"),
    429: _any(r"rate_?limit|resource_exhausted|too_many_requests|throttl"),
    500: _any(r"server_?error|internal|overload|unavailable|time_?out"),
    400: _any(r"invalid_?request|invalid_?argument|bad_?request|validation_?error|unsupported_(?:parameter|value)"),
}
"""HTTP status -> the codes that name it in an error that came without one; the first that fits counts."""

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
        The parameter that it names in a field of its own, without its path.
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
        reset, param = max(map(float, parts["reset"]), default=None), next(iter(parts["param"]), "")
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
        path = [str(step) for step in where if step != "body"]
        yield "text", f"{'.'.join(path)}: {value['msg']}"
        yield from (("param", step) for step in path[:1])
        return
    yield from _codes_in(value, depth)
    wait = value.get("retryDelay") or value.get("retry_after") or value.get("retryAfter")
    if isinstance(wait, (str, int, float)) and not isinstance(wait, bool):
        yield "text", f"retry after {wait}{'' if str(wait)[-1:].isalpha() else ' s'}"
    metadata = value.get("metadata")
    inner = metadata.get("headers") if isinstance(metadata, dict) else None
    if isinstance(inner, dict) and (wait := reset_in({str(name).lower(): str(text) for name, text in inner.items()})):
        yield "reset", str(wait)
    if isinstance(param := value.get("param"), str) and param:
        yield "param", param.split(".")[0].split("[")[0]
    for name in _TEXTS:
        if value.get(name):
            yield from _walk(value[name], depth + 1)
    if isinstance(metadata, dict):
        yield from _behind_router(metadata, depth)


def _codes_in(value: Mapping[str, Any], depth: int) -> Iterator[tuple[str, str]]:
    for name in _CODES:
        code = value.get(name)
        if isinstance(code, (str, int)) and not isinstance(code, bool):
            yield "code", str(code)
        elif isinstance(code, (dict, list)) and name in _INNER:
            yield from _walk(code, depth + 1)


def _behind_router(metadata: Mapping[str, Any], depth: int) -> Iterator[tuple[str, str]]:
    """What the server behind a router said."""
    raw, provider, reasons = metadata.get("raw"), metadata.get("provider_name"), metadata.get("reasons")
    if isinstance(provider, str) and raw:
        yield "text", provider
    if isinstance(raw, (str, dict, list)):
        yield from _walk(raw, depth + 1)
    if isinstance(reasons, list):
        yield "text", ", ".join(str(reason)[:60] for reason in reasons[:4])


def _json_in(text: str) -> Any:
    """The JSON object or list that a message consists of, or ends with; None if there is none."""
    start = min((index for mark in "{[" if (index := text.find(mark)) >= 0), default=-1)
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
    """The kind of an error by its status, codes and text; `wait` are the seconds that it asks to wait.

    A reset is no such wait: many services state one in every answer, also in that of an account without credit.
    """
    codes, text = " ".join(said.codes), said.text
    if status in (429, 413) and is_too_large(text):
        return "client_error"
    if 400 <= status < 500 and status not in (401, 402, 404, 408, 409, 429):
        if any(_FILTERED_CODE.search(code) for code in said.codes) or _FILTERED.search(text):
            return "content_filter"
        if _BROKEN_JSON.search(codes + text):
            return "server_error"
    if status >= 400 and status != 401:
        # a server that fails may tell of the usage, limits and billing of its own
        by_text = status < 500 and _NO_MONEY.search(text) and not _RATE.search(text + codes)
        by_text = by_text or (_NO_CREDIT.search(text) and not _RATE.search(text))
        if (status < 500 and _NO_MONEY_CODE.search(codes)) or (by_text and not (status == 429 and wait)):
            return "quota"
        if status not in (402, 404, 408, 409, 429) and status < 500 and _BAD_KEY.search(f"{text} {codes}"):
            return "auth"
    kind = _KINDS.get(status, "server_error" if status >= 500 else "client_error")
    return problem_kind(text) if kind == "client_error" or (status == 500 and _LONG_PROMPT.search(text)) else kind


def status_named(said: ErrorText) -> int:
    """The HTTP status that an error names which came with status 200: as a number, by its code or words; else 500.

    Examples
    --------
    >>> status_named(ErrorText("no", ("invalid_api_key",))), status_named(ErrorText("no", ("503",)))
    (401, 503)
    >>> status_named(ErrorText("You exceeded your current quota")), status_named(ErrorText("oops"))
    (400, 500)
    """
    for code in said.codes:
        if code.isdecimal() and len(code) == 3 and "400" <= code <= "599":
            return int(code)
    if kind_of(400, said) in ("quota", "content_filter", "too_long"):
        return 400
    for status, pattern in _STATUSES.items():
        if any(map(pattern.search, said.codes)):
            return status
    return 400 if kind_of(400, said) == "auth" else 429 if _RATE.search(said.text) else 500


def problem_kind(text: str) -> Literal["too_long", "client_error"]:
    """Whether an error about one request says that its prompt is too long for the model.

    Examples
    --------
    >>> problem_kind("This model's maximum context length is 4096 tokens."), problem_kind("no such token")
    ('too_long', 'client_error')
    """
    return "too_long" if _LONG_PROMPT.search(text) and not _LONG_REPLY.search(text) else "client_error"


def is_too_large(text: str) -> bool:
    """Whether a rate limit is refused because one request is larger than all of it: waiting cannot help.

    Examples
    --------
    >>> is_too_large("tokens per min: Limit 30000, Requested 34000")
    True
    >>> is_too_large("tokens per min: Limit 30000, Used 29000, Requested 2000")
    False
    """
    match = _LIMIT.search(text)
    asks_more = match and int(match[2].replace(",", "") or 0) > int(match[1].replace(",", "") or 0)
    return bool(_TOO_LARGE.search(text) or asks_more)


def refused_parameter(status: int, said: ErrorText, body: Mapping[str, Any]) -> tuple[str, int | str | None] | None:
    """The parameter of `body` that an error refuses, and what to send instead; None if it refuses none of them.

    A parameter counts as refused if the error names it, whatever its words. Exceptions: a prompt that is too long, and
    values of the user's own that are out of range, which the user must correct; but a `max_tokens` above the stated
    maximum of the model is lowered to it. The values of `body` may be None.
    """
    text, in_use = said.text, status in (401, 402, 408, 409, 429)
    if in_use or not 400 <= status < 600 or (_TOO_LONG.search(text) and not _LONG_REPLY.search(text)):
        return None
    refuses = bool(_REFUSES.search(said.text)) or bool(_REFUSES.search(" ".join(said.codes)))
    if _has_system(body.get("messages")) and (_ROLES.search(text) or (refuses and _SYSTEM.search(text))):
        return SYSTEM_ROLE, None
    if status >= 500 and not refuses:
        return None
    # some accounts may not ask for log-probabilities; any other 403 refuses the whole request
    sent = [name for name in DROPPABLE if name in body and (status != 403 or "logprobs" in name)]
    if said.param in sent:
        names = [said.param]
    elif said.param in body and said.param != "messages":
        return None
    else:
        names = [name for name in sent if _NAMES[name].search(text)]
    for name in names:
        value = body[name]
        if name in ("n", "top_logprobs"):
            return name, _highest_allowed(text, value)
        if name == "logprobs" and "top_logprobs" in body and _highest_allowed(text, 21):
            return "top_logprobs", _highest_allowed(text, 21)
        if name in ("logprobs", "response_format"):
            return name, None
        if name == "temperature" and not _is_out_of_range(text, value):
            return name, None
        if name == "max_tokens" and (instead := _instead_of_length(text, value, refuses=refuses)) is not None:
            return name, instead
    return None


def _instead_of_length(text: str, value: Any, *, refuses: bool) -> str | int | None:
    """What to send instead of `max_tokens`; None if it is out of a range that the error does not state."""
    if refuses and not _RANGE.search(text):
        return "max_completion_tokens"
    return _highest_allowed(text, value) if isinstance(value, int) else None


def instead_of(name: str, other: str | int | None) -> str:
    """What evalkit does in place of sending a parameter that is refused, in words."""
    if name == "n":
        return f"evalkit requests {'one reply' if other is None else f'at most {other} replies'} at a time"
    if name == SYSTEM_ROLE:
        return "evalkit puts the system text before the user's"
    if name == "response_format":
        return "evalkit leaves it out, so no schema binds the replies,"
    if other is None:
        return "evalkit leaves it out"
    return f"evalkit sends {other}{' (or the limit in params) instead' * isinstance(other, str)}"


def _has_system(messages: Any) -> bool:
    return messages is None or any(message.get("role") == "system" for message in messages)


def _highest_allowed(text: str, sent: Any) -> int | None:
    """The highest number that is allowed, if it is over 1 and below what was sent; else None."""
    for match in _MOST.finditer(text):
        limit = int(match[1][:9]) - bool(match[2])
        if 1 < limit < (sent if isinstance(sent, int) else math.inf):
            return limit
    return None


def _is_out_of_range(text: str, value: Any) -> bool:
    """Whether a temperature is refused only because it is too high, or the stated range contains it."""
    if not _RANGE.search(text) or not isinstance(value, (int, float)):
        return False
    bounds = [float(number) for number in _NUMBER.findall(text)]
    return value > 1 or (value > 0 and bool(bounds) and max(bounds) > value and "only" not in text.lower())


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
