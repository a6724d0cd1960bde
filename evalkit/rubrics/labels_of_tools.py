"""Labels that people gave elsewhere: exports of Label Studio and Argilla, evalkit's own log, and tables.

It is one module since all shapes become one table, by the same rules on who is a person and what is a label.
"""

from __future__ import annotations

import warnings
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import orjson
import pandas as pd

from evalkit.core.reply_keys import canonical_json
from evalkit.errors import EvalkitWarning, InputError, counted, listed
from evalkit.readers.finding import find, recognized
from evalkit.readers.records import LABELS, Reader, read_by
from evalkit.rubrics.criteria import Criterion
from evalkit.rubrics.human_labels import COUNTED, OF_LOG, TEXT_HASH, as_labels, as_worded, label_of, label_text
from evalkit.rubrics.profiles import RubricLike, rubric_of
from evalkit.rubrics.rubric import Rubric
from evalkit.rubrics.scales import code_text
from evalkit.tables.files import read_frame, records, write_frame
from evalkit.tables.grouping import refuse_doubles
from evalkit.tables.items import ItemsLike, as_frame, as_items, canonical, is_missing
from evalkit.tables.schemas import LABEL_KEY, check, columns_of, id_text

_Row = dict[str, Any]
_Wanted = Mapping[str, str] | None
_FORMS = (
    "the JSON export of Label Studio, dataset.records.to_list(flatten=True) of Argilla (in memory or as JSON), a log "
    "of evalkit's tuner or label page, a table with item_id, criterion, annotator and label (other names by "
    "frame.rename(columns={'id': 'item_id'}); a column per question by frame.melt(id_vars=['item_id', 'annotator'], "
    "value_vars=['tone', 'style'], var_name='criterion', value_name='label')), or any other form with reader= that "
    "reads it; ek.extract_labels reads labels beside the texts of items"
)


def load_labels(
    source: str | Path | ItemsLike,
    *,
    rubric: RubricLike | None = None,
    criteria: Mapping[str, str] | None = None,
    item_id: str | None = None,
    reader: str | None = None,
) -> pd.DataFrame:
    """The labels of people in an export of Label Studio or Argilla, in evalkit's own log, or in a table of labels.

    What a model said is left out: predictions of Label Studio, annotations that were made from predictions without a
    person, suggestions of Argilla. So is what a person skipped, discarded or did not submit, what a reviewer rejected,
    and what a lead decided.
    Of several labels of one person for one thing, the last counts.

    Parameters
    ----------
    source
        A path, as for `load_items`; or records in memory, such as ``dataset.records.to_list(flatten=True)`` of Argilla.
    rubric
        A Rubric, a Profile or the name of one. Labels are then read as by `extract_labels`: codes, names of levels,
        and words such as *ok*; questions that are no criterion are left out.
    criteria
        The tool's question -> criterion, as in ``{"quality": "helpfulness"}``; other questions are left out.
    item_id
        The field of an item that has its id: by default `item_id`, else the id that the tool gave.
    reader
        The name of a reader of labels (see `evalkit.readers`), for a form of another tool. Exports of Label Studio
        (JSON) and Argilla (``to_list(flatten=True)``) are recognized without it.

    Returns
    -------
    pandas.DataFrame
        Columns `item_id`, `criterion`, `annotator`, `label`; from a log of evalkit also `source`, `probability`,
        `blind`, `round`; `text_hash`, by which `evaluate` and all that has the items leave out labels of texts that
        changed since; `levels` and, without `rubric`, `question_hash`, by which all that has the rubric leaves out
        labels if levels have another code now, and warns of labels that were given to another wording.
        A person is named by email address or else by number.

    Raises
    ------
    InputError
        For a file of another form, a question whose answers are no labels (a text, spans, a ranking), several answers
        to one question, or a label that is not on the scale.

    Examples
    --------
    >>> task = {"id": 7, "data": {"answer": "Yes."}, "predictions": [], "annotations": [{"completed_by": 3, "result": [
    ...     {"from_name": "tone", "type": "choices", "value": {"choices": ["kind"]}}]}]}
    >>> load_labels([task]).to_dict("records")
    [{'item_id': '7', 'criterion': 'tone', 'annotator': '3', 'label': 'kind'}]
    """
    where = str(source) if isinstance(source, (str, Path)) else "the labels"
    frame = _read(Path(source)) if isinstance(source, (str, Path)) else as_frame(source)
    scales = None if rubric is None else rubric_of(rubric)
    criterion_of = criteria or (None if scales is None else {name: name for name in scales.names})
    names = {*map(str, frame.columns)}
    rows = [{name: value for name, value in row.items() if value is not None} for row in records(frame)]
    foreign = recognized(rows, LABELS) if reader is None else find(reader, LABELS)
    if foreign is not None:
        answers = _of_tool(foreign, rows, item_id, where, criterion_of if criteria is None else None)
    elif {"text", "at", *LABEL_KEY} <= names:
        answers = _of_log(rows, None if criteria else scales, where)
    elif {"item_id", "label"} <= names:
        plain = as_labels(frame, rubric=scales)
        refuse_doubles(plain[plain["label"].notna()], LABEL_KEY, "labels")
        answers = records(plain)
    else:
        raise InputError(
            f"{where} has no labels of people in a known form (columns: {listed(sorted(names), most=12)}); allowed: "
            f"{_FORMS}"
        )
    try:
        labels = _table(answers, scales, criterion_of, where)
        return labels if scales is None else as_worded(labels, scales)
    except InputError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise InputError(f"{where} is not as the tool writes it ({problem!r}); allowed: {_FORMS}") from None


