"""Guess what each column of a table is for: id, input of a rubric, human label, group, system."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from evalkit.errors import counted
from evalkit.notebook.start.column_names import is_about, is_machine, is_rating
from evalkit.notebook.start.table_columns import MOST_LABELS, NO_LABEL, SPEAKERS, Column
from evalkit.rubrics import Rubric, load_rubric
from evalkit.rubrics.human_labels import verdict_word
from evalkit.rubrics.scales import number
from evalkit.stats.intervals import FEW_CLUSTERS
from evalkit.tables.items import as_frame, canonical_text

NEW = "new"
"""The id of the rubric that is made from the chosen inputs."""

NEW_INPUTS = ("question", "answer", "context", "reference", "conversation")
"""Names that inputs of a new rubric can have."""

CHAT_INPUTS = ("conversation", "question", "answer")
"""The inputs that a column of messages gives."""

# Usual names of columns; the parts of a name count as well: `resp` finds `bot_resp`. The best names come first.
_NAMES = {
    "id": "item_id id uuid uid guid key idx index request_id conversation_id session_id",
    "criteria": "criteria rubrics requirements checklist rubric expectations checks",
    "system": "system_id system model model_name model_id assistant_model assistant_name engine llm generator",
    "group": "group_id group conversation_id conversation dialog_id thread_id session_id document_id doc_id",
    "few": "source document topic category subset domain language lang user_id task",
    "annotator": "annotator annotator_id rater rater_id worker worker_id reviewer labeler labeller",
    "question": "question query prompt instruction user_message user_input request problem ask input user human q",
    "answer": "answer response output completion reply prediction generation summary bot assistant candidate resp ans",
    "context": "context passages passage documents evidence article facts knowledge source document ctx",
    "reference": "reference reference_answer correct_answer ground_truth gold_answer expected ideal target gold ref",
    "conversation": "conversation messages dialogue dialog chat turns transcript history",
    "answer_a": "answer_a chosen left a",
    "answer_b": "answer_b rejected right b",
}
# Under these names a code may be what was asked, said or expected; under others, such as ref, it names the row.
_MAY_BE_CODES = " ".join(map(_NAMES.__getitem__, ("question", "answer", "reference", "answer_a", "answer_b"))).split()
_REFS, _ANSWERS = ("ref", "reference"), {*f"{_NAMES['answer']} {_NAMES['reference']}".split()} - {*SPEAKERS}
# The side in a name such as response_1, which sides make a pair, and the other words of such names.
_SIDE = re.compile(r"(?:^|_|(?<=[a-z])(?=\d))([a-z\d])(?=_|$)")
_SIDES = (["a", "b"], ["1", "2"], ["0", "1"])
_PAIRED = f"{_NAMES['answer']} conversation system model assistant llm".split()
_BY_INPUTS = (
    *("preference", "faithfulness", "correctness", "helpfulness", "relevancy", "safety", "instruction_following"),
    *("coherence", "conversation_quality"),
)
_SHORTEST_TEXT, _LEAST_PER_GROUP, _MOST_PER_GROUP = 20, 1.1, 20
_WHO = f"{_NAMES['annotator']} {_NAMES['system']}".split()  # who rated or wrote the answers
MOST_OFF = 0.1
"""The share of labels off the scale, such as typing errors, with which a column is still proposed as labels."""


@dataclass(frozen=True, slots=True)
class ColumnRoles:
    """What the columns of a table are for.

    Attributes
    ----------
    roles
        Column -> its role: ``id``, ``group``, ``system``, ``input: answer`` (an input of the rubric),
        ``label: helpfulness`` (human labels for a criterion), ``annotator`` (who gave the label of this row, where an
        item has several rows), ``messages`` (a chat, which is split into question and answer), ``criteria`` (what each
        item is to meet: one row per criterion, see `explode_criteria`), or empty: not used.
    """

    roles: Mapping[str, str]

    def columns(self, role: str) -> list[str]:
        """The columns with this role; one that ends in a colon and a space stands for all roles that begin so."""
        return [name for name, one in self.roles.items() if one == role or (role[-2:] == ": " and one.startswith(role))]

    def column(self, role: str) -> str | None:
        """The first column with this role, or None."""
        return next(iter(self.columns(role)), None)

    @property
    def inputs(self) -> dict[str, str]:
        """Input of the rubric -> column."""
        return {self.roles[name].removeprefix("input: "): name for name in self.columns("input: ")}

    @property
    def labels(self) -> dict[str, list[str]]:
        """Criterion -> columns of human labels."""
        criteria = dict.fromkeys(self.roles[name].removeprefix("label: ") for name in self.columns("label: "))
        return {criterion: self.columns(f"label: {criterion}") for criterion in criteria}


def guess_columns(table: Any, rubric: Rubric | None = None) -> ColumnRoles:
    """Guess what each column of a table is for, by its name and its values.

    Parameters
    ----------
    table
        Whatever `load_items` takes, but a path.
    rubric
        The rubric whose inputs and scales are looked for; by default the one that `suggest_rubric` suggests.

    Returns
    -------
    ColumnRoles
        Each column has one role. A group needs ten or more values unless its name is that of a conversation or
        document, because intervals treat groups, not items, as independent. Labels are columns of few values, all of
        them on the scale.

    Examples
    --------
    >>> row = {"uuid": "4f2a", "prompt": "Is the kettle in stock?", "bot_resp": "Yes, it ships today."}
    >>> guess_columns([row]).roles
    {'uuid': 'id', 'prompt': 'input: question', 'bot_resp': 'input: answer'}
    """
    frame = as_frame(table)
    columns = {str(name): Column(str(name), frame.iloc[:, at]) for at, name in enumerate(frame.columns)}
    return guess_roles(columns, rubric or suggest_rubric(columns))


def guess_roles(columns: Mapping[str, Column], rubric: Rubric, chosen: Mapping[str, str] | None = None) -> ColumnRoles:
    """`guess_columns` for columns that were looked at already; `chosen` are roles that are known."""
    roles = dict.fromkeys(columns, "") | dict(chosen or {})
    free = [column for name, column in columns.items() if name not in (chosen or {})]
    fixed = ColumnRoles(dict(chosen or {}))

    def take(column: Column | None, role: str) -> None:
        if column is not None and (role.startswith("label: ") or not fixed.columns(role)):
            roles[column.name] = role
            free.remove(column)

    def repeated() -> list[Column]:
        return [one for one in free if one.is_repeated]

    unique = [one for one in free if one.is_unique and one.is_short]
    own = columns[fixed.column("id") or ""] if fixed.column("id") else None
    codes = [one for one in free if names_rows(one, columns.values())]
    key = own or _named(unique, "id") or next((one for one in codes if one in unique), None)
    who = _named(repeated(), "annotator", exact=True)
    item = own or _named(repeated(), "id", exact=True) or next((one for one in codes if one.is_repeated), None)
    pairs = {*zip(item.texts, who.texts, strict=False)} if key in (None, own) and who and item else {}
    if who and item and item.is_repeated and len(pairs) == len(item.texts) == len(who.texts):
        take(who, "annotator")
        key = item
    if key is not own:
        take(key, "id")
    speakers = _speakers(free)
    machine = next((one for one in speakers if one.words not in ("user", "human")), None)
    own_criteria = "requirement" in rubric.input_names and not fixed.columns("input: requirement")
    take(own_criteria_of(free) if own_criteria else None, "criteria")
    take(_named(repeated(), "system", exact=True) or machine, "system")
    groups = group_candidates(free)
    take(groups[0] if len(groups) == 1 else None, "group")
    _guess_inputs(free, rubric, fixed, take, [*speakers, *codes])
    if "criteria" not in roles.values():  # labels of an item are no labels of its criteria
        _guess_labels(free, rubric, take)
    if key is None:
        likely = [one for one in free if one.looks_like_id and not any(one.fits(it.scale) for it in rubric.criteria)]
        take(next(iter(likely), None), "id")
    return ColumnRoles(roles)


def names_rows(column: Column, columns: Iterable[Column]) -> bool:
    """Whether a column holds codes of rows: they are no input, unless its name is that of answers.

    Under ``ref`` they are, unless another of the `columns` holds answers of the same form.
    """
    if not column.code_form or is_rating(column.words):
        return False
    last = column.words.rpartition("_")[2]
    if last not in _REFS:
        return column.words not in _MAY_BE_CODES and last not in _ANSWERS
    alike = [one for one in columns if one.code_form == column.code_form and not one.words.endswith(_REFS)]
    return all(names_rows(one, ()) for one in alike)


def group_candidates(columns: Iterable[Column]) -> list[Column]:
    """Columns that may hold the group of an item; of those that divide the items alike the first one.

    One that is called group, or group_id, is the only one. Where no name says so, those of codes or numbers with few
    rows of each, such as tickets.
    """
    repeated = [column for column in columns if column.is_repeated]
    names, few = _NAMES["group"].split(), _NAMES["few"].split()
    groups = [column for name in names for column in repeated if column.words == name]
    if groups and groups[0].words in ("group_id", "group"):
        return groups[:1]
    groups += [column for column in repeated if column.words in few and len(column.distinct) >= FEW_CLUSTERS]
    groups = groups or [column for column in repeated if _numbers_groups(column, repeated)]
    divisions: dict[tuple[int, ...], Column] = {}
    for column in groups:
        places: dict[str, int] = {}
        divisions.setdefault(tuple(places.setdefault(text, len(places)) for text in column.texts), column)
    return list(divisions.values())


def _numbers_groups(column: Column, columns: Iterable[Column]) -> bool:
    """Whether the values have the form of tickets, and few rows each; not those of who rated or wrote the answers."""
    words = column.words
    is_few = len(column.distinct) >= max(FEW_CLUSTERS, len(column.texts) / _MOST_PER_GROUP)
    is_few = is_few and len(column.texts) >= _LEAST_PER_GROUP * len(
        column.distinct
    )  # an id that is there twice groups none
    is_number = column.numbers_blocks and not (is_rating(words) or words in _MAY_BE_CODES)
    return is_few and words not in _WHO and (is_number or (names_rows(column, columns) and not NO_LABEL.search(words)))


def own_criteria_of(columns: Iterable[Column]) -> Column | None:
    """The column whose name and cells are those of criteria that each item brings."""
    return _named([one for one in columns if one.holds_criteria and not one.holds_levels], "criteria")


def id_without_use(columns: Iterable[Column]) -> str:
    """Why the column whose name is that of an id is none: it has duplicates or gaps; empty if there is no such one."""
    column = _named(filter(attrgetter("is_scalar"), columns), "id", exact=True)
    if column is None:
        return ""
    counts = Counter(column.texts)
    again = [text for text, n in counts.items() if n > 1]
    gaps = column.n_missing + column.n_empty
    reasons = [
        f"{counted(len(again), 'value is', 'values are')} in several rows (first: {first!r})" for first in again[:1]
    ]
    reasons += [f"{counted(gaps, 'row has', 'rows have')} none"] if gaps else []
    reasons += ["its values are too long"] if not reasons and not column.is_short else []
    return f"{column.name!r} is not used as id: {' and '.join(reasons)}" if reasons else ""


def _named(columns: Iterable[Column], role: str, *, exact: bool = False) -> Column | None:
    """The column whose name is usual for a role, or (unless `exact`) has a part that is."""
    names, usual = list(columns), _NAMES.get(role, role).split()
    found = [one for name in usual for one in names if one.words == name]
    if not found and not exact:
        found = [one for name in usual for one in names if len(name) > 1 and f"_{name}_" in f"_{one.words}_"]
    return found[0] if found else None


def _speakers(columns: Iterable[Column]) -> list[Column]:
    """Columns of who spoke. Beside a question without another answer, an assistant's words are the class it chose."""
    texts = [column for column in columns if column.is_text]
    speakers = [column for column in texts if column.names_speakers]
    rest = [column for column in texts if column not in speakers]
    if not _named(rest, "question", exact=True) or _named(rest, "answer"):
        return speakers
    return [column for column in speakers if column.words in ("user", "human") or column.has_digits]


