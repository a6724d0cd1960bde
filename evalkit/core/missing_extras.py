"""Public names whose extra is not installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from lazy_loader import attach_stub

from evalkit.errors import MissingExtraError, advise_extra


def attach_names(
    package: str, file: str, **extras: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a room whose names need extras: ``sqlalchemy="registry"``.

    A name whose extra is missing becomes an `Absent`, so that `help`, `hasattr` and ``import *`` work without it.
    It is looked up again at the next use, because the extra may have been installed in the meantime.
    """
    load, list_names, names = attach_stub(package, file)

    def get_name(name: str) -> Any:
        try:
            return load(name)
        except MissingExtraError as problem:
            return Absent(f"{package}.{name}", str(problem))
        except ModuleNotFoundError as problem:
            if problem.name not in extras:
                raise
            return Absent(f"{package}.{name}", f"{name} needs {problem.name}; {advise_extra(extras[problem.name])}")

    return get_name, list_names, names


class Absent:
    """Placeholder for a name whose extra is missing: it can be listed and printed; its use raises an error.

    Calling it, its attributes, `isinstance` and subclassing raise MissingExtraError.

    Examples
    --------
    >>> Absent("evalkit.runs.Registry", "install its extra")
    <evalkit.runs.Registry is missing: install its extra>
    """

    __slots__ = ("_name", "_why")

    def __init__(self, name: str, why: str) -> None:
        self._name, self._why = name, why

    def __repr__(self) -> str:
        return f"<{self._name} is missing: {self._why}>"

    def __getattr__(self, name: str) -> NoReturn:
        # Python, IPython and documentation tools look for private names: they must not get an error of another kind
        if name.startswith("_"):
            raise AttributeError(name)
        self._refuse()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise MissingExtraError(self._why)

    __call__ = __instancecheck__ = __mro_entries__ = _refuse