def _of_tool(reader: Reader, rows: list[_Row], name: str | None, where: str, wanted: _Wanted) -> Iterator[_Row]:
    """The answers that a reader reads, with the ids of items and what was shown; a warning names what is not wanted."""
    answers = read_by(reader, rows, f"{where} is not as the tool writes it; allowed: {_FORMS}")
    questions = {answer["criterion"]: None for answer in answers if wanted is not None}
    if others := [question for question in questions if question not in (wanted or ())]:
        warnings.warn(
            f"{where}: questions that are no criterion of the rubric, left out: {listed(others)}; "
            "criteria={'question': 'criterion'} reads them",
            EvalkitWarning,
            stacklevel=4,
        )
    for answer in answers:
        fields = answer["fields"]
        item_id = canonical(fields.get(name or "item_id", None if name else answer["id"]))
        if item_id is None or isinstance(item_id, (list, dict)):
            raise InputError(
                f"{where}: an item has no id in the field {name or 'item_id'!r}; it has {listed(fields, most=20)}; "
                "pass item_id= with the field that has it"
            )
        person = "people" if is_missing(answer["annotator"]) else str(answer["annotator"])
        contents = sorted((key, str(value)) for key, value in fields.items() if value not in (None, ""))
        yield answer | {"item_id": str(item_id), "annotator": person, "shown": contents}


def _read(path: Path) -> pd.DataFrame:
    """A file; of a log of evalkit without the lines that a full disk or a crash cut, as its pages read it."""
    if path.suffix == ".jsonl" and path.is_file():
        rows, cut = log_lines(path.read_bytes(), path)
        if any({"text", "at", *LABEL_KEY} <= {*row} for row in rows):
            if cut:
                warnings.warn(f"{path}: {cut_lines(cut)}", EvalkitWarning, stacklevel=3)
            return pd.DataFrame(rows)
    return read_frame(path)


def log_lines(text: bytes, path: Path, first: int = 1) -> tuple[list[_Row], list[int]]:
    """The lines of a log, and the numbers of those that cannot be read, counted from `first`.

    Raises
    ------
    InputError
        For a text in another encoding than UTF-8, and where no line can be read or was cut.
    """
    rows, cut = list[_Row](), list[int]()
    for n, line in enumerate((raw.removeprefix(BOM_UTF8).strip(b"\0 \t\r") for raw in text.split(b"\n")), first):
        if (row := _object(line)) is not None:
            rows.append(row)
        elif line and _object(line.decode("latin-1").encode()) is not None:
            raise InputError(f"{path}, line {n} is not in UTF-8; save it in UTF-8, or restore a copy of it")
        elif line:
            cut.append(n)
    if len(cut) > 1 and first == 1 and not rows:  # one alone may be the cut first label
        raise InputError(f"{path} has no line that is a JSON object in UTF-8; restore a copy, or name another file")
    return rows, cut


