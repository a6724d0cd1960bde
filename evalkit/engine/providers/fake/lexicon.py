"""Words that the embedded juror knows, English and Russian."""

from __future__ import annotations

__all__ = [
    "DEMANDING",
    "EN_ENDINGS",
    "FORGIVING",
    "MONTHS",
    "NEGATIONS",
    "NUMBER_WORDS",
    "OPPOSITES",
    "RU_ENDINGS",
    "STOP",
    "UNITS",
]


def _words(text: str) -> list[str]:
    return text.split()


STOP = frozenset(
    _words("""
    a an the and or but of to in on at by for with from as is are was were be been being it its this that these those
    he she they we you i his her their our your my me him them us who which what when where why how than then so also
    there here very just about into over under out up down off can could will would shall should may might must do does
    did done have has had if while all any some each more most other such only own same too one ones s t re ve ll m d
    и в во на с со к ко у о об от до из за по под над при для или а но же ли бы то это этот эта эти тот та те его ее
    их он она они мы вы я ты мне меня нам вас им ей ему как так что чтобы который которая которое которые был была было
    были быть есть еще уже только также если когда где кто чем все весь всё свой своя свои один одна одно можно будет
    """)
)

NEGATIONS = frozenset(
    _words("not no never none nobody nothing neither nor without cannot не нет ни никогда никто ничего нельзя без")
)

# Words in the text of a level that make it harder, or easier, to reach.
DEMANDING = frozenset(
    _words("""
    every each all any exactly literally strictly always completely entirely wholly verbatim
    каждый каждое каждая все любой любая точно дословно строго всегда полностью целиком
    """)
)
FORGIVING = frozenset(
    _words("""
    mostly minor largely roughly some small main broadly nearly almost slight acceptable
    главное основном примерно почти мелкие небольшие некоторые допустимо
    """)
)

NUMBER_WORDS = {
    word: str(value)
    for value, words in {
        0: "zero ноль",
        2: "two два две двух двое twice дважды",
        3: "three три трех трёх трое",
        4: "four четыре четырех четырёх четверо",
        5: "five пять пяти пятеро",
        6: "six шесть шести",
        7: "seven семь семи",
        8: "eight восемь восьми",
        9: "nine девять девяти",
        10: "ten десять десяти",
        11: "eleven одиннадцать одиннадцати",
        12: "twelve двенадцать двенадцати",
        14: "fourteen четырнадцать четырнадцати",
        15: "fifteen пятнадцать пятнадцати",
        20: "twenty двадцать двадцати",
        30: "thirty тридцать тридцати",
        40: "forty сорок",
        50: "fifty пятьдесят пятидесяти",
        60: "sixty шестьдесят",
        70: "seventy семьдесят",
        80: "eighty восемьдесят",
        90: "ninety девяносто",
        100: "hundred сто",
        1000: "thousand тысяча тысячи тысяч тыс",
        1000000: "million миллион миллиона миллионов млн",
    }.items()
    for word in _words(words)
}

# What a number counts, and days of the week: as decisive as a name.
UNITS = frozenset(
    _words("""
    day days daily week weeks weekly month months monthly year years yearly hour hours hourly minute minutes second
    seconds metre metres meter meters kilometre kilometres km mile miles kg gram grams percent euro euros dollar dollars
    monday tuesday wednesday thursday friday saturday sunday
    день дня дней ежедневно неделя недели неделю недель месяц месяца месяцев год года лет час часа часов минута минуты
    минут метр метра метров километр километра километров км процент процента процентов рубль рубля рублей
    понедельник понедельникам вторник вторникам среда среду средам четверг четвергам пятница пятницу пятницам суббота
    субботу субботам воскресенье воскресеньям
    """)
)

# "may" and "march" stay out: they are far more often verbs
MONTHS = {
    word: f"month {number}"
    for number, words in {
        1: "january jan января январь январе",
        2: "february feb февраля февраль феврале",
        3: "марта март марте",
        4: "april apr апреля апрель апреле",
        5: "мая май мае",
        6: "june jun июня июнь июне",
        7: "july jul июля июль июле",
        8: "august aug августа август августе",
        9: "september sept сентября сентябрь сентябре",
        10: "october oct октября октябрь октябре",
        11: "november nov ноября ноябрь ноябре",
        12: "december dec декабря декабрь декабре",
    }.items()
    for word in _words(words)
}

# Stems of opposite meaning: where answer and evidence hold different sides, one of them says the contrary.
_PAIRS = (
    ("increas rise ris grew grow higher выросл вырос выше", "decreas fall fell drop lower сниз снизил упал ниже"),
    ("before earlier раньше", "after later позже после"),
    ("allow permit разреш", "forbid prohibit forbidd запрещ запрет"),
    ("open откры открыт", "clos закры закрыт"),
    ("free бесплат", "paid pay charg fee платн"),
    ("true correct верно", "false wrong incorre неверно"),
    ("always всегда", "never никогда"),
    ("safe безопас", "dangero unsafe опасн"),
    ("includ включ", "exclud исключ"),
)
OPPOSITES = {word: (pair, side) for pair, sides in enumerate(_PAIRS) for side in (0, 1) for word in _words(sides[side])}

EN_ENDINGS = (
    "ingly",
    "edly",
    "ation",
    "ments",
    "ment",
    "ness",
    "ing",
    "ies",
    "ied",
    "est",
    "ed",
    "es",
    "ly",
    "er",
    "s",
)

RU_ENDINGS = tuple(
    sorted(
        _words("""
        ами ями ого его ому ему ыми ими ать ять ить еть ешь ует ает яет
        ают яют ится ются ется ала или ило ыло ого ой ый ий
        ая яя ое ее ые ие ов ев ей ам ям ах ях ом ем ую юю ют ут ит ат ят ет ал ил ла ло ли ть ся а я о е ы и у ю ь й
        """),
        key=len,
        reverse=True,
    )
)
