"""Read the answer of an OpenAI-compatible server: replies with their share of the cost, or an error."""

from __future__ import annotations

import codecs
import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Prompt, Reply
from evalkit.core.strict_json import without_duplicates
from evalkit.engine.providers.api_keys import key_of, key_source
from evalkit.engine.providers.error_answers import ErrorText, kind_of, refused_parameter, status_named, wait_in
from evalkit.engine.providers.prices import Tokens, cost_of, shares, stated_cost, tokens_of
from evalkit.engine.providers.transport import Answer
from evalkit.engine.request import ProviderError, parameters_of_user
from evalkit.errors.secrets import Secret, without_keys
from evalkit.rubrics.parsing.reply_cleanup import is_withheld

_LONGEST_DETAIL = 240
_READ = 4000
_NO_KEY = Secret()
_REPEATED = 24
_LEAST, _IMPOSSIBLE = math.log(1e-4), -9999.0
_NEAR_END, _NEAR_MARK = 16, 8
_MARK = re.compile(r"[:=\[{\n]")
_REASONING = ("thinking", "reasoning", "reasoning_text", "thought")
_BROKE_OFF = re.compile(
    r"error|abort|cancel|fail|insufficient|interrupt|overload|unavailable|disconnect|time_?(?:out|limit)", re.IGNORECASE
)
"""Finish reasons of a reply that the server lost."""
_LONGEST_ID = 100
_HTML = {
    403: "a firewall may have blocked this prompt",
    404: "is base_url right (it usually ends with /v1)?",
    407: "a proxy asks for a name and password; put them into the proxy's address: http://NAME:PASSWORD@HOST:PORT",
    413: "the request is larger than this server, or one before it, takes",
}
"""HTTP status -> what a page in HTML means; that of 404 for all others."""


def replies_of(
    answer: Answer,
    n: int,
    *,
    price: tuple[float, float] | Callable[[Tokens], float | None] | None,
    latency_s: float | None,
    sent: Mapping[str, Any] | None,
    secret: Secret = _NO_KEY,
    judge: Judge | None = None,
    body: Mapping[str, Any] | None = None,
) -> list[Reply]:
    """The replies in a good answer, at most `n`; what was billed is split evenly over them.

    The cost is the one that the service states, else that of `price`: a pair of prices, or a function of the tokens. A
    choice that was emptied by a filter is a reply without a text. One that broke off before its first word is none.

    Raises
    ------
    ProviderError
        ``malformed`` for what is not a chat completion; or the error that some servers send with status 200.
    """
    parsed = json_of(answer.content)
    if not isinstance(parsed, dict) and is_stream(answer.content, answer.headers):
        parsed = completion_of(answer.content, answer.status)
        answer = answer._replace(content=json_bytes(parsed))
    if not isinstance(parsed, dict):
        raise ProviderError("malformed", _not_json(answer, secret), status=answer.status, maybe_paid=True)
    choices = parsed.get("choices")
    if not isinstance(choices, list) or not any(isinstance(choice, dict) for choice in choices):
        raise _without_choices(parsed, answer, judge, body or {}, secret)
    if (why := _contradiction(answer.content, choices, n)) is not None:
        raise ProviderError("malformed", f"the answer contains {why}", status=answer.status, maybe_paid=True)
    candidates = [_with_message(choice) for choice in choices[:n] if isinstance(choice, dict)]
    choices, written = [], []
    for choice in candidates:
        if (texts := _texts(choice, secret)) is not None:
            choices.append(choice)
            written.append(texts)
    if not choices:
        raise _no_reply(candidates, answer, judge, secret)
    has_text, tier = any(text or refusal for text, refusal, _ in written), parsed.get("service_tier")
    tokens = tokens_of(parsed.get("usage"), tier, has_text=has_text)
    cost = stated_cost(parsed.get("usage"), answer.headers)
    if cost is None and price is not None:
        cost = price(tokens) if callable(price) else cost_of(price, tokens.prompt, tokens.completion)
    if cost is None and tokens.prompt is not None and tokens.completion is not None:
        cost = answer.cost_usd
    counts = zip(shares(tokens.prompt, len(choices)), shares(tokens.completion, len(choices)), strict=True)
    model, name, build = parsed.get("model"), parsed.get("id"), parsed.get("system_fingerprint")
    logprobs = [logprobs_of(choice.get("logprobs"), secret) for choice in choices]
    created = time.time()
    return [
        Reply(
            text=text,
            finish_reason=finish_reason,
            refusal=refusal,
            model=_text(model, secret) if isinstance(model, str) else None,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            cost_usd=None if cost is None else cost / len(choices),
            latency_s=latency_s,
            created=created,
            sent=sent,
            logprobs=rows,
            id=_text(name[:_LONGEST_ID], secret) if isinstance(name, str) and name else None,
            fingerprint=_text(build[:_LONGEST_ID], secret) if isinstance(build, str) and build else None,
        )
        for (text, refusal, finish_reason), rows, (prompt_tokens, completion_tokens) in zip(
            written, logprobs, counts, strict=True
        )
    ]