def _guess_inputs(free: list[Column], rubric: Rubric, fixed: ColumnRoles, take: Any, no_texts: list[Column]) -> None:
    """Inputs by name; a chat stands for question and answer; then texts by their order."""
    made = {*fixed.inputs, *(CHAT_INPUTS if fixed.columns("messages") else ())}
    wanted = [name for name in rubric.input_names if name not in made]
    known = [_named(free, name) for name in NEW_INPUTS]

    def find(name: str, columns: list[Column], *, exact: bool) -> None:
        own = next((one for one in columns if one in free and one.words == name.casefold()), None)
        column = own or _named([one for one in columns if one in free], name, exact=exact)
        if column is not None and name in wanted:
            take(column, f"input: {name}")
            wanted.remove(name)

    pair = _pair(one for one in free if one.is_text)
    sides = [*_NAMES["answer_a"].split(), *_NAMES["answer_b"].split()]
    chats = [one for one in free if one.is_chat and one not in pair and one.words not in sides]
    coded = [one for one in free if one.values and len(one.texts) > 2 * MOST_LABELS and is_rating(one.words)]
    coded += [one for one in free if one.holds_decisions or one in no_texts]
    others = [one for one in free if one.is_text and one not in (*chats, *coded)]
    for name, column in zip(("answer_a", "answer_b"), pair, strict=False):
        if name in wanted:
            take(column, f"input: {name}")
            wanted.remove(name)
    for name in rubric.input_names:
        find(name, others, exact=True)
    if chats and "conversation" in {*rubric.required_inputs} & {*wanted}:
        take(chats[0], "input: conversation")
    elif chats and {"question", "answer"} <= {*wanted}:
        take(chats[0], "messages")
        return
    scores = [one for one in others if isinstance(one.present[0], Mapping) and is_rating(one.words)]
    others = [
        one for one in others if one not in scores and (one.code_form or any(" " in text for text in one.distinct))
    ]
    for name in sorted(rubric.input_names, key=lambda name: name != "reference"):  # of expected_answer
        find(name, others, exact=False)
    for name in ("question", "answer"):
        if name in wanted and name in rubric.required_inputs:
            rest = [one for one in others if one in free and one not in known and one.longest >= _SHORTEST_TEXT]
            take(next((one for one in rest if isinstance(one.present[0], str)), None), f"input: {name}")


