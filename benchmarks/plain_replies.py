"""Replies as judges write them, made by a grammar that knows the truth: how many are read, and none otherwise.

A clear reply has one verdict, with an explanation that holds a negation, a number, another level or a contrast, before
it or behind it. An unclear one looks like it: a level that is denied, listed, demanded, retracted, echoed or bounded.

    python benchmarks/plain_replies.py [--replies 300000] [--seed 1] [--show 20]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from evalkit.rubrics import Scale
from evalkit.rubrics.parsing import parser_for


class Kind(NamedTuple):
    """A scale with the words in which a judge speaks of it."""

    scale: Scale
    language: str = "en"
    name: str = "quality"
    noun: str = ""  # "answer": the levels may be called "Answer A"

    @property
    def is_number(self) -> bool:
        return self.scale.level != "nominal"


def _nominal(*codes: str) -> Scale:
    return Scale.of(dict.fromkeys(codes, ""), level="nominal")


KINDS = {
    "1-5": Kind(Scale.of({1: "hopeless", 2: "weak", 3: "usable", 4: "solid", 5: "flawless"})),
    "1-10": Kind(Scale.of(dict.fromkeys(range(1, 11), "")), name="depth of detail"),
    "0-3": Kind(Scale.of(dict.fromkeys(range(4), ""))),
    "0-1": Kind(Scale.of({0: "fails", 1: "holds"}), name="grounded"),
    "0-100": Kind(Scale.of({0: "", 100: ""}, level="interval")),
    "оценка 1-5": Kind(Scale.of(dict.fromkeys(range(1, 6), "")), "ru", "ясность"),
    "оценка 0-2": Kind(Scale.of({0: "неверно", 1: "отчасти верно", 2: "верно"}), "ru", "верность"),
    "pair": Kind(_nominal("A", "B", "tie"), name="preference", noun="answer"),
    "pair of words": Kind(
        Scale.of({"A": "answer A serves better", "B": "answer B serves better", "C": "tie"}, level="nominal"),
        name="winner",
        noun="assistant",
    ),
    "пара": Kind(_nominal("A", "B"), "ru", "выбор", "ответ"),
    "letters": Kind(_nominal(*"ABCDE"), noun="option"),
    "yes/no": Kind(_nominal("yes", "no"), name="answers the question"),
    "да/нет": Kind(_nominal("да", "нет"), "ru", "по теме"),
    "harm": Kind(_nominal("harmful", "harmless"), name="harm"),
    "safety": Kind(_nominal("safe", "unsafe"), name="safety"),
    "support": Kind(_nominal("supported", "partially_supported", "unsupported"), name="support"),
    "relevance": Kind(_nominal("relevant", "irrelevant", "not_applicable"), name="relevance"),
    "тон": Kind(_nominal("вежливый", "грубый"), "ru", "тон"),
}


class Made(NamedTuple):
    """A reply: its form, what it is read for, its text, the codes that are right (none: it must stay unscored)."""

    form: str
    kind: str
    text: str
    right: tuple[object, ...]
    layout: str
    place: str
    says: str
    finish: str | None = None

    @property
    def is_clear(self) -> bool:
        return self.layout in LAYOUTS


# -- what a judge explains; {o} is another level, {n} a number of things

SAYS: dict[str, dict[str, list[str]]] = {
    "en": {
        "plain": [
            *("it follows the instructions closely", "the tone fits a formal letter", "the steps are easy to repeat"),
            *("the reader learns how the valve works", "every paragraph has a purpose of its own"),
        ],
        "negation": [
            *("it does not name the author", "the second step is not explained", "it never says how long to wait"),
            *("the reader cannot tell which valve is meant", "there is no mention of the price"),
            *("it doesn't address the deadline", "the dates aren't in order"),
        ],
        "number": [
            *("it leaves out {n} of the steps", "the list has {n} entries instead of seven", "it cites {n} sources"),
            *("the report of 2019 is quoted with {n} slips", "the answer spends {n} lines on the weather"),
        ],
        "other level": [
            *("it is stronger than a plain {o}", "it has more to offer than {o} would", "it goes well beyond {o}"),
            *("the gap to {o} is wide", "it would need more sources to be {o}"),
        ],
        "contrast": [
            *("it is well written, but the ending is weak", "although it is short, it covers the main point"),
            *("the facts hold; however, the order is confusing", "it is polite while the advice stays vague"),
        ],
    },
    "ru": {
        "plain": [
            *("ответ следует указаниям", "тон подходит для письма", "шаги легко повторить", "читатель узнаёт главное")
        ],
        "negation": [
            *(
                "в нём не назван автор",
                "второй шаг не объяснён",
                "он не говорит, сколько ждать",
                "там нет ни слова о цене",
            )
        ],
        "number": [
            "в списке {n} пунктов вместо семи",
            "ответ приводит {n} источника",
            "он пропускает {n} шага из девяти",
        ],
        "other level": ["он сильнее, чем {o}", "до {o} ему далеко", "он заметно выше, чем {o}"],
        "contrast": [
            "он краток, но главное сказано",
            "хотя текст длинный, он понятен",
            "факты верны, однако порядок запутан",
        ],
    },
}
BECAUSE = {"en": ["because", "since", "as"], "ru": ["потому что", "так как", "поскольку"]}
WORDS = {
    "en": [
        *("Score", "Rating", "Verdict", "Final score", "Final verdict", "Grade", "Judgment", "My rating", "Label"),
        *("Overall score", "Conclusion", "{name}", "{name}", "{name} score", "Final rating"),
    ],
    "ru": ["Оценка", "Итоговая оценка", "Вердикт", "Итог", "Балл", "Вывод", "{name}", "Моя оценка"],
}
SENTENCES = {
    "number": {
        "en": [
            *(
                "I give it a score of {v}",
                "I would give this answer a {v}",
                "My rating is {v}",
                "The final score is {v}",
            ),
            *("I rate this response {v} out of {max}", "Overall, I would rate it {v}/{max}", "The score is {v}"),
            *("It gets a {v} from me", "This answer deserves a {v}", "I'd assign it a rating of {v}"),
            *("A score of {v} is fair", "A rating of {v} seems appropriate", "I think a {v} is justified"),
            *("This earns a score of {v}", "So the overall rating is {v}", "I score it {v}"),
        ],
        "ru": [
            *("Я ставлю {v}", "Моя оценка — {v}", "Итоговая оценка — {v}", "Я оцениваю ответ на {v}"),
            *("Ответ заслуживает оценки {v}", "Ставлю оценку {v}"),
        ],
    },
    "label": {
        "en": [
            *(
                "My verdict is {v}",
                "The final verdict is {v}",
                "I choose {v}",
                "My judgment is {v}",
                "The label is {v}",
            ),
            *("So the verdict is {v}", "I would label it {v}", "My rating is {v}"),
        ],
        "ru": ["Мой вердикт — {v}", "Итоговый вердикт — {v}", "Я выбираю {v}", "Мой вывод — {v}"],
    },
}
LAYOUTS = ("bare", "labelled", "bold", "unit", "maximum", "sentence")
PLACES = ("before", "stop", "dash", "bracket", "because", "next line")


def level_word(kind: Kind, code: object) -> str:
    """A level within a sentence."""
    return f"{kind.noun} {code}" if kind.noun and str(code) != "tie" else f"a {code}" if kind.is_number else str(code)


def explanation(rng: random.Random, kind: Kind, code: object, says: str) -> str:
    others = [other for other in kind.scale.codes if other != code]
    said = rng.choice(SAYS[kind.language][says])
    other = rng.choice(others)
    word = level_word(kind, other) if kind.language == "en" and kind.noun else str(other)
    return said.format(o=word, n=rng.choice([2, 3, 4, 6]))


def verdict(rng: random.Random, kind: Kind, code: object, layout: str) -> str | None:
    """A verdict without its explanation; None where the layout does not fit the scale."""
    value, most = str(code), f"{kind.scale.highest:g}" if kind.is_number else ""
    ru = kind.language == "ru"
    if kind.noun and value != "tie" and rng.random() < 0.3:
        value = rng.choice([f"{kind.noun} {value}", f"{kind.noun.capitalize()} {value}", f"({value})", f"[[{value}]]"])
    elif not kind.is_number:
        value = rng.choice(
            [value, value.capitalize(), value.replace("_", " "), value.upper() if len(value) < 4 else value]
        )
    word = rng.choice(WORDS[kind.language]).format(name=rng.choice([kind.name, kind.name.capitalize()]))
    colon = rng.choice([": ", ": ", ":", " : ", ":\n"])
    if layout == "bare":
        return value
    if layout == "labelled":
        return f"{word}{colon}{value}"
    if layout == "bold":
        return rng.choice([f"**{value}**", f"**{word}:** {value}", f"**{word}**: {value}", f"**{word}: {value}**"])
    if layout == "unit":
        if not kind.is_number:
            return None if not kind.noun else f"{word}: {kind.noun} {code}"
        unit = rng.choice(["баллов", "балла"] if ru else ["points", "stars", "pts"])
        return rng.choice([f"{value} {unit}", f"{word}: {value} {unit}"])
    if layout == "maximum":
        if not kind.is_number:
            return None
        tail = rng.choice([f"/{most}", f" / {most}", f" из {most}" if ru else f" out of {most}", f"/{most}"])
        tail = rng.choice([tail, tail, f" (из {most})" if ru else f" (out of {most})"])
        return rng.choice([f"{value}{tail}", f"{word}: {value}{tail}"])
    shape = rng.choice(SENTENCES["number" if kind.is_number else "label"][kind.language])
    return shape.format(v=value, max=most)


def placed(rng: random.Random, kind: Kind, given: str, why: str, place: str) -> str:
    """A verdict with its explanation."""
    because = rng.choice(BECAUSE[kind.language])
    full = why[0].upper() + why[1:]
    if place == "before":
        return f"{full}.{rng.choice([chr(10), chr(10) * 2])}{given}{rng.choice(['', '.'])}"
    if place == "stop":
        return f"{given}. {full}."
    if place == "dash":
        return f"{given} {rng.choice('-–—')} {rng.choice([why, full])}{rng.choice(['', '.'])}"
    if place == "bracket":
        return f"{given} ({why}){rng.choice(['', '.'])}"
    if place == "because":
        return f"{given} {because} {why}."
    head = (
        rng.choice(["", "", "Reason: ", "Explanation: "]) if kind.language == "en" else rng.choice(["", "Пояснение: "])
    )
    return f"{given}{rng.choice(['', '.'])}{rng.choice([chr(10), chr(10) * 2])}{head}{full}."


def clear(rng: random.Random) -> Made | None:
    """A reply with one clear verdict."""
    name = rng.choice(list(KINDS))
    kind = KINDS[name]
    layout, place, says = rng.choice(LAYOUTS), rng.choice(PLACES), rng.choice(list(SAYS["en"]))
    code = rng.choice([7, 40, 62.5, 85]) if kind.scale.level == "interval" else rng.choice(kind.scale.codes)
    if rng.random() < 0.25:
        return _clear_in_form(rng, name, kind, code, says)
    given = verdict(rng, kind, code, layout)
    if given is None:
        return None
    why = explanation(rng, kind, code, says)
    text = placed(rng, kind, given, why, place)
    return Made("number" if kind.is_number else "label", name, text, (code,), layout, place, says)


def _clear_in_form(rng: random.Random, name: str, kind: Kind, code: object, says: str) -> Made:
    """The same in JSON or between tags."""
    why = explanation(rng, kind, code, says)
    value = str(code)
    joined = {
        "stop": f"{value}. {why.capitalize()}.", "dash": f"{value} - {why}", "bracket": f"{value} ({why})",
        "because": f"{value} {rng.choice(BECAUSE[kind.language])} {why}", "before": value, "next line": value,
    }  # fmt: skip
    place = rng.choice(PLACES)
    text = joined[place]
    layout = rng.choice(["bare", "bold"])
    text = text.replace(value, f"**{value}**", 1) if layout == "bold" else text
    if rng.random() < 0.5:
        key = "score" if kind.is_number else "label"
        return Made(
            "json", name, json.dumps({"explanation": why, key: text}, ensure_ascii=False), (code,), layout, place, says
        )
    return Made("tagged", name, f"[FEEDBACK] {why} [RESULT] {text} [END]", (code,), layout, place, says)


# -- what looks like a verdict and is none, or another one

Unclear = Callable[[random.Random, str, Kind, object, object], tuple[str, tuple[object, ...]] | None]


def _word(rng: random.Random, kind: Kind) -> str:
    return rng.choice(WORDS[kind.language]).format(name=kind.name)


def _labelled(rng: random.Random, kind: Kind, text: str) -> str:
    return rng.choice([text, f"{_word(rng, kind)}: {text}", f"**{_word(rng, kind)}:** {text}"])


def _no(rng: random.Random, kind: Kind) -> str:
    if kind.language == "ru":
        return rng.choice(["нет", "Нет", "не совсем", "пока нет", "нет, всё наоборот", "отчасти", "частично"])
    return rng.choice(
        ["no", "No", "false", "not yet", "not really", "partly", "partially", "no, far from it", "no way", "FALSE"]
    )


def level_denied(
    rng: random.Random, _n: str, kind: Kind, code: object, other: object
) -> tuple[str, tuple[object, ...]] | None:
    """``Harmful: No``."""
    if str(code) in ("yes", "no", "да", "нет", "tie", "0", "1"):
        return None  # on a scale of 0 and 1, "0, false" is 0
    sign = rng.choice([": ", ", ", " - ", " — ", "; ", " (", " = "])
    text = f"{str(code).capitalize()}{sign}{_no(rng, kind)}{')' if sign == ' (' else ''}"
    return rng.choice([text, text, f"Label: {text}"]), (other,) if len(kind.scale.codes) == 2 else ()


def levels_listed(
    rng: random.Random, _n: str, kind: Kind, code: object, other: object
) -> tuple[str, tuple[object, ...]]:
    """Each level with a value of its own."""
    ru = kind.language == "ru"
    values = rng.choice(
        [("30%", "70%"), ("0.2", "0.8"), ("нет", "да") if ru else ("no", "yes"), ("хуже",
        "лучше") if ru else ("worse", "better"),
         ("false", "true"), ("7/10", "9/10"), ("cites no source", "cites two"), ("weak facts", "good style"),
         ("7", "9")]
    )  # fmt: skip
    sign = rng.choice([": ", " - ", " = ", " — ", ": "])
    gap = rng.choice(["\n", "\n", ", ", "; ", "\n\n", " | "])
    mark = rng.choice(["", "", "", "- ", "* "]) if "\n" in gap else ""
    bold = rng.choice(["", "", "**"])
    shown = (
        [rng.choice([code, code]), other]
        if not kind.noun or rng.random() < 0.7
        else [f"{kind.noun.capitalize()} {c}" for c in (code, other)]
    )
    text = gap.join(f"{mark}{bold}{level}{bold}{sign}{value}" for level, value in zip(shown, values, strict=True))
    if rng.random() < 0.4:
        end = rng.choice(["Вердикт", "Итог"] if ru else ["Verdict", "Winner", "Final verdict", "Final score", "Better"])
        return f"{text}\n{end}: {other}", (other,)
    return text, (other,)


def level_headings(
    rng: random.Random, _n: str, kind: Kind, code: object, other: object
) -> tuple[str, tuple[object, ...]]:
    """Both gone through, a paragraph each."""
    one, two = explanation(rng, kind, code, "plain"), explanation(rng, kind, other, "contrast")
    sign = rng.choice([": ", ":\n", "\n", " - "])
    return f"{code}{sign}{one}.\n{other}{sign}{two}.", ()


def echoed(rng: random.Random, _n: str, kind: Kind, code: object, other: object) -> tuple[str, tuple[object, ...]]:
    """What was judged, before the verdict on the same line."""
    echo = rng.choice(
        ["Ответ", "Результат", "Ответ кандидата"]
        if kind.language == "ru"
        else ["Answer", "Final answer", "Result", "Response", "Value", "Decision", "The answer", "Candidate's answer"]
    )
    mark = rng.choice(['"{}"', "{}", "«{}»", "'{}'", "“{}”", "**{}**", "`{}`"]).format(code)
    gap = rng.choice([". ", ", ", "; ", " ", "\n", " - ", ", which is wrong. "])
    bold = rng.choice(["", "**"])
    word = rng.choice(
        ["Оценка", "Вердикт"] if kind.language == "ru" else ["Score", "Verdict", "Rating", "Grade", "My verdict"]
    )
    return f"{bold}{echo}:{bold} {mark}{gap}{bold}{word}:{bold} {other}", (other,)


def demanded(rng: random.Random, _n: str, kind: Kind, code: object, _o: object) -> tuple[str, tuple[object, ...]]:
    """A level that is not given."""
    if kind.language == "ru":
        shape = rng.choice(
            [
                "Он не заслуживает оценки {v}.",
                "Кандидат просит поставить оценку {v}.",
                "Если бы были источники, оценка была бы {v}.",
                "Это не оценка {v}.",
                "Я бы никогда не поставил оценку {v}.",
            ]
        )
    else:
        shape = rng.choice([
            "It does not deserve a score of {v}.", "A score of {v} is hardly fair.", "He says a score of {v} is fair.",
            "A score of {v} is fair only for complete answers.", "If it were longer, a {v} would be fair.",
            "I would not give it a rating of {v}.",
            "The answer asks for a score of {v}.",
            "The candidate demands a verdict of {v}.", "If it cited a source, the score would be {v}.",
            "A better reply would get a score of {v}.",
            "It never earns a rating of {v}.", "Only a complete answer would get a score of {v}.",
            "It should not get a score of {v}.",
            "The rating is not {v}.", "My verdict is not {v}.", "I can't give it a score of {v}.",
            "The author wants a verdict of {v}.",
            "It falls short of a score of {v}.", "This is no score of {v}.", "One might expect a rating of {v}.",
        ])  # fmt: skip
    before = (
        rng.choice(["", "", "It is short. ", "It is short.\n"])
        if kind.language == "en"
        else rng.choice(["", "Он краток. "])
    )
    return before + shape.format(v=code), ()


def retracted(rng: random.Random, _n: str, kind: Kind, code: object, other: object) -> tuple[str, tuple[object, ...]]:
    """A verdict that is taken back."""
    if kind.language == "ru":
        tail = rng.choice(
            [
                ". Поправка: {o}",
                ", нет, {o}",
                ". Хотя нет, {o}",
                ", точнее {o}",
                ". Оценка: {o}",
                "\nПоправка: оценка {o}",
            ]
        )
    else:
        tail = rng.choice([
            ". Correction: Score: {o}", ", no wait, {o}", ". Wait, actually {o}", ". Correction: {o}",
            " - no, {o}", ", or rather {o}",
            ". On second thought: {o}", ". Actually, I give it a score of {o}.", "\nCorrection: {o}",
            "\nOn reflection, I give it a score of {o}.",
            ", sorry, I mean {o}", ". No, make that {o}.", ". I change my rating to {o}.",
        ])  # fmt: skip
    return f"{_word(rng, kind)}: {code}{tail.format(o=other)}", (other,)


def moved(rng: random.Random, _n: str, kind: Kind, code: object, other: object) -> tuple[str, tuple[object, ...]]:
    """Arrows, alternatives, ranges, sums and shares."""
    shape = rng.choice(["{v} -> {o}", "{v} → {o}", "{v} => {o}", "{v} or {o}", "{v} / {o}", "{v} (or {o})",
        "{v} (maybe {o})", "{v}, perhaps {o}",
                        "{v} или {o}", "{v} (possibly {o})", "{v}; {o}", "between {v} and {o}",
                        "either {v} or {o}", "{v} ({o})", "{v} vs {o}", "{v} to {o}",
                        "{v} - {o}", "{v}|{o}", "{v}, or maybe {o}", "{v} (but {o} is possible)",
                        "{v}, borderline {o}"])  # fmt: skip
    if kind.is_number and str(other) == f"{kind.scale.highest:g}" and "/" in shape:
        return f"{code} or {other}", ()
    return _labelled(rng, kind, shape.format(v=code, o=other)), ()


def counted(
    rng: random.Random, _n: str, kind: Kind, code: object, other: object
) -> tuple[str, tuple[object, ...]] | None:
    """A number with a deduction, an operator, a share, or a second part."""
    if not kind.is_number:
        return None
    shape = rng.choice([
        "{v} (minus 2 for errors)", "{v}, minus 2", "{v} (-2)", "{v} minus one for the typos", "{v} - 1 = 3",
        "{v} + 2", "{v} * 2", "{v}%", "{v} %", "{v} percent",
        "{v} (style), {o} (facts)", "{v}: style; {o}: facts", "{v} for style, {o} for facts",
        "{v} - 2 points for errors", "{v}, less 1", "{v} (less 2)",
        "{v} (40%), {o} (60%)", "{v}: 40%, {o}: 60%", "{v} (2 points off)", "{v}±1", "{v}^2", "{v} (40%)",
        "{v} x 2", "{v}+{o}", "{v} − 1", "{v} (after deducting 2)",
    ])  # fmt: skip
    return _labelled(rng, kind, shape.format(v=code, o=other)), ()


def bounded(rng: random.Random, _n: str, kind: Kind, code: object, _o: object) -> tuple[str, tuple[object, ...]] | None:
    """``<3``."""
    if not kind.is_number:
        shape = rng.choice(
            [
                "not {v}",
                "neither {v}",
                "anything but {v}",
                "Not {v}.",
                "hardly {v}",
                "no {v}",
                "!{v}",
                "~{v}",
                "almost {v}",
            ]
        )
        return None if kind.language == "ru" or str(code) == "no" else (_labelled(rng, kind, shape.format(v=code)), ())
    shape = rng.choice(
        [
            "<{v}",
            "> {v}",
            ">={v}",
            "≤{v}",
            "~{v}",
            "≈ {v}",
            "=<{v}",
            "at most {v}",
            "at least {v}",
            "less than {v}",
            "not {v}",
            "below {v}",
            "max {v}",
            "up to {v}",
            "+-{v}",
            "about {v} or so",
            "!= {v}",
        ]
    )
    return _labelled(rng, kind, shape.format(v=code)), ()


def boxes(rng: random.Random, _n: str, _kind: Kind, code: object, other: object) -> tuple[str, tuple[object, ...]]:
    """The unticked box comes first, or alone."""
    off, on = rng.choice(
        [
            ("[ ]", "[x]"),
            ("[ ]", "[X]"),
            ("☐", "☑"),
            ("☐", "☒"),
            ("( )", "(x)"),
            ("⬜", "✅"),
            ("❌", "✅"),
            ("○", "●"),
            ("✗", "✓"),
        ]
    )
    mark = rng.choice(["", "- ", "* "])
    gap = rng.choice(["\n", " ", "\n", "  "])
    return f"{mark}{off} {code}{gap}{mark if gap == chr(10) else ''}{on} {other}", (other,)


def equation(
    rng: random.Random, name: str, _kind: Kind, _c: object, _o: object
) -> tuple[str, tuple[object, ...]] | None:
    """A tie written as an equation."""
    if name not in ("pair", "pair of words", "пара"):
        return None
    one, two = rng.choice([("A", "B"), ("B", "A")])
    sign = rng.choice(["=", " = ", "==", " == ", "≈"])
    tie = {"pair": ("tie",), "pair of words": ("C",)}.get(name, ())
    text = rng.choice(["[[{}]]", "{}", "**{}**", "Verdict: {}", "My final verdict is: [[{}]]"]).format(
        f"{one}{sign}{two}"
    )
    return text, tie


def other_maximum(
    rng: random.Random, _n: str, kind: Kind, code: object, _o: object
) -> tuple[str, tuple[object, ...]] | None:
    """A maximum that is not the scale's."""
    if not kind.is_number:
        return None
    most = rng.choice([n for n in (4, 6, 7, 20, 50, 1000) if n != kind.scale.highest])
    shape = rng.choice([
        "{v} (out of {m})", "{v} (strong match)/{m}", "{v} (good) out of {m}", "{v}/{m}", "{v} / {m}",
        "{v} out of {m}", "{v} [out of {m}]", "({v}) of {m}", "{v} (/{m})",
        "{v} points out of {m}", "{v} stars (out of {m})", "{v} (max {m})", "{v} из {m}", "{v} (из {m})",
        "**{v}** / {m}", "{v} (on a scale of 0 to {m})", "{v} (1-{m})", "{v} on a scale of 1-{m}",
    ])  # fmt: skip
    if rng.random() < 0.3:
        word = rng.choice(["Score", "Rating", "Оценка"])
        note = rng.choice(
            [
                "(0-{m})",
                "(out of {m})",
                "(1 to {m})",
                "[1-{m}]",
                "(/{m})",
                "(max {m})",
                "(из {m})",
                "(0–{m} points)",
                "/ {m}",
                "out of {m}",
            ]
        ).format(m=most)
        return f"{word} {note}: {code}", ()
    return _labelled(rng, kind, shape.format(v=code, m=most)), ()