def _without_choices(
    parsed: Mapping[str, Any], answer: Answer, judge: Judge | None, body: Mapping[str, Any], secret: Secret
) -> ProviderError:
    """The error that an answer without choices states, in whatever field; else ``malformed``."""
    choices = parsed.get("choices")
    problem = _from_body(parsed, answer, judge, body, secret)
    is_stated = parsed.get("error") or parsed.get("errors") or (choices is None and problem.kind != "server_error")
    if not choices and is_stated:
        return problem
    detail = f"the answer contains no choices: {_cut(answer.content, secret)}"
    detail = "the answer's choices are empty" if choices == [] else detail
    return ProviderError("malformed", detail, status=answer.status, maybe_paid=True)


def unexpected_answer(answer: Answer, judge: Judge, secret: Secret, wanted: str) -> ProviderError:
    """The error that a good answer without what was `wanted` states; else ``malformed``."""
    parsed = json_of(answer.content)
    if isinstance(parsed, dict) and (parsed.get("error") or parsed.get("errors")):
        return _from_body(parsed, answer, judge, {"messages": []}, secret)
    detail = _not_json(answer, secret)
    if isinstance(parsed, dict):
        detail = f"the answer contains no {wanted}: {_cut(answer.content, secret)}"
    return ProviderError("malformed", detail, status=answer.status, maybe_paid=True)


def _contradiction(content: bytes, choices: Sequence[Any], n: int) -> str | None:
    """What makes it unknown which of two replies was meant: an equal key twice, or an equal index."""
    by_index = {choice.get("index"): choice for choice in choices[:n] if isinstance(choice, dict)}
    for choice in choices[n:]:
        if isinstance(choice, dict) and by_index.get(index := choice.get("index"), choice) != choice:
            return f"two different choices with the index {index}"
    counts = [content.count(key) for key in (b'"choices"', b'"message"', b'"content"')]
    if counts[0] > 1 or max(counts[1:]) > len(choices):
        try:
            json.loads(content, object_pairs_hook=without_duplicates)
        except (ValueError, RecursionError) as problem:
            return str(problem) if getattr(problem, "key", "") in ("choices", "message", "content") else None
    return None


