"""Items as forms of all that a person answers about them, and one person's way through them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from evalkit.core.settings import check_choice
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
from evalkit.errors import EvalkitWarning, InputError, counted, listed
from evalkit.evaluation.evaluation import columns_of
from evalkit.evaluation.suggestions.cases import groups_of
from evalkit.notebook.judgments.item_details import item_texts, levels_of, scale_of_item
from evalkit.notebook.labelling.label_log import LOG, LabelEdit, LabelLog
from evalkit.notebook.labelling.label_queue import random_order
from evalkit.notebook.tuner.drafts import Setup
from evalkit.rubrics.human_labels import text_hashes
from evalkit.rubrics.profiles import RubricLike
from evalkit.rubrics.rubric import REQUIREMENT
from evalkit.rubrics.scales import Scale, code_text, number
from evalkit.tables.files import records
from evalkit.tables.items import ItemsLike
from evalkit.tables.schemas import id_text

_LONGEST_COMMENT, _MOST_EARLIER = 10_000, 200
_IN_DATA = re.compile(r"(?<=image, )not shown(?=: (?!https?:)|$)")  # of a picture that is no address

_SHOWN = (None, "unseen_image")  # why no judge is asked

Key = tuple[str, str]
"""A row of the items and a criterion."""

Action = Callable[[Mapping[str, Any]], None]


class Forms:
    """The items as forms, in the order in which they are labelled, and the log of their labels.

    The rows of `explode_criteria` that belong to one item are one form.

    Attributes
    ----------
    questions
        Name of a form -> its questions.
    form_of, row_of
        Row of the items -> name of its form, and its cells.
    drawn
        Question -> probability and round of its draw; empty if all items are labelled.
    source
        How the items are chosen (see `LabelEdit`).
    """

    def __init__(
        self, items: ItemsLike | str | Path, rubric: RubricLike, labels: str | Path | None,
        order: str | pd.DataFrame, item_id: str | None, inputs: Mapping[str, str] | None,
    ) -> None:  # fmt: skip
        # a judge has to be named; it is not asked
        spec = Spec.of(rubric, "fake:strict", inputs=inputs, on_missing="skip")
        setup = Setup.of(items, rubric, spec, item_id, {})
        with warnings.catch_warnings():  # people see the pictures that judges cannot be shown
            warnings.filterwarnings("ignore", ".* an image or a file in an input", EvalkitWarning)
            worklist = Worklist.of(spec, setup.items)
        if n_files := list(worklist.skipped.values()).count("unseen_file"):
            fact = counted(n_files, "item has", "items have")
            warnings.warn(f"{fact} a file that the page cannot show; left out", EvalkitWarning, stacklevel=3)
        self.items, self.rubric = setup.items, spec.rubric
        folder, name = setup.place()
        path = folder / f"{name}{LOG}" if labels is None else Path(labels)
        self.groups = groups_of(self.items, worklist.clusters)
        self.columns = columns_of(self.rubric, spec.inputs, self.items)
        self.log = LabelLog(path, text_hashes(self.rubric, self.items, spec.inputs), None, self.rubric, self.groups)
        self.log.read()
        if self.log.reworded:
            warnings.warn(f"{path}: {self.log.reworded}", EvalkitWarning, stacklevel=3)
        self.source = order if isinstance(order, str) else "disputed"
        check_choice("order", self.source, ("random", "given", "disputed"))
        self.is_exploded = "of_item" in self.items and REQUIREMENT in self.columns
        self._requirement = self.columns.pop(REQUIREMENT) if self.is_exploded else ""
        units = map(id_text, self.items["of_item" if self.is_exploded else "item_id"])
        self.row_of = dict(zip(self.items["item_id"], self.items.to_dict("records"), strict=True))
        rows = enumerate(zip(self.items["item_id"], units, strict=True))
        self.form_of = {item: unit for row, (item, unit) in rows if worklist.skipped.get(row) in _SHOWN}
        self.drawn = self._draw(order) if self.source == "disputed" else {}
        questions: dict[str, list[Key]] = {}
        for item, unit in self.form_of.items():
            for name in self.rubric.names:
                if not self.drawn or (item, name) in self.drawn:
                    questions.setdefault(unit, []).append((item, name))
        if not questions:
            raise InputError("nothing to label: no item has all inputs of the rubric, or none of them is drawn")
        names = questions if self.source == "given" else random_order(questions)
        self.questions = {unit: questions[unit] for unit in names}

    def _draw(self, order: str | pd.DataFrame) -> dict[Key, tuple[float, int]]:
        """The drawn questions of these items: those of a table, which the log then has, or of the log's last draw."""
        draws, questions = self.log.draws, dict[Key, tuple[float, int]]()
        if isinstance(order, pd.DataFrame):
            for (name, draw_round), chances in self._drawn_by(order).items():
                noted = [earlier for earlier, chosen_by in draws.get(name, []) if chosen_by == chances]
                numbers = [earlier for earlier in noted if draw_round in (None, earlier)]
                if not numbers:
                    self.log.add_draw(name, chances, draw_round)
                    numbers = [draws[name][-1][0]]
                questions |= {(item, name): (chance, numbers[0]) for item, chance in chances.items()}
        else:
            last = [(name, *newest) for name in self.rubric.names for newest in draws.get(name, [])[-1:]]
            questions = {(item, name): (chances[item], turn) for name, turn, chances in last for item in chances}
            questions = {key: draw for key, draw in questions.items() if key[0] in self.form_of and _is_chance(draw[0])}
        if not questions:
            fact = "order= draws none of these items for a criterion of the rubric, or the log has no draw of the tuner"
            raise InputError(f"{fact}; press Disputed in the tuner, or pass order=ek.next_labels(…)")
        return questions

    def _drawn_by(self, table: pd.DataFrame) -> dict[tuple[str, int | None], dict[str, float]]:
        """Criterion and round of a table -> its items that are here, with the probability of each."""
        if missing := {"item_id", "criterion", "probability"} - {*table.columns}:
            raise InputError(f"order= has no column {listed(sorted(missing))}; pass what ek.next_labels returned")
        chosen: dict[tuple[str, int | None], dict[str, float]] = {}
        for row in records(table):
            item, name = id_text(row["item_id"]), row["criterion"]
            chance, draw_round = row["probability"], row.get("round")
            if name in self.rubric.names and item in self.form_of:
                if not _is_chance(chance):
                    fact = f"order=, item {item!r}, criterion {name!r}: the probability is {chance}"
                    raise InputError(f"{fact}; it must be above 0 and at most 1, as ek.next_labels returns it")
                turn = draw_round if draw_round is None else int(draw_round)
                chosen.setdefault((name, turn), {})[item] = float(chance)
        return chosen

    def is_done(self, name: str, given: Container[Key]) -> bool:
        """Whether all questions of a form have an answer."""
        return all(key in given for key in self.questions[name])

    def why_skipped(self, name: str, annotator: str) -> str | None:
        """Why this person skipped the form; None if they did not."""
        reasons = (self.log.why_skipped(item, annotator) for item, _ in self.questions[name])
        return next((reason for reason in reasons if reason is not None), None)

    def texts(self, key: Key) -> dict[str, Any]:
        """What is read to answer a question (see `item_texts`); a requirement stands in the form."""
        texts = item_texts(self.items, self.columns, key[0], self.rubric, key[1])
        for row, (name, text) in enumerate(texts["inputs"]):
            form = texts["forms"][name]
            if n_shown := len(form["images"]):
                texts["inputs"][row] = name, _IN_DATA.sub("shown below", text, n_shown)
                form["turns"] = [(n, _IN_DATA.sub("shown below", who), words) for n, who, words in form["turns"]]
        return texts

    def _scale(self, key: Key) -> Scale:
        """The scale of a question: that of its criterion, or the steps of its item."""
        row = self.row_of[key[0]]
        values = {name: row[column] for name, column in self.columns.items()}
        return scale_of_item(self.rubric.criterion(key[1]), values)

    def answer(self, key: Key, given: object) -> str:
        """The code of an answer; InputError if it is none that the page offers."""
        scale = self._scale(key)
        is_number = scale.level == "interval" and isinstance(given, str) and number(given) is not None
        if not is_number and given not in scale.labels:
            raise InputError(f"not saved: {given!r} is no answer to {key[1]!r}; allowed: {listed(scale.labels)}")
        return code_text(number(given) or 0) if is_number else str(given)

    def question(self, key: Key) -> dict[str, Any]:
        """A question as it is drawn: title and text, and its levels as code, text and key, or the ends of its scale."""
        criterion, scale, row = self.rubric.criterion(key[1]), self._scale(key), self.row_of[key[0]]
        title = str(row[self._requirement]) if self.is_exploded else criterion.name
        levels = [(code, text or code, key) for code, text, key in levels_of(scale)]
        ends = [scale.lowest, scale.highest] if scale.level == "interval" else None
        return {"title": title, "text": criterion.description, "levels": levels, "ends": ends}


