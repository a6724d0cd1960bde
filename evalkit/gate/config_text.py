"""The text of a configuration: YAML or JSON to plain values, and the line in which a key stands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import orjson

from evalkit.errors import ConfigError, RubricError
from evalkit.gate.traces import find_double
from evalkit.rubrics.yaml_files import read_yaml

__all__ = ["line_of", "read_source"]

_LONG = 20_000
_TAG = "tag:yaml.org,2002:"
_WHOLE, _DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)"), re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+")
# Tabs and other breaks; directives and documents; tags, anchors, aliases; "a":b; |2, > # comment; lines of blanks.
_TWO_WAYS = re.compile(
    r"""[\t\r\x85\u2028\u2029\ufeff]|^(%|---|\.\.\.)|(^|[\[{,:?-])\s*[!&*]|["']\s*:\S|(^|\s)[|>](?![+-]?\n)|^\ +$""",
    re.MULTILINE,
)
_DOUBLED = re.compile(r'\(found duplicate key "(.*?)".*\)', re.DOTALL)


def read_source(path: Path) -> Any:
    """The values of a configuration file; a key that stands twice in one mapping is refused.

    Raises
    ------
    ConfigError
        Naming file and line.
    """
    try:
        if path.suffix != ".json":
            found = _quickly(path.read_text(encoding="utf-8"))
            return read_yaml(path) if found is None else found
        text = path.read_bytes()
        values = orjson.loads(text)
        return values if find_double(text) is None else read_yaml(path)  # JSON is YAML, and that names the line
    except OSError as problem:
        raise ConfigError(f"{path} cannot be read: {(problem.strerror or str(problem)).lower()}") from None
    except orjson.JSONDecodeError as problem:
        raise ConfigError(f"{path}, line {problem.lineno}: this is no valid JSON ({problem.msg})") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is no UTF-8 text; save it as UTF-8") from None
    except RecursionError:
        raise ConfigError(f"{path}: this file is nested too deeply") from None
    except RubricError as problem:
        said = _DOUBLED.sub(r"(the key '\1' stands twice in one mapping; keep one)", str(problem))
        raise ConfigError(said) from None


def _quickly(text: str) -> Any:
    """What a long YAML text says, by the C parser of PyYAML; None where that is not there or not sure.

    ruamel's parser in Python takes a second for 2,000 tests, this a tenth of it. Whatever could be read in two ways
    (YAML 1.1 against 1.2) is left to ruamel, and so is every fault: its message names the line.
    """
    if len(text) < _LONG or _TWO_WAYS.search(text):
        return None
    try:
        import yaml
    except ImportError:
        return None
    try:
        made = yaml.load(text, Loader=_loader())  # noqa: S506  # a safe loader, made stricter
    except (yaml.YAMLError, AttributeError, ValueError, RecursionError):  # AttributeError: PyYAML without libyaml
        return None
    return made if isinstance(made, dict) else None


@lru_cache(maxsize=1)
def _loader() -> Any:
    """A safe loader by YAML 1.2: ``on`` and ``no`` are texts; what is not plain raises, and so do doubled keys."""
    import yaml
    from ruamel.yaml.resolver import implicit_resolvers

    class Loader(yaml.CSafeLoader):  # type: ignore[misc]  # without types
        yaml_implicit_resolvers: ClassVar[dict[Any, Any]] = {}
        yaml_constructors: ClassVar[dict[Any, Any]] = {}

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            made: dict[Any, Any] = {}
            for key_node, value_node in node.value:
                key = self.construct_object(key_node, deep=True)
                if not isinstance(key, str) or key in made:
                    raise yaml.YAMLError("a doubled key, or one that is no text")
                made[key] = self.construct_object(value_node, deep=deep)
            return made

    for versions, tag, pattern, first in implicit_resolvers:
        if (1, 2) in versions:
            compiled = re.compile(pattern.pattern, pattern.flags)  # ruamel's own is slow to look at
            Loader.add_implicit_resolver(tag, compiled, first)
    kinds = {"map": "map", "seq": "seq", "str": "str", "null": "null", "bool": "bool"}
    for name, kind in kinds.items():
        Loader.add_constructor(_TAG + name, getattr(yaml.constructor.SafeConstructor, f"construct_yaml_{kind}"))
    Loader.add_constructor(None, yaml.constructor.SafeConstructor.construct_undefined)
    Loader.add_constructor(_TAG + "int", lambda _, node: _number(node.value, _WHOLE, int))
    Loader.add_constructor(_TAG + "float", lambda _, node: _number(node.value, _DECIMAL, float))
    return Loader


def _number(text: str, pattern: re.Pattern[str], kind: type[Any]) -> Any:
    if not pattern.fullmatch(text):
        raise ValueError("a number that is written in an unusual way")
    return kind(text)


def line_of(path: Path, where: Sequence[Any]) -> int:
    """The line of a key, found again in the file; that of what holds it where the key is not there."""
    from ruamel.yaml import YAML

    node: Any = YAML(pure=True).compose(path.read_text(encoding="utf-8"))
    line = 1
    for part in where:
        if node is None or node.id not in ("mapping", "sequence"):
            break
        if node.id == "mapping":
            found = next(((key, value) for key, value in node.value if key.value == str(part)), None)
            if found is None and isinstance(part, int):
                continue  # one instead of a list of one
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
    return line