def _pair(columns: Iterable[Column]) -> list[Column]:
    """The columns of the two answers of a pair; empty if there are none, or more than two."""
    found: dict[str, dict[str, Column]] = {}
    for column in columns:
        for side in _SIDE.finditer(column.words):
            stem = column.words[: side.start()] + column.words[side.end() :]
            found.setdefault(stem.strip("_"), {})[side[1]] = column
    ranks = {}
    for stem, sides in found.items():
        words = stem.split("_")
        holds_texts = all(any(" " in text for text in column.distinct) for column in sides.values())
        is_answer = not {*words}.isdisjoint(_NAMES["answer"].split())
        if sorted(sides) in _SIDES and {*words} <= {*_PAIRED} and (is_answer or holds_texts):
            ranks[stem] = min(map(_PAIRED.index, words))
    if not ranks:
        return []
    sides = found[min(ranks, key=ranks.__getitem__)]
    return [sides[name] for name in sorted(sides)]


def _guess_labels(free: list[Column], rubric: Rubric, take: Any) -> None:
    """Labels by name and values; columns without such a name only if there are two or more of them."""
    only = len(rubric.criteria) == 1
    for criterion in rubric.criteria:
        people = [column for column in free if not (is_machine(column.words) or is_about(column.words))]
        fitting = [column for column in people if column.fits(criterion.scale)]
        nearly = [column for column in people if column.fits(criterion.scale, MOST_OFF)]
        named = [one for one in nearly if criterion.name in one.words or (only and one.is_named_as_rating)]
        codes = [one for one in fitting if len(one.values) > 1 and not one.words_read(criterion.scale)]
        plain = [one for one in codes if not NO_LABEL.search(one.words)]
        for column in named or (plain if only and len(plain) > 1 else []):
            take(column, f"label: {criterion.name}")


