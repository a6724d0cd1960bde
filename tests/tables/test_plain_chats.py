"""Plain chats keep question, answer, conversation, prompts and reply keys, byte for byte."""

from __future__ import annotations

import json

import golden_cells
import pytest
from golden_chats import CHATS, FILE, shown


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.* an empty:evalkit.errors.EvalkitWarning")  # an empty answer is judged
@pytest.mark.filterwarnings("ignore:the input 'conversation' holds lists:evalkit.errors.EvalkitWarning")
def test_prompts_and_keys_of_plain_chats_are_those_of_the_first_day():
    stored, now = json.loads(FILE.read_text(encoding="utf-8")), shown()
    assert list(now) == list(stored) == list(CHATS)
    for name, row in stored.items():
        assert now[name] == row, name


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::evalkit.errors.EvalkitWarning")  # empty answers, lists in texts
def test_prompts_and_keys_of_the_stated_form_are_those_of_the_first_day():
    stored, now = json.loads(golden_cells.FILE.read_text(encoding="utf-8")), golden_cells.shown()
    assert [at for at, row in enumerate(now) if row != stored[at]] == []
    assert len(now) == len(stored) == 200
