"""Finish reasons, marks of thinking, and characters without width."""

from __future__ import annotations

import json
import re

import pytest

from evalkit.rubrics.parsing import parse_reply, parser_for
from evalkit.rubrics.parsing.reply_cleanup import broke_off, is_cut, is_withheld
from evalkit.rubrics.scales import Scale

TEN = Scale.of(dict.fromkeys(range(1, 11), ""))
BROKEN = ["error", "ABORT", "network_error", "insufficient_system_resource", "time-limit", "cancelled"]
BROKEN += ["pause_turn", "a reason that nobody has heard of"]


@pytest.mark.parametrize("reason", [*BROKEN, "length", "max_tokens"])
def test_what_broke_off_is_scored_only_if_it_is_certainly_complete(reason: str) -> None:
    number, json = parser_for("number", TEN), parser_for("json", TEN)
    assert number("1", reason).error == number("Rating: 1", reason).error == "truncated"
    assert json('{"score": 1', reason).error == number("", reason).error == "truncated"
    assert json('{"explanation": "x", "score": 1}', reason).code == 1
    assert number("Rating: 1\nRationale: it is", reason).code == 1


@pytest.mark.parametrize("sentence", ["8 is fair.", "I give it an 8.", "It earns an 8."])
def test_a_sentence_of_a_later_line_is_not_certain(sentence: str) -> None:
    number = parser_for("number", TEN)
    assert number(f"{sentence}\nThe other", "length").code == 8
    for first in ("It is brief", "It is brief.", "Is it brief?", "It is brief.\n", "It is brief,"):
        assert number(f"{first}\n{sentence}\nThe other", "length").error == "truncated", first
        assert number(f"{first}\n{sentence}").code == 8
    assert number(f"It is brief. {sentence}\nThe other", "length").code == 8
    # the sentence before it keeps its full stop
    assert number(f"It is brief.\n{sentence}").explanation.startswith("It is brief.")


def test_a_limit_a_break_and_a_refusal_are_told_apart() -> None:
    assert all(map(broke_off, BROKEN))
    assert is_cut("length")
    assert not broke_off("length")
    for reason in (None, "", "stop", "END_TURN", "eos", "tool_calls", "COMPLETE", "unknown"):
        assert not is_cut(reason)
        assert parse_reply("7", "number", TEN).code == parser_for("number", TEN)("7", reason).code == 7
    for reason in (
        "content-filter",
        "sensitive",
        "content_filter: RECITATION",
        "blacklist",
        "ERROR_TOXIC",
        "MODEL_ARMOR",
    ):
        assert is_withheld(reason)
        assert not is_cut(reason)
        assert parser_for("json", TEN)('{"score": 1}', reason).error == "refused"


MARKS = [("<think>", "</think>"), ("<seed:think>", "</seed:think>"), ("◁think▷", "◁/think▷"), ("[THINK]", "[/THINK]")]
MARKS += [("<|begin_of_thought|>", "<|end_of_thought|><|begin_of_solution|>"), ("<scratchpad>", "</scratchpad>")]
MARKS += [("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"), ("<|inner_prefix|>", "<|inner_suffix|>")]
MARKS += [("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>")]
MARKS += [("<|channel|>analysis<|message|>", "<|start|>assistant<|channel|>final <|constrain|>JSON<|message|>")]
MARKS += [("<reason>", "</reason>"), ("<mm:think>", "</mm:think>"), ("<inner_thoughts>", "</inner_thoughts>")]
MARKS += [("<|thinking|>", "<|/thinking|>"), ("<analysis>", "</analysis>"), ("<ant_thinking>", "</ant_thinking>")]
MARKS += [
    ("<think:opensource>", "</think:opensource>"),
    ("<|reasoning_start|>", "<|reasoning_end|>"),
    ("<cot>", "</cot>"),
]
MARKS += [("Thinking...\n", "\n...done thinking.\n\n"), ("Here is my thought process: ", "\n\nHere is my response: ")]
MARKS += [("<|assistant|>\n<think>", "</think>\n\n"), ("<scratch_pad>", "</scratch_pad>")]
MARKS += [("analysis", "assistantfinal"), ("<|channel>thought\n", "<channel|>"), ("<unused94>thought\n", "<unused95>")]


@pytest.mark.parametrize(("opened", "closed"), MARKS)
def test_a_draft_in_marks_of_thinking_is_no_verdict(opened: str, closed: str) -> None:
    for form, draft, own in (("number", "Rating: 3", "Rating: 8"), ("json", '{"score": 3}', '{"score": 8}')):
        parse = parser_for(form, TEN)
        assert parse(f"{opened}I lean to {draft}.{closed}{own}").code == 8
        assert parse(f"{opened}I lean to {draft}.{closed}{own}<|return|>").code == 8
        for finish in ("length", *["stop"] * (opened[-2:] != ": ")):
            assert parse(f"{opened}I lean to {draft}", finish).code is None


def test_words_that_open_a_models_thoughts_may_open_an_explanation() -> None:
    for said in ("Here is my thought process:\nIt is right.\n", "Thinking... it is right.\n"):
        assert parse_reply(f"{said}Rating: 8", "number", TEN).code == 8


