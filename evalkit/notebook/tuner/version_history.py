"""Versions of a rubric with its jury, and the state file that survives a restart of the kernel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeVar

import orjson

from evalkit.core.files import whole
from evalkit.core.formatting import span
from evalkit.core.judges import Judge
from evalkit.core.reply_keys import digest
from evalkit.errors import CacheError, ConfigError, RubricError, counted
from evalkit.rubrics import Rubric
from evalkit.rubrics.profiles import judge_dict
from evalkit.rubrics.scales import code_text

_SCHEMA = 1
_UNREADABLE = (RubricError, ConfigError, KeyError, TypeError)
T = TypeVar("T")
DEFAULTS = {"description": "", "mode": "pointwise", "layout": "rubric_first", "pass_at": None}


def rebase(base: Rubric, values: Mapping[str, Any]) -> Rubric:
    """The rubric of these values as an edit of `base`.

    Raises
    ------
    RubricError
        If the values are not a valid rubric, or have another id.
    """
    fields = {str(key): value for key, value in values.items()}
    rubric_id, _ = fields.pop("id", base.id), fields.pop("version", None)
    if rubric_id != base.id:
        raise RubricError(f"the rubric's id must stay {base.id!r} while you tune it, got {rubric_id!r}")
    return base.edit(**(DEFAULTS | fields))


@dataclass(frozen=True, slots=True)
class Version:
    """A rubric with the jury that applied it.

    `at` is the time of its first run (UTC), `name` its name in the tuner (see `History.named`), and `note` what a
    person wrote about it.
    """

    base: Rubric
    rubric: Rubric
    judges: tuple[Judge, ...]
    samples: int
    aggregate: str
    at: str = ""
    name: str = ""
    note: str = ""

    @property
    def key(self) -> str:
        """Hash of everything that decides the scores."""
        judges = [judge_dict(judge) for judge in self.judges]
        return digest([self.rubric.id, self.rubric.content_hash, judges, self.samples, self.aggregate])[:12]

    @property
    def counts(self) -> list[int]:
        """The samples of each judge."""
        return [judge.samples or self.samples for judge in self.judges]

    @property
    def label(self) -> str:
        """The rubric's version as tables show it: ``v1``, or ``v1+1a2b3c4d`` when edited."""
        return self.rubric.label

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for the file."""
        judges = [judge_dict(judge) for judge in self.judges]
        rubrics = {"key": self.key, "base": self.base.to_dict(), "rubric": self.rubric.to_dict(), "judges": judges}
        settings = {"samples": self.samples, "aggregate": self.aggregate, "at": self.at}
        return {**rubrics, **settings, "name": self.name, "note": self.note}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], known: Sequence[Judge] = ()) -> Version:
        """Read a version back; a judge like one of `known`, of any weight, becomes that one (which may hold a key)."""
        same = {orjson.dumps(judge_dict(judge) | {"weight": 1}): judge for judge in known}
        pairs = [(stored, same.get(orjson.dumps(stored | {"weight": 1}))) for stored in values["judges"]]
        judges = tuple(judge.replace(weight=it["weight"]) if judge else Judge.of(it) for it, judge in pairs)
        base = Rubric(**values["base"])
        rubric, texts = rebase(base, values["rubric"]), {name: values.get(name, "") for name in ("at", "name", "note")}
        return cls(base, rubric, judges, values["samples"], values["aggregate"], **texts)

    def texts(self) -> dict[str, str]:
        """Everything that tells versions apart, as text: name of the part -> text."""
        values = self.rubric.to_dict()
        for criterion in values.pop("criteria"):
            name, scale = criterion.pop("name"), criterion.pop("scale", {})
            parts = criterion | {f"level {code_text(code)}": text for code, text in scale.items()}
            values |= {f"{name}: {part}": value for part, value in parts.items()}
        jury = ", ".join(f"{judge.name} (weight {judge.weight:g})" for judge in self.judges)
        values |= {"judges": jury, "samples": span(self.counts), "aggregate": self.aggregate}
        return {name: "" if value is None else str(value) for name, value in values.items() if name != "version"}


@dataclass(frozen=True, slots=True)
class Change:
    """A part in which two versions differ; `words` are its runs: ``same``, ``old`` or ``new``, and the words."""

    where: str
    words: list[tuple[str, str]]


def changes_of(old: Version, new: Version) -> list[Change]:
    """The parts in which two versions differ, word by word; empty if only settings of judges do."""
    was, now = old.texts(), new.texts()
    names = [name for name in {**was, **now} if was.get(name, "") != now.get(name, "")]
    return [Change(name, changed_words(was.get(name, ""), now.get(name, ""))) for name in names]


def changed_words(old: str, new: str) -> list[tuple[str, str]]:
    """Two texts as runs of words.

    Examples
    --------
    >>> changed_words("one small step", "one large step")
    [('same', 'one'), ('old', 'small'), ('new', 'large'), ('same', 'step')]
    """
    was, now = old.split(), new.split()
    runs = []
    for kind, a, b, c, d in SequenceMatcher(None, was, now, autojunk=False).get_opcodes():
        pairs = [("same", now[c:d])] if kind == "equal" else [("old", was[a:b]), ("new", now[c:d])]
        runs += [(name, " ".join(words)) for name, words in pairs if words]
    return runs


class Memo:
    """What was computed last, by name, and what it was about."""

    def __init__(self) -> None:
        self._computed: dict[str, tuple[object, Any]] = {}

    def once(self, name: str, about: object, compute: Callable[[], T]) -> T:
        """What `compute` returns; computed again only if what it is about has changed."""
        known = self._computed.get(name)
        if known is None or known[0] != about:
            known = self._computed[name] = about, compute()
        value: T = known[1]  # not what another thread has computed meanwhile about something else
        return value


@dataclass(slots=True)
class History:
    """All versions that were run, and the state of the session, in one file that is replaced as a whole.

    Attributes
    ----------
    path
        The file.
    versions
        By key, oldest first.
    state
        Plain values of the session: the version shown, the draft, the criterion, the annotator.
    parts
        What `save` asks for these values: one function per part of the session.
    notes
        What could not be restored, one sentence each, until the next run.
    lock
        Held by whoever changes the session.
    """

    path: Path
    known: tuple[Judge, ...] = ()
    versions: dict[str, Version] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    parts: list[Callable[[], dict[str, Any]]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def load(self, rubric_id: str) -> None:
        """Read the file, if it exists; versions of another rubric stay in it and are not loaded.

        Raises
        ------
        CacheError
            If it cannot be read, or was written by another program.
        """
        values = self._stored()
        self.state = _states(values).get(rubric_id) or {}
        unread = list[str]()
        for stored in values.get("versions", []):
            try:
                if stored["base"]["id"] == rubric_id:
                    self.versions[stored["key"]] = self.named(Version.from_dict(stored, self.known))
            except (
                _UNREADABLE
            ) as problem:  # an evalkit with other rules, a judge of that session, a file that was edited
                unread.append(f"{stored.get('name') or stored.get('key')} ({problem})")
        if unread:
            versions = counted(len(unread), "version is", "versions are")
            self.notes.append(f"{versions} in {self.path.name}, but cannot be shown: {'; '.join(unread)}.")

    def named(self, version: Version) -> Version:
        """The version as it is in the history; a new one gets a name that no other has.

        A saved version keeps its own name (``v1``). Others are numbered after the one that they are an edit of:
        ``v1.1``, ``v1.2`` …
        """
        if version.key in self.versions:
            return self.versions[version.key]
        saved, taken = version.rubric.version, {other.name for other in self.versions.values()}
        wanted = [version.name or (saved if not version.rubric.edited else f"{saved}.1")]
        free = (name for name in chain(wanted, (f"{saved}.{n}" for n in count(1))) if name not in taken)
        return replace(version, name=next(free))

    def rename_saved(self, saved: Rubric, *, only_edited: bool = False) -> list[str]:
        """Give the versions with the content of a saved rubric its version and name; returns the keys of those."""
        renamed = list[str]()
        for key, version in self.versions.items():
            is_same = version.rubric.content_hash == saved.content_hash and version.rubric.label != saved.label
            if is_same and (version.rubric.edited or not only_edited):
                names = {earlier.name for earlier in self.versions.values()}
                name = version.name if saved.version in names else saved.version
                self.versions[key] = replace(version, base=saved, rubric=saved, name=name)
                renamed.append(key)
        return renamed

    def _take_others(self, stored: Sequence[Mapping[str, Any]]) -> None:
        """Take up what another notebook wrote meanwhile: versions, and under which name it saved one."""
        new = list[str]()
        for values in stored if self.versions else ():
            with suppress(*_UNREADABLE):
                version_here = self.versions.get(values["key"])
                is_new = version_here is None and values["base"]["id"] == next(iter(self.versions.values())).base.id
                is_saved = (
                    values["base"] == values["rubric"] and version_here is not None and version_here.rubric.edited
                )
                if is_new or is_saved:
                    version = Version.from_dict(values, self.known)
                    self.versions[values["key"]] = version if version_here else self.named(version)
                    new.append(version.name)
        if new:
            self.versions = dict(sorted(self.versions.items(), key=lambda entry: entry[1].at))
            self.notes.append(f"Another notebook works on this session, too: it added {', '.join(new)}.")

    def _stored(self) -> dict[str, Any]:
        try:
            values = orjson.loads(self.path.read_bytes()) if self.path.exists() else {"schema": _SCHEMA}
        except (OSError, orjson.JSONDecodeError) as problem:
            raise CacheError(f"{self.path} cannot be read ({problem}); move it away to start again") from problem
        if not isinstance(values, dict) or values.get("schema") != _SCHEMA:
            raise CacheError(f"{self.path} was not written by this version of evalkit; move it away to start again")
        return values

    def set_note(self, key: str, note: str) -> None:
        """Write a note about a version."""
        with self.lock:
            self.versions[key] = replace(self.versions[key], note=note.strip())
            self.save()

    def save(self) -> None:
        """Write the file with the state as it is now, and with versions that another kernel added meanwhile.

        Raises
        ------
        CacheError
            If it cannot be written; then the old file stays.
        """
        self.state = {name: value for state in self.parts for name, value in state().items()}
        file = self._stored()
        self._take_others(file.get("versions", []))
        others = [stored for stored in file.get("versions", []) if stored.get("key") not in self.versions]
        mine = [version.to_dict() for version in self.versions.values()]
        states = {rubric_id: state for rubric_id, state in _states(file).items() if rubric_id != _rubric_id(self.state)}
        values = {"schema": _SCHEMA, "versions": [*others, *mine], "state": self.state, "others": states}
        text = orjson.dumps(values, option=orjson.OPT_NON_STR_KEYS)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with whole(self.path) as out:
                out.write(text)
        except OSError as problem:
            raise CacheError(f"{self.path} cannot be written: {problem.strerror}; pass another folder=") from problem


def _rubric_id(state: Mapping[str, Any]) -> str:
    return str(state.get("draft", {}).get("id", ""))


def _states(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The state of the last session with each rubric, by its id."""
    last = values.get("state", {})
    return {**values.get("others", {}), **({_rubric_id(last): last} if last else {})}
