"""Read the answer of an OpenAI-compatible server: replies with their share of the cost, or an error."""

from __future__ import annotations

import codecs
import email.utils
import json
import math
import re
import time
from collections.abc import Mapping
from typing import Any

import orjson

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Prompt, Reply, token_count
from evalkit.engine.providers.api_keys import key_source
from evalkit.engine.providers.prices import cost_of, shares
from evalkit.engine.providers.provider_interface import ProblemKind, ProviderError
from evalkit.engine.providers.transport import Answer
from evalkit.errors.secrets import Secret, without_keys

_DROPPABLE = ("temperature", "max_tokens", "response_format", "n")
_REFUSES = re.compile(
    r"unsupported|not support|unknown|unrecognized|unexpected|not permitted|not allowed|extra (?:fields|inputs)|"
    r"only the default|must be (?:exactly )?1\b|cannot be set|deprecated|invalid (?:parameter|argument)|"
    r"use 'max_completion_tokens'",
    re.IGNORECASE,
)
# Said of `n` by servers that have another word for it
_REFUSES_N = re.compile(r"(?:multiple|only one) candidates?|candidate_?count", re.IGNORECASE)
_KINDS: dict[int, ProblemKind] = {
    401: "auth", 403: "auth", 404: "unknown_model", 408: "server_error", 409: "server_error", 425: "server_error",
    429: "rate_limited",
}  # fmt: skip
"""HTTP status -> kind of problem."""
_LONGEST_DETAIL = 240
_READ = 4000
_NO_KEY = Secret()
_REPEATED = 24
_LEAST, _IMPOSSIBLE = math.log(1e-4), -9999.0
_NEAR_END, _NEAR_MARK = 16, 8
_MARK = re.compile(r"[:=\[{\n]")
_REFUSES_LOGPROBS = re.compile(r"log_?prob", re.IGNORECASE)


def replies_of(
    answer: Answer,
    n: int,
    *,
    price: tuple[float, float] | None,
    latency_s: float | None,
    sent: Mapping[str, Any] | None,
    secret: Secret = _NO_KEY,
) -> list[Reply]:
    """The replies in a good answer, at most `n`; what was billed is split evenly over them.

    Raises
    ------
    ProviderError
        ``malformed`` for what is not a chat completion; or the error that some servers send with status 200.
    """
    body = json_of(answer.content)
    if not isinstance(body, dict):
        raise ProviderError("malformed", _not_json(answer, secret), status=answer.status, maybe_paid=True)
    choices = body.get("choices")
    if not choices and body.get("error"):
        raise _from_body(body["error"], answer, secret)
    if not isinstance(choices, list) or not all(
        isinstance(c, dict) and isinstance(c.get("message"), dict) for c in choices
    ):
        detail = f"the answer contains no choices: {_cut(answer.content, secret)}"
        raise ProviderError("malformed", detail, status=answer.status, maybe_paid=True)
    if not choices:
        raise ProviderError("malformed", "the answer's choices are empty", status=answer.status, maybe_paid=True)
    choices = choices[:n]
    usage = body.get("usage")
    prompt_tokens, completion_tokens = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    cost = cost_of(price, prompt_tokens, completion_tokens)
    cost = answer.cost_usd if cost is None else cost
    counts = zip(shares(prompt_tokens, len(choices)), shares(completion_tokens, len(choices)), strict=True)
    model = body.get("model")
    model = _text(model, secret) if isinstance(model, str) else None
    logprobs = [_logprobs(choice.get("logprobs"), secret) for choice in choices]
    return [
        Reply(
            text=_text(choice["message"].get("content"), secret),
            finish_reason=_text(choice.get("finish_reason")),
            refusal=_text(choice["message"].get("refusal"), secret),
            model=model,
            prompt_tokens=asked,
            completion_tokens=written,
            cost_usd=None if cost is None else cost / len(choices),
            latency_s=latency_s,
            created=time.time(),
            sent=sent,
            logprobs=tokens,
        )
        for choice, tokens, (asked, written) in zip(choices, logprobs, counts, strict=True)
    ]


