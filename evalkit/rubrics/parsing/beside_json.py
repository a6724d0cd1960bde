"""The text around the JSON objects of a reply: whose an object is, and whether words beside it give another verdict.

`docs/adr/0004-parsing.md` states both rules; replies on one criterion and on several share them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from evalkit.rubrics.parsing import verdict_patterns as like
from evalkit.rubrics.parsing.answer_lines import read_lines
from evalkit.rubrics.parsing.mask_quotations import FILL
from evalkit.rubrics.parsing.tagged_answers import read_tagged
from evalkit.rubrics.parsing.values_on_scale import Parsed, Reader
from evalkit.rubrics.scales import Code, Scale

_NEAR, _MOST_BLOCKS = 400, 64
_MARKUP = " \t\r\n[(*_`#"
_ENDS = ".!?…;)]}>»\"'”’"
_FENCE_BEFORE = re.compile(r"[`~]{3,}[ \t]{0,4}[\w.+-]{0,20}\Z")
_TAG_BEFORE = re.compile(r"<(?P<name>[\w:|=-]{1,40})[^<>]{0,80}>\Z")
_ITEM_BEFORE = re.compile(r"(?:\A|\n)[ \t]*(?:\d{1,3}[.)]|[-+•])\Z")
_SENTENCE = re.compile(r"\n|[.!?…][\"”’')*_`]{0,4}\s")
_QUOTING_TAG = re.compile(
    r"exampl|sampl|format|schema|templat|instruct|prompt|input|question|context|refer|source|origin|expect|docum|quot"
    r"|expla|reason|critiq|previous|draft|user|human",
    re.IGNORECASE,
)
_NOT_MEANT = re.compile(
    r"\b(?:if|unless|could|might|exampl\w*|e\.g|instance|schema|template|format (?:is|would|should|must)|ignor\w*|inject\w*"
    r"|attempt\w*|trick\w*|plant\w*|embed\w*|includ\w*|insert\w*|hidden|instead|demand\w*|wants?|wanted|insist\w*"
    r"|suggest\w*|expect\w*(?! form)|reference|gold|human\w*|previous\w*|earlier|draft|initial\w*|another|ideal|perfect"
    r"|(?:not|never|n['’]t|cannot)\s(?:\w{1,20}\s){0,2}(?:output|return|reply|give|write|say|use|accept|follow|be)"
    r"|never)\b",
    re.IGNORECASE,
)
_MY_OWN = re.compile(
    r"\W*(?:(?:so|thus|hence|therefore|overall|finally|sure|okay|ok),?\s)?(?:(?:here(?:['’]s| is| are)|below is|this is)\s)?"
    r"(?:my\s(?:\w{1,15}\s){0,2}(?:evaluation|assessment|judge?ments?|verdicts?|scores?|ratings?|grades?|decision|json)"
    r"|(?<=\s)(?:the|an?)\s(?:\w{1,15}\s)?(?:evaluation|assessment)\s(?:of|for|on|in)\b)",
    re.IGNORECASE,
)
_ANNOUNCES = re.compile(
    r"\b(?:it|this|that)\s(?:is|gets|receives|deserves)\W*\Z|\b(?:(?:the|json)\s(?:result|output|object)|final|so|thus|hence|therefore)\W*\Z"
    r"|\A\W*(?:assistant|(?:final\s)?(?:response|reply|answer))\W*\Z",
    re.IGNORECASE,
)
_GOES_ON = re.compile(
    r"[`*_)\],]{0,4}(?:[ \t]{1,4}|[ \t]{0,4}\r?\n(?:[`~]{3,}[ \t]{0,4}\r?\n)?)(?:[-–—]\s)?"
    r"(?!(?:because|since|as|so|for|but)\b|and\s+\{|[\w ]{1,24}:)[a-zа-яё]"
)
BETWEEN = re.compile(r"[\s,;\[]*(?:and\s+)?")
"""What stands between the objects of one list or line, which is given as a whole."""
_ALONE = re.compile(
    rf"^[ \t]*(?:[`~]{{3,}}[^\n`~]{{0,80}}\n[ \t]*)?{FILL}[ \t,;.]*(?:\r?\n[ \t]*[`~]{{3,}})?[ \t\r]*$", re.MULTILINE
)
_DECLINES = re.compile(
    r"(?:can(?:not|['’]t|\snot)|could(?:\snot|n['’]t)|unable\sto|not\sable\sto|won['’]t|will\snot|refuse\sto|failed\sto|не\sмогу)\s"
    r"(?:\w{1,12}ly\s)?(?:evaluate|judge|assess|rate|score|grade|help|assist|comply|оцен\w+|помочь|судить)\b"
    r"(?![^.!?\n]*\b(?:than|above|below|higher|lower|as)\b)",
    re.IGNORECASE,
)


def declines(text: str) -> bool:
    """Whether a text says that it gives no verdict."""
    return _DECLINES.search(text) is not None


def is_own(text: str, start: int, end: int) -> bool:
    """Whether a judge gives an object itself: alone on its lines or announced, and not as another's words."""
    lead = _FENCE_BEFORE.sub("", text[max(0, start - _NEAR) : start].rstrip()).rstrip(_MARKUP)
    tag = _TAG_BEFORE.search(lead)
    if tag is not None:
        if _QUOTING_TAG.search(tag["name"]):
            return False
        lead = lead[: tag.start()].rstrip(_MARKUP)
    lead = _ITEM_BEFORE.sub("", lead).rstrip(_MARKUP)
    after, says = text[end : end + _NEAR], _SENTENCE.split(lead)[-1].strip(_MARKUP + "-–—•·|>")
    leads_in = re.search(r"\w", says) is not None and says[-1] not in _ENDS
    on_line = leads_in and "\n" not in text[max(0, start - _NEAR) + len(lead) : start]
    plain, is_announced = like.ABOUT_THEM.sub("my", says), False
    if leads_in and _ANNOUNCES.search(lead if lead == says else says) is None and _MY_OWN.match(says) is None:
        if like.THEIR_WORDS.search(plain) or _NOT_MEANT.search(plain) or like.EXPLAINED.match(plain):
            return False
        if like.WOULD.search(plain) and not like.WHO.search(plain):
            return False
        is_announced = like.MY_WORDS.search(plain) is not None
    elif leads_in:
        is_announced = True
    says_on = _SENTENCE.split(after.lstrip(_MARKUP + ".,)"))[0]
    if _GOES_ON.match(after) or (leads_in and not is_announced and says[-1] not in ":：" and says_on[:1].islower()):
        return is_announced and not like.THEIR_WORDS.search(says_on)
    if like.POINTS_BACK.match(after.lstrip(_MARKUP + ".,)")) and like.THEIR_WORDS.search(says_on):
        return False
    return not on_line or is_announced or says[-1] in ":："


