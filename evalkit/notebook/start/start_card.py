"""`start`: from any table to the tuner, by one card that maps its columns."""

from __future__ import annotations

import glob
import inspect
import re
import textwrap
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from evalkit.core.formatting import html_page, html_table, text_table
from evalkit.core.judges import Judge, JudgesLike
from evalkit.core.printable_text import one_line
from evalkit.core.settings import JudgeOptions, as_cache, default_cache, shown_cache
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
from evalkit.errors import CacheError, ConfigError, EvalkitError, EvalkitWarning, InputError, counted, listed
from evalkit.notebook.start.column_roles import (
    MOST_OFF,
    NEW,
    NEW_INPUTS,
    ColumnRoles,
    carry_over,
    guess_roles,
    new_rubric,
    suggest_rubric,
    with_last_input,
)
from evalkit.notebook.start.mapped_table import label_problems, map_table, role_problems, role_remarks
from evalkit.notebook.start.table_columns import Column, plain_value
from evalkit.notebook.tuner.code_snippets import judge_code, judges_needed, rubric_code
from evalkit.notebook.tuner.drafts import Drafts, Setup, plan_line
from evalkit.notebook.tuner.judge_addresses import judge_at, server_of
from evalkit.notebook.tuner.rubric_tuner import RubricTuner
from evalkit.notebook.tuner.tuning_session import Session
from evalkit.notebook.tuner.version_history import History
from evalkit.notebook.widget_base import NotebookWidget, new_widget
from evalkit.rubrics import Rubric, extract_labels, load_rubric
from evalkit.rubrics.files import RESERVED_NAMES, rubric_ids
from evalkit.rubrics.item_criteria import OWN_FORM, CriteriaForm
from evalkit.tables import read_frame
from evalkit.tables.items import ItemsLike, as_frame

_STAND_INS = ("fake:strict", "fake:lenient")
_CUT = 60