class PersonScreen:
    """One person's way through the forms: the next one, its answers, what was skipped and undone.

    Attributes
    ----------
    shown
        The name of the form on screen; empty at the end.
    """

    def __init__(self, forms: Forms, annotator: str, *, show_others: bool) -> None:
        self.forms, self.annotator, self.show_others = forms, annotator, show_others
        self.shown, self._number, self._drawn = "", 0, -1
        self._back, self._taken_back = "", dict[Key, LabelEdit]()  # what was answered stays chosen after Undo
        self._seen = dict[str, dict[Key, str]]()  # form that was on this screen -> its answers, as this screen has them
        self.actions: dict[str, Action] = {"save": self.save, "skip": self.skip, "undo": self.undo, "open": self.open}

    def payload(self) -> dict[str, Any]:
        """The form to fill in next, with nothing of judges, and nothing of others unless they are to be shown."""
        forms, log, who = self.forms, self.forms.log, self.annotator
        given = log.given_by(who, forms.source)
        open_forms = [name for name in forms.questions if not forms.is_done(name, given)]
        skipped = {name: why for name in open_forms if (why := forms.why_skipped(name, who)) is not None}
        acts = [(forms.form_of.get(item, ""), name) for item, name in log.acts(who)]
        again = [form for form in reversed(dict.fromkeys(form for form, name in acts if not name)) if form in skipped]
        ahead = [name for name in open_forms if name not in skipped]
        back, number = self._back if self._back in forms.questions else "", self._number
        if number == self._drawn and len(self._seen.get(back, ())) < len(forms.questions.get(back, ())):
            back = back if back in open_forms else ""  # answered in another window meanwhile
        form_shown = next(iter([*filter(None, [back]), *ahead, *again]), "")
        if (form_shown, number) != (self.shown, self._drawn):
            self.shown, self._drawn = form_shown, number
            self._seen[form_shown] = {
                key: given[key].label or "" for key in forms.questions.get(form_shown, ()) if key in given
            }
        closed = forms.questions.keys() - {*ahead, form_shown}
        earlier = [form for form in dict.fromkeys(form for form, _ in acts) if form in closed]
        payload = {
            "view": "label", "number": self._number, "annotator": who, "others": self.show_others, "form": self.shown,
            "title": forms.rubric.id, "description": forms.rubric.description, "n": len(forms.questions),
            "n_done": len(forms.questions) - len(open_forms), "n_skipped": len(skipped), "undo": self._last_act()[0],
            "again": skipped.get(self.shown), "answered": bool(form_shown) and form_shown not in open_forms,
            "earlier": [[form, self._answers(form, given)] for form in earlier[:_MOST_EARLIER]],
        }  # fmt: skip
        if not self.shown:
            return payload
        keys, edits = forms.questions[self.shown], self._taken_back | given
        questions = []
        for key in keys:
            answers = [[name, label] for name, label in log.of(*key).items() if name != who and self.show_others]
            answer = edits[key].label if key in edits else None
            questions.append(forms.question(key) | {"answer": answer, "people": answers})
        comment = next((edits[key].comment for key in keys if key in edits), "")
        return payload | forms.texts(keys[0]) | {"questions": questions, "comment": comment}

    def _answers(self, form: str, given: Mapping[Key, LabelEdit]) -> str:
        labels = [str(given[key].label) for key in self.forms.questions[form] if key in given]
        return ", ".join(labels) if len(labels) == len(self.forms.questions[form]) else "skipped"

    def _last_act(self) -> tuple[str, list[Key]]:
        """What *Undo* takes back: the form that this person filled in or skipped last, and what is to be undone."""
        form, keys = "", list[Key]()
        for item, criterion in self.forms.log.acts(self.annotator):
            name = self.forms.form_of.get(item, "")
            if keys and (name != form or (item, criterion) in keys or bool(criterion) != bool(keys[0][1])):
                break
            form, keys = name, [*keys, (item, criterion)]
        return form, keys

    def _go_on(self, back: str = "") -> None:
        self._number, self._back = self._number + 1, back

    def save(self, message: Mapping[str, Any]) -> None:
        """Label all questions of a form that this screen has shown; of others the text was not read: they are ignored.

        What this screen saved or opened before is replaced; what another window answered since is not.
        """
        form, answered = str(message.get("form")), self.forms.log.given_by(self.annotator, self.forms.source)
        if not form or form not in self._seen:
            return
        keys, labels = self.forms.questions[form], message.get("answers")
        if {key: answered[key].label for key in keys if key in answered} != self._seen[form]:
            raise InputError(f"not saved: you answered {form} in another window; “Earlier” shows those answers")
        if not isinstance(labels, list) or len(labels) != len(keys) or any(label in (None, "") for label in labels):
            raise InputError(f"not saved: {counted(len(keys), 'question')} need an answer each")
        edits: dict[Key, LabelEdit] = {}
        for key, label in zip(keys, labels, strict=True):
            chance, draw = self.forms.drawn.get(key, (None, None))
            comment = "" if edits else clean(message.get("comment"))
            answer = self.forms.answer(key, label)
            edits[key] = LabelEdit(answer, self.forms.source, chance, not self.show_others, draw, comment)
        if any(key not in answered or (edit.label, edit.comment) != (answered[key].label, answered[key].comment)
               for key, edit in edits.items()):  # fmt: skip
            self.forms.log.add_form(self.annotator, edits, self.forms.rubric)
        self._seen[form] = {key: str(edit.label) for key, edit in edits.items()}
        if form == self.shown:  # else it was pressed twice, and the next item is on screen
            self._go_on()

    def open(self, message: Mapping[str, Any]) -> None:
        """Show a form again that was answered or skipped, with its answers; no name leads back to the next one."""
        form = str(message.get("form"))
        if not form or any(self.forms.form_of.get(item) == form for item, _ in self.forms.log.acts(self.annotator)):
            self._go_on(form)

    def skip(self, message: Mapping[str, Any]) -> None:
        """Leave the form on screen open, and note why."""
        answered = self.forms.log.given_by(self.annotator, self.forms.source)
        if self.shown and message.get("form") == self.shown and not self.forms.is_done(self.shown, answered):
            rows = dict.fromkeys(item for item, _ in self.forms.questions[self.shown])
            self.forms.log.skip(rows, self.annotator, clean(message.get("reason")))
            self._go_on()

    def undo(self, message: Mapping[str, Any]) -> None:
        """Take the last form back; it is the next one again, with the answers that it had."""
        form, keys = self._last_act()
        if keys and message.get("form") == form:
            given = self.forms.log.given_by(self.annotator, self.forms.source)
            self._taken_back |= {key: given[key] for key in keys if key in given}
            self.forms.log.undo(self.annotator, keys)
            self._go_on(form)


def _is_chance(value: object) -> bool:
    return 0 < (number(value) or 0) <= 1


def clean(text: object) -> str:
    """What a person typed, as it can be stored: of half a character nothing, and not without end."""
    return text.encode("utf-8", "ignore").decode().strip()[:_LONGEST_COMMENT] if isinstance(text, str) else ""
