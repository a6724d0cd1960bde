"""Settings: each with its value and where it came from. Of several places, the first that names a setting counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Place = tuple[str, Mapping[str, Any]]
"""Where values come from (``argument``, ``flag``, ``variable``, ``profile strict``, ``default``), and what it names."""


@dataclass(frozen=True)
class Settings(Mapping[str, Any]):
    """Values of settings, with their sources; `print` shows both.

    Examples
    --------
    >>> made = Settings.of(("flag", {"samples": None, "vote": "median"}), ("profile p", {"samples": 5, "vote": "mean"}))
    >>> made["samples"], made.source("samples"), made["vote"], made.source("vote")
    (5, 'profile p', 'median', 'flag')
    >>> print(made)
    vote     median  flag
    samples  5       profile p
    """

    values_by_name: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, *places: Place) -> Settings:
        """The settings that these places name, the first place first; None names nothing."""
        values: dict[str, Any] = {}
        sources: dict[str, str] = {}
        for source, named in places:
            for name, value in named.items():
                if value is not None and name not in values:
                    values[name], sources[name] = value, source
        return cls(values, sources)

    def source(self, name: str) -> str:
        """Where a value came from; ``default`` where no place names it."""
        return self.sources.get(name, "default")

    def filled(self, *places: Place) -> Settings:
        """A copy with what these places name and the settings so far do not."""
        return Settings.of(*((self.source(name), {name: value}) for name, value in self.items()), *places)

    def changed(self, name: str, value: Any, source: str | None = None) -> Settings:
        """A copy with one value changed; its source stays, unless another one is given."""
        return Settings({**self.values_by_name, name: value}, {**self.sources, name: source or self.source(name)})

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Setting -> its value and source."""
        return {name: {"value": _shown(value), "source": self.source(name)} for name, value in self.items()}

    def __getitem__(self, name: str) -> Any:
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

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
