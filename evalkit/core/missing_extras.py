"""What stands for a public name whose extra is not installed."""

from __future__ import annotations

from typing import Any, NoReturn

from evalkit.errors import MissingExtraError

__all__ = ["Absent"]


class Absent:
    """Stands for a name whose extra is missing: it can be listed and looked at; its use tells what to install.

    Calling it, its attributes, `isinstance` and subclassing raise MissingExtraError.

    Examples
    --------
    >>> Absent("Registry", "install its extra")
    <evalkit.runs.Registry is not there: install its extra>
    """

    __slots__ = ("_name", "_why")

    def __init__(self, name: str, why: str) -> None:
        self._name, self._why = name, why

    def __repr__(self) -> str:
        return f"<evalkit.{self._name} is not there: {self._why}>"

    def __getattr__(self, name: str) -> NoReturn:
        # what looks for a private name is Python, IPython or a documentation tool: for these it is just not there
        if name.startswith("_"):
            raise AttributeError(name)
        self._tell()

    def _tell(self, *_: Any, **__: Any) -> NoReturn:
        raise MissingExtraError(self._why)

    __call__ = __instancecheck__ = __mro_entries__ = _tell
