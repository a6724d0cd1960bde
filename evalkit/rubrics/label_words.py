"""Words by which people say pass, fail and unsure: one mapping for the start card and for tables of labels."""

from __future__ import annotations

import re

_GOOD = "yes y true t pass passed ok okay okey correct accept accepted approve approved valid да верно ✓ ✔ ✅ 👍"
_BAD = "no n false f fail failed nok incorrect wrong reject rejected invalid нет неверно ✗ ✘ ❌ 👎"
_BAD_PHRASES = "not ok, not okay, not correct, not accepted, not approved, not valid, не верно"
_UNSURE = "unsure unclear undecided unknown uncertain skip skipped ignore ignored idk dunno none na ? ??"
_UNSURE_PHRASES = "not sure, do not know, don't know, dont know, can't tell, cannot tell, n/a, не знаю, ???"
VERDICT_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(_GOOD.split(), True),
    **dict.fromkeys([*_BAD.split(), *_BAD_PHRASES.split(", ")], False),
    **dict.fromkeys([*_UNSURE.split(), *_UNSURE_PHRASES.split(", ")], None),
}
"""Word -> True (pass), False (fail) or None (the person did not decide); in lower case, with single spaces."""


def verdict_word(value: object) -> str | None:
    """``true`` or ``false``, or an empty text where the person did not decide; None for any other value.

    Case, ``_`` and ``-`` for a space, and a full stop at the end do not matter.

    Examples
    --------
    >>> [verdict_word(word) for word in ("OK", "Not_OK", "unsure", "?", "good", True)]
    ['true', 'false', '', '', None, 'true']
    """
    text = re.sub(r"[\s_-]+", " ", str(value).replace("\N{VARIATION SELECTOR-16}", "")).strip(" .!").casefold()
    word = text.replace("’", "'")
    return {True: "true", False: "false", None: ""}[VERDICT_WORDS[word]] if word in VERDICT_WORDS else None