class StartCard(NotebookWidget):
    """A card that maps the columns of a table to the inputs of a rubric, and opens the tuner in its place.

    As the last line of a notebook cell it draws itself; ``print`` shows the same as text. Nothing is judged and nothing
    is paid before *Run* in the tuner. Made by `start`.

    Attributes
    ----------
    roles
        What each column is for (`ColumnRoles`).
    rubric, judges
        The rubric and the judges, as chosen so far.
    items
        The items as `load_items` returns them, with `group_id` and `system_id` if there are such columns.
    inputs
        Input of the rubric -> column of `items`, where the names differ.
    labels
        Criterion -> columns of `items` that hold human labels on its scale.
    problems
        What keeps the tuner from opening. Columns of labels with a problem are not in `labels` and not in the code.
        With a problem of another kind, `items`, `inputs`, `labels` and the code are empty.
    notes
        What else the person should know.
    """

    items: pd.DataFrame
    inputs: dict[str, str]
    labels: dict[str, list[str]]
    _lines: list[str]

    def __init__(
        self,
        table: ItemsLike | str | Path,
        rubric: Rubric | str | Path | None,
        judges: JudgesLike | None,
        roles: Mapping[str, str],
        options: Mapping[str, Any],
        variable: str = "table",
        form: CriteriaForm = OWN_FORM,
    ) -> None:
        super().__init__(new_widget("TunerWidget", "start", "pass inputs= and labels= to evaluate"))
        self._file = str(table) if isinstance(table, (str, Path)) else ""
        self._is_frame, self._variable = isinstance(table, pd.DataFrame), variable
        self._options, self._form = dict(options), form
        self._new_id = self._id_of_new()
        self._table = read_frame(self._file) if self._file else as_frame(table)
        self._columns = {str(name): Column(str(name), cells, form) for name, cells in self._table.items()}
        self._opened: RubricTuner | None = None
        named: Any = judges if isinstance(judges, (list, tuple)) else [judges]
        self.judges = [Judge.of(judge) for judge in (_STAND_INS if judges is None else named)]
        self._known = {judge.name: judge for judge in self.judges}
        self._typed, self._judges_problem = "", ""
        self._typed_rubric, self._rubric_problem = "", ""
        self._chosen: dict[str, str] = {}
        self.roles = ColumnRoles({})
        self._choose_rubric(suggest_rubric(self._columns).id if rubric is None else rubric)
        if rubric is None and (last := self._last_rubric()):
            self._name_rubric(last)
        if roles:
            other_ids = self.roles.columns("id") if "id" in roles.values() else []
            self._set_roles({**dict.fromkeys(other_ids, ""), **roles})

    # -- from Python
    @property
    def code(self) -> str:
        """Python that makes the same items and the same tuner, from the file or the variable that `start` got."""
        if not self._lines:
            return ""
        rubric = repr(self._rubric_file) if self._rubric_file else rubric_code(self.rubric)
        values = {name: str(value) if isinstance(value, Path) else value for name, value in self._arguments().items()}
        texts = {name: "labels" if isinstance(value, pd.DataFrame) else repr(value) for name, value in values.items()}
        lines = [
            *judges_needed(*self.judges), "import evalkit as ek", "", *self._items_code(), f"rubric = {rubric}",
            f"judges = [{', '.join(map(judge_code, self.judges))}]", "tuner = ek.RubricTuner(", "    items,",
            "    rubric,", "    judges,", *(f"    {name}={text}," for name, text in texts.items()), ")", "tuner", "",
        ]  # fmt: skip
        return "\n".join(lines)

    def _items_code(self) -> list[str]:
        variable = self._variable or "table"
        source = variable if self._is_frame else f"ek.tables.as_frame({variable})"
        if self._file:
            source = f"ek.tables.read_frame({self._file!r})"
        lines = [] if source == "table" else [f"table = {source}"]
        if not self._file and not self._variable:
            lines.insert(0, "# put the table that was passed to ek.start into the variable table")
        return [*lines, *self._lines]

    def tuner(self) -> RubricTuner:
        """The tuner; it replaces the card on screen. A second call returns the same tuner.

        Raises
        ------
        InputError
            When something is wrong with the mapping (see `problems`).
        """
        if self._opened is None:
            if self.problems:
                raise InputError("; ".join(self.problems))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", EvalkitWarning)  # they are among the notes
                session = Session(self.items, self.rubric, self.judges, **self._arguments())
            session.items_code, session.reads_items = self._items_code(), bool(self._file or self._variable)
            roles = {"roles": dict(self.roles.roles), "rubric_file": self._rubric_file}
            session.history.parts.append(lambda: roles)
            session.history.save()
            self._opened = RubricTuner.of(session, self.widget)
            self.widget.card = {}
        return self._opened

    def _arguments(self) -> dict[str, Any]:
        """The arguments of the tuner beside items, rubric and judges."""
        on_missing = "skip" if self._n_skipped else ""
        values = {"labels": self.labels, "inputs": self.inputs, "on_missing": on_missing}
        return {name: value for name, value in values.items() if value} | self._place()

    def _place(self) -> dict[str, Any]:
        """The options of the tuner, with the folder and the name of its session."""
        path = Path(self._file)
        place = {"folder": str(path.parent), "name": f"{path.stem}-{self.rubric.id}"} if self._file else {}
        if self._file and not path.exists():  # a data set on the hub
            place = {"name": f"{path.name}-{self.rubric.id}"}
        return place | self._options

    @property
    def _saved(self) -> Path:
        """The file of the session that *Open the tuner* continues, if it exists."""
        place = self._place()
        return Path(place.get("folder") or Path.cwd(), f"{place.get('name') or self.rubric.id}.tuner.json")

    def _last_rubric(self) -> str:
        """The rubric of the newest saved session of this file that `_saved` would find; empty without one."""
        if not self._file or self._options.keys() & {"folder", "name"}:
            return ""
        path, ids = Path(self._file), {NEW, self._new_id, *rubric_ids()}
        sessions = path.parent.glob(f"{glob.escape(path.stem)}-*.tuner.json")
        for session in sorted(sessions, key=lambda file: file.stat().st_mtime_ns, reverse=True):
            name = session.name.removeprefix(f"{path.stem}-").removesuffix(".tuner.json")
            file = _state(session, name).get("rubric_file")
            if isinstance(file, str) and file and Path(file).is_file():
                return file
            if name in ids:
                return NEW if name == self._new_id else name
        return ""

    def _id_of_new(self) -> str:
        """The id of a new rubric: the name of the file, as far as an id can have it; `NEW` if a session has that."""
        path, options = Path(self._file), self._options
        folder, session = Path(options.get("folder") or path.parent), options.get("name")
        is_old = _state(folder / f"{session}.tuner.json", NEW) if session else None
        name = re.sub("[^a-z0-9_-]+", "-", path.stem.casefold()).strip("-_")
        if not name or is_old or (folder / f"{path.stem}-{NEW}.tuner.json").exists():
            return NEW
        is_taken = name in RESERVED_NAMES or name in rubric_ids()
        return f"{name}-{NEW}" if is_taken else name

    def _saved_roles(self) -> dict[str, str]:
        """The roles with which that session was opened, of the columns that can still have them."""
        roles = _state(self._saved, self.rubric.id).get("roles")
        stored_roles = roles.items() if isinstance(roles, dict) else ()
        return {name: role for name, role in stored_roles if name in self._columns and role in self._choices(name)}

    # -- what is chosen
    def receive(self, message: Any) -> None:
        """Do what a message from the card asks for; once the tuner is open, messages are its own."""
        if self._opened is None:
            super().receive(message)

    def _actions(self) -> dict[str, Callable[[Any], object]]:
        return super()._actions() | {
            "role": lambda message: self._set_roles({message["column"]: message["role"]}),
            "rubric": lambda message: self._name_rubric(message["name"].strip()),
            "judges": lambda message: self._choose_judges(message["text"]),
            "open": lambda _: self.tuner(),
        }

    def _name_rubric(self, name: str) -> None:
        """Take a rubric by its name or file; what is wrong with it stands below the field, where it was typed."""
        self._typed_rubric, self._rubric_problem = "", ""
        try:
            if name:
                self._choose_rubric(name)
                return
        except (EvalkitError, OSError) as problem:
            self._typed_rubric, self._rubric_problem = name, str(problem)
        self._check()

    def _choose_rubric(self, rubric: Rubric | str | Path) -> None:
        """Take a rubric; roles set by hand stay where it has them, the others are guessed."""
        is_new = isinstance(rubric, str) and rubric == NEW
        loaded = new_rubric(self._columns) if is_new else rubric if isinstance(rubric, Rubric) else load_rubric(rubric)
        self.rubric, self._is_new = loaded, is_new
        self._rubric_file = str(rubric) if str(rubric).endswith((".yaml", ".yml")) else ""
        if is_new:
            before = self.roles if self.roles.roles else guess_roles(self._columns, suggest_rubric(self._columns))
            self.rubric, self.roles = carry_over(self._columns, before, self._kept(), self._new_id)
        else:
            self.roles = guess_roles(self._columns, self.rubric, self._kept())
        if saved := self._saved_roles():
            self.roles = ColumnRoles({**self.roles.roles, **saved, **self._kept()})
            self.rubric = new_rubric(self._columns, self.roles, self._new_id) if is_new else self.rubric
        self._check()

    def _kept(self) -> dict[str, str]:
        """The roles set by hand that the rubric has; labels of one other criterion are labels of its only one."""
        kept, criteria = {}, {role for role in self._chosen.values() if role.startswith("label: ")}
        for column, role in self._chosen.items():
            if len(criteria) == 1 == len(self.rubric.names) and role in criteria:
                role = f"label: {self.rubric.names[0]}"
            has_chat = role != "messages" or self._is_new or "answer" in self.rubric.input_names
            if has_chat and role in self._choices(column):
                kept[column] = role
        return kept

    def _choose_judges(self, text: str) -> None:
        """Take judges by name: a new one is on the server of the jury, as one of *Add judge* in the tuner."""
        names = [name.strip() for name in text.split(",") if name.strip()] or _STAND_INS
        pool, self._judges_problem = list(self._known.values()), ""
        advice = "pass it to start with its base_url"
        try:
            self.judges = [self._known.get(name) or judge_at(name, pool, advice=advice) for name in names]
            self._known |= {judge.name: judge for judge in self.judges}
        except EvalkitError as problem:
            self._typed, self._judges_problem = text, str(problem)
        self._check()

    def _set_roles(self, roles: Mapping[str, str]) -> None:
        for column, role in roles.items():
            if role not in (allowed := self._choices(column)):
                why = (
                    f" ({problem})"
                    if role == "criteria" and (problem := self._columns[column].criteria_problem)
                    else ""
                )
                raise ConfigError(f"column {column!r} cannot be {role!r}{why}; allowed: {listed(allowed, most=30)}")
        self._chosen |= roles
        self.roles = ColumnRoles({**self.roles.roles, **roles})
        if self._is_new:
            self.rubric = new_rubric(self._columns, self.roles, self._new_id)
        else:
            self.roles = with_last_input(self._columns, self.rubric, self.roles, self._chosen)
        self._check()

    def _input_names(self) -> list[str]:
        """The inputs that columns can be."""
        return list(dict.fromkeys([*NEW_INPUTS, *self.roles.inputs] if self._is_new else self.rubric.input_names))

    def _choices(self, column: str) -> list[str]:
        """The roles that a column can have."""
        if column not in self._columns:
            raise InputError(f"the table has no column {column!r}; available: {listed(self._columns, most=30)}")
        chat = ["messages"] if self._columns[column].is_chat else []
        is_criteria = self._columns[column].holds_criteria and "requirement" in self.rubric.input_names
        labels = ["criteria"] * is_criteria + [f"label: {name}" for name in self.rubric.names]
        scalar = ["id", "group", "system"] if self._columns[column].is_scalar else []
        return ["", *(f"input: {name}" for name in self._input_names()), *chat, *labels, *scalar]

    # -- what follows from it
    def _check(self) -> None:
        """Map the table, name what is wrong, and draw the card."""
        self.items, self.inputs, self.labels, self._lines = pd.DataFrame(), {}, {}, []
        self._n_skipped, prompts = 0, dict[str, str]()
        self.problems = role_problems(self._columns, self.roles, self.rubric, self._input_names())
        off_scale = label_problems(self._columns, self.roles, self.rubric)
        self.notes = self._remarks()
        self.widget.status = {"plan": ""}
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", EvalkitWarning)
            try:
                if not self.problems:
                    prompts = self._map([*off_scale])
            except EvalkitError as problem:
                text, _, advice = str(problem).partition("; pass another column as item_id")
                way_out = "; choose another column as 'id', or none: then the row number is the id"
                self.problems.append(text + way_out if advice else text)
        self.problems += [*off_scale.values(), *filter(None, [self._rubric_problem, self._judges_problem])]
        self.notes += [str(one.message) for one in said]
        if self._n_skipped:
            lacking = f"{self._n_skipped} of {counted(len(self.items), 'item lacks', 'items lack')}"
            self.notes.append(f"{lacking} a required input: they count as unscored (on_missing='skip')")
        rubric = self._rubric_file or (NEW if self._is_new else self.rubric.id)
        self.widget.card = {
            "n_rows": len(self._table),
            "columns": [row | {"choices": self._choices(row["column"])} for row in self._rows()],
            "rubric": rubric,
            "rubrics": list(dict.fromkeys([rubric, NEW, *rubric_ids()])),
            "about": self.rubric.description,
            "file": self._typed_rubric or self._rubric_file,
            "judges": self._typed if self._judges_problem else ", ".join(judge.name for judge in self.judges),
            "problems": self.problems,
            "notes": self.notes,
            "prompts": prompts,
            "code": self.code,
            "cache": shown_cache(as_cache(self._options.get("cache")) or default_cache()),
        }

    def _map(self, off_scale: list[str]) -> dict[str, str]:
        """Map the table but for labels off the scale, and plan; the prompts of its first whole item, by criterion."""
        roles = ColumnRoles({**self.roles.roles, **dict.fromkeys(off_scale, "")})
        items, inputs, labels, lines = map_table(self._table, roles, self.rubric, self._form)
        if off_scale:
            lines.insert(0, f"# without labels off the scale: {listed(off_scale, most=30)}")
        own: dict[str, Any] = {name: self._options.get(name) for name in ("samples", "template", "criteria_per_call")}
        spec = Spec.of(self.rubric, self.judges, **own, inputs=inputs, on_missing="skip")
        extract_labels(items, labels, rubric=self.rubric)  # raises what the tuner would raise
        work = Worklist.of(spec, items)
        whole = [values for at, values in enumerate(work.inputs) if at not in work.skipped]
        if not whole:
            raise InputError("no item has all inputs that the rubric needs")
        builder = spec.prompt_builders[0]
        prompts = {one.name: str(builder.prompt(one, whole[0])) for one in self.rubric.criteria}
        self.items, self.inputs, self.labels, self._lines = items, inputs, labels, lines
        self._n_skipped = len(work.skipped) - work.n_unseen
        rubric, saved = self.rubric, self._saved
        options: Any = {name: value for name, value in self._options.items() if name in JudgeOptions.__annotations__}

        def show_plan() -> None:
            history = History(saved, spec.judges)
            with suppress(CacheError):  # as the tuner will say
                history.load(rubric.id)
            drafts = Drafts(Setup.of(items, rubric, spec, None, options), history, options.get("budget_usd"))
            head = plan_line(drafts.plan(), drafts.left_usd)
            if self._opened is None and self.items is items:
                self.widget.status = {"plan": head}

        self._jobs.do("plan", show_plan, "plan")
        return prompts

    def _remarks(self) -> list[str]:
        """What the person should know beside the problems."""
        last = self._saved_roles()
        alike = " with the same roles" * (bool(last) and last.items() <= self.roles.roles.items())
        fakes = [judge.name for judge in self.judges if judge.provider == "fake"]
        judges_of = {server: [judge.name for judge in self.judges if server_of(judge) == server]
                     for server in filter(None, map(server_of, self.judges))}  # fmt: skip
        labelled = self.roles.columns("label: ") if self._is_new else []
        cells = [text for name in labelled for text in self._columns[name].texts if text.strip()]
        counts = Counter(map(plain_value, cells))
        rare = sorted(f"{text!r} ({n})" for text, n in counts.items() if n <= MOST_OFF * counts.total())
        is_nominal = self.rubric.criteria[0].scale.level == "nominal"
        notes: dict[str, object] = {
            f"a saved session exists ({self._saved}); press 'Open the tuner' to continue it{alike}":
                self._saved.exists(),
            **dict.fromkeys(role_remarks(self._columns, self.roles, self.rubric, self._table.index), True),
            f"{listed(fakes)}: offline stand-ins that count words, not LLMs; name yours, as in openai:gpt-4o-mini":
                fakes,
            **{f"{listed(names)}: calls go to {server}": True for server, names in judges_of.items()},
            "a new rubric asks one general question: write your own question and levels before you run": self._is_new,
            f"{listed(labelled, most=30)} are labels of one question: set those that answer another one to 'not used'":
                len(labelled) > 1,
            f"few labels say {', '.join(rare)}: each is a level of its own, misspelt or not": rare and is_nominal,
        }  # fmt: skip
        return [note for note, holds in notes.items() if holds]

    def _rows(self) -> list[dict[str, Any]]:
        """One row per column of the table."""
        return [
            {
                "column": name,
                "role": self.roles.roles[name] or "not used",
                "missing": _shares(len(self._table), {"": one.n_missing, " empty": one.n_empty}),
                "longest": f"{one.longest:,}",
                "examples": " | ".join(one_line(text[:_CUT] + "…"[: len(text) > _CUT]) for text in one.examples),
            }
            for name, one in self._columns.items()
        ]

    def __repr__(self) -> str:
        if self._opened is not None:
            return repr(self._opened)
        self.wait_idle()
        lines = [f"rubric {self.rubric.id}, judges {', '.join(judge.name for judge in self.judges)}"]
        lines += [self.widget.status["plan"], *(f"✗ {problem}" for problem in self.problems), *self.notes]
        table = text_table(self._rows(), width=80, left=["role", "examples"], whole=["role"])
        return "\n".join([table, *(textwrap.fill(line, 80, subsequent_indent="  ") for line in lines if line)])

    def _repr_html_(self) -> str:
        if self._opened is not None:
            return self._opened._repr_html_()
        note = "<p class='note'>Run this cell to map the columns; the card needs a kernel.</p>"
        return html_page([html_table(self._rows(), texts=["role", "examples"]), note])


