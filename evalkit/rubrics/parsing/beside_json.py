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
from evalkit.rubrics.parsing.mask_quotations import FILL, masked
from evalkit.rubrics.parsing.quotation_marks import CLOSING
from evalkit.rubrics.parsing.tagged_answers import read_tagged
from evalkit.rubrics.parsing.values_on_scale import Parsed, Reader, folded
from evalkit.rubrics.parsing.verdict_words import REPORTS
from evalkit.rubrics.scales import Code, Scale

_NEAR, _MOST_BLOCKS, _MOST_PARTS, _MARKUP, _ENDS = 400, 64, 16, " \t\r\n[(*_`#", ".!?…;)]}>" + CLOSING
_FENCE_BEFORE = re.compile(r"[`~]{3,}[ \t]{0,4}[\w.+-]{0,20}\Z")
_TAG_BEFORE = re.compile(r"<([\w:|=-]{1,40})[^<>]{0,80}>\Z")
_CLOSING_TAG = re.compile(r"\A\s*</[\w:|=-]{1,40}>")
_ITEM_BEFORE = re.compile(r"(?:\A|\n)[ \t]*(?:\d{1,3}[.)]|[-+•])\Z|[ \t]>\Z")
_OWN_TAG = re.compile(r"answer|respon|reply", re.IGNORECASE)
_SENTENCE = re.compile(r"\n|[.!?…][\"”’')*_`]{0,4}\s")
_NOT_MEANT = re.compile(
    r"\b(?:if|unless|could|might|exampl\w*|e\.g|instance|schema|template|format (?:is|would|should|must)|ignor\w*"
    r"|hidden|(?:inject|steer|attempt|trick|plant|embed|includ|insert|demand|insist|suggest|previous|initial|human)\w*|earlier"
    r"|instead|expect\w*(?! form)|want(?:s|ed)?|reference|gold|draft|another|ideal|perfect|never|(?:last|first)\sline"
    r"|(?:not|n['’]t|cannot)\s(?:\w{1,20}\s){0,2}(?:output|return|reply|give|write|say|use|accept|follow|be))\b",
    re.IGNORECASE,
)
_ANNOUNCES = re.compile(
    r"\b(?:it|this|that)\s(?:is|gets|receives|deserves)\W*\Z|\b(?:(?:the|json)\s(?:result|output|object)|final|so|thus"
    r"|hence|therefore)\W*\Z|\A\W*(?:so,?\s)?(?:(?:here(?:['’]s| is| are)|below is|this is)\s)?(?:my\s"
    r"(?:\w{1,15}\s){0,2}(?:json|decision|verdict|score|rating|grade|judge?ment|evaluation|assessment)"
    r"|(?<=\s)the\s(?:evaluation|assessment)\s(?:of|for|on|in)\b)",
    re.IGNORECASE,
)
# words without a colon that lead up to what stands on the next lines
_LEADS_UP = re.compile(
    r"(?:\A(?:\w+\W+){0,2}(?:candidate|student|user|author|submission|answer|respon[sd]\w*|reply|output|input|reference|text)"
    rf"|(?:(?<!what\s)\b(?:it|he|she|they|user|answer|candidate|student|response|reply|text|кандидат)\s(?:\w{{1,12}}ly\s)?(?:has|goes"
    rf"|provided|{REPORTS})|\b(?:wrote|written|ended|closes|gave|to\s(?:output|return|give|write|say)|i\s(?:saw|found)|with)"
    r"|(?:hidden|planted|injected)\s\w+)"
    r"(?:\s(?:this|it|a|an|the|following|line|json|object|text|block|with|by|in|on|for|as|below|answer)){0,4}"
    r"|\b(?:is|are|was|were|(?:w|sh)ould be|of|by|as|following|follows|below|thus|example|instance|format|schema"
    r"|draft))\W*\Z|\A\W*(?:if|unless)\b[^,]*\Z",
    re.IGNORECASE,
)
_ROLE = re.compile(r"\W*(?:assistant|(?:final\s)?(?:response|reply|answer))\W*", re.IGNORECASE)
_GOES_ON = re.compile(
    r"[`*_)\],]{0,4}(?:[ \t]{1,4}|[ \t]{0,4}\r?\n(?:[`~]{3,}[ \t]{0,4}\r?\n)?)(?:[-–—]\s)?"
    r"(?!(?:because|since|as|so|for|but)\b|and\s+\{|[\w ]{1,24}:)[a-zа-яё]"
)
_DECLINES = re.compile(
    r"(?:(?<!says\s)(?<!said\s)(?<!says\sthat\s)(?<!said\sthat\s)\b(?:(?:i|we|judge)(?:['’]m|['’]re|\sam|\sare)?|я)\s(?:\w{1,12}\s)?"
    r"|(?P<begins>(?:\A|[.!?\n]\s?)[\W_]{0,4}))"
    r"(?:can(?:not|['’]t|\snot)|could(?:\snot|n['’]t)|unable\sto|not\sable\sto|wo(?:n['’]t|uld\snot)|refuse\sto|не\sмогу)\s"
    r"(?:\w{1,12}ly\s)?(?:evaluate|judge|assess|rate|score|grade|оцен\w+|судить|(?(begins)(?!)|(?:help|assist|comply|помочь)))\b"
    r"(?![^.!?\n]*\b(?:than|above|below|higher|lower|as)\b)",
    re.IGNORECASE,
)
_ALONE = re.compile(
    rf"^[ \t]*(?:[`~]{{3,}}[^\n`~]{{0,80}}\n[ \t]*)?{FILL}[ \t,;.]*+(?:\r?\n[ \t]*[`~]{{3,}})?[ \t\r]*+$", re.MULTILINE
)
BETWEEN = re.compile(r"[\s,;\[]*(?:and\s+)?")
"""What stands between the objects of one list or line, which is given as a whole."""