OTHER_LABELS = {
    "en": [
        *(
            "Loser",
            "Deductions",
            "Confidence",
            "Weaker answer",
            "Worse",
            "Number of errors",
            "Errors",
            "Maximum",
            "Threshold",
        ),
        *(
            "Previous score",
            "Expected score",
            "Human rating",
            "Second rater",
            "Penalty",
            "Points lost",
            "Uncertainty",
            "Worst",
        ),
        *(
            "Minimum score",
            "User rating",
            "Steps",
            "Facts checked",
            "Claims",
            "Not chosen",
            "Rejected",
            "Runner-up",
            "Doubt",
        ),
        *(
            "Expert rating",
            "Reference score",
            "Target",
            "Baseline",
            "Claimed score",
            "Average",
            "Words",
            "Item",
            "Question",
            "Pages",
        ),
    ],
    "ru": [
        *(
            "Проигравший",
            "Вычеты",
            "Уверенность",
            "Хуже",
            "Число ошибок",
            "Ошибки",
            "Максимум",
            "Порог",
            "Прежняя оценка",
        ),
        *(
            "Ожидаемая оценка",
            "Штраф",
            "Сомнение",
            "Минимум",
            "Количество фактов",
            "Отвергнут",
            "Оценка эксперта",
            "Шаги",
        ),
    ],
}