def cut_lines(numbers: list[int]) -> str:
    """Lines that `log_lines` cannot read, in words."""
    which, n_lines = ", ".join(map(str, numbers)), counted(len(numbers), "line")
    return f"{n_lines} of the log left out, as cut or none of a log (line {which})." * bool(numbers)


def _object(line: bytes) -> _Row | None:
    with suppress(orjson.JSONDecodeError):
        row = orjson.loads(line)
        # another program that wrote the log again may have made numbers of texts, or left out who labelled
        if isinstance(row, dict) and (row.get("annotator") or not {"item_id", "text", "at", "label"} <= row.keys()):
            numbers = {name for name in ("item_id", "label") if type(row.get(name)) in (int, float)}
            return row | {name: id_text(row[name]) for name in numbers}
    return None


def _table(answers: Iterable[_Row], rubric: Rubric | None, criterion_of: _Wanted, where: str) -> pd.DataFrame:
    """The last answer of each person to each question, without decisions of a lead.

    `at` of a row says when it was answered, and `shown` to what: labels of two answers with one id would be one's.
    """
    lines, rows = list(answers), list[_Row]()
    moments = pd.to_datetime([str(row.get("at") or "") for row in lines], utc=True, errors="coerce", format="ISO8601")
    answered = [lines[n] for n in moments.fillna(pd.Timestamp(0, tz="UTC")).argsort(kind="stable")]
    names = {row["criterion"]: row["criterion"] for row in answered} if criterion_of is None else criterion_of
    of_people = [row for row in answered if row["criterion"] in names and row.get("source") != "adjudicated"]
    contents = {row["item_id"]: str(row.get("shown")) for row in of_people}
    if ids := sorted({row["item_id"] for row in of_people if str(row.get("shown")) != contents[row["item_id"]]}):
        raise InputError(
            f"{where}: several tasks or records with other contents have one id: {listed(ids, most=5)}; give each "
            "answer an id of its own and pass its field, as in item_id='answer_id'"
        )
    last = {(row["item_id"], names[row["criterion"]], row["annotator"]): row for row in of_people}
    if answered and not last:
        questions = sorted({row["criterion"] for row in answered})
        raise InputError(
            f"{where} has labels for {listed(questions)}, and none for {listed(criterion_of or ())}; say what they are "
            f"for, as in criteria={{{questions[0]!r}: 'criterion'}}"
        )
    for key, row in last.items():
        of_whom = f"{where}: item {key[0]!r}, {row['criterion']!r} by {key[2]!r}"
        value = _single(row, of_whom)
        scale = None if rubric is None else rubric.criterion(key[1]).scale
        if not is_missing(value) and str(value).strip():
            more = {name: row[name] for name in OF_LOG if name in row}
            rows.append(dict(zip(LABEL_KEY, key, strict=True)) | {"label": label_of(value, scale, of_whom)} | more)
    return check(pd.DataFrame(rows, columns=None if rows else columns_of("labels"), dtype=object), "labels")


def _single(row: _Row, where: str) -> Any:
    """The only label in an answer; None if there is none."""
    if "label" not in row:
        raise InputError(
            f"{where}: answers of kind {row['kind']} are no labels; name the questions that give labels, as in "
            "criteria={'question': 'criterion'}"
        )
    values = list(dict.fromkeys(row["label"])) if isinstance(row["label"], list) else [row["label"]]
    if len(values) > 1:
        raise InputError(f"{where}: expected one answer, got {listed(values)}; a label is one level of a scale")
    value = values[0] if values else None
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _of_log(rows: list[_Row], rubric: Rubric | None, where: str) -> Iterator[_Row]:
    """The labels that stand at the end of a log, of the text that each item had last; a warning counts others."""
    edits, gone = dict[tuple[str, ...], list[_Row]](), 0
    scales = {} if rubric is None else {question.name: question.scale for question in rubric.criteria}
    edited = [row for row in rows if {"text", *LABEL_KEY} <= {*row}]
    texts = {row["item_id"]: row["text"] for row in edited}
    for row in edited:
        lines = edits.setdefault(tuple(row[name] for name in LABEL_KEY), [])
        lines[-1:] = [] if row.get("undo") is True else [*lines[-1:], row]
    for lines in edits.values():
        if lines and lines[-1]["text"] == texts[lines[-1]["item_id"]]:
            line = _standing(lines)
            row = dict.fromkeys((*OF_LOG, "label")) | line | {TEXT_HASH: line["text"]}
            scale = scales.get(row["criterion"])
            is_on_it = not isinstance(row["label"], str) or label_text(row["label"], scale) is not None
            gone += row["label"] is not None and not (is_on_it and row["criterion"] in (scales or {row["criterion"]}))
            yield from [row] * is_on_it
    if gone and rubric is not None:
        warnings.warn(
            f"{where}: {counted(gone, 'label')} on no criterion or level that rubric {rubric.id!r} has now, left out",
            EvalkitWarning,
            stacklevel=4,
        )


