"""How far an answer is supported by evidence, and what speaks against it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evalkit.engine.providers.fake.words import Claim, claims, tokens

__all__ = ["Finding", "abstains", "recall", "support"]

_FIGURE, _NAME, _WORD = 3.0, 2.0, 1.0
_ABSTENTIONS = (
    "don't know",
    "do not know",
    "not sure",
    "does not say",
    "doesn't say",
    "does not mention",
    "doesn't mention",
    "not mentioned",
    "not stated",
    "no information",
    "cannot be determined",
    "cannot answer",
    "can't answer",
    "can't help",
    "cannot help",
    "unable to",
    "не знаю",
    "не указан",
    "не упомин",
    "нет информации",
    "нет данных",
    "не могу",
    "не сказано",
    "невозможно ответить",
)


@dataclass(frozen=True, slots=True)
class Finding:
    """A quality from 0 to 1 and what was seen, the weightiest first."""

    quality: float
    seen: tuple[str, ...] = ()


def abstains(text: str) -> bool:
    """Whether the text says that it cannot or will not answer."""
    folded = text.casefold().replace("’", "'")
    return len(folded) < 400 and any(phrase in folded for phrase in _ABSTENTIONS)


def _weight(root: str, facts: dict[str, str]) -> float:
    if root not in facts:
        return _WORD
    return _FIGURE if _is_figure(root) else _NAME


def _is_figure(root: str) -> bool:
    return root[0].isdigit() or root.startswith("month ")


def _covered(stems: frozenset[str], facts: dict[str, str], by: frozenset[str] | set[str]) -> float:
    total = sum(_weight(root, facts) for root in stems)
    return sum(_weight(root, facts) for root in stems if root in by) / total if total else 1.0


def _union(parts: Sequence[Claim]) -> set[str]:
    found: set[str] = set()
    for part in parts:
        found |= part.stems
    return found


def support(answer: str, evidence: str, question: str, place: str) -> Finding:
    """Whether every sentence of `answer` follows from `evidence` (called `place` in what is seen)."""
    told, known = claims(answer), claims(evidence)
    if not told:
        return Finding(0.0, ("the answer is empty",))
    if not known:
        return Finding(0.3, (f"the {place} is empty",))
    asked = frozenset(_union(claims(question)))
    everything = _union(known)
    found = [_one(claim, known, everything, asked, place) for claim in told]
    worst = min(found, key=lambda finding: finding.quality)
    mean = sum(finding.quality for finding in found) / len(found)
    seen = [text for finding in sorted(found, key=lambda finding: finding.quality) for text in finding.seen]
    return Finding(0.5 * mean + 0.5 * worst.quality, tuple(dict.fromkeys(seen)))


def _one(claim: Claim, known: Sequence[Claim], everything: set[str], asked: frozenset[str], place: str) -> Finding:
    new = claim.stems - asked or claim.stems
    if not new:
        return Finding(0.6)
    nearest = max(known, key=lambda other: (len(claim.stems & other.stems), -len(other.stems)))
    near = _covered(new, claim.facts, nearest.stems | asked)
    quality = min(1.0, 1.3 * (0.5 * near + 0.5 * _covered(new, claim.facts, everything)))
    lost = [root for root in claim.facts if root not in everything and root not in asked]
    figures = [claim.facts[root] for root in lost if _is_figure(root)]
    names = [claim.facts[root] for root in lost if not _is_figure(root)]
    seen = [f"no support for '{text}' in the {place}" for text in (figures + names)[:3]]
    quality -= 0.55 * bool(figures) + 0.3 * bool(names)
    contrary = next((other for other in (nearest, *known) if _against(claim, other)), None)
    if contrary is not None and (near < 0.99 or contrary is nearest):
        quality -= 0.6
        seen.insert(0, f"'{_short(claim.text)}' is against '{_short(contrary.text)}' in the {place}")
    if not seen and quality < 0.6:
        seen.append(f"little support for '{_short(claim.text)}' in the {place}")
    return Finding(max(0.0, quality), tuple(seen))


def _against(claim: Claim, other: Claim) -> bool:
    """Whether two clauses about the same thing say contrary things: one negation or one opposite word apart."""
    pairs = [pair for pair, side in claim.sides.items() if other.sides.get(pair, side) != side]
    if (claim.negated != other.negated) == bool(pairs):
        return False
    shared = len(claim.stems & other.stems)
    return shared >= 1 and shared / max(1, min(len(claim.stems), len(other.stems)) - len(pairs)) >= 0.5


def recall(answer: str, reference: str, question: str) -> Finding:
    """Whether `answer` holds what `reference` says, figures and names first."""
    told, wanted = claims(answer), claims(reference)
    if not told:
        return Finding(0.0, ("the answer is empty",))
    said, asked = _union(told), _union(claims(question))
    facts = {root: text for claim in wanted for root, text in claim.facts.items()}
    new = frozenset(_union(wanted) - asked) or frozenset(_union(wanted))
    share = min(1.0, 1.25 * _covered(new, facts, said))
    lost = [facts[root] for root in facts if root in new and root not in said]
    figures = any(_is_figure(root) and root in new and root not in said for root in facts)
    own = {root for claim in told for root in claim.facts} - set(facts) - asked - _union(wanted)
    instead = bool(lost) and bool(own)  # another figure or name stands where the reference has its own
    quality = share - 0.1 * figures - 0.4 * instead
    return Finding(max(0.0, quality), tuple(f"'{text}' of the reference is missing" for text in lost[:3]))


def _short(text: str, most: int = 60) -> str:
    words = tokens(text)
    return text if len(text) <= most or not words else text[:most].rsplit(" ", 1)[0] + " …"