def _logprobs(given: Any, secret: Secret) -> dict[str, Any] | None:
    """The `Reply.logprobs` of a choice; None if it has none, or they are in another form: the text was paid for.

    The other candidates are kept where a verdict may be: near both ends, after a mark such as a colon, and at digits.
    Those within an explanation would take many times the room of its text.
    """
    try:
        tokens: list[list[Any]] = []
        whole, until = b"", _NEAR_END - 1
        for at, position in enumerate(given["content"]):
            others: list[dict[str, Any]] = position.get("top_logprobs") or []
            row: dict[bytes, float] = {}
            for token in (position, *others):
                value = float(token["logprob"])
                if math.isnan(value):
                    return None
                row.setdefault(_bytes_of(token), round(max(_IMPOSSIBLE, min(value, 0.0)), 5))
            written = next(iter(row))
            whole += written
            text = written.decode("utf-8", "replace")
            has_digit = any(character.isdigit() for character in text)
            until = max(until, at + _NEAR_MARK if _MARK.search(text) else at + 1 if has_digit else 0)
            is_near = at <= until or at >= len(given["content"]) - _NEAR_END
            known = [(name, value) for name, value in row.items() if name == written or (is_near and value >= _LEAST)]
            tokens.append([part for name, value in known for part in (_token(name), value)])
    except (TypeError, KeyError, ValueError, AttributeError):
        return None
    text = whole.decode("utf-8", "replace")
    return {"stage": "unknown", "tokens": tokens} if tokens and secret.hide_in(text) == text else None


def _bytes_of(token: Mapping[str, Any]) -> bytes:
    return bytes(token["bytes"]) if token.get("bytes") else str(token["token"]).encode("utf-8", "replace")


def _token(name: bytes) -> str | list[int]:
    try:
        return name.decode()
    except UnicodeDecodeError:
        return list(name)


def json_of(content: bytes) -> Any:
    r"""The JSON value of a body; None if the body is not JSON.

    A byte order mark, half a surrogate pair, NaN and very long numbers are accepted, since the reply was paid for.

    Examples
    --------
    >>> json_of(b'\xef\xbb\xbf{"score": 1}'), json_of(b"<html>"), json_of(b"[" * 100_000)
    ({'score': 1}, None, None)
    """
    try:
        return orjson.loads(content.removeprefix(codecs.BOM_UTF8))
    except orjson.JSONDecodeError:
        pass
    try:
        text = content.decode(json.detect_encoding(content), "replace")
        return json.loads(text, strict=False, parse_int=_whole)
    except (ValueError, RecursionError):
        return None