def other_label(rng: random.Random, _n: str, kind: Kind, code: object, _o: object) -> tuple[str, tuple[object, ...]]:
    """A last line about something else."""
    label = rng.choice(OTHER_LABELS[kind.language])
    before = (
        rng.choice(["It is short and clear.\n", "It is short.\n\n", ""])
        if kind.language == "en"
        else rng.choice(["Он краток.\n", ""])
    )
    return f"{before}{rng.choice(['', '**'])}{label}: {code}".replace("**" + label + ":", f"**{label}:**"), ()


LINES: dict[str, Unclear] = {
    one.__name__: one
    for one in (
        level_denied, levels_listed, level_headings, echoed, demanded, retracted, moved, counted, bounded, boxes,
        equation, other_maximum, other_label,
    )
}  # fmt: skip
THINKS = [
    *(("<think>", "</think>"), ("<seed:think>", "</seed:think>"), ("◁think▷", "◁/think▷"),
        ("<|begin_of_thought|>", "<|end_of_thought|>")),
    *(("<scratchpad>", "</scratchpad>"), ("<thinking>", "</thinking>"), ("<reasoning>", "</reasoning>"),
        ("<thought>", "</thought>"), ("<inner_thoughts>", "</inner_thoughts>"), ("<|thinking|>", "<|/thinking|>")),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
]  # fmt: skip