def _with_message(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    """A choice in the older form of completions, which has its text in `text`, in that of chats."""
    if choice.get("message") is None and isinstance(text := choice.get("text"), str) and text:
        return {**choice, "message": {"content": text}}
    return choice


def _texts(choice: Mapping[str, Any], secret: Secret) -> tuple[str | None, str | None, str | None] | None:
    """Text, refusal and finish reason of a choice; None if it is no reply: the server lost it before its first word."""
    message, reason = choice.get("message"), _finish_reason(choice)
    if message is not None and not isinstance(message, dict):
        return None
    text, refusal = _content(message, secret), _refusal(message, secret)
    if not text and not refusal:
        is_lost = message is None or choice.get("error") if reason is None else _BROKE_OFF.search(reason)
        if is_lost and not is_withheld(reason):
            return None
    return text, refusal, reason


def _finish_reason(choice: Mapping[str, Any]) -> str | None:
    reason = _text(choice.get("finish_reason"))
    filters = choice.get("content_filter_results")
    if reason is None and choice.get("message") is None and isinstance(filters, dict):  # Azure's form
        filtered = any(isinstance(result, dict) and result.get("filtered") for result in filters.values())
        reason = "content_filter" if filtered else None
    return reason


def _no_reply(given: Sequence[Mapping[str, Any]], answer: Answer, judge: Judge | None, secret: Secret) -> ProviderError:
    """The `ProviderError` for choices of which none is a reply."""
    choice = given[0] if given else {}
    if choice.get("error"):
        problem = _from_body({"error": choice["error"]}, answer, judge, {}, secret)
    elif (reason := _finish_reason(choice)) is not None:
        detail = _clean(f"the model of {answer.origin} broke off before its first word ({reason})", secret)
        problem = ProviderError("server_error", detail, status=answer.status)
    else:
        detail = f"the answer contains no choices: {_cut(answer.content, secret)}"
        problem = ProviderError("malformed", detail, status=answer.status)
    problem.maybe_paid = True
    return problem


def _refusal(message: Mapping[str, Any] | None, secret: Secret) -> str | None:
    """The words of a refusal: in a field of their own, or as a part of the content."""
    if not message:
        return None
    content = message.get("content")
    entries = [entry for entry in content if isinstance(entry, dict)] if isinstance(content, list) else []
    words = [entry.get("refusal") for entry in entries if entry.get("type") == "refusal"]
    return _text(message.get("refusal") or next(filter(None, words), None), secret)


def _content(message: Mapping[str, Any] | None, secret: Secret) -> str | None:
    """The text of a message, an object as JSON, and what tools were called with; else an object of reasoning."""
    if not message:
        return None
    value = message.get("content")
    text = _text(value if isinstance(value, (str, list, type(None))) else _json_text(value), secret)
    calls = message.get("tool_calls")
    functions = [call.get("function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    arguments = [
        _text(_json_text(call["arguments"]), secret)
        for call in (*functions, message.get("function_call"))
        if isinstance(call, dict) and call.get("arguments")
    ]
    in_text = f"{text} {{}}" if text else ""  # a call with nothing adds nothing to a text
    reply = "\n".join(filter(None, [text, *(call for call in arguments if call and call not in in_text)]))
    if reply:
        return reply
    # some servers take a reply that a schema constrains for the model's reasoning
    thoughts = (_text(message.get(name), secret) or "" for name in ("reasoning_content", "reasoning"))
    return next((thought for thought in thoughts if thought.lstrip()[:1] == "{" and json_of(thought.encode())), text)


def logprobs_of(given: Any, secret: Secret = _NO_KEY) -> dict[str, Any] | None:
    """The `Reply.logprobs` of a choice; None if it has none, or they are in another form: the text was paid for.

    The other candidates are kept where a verdict may be: near both ends, after a mark such as a colon, and at digits.
    Those within an explanation would take many times the room of its text.
    """
    if given is None:
        return None
    try:
        tokens: list[list[Any]] = []
        text_bytes, until = b"", _NEAR_END - 1
        for index, position in enumerate(given["content"]):
            alternatives: list[dict[str, Any]] = position.get("top_logprobs") or []
            row: dict[bytes, float] = {}
            for token in (position, *alternatives):
                value = float(token["logprob"])
                if math.isnan(value):
                    return None
                row.setdefault(_bytes_of(token), round(max(_IMPOSSIBLE, min(value, 0.0)), 5))
            written = next(iter(row))
            text_bytes += written
            text = written.decode("utf-8", "replace")
            has_digit = any(character.isdigit() for character in text)
            until = max(until, index + _NEAR_MARK if _MARK.search(text) else index + 1 if has_digit else 0)
            is_near = index <= until or index >= len(given["content"]) - _NEAR_END
            pairs = [(name, value) for name, value in row.items() if name == written or (is_near and value >= _LEAST)]
            tokens.append([cell for name, value in pairs for cell in (_token(name), value)])
    except (TypeError, KeyError, ValueError, AttributeError):
        return None
    text = text_bytes.decode("utf-8", "replace")
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
        return json.loads(text, strict=False, parse_int=_whole_number)
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


def _whole_number(digits: str) -> int | None:
    """A whole number of up to 18 digits, else None."""
    return int(digits) if len(digits) < 19 else None


def _text(value: Any, secret: Secret = _NO_KEY) -> str | None:
    """A string, or a list of text parts joined (without those of reasoning); else None."""
    if value is None:
        return None
    if isinstance(value, list):
        parts = [part for part in value if not (isinstance(part, dict) and _is_thought(part))]
        texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
        written = [text for text in texts if isinstance(text, str)]
        objects = [part for part in parts if isinstance(part, dict) and part.get("type") in (None, "json", "object")]
        value = "".join(written) if written or not objects else _json_text(objects[0] if len(objects) == 1 else objects)
        value = value if parts else None
    if not isinstance(value, str):
        return None
    return secret.hide_in(value if value.isascii() else value.encode("utf-8", "replace").decode())


def _is_thought(part: Mapping[str, Any]) -> bool:
    return part.get("type") in _REASONING or part.get("thought") is True


def problem_of(answer: Answer, judge: Judge, body: Mapping[str, Any], secret: Secret = _NO_KEY) -> ProviderError:
    """The `ProviderError` for an answer with an error status; `secret` is removed from its text.

    `body` is what was sent, as far as it is known: the parameters that an error may refuse.
    """
    parsed = json_of(answer.content)
    error_text = ErrorText.of(parsed)
    text = error_text.text or (
        _not_json(answer, secret) if parsed is None else f"no reason given: {_cut(answer.content, secret)}"
    )
    return _problem(
        answer.status, f"HTTP {answer.status} from {answer.origin}: {text}", error_text, answer, judge, body, secret
    )


def _problem(
    status: int,
    text: str,
    said: ErrorText,
    answer: Answer,
    judge: Judge | None,
    body: Mapping[str, Any],
    secret: Secret,
) -> ProviderError:
    said = replace(said, text=without_texts(said.text, _texts_of(body)))  # what echoes the prompt says nothing
    detail, wait = _clean(text, secret), wait_in(answer.headers, said.text, resets=False)
    kind = kind_of(status, said)
    if kind == "rate_limited":
        wait = wait_in(answer.headers, said.text) or said.reset or wait
    # HTTP 4xx for a reply that was written, but is not the JSON that was asked for
    paid = kind == "server_error" and 400 <= status < 500 and status not in (408, 409, 425)
    may_refuse = kind in ("client_error", "unknown_model", "server_error", "forbidden") and not paid
    user_set = () if judge is None else parameters_of_user(judge)
    if may_refuse and (refused := refused_parameter(status, said, body, user_set)) is not None:
        name, instead = refused
        if "logprobs" in name and judge is not None and judge.score is not None:
            detail += (
                f" (score={judge.score!r} reads log-probabilities; without them, scores are read from the text: omit "
                "score=, or use a model that gives them)"
            )
        return ProviderError("refused_parameter", detail, status=answer.status, parameter=name, instead=instead)
    is_without_key = kind == "forbidden" and judge is not None and not key_of(judge)
    if (kind in ("auth", "quota") or is_without_key) and judge is not None:
        if judge.given is not None and key_of(judge):
            detail += f" (the key was that of the client {judge.given!r})"
        elif judge.api_key_env:
            detail += f" (the key was {key_source(judge.api_key_env)})"
        elif judge.base_url:  # without one, LiteLLM looks for a key itself
            detail += " (no key was sent, because api_key_env is not set)"
    if kind == "quota":
        detail += "; the credit or quota of this account is used up: add credit or raise its limit, then judge again"
    elif kind == "unknown_model" and judge is not None:
        hint = "" if re.search(r"/v\d", answer.path) else "; base_url usually ends with /v1"
        detail += f" (asked for the model {judge.model!r} at the path {answer.path}{hint})"
    elif 300 <= status < 400:
        detail += " (a redirect, which evalkit does not follow: set base_url to the address that it leads to)"
    return ProviderError(kind, detail, status=answer.status, retry_after=wait, maybe_paid=paid)


def _texts_of(body: Mapping[str, Any]) -> list[str]:
    texts = [message.get("content") for message in body.get("messages") or []]
    return [text for text in texts if isinstance(text, str)]


def _from_body(
    found: Mapping[str, Any], answer: Answer, judge: Judge | None, body: Mapping[str, Any], secret: Secret
) -> ProviderError:
    """The `ProviderError` for an error that came with status 200; its codes may name that of HTTP."""
    error_text = ErrorText.of(found)
    return _problem(
        status_named(error_text),
        f"error from {answer.origin}: {error_text.text or _json_text(found.get('error'))}",
        error_text,
        answer,
        judge,
        body,
        secret,
    )


def _json_text(value: Any) -> str:
    """A string unchanged, another value as JSON; blank if it is nested too deeply."""
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # half of a surrogate pair, or deep nesting
        pass
    try:
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()
    except (TypeError, ValueError, RecursionError):
        return ""


def _not_json(answer: Answer, secret: Secret) -> str:
    body = answer.content.lstrip()
    if body[:1] == b"<":
        return f"the server answers in HTML, not JSON: {_HTML.get(answer.status, _HTML[404])}"
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
    """The text without parts of the prompt: error messages are logged, prompts must not be."""
    return without_texts(detail, [message.content for message in prompt.messages])


def without_texts(detail: str, texts: Sequence[str]) -> str:
    """The text without parts of these texts.

    Runs of 24 characters or more are cut; all white space counts as equal.
    """
    all_texts = " ".join(" ".join(text.split()) for text in texts)
    pieces, start = [], 0
    while start < len(detail):
        end = start + _REPEATED
        if end <= len(detail) and detail[start:end] in all_texts:
            while end < len(detail) and detail[start : end + 1] in all_texts:
                end += 1
            pieces.append("[the prompt]")
            start = end
        else:
            pieces.append(detail[start])
            start += 1
    return "".join(pieces)


_STARTS = (b"data:", b"event:")
_TEXTS = ("content", "refusal")


def is_stream(content: bytes, headers: Mapping[str, str]) -> bool:
    """Whether a body is a stream of events.

    Examples
    --------
    >>> is_stream(b"data: {}", {}), is_stream(b": wait", {"content-type": "text/event-stream"}), is_stream(b"{}", {})
    (True, True, False)
    """
    return content.lstrip().startswith(_STARTS) or "event-stream" in headers.get("content-type", "").lower()


def completion_of(content: bytes, status: int) -> dict[str, Any]:
    r"""The chat completion that a stream of chunks makes.

    Raises
    ------
    ProviderError
        ``malformed`` for a stream that broke off; ``client_error``, which is not tried again, for one of another form.

    Examples
    --------
    >>> parts = [b'data: {"choices": [{"delta": {"content": "%s"}}]}' % text for text in (b"Hel", b"lo")]
    >>> completion_of(b"\n\n".join([*parts, b"data: [DONE]"]), 200)["choices"]
    [{'message': {'content': 'Hello'}}]
    """
    completion, choices, has_ended = dict[str, Any](), dict[int, dict[str, Any]](), False
    try:
        for line in content.splitlines():
            data = line.removeprefix(b"data:").strip()
            if data in (b"", line.strip()):  # a comment, or the name of an event
                continue
            if has_ended := data == b"[DONE]":
                break
            try:
                chunk = json.loads(data, object_pairs_hook=without_duplicates)
            except (json.JSONDecodeError, UnicodeDecodeError):  # cut
                break
            completion |= {name: value for name, value in chunk.items() if value is not None}
            for piece in chunk.get("choices") or []:
                _add(choices.setdefault(int(piece.get("index") or 0), {}), piece)
        if not (choices or completion.get("error")) or any("message" not in choice for choice in choices.values()):
            raise TypeError
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise ProviderError(
            "client_error",
            "the server streams its answers, in a form that evalkit does not read; switch streaming off at the server",
            status=status,
            maybe_paid=True,
        ) from None
    if choices and (
        completion.get("error") or not (has_ended or all("finish_reason" in choice for choice in choices.values()))
    ):
        raise ProviderError(
            "malformed", "the server streams its answer, which broke off", status=status, maybe_paid=True
        )
    return completion | {"choices": [choices[index] for index in sorted(choices)]}


def _add(choice: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Add what a chunk has of a choice; TypeError for what cannot be put together."""
    delta = piece.get("delta") or {}
    if piece.get("message") or piece.get("text") or delta.get("tool_calls") or delta.get("function_call"):
        raise TypeError
    if "delta" in piece:
        message = choice.setdefault("message", {})
        for name in _TEXTS:
            if (text := delta.get(name)) is not None:
                message[name] = message.get(name, "") + text
    if piece.get("finish_reason") is not None:
        choice["finish_reason"] = piece["finish_reason"]
    if piece.get("logprobs"):
        tokens = choice.setdefault("logprobs", {"content": []})["content"]
        tokens += piece["logprobs"].get("content") or []
