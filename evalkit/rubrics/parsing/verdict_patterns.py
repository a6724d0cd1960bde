"""What a verdict, what stands beside one, and a quotation look like: the tables as patterns, all of linear time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, cast

from evalkit.rubrics.parsing import verdict_words as word_lists
from evalkit.rubrics.parsing.quotation_marks import CLOSING, MARKS, OPENING


def one_of(words: Iterable[str]) -> str:
    """A pattern for one of these words or patterns, whole."""
    return rf"(?:{'|'.join(words)})\b"


class _Later:
    """A pattern that is compiled when it is first used: few replies need any of them, and all take .1 s."""

    def __init__(self, source: str, flags: re.RegexFlag) -> None:
        self._source = source, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # what a copy or a pickle looks for
            raise AttributeError(name)
        value = getattr(re.compile(*self._source), name)
        setattr(self, name, value)
        return value


def _later(source: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    return cast("re.Pattern[str]", _Later(source, flags))


def _any_case(pattern: str) -> re.Pattern[str]:
    return _later(pattern, re.IGNORECASE)


WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


# "<" only around the answer: "<3" is a bound
OPEN = rf"(?:\$?\\(?:(?:boxed|text|math\w\w|textbf)\{{|[(\[])|\$\$|<(?=[^<>\s]{{1,60}}>)|[\s*_`(\[{{{OPENING}]){{0,12}}"
CLOSE = rf"[*_`)\]}}{CLOSING}]{{0,12}}(?:\${{0,2}}|\s?\\[)\]])"
DIGITS = r"(?:\d+(?:[.,]\d+)?|[.,]\d+)"
NUMBER = rf"[+\-−]?{DIGITS}"
NUMBER_WORD = _any_case(rf"(?<!\w){one_of(WORDS)}")
BARE_NUMBER = _later(r"\d+(?:[.,]\d+)?(?!(?![分点點점])\w)")
# another maximum than the scale's, wherever a reply states it without a number that it belongs to
STATED_MAXIMUM = _any_case(
    rf"\bscale\b(?:\s(?:of|from|is|was|used|runs|goes))?\W{{0,3}}(?:from\s)?{DIGITS}\s?(?:-|–|—|to|до)\s?(?P<scale>{DIGITS})"
    rf"|(?<![\w.,-]){DIGITS}\s?(?:-|–|—|to)\s?(?P<before>{DIGITS})\s(?:\w{{1,20}}\s)?scale\b"
    rf"|(?<![\w.,-])(?P<points>{DIGITS})-point\s(?:\w{{1,20}}\s)?scale\b"
    rf"|(?:\A|[\n.!?(;,]\s{{0,3}}|\b(?:given|scored?|rated?|marked|graded|rating|grade|mark)\s)out\sof\s?[:=]?\s?(?P<out>{DIGITS})"
    rf"|(?:\A|[\n.!?(;,]\s{{0,3}})(?:the\s)?max(?:imum|\.)?(?:[\s_](?:possible\s)?(?:score|rating|grade|points?|mark))?\s?(?:[:=]|is)\s?(?P<most>{DIGITS})"
    rf"|</\w{{1,30}}>\s?/\s?(?P<over>{DIGITS})"
    rf"|[满滿]分[为是：:]?\s?(?P<full>{DIGITS})|(?P<of>{DIGITS})\s?(?:分制|点満点|점\s?만점)|(?P<percent>百)分制"
)
SPLIT_NUMBER, WIDE_STOP = _later(r"[.,]\s\d+\W*(?:\n|\Z)"), _later(r"[。！]+")
CUT_IN_TWO = _later(r"\w|[.,:]\d|[  ']\d")
UNIT = _any_case(rf"\s{{0,3}}-?{word_lists.UNITS}{CLOSE}")
# "4/5", "4 (out of 5)", "4 (strong match)/5", "4 on a scale of 1 to 5", "4 (1-5)"
MOST = _any_case(
    rf"(?:\s{{0,3}}\((?P<gloss>[^()\n]{{1,60}})\))?(?P<open>\s{{0,3}}[(\[])?\s{{0,3}}"
    rf"(?:(?:/|out\s+of\s|满分|(?:of|von|sur|de|su|av|из)\s|max(?:imum)?\.?(?:\sof)?\s|on\s(?:a|the)\sscale\s(?:of|to)\s)\s{{0,3}}{OPEN}"
    rf"(?P<most>{DIGITS}|{one_of(WORDS)})"
    rf"|(?:(?:on\s)?(?:a\s|the\s)?scale\s(?:of\s|from\s)|(?:по\s)?шкале\s(?:от\s)?|on\s(?:a|the)\s|(?(open)|(?!)))"
    rf"{DIGITS}\s?(?:-|–|—|to|до)\s?(?P<top>{DIGITS})(?:\sscale)?|on\s(?:a|the)\s(?P<points>{DIGITS})-point\sscale)"
    rf"分?(?!\w|[.,]\d|\s?[-–]\s?\d|\s(?:to|до)\s\d){CLOSE}"
)
FOR = _any_case(
    r"\s(?:from\s(?:me|us)|overall|in total|(?:for|in terms of|on|за|по)\s(?:\w{1,20}\s){0,2}\w{1,20})"
    r"(?=[.;:!]|,(?!\s\d)|\s(?:because|since|as)\b|\s[-–—(]|\s?\n|\s{0,3}\Z)"
)
END = _later(r"[\s.!;:,。…]*\Z")
OWN = _later(r"[^\S\n]{0,3}(?:[-–—:=,;]{1,2}\s{0,3}|[(\[]\s{0,2})?")
_SET_OFF = r"\s{0,3}(?:[.,;:!?)\]|…/<*。，；！？、]|\Z|\n|[-–—](?=\s)|\b(?:because|since|потому|so)\b)"
SET_OFF, OF_CORRECTION = _later(_SET_OFF), _any_case(rf"(?:\s{{0,3}}{word_lists.UNITS}|\s(?:out\s)?of\s\d+)?{_SET_OFF}")
OR = _any_case(r"[^\S\n]{0,3}(?:[-–—/|,;&+]|(?:or|to|and|vs\.?|versus|или|до|и|либо)\b)\s{0,3}(?:an?\s)?")
SIGN = _later(r"\s{0,3}(?P<sign>=+|≈|≡|>+|<+)\s{0,3}")
OPERATOR = _any_case(
    r"\s{0,3}(?:[%‰+×÷=≤≥≈≡~^±√→⇒>]|-{1,2}>|<(?![/|!a-z])|[*x]\s?\d|[-−]\s?\d|(?:plus|minus|times|less|percent|per\scent|процент\w*|минус|плюс)\b)"
)
JOINT = _later(r"\s{0,3}[:,;](?!\d)|\s{1,3}[-–—]{1,2}(?=\s|\w)|[-–—]{1,2}(?=\s)|[–—](?=\w)|\s{0,3}(?P<bracket>[(\[])")
RUNS_ON = _later(r"\s{0,3}[(\[][^()\[\]\n]{0,80}[)\]]\s(?!(?:because|since|as|so|but|and|for|due)\b)[a-zа-яё]")
_YES = rf"{one_of(word_lists.YES_NO)}(?=\W*\Z|\s{{0,2}}[.,;:!)\]…]|\s[-–—]\s)"
_QUANTITY = rf"[+\-−<>=≈~]{{0,2}}\s?{DIGITS}"
_LEADS = rf"[\s*_`(\[{OPENING}]{{0,6}}"
_IN_PART = (
    r"(?:but|though|albeit)\s(?:only|just|not)\s(?:partly|partially|in\spart|somewhat|fully|entirely)"
    r"(?=\W*\Z|\s{0,2}[.,;:!)])"
)
ALTERED = _any_case(
    rf"{_LEADS}(?:{_IN_PART}|{_QUANTITY}|{_YES}|{one_of(word_lists.ALTERS)}|(?:{one_of(WORDS)}|{one_of(word_lists.DENIES)})\W*\Z)"
)
DENIED = _any_case(
    rf"{_LEADS}(?:{_IN_PART}|{_QUANTITY}|{_YES}|{one_of(word_lists.ALTERS)}|{one_of(word_lists.DENIES)})"
)
WEIGHED = _any_case(
    rf"{_LEADS}(?:(?:it|this|that|he|she|which|the\s\w{{1,20}}|он|она|оно|это)\s)?(?:(?:is|was|seems|looks|has)\s)?"
    rf"(?:(?:much|far|clearly|slightly|rather|a bit|so|very|гораздо|намного)\s)?(?:the\s)?"
    rf"{one_of(word_lists.WEIGHS)}(?!,?\s(?:than|чем))"
    r"|.{0,40}\b(?:worse|weaker|хуже|слабее),?\s(?:than|чем)"
)
_RIVAL = (
    rf"(?:(?:the\s)?(?:{word_lists.KINDS})\s)?[*_`(\[\"']{{0,3}}(?:\w{{1,2}}|the\sother(?:\sone)?)\b[*_`)\]\"']{{0,3}}"
)
_SURELY = rf"(?:{one_of(word_lists.SURELY)}\s){{0,3}}"
# "A is better than B.", "A over B", "4 is fair"
WINS = _any_case(
    rf"\s(?:(?:is|was|seems|appears)\s{_SURELY}(?:{one_of([word_lists.BETTER])}|(?P<fits>{one_of([word_lists.FITTING])}))"
    rf"(?:\s(?:one|{word_lists.KINDS}|score|rating|grade))?(?:\s(?:than|to)\s{_RIVAL})?(?:\s(?:overall|here))?"
    rf"|(?:wins|(?:outperforms|beats|over|rather\sthan|instead\sof)\s{_RIVAL}))(?=\s{{0,3}}(?:[.!*]|\Z|\n)|,?\s{{1,2}}{word_lists.BECAUSE}|(?(fits)\s{{1,3}}[-–—(]|(?!)))"
)
# what follows a level that wins or loses against a verdict: "A is better.", ", the worse one"
IS_BETTER = _any_case(
    rf"\W{{0,3}}\s(?:(?:is|was|seems|appears)\s{_SURELY}(?:{word_lists.BETTER})|{word_lists.BETTER_ABROAD})\b"
    r"(?=\s{0,3}(?:[.!,;)*]|\Z|\n)|\s(?:one|answer|response|than|because|since|as|overall|here|als|que|di|do|dan|чем)\b)"
    rf"|\W{{0,3}}\swins\b"
)
IS_WORSE = _any_case(
    rf"[\s.,;:!*)(—–-]{{1,8}}(?:(?:it|this|this\sone|which)\s(?:is|was)\s{_SURELY}|the\s)(?:worse|worst|weaker|weakest|inferior"
    rf"|poorer|loser)\b(?!\s(?:of\s\w+\s)?(?:flaw|point|part|error|aspect)s?)"
)
CONCEDES = _any_case(
    rf"(?<!\w)(?:if|unless|although|though|while|even|хотя|если|obwohl|aunque|bien\sque|sebbene|embora|not|n['’]t|nor|never|neither|{word_lists.SPEAKS}|might|may|could|some|users?|where|when|whether|than)\b[^.!?\n]*\Z"
)
# a sentence up to its level: "Therefore, …", "Thus, based on the above, …", "I think …", "The reply is …"
OPENS = _later(
    r"(?:\A|[.!?\n]\s{0,3}|,?\s(?:so|but|thus|hence|therefore|conclusion\sthat)\s)[*_`]{0,3}"
    r"(?:(?:so|but|thus|hence|therefore|overall|finally|ultimately|in\s(?:conclusion|summary|short|sum)|after\s[^,.\n]{1,40})"
    r"(?:,\s(?P<since>(?:based\son|considering)\s[^.!?;:()\n]{1,200}))?,?\s)?"
    r"(?:i\s(?:think|believe|find|feel|conclude)\s(?:that\s)?)?"
    rf"(?:(?P<is>(?:it|this|that|(?:the|this)\s(?:{word_lists.KINDS}|{word_lists.JUDGED}))\s(?:is|was)\s{_SURELY})|(?:the\s)?(?:{word_lists.KINDS})\s|an?\s)?[*_`(\[\"]{{0,4}}\Z"
)
# a sentence goes on behind a level, which is not given then
GOES_ON = _any_case(
    r"[^\S\n](?!(?:because|since|due|as|given|for|from|overall|in|on|out|of|points?|stars?|pts|or|to|and|vs|max\w*|"
    r"из|балл\w*|зв\w+|очк\w+|потому|так|поскольку|ибо|по|на|за|или|до|и)\b)[^\W\d_]"
)
BUT = _any_case(rf"{_LEADS}(?:but|though|although|yet|and|но|а|хотя)\s(?:an?\s(?=\d))?")
IS_NOT = _any_case(r"\W{0,4}(?:\w{1,20}\s){0,3}(?:is|does|was|did|do|are)(?:\snot|n['’]t)\W*\Z")
BE = _later(r"\s(?:is|was|has|wins)\b")
VALUED = _later(r"\s{0,3}[:=(]|\s[-–—]\s")
NEGATION = _any_case(r"\b(?:not|never|hardly|isn['’]?t|не)\s(?:\w{1,20}\s){0,3}\Z")
SAID_NO = _any_case(rf"[.…]{{0,3}}{_LEADS}(?:{_YES}|(?:not|never|hardly|не)\b(?:\s\w{{1,20}})?\W*\Z)")
_LABEL = rf"(?:{'|'.join(word_lists.VERDICT_WORDS)})[*_`\"]{{0,4}}(?:\s{{0,3}}[:：=]|\s(?:is|now|to))"
STOP = _any_case(
    rf"[.!。…]++(?!\w)|\s{{0,3}}\|\s|\s{{0,3}}\n|\s{{0,3}}<(?=[/|!]|[a-z][\w-]{{0,30}}[\s/>])|\s{{1,3}}(?={_LABEL})|,?\s{{1,2}}{word_lists.BECAUSE}"
)
RETRACTED = _any_case(
    rf"(?:(?:\A|[.!?;,:(\n—–。！？；，、-])\W{{0,4}}(?:{one_of(word_lists.RETRACTS)}(?:[^!?\n]{{0,50}}|\W{{0,4}})"
    rf"|{one_of(word_lists.CORRECTIONS)}\s?[:：][^!?\n]{{0,40}}|{word_lists.CORRECTS})"
    r"|\b(?:lower|rais|reduc|round|adjust|chang|revis|downgrad|upgrad|bump|drop|edit|updat|amend)\w{0,3}\b[^.!?\n]{0,40}\bto\s(?:an?\s)?"
    r"|\bre-?(?:evaluat|assess|examin|scor|grad)\w*[^\n]{0,60}"
    rf"|(?<!\w){_LABEL}[ \t*_`]{{0,4}}(?:an?\s)?)\Z"
)
COMPARED = _any_case(
    r"(?<!\w)(?!(?:(?<=edge )|(?<=advantage )|(?<=\bnod ))(?:to|for)\b)"
    rf"{one_of(word_lists.COMPARES)}\s(?:\w{{1,20}}\s){{0,4}}\Z"
)
NEEDS = _any_case(r"\W{0,3}(?:would|needs?|requires?|demands?|means|calls|потребовал\w*|нуж\w+)\b")
# points that the judge takes off: "minus 1 for tone", "one point deducted", a line "Penalty: 2"
_AMOUNT = rf"[+\-−]?\s?({DIGITS}|{one_of(WORDS)}|an?\b)"
_BY_JUDGE, _POINTS = r"(?:(?:\A|[.;,(\n])\W{0,4}|\b(?:I|we)(?:['’]ve|\shave)?\s)", r"\s(?:points?|marks?)"
_WHY = r"(?=\s(?:for|because|due|since|as)\b|\W*(?:\Z|\n)|[.,;)])"
DEDUCTED = _later(
    rf"(?:\A|[.;,(\n])\W{{0,4}}minus\s{_AMOUNT}\s(?:points?\s)?for\b"
    rf"|^\W{{0,6}}(?:points?\s)?(?:deductions?|deducted|penalt(?:y|ies))[*_`]{{0,2}}\s?[:=][*_`]{{0,2}}\s?{_AMOUNT}(?:{_POINTS})?(?=\W*$|\s?[(.,;–—-]|\sfor\b)"
    rf"|{_BY_JUDGE}(?:(?:deduct|subtract|dock)(?:ed|ing)?|tak(?:e|ing)\soff|took\soff|knock(?:ed|ing)?\soff)\s{_AMOUNT}(?:{_POINTS})?{_WHY}"
    rf"|(?:(?:\A|[.;,(\n])\W{{0,4}}|\bwith\s){_AMOUNT}{_POINTS}\s(?:is\s|was\s|were\s)?(?:off|deducted|subtracted|taken\soff|docked){_WHY}",
    re.IGNORECASE | re.MULTILINE,
)
NO_DEDUCTION = _any_case(r"(?<!\w)(?:no|not|n['’]t|never|without|could|would|might|may|if|should)\b[^.!?\n]*\Z")
RANGE = _any_case(
    rf"(?:between|either|from|both|от|между|либо|или)\s{OPEN}{NUMBER}{CLOSE}\s(?:and|or|to|и|или|до|либо)\s"
)
NOT_FINITE = _any_case(rf"{OPEN}[+\-−]?(?:nan|inf(?:inity)?|∞){CLOSE}[\s.!]*\Z")
# "Yes, 1" and "Rather good (4)": yes or no, or a few words, and a number
PREFIXED = _later(
    rf"{OPEN}(?P<word>[^\d\n()]{{1,60}}?){CLOSE}\s?(?:[,;:–—-]\s?|(?P<bracket>\(\s?)){OPEN}(?P<number>{NUMBER}){CLOSE}[\s.!]*\Z"
)
YES_WORDS, NO_WORDS = frozenset(word_lists.YES_NO), frozenset(word_lists.NO)
GOODNESS, NAMED_ONLY = frozenset(word_lists.GOODNESS), frozenset(word_lists.NAMED_ONLY)

# -- labels and sentences

# another maximum in a label's bracket puts its value off the scale
NOTE = (
    r"(?:[ \t]{0,3}(?:[(\[][^()\[\]\n]{0,40}[)\]]|/[ \t]?\d{1,4}|,?[ \t]?(?:out of|из)[ \t]\d{1,4}"
    r"|on a scale (?:of|from) \d{1,3}[ \t]?(?:to|-|–)[ \t]?\d{1,4}))?"
)
STRONG = (
    rf"(?:(?:{'|'.join(word_lists.BEFORE_WORDS)})[ \t_-]{{1,3}}){{0,3}}"
    rf"(?:(?:{'|'.join(word_lists.VERDICT_WORDS)})(?:\s(?:finale?|total|globale?))?"
    rf"|(?P<echo>{'|'.join(word_lists.ECHO_WORDS)}))"
)
BULLET = r"[ \t>#*_`•·–—✅✔✓-]{0,12}(?:\d{1,3}[.)][ \t]{1,4})?[*_`\"'\[(<]{0,4}"
# a colon, or the end of "<score>" or "[Score]", up to the value, which may be on the next line
LABEL_ENDS = _later(
    r"(?:[:：=][*_`]{0,4}|[\]>][*_`]{0,4}(?=\s{0,3}[\w*(«“\"]))(?:[ \t]{0,4}\r?\n){0,2}[ \t]{0,4}(?=[^\n])"
)
_COLON = r"[*_`\"'\])]{0,4}[ \t]{0,4}[:：=][*_`]{0,4}[ \t]{0,4}"
IS = r"(?:[ \t](?:is|was|would be))?"
_QUALITY = rf"(?!{'|'.join(word_lists.NO_QUALITY)})[^\W\d_]{{2,20}}(?:ness|ity|ence|ency|ance|acy|ость)"
QUALITY = _any_case(
    rf"{BULLET}(?:(?:{'|'.join(word_lists.BEFORE_WORDS)})\s)?{_QUALITY}(?:\s(?:score|rating|grade|level))?{NOTE}{_COLON}"
)
# the word right before "score", and those that leave the score the judge's own: "a solid score", not "its Flesch score"
BEFORE_SCORE = _later(r"(?<![\w'’-])([^\W\d_][\w'’-]{0,30})[ _-]\Z")
OF_JUDGE = _any_case(
    rf"(?:{'|'.join([*word_lists.OF_JUDGE, *word_lists.BEFORE_WORDS, *word_lists.GOODNESS])}|{word_lists.KINDS}"
    rf"|{word_lists.JUDGED}|{'|'.join(word_lists.VERDICT_WORDS)}|{_QUALITY})"
)
# "Teacher's Score", "GPT-4 score", "the ideal answer gets"
OTHERS = _any_case(
    rf"(?<!\w)(?:{'|'.join(word_lists.OTHER_RATERS)})\b|(?<!\w)(?!{word_lists.KINDS}|{word_lists.JUDGED}|here|it|that|there|let)\w{{1,20}}['’]s\s"
)
NOT_JUDGED = _any_case(rf"(?<!\w)(?:{'|'.join(word_lists.NOT_JUDGED)})\b")
LAST_ELEMENT = _later(
    r"(?:</(?P<name>\w[\w-]{0,30})>[ \t]{0,3}(?P<rest>[^<>\n]{1,80})"
    r"|(?:(?<=[.!?,)*\w])|(?<=tie:)|(?<=better:))\s\**(?P<marked>\[\[[^\[\]\n]{1,60}\]\])[.*]{0,3})\Z"
)
LINE_BREAK = _any_case(r"<br\s?/?>")
# a table's head, and its rows: a third cell is prose, as a number there is another answer's
HEAD = _later(r"^[ \t]*\|[^\n]*(?=\n[ \t]*\|[ \t]*:?--[-:| \t]*$)", re.MULTILINE)
ROW = _later(
    r"^(?P<in>[ \t]*)\|([^|\n]{1,40})\|([^|\n]{1,40})\|(?=(?P<more>[^|\n]{20,}\|?[ \t]*$)|[ \t]*$)", re.MULTILINE
)
# "at least 2", "1 or 2": what stands right before a level that is not given
BOUND = _any_case(
    r"(?:\d\S{0,3}\s(?:or|to|and|through|thru|или|до|и)|\bor|\b(?:at\s)?(?:least|most)|\b(?:more|less|fewer|higher|lower|better|worse)\sthan"
    r"|\b(?:over|under|up\sto|below|above|beyond|almost|nearly|between))\s[*_`(\[\"]{0,4}\Z"
)
ATTRIBUTED = _any_case(rf"[.)\]*_`]{{0,3}}\s{{0,3}}[,(—–-]?\s?(?:{'|'.join(word_lists.ATTRIBUTES)})")
RATES_IT = _later(r"(?:rat|scor|grad)(?:e|es|ed|ing)?\s(?:it|him|this|that|these|the|his|her|its|their)\b")
BY_ME = _any_case(r"(?<!\w)(?:i|we|judge)(?:['’]?(?:ve|d)|\shave|\swould|\swill)?\s(?:(?:\w{1,20}ly|now|then)\s)?\Z")
QUOTES_NEXT = _any_case(
    rf"(?:{word_lists.REPORTS}:?(?:\s(?:with|in|by|the|a|an|its|following|own|lines?|text|words|phrase|sentence|claim|string|last"
    r"|final|note|that)){0,5}|(?:写道|写着|声称|说)[:：]?|\b(?:lines?|text|words|sentence|end|ending|beginning)\b[^.!?\n]{0,40}\b(?:is|are)"
    r"|\bi\s(?:read|see|saw|find|found)|\b(?:steer|trick|influence|manipulate|tempt|bribe|convince)\w{0,3}\sme\swith"
    r"|\b(?:planted|injected|embedded|hidden|fake)\s\w{1,20})[\s:]{0,3}\Z"
)
OF_LINES = _any_case(
    r"\blines?\b[^.!?\n]{0,40}\b(?:is|are|reads?|says?)\Z|\b(?:contains?|includes?|adds?|has)\sthe\s(?:\w{1,20}\s)?lines?\Z|\bends?\swith\Z"
)
# "For example: Score: 2", and a line such as "Candidate's answer: It is on. Score: 2"
EXAMPLE = _any_case(r"\b(?:e\.g\.|(?:for\s)?(?:example|instance)|such\sas|format)[\s,:]{0,3}\Z")
THEIR_LINE = _any_case(
    rf"{BULLET}(?:the\s|an?\s)?(?:{word_lists.THEIR_PARTS}|excerpt|input|question|prompt)\w*(?:['’]s)?(?:\s\w{{1,20}})?[*_`]{{0,4}}\s?[:：]"
)
SUBJECT = _any_case(r"\b(?:it|(?:this|the|that)(?:\s\w{1,20})?)\s{0,2}\Z")
REPORTED_BACK = _any_case(
    rf"(?:</\w{{1,20}}>)?[\s.*_`)\]]{{0,6}}[^.!?\n]{{0,60}}(?:{word_lists.REPORTS}(?:\sthe\sline)?:?\s(?:that|this|so)[.,;:!]"
    r"|\b(?:is|with|read|verdict):?\sthat[.!])"
)
_LABELLED = rf"{BULLET}(?P<label>[^\W\d_][^\W\d_'’/ -]{{0,30}}(?:[ '’/-][^\W\d_]{{1,20}}){{0,3}}){NOTE}{_COLON}"
LABELLED = _later(_LABELLED)
OF_LIST = _later(rf"\s*[#*+•–—-]|{_LABELLED}")
EXPLAINED = _any_case(rf"\b{one_of(word_lists.EXPLAINS)}")
_OBJECT = (
    r"(?:(?:it|him|this|that|these|the|my|ему|его|это|этот|этому|ответ\w{0,2}|за)\s(?:\w{1,20}\s){0,2}?)?"
    r"(?:(?:as|at|with|just|an?|the|to|be|(?:score|rating|grade|mark|verdict)(?:\sof)?|на|в|оценк[уи]|балл)\s){0,4}"
)
_I = rf"(?:{'|'.join(word_lists.FIRST_PERSON)})\s(?:\w{{1,12}}ly\s|therefore\s|thus\s|also\s)?"
_GIVE, _GIVE_RU, _EARNS = ("|".join(verbs) for verbs in (word_lists.GIVES, word_lists.GIVES_RU, word_lists.EARNS))
# OPENS, SAYS, CLAUSE and UNGIVEN are for text in lower case: they are faster without IGNORECASE
SAYS = _later(
    rf"(?<!\w)(?:(?P<noun>{STRONG})(?:\s(?:(?:for|of)\s(?:this|the)\s|(?:этого|данного)\s)(?P<what>\w{{1,20}}))?[*_`]{{0,4}}"
    rf"(?:\s{{0,3}}[:：=]|[是为]|\s(?:is|of|was|would\sbe|will\sbe|stands\sat|comes\sto|составляет|равна|равен|—|–|-)(?=\s|\Z)|(?<=ценк[ау])(?=\s))(?:\s(?:an?|на))?"
    rf"|(?:scor(?:es?|ed|ing)|rat(?:es?|ed|ing)|grad(?:es?|ed|ing))(?:\s{_OBJECT})?"
    rf"|{_I}(?:{_GIVE}|{_GIVE_RU})(?:\s{_OBJECT})?|(?:{_EARNS}|{_GIVE_RU})(?:\s{_OBJECT})?)(?:\\(?:boxed|text)\{{|[\s*_`(\[$]){{0,6}}\Z"
)
CLAUSE = _later(
    r"[.!?:;\n—–]\s|,\s(?:\w{2,20}ing|so|but|and|yet|which|therefore|thus|hence|i|we|the|this|it|my)\b"
    r"|,\s(?:поэтому|но|и|я|так что)\b|\s(?:so|but|therefore|thus|hence|resulting|поэтому|но)\s"
)
UNGIVEN = _later(rf"(?<!\w){one_of(word_lists.NOT_GIVEN)}")
# "… to earn a perfect score of 5" is no verdict
FULL = _any_case(rf"(?<!\w){one_of(word_lists.NOT_GIVEN_BEFORE)}\s\Z")
IF = _any_case(rf"(?<!\w)(?:if|unless|если|{word_lists.ACCORDING})\b[^.!?\n]*\Z")
WOULD, WHO = (_any_case(rf"(?<!\w)(?:{who})\b") for who in ("would|бы", "i|we|this|it|я|мы"))
SOMEONE = _any_case(r"['’]s\s\Z|\b(?:correct|right|true|his|her|its|their|candidate|student|given|reference)\s\Z")
LAST_WORDS = _later(r"(?:(?!(?:and|but|so|thus|therefore|which)\s)[\w'’-]{1,20}\s){0,2}\Z")
SHARE = _later(r"(?<![\w.,/])\d+(?:[.,]\d+)?\s?(?:/|out of)\s?\d+(?![\w/])")
AFTER_INLINE = _later(r"[\s.!*_`)]{0,6}(?:\([^()\n]{0,80}\))?[\s.!*_`]{0,6}(?:\Z|\n)")
MARK = _any_case(r"(?:[-*+•#–—★⭐][ \t]+|#+|(?:so|thus|hence|therefore|итак)[,:][ \t])+")
LIST_ITEM = _later(r"[ \t]*\d{1,3}[.)][ \t]+(?=\S)")
NEXT_ITEM = _later(r"\n[ \t]*\d{1,3}[.)][ \t]")
ASKED = _later(r"(?:\A|\n)[ \t*_#>]{0,6}(?:question|prompt|instruction|user|q)[*_ ]{0,4}:", re.IGNORECASE)
# "- [x] yes ⏎ - [ ] no"
BOX = _any_case(
    r"(?P<box>\[[ x✓✔]?\]|\([ x]\)|[☐☑☒⬜✅✔✓●○◯])\s{0,3}[*_`]{0,2}(?P<what>[^\n\[\]()☐☑☒⬜✅✔✓●○◯*_`]{1,60})"
)
CATEGORIES = _later(rf"\s*[(\[]?{word_lists.GUARD_CATEGORIES}[)\].]{{0,2}}\s*\Z")
GUARDS = _later(rf"\s?[-:,(]?\s?{word_lists.GUARD_CATEGORIES}[)>]?\s*\Z")

# -- tags, and patterns of users

# a number with a full stop at a line's start heads an entry of a list
_PIECE_ENDS = r"\n(?:[ \t]*\d{1,3}[.)][ \t]+(?=\S))?|(?<=[.!?…])[\s\ufffc]+|(?<=[。！？；])"
PIECE_ENDS = _later(_PIECE_ENDS)
ALSO_WITHOUT_STOP = _later(rf"{_PIECE_ENDS}|(?<=\d)[ \t]+(?=[A-ZА-ЯЁ])")
SENTENCE_END = _later(r"\n|[.!?]\s")
ON_SCORES = _any_case(r"(?<!\w)(?:i|we|my|our|scor(?:e|es|ed|ing)|rating|grad(?:e|es|ed|ing)|mark(?:s|ed)?)\b")
RESULT = _any_case(r"\[\s{0,3}(?:RESULT|РЕЗУЛЬТАТ)\s{0,3}\]\s{0,3}:?")
NEXT_TAG = _any_case(r"\[\s{0,3}/?\s{0,3}(?:END|RESULT|FEEDBACK|РЕЗУЛЬТАТ|КОНЕЦ)\s{0,3}\]")
FEEDBACK = _any_case(r"\[\s{0,3}FEEDBACK\s{0,3}\]\s{0,3}:?")
NAMED = _any_case(r"\A\s{0,3}[*_`]{0,4}(?:final\s)?(?:score|rating|grade|verdict|оценка|балл)[*_`]{0,4}\s?[:=]")
AFTER_KEY = _later(r"[\"'”][ \t]*[:=][ \t]*\Z")
QUOTES = frozenset(MARKS + "`~>")
LEFT_OF_NUMBER = _any_case(
    r"(?:\d{1,20}(?:[.,]\d{1,20})?\s{0,3}(?:/|(?:out\s)?of\s|из\s|or\s|to\s|или\s|до\s)\s{0,3})?"
    r"(?:(?<![^\W\d_])[+\-−])?(?:\d|(?<=\d)[.,](?=\d|\Z)){0,40}\Z"
)
DIGIT_BEFORE, DIGIT_AFTER = _later(r"\d[.,]?\Z|[+\-−]\Z"), _later(r"\d|[.,]\d|\s{0,3}/\s{0,3}\d")

# -- JSON

QUOTED_KEY = _later("|".join(word_lists.QUOTED_KEYS))
OBJECT_BEGINS = _later(r"\{\s{0,40}(?:(?:#|//)[^\n]{0,200}\n\s{0,40})?[\"'“]?[\w .-]{1,60}[\"'”]?\s{0,4}:")
STRUCTURE = _later(r'"(?:[^"\\]|\\.)*(?:"|\Z)|[{}]', re.DOTALL)
AFTER_JSON = _later(r"[\s`\].;]{0,40}\Z")
NO_KEY_NEXT = _later(r"\s{0,40}+,?+\s{0,40}+(?![\"'“}\]#/]|[\w -]{1,40}[\"'”]?\s{0,4}:|\Z)")
REMARK = _later(r"\s(?://|#)[ \t]*(.*)")

# -- quotations

ANY_MARK = _any_case(
    rf"[{OPENING}`~<>＞]|[:\]]\n|\\begin|\[(?:quote|code|(?:the )?(?:begin|start))|&gt;|\n(?: {{4}}|\t)"
)
FENCE = _later(
    rf"^(?P<before>[^`\n]*?(?:`[^`\n]+`[^`\n]*?){{0,3}}?)(?P<opened>[{OPENING}(\[]{{0,3}})(?P<marks>`{{3,}}+|~{{3,}}+)"
    rf"(?P<info>[ \t]{{0,4}}(?:[\w.+#{{(-][^`\n]{{0,200}}?)?)(?P<closed>[{CLOSING})\].,*_]{{0,3}})[ \t]*\r?$",
    re.MULTILINE,
)
CODE = _later(r"(?P<marks>`{1,3})(?!`)(?:json\b)?+[ \t]*(?P<inner>[^\n].*?)[ \t]*(?P=marks)", re.DOTALL)
QUOTE_BULLET = _later(r"[ \t>]*(?:(?:[-*+•>]|\d{1,3}[.)])[ \t]{1,4})?")
IN_MARKS = _later(rf"(?P<mark>[\"'])(?P<inner>[^\n`{MARKS}]{{1,80}})(?P=mark)")
QUOTED_LINE = _later(
    r"^[ \t]{0,40}(?:(?:[-*+•]|\d{1,3}[.)])[ \t]{1,4}){0,3}(?:[>＞]|&gt;)[^\n]*", re.MULTILINE | re.IGNORECASE
)
INDENTED = _later(
    r"^(?P<says>[^\n]*)\n(?:[ \t]*\n){1,3}(?P<code>(?:(?: {4}|\t)[^\n]*(?:\n|\Z)(?:[ \t]*\n){0,2})+)", re.MULTILINE
)
# "candidate:⏎  score: 4" in YAML, "[candidate]⏎score = 4" in TOML
KEYED = _later(
    rf"^(?P<indent>[ \t]*)(?:[-*] )?(?:{word_lists.THEIR_PARTS})\w*:[ \t]*\n(?:(?P=indent)[ \t]+[^\n]*(?:\n|\Z))+"
    rf"|^\[(?:{word_lists.THEIR_PARTS})\w*\][ \t]*\n(?:[^\[\n][^\n]*(?:\n|\Z))+",
    re.MULTILINE | re.IGNORECASE,
)
LIST_MARK = _later(r"[ \t]{0,40}(?:[-*+•]|\d{1,3}[.)])[ \t]")
ELEMENT = _later(
    r"<(?P<name>blockquote|q|cite|pre|code|samp|kbd|tt|xmp|[a-z_]\w{0,60}-[0-9a-f]{6,64}"
    rf"|(?!\w*(?:{word_lists.OWN_PARTS}))\w{{0,30}}(?:{word_lists.THEIR_PARTS}|assistant)\w{{0,30}})"
    r"(?:\s[^<>]{0,200})?>.*?(?:</(?P=name)>|\Z)"
    r"|\[(?P<board>quote|code)(?:=[^\[\]\n]{0,80})?\].*?(?:\[/(?P=board)\]|\Z)"
    rf"|\[(?:the )?(?:begin\w{{0,4}}|start) (?![^\[\]\n]*(?:{word_lists.OWN_PARTS}))[^\[\]\n]{{1,60}}\]"
    r".*?(?:\[(?:the )?end [^\[\]\n]{1,60}\]|\Z)"
    r"|\\begin\{(?P<latex>quot\w+|verbatim|lstlisting)\}.*?(?:\\end\{(?P=latex)\}|\Z)"
    r"|<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)"
    r"|(?P<triple>\"\"\"|''').*?(?P=triple)|(?<!`)``(?!`)[^`]{1,5000}?''(?!')",
    re.IGNORECASE | re.DOTALL,
)

HAS_ELEMENT = _later("[<\\[]|``|\"\"\"|'''|[\\\\]begin")

# the speaker that the line before a block names
THEIR_WORDS = _any_case(word_lists.THEIRS)
MY_WORDS = _any_case(word_lists.MINE)
# "Evaluation of the candidate's answer:" and "JSON output:" are the judge's own words
ABOUT_THEM = _any_case(word_lists.ABOUT)
POINTS_BACK = _any_case(
    r"\s{0,4}[-–—^↑(*_]{0,3}\s?(?:(?:this|that|it|these|those|which|so)\s(?:is|was|are|were)\s(?:what|how|the|a|from|quot)"
    r"|(?:is|was|are|were)\s(?:what|how|from|quot)"
    r"|(?:quoted\s|copied\s|taken\s)?from\s(?:the|its)\s(?:\w{1,20}\s)?(?:answer|response|reply|candidate|submission|text)\W*\Z"
    r"|(?:это|так|вот что)\s)"
)
NO_BREAK = _later(r"[^\n]")
