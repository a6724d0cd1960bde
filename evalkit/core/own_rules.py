"""A user's function as a rule of `vote` or `aggregate`: its name, and the text by which files and keys hold it."""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from typing import Any, Self, cast

from evalkit.core.vote_aggregate_rules import AGGREGATE_RULES, AggregateRule, Rule
from evalkit.errors import ConfigError

_TEXT = re.compile(r"(?P<path>[^\W\d][\w.]*:[^\W\d][\w.]*)(@(?P<sha256>[0-9a-f]{64}))?")
_OWN = Rule("your own function")


class OwnRule(str):
    """The text of a user's function, ``module:name@sha256 of its source``, with the function.

    As a text it passes through all that shows, hashes or writes the name of a rule.

    Attributes
    ----------
    function
        What is called for each cell.
    name
        Its name, as in the column `method`.
    import_path
        ``module:name``, from which another process can import it; None for a lambda, for what a notebook, a script or
        another function defines, and for what has no source.
    """

    __slots__ = ("function", "import_path", "name")
    function: Callable[..., Any]
    import_path: str | None
    name: str

    def __new__(cls, function: Callable[..., Any]) -> Self:
        """The rule that calls this function."""
        inner = getattr(function, "func", function)  # of functools.partial
        name = getattr(inner, "__name__", type(inner).__name__)
        path, source = _path_of(function), _source_of(function)
        if source is None and path is not None and path.partition(":")[0] in sys.stdlib_module_names:
            source = path  # compiled, and its meaning does not change
        path = path if source else None
        rule = super().__new__(cls, f"{path or name}@{hashlib.sha256((source or repr(function)).encode()).hexdigest()}")
        rule.function, rule.name, rule.import_path = function, name, path
        return rule

    def __reduce__(self) -> Any:
        return rule_of, (self.function if self.import_path is None else str(self),)

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    @property
    def where(self) -> str:
        """What stands in the column `options`: its import path, else its name."""
        return self.import_path or self.name

    @property
    def takes_weights(self) -> bool:
        """Whether the function has a parameter `weights` that can be passed by keyword, and is not set yet."""
        try:
            weights = inspect.signature(self.function).parameters.get("weights")
        except (ValueError, TypeError):  # a builtin that has none
            return False
        is_set = "weights" in (getattr(self.function, "keywords", None) or {})
        return (
            weights is not None and not is_set and weights.kind in (weights.POSITIONAL_OR_KEYWORD, weights.KEYWORD_ONLY)
        )


def _path_of(function: Any) -> str | None:
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    try:
        is_importable = attrgetter(name)(sys.modules[str(module)]) is function
    except (AttributeError, KeyError):
        return None
    return f"{module}:{name}" if is_importable and module != "__main__" else None


def _source_of(function: Any) -> str | None:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return None


def rule_of(given: Any) -> Any:
    """An `OwnRule` for a function, or for the text of one; anything else as it is.

    Raises
    ------
    ConfigError
        When the text names no function, or one whose source is no longer that of its hash.
    """
    parts = _TEXT.fullmatch(given) if isinstance(given, str) and not isinstance(given, OwnRule) else None
    if parts is None:
        return OwnRule(given) if callable(given) else given
    module, _, name = parts["path"].partition(":")
    try:
        function = attrgetter(name)(import_module(module))
    except (ImportError, AttributeError) as problem:
        raise ConfigError(
            f"the rule {parts['path']!r} cannot be imported ({problem}); if its module is not installed, add its "
            "folder to PYTHONPATH"
        ) from None
    if not callable(function):
        raise ConfigError(f"the rule {parts['path']!r} is a {type(function).__name__}, not a function")
    rule, then = OwnRule(function), parts["sha256"]
    if then is not None and (now := rule.rpartition("@")[2]) != then:
        raise ConfigError(
            f"the source of the rule {parts['path']!r} changed (sha256 now {now[:8]}, then {then[:8]}), so it may give "
            "other scores; restore it, or freeze again"
        )
    return rule


def text_in_file(given: Any) -> str | None:
    """How profiles and receipts hold a rule: the text of a function, with its hash; None for what is no function.

    Raises
    ------
    ValueError
        For a function that no other process can import, or that has no source.
    """
    parts = _TEXT.fullmatch(given) if isinstance(given, str) else None
    if parts is not None and parts["sha256"] is not None:
        return str(given)
    rule = rule_of(given)
    if not isinstance(rule, OwnRule):
        return None
    if rule.import_path is None:
        raise ValueError(
            f"the rule {rule.name!r} cannot be stored: it is a lambda, defined in a notebook, a script or "
            "another function, or has no Python source, so no other process can import and check it; define it with "
            "def in a module"
        )
    return str(rule)


def aggregate_rule(method: str) -> Rule:
    """What is known of a rule from votes to scores."""
    return _OWN if isinstance(method, OwnRule) else AGGREGATE_RULES[cast(AggregateRule, method)]