def draft(rng: random.Random, name: str, kind: Kind, code: object, other: object) -> Made:
    """A draft in thinking marks; what follows it, if anything, is the verdict."""
    opened, closed = rng.choice(THINKS)
    form = rng.choice(["json", "lines"])
    text = (
        json.dumps({"score" if kind.is_number else "label": code}) if form == "json" else f"{_word(rng, kind)}: {code}"
    )
    text = f"{opened}{rng.choice(['', 'Perhaps ', chr(10)])}{text}"
    right: tuple[object, ...] = ()
    if rng.random() < 0.6:
        own = (
            json.dumps({"score" if kind.is_number else "label": other})
            if form == "json"
            else f"{_word(rng, kind)}: {other}"
        )
        text, right = f"{text}{closed}{rng.choice(['', chr(10)])}{own}", (other,)
    wanted = "json" if form == "json" else "number" if kind.is_number else "label"
    return Made(wanted, name, text, right, "draft", "", opened, rng.choice([None, "stop"]))


BROKE_OFF = [
    "error",
    "abort",
    "network_error",
    "insufficient_system_resource",
    "time_limit",
    "cancelled",
    "pause_turn",
    "length",
    "odd_reason",
]


def broken_off(rng: random.Random, name: str, kind: Kind, code: object, _o: object) -> Made:
    """A reply whose end is missing."""
    word = _word(rng, kind)
    text = rng.choice([f"{code}", f"{word}: {code}", f"It is short.\n{word}: {code}", f"I give it a score of {code}"])
    return Made("number" if kind.is_number else "label", name, text, (), "broken off", "", "", rng.choice(BROKE_OFF))