def _standing(lines: list[_Row]) -> _Row:
    """The last of one person's labels; one of an item drawn at random stands, whatever was said outside that order."""
    valid = takewhile(lambda line: line.get("label") is not None and line["text"] == lines[-1]["text"], reversed(lines))
    return next((line for line in valid if line.get("source") in (None, *COUNTED)), lines[-1])


def write_label_studio(path: str | Path, items: ItemsLike, rubric: RubricLike) -> str:
    """Write items as tasks that Label Studio imports.

    Parameters
    ----------
    path
        The file (.json) to write.
    items, rubric
        As for `judge`.

    Returns
    -------
    str
        The labeling interface of the rubric: paste it into the project's settings, *Labeling Interface*, *Code*. The
        export of the project is what `load_labels` reads.

    Examples
    --------
    >>> import tempfile
    >>> item, path = {"item_id": "a", "answer": "Yes."}, Path(tempfile.mkdtemp(), "tasks.json")
    >>> scale = {"name": "tone", "scale": {1: "rude", 2: "kind"}}
    >>> interface = write_label_studio(path, [item], Rubric(id="r", inputs=["answer"], criteria=[scale]))
    >>> interface.splitlines()[1], path.read_text().strip()
    ('<Header value="answer"/><Text name="answer" value="$answer"/>', '[{"data":{"answer":"Yes.","item_id":"a"}}]')
    """
    scales = rubric_of(rubric)
    names, tasks = scales.input_names, list[_Row]()
    # Label Studio takes no name twice: a text that is called as a question gets another one
    name_of = {name: name if name not in scales.names else f"{name}_text" for name in names}
    shown_input = name_of["answer" if "answer" in names else names[-1]]  # what the questions are attached to
    for item in records(as_items(items)):
        texts = dict.fromkeys(names, "")  # Label Studio wants all that the interface shows
        for name, value in item.items():
            if value is not None:
                texts[name] = value if isinstance(value, str) else canonical_json(value).decode()
        tasks.append({"data": texts})
    write_frame(pd.DataFrame(tasks), path)
    parts = [f'<Header value="{name}"/><Text name="{name_of[name]}" value="${name}"/>' for name in names]
    return "\n".join(
        ["<View>", *parts, *(_control(criterion, shown_input) for criterion in scales.criteria), "</View>"]
    )


def _control(criterion: Criterion, shown: str) -> str:
    """The part of the labeling interface that asks for a criterion; `alias` is what Label Studio stores."""
    name = f"name={quoteattr(criterion.name)} toName={quoteattr(shown)}"
    header = f"<Header value={quoteattr(criterion.description or criterion.name)}/>"
    if not criterion.scale.codes or criterion.scale.level == "interval":
        ends = "" if criterion.scale.is_open else f' min="{criterion.scale.lowest:g}" max="{criterion.scale.highest:g}"'
        return f"{header}<Number {name}{ends}/>"
    codes = [(quoteattr(code_text(code)), quoteattr(text or code_text(code))) for code, text in criterion.scale.items()]
    levels = "".join(f"<Choice alias={code} value={text}/>" for code, text in codes)
    return f'{header}<Choices {name} choice="single">{levels}</Choices>'
