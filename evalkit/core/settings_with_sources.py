"""Settings with their values and sources. If several places set a value, the first one wins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Place = tuple[str, Mapping[str, Any]]
"""A source of values (``argument``, ``flag``, ``variable``, ``profile strict``, ``default``) and its values."""


class Settings(dict[str, Any]):
    """Values of settings, with their sources; `print` shows both. Methods return copies.

    Examples
    --------
    >>> made = Settings.of(("flag", {"samples": None, "vote": "median"}), ("profile p", {"samples": 5, "vote": "mean"}))
    >>> made["samples"], made.source("samples"), made["vote"], made.source("vote")
    (5, 'profile p', 'median', 'flag')
    >>> print(made)
    vote     median  flag
    samples  5       profile p
    """

    def __init__(self, values: Mapping[str, Any] | None = None, sources: Mapping[str, str] | None = None) -> None:
        super().__init__(values or {})
        self.sources = dict(sources or {})

    @classmethod
    def of(cls, *places: Place) -> Settings:
        """The settings from these places; the first place that sets a value wins, None sets nothing."""
        values: dict[str, Any] = {}
        sources: dict[str, str] = {}
        for source, named in places:
            for name, value in named.items():
                if value is not None and name not in values:
                    values[name], sources[name] = value, source
        return cls(values, sources)

    def source(self, name: str) -> str:
        """The source of a value; ``default`` if no place sets it."""
        return self.sources.get(name, "default")

    def filled(self, *places: Place) -> Settings:
        """A copy with values from these places for settings that have none yet."""
        return Settings.of(*((self.sources[name], {name: value}) for name, value in self.items()), *places)

    def changed(self, name: str, value: Any, source: str | None = None) -> Settings:
        """A copy with one value changed, and its source if one is given."""
        return Settings(self | {name: value}, self.sources | {name: source or self.source(name)})

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Setting -> its value and source."""
        return {name: {"value": _shown(value), "source": self.source(name)} for name, value in self.items()}

    def __str__(self) -> str:
        rows = [(name, _text(value), self.source(name)) for name, value in self.items()]
        first, second = (max((len(row[at]) for row in rows), default=0) for at in (0, 1))
        return "\n".join(f"{name:<{first}}  {value:<{second}}  {source}" for name, value, source in rows)


def _shown(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_shown(one) for one in value]
    return value if isinstance(value, (int, float, str)) else getattr(value, "name", None) or str(value)


def _text(value: Any) -> str:
    shown = _shown(value)
    return ", ".join(map(str, shown)) if isinstance(shown, list) else str(shown)