def is_own(text: str, start: int, end: int) -> bool:
    """Whether a judge gives an object itself: alone on its lines or announced, and not as another's words."""
    near = max(0, start - _NEAR)
    lead = _FENCE_BEFORE.sub("", text[near:start].rstrip()).rstrip(_MARKUP)
    tag = _TAG_BEFORE.search(lead)
    if tag and (
        like.EXPLAINED.match(tag[1]) or (like.QUOTED_KEY.search(tag[1].lower()) and not _OWN_TAG.match(tag[1]))
    ):
        return False
    lead = _ITEM_BEFORE.sub("", lead[: tag.start()] if tag else lead).rstrip(_MARKUP)
    says = like.ABOUT_THEM.sub("my", _SENTENCE.split(lead)[-1].strip(_MARKUP + "-–—•·|>"))
    leads_in = re.search(r"\w", says) is not None and lead[-1:] not in _ENDS
    is_mine = leads_in and bool(_ANNOUNCES.search(says) or _ROLE.fullmatch(text, 0, start))
    is_apart = re.match(r"[ \t\r*_#]*\n", text[near + len(lead) : start]) and says[-1:] not in tuple(":：")
    if leads_in and not is_mine and (not is_apart or _LEADS_UP.search(says)):
        would = like.WOULD.search(says) and not like.WHO.search(says)
        if would or any(words.search(says) for words in (like.THEIR_WORDS, _NOT_MEANT)) or like.EXPLAINED.match(says):
            return False
        is_mine = like.MY_WORDS.search(says) is not None
        if is_apart and not is_mine and not says.lower().startswith("here"):
            return False
    after = _CLOSING_TAG.sub("", text[end : end + _NEAR])
    behind = after.lstrip(_MARKUP + ".,)")
    sentence = _SENTENCE.split(behind)[0]
    theirs = like.THEIR_WORDS.search(sentence)
    if _GOES_ON.match(after) or (leads_in and not is_mine and says[-1] not in ":：" and behind[:1].islower()):
        return is_mine and not theirs
    if (theirs or sentence.startswith("from ")) and (
        like.POINTS_BACK.match(behind) or sentence.rstrip(".").endswith((" that", " this", " above"))
    ):
        return False
    return is_mine or not leads_in or says[-1] in ":：" or "\n" in text[near + len(lead) : start]