def _state(session: Path, rubric_id: str) -> dict[str, Any]:
    """What a saved session has of a rubric; empty if it cannot be read, as the tuner will say."""
    history = History(session)
    with suppress(CacheError):
        history.load(rubric_id)
    return history.state


def _shares(n_rows: int, counts: Mapping[str, int]) -> str:
    return ", ".join(f"{max(n / n_rows, 0.01):.0%}{what}" for what, n in counts.items() if n) or "–"


def start(
    table: ItemsLike | str | Path,
    rubric: Rubric | str | Path | None = None,
    judges: JudgesLike | None = None,
    *,
    roles: Mapping[str, str] | None = None,
    fields: str | Mapping[str, str] | None = None,
    ignore: Collection[str] = (),
    **options: Any,
) -> StartCard:
    """From a table of your own to the tuner: a card that proposes what each column is for, and asks where two fit.

    Parameters
    ----------
    table
        A DataFrame, a list of dicts, a `datasets.Dataset`, the path of a JSONL, CSV or parquet file, or the name of a
        data set on the Hugging Face hub.
    rubric
        A `Rubric`, the name or file of one, or ``"new"``: a rubric of one question, made from the inputs that you
        choose and the scale of your labels. By default the shipped rubric that suits the columns.
    judges
        As for `judge`; by default offline stand-ins, which are no LLMs.
    roles
        Column -> role, where you know it: ``{"txt": "input: answer"}`` (see `ColumnRoles`).
    fields, ignore
        The names of the fields of criteria that items bring, or a reader, as in `explode_criteria`.
    **options
        Other arguments of `RubricTuner`: `labels` (a labels table), `samples`, `template`, `folder`, `name`, `cache`,
        `criteria_per_call`, `budget_usd` …

    Returns
    -------
    StartCard
        In a notebook the card; ``print`` shows it as text. `StartCard.tuner` opens the tuner, `StartCard.code` is
        the code that does the same.

    Raises
    ------
    InputError, RubricError, ConfigError
        When the table, the rubric, a judge or a role cannot be read. A wrong mapping is no error: the card names it.

    Examples
    --------
    >>> table = [{"nr": "C-4", "prompt": "Is the kettle in stock?", "bot_resp": "Yes, it ships today.", "stars": 4}]
    >>> card = start(table, roles={"prompt": "input: question"})  # one column of texts is left for the answer
    >>> card.rubric.id, card.inputs, card.problems
    ('helpfulness', {'question': 'prompt', 'answer': 'bot_resp'}, [])
    """
    roles = dict(roles or {}) | ({options.pop("item_id"): "id"} if options.get("item_id") else {})
    caller: Any = inspect.currentframe().f_back  # type: ignore[union-attr]
    names = {**caller.f_locals, **caller.f_globals, **caller.f_locals}  # locals come first, and hide globals
    variables = (name for name, value in names.items() if value is table and name.isidentifier() and name[0] != "_")
    form = CriteriaForm(fields=fields, ignore=ignore)
    return StartCard(table, rubric, judges, roles, options, next(variables, ""), form)