def blocks(text: str, shown: str) -> Iterator[tuple[int, int]]:
    """The objects in code blocks that are masked in `shown` although no words of another's introduce them."""
    fences = [fence.span("marks") for fence in like.FENCE.finditer(text)][:_MOST_BLOCKS] if FILL in shown else []
    for (_, opened), (closed, _) in pairwise(fences):
        start, end = text.find("{", opened, closed), text.rfind("}", opened, closed) + 1
        if opened < start < end and shown[start] == FILL and is_own(text, start, end):
            yield start, end


def around(text: str, objects: Sequence[tuple[int, int]]) -> list[str]:
    """The text outside of objects, divided at those that are alone on their lines."""
    pieces, at = [], 0
    for start, end in sorted(objects):
        pieces += text[at:start], FILL
        at = max(at, end)
    return [part for part in _ALONE.split("".join([*pieces, text[at:]])) if part.strip(_MARKUP + FILL)]


def contradicts(parts: Sequence[str], reader: Reader, name: str, code: Code) -> bool:
    """Whether the text around an object gives another verdict, declines to give one, or corrects it behind it."""
    return any(declines(part) or _says_other(part.strip(), reader, name, code) for part in parts)


def _says_other(part: str, reader: Reader, name: str, code: Code) -> bool:
    # with a line below it, another labelled last line, such as a count, is no verdict
    found = [read_lines(f"{part}\n{FILL}", reader, False, name), read_tagged(part, reader, False)]
    last = reader.whole(part[part.rfind("\n") + 1 :])
    found += [Parsed(last.code, FILL, last.error)] if last is not None else []
    if any(one.code not in (None, code) or (one.error == "ambiguous" and one.explanation) for one in found):
        return True
    if reader.is_number and any(one.error == "off_scale" for one in found):
        return True
    if not reader.binary or reader.scale.level != "ordinal":
        return False
    said = [read_lines(f"{part}\n{FILL}", pole, False, name).code for pole in _poles()]
    return any(word in (("no", "fail") if code else ("yes", "pass")) for word in said)


@lru_cache(maxsize=1)
def _poles() -> tuple[Reader, ...]:
    """Readers of the words that judges use for 1 and 0."""
    words = ({"yes": "met", "no": "not met"}, {"pass": "passed", "fail": "failed"})
    return tuple(Reader(Scale.of(texts, level="nominal")) for texts in words)
