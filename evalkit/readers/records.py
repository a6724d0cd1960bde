"""The record that a reader is, and how fields are renamed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evalkit.errors import EvalkitError, InputError, listed

CRITERIA = "criteria"
"""What a reader of criteria reads: the cell of one item. It returns a list of mappings in evalkit's own form."""

LABELS = "labels"
"""What a reader of labels reads: a list of records. It returns one mapping for each answer of a person to a question.

Its fields: ``criterion`` (the question), ``label`` (one, or a list of several) or ``kind`` (of an answer that is no
label), ``annotator`` (a name, a number or None), ``id`` (of the tool for the item), ``fields`` (of the item), optional
``at`` (when, as text in ISO 8601).
"""

TRACES = "traces"
"""What a reader of traces reads: a list of records, as its file has them. It returns one item per trace: ``messages``
in evalkit's form, ``task``, and if it has them ``tools``, ``item_id``, ``group_id``, ``system_id`` and further columns.
"""


@dataclass(frozen=True, slots=True)
class Reader:
    """A form that another program writes, and the function that reads it.

    Attributes
    ----------
    name
        The name by which users ask for it.
    reads
        What it reads: ``criteria``, ``labels`` or ``traces``.
    read
        A function from one JSON value, such as the criteria of one item, to the same in evalkit's own form. What it
        does not know, it leaves as it is: evalkit then refuses it by name. It raises `InputError` for another form.
    fits
        Of labels: whether records are of exactly this form; without it, the reader has to be named.
    opens
        Of traces: a function from a path to its records, or to None if the file is to be read as JSON or a table.

    Examples
    --------
    >>> Reader("mine", "criteria", lambda cell: [renamed(entry, {"label": "text"}) for entry in cell])
    Reader(name='mine', reads='criteria', read=<function <lambda> at 0x...>, fits=None, opens=None)
    """

    name: str
    reads: str
    read: Callable[[Any], Any]
    fits: Callable[[Any], bool] | None = None
    opens: Callable[[str], Any] | None = None


def read_by(reader: Reader, value: Any, advice: str) -> Any:
    """What a reader makes of a value; errors name it, also those that it does not expect itself."""
    try:
        result = reader.read(value)
        return [*result] if isinstance(result, Iterator) else result
    except InputError as problem:
        raise InputError(f"reading the form {reader.name!r}: {problem}") from None
    except EvalkitError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as problem:
        raise InputError(
            f"reading the form {reader.name!r}: something is not as it documents it ({problem!r}); {advice}"
        ) from problem


def renamed(entry: Any, names: Mapping[str, str], unused: Collection[str] = ()) -> Any:
    """An entry with evalkit's names of its fields; `names` maps the foreign ones to them, `unused` are left out.

    Other fields, and what is no mapping, come back as they are.

    Raises
    ------
    InputError
        When two fields of the entry get one name.

    Examples
    --------
    >>> renamed({"title": "Cites", "weight": 2, "color": "red"}, {"title": "text", "weight": "points"}, ["color"])
    {'text': 'Cites', 'points': 2}
    """
    if not isinstance(entry, Mapping):
        return entry
    result: dict[str, Any] = {}
    for name, value in entry.items():
        if name in unused:
            continue
        if (own_name := names.get(name, name)) in result:
            fields = [field for field in entry if names.get(field, field) == own_name]
            raise InputError(f"the fields {listed(fields)} both give {own_name!r}; drop one of them")
        result[own_name] = value
    return result