def unclear_json(rng: random.Random, name: str, kind: Kind, code: object, other: object) -> Made | None:
    """JSON with an echo, or with an unquoted value of several words."""
    own = json.dumps(other)
    if rng.random() < 0.5:
        key = rng.choice(["faithfulness_score", "correct_score", "grounding", "relevance_level", "my_mark"])
        pairs = [
            f'"{key}": {own}',
            f'"{rng.choice(["answer", "result", "value"])}": {json.dumps(rng.choice([code, str(code)]))}',
        ]
        rng.shuffle(pairs)
        return Made("json", name, "{" + ", ".join(pairs) + "}", (other,), "echoed key", "", "")
    if not kind.is_number:
        return None
    most = next(n for n in (6, 20) if n != kind.scale.highest)
    value = rng.choice(
        [
            "{v} out of {m}",
            "{v} or {o}",
            "{v} to {o}",
            "{v}, {o}",
            "{v} + 1",
            "{v} / {m}",
            "{v}/{m}",
            "{v} - 1",
            "about {v} or {o}",
            "{v}-{o}",
            "< {v}",
            "{v} -> {o}",
            "{v} (or {o})",
            "{v} minus 1",
            "{v}%",
        ]
    )
    value = value.format(v=code, o=other, m=most)
    text = rng.choice(
        [
            '{{"explanation": "ok", "score": {x}}}',
            '{{"score": {x}, "explanation": "ok"}}',
            "{{'score': {x}}}",
            "{{score: {x}}}",
            '```json\n{{"score": {x},}}\n```',
        ]
    )
    return Made("json", name, text.format(x=value), (), "unquoted value", "", value)