def suggest_rubric(columns: Mapping[str, Column]) -> Rubric:
    """The shipped rubric that suits the columns best; if none does, a new one."""
    if own_criteria_of(columns.values()) is not None:
        return load_rubric("requirement")
    words = " ".join(column.words for column in columns.values() if column.values)
    for rubric in sorted(map(load_rubric, _BY_INPUTS), key=lambda one: one.id[:7] not in words):
        roles = guess_roles(columns, rubric)
        missing = {*rubric.required_inputs} - {*roles.inputs}
        if roles.column("messages"):
            missing -= {"question", "answer"}
        if not missing or (rubric.mode == "pairwise" and missing == {"question"}):
            return rubric
    return new_rubric(columns)


def new_rubric(columns: Mapping[str, Column], roles: ColumnRoles | None = None, rubric_id: str = NEW) -> Rubric:
    """A rubric of one criterion from the inputs in `roles`; its scale has the values of the columns of labels.

    If some of these columns hold numbers, the scale has those numbers; else it is nominal and its levels are words.
    """
    if roles is None:
        texts = [one for one in columns.values() if one.is_text]
        inputs = [name for name in NEW_INPUTS if _named(texts, name, exact=True)]
        ratings = [column for column in columns.values() if column.is_named_as_rating]
        labels = [column for column in ratings if column.is_number or column.looks_like_labels]
    else:
        inputs = list(dict.fromkeys([*(CHAT_INPUTS if roles.columns("messages") else ()), *roles.inputs]))
        if "answer" in inputs:
            inputs = [f"{name}?" if name == "conversation" else name for name in inputs]
        labels = [columns[name] for name in roles.columns("label: ")]
    criterion = {"name": "quality", "description": "Does the answer do what was asked for?"}
    scale = _word_scale(labels) if not any(one.is_number and one.values for one in labels) else {}
    criteria = [criterion | (scale or _number_scale(labels))]
    return Rubric(id=rubric_id, description="Is the answer good?", inputs=inputs or ["answer"], criteria=criteria)


