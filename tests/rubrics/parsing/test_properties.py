"""What holds for every scale, code and text."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evalkit.core.lists_of_choices import REASONS
from evalkit.rubrics.parsing import parse_reply, parser_for
from evalkit.rubrics.scales import Code, Scale, code_text

ordinal = st.sets(st.integers(-20, 120), min_size=2, max_size=8).map(lambda codes: Scale.of(dict.fromkeys(codes, "")))
interval = st.sampled_from([(0, 1), (1, 5), (-1, 1), (0, 100)]).map(
    lambda ends: Scale.of({ends[0]: "", ends[1]: ""}, level="interval")
)
nominal = st.sampled_from(
    [
        ("A", "B"), ("a", "b", "tie"), ("yes", "no"), ("Да", "Нет"), ("relevant", "not relevant"), ("C++", "C#"),
        ("Ёж", "ёлка"),
    ]
).map(lambda labels: Scale.of(dict.fromkeys(labels, ""), level="nominal"))  # fmt: skip
scales = st.one_of(ordinal, interval, nominal)

FORMS = ("json", "tagged", "number", "label", r"regex:(?i)score ?[:=] ?(.+)")
PIECES = [*"{}[]\"'\\:,.-*/()0123 \nAB", '{"score": 1}', '"score":', "[RESULT]", "[END]", "[FEEDBACK]", "Rating:"]
PIECES.extend(["<think>", "</think>", "```json\n", "nan", "or", " 2 ", "Verdict: ", "\n1. ", "1/2", " out of ", "true"])
PIECES.extend(["score of ", "\ud800", "٣"])
TEXTS = st.one_of(st.text(max_size=300), st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
PROSE = st.text(alphabet="abcdefg hijk, lmnop qrstuv", min_size=1, max_size=60).map(lambda text: f"It {text} there.")


@st.composite
def judged(draw: st.DrawFn) -> tuple[Scale, Code]:
    scale = draw(scales)
    if scale.level == "interval":
        value = draw(st.integers(0, 100)) / 100
        code = scale.code(round(scale.lowest + value * (scale.highest - scale.lowest), 4))
        assert code is not None
        return scale, code
    return scale, draw(st.sampled_from(scale.codes))


def written(scale: Scale, code: Code, why: str) -> dict[str, list[str]]:
    """Ways in which judges write one code, by form."""
    text = code_text(code)
    value = orjson.dumps(code).decode()
    quoted = orjson.dumps(why).decode()
    name = "label" if scale.level == "nominal" else "score"
    tokens = [text, f" {text}\n", f"**{text}**", f"`{text}`", f"({text})", f"{text}."]
    if scale.level == "nominal":
        tokens += [text.upper(), text.lower(), f'"{text}"']
    else:
        tokens += [text.replace(".", ","), f"{text} points"]
        tokens += [f"{text}/{code_text(scale.codes[-1])}"] if scale.highest > 0 else []
    lines = [f"Rating: {token.strip()}" for token in tokens] + [
        f"**Final score**: {text}",
        f"Verdict:\n{text}",
        f"Оценка: {text}",
    ]
    plain = [*tokens, *lines, *(f"{why}\n{line}" for line in lines), *(f"{line}\nRationale: {why}" for line in lines)]
    plain += [f"{why}\n\n{text}", f"<think>{why} 1 or 0</think>{text}", f"0? 1?</think>\n{text}"]
    objects = [f'{{"explanation": {quoted}, "{name}": {value}}}', f'{{"{name}": {value}, "explanation": {quoted}}}']
    objects += [f'{{"Reason": {quoted}, "Verdict": "{text}"}}', f'[{{"{name}": {value}}}]', f"{{'{name}': {value},}}"]
    objects += [f"Here:\n```json\n{one}\n```" for one in objects[:3]] + [f"<think>x</think>{objects[0]}\nDone."]
    tagged = [f"[FEEDBACK] {why} [RESULT] {token} [END]" for token in tokens] + [
        f"{why} [RESULT] {text}",
        f"[result]{text}[end]",
    ]
    return {"json": objects, "tagged": tagged, "number": plain, "label": plain, FORMS[-1]: [f"{why} Score: {text}"]}


@given(judged(), PROSE)
@settings(max_examples=150, deadline=None)
@pytest.mark.long
def test_every_writing_of_a_code_reads_back(pair: tuple[Scale, Code], why: str) -> None:
    scale, code = pair
    for form, texts in written(scale, code, why).items():
        for text in texts:
            assert parse_reply(text, form, scale).code == code, (form, text)


@given(scales, TEXTS, st.sampled_from(FORMS), st.sampled_from([None, "stop", "length", "content_filter", "tool_calls"]))
@settings(max_examples=800, deadline=None)
@pytest.mark.long
def test_no_text_raises_or_leaves_the_scale(scale: Scale, text: str, form: str, finish: str | None) -> None:
    found = parser_for(form, scale)(text, finish)
    assert (found.code is None) == (found.error in REASONS)
    if found.code is not None:
        assert scale.code(found.code) == found.code
        assert type(found.code) is type(scale.code(found.code))


@given(judged(), PROSE, st.data())
@settings(max_examples=200, deadline=None)
@pytest.mark.long
def test_what_is_quoted_before_the_answer_never_wins(pair: tuple[Scale, Code], why: str, data: st.DataObject) -> None:
    scale, code = pair
    other = data.draw(st.sampled_from(scale.codes))
    assume(other != code)
    for form, fakes in written(scale, other, "Give me this.").items():
        fake = data.draw(st.sampled_from(fakes))
        # an answer in quotation marks alone on its line is a quotation beside any other text
        real = data.draw(st.sampled_from([text for text in written(scale, code, why)[form] if text[0] not in '"`']))
        for text in (f"The answer says: {fake}\n{why}\n{real}", f"<think>{fake}</think>{real}", f"{fake}\n{real}"):
            assert parse_reply(text, form, scale).code != other, (form, text)


@pytest.mark.long
@given(judged(), PROSE, st.data())
@settings(max_examples=300, deadline=None)
def test_a_reply_that_is_cut_off_never_says_something_else(
    pair: tuple[Scale, Code], why: str, data: st.DataObject
) -> None:
    scale, code = pair
    for form, texts in written(scale, code, why).items():
        text = data.draw(st.sampled_from(texts))
        part = text[: data.draw(st.integers(0, len(text)))]
        assert parser_for(form, scale)(part, "length").code in (None, code), (form, part)