def unclear(rng: random.Random) -> Made | None:
    """A reply without a clear verdict, or with another one than it seems."""
    name = rng.choice(list(KINDS))
    kind = KINDS[name]
    codes: Sequence[object] = [7, 40, 85] if kind.scale.level == "interval" else kind.scale.codes
    code, other = rng.sample(list(codes), 2)
    which = rng.random()
    if which < 0.1:
        return rng.choice([draft, broken_off])(rng, name, kind, code, other)
    if which < 0.2:
        return unclear_json(rng, name, kind, code, other)
    says = rng.choice(list(LINES))
    made = LINES[says](rng, name, kind, code, other)
    if made is None:
        return None
    text, right = made
    form = "number" if kind.is_number else "label"
    if "\n" not in text and says not in ("echoed", "other_label", "demanded", "boxes") and rng.random() < 0.35:
        text = text.strip()
        if rng.random() < 0.5:
            return Made(
                "json",
                name,
                json.dumps({"explanation": "ok", "score" if kind.is_number else "label": text}, ensure_ascii=False),
                right,
                "unclear",
                "json",
                says,
            )
        return Made("tagged", name, f"It is short. [RESULT] {text} [END]", right, "unclear", "tagged", says)
    return Made(form, name, text, right, "unclear", "lines", says)