def _word_scale(labels: Iterable[Column]) -> dict[str, Any]:
    """A nominal scale whose levels are the words of these columns; empty if they have too many or only one."""
    texts = sorted(canonical_text(str(cell)).strip() for one in labels for cell in one.values)
    words = {text.casefold(): text for text in texts}
    if not 1 < len(words) <= MOST_LABELS or any(len(text.splitlines()) > 1 for text in texts):
        return {}
    verdicts = {text: verdict_word(text) for text in words.values()}
    if None in verdicts.values() or "true" not in verdicts.values():
        return {"level": "nominal", "scale": {text: text for text in words.values()}}
    meanings = {"true": "Fully.", "false": "Not fully."}  # and those who are unsure give no label
    levels = {text: meanings[word] for text, word in verdicts.items() if word}
    if len(levels) < 2:
        return {}
    return {"level": "nominal", "scale": levels, "pass_if": [text for text in levels if verdicts[text] == "true"]}


def _number_scale(labels: Iterable[Column]) -> dict[str, Any]:
    """An ordinal scale with the numbers of these columns, without gaps where they are few; by default 0, 1 and 2."""
    codes = [number(value) for one in labels if one.is_number for value in one.values]
    numbers = sorted({code for code in codes if code is not None})
    if not 1 < len(numbers) <= MOST_LABELS:
        numbers = [0, 1, 2]
    elif all(isinstance(code, int) for code in numbers) and numbers[-1] - numbers[0] < MOST_LABELS:
        numbers = list(range(int(numbers[0]), int(numbers[-1]) + 1))
    ends = {numbers[0]: "Not at all.", numbers[-1]: "Fully."}
    return {"scale": {code: ends.get(code, "In part.") for code in numbers}, "pass_at": numbers[-1]}


def carry_over(
    columns: Mapping[str, Column], roles: ColumnRoles, chosen: Mapping[str, str], rubric_id: str = NEW
) -> tuple[Rubric, ColumnRoles]:
    """A new rubric from the roles under another one: what was an input stays one, and labels give the scale."""
    kept = {name: role for name, role in roles.roles.items() if role and not role.startswith("label: ")} | dict(chosen)
    ratings = [one for one in columns.values() if one.is_named_as_rating and (one.is_number or one.looks_like_labels)]
    used = [columns[name] for name, role in roles.roles.items() if role]
    # those of several criteria are no annotators of one
    rated = [one for one in ratings if one not in used] if len(roles.labels) > 1 else [*used, *ratings]
    labels = dict.fromkeys((one.name for one in rated if one.name not in kept), "label: quality")
    rubric = new_rubric(columns, ColumnRoles({**kept, **labels}), rubric_id)
    scale = rubric.criteria[0].scale
    fitting = {name: labels[name] for name in labels if columns[name].fits(scale)}
    return rubric, guess_roles(columns, rubric, kept | fitting)
