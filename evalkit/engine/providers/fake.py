"""The provider `fake`: an offline stand-in for a judge. It counts shared words; it is not an LLM."""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import orjson

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Prompt, Reply
from evalkit.engine.request import Client, Request
from evalkit.errors import ConfigError, guess

PERSONAS = {
    "strict": "gives lower scores",
    "lenient": "gives higher scores",
    "verbose": "prefers long answers",
    "first": "prefers the answer that is shown first",
    "noisy": "changes its verdict often",
    "broken": "writes malformed replies of every kind",
}
"""Personas of the provider ``fake`` and how they differ."""

_SHIFT = {"strict": -0.1, "lenient": 0.1}
_SAMPLE_NOISE, _NOISY, _ITEM_NOISE = 0.08, 0.28, 0.05
_DRAWS = 20
_MALFORMED = ("unreadable", "truncated", "empty", "refused", "off_scale", "near_json")

_ANSWERS = ("answer", "response", "output", "completion", "prediction", "summary", "text")
_CONTEXTS = ("context", "source", "document", "documents", "article", "passages", "facts")
_REFERENCES = ("reference", "reference_answer", "ground_truth", "gold", "target", "expected")
_NO_QUESTION = (*_ANSWERS, *_CONTEXTS, *_REFERENCES)
_WORD = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+")
_LONG_WORD = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]{4,}")
_FACT = re.compile(r"\d+(?:[.,:]\d+)*|(?<=[^.!?\s] )[A-ZА-ЯЁ][^\W\d_]+")  # numbers and names
_NO_ANSWER = re.compile(
    r"\b(?:do(?:es)? not (?:know|say)|cannot (?:help|answer|write)|не знаю|не могу|не сказано)\b", re.IGNORECASE
)
_BAD_CRITERION = re.compile("hallucin|toxic|harmful|error|contradict|bias|галлюц|токсич|ошиб|противореч", re.IGNORECASE)
_BAD_LABEL = re.compile("(?:no|not|un|in|fail|bad|wrong|false|harm|poor|нет|не|плох|ошиб)", re.IGNORECASE)
_MIXED_LABEL = re.compile("part|mostly|mixed|some|neutral|unclear|unsure|част|нейтрал", re.IGNORECASE)
# words in the text of a level that make it harder or easier to reach
_DEMANDING = re.compile(
    r"\b(?:any|completely|each|every|exactly|fully|literally|каждый|полностью|точно)\b", re.IGNORECASE
)
_FORGIVING = re.compile(
    r"\b(?:acceptable|mainly|minor|mostly|partly|slight|small|в целом|почти|частично)\b", re.IGNORECASE
)


Code = int | float | str

_TAGGED = "[FEEDBACK] {text} [RESULT] {code} [END]"
_USUAL_FORMS = ("{text}\nScore: {code}", "{text}\n[[{code}]]", _TAGGED, "{text}\nRating: [[{code}]]", "{text}\n{code}")
_VERDICT_FIELDS = ("score", "label", "verdict", "result", "answer", "choice")