def json_bytes(value: Any) -> bytes:
    r"""A JSON value as bytes, however deep it is, and with halves of surrogate pairs: what `json_of` reads.

    Examples
    --------
    >>> json_bytes({"score": 1}), json_bytes("cut \ud83d")
    (b'{"score":1}', b'"cut \\ud83d"')
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value).encode()


def _whole(digits: str) -> int | None:
    """A whole number of up to 18 digits, else None."""
    return int(digits) if len(digits) < 19 else None


def _text(value: Any, secret: Secret = _NO_KEY) -> str | None:
    """A string, or a list of text parts joined (without those of reasoning); else None."""
    if isinstance(value, list):
        parts = [
            part.get("text")
            for part in value
            if isinstance(part, dict) and part.get("type") not in ("thinking", "reasoning", "reasoning_text")
        ]
        value = "".join(part for part in parts if isinstance(part, str)) if parts else None
    if not isinstance(value, str):
        return None
    return secret.hide_in(value.encode("utf-8", "replace").decode())


def _count(usage: Any, name: str) -> int | None:
    return token_count(usage.get(name)) if isinstance(usage, dict) else None


def problem_of(answer: Answer, judge: Judge, body: Mapping[str, Any], secret: Secret = _NO_KEY) -> ProviderError:
    """The `ProviderError` for an answer with an error status; `secret` is removed from its text."""
    status = answer.status
    found = json_of(answer.content)
    if isinstance(found, list) and len(found) == 1:  # Google wraps its error in a list
        found = found[0]
    error = found.get("error", found) if isinstance(found, dict) else {}
    code = _field(error, "code")
    said = _message(error) or _not_json(answer, secret)
    detail = _clean(f"HTTP {status} from {answer.origin}: {said}", secret)
    if status in (400, 422) and (name := _refused(error, said, body)) is not None:
        return ProviderError("refused_parameter", detail, status=status, parameter=name)
    kind = _KINDS.get(status, "server_error" if status >= 500 else "client_error")
    if status in (400, 422) and judge.score is not None and _REFUSES_LOGPROBS.search(_field(error, "param") + said):
        detail += (
            f" (score={judge.score!r} reads log-probabilities: use a model that gives them, lower "
            "params={'top_logprobs': …} if it gives fewer, or omit score=)"
        )
        return ProviderError("no_logprobs", detail, status=status)
    if kind == "auth" or code == "insufficient_quota":
        kind = "auth"
        variable = judge.api_key_env
        source = (
            f"the key was {key_source(variable)}" if variable else "no key was sent, because api_key_env is not set"
        )
        detail += f" ({source})"
    elif kind == "unknown_model":
        hint = "" if re.search(r"/v\d", answer.path) else "; base_url usually ends with /v1"
        detail += f" (asked for the model {judge.model!r} at the path {answer.path}{hint})"
    elif 300 <= status < 400:
        detail += " (a redirect, which evalkit does not follow: set base_url to the address that it leads to)"
    return ProviderError(kind, detail, status=status, retry_after=_retry_after(answer.headers))


def _from_body(error: Any, answer: Answer, secret: Secret) -> ProviderError:
    code = error.get("code") if isinstance(error, dict) else None
    detail = _clean(f"error from {answer.origin}: {_message(error) or _shown(error)}", secret)
    kind = _KINDS.get(code, "server_error") if isinstance(code, int) else "server_error"
    return ProviderError(kind, detail, status=answer.status, retry_after=_retry_after(answer.headers))


def _message(error: Any) -> str:
    if isinstance(error, str):
        return error
    if not isinstance(error, dict):
        return ""
    return next((_shown(error[name]) for name in ("message", "detail", "error") if error.get(name)), "")


def _shown(value: Any) -> str:
    """A string unchanged, another value as JSON; blank if it is nested too deeply."""
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return ""


def _field(error: Any, name: str) -> str:
    """A field of an error as a string; blank if it is missing or of another type."""
    value = error.get(name) if isinstance(error, dict) else None
    return str(value) if isinstance(value, (str, int)) and value else ""


def _refused(error: Any, said: str, body: Mapping[str, Any]) -> str | None:
    """The parameter that an HTTP 400 refuses, if evalkit can leave it out."""
    code, named = _field(error, "code"), _field(error, "param").split(".")[0]
    if "n" in body and _REFUSES_N.search(said):
        return "n"
    refuses = code in ("unsupported_parameter", "unsupported_value", "unknown_parameter") or _REFUSES.search(said)
    if not refuses:
        return None
    for name in _DROPPABLE:
        if name in body and (named == name or (not named and re.search(rf"\b{name}\b", said))):
            return name
    if "response_format" in body and re.search(r"json_schema|structured output|guided", said):
        return "response_format"
    return None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from ``retry-after-ms`` or ``Retry-After`` (seconds or a date)."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    try:
        date = email.utils.parsedate_tz(headers.get("retry-after", ""))
        return None if date is None else max(0.0, email.utils.mktime_tz(date) - time.time())
    except (ValueError, OverflowError):  # a year beyond 9999: no date at all
        return None


def _not_json(answer: Answer, secret: Secret) -> str:
    body = answer.content.lstrip()
    if body[:1] == b"<":
        return "the server answers in HTML, not JSON: is base_url right (it usually ends with /v1)?"
    if not body:
        return "the answer is empty"
    return f"the answer is not JSON: {_cut(body, secret)}"


def _cut(body: bytes, secret: Secret) -> str:
    return _clean(body[:_READ].decode("utf-8", "replace"), secret)[:120]


def _clean(text: str, secret: Secret) -> str:
    """One line of limited length without keys, since some servers echo keys."""
    # half of a surrogate pair cannot be logged; and to look through megabytes for the shapes of keys takes minutes
    text = secret.hide_in(text.encode("utf-8", "replace").decode())[:_READ]
    text = " ".join(str(without_keys(text)).split())
    return text if len(text) <= _LONGEST_DETAIL else text[: _LONGEST_DETAIL - 1] + "…"


def without_prompt(detail: str, prompt: Prompt) -> str:
    """The text without parts of the prompt: error messages are logged, prompts must not be.

    Runs of 24 characters or more are cut; all white space counts as equal.
    """
    whole = " ".join(" ".join(message.content.split()) for message in prompt.messages)
    kept, at = [], 0
    while at < len(detail):
        end = at + _REPEATED
        if end <= len(detail) and detail[at:end] in whole:
            while end < len(detail) and detail[at : end + 1] in whole:
                end += 1
            kept.append("[the prompt]")
            at = end
        else:
            kept.append(detail[at])
            at += 1
    return "".join(kept)