def test_a_users_pattern_may_name_a_mark_that_is_left_out_otherwise() -> None:
    for opens, closes in (("<|", "|>"), ("<|answer|>", "<|/answer|>"), ("[INST]", ""), ("<s>", "</s>")):
        form = f"regex:{re.escape(opens)}([0-9]){re.escape(closes)}"
        for text in (f"{opens}8{closes}", f"I think so.\n{opens}8{closes}", f"{opens}8{closes}<|eot|>"):
            assert parse_reply(text, form, TEN).code == 8, (form, text)
    for form in ("regex:([0-9])\\Z", re.compile("([0-9])$"), {"8$": 8}):
        assert parser_for(form, TEN)("8<|eot|>").code == 8


FIRST = [
    "<|assistant|>\n", "<|im_start|>assistant\n", "<s> ", "<bos>", "[/INST] ", "<start_of_turn>model\n",
    "<｜Assistant｜>",
]  # fmt: skip
FIRST += ["<|start_header_id|>assistant<|end_header_id|>\n\n", "<|start_of_role|>assistant<|end_of_role|>"]
LAST = [
    "<|im_end|>", "</s>", "<|eot|>", "<|endofassistant|>", "<end_of_turn>\n<eos>", "<|user|>", "<｜end▁of▁sentence｜>",
]  # fmt: skip
LAST += ["<pad><pad>", "<seed:eos>", "<turn|>", "<|role_end|>", "[INST]", "[e~[", "<|endoftext|>\n<|im_start|>"]


def test_a_models_own_marks_at_both_ends_of_a_reply_do_not_count() -> None:
    for form, own in (("number", "8"), ("json", '{"explanation": "so", "score": 8}'), ("tagged", "So. [RESULT] 8")):
        parse = parser_for(form, TEN)
        for mark in FIRST:
            assert parse(mark + own).code == 8, (mark, form)
        for mark in LAST:
            assert parse(f"{own}{mark}").code == parse(f"{own}\n{mark}\n").code == 8, (mark, form)
    # a mark of thinking ends no reply, and what is struck out is not the model's mark
    assert parse_reply("Perhaps 3.<|END_THINKING|>", "number", TEN).code is None
    assert parse_reply("<s>4</s> 3", "number", TEN).code in (None, 3)
    for name in ("answer", "response", "Output", "conclusion"):
        assert parse_reply(f"<think>4?</think>\n<{name}>\n8\n</{name}>\n", "number", TEN).code == 8


# controls, and what Unicode says is not to be shown, but for joiners
UNSEEN = [range(0x20), range(0x7F, 0xA0), range(0x180B, 0x1810), range(0x200E, 0x2010), range(0x202A, 0x202F)]
UNSEEN += [range(0x2060, 0x2070), range(0xFE00, 0xFE10), range(0xFFF0, 0xFFFC), range(0xE0000, 0xE0200)]
UNSEEN += [[0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x200B, 0x3164, 0xFEFF, 0xFFA0]]


def test_characters_without_width_do_not_count() -> None:
    for text in ("Rating:\u200b8", "Rating: \ufeff8", "8\u200b", "\u200e8\u200f", "Rat\u00ading: 8", "8\ufe0f\u20e3"):
        assert parse_reply(text, "number", TEN).code == 8, ascii(text)
    for mark in (chr(at) for span in UNSEEN for at in span if not chr(at).isspace()):
        for form, text in (("number", f"Rating:{mark} {mark}8{mark}"), ("json", f'{{"score": "8{mark}"}}')):
            assert parse_reply(text, form, TEN).code == 8, ascii(text)
        assert parse_reply(json.dumps({"explanation": "so", "score": f"{mark}8"}), "json", TEN).code == 8, ascii(mark)
    assert parse_reply("\x1b[1mRating:\x1b[0m \x1b[38;5;2m8\x1b[0m", "number", TEN).code == 8
    assert parse_reply("Rating: 1\u200b0", "number", TEN).code == 10
    assert parse_reply('{"score": "\u20608"}', "json", TEN).code == 8
    # within a word a joiner belongs to its spelling
    persian = "می\u200cخواهم"
    assert parse_reply(f"Rating: 8\n{persian}", "number", TEN).explanation == persian


PAIR = Scale.of({"A": "", "B": "", "tie": ""}, level="nominal")
FIVE_WAYS = Scale.of(dict.fromkeys(["A>>B", "A>B", "A=B", "B>A", "B>>A"], ""), level="nominal")


@pytest.mark.parametrize(
    ("verdict", "code"), [("A>>B", "A"), ("A>B", "A"), ("A=B", "tie"), ("B>A", "B"), ("B>>A", "B"), ("A<B", "B")]
)
def test_comparisons_in_double_brackets(verdict: str, code: str) -> None:
    text = f"Both answers name the river.\n\nMy final verdict is: [[{verdict}]]"
    for form in (r"regex:\[\[([AB<>=]+)\]\]", r"regex:\[\[(.+?)\]\]", "label"):
        assert parse_reply(text, form, PAIR).code == code
        if verdict in FIVE_WAYS.codes:
            assert parse_reply(text, form, FIVE_WAYS).code == verdict