class FakeClient(Client):
    """The client of one persona.

    The score rises with the share of the answer's words that occur in the context, reference or question. Noise is
    a hash of persona, prompt and sample, so that replies are the same everywhere; at temperature 0 all samples
    are equal. As with a real judge, a reworded rubric gives other replies. Words that demand (every, exactly) or
    forgive (mostly, minor) make a level harder or easier to reach; asked for edits of a rubric, it suggests such
    words.

    Raises
    ------
    ConfigError
        For an unknown persona.
    """

    supports_n: bool | None = True

    def __init__(self, judge: Judge) -> None:
        if judge.model not in PERSONAS:
            hint = guess(judge.model, PERSONAS)
            raise ConfigError(
                f"unknown persona {judge.model!r} of the fake judge; {hint}allowed: {', '.join(PERSONAS)}"
            )
        self.persona = judge.model

    async def ask(self, request: Request, n: int, *, adapt: Mapping[str, Any] | None = None) -> list[Reply]:
        """Replies for the request's first `n` samples."""
        del adapt
        judge = request.judge
        replies = [self.reply(request.prompt, sample, judge.temperature) for sample in request.samples[:n]]
        if judge.params.get("logprobs") is not True:
            return replies
        return [replace(reply, logprobs=self._logprobs(request.prompt, reply.text or "")) for reply in replies]

    def _logprobs(self, prompt: Prompt, text: str) -> dict[str, Any] | None:
        """The shares of the codes in other samples, at the last place of a code in the text; None if there is none."""
        codes = Counter(str(self._verdict(prompt, sample, 1.0)[0]) for sample in range(1000, 1000 + _DRAWS))
        names = [name for name in map(str, prompt.codes) if name in text]
        if not names:
            return None
        code = max(names, key=lambda name: (text.rfind(name) + len(name), len(name)))
        start = text.rfind(code)
        codes[code] += 1
        shares = [(name, round(math.log(n / (_DRAWS + 1)), 5)) for name, n in codes.items()]
        verdict = [cell for name, value in sorted(shares, key=lambda pair: pair[0] != code) for cell in (name, value)]
        around = ([piece, 0.0] for piece in (text[:start], text[start + len(code) :]))
        before, after = around
        return {"stage": "raw", "tokens": [row for row in (before, verdict, after) if row[0]]}

    def reply(self, prompt: Prompt, sample: int, temperature: float | None = 1.0) -> Reply:
        """The reply to one prompt.

        Examples
        --------
        >>> from evalkit.core.prompts_and_replies import Message
        >>> prompt = Prompt((Message("user", "…"),), "number", None, "r", "v1", "faithfulness", "t@v1", "ordinal",
        ...     (0, 1, 2), {"question": "When?", "answer": "In 1987.", "context": "It was opened in 1987."})
        >>> FakeClient(Judge.of("fake:lenient")).reply(prompt, 0).text
        '2'
        """
        temperature = 1.0 if temperature is None else temperature
        sample = sample if temperature else 0
        text: str | None
        finish, refusal = "stop", None
        if prompt.form == "text":
            text = f"My own answer to: {next(iter(prompt.inputs.values()), '')}"
        elif prompt.together:
            texts = {single.criterion: self.reply(single, sample, temperature).text or "" for single in prompt.together}
            text = "{" + ", ".join(f"{orjson.dumps(name).decode()}: {value}" for name, value in texts.items()) + "}"
        elif "edits" in ((prompt.schema or {}).get("properties") or {}):
            text = (
                "I would word it better, if I knew how." if self.persona == "broken" else suggest_edits(prompt, sample)
            )
        else:
            code, explanation = self._verdict(prompt, sample, temperature)
            if self.persona == "broken":
                kind = _MALFORMED[int(6 * _uniform(prompt, "broken", sample))]
                text, finish, refusal = malformed(prompt, code, explanation, kind)
            else:
                text = write_reply(prompt, code, explanation)
        return Reply(
            text=text,
            finish_reason=finish,
            refusal=refusal,
            model=f"fake:{self.persona}",
            prompt_tokens=max(1, prompt.n_bytes // 4),
            completion_tokens=max(1, len(text or "") // 4),
            cost_usd=0.0,
            latency_s=0.0,
            created=time.time(),
        )

    def _verdict(self, prompt: Prompt, sample: int, temperature: float) -> tuple[Code, str]:
        normal = NormalDist().inv_cdf
        spread = _NOISY if self.persona == "noisy" else _SAMPLE_NOISE
        noise = spread * min(temperature, 1.5) * normal(_uniform(prompt, self.persona, sample))
        noise += _ITEM_NOISE * normal(_uniform(prompt, self.persona, None))
        inputs, is_pair = prompt.inputs, {"A", "B"} <= set(prompt.codes) and "answer_b" in prompt.inputs
        answers = [inputs["answer_a"], inputs["answer_b"]] if is_pair else [inputs.get("answer")]
        qualities = []
        for answer in answers:
            quality, explanation = overlap(
                {**inputs, "answer": answer, "answer_a": "", "answer_b": ""} if is_pair else inputs
            )
            if self.persona == "verbose":
                quality += min(0.35, 0.005 * len(_WORD.findall(as_text(answer)))) - 0.15
            qualities.append(quality)
        if is_pair:
            return self._winner(prompt, qualities[0] - qualities[1] + noise)
        quality = qualities[0] + _SHIFT.get(self.persona, 0.0) + noise
        return on_scale(prompt, min(1.0, max(0.0, quality))), explanation

    def _winner(self, prompt: Prompt, lead: float) -> tuple[Code, str]:
        """The better of two answers, or the code of a tie."""
        if self.persona == "first":
            lead += 0.3
        ties = [code for code in prompt.codes if code not in ("A", "B")]
        if ties and abs(lead) < 0.08:
            return ties[0], "both answers are about equally good"
        better = "A" if lead > 0 else "B"
        return better, f"more of answer {better} is in the texts given"


def _uniform(prompt: Prompt, persona: str, sample: int | None) -> float:
    """A number between 0 and 1, fixed by persona, prompt and sample."""
    parts = [persona, prompt.criterion, *(message.content for message in prompt.messages), repr(sample)]
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    return (int.from_bytes(digest[:6]) + 0.5) / 2**48


def as_text(value: Any) -> str:
    """A text, a list of texts or a list of messages as one text."""
    if isinstance(value, Mapping):
        return as_text(value.get("content", value.get("text")))
    if isinstance(value, list | tuple):
        return "\n".join(map(as_text, value))
    return "" if value is None else str(value)


@lru_cache(maxsize=20_000)
def words(text: str) -> frozenset[str]:
    """The numbers of a text and the first four letters of its other words, without short ones.

    Examples
    --------
    >>> sorted(words("It opened in 1987: opening hours"))
    ['1987', 'hour', 'open']
    """
    long_words = _LONG_WORD.findall(text.casefold())
    return frozenset(word.replace(",", "") if word[0].isdigit() else word[:4] for word in long_words)


def overlap(inputs: Mapping[str, Any]) -> tuple[float, str]:
    """The quality of the answer, about 0 to 1, and what decided.

    It is the share of the answer's words that occur in the context, else in the reference or the question. A number or
    a name that does not occur there costs extra.
    """
    answer, context, reference = (
        next((text for name in names if (text := as_text(inputs.get(name))).strip()), "")
        for names in (_ANSWERS, _CONTEXTS, _REFERENCES)
    )
    question = as_text([value for name, value in inputs.items() if name not in _NO_QUESTION])
    turns = inputs.get("conversation")
    if not answer and isinstance(turns, list | tuple) and turns:
        answer, question = as_text(turns[-1]), as_text(turns[:-1])
    if not _WORD.search(answer):
        return 0.0, "the answer is empty"
    if _NO_ANSWER.search(answer):
        return (0.9, "the answer claims nothing") if context else (0.1, "the answer gives no answer")
    source_words, question_words, answer_words = words(context or reference), words(question), words(answer)
    if not (context or reference):
        shared = len(question_words & answer_words)
        return 0.85 if shared else 0.5, f"words that question and answer share: {shared}"
    new = answer_words - question_words
    share = len(new & source_words) / len(new) if new else 0.6
    missing = [word for word in _WORD.findall(answer) if words(word) - source_words - question_words]
    facts = sorted(set(_FACT.findall(answer)) & set(missing))
    quality = min(1.1, 1.3 * share) - (0.6 if facts else 0.0)  # above 1: noise seldom changes a clear case
    if not context:
        expected = source_words - question_words or source_words
        quality = 0.4 * quality + 0.6 * (len(expected & answer_words) / max(1, len(expected)))
    source = "context" if context else "reference"
    if not missing:
        return quality, f"all its words are in the {source}"
    return quality, f"not in the {source}: {', '.join(repr(word[:40]) for word in (facts or missing)[:3])}"


def on_scale(prompt: Prompt, quality: float) -> Code:
    """The code of the scale for a quality from 0 to 1."""
    codes = list(prompt.codes)
    if prompt.level == "nominal":  # by how good they read; if none reads better, the first one listed is the best
        ranks = {
            code: 1 if _MIXED_LABEL.match(str(code)) else 0 if _BAD_LABEL.match(str(code)) else 2 for code in codes
        }
        codes = sorted(codes, key=ranks.__getitem__) if len(set(ranks.values())) > 1 else codes[::-1]
    # a high score of hallucination is bad; labels other than yes and no already tell which end is good
    ordered = prompt.level == "nominal" and not {"yes", "да"} & {str(code).casefold() for code in codes}
    if _BAD_CRITERION.search(prompt.criterion) and not ordered:
        quality = 1 - quality
    if prompt.level == "interval":
        low, high = float(codes[0]), float(codes[-1])
        score = low + quality * (high - low)
        return round(score) if high - low >= 2 else round(score, 2)
    texts = prompt.texts if prompt.level == "ordinal" and len(prompt.texts) == len(codes) else ("",) * len(codes)
    reached = 0
    for index in range(1, len(codes)):
        if quality >= index / len(codes) + 0.05 * demand(texts[index]):
            reached = index
    return codes[reached]


@lru_cache(maxsize=1_000)
def demand(text: str) -> int:
    """Demanding words less forgiving ones in the text of a level, from -3 to 3.

    Examples
    --------
    >>> demand("Every claim is supported"), demand("Mostly supported, minor gaps"), demand("Supported")
    (1, -2, 0)
    """
    return max(-3, min(3, len(_DEMANDING.findall(text)) - len(_FORGIVING.findall(text))))


def malformed(prompt: Prompt, code: Code, text: str, kind: str) -> tuple[str | None, str, str | None]:
    """A malformed reply: its text, finish reason and refusal."""
    if kind == "empty":
        return "", "stop", None
    if kind == "refused":
        return None, "stop", "I'm sorry, but I can't help with that."
    if kind == "unreadable":
        return "It depends on how one looks at it; both views have something for them.", "stop", None
    if kind == "off_scale":
        numbers = [value for value in prompt.codes if not isinstance(value, str)]
        return write_reply(prompt, max(numbers) + 97 if numbers else "elsewhere", text), "stop", None
    if kind == "truncated":
        half = text[: max(3, len(text) // 2)]
        return f'{{"explanation": "{half}' if prompt.form == "json" else half, "length", None
    if prompt.form == "json":  # single quotes, a trailing comma, a code block
        fields = verdict_fields(prompt.schema, code, text.replace("'", ""))
        inner = ", ".join(f"'{name}': {value!r}" for name, value in fields.items())
        return f"Here is my verdict:\n```json\n{{{inner},}}\n```", "stop", None
    return f"**{write_reply(prompt, code, text)}**", "stop", None


def write_reply(prompt: Prompt, code: Code, text: str) -> str:
    """A reply with the verdict `code` and the explanation `text`."""
    if prompt.form == "json":
        return orjson.dumps(verdict_fields(prompt.schema, code, text)).decode()
    if prompt.form == "tagged":
        return _TAGGED.format(text=text, code=code)
    if prompt.form.startswith("regex:"):
        return _matching_reply(prompt.form.removeprefix("regex:").strip(), code, text)
    return str(code)


def verdict_fields(schema: Mapping[str, Any] | None, code: Code, text: str) -> dict[str, Any]:
    """The fields of a JSON reply: the code where the schema wants a verdict, `text` in its other texts."""
    properties = (schema or {}).get("properties") or {"explanation": {"type": "string"}, "score": {}}
    fields: dict[str, Any] = {}
    for name, rule in properties.items():
        if allowed := rule.get("enum"):
            fields[name] = next((value for value in allowed if str(value) == str(code)), allowed[0])
        elif rule.get("type") == "string" and (not isinstance(code, str) or name not in _VERDICT_FIELDS):
            fields[name] = text
        else:
            fields[name] = code
    return fields


def _matching_reply(pattern: str, code: Code, text: str) -> str:
    """The first of the usual forms in which the pattern finds the code, else one made of the pattern's own words."""
    literal = re.sub(r"\(\?[a-zA-Z]+\)|\\[bBAZ]|[\^$]", "", pattern)
    literal = re.sub(r"\((?!\?[:=!])[^()]*\)", "\x00", literal, count=1)  # the place of the code: the first group
    literal = re.sub(r"\\s[*+?]?|\s+", " ", literal)
    literal = re.sub(r"\\(.)", r"\1", re.sub(r"(?<!\\)[*+?()|]", "", literal))
    literal = literal.replace("{", "{{").replace("}", "}}").replace("\x00", "{code}")
    for form in (*_USUAL_FORMS, "{text}\n" + literal, literal):
        reply = form.format(text=text, code=code)
        matches = list(re.finditer(pattern, reply))
        if matches and str(code) in (matches[-1].groupdict().get("score"), *matches[-1].groups(), matches[-1][0]):
            return reply
    return f"{text}\n{code}"


# two sentences to add to a level, a level in full, a sentence to add to the question
_FORGIVE = (
    "Minor and small gaps are acceptable.",
    "Mostly right is enough: small or minor gaps are acceptable.",
    "Mostly right. What matters is there; minor or small additions are acceptable.",
    "Judge what matters to the reader; a side remark that does no harm is acceptable.",
)
_DEMAND = (
    "Every claim counts; all of it has to hold exactly.",
    "Any claim that does not hold exactly rules this level out.",
    "Right in every part. Each claim holds exactly, and all that was asked for is there.",
    "Judge every claim by itself, side remarks too.",
)


def suggest_edits(prompt: Prompt, sample: int) -> str:
    """Edits of the lowest level that passes and of the question: easier or harder to reach, as people are."""
    inputs = prompt.inputs
    forgive = inputs["false_fail"] >= inputs["false_pass"]
    *additions, level, question = _FORGIVE if forgive else _DEMAND
    side = "fail what people pass" if forgive else "pass what people fail"
    reason = f"Judges {side} more often than the other way round."
    codes = [str(code) for code in prompt.codes]
    index = codes.index(inputs["passing"][0]) if inputs["passing"] else len(codes) - 1
    edits: list[tuple[str, str | None, str, str]] = [
        ("level", codes[index], _extended(prompt.texts[index], additions[sample % 2]), reason),
        ("level", codes[index], level, reason),
        ("criterion", None, _extended(inputs["question"], question), "The question does not weigh side remarks."),
    ]
    fields = [
        {"criterion": prompt.criterion, "part": part, "code": code, "text": text, "reason": why}
        for part, code, text, why in edits[: inputs["max_edits"]]
    ]
    return orjson.dumps({"edits": fields}).decode()


def _extended(text: str, sentence: str) -> str:
    return f"{text.rstrip(' .')}. {sentence}" if text else sentence


check = connect = FakeClient