def blocks(text: str, shown: str) -> Iterator[tuple[int, int]]:
    """The objects in code blocks that are masked in `shown` although no words of another's introduce them."""
    fences = [fence.span("marks") for fence in like.FENCE.finditer(text)][:_MOST_BLOCKS] if FILL in shown else []
    for (at, opened), (closed, _) in pairwise(fences):
        start, end = text.find("\n", opened, closed) + 1, len(text[:closed].rstrip())
        before = len(shown[:at].rstrip())  # a block within another quotation does not count
        is_outside = shown[before - 1 : before] != FILL or text[before - 1] in "`~"
        if text[start:end].lstrip()[:1] == "{" and shown[end - 1] == FILL and is_outside and is_own(text, at, closed):
            yield text.index("{", start), end


def around(text: str, objects: Sequence[tuple[int, int]]) -> list[str]:
    """The text outside of objects, divided at those that are alone on their lines."""
    pieces, position = list[str](), 0
    for start, end in sorted(objects):
        pieces += text[position:start], FILL
        position = max(position, end)
    passages = _ALONE.split("".join([*pieces, text[position:]]))
    passages = [passage for passage in passages if passage.strip(_MARKUP + FILL)]
    return passages if len(passages) <= _MOST_PARTS else ["\n".join(passages)]


def declines(text: str) -> bool:
    """Whether a judge says that it gives no verdict, not whether an answer said so."""
    return _DECLINES.search(text) is not None


def contradicts(passage: str, reader: Reader, name: str, code: Code) -> bool:
    """Whether a text around an object gives another verdict, or declines to give one."""
    passage = passage.strip()
    if like.QUALITY.match(passage) and not re.match(r"\W*(?:overall|final)", passage, re.IGNORECASE):
        passage = f"{FILL}\n{passage}"  # in the first line "Relevance: 5" would be a verdict
    # with a line below it, another labelled last line, such as a count, is no verdict
    readings = [read_lines(f"{passage}\n{FILL}", reader, False, name), read_tagged(passage, reader, False)]
    last = reader.whole(masked(passage).rpartition("\n")[2])
    readings += [Parsed(last.code, FILL, last.error)] if last is not None else []
    # a list of levels, which is no verdict, is ambiguous without an explanation
    errors = {reading.error for reading in readings if reading.explanation or reading.error != "ambiguous"}
    if not errors.isdisjoint({"ambiguous", "off_scale"} if reader.is_number else {"ambiguous"}):
        return True
    if declines(passage) or any(reading.code not in (None, code) for reading in readings):
        return True
    return opposes(passage, reader, code, name)


def opposes(passage: str, reader: Reader, code: Code, name: str = "") -> bool:
    """Whether a text says yes or no, pass or fail, against a code that stands for the other."""
    word = folded(str(code))
    names = next((names for names in (("no", "yes"), ("fail", "pass"), ("failed", "passed")) if word in names), None)
    if not names and not (reader.binary and reader.scale.level == "ordinal"):
        return False
    means = bool(code) if names is None else word == names[1]
    # "pass" means 1 only where 1 passes
    poles = _poles() if names or reader.scale.passed(1) else _poles()[:1]
    told = {read_lines(f"{passage}\n{FILL}", pole, False, name).code for pole in poles}
    return not told.isdisjoint({"no", "fail"} if means else {"yes", "pass"})


@lru_cache(maxsize=1)
def _poles() -> tuple[Reader, ...]:
    """Readers of the words that judges use for 1 and 0."""
    words = ({"yes": "met", "no": "not met"}, {"pass": "passed", "fail": "failed"})
    return tuple(Reader(Scale.of(texts, level="nominal")) for texts in words)