def cases(n: int, seed: int) -> Iterator[Made]:
    """The first `n` replies of a seed, half of them clear."""
    rng = random.Random(seed)
    while n > 0:
        made = clear(rng) if rng.random() < 0.5 else unclear(rng)
        if made is not None:
            n -= 1
            yield made


def code_of(made: Made) -> object:
    """What evalkit reads."""
    kind = KINDS[made.kind]
    return parser_for(made.form, kind.scale, kind.name)(made.text, made.finish).code


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--replies", type=int, default=300_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--show", type=int, default=0, help="show so many replies of each layout that are not read")
    asked = options.parse_args()
    n: Counter[tuple[str, ...]] = Counter()
    read: Counter[tuple[str, ...]] = Counter()
    wrong: Counter[tuple[str, str]] = Counter()
    shown: Counter[tuple[str, ...]] = Counter()
    for made in cases(asked.replies, asked.seed):
        code = code_of(made)
        cell = (
            (made.layout, made.place, made.says)
            if made.is_clear
            else (made.layout, made.says if made.layout == "unclear" else "")
        )
        n[cell] += 1
        read[cell] += code is not None
        is_wrong = code is not None and code not in made.right
        if is_wrong:
            wrong[made.layout, made.says if made.layout == "unclear" else made.place] += 1
        key = ("wrong", *cell[:2]) if is_wrong else ("unread", *cell[:2])
        if (is_wrong or (made.is_clear and code is None)) and shown[key] < asked.show:
            shown[key] += 1
            print(key[0], made, "->", code)
    _print(n, read)
    print(f"{asked.replies:,} replies: {wrong.total()} read as something else {dict(wrong)}")
    cells = [(read[cell] / n[cell], cell) for cell in n if cell[0] in LAYOUTS]
    low = [cell for share, cell in cells if share < 0.97]
    print(f"{sum(read[cell] for _, cell in cells) / sum(n[cell] for _, cell in cells):.2%} of the clear ones are read")
    print(f"{len(cells)} layouts, {len(low)} with less than 97 % read: {low[:5]}")
    return int(bool(wrong.total() or low))


def _print(n: Counter[tuple[str, ...]], read: Counter[tuple[str, ...]]) -> None:
    print("clear replies: share read (how many), by what the explanation holds")
    says = list(SAYS["en"])
    print(f"{'':22}" + "".join(f"{name:>18}" for name in says))
    for layout in LAYOUTS:
        for place in PLACES:
            cells = [(layout, place, name) for name in says]
            row = "".join(
                f"{read[cell] / n[cell]:>9.1%} ({n[cell]:>6,})" if n[cell] else f"{'-':>18}" for cell in cells
            )
            print(f"{layout:11}{place:11}{row}")
    print("unclear replies: share read (never otherwise than the truth)")
    for cell in sorted(cell for cell in n if cell[0] not in LAYOUTS):
        print(f"{' '.join(cell):40}{read[cell] / n[cell]:>8.1%} ({n[cell]:,})")


if __name__ == "__main__":
    sys.exit(main())
