"""Python code that gives the same figures as the tuner without it."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import fields
from pprint import pformat

from evalkit.core.judges import Judge
from evalkit.core.settings import Rules, shown_cache
from evalkit.errors import RubricError
from evalkit.evaluation.evaluation import columns_of
from evalkit.notebook.labelling.label_log import labels_of
from evalkit.notebook.tuner.tuning_session import Session
from evalkit.notebook.tuner.version_history import DEFAULTS, Version
from evalkit.rubrics import Rubric, load_rubric
from evalkit.rubrics.profiles import judge_dict


def session_code(session: Session, items: str = "items") -> str:
    """Python that evaluates the version shown, and compares it with the same version as the tuner does.

    The labels that figures use are written as CSV beside the label log, and the code reads them from there.

    Parameters
    ----------
    session
        The session.
    items
        The expression that gives the items. ``items`` is made from the tuner's file of items, if it has one; else the
        first line says what it must hold.
    """
    shown = session.history.versions.get(session.runs.current) or session.drafts.next_version()
    lines = ["import evalkit as ek", ""]
    if items == "items" and session.setup.source is not None:
        lines += [f"items = ek.load_items({str(session.setup.source)!r})", ""]
    elif items == "items" and session.items_code:
        lines += [*session.items_code, ""]
    compared, counted = session.history.versions.get(session.runs.against), [""] * 3
    if len(labels := session.labels.log.counted):
        path, counted = session.labels.log.path.with_suffix(".csv"), [", labels=labels"] * 3
        last_rubric = (compared or shown).rubric
        used, was_used = labels_of(labels, shown.rubric), labels_of(labels, last_rubric)
        tables = {"ev": used, "last": was_used, "both": labels_of(used, last_rubric, of_all=True)}
        names = [[name for name in tables if row in tables[name].index] for row in labels.index]
        labels, names = labels[[*map(bool, names)]], [*filter(None, names)]
        if any(len(row) < len(tables) for row in names):  # each version has its own
            labels = labels.assign(of=[*map(" ".join, names)])
            counted = [f", labels=labels[labels['of'].str.contains({name!r})]" for name in tables]
        labels.to_csv(path, index=False)
        lines += [f"labels = ek.tables.read_table({str(path)!r}, 'labels')", "labels = labels[labels['part'] == 'dev']"]
    lines += _evaluating("ev", shown, items, session, counted[0])
    if compared is not None:
        lines += ["", *_evaluating("last", compared, items, session, counted[1])]
        lines.append(f"ek.compare(last, ev{counted[2]}, across_modes=True)")
    lines[:0] = judges_needed(*shown.judges, *(compared.judges if compared else ()))
    if items == "items" and not session.reads_items:
        lines[:0] = [_expected(session, shown.rubric)]
    return "\n".join(lines) + "\n"


def _expected(session: Session, rubric: Rubric) -> str:
    """A comment: the variable that the code needs, and its columns."""
    if session.items_code:
        return "# table: the table that was passed to ek.start"
    inputs = columns_of(rubric, session.setup.data_options(rubric)["inputs"], session.items)
    columns = ", ".join(map(repr, dict.fromkeys([session.setup.item_id or "item_id", *inputs.values()])))
    return f"# items: the table that was passed to the tuner, with the columns {columns}"


def _evaluating(name: str, version: Version, items: str, session: Session, labels: str) -> list[str]:
    plain, rules = Rules().to_dict(), {**session.setup.spec.rules.to_dict(), "aggregate": version.aggregate}
    options = {"samples": version.samples, "item_id": session.setup.item_id, "template": session.setup.template}
    options |= {rule: value for rule, value in rules.items() if rule == "aggregate" or value != plain.get(rule)}
    data = session.setup.data_options(version.rubric)
    options |= {"inputs": data["inputs"] or None}
    options |= {"on_missing": data["on_missing"] if data["on_missing"] != "raise" else None}
    per_call = session.setup.spec.criteria_per_call
    options |= {"criteria_per_call": None if per_call == 1 else per_call, "cache": shown_cache(session.setup.cache)}
    named = "".join(f", {option}={value!r}" for option, value in options.items() if value is not None)
    judges = f"[{', '.join(map(judge_code, version.judges))}]"
    rubric = f"{name}_rubric = {_rubric(version.base, version.rubric)}"
    return [rubric, f"{name} = ek.evaluate({items}, {name}_rubric, {judges}{named}{labels}, adopt=True)"]


def judges_needed(*judges: Judge) -> list[str]:
    """A comment for each judge that code cannot make, as a function of a cell: the variable that it needs."""
    in_memory = [judge for judge in judges if judge.ask is not None and not judge.import_path]
    return [f"# {_variable(judge)}: the judge {judge.name!r} that was passed" for judge in dict.fromkeys(in_memory)]


def _variable(judge: Judge) -> str:
    name = re.sub(r"\W", "_", judge.name)
    return name if name.isidentifier() else f"judge_{name}"


def judge_code(judge: Judge) -> str:
    """A judge as Python: a short string where that is enough, else with the fields that differ from their defaults.

    Its address is always there: where a variable of the environment has another one, the calls would go elsewhere.
    """
    short = f"{judge.provider}:{judge.model}"
    if judge.ask is None and Judge.of(short) == judge and judge.base_url is None:
        return repr(short)
    values = judge_dict(judge)
    if judge.ask is not None and not judge.import_path:
        return _variable(judge)
    if judge.ask is not None:
        return f"ek.Judge.of({values!r})"
    plain = {entry.name: entry.default for entry in fields(Judge)}
    plain |= {"provider": judge.provider, "model": judge.model}
    # a base_url stays, also if OPENAI_BASE_URL is the same here: where the code runs, it may be another or none
    changed = {name: value for name, value in values.items() if name in plain and value != plain[name]}
    for name in sorted(changed, key=["api_key_env", "service"].count, reverse=True):  # those that follow from others
        fewer = {key: value for key, value in changed.items() if key != name}
        if name != "base_url" and Judge.of({"provider": judge.provider, "model": judge.model} | fewer) == judge:
            changed = fewer
    more = "".join(f", {name}={value!r}" for name, value in changed.items())
    return f"ek.Judge({judge.provider!r}, {judge.model!r}{more})"


def rubric_code(rubric: Rubric) -> str:
    """A rubric as Python: by name, or in full if it is in no file."""
    with suppress(RubricError):
        if load_rubric(f"{rubric.id}@{rubric.version}").content_hash == rubric.content_hash:
            return f"ek.load_rubric({f'{rubric.id}@{rubric.version}'!r})"
    return f"ek.Rubric(**{pformat(rubric.to_dict(), sort_dicts=False, width=110)})"


def _rubric(base: Rubric, rubric: Rubric) -> str:
    """The rubric as an edit of the version that it started from."""
    old, new = ({**DEFAULTS, **version.to_dict()} for version in (base, rubric))
    changes = {key: value for key, value in new.items() if value != old[key]}
    edit = f".edit(**{pformat(changes, sort_dicts=False, width=110)})" if changes else ""
    return f"{rubric_code(base)}{edit}"
