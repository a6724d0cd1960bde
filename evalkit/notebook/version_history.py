"""Versions of a rubric with its jury, and the file that keeps them over a restart of the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from evalkit.core.files import whole
from evalkit.core.judges import Judge
from evalkit.core.keys import digest
from evalkit.errors import CacheError, ConfigError, RubricError
from evalkit.rubrics import Rubric
from evalkit.rubrics.profiles import judge_dict

__all__ = ["History", "Version", "rebased"]

_SCHEMA = 1
_DEFAULTS = {"description": "", "mode": "pointwise", "layout": "rubric_first", "pass_at": None}


def rebased(base: Rubric, values: Mapping[str, Any]) -> Rubric:
    """The rubric of these values as an edit of `base`, so that it knows that it is one.

    Raises
    ------
    RubricError
        For values that are no rubric, or of another id.
    """
    given = {str(key): value for key, value in values.items()}
    if given.get("id", base.id) != base.id:
        raise RubricError(f"the id stays {base.id!r} while it is tuned; got {given['id']!r}")
    given.pop("id", None)
    given.pop("version", None)
    return base.edit(**(_DEFAULTS | given))


@dataclass(frozen=True, slots=True)
class Version:
    """A rubric and the jury that applied it; `at` is when it was first run (UTC)."""

    base: Rubric
    rubric: Rubric
    judges: tuple[Judge, ...]
    samples: int
    aggregate: str
    at: str = ""

    @property
    def key(self) -> str:
        """Hash of all that decides the scores."""
        judges = [judge_dict(judge) for judge in self.judges]
        return digest([self.rubric.id, self.rubric.content_hash, judges, self.samples, self.aggregate])[:12]

    @property
    def label(self) -> str:
        """As tables show the rubric's version: ``v1``, or ``v1+1a2b3c4d``."""
        return self.rubric.label

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for the file."""
        return {
            "base": self.base.to_dict(),
            "rubric": self.rubric.to_dict(),
            "judges": [judge_dict(judge) for judge in self.judges],
            "samples": self.samples,
            "aggregate": self.aggregate,
            "at": self.at,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], known: Sequence[Judge] = ()) -> Version:
        """Read back; a judge among `known` that is stored the same way is taken as it is."""
        same = {orjson.dumps(judge_dict(judge)): judge for judge in known}
        judges = tuple(same.get(orjson.dumps(judge)) or Judge.of(judge) for judge in values["judges"])
        base = Rubric(**values["base"])
        return cls(base, rebased(base, values["rubric"]), judges, values["samples"], values["aggregate"], values["at"])


@dataclass(slots=True)
class History:
    """All versions that were run, and where the work stands; kept in one file that is replaced whole.

    Attributes
    ----------
    path
        The file.
    versions
        By key, oldest first.
    place
        Plain values of the session: which version is shown, the draft, the criterion, who labels.
    """

    path: Path
    known: tuple[Judge, ...] = ()
    versions: dict[str, Version] = field(default_factory=dict)
    place: dict[str, Any] = field(default_factory=dict)

    def load(self, rubric_id: str) -> None:
        """Read the file, if it is there; versions of another rubric stay in it and are left out.

        Raises
        ------
        CacheError
            When it cannot be read, or is none of evalkit's.
        """
        values = self._stored()
        self.versions = self._versions(values, rubric_id)
        self.place = dict(values.get("place", {}))

    def _versions(self, values: Mapping[str, Any], rubric_id: str) -> dict[str, Version]:
        found = {}
        for stored in values.get("versions", []):
            if stored["base"]["id"] == rubric_id:
                with suppress(RubricError, ConfigError):  # written by an evalkit that allowed what this one does not
                    version = Version.from_dict(stored, self.known)
                    found[version.key] = version
        return found

    def _stored(self) -> dict[str, Any]:
        try:
            values = orjson.loads(self.path.read_bytes()) if self.path.exists() else {"schema": _SCHEMA}
        except (OSError, orjson.JSONDecodeError) as problem:
            raise CacheError(f"{self.path} cannot be read ({problem}); move it away to begin anew") from problem
        if not isinstance(values, dict) or values.get("schema") != _SCHEMA:
            raise CacheError(f"{self.path} was not written by this version of evalkit; move it away to begin anew")
        return values

    def _holds(self, stored: Mapping[str, Any]) -> bool:
        try:
            return Version.from_dict(stored, self.known).key in self.versions
        except (RubricError, ConfigError):
            return False

    def keep(self) -> None:
        """Write the file, with the versions that another kernel has added since.

        Raises
        ------
        CacheError
            When it cannot be written; what was there stays.
        """
        others = [stored for stored in self._stored().get("versions", []) if not self._holds(stored)]
        mine = [version.to_dict() for version in self.versions.values()]
        values = {"schema": _SCHEMA, "versions": [*others, *mine], "place": self.place}
        text = orjson.dumps(values, option=orjson.OPT_NON_STR_KEYS)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with whole(self.path) as out:
                out.write(text)
        except OSError as problem:
            raise CacheError(f"the tuner's state cannot be written to {self.path}: {problem.strerror}") from problem
