"""The embedded juror: offline, deterministic, not an LLM. A stand-in for learning, tests and CI."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b, sha256
from typing import Any

from evalkit.core.judges import Judge
from evalkit.core.keys import canonical_json
from evalkit.core.records import Prompt, Reply, Request
from evalkit.engine.providers.fake.evidence import Finding
from evalkit.engine.providers.fake.qualities import field, is_inverted, quality
from evalkit.engine.providers.fake.replies import FAULTS, Code, broken_reply, write_reply
from evalkit.engine.providers.fake.wordings import asks_for_edits, write_edits
from evalkit.engine.providers.fake.words import demand, tokens
from evalkit.errors import ConfigError, guess

__all__ = ["PERSONAS", "FakeClient"]

PERSONAS = {
    "strict": "wants every detail supported",
    "lenient": "forgives what is nearly right",
    "verbose": "likes long answers",
    "first": "likes the answer that stands first",
    "noisy": "changes its mind often",
    "broken": "writes malformed replies of every kind",
}
"""Personas of the provider ``fake`` and what they are like."""

_SHIFT = {"strict": -0.12, "lenient": 0.12}
_NOISE = {"noisy": 0.28}
_ITEM_NOISE, _SAMPLE_NOISE = 0.07, 0.09
_GOOD = (
    *("yes", "true", "correct", "pass", "good", "safe", "supported", "relevant", "helpful", "faithful"),
    *("да", "верно", "правильно", "хорошо"),
)
_PARTLY = ("part", "mostly", "mixed", "some", "neutral", "unclear", "unsure", "част", "нейтрал")
_BAD = (
    "no",
    "not",
    "un",
    "in",
    "fail",
    "bad",
    "wrong",
    "false",
    "contradict",
    "harm",
    "poor",
    "нет",
    "не",
    "плох",
    "ошиб",
)
_REMEMBERED = 4096


class FakeClient:
    """The client of one persona.

    Verdicts are drawn from sha256 of persona, prompt and sample: the same everywhere. At temperature 0 all
    samples are equal; above, borderline items change now and then. As with a real judge, other words in the
    rubric are another draw; and words that demand (every, any, exactly) or forgive (mostly, minor) in the
    text of a level make it harder or easier to reach. Asked for edits of a rubric, it suggests such words.

    Raises
    ------
    ConfigError
        For an unknown persona.
    """

    supports_n: bool | None = True
    max_concurrency: int | None = None

    def __init__(self, judge: Judge) -> None:
        if judge.model not in PERSONAS:
            meant = guess(judge.model, PERSONAS)
            raise ConfigError(
                f"unknown persona {judge.model!r} of the fake judge; {meant}allowed are {', '.join(PERSONAS)}"
            )
        self.persona = judge.model
        self._found: OrderedDict[bytes, tuple[Finding, ...]] = OrderedDict()

    async def ask(self, request: Request, n: int, *, adapt: Mapping[str, Any] | None = None) -> list[Reply]:
        """Replies for the request's first `n` samples."""
        del adapt
        return [self.reply(request.prompt, sample, request.judge.temperature) for sample in request.samples[:n]]

    def reply(self, prompt: Prompt, sample: int, temperature: float | None = 1.0) -> Reply:
        """The reply to one prompt.

        Examples
        --------
        >>> from evalkit.core.records import Message
        >>> prompt = Prompt((Message("user", "…"),), "number", None, "r", "v1", "faithfulness", "t@v1", "ordinal",
        ...     (0, 1, 2), {"question": "When?", "answer": "In 1987.", "context": "It was opened in 1987."})
        >>> FakeClient(Judge.of("fake:lenient")).reply(prompt, 0).text
        '2'
        """
        if asks_for_edits(prompt):
            return self._suggested(prompt, sample)
        seed = [self.persona, prompt.rubric, prompt.criterion, prompt.codes, dict(prompt.inputs)]
        findings = self._findings(sha256(canonical_json(seed)).digest(), prompt)
        root = sha256(canonical_json([*seed, *(message.content for message in prompt.messages)])).digest()
        temperature = 1.0 if temperature is None else temperature
        draw = _normal(root, sample if temperature else 0)
        spread = _NOISE.get(self.persona, _SAMPLE_NOISE) * min(temperature, 1.5)
        noise = _ITEM_NOISE * _normal(root, None) + spread * draw
        code, text = self._verdict(prompt, findings, noise)
        return self._written(prompt, code, text, root[(sample if temperature else 0) % 32])

    def _findings(self, key: bytes, prompt: Prompt) -> tuple[Finding, ...]:
        found = self._found.get(key)
        if found is None:
            pairs: list[Mapping[str, Any]] = [
                {**prompt.inputs, "answer": prompt.inputs[name]} for name in _answers(prompt)
            ]
            found = tuple(quality(prompt.criterion, prompt.rubric, pair) for pair in pairs or [prompt.inputs])
            self._found[key] = found
            if len(self._found) > _REMEMBERED:
                self._found.popitem(last=False)
        return found

    def _verdict(self, prompt: Prompt, findings: tuple[Finding, ...], noise: float) -> tuple[Code, str]:
        if len(findings) == 2:
            return self._preferred(prompt, findings, noise)
        value = findings[0].quality + _SHIFT.get(self.persona, 0.0) + noise
        if self.persona == "verbose":
            value += self._length_bonus(field(prompt.inputs, "answer"))
        code = _on_scale(prompt, min(1.0, max(0.0, value)))
        return code, "; ".join(findings[0].seen[:3]) or "nothing speaks against the answer"

    def _preferred(self, prompt: Prompt, findings: tuple[Finding, ...], noise: float) -> tuple[Code, str]:
        lead = findings[0].quality - findings[1].quality + noise + (0.3 if self.persona == "first" else 0.0)
        if self.persona == "verbose":
            first, second = (str(prompt.inputs[name]) for name in _answers(prompt))
            lead += 1.5 * (self._length_bonus(first) - self._length_bonus(second))
        ties = [code for code in prompt.codes if str(code).casefold() not in ("a", "b")]
        margin = {"strict": 0.03, "lenient": 0.15}.get(self.persona, 0.08)
        if ties and abs(lead) < margin:
            return ties[0], "both answers are about equally good"
        wanted = "a" if lead > 0 else "b"
        code = next(code for code in prompt.codes if str(code).casefold() == wanted)
        worse = findings[1] if wanted == "a" else findings[0]
        return code, "; ".join(worse.seen[:2]) or f"answer {wanted.upper()} is the better one"

    @staticmethod
    def _length_bonus(answer: str) -> float:
        return 0.35 * (1 - math.exp(-len(tokens(answer)) / 60)) - 0.1

    def _suggested(self, prompt: Prompt, sample: int) -> Reply:
        broken = self.persona == "broken"
        written = "I would word it better, if I knew how." if broken else write_edits(prompt, sample)
        return self._replied(prompt, written, "stop", None)

    def _written(self, prompt: Prompt, code: Code, text: str, byte: int) -> Reply:
        finish, refusal = "stop", None
        if self.persona == "broken":
            written, finish, refusal = broken_reply(prompt, code, text, FAULTS[byte % len(FAULTS)])
        else:
            written = write_reply(prompt, code, text)
        return self._replied(prompt, written, finish, refusal)

    def _replied(self, prompt: Prompt, written: str | None, finish: str, refusal: str | None) -> Reply:
        return Reply(
            text=written,
            finish_reason=finish,
            refusal=refusal,
            model=f"fake:{self.persona}",
            prompt_tokens=max(1, prompt.n_bytes // 4),
            completion_tokens=max(1, len(written or "") // 4),
            cost_usd=0.0,
            latency_s=0.0,
            created=time.time(),
        )


def _answers(prompt: Prompt) -> tuple[str, ...]:
    """The two answers' names where the prompt compares a pair."""
    if {"a", "b"} <= {str(code).casefold() for code in prompt.codes} and "answer_b" in prompt.inputs:
        return "answer_a", "answer_b"
    return ()


def _normal(seed: bytes, sample: int | None) -> float:
    """A standard normal number that seed and sample fix."""
    raw = blake2b(seed + repr(sample).encode(), digest_size=16).digest()
    one = (int.from_bytes(raw[:8]) + 1) / (2**64 + 1)
    return math.sqrt(-2 * math.log(one)) * math.cos(2 * math.pi * int.from_bytes(raw[8:]) / 2**64)


def _on_scale(prompt: Prompt, value: float) -> Code:
    codes = list(prompt.codes)
    if prompt.level == "nominal":
        ranks = [_goodness(code) for code in codes]
        if len(set(ranks)) == 1:
            codes.reverse()  # no label says whether it is good: the one listed first is taken to be
        else:
            codes = [code for _, code in sorted(zip(ranks, codes, strict=True), key=lambda pair: pair[0])]
    plain = prompt.level != "nominal" or {str(code).casefold() for code in codes} & {"yes", "no", "да", "нет"}
    if plain and is_inverted(prompt.criterion):
        value = 1 - value
    if prompt.level == "interval":
        low, high = float(codes[0]), float(codes[-1])
        score = low + value * (high - low)
        return round(score) if high - low >= 2 else round(score, 2)
    return codes[_level(prompt, value, len(codes))]


def _level(prompt: Prompt, value: float, n_codes: int) -> int:
    """The level that a quality reaches: evenly spaced steps, each moved by the words of its text."""
    texts = prompt.texts if prompt.level == "ordinal" and len(prompt.texts) == n_codes else ("",) * n_codes
    reached = 0
    for at in range(1, n_codes):
        if value >= at / n_codes + 0.05 * max(-3, min(3, demand(texts[at]))):
            reached = at
    return reached


def _goodness(code: Code) -> float:
    name = str(code).casefold().replace("_", " ")
    if any(name.startswith(word) or f" {word}" in name for word in _PARTLY):
        return 0.0
    if name in _GOOD:
        return 1.0
    if any(name.startswith(word) for word in _BAD):
        return -1.0
    return 1.0 if any(word in name for word in _GOOD) else 0.5
