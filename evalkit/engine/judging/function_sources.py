"""The source of functions, and the names that they read: what of a function is part of a key."""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
import sys
import sysconfig
import textwrap
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any

from joblib.memory import MemorizedFunc

from evalkit.core.reply_keys import digest

PLAIN = (str, bytes, int, float, bool, type(None), list, tuple, dict, set, frozenset)
"""Types of values that are hashed as they are."""
_GLOBAL_LOADS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_ATTRIBUTE_LOADS = {"LOAD_ATTR", "LOAD_METHOD"}
_CHANGES = {"add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert", "remove", "update"}
"""Methods of Python's containers that return nothing."""
_PACKAGE = str(Path(__file__).parents[2])


def name_of(func: Any) -> str:
    """Module and qualified name; a script is ``__main__`` in all processes that run it."""
    if isinstance(func, partial):
        return name_of(func.func)
    inner = getattr(func, "__func__", func)
    if not hasattr(inner, "__qualname__"):
        inner = type(inner)
    module = getattr(inner, "__module__", None) or "builtins"
    return f"{module.replace('__mp_main__', '__main__')}.{inner.__qualname__}"


def layers_of(func: Any) -> list[Any]:
    """The functions of one's own code that a decorated function is made of, from the outermost; not those of libraries.

    An object with ``__call__`` is that method, a partial its function.
    """
    layers: list[Any] = []
    while func is not None and len(layers) < 50:  # a loop of wrappers
        inner = func.func if isinstance(func, (partial, MemorizedFunc)) else getattr(func, "__func__", func)
        if inner is not func:
            func = inner
            continue
        if not isinstance(func, (FunctionType, BuiltinFunctionType, type)) and not hasattr(func, "__wrapped__"):
            func = getattr(type(func), "__call__", None)  # noqa: B004  # the method itself is wanted
        if isinstance(func, FunctionType) and is_own(func.__code__.co_filename):
            layers.append(func)
        func = getattr(func, "__wrapped__", None)
    return layers


@lru_cache(maxsize=1)
def _libraries() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({*(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")), _PACKAGE})


@lru_cache(maxsize=4096)
def is_own(file: str) -> bool:
    """Whether a file is a user's: not of Python, of an installed package or of evalkit. Cells of a notebook are."""
    if not file or file.startswith("<frozen") or {"site-packages", "dist-packages"} & {*Path(file).parts}:
        return False
    return not file.startswith(_libraries())


def methods_of(kind: type) -> Iterator[tuple[str, FunctionType]]:
    """The methods of a class and its bases that are of one's own code."""
    for base in kind.__mro__[:-1]:
        for name, member in vars(base).items():
            inner = getattr(member, "__func__", member)
            if isinstance(inner, FunctionType) and is_own(inner.__code__.co_filename):
                yield name, inner


def code_digest(code: CodeType) -> str:
    """A digest of what a code object does, the same in all processes of member version of Python."""
    constants = [
        code_digest(member)
        if isinstance(member, CodeType)
        else sorted(map(repr, member))
        if isinstance(member, frozenset)
        else f"{type(member).__name__} {member!r}"
        for member in code.co_consts
    ]
    names = [code.co_name, *code.co_names, "", *code.co_varnames, "", *code.co_freevars]
    counts = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags]
    return digest([code.co_code.hex(), code.co_exceptiontable.hex(), names, counts, constants])


def source_text(code: CodeType) -> str | None:
    """The source of a function without its decorators; None if there is none that is surely its own."""
    linecache.checkcache(code.co_filename)
    try:
        lines = inspect.getsourcelines(code)[0]
        if code.co_name == "<lambda>":
            return _lambda_text(code)
        text = textwrap.dedent("".join(lines))
        node = ast.parse(text).body[0]
    except Exception:  # noqa: BLE001  # no file, no text of it, or not that of this function
        return None
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.name != code.co_name:
        return None
    return "\n".join(line.rstrip() for line in text.splitlines()[node.lineno - 1 :])


def _lambda_text(code: CodeType) -> str | None:
    """The expression of a lambda: a line may have several."""
    places = [(first, last, start, end) for first, last, start, end in code.co_positions() if first and last and end]
    if not places:
        return None
    (first, start), (last, end) = min((span[0], span[2]) for span in places), max((span[1], span[3]) for span in places)
    lines = [line.encode() for line in linecache.getlines(code.co_filename)[first - 1 : last]]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return f"lambda {', '.join(names)}: (\n{b''.join(lines).decode()}\n)"


@lru_cache(maxsize=1024)
def loads_of(code: CodeType) -> Mapping[str, frozenset[str]]:
    """The global names that code reads, with the attributes that it reads of each; functions inside it included.

    `inspect.getclosurevars` takes attributes for names, and does not look into comprehensions.
    """
    loads: dict[str, set[str]] = {}
    instructions = list(dis.get_instructions(code))
    for instruction, after in zip(instructions, [*instructions[1:], None], strict=True):
        if instruction.opname in _GLOBAL_LOADS:
            attributes = loads.setdefault(instruction.argval, set())
            if after is not None and after.opname in _ATTRIBUTE_LOADS:
                attributes.add(after.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            for name, more in loads_of(constant).items():
                loads.setdefault(name, set()).update(more)
    return {name: frozenset(attributes) for name, attributes in loads.items()}


@lru_cache(maxsize=1024)
def changed_attributes(source: str) -> frozenset[str]:
    """The attributes that a method changes, such as a count of calls."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError:
        return frozenset()
    changed: set[str] = set()
    for node in nodes:
        owner: ast.AST = node
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
            owner = node.func.value
        elif not isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
            continue
        while isinstance(owner, ast.Subscript):
            owner = owner.value
        if isinstance(owner, ast.Attribute):
            changed.add(owner.attr)
    return frozenset(changed)


@lru_cache(maxsize=1024)
def only_written(source: str) -> Mapping[str, bool]:
    """The names that a function only changes and never reads, as in ``calls.append(1)`` and ``n += 1``.

    Such a count or log cannot change the answer, and with its value in the key no second call would be found. False: it
    does so by a method, which may return something if the value is none of Python's containers.
    """
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError:
        return {}
    changed: dict[int, tuple[str, bool]] = {}  # names in a place where they are changed
    for node in nodes:
        targets: list[ast.expr] = []
        by_method = isinstance(node, ast.Call)
        if isinstance(node, ast.AugAssign):
            targets = [node.target]
        elif isinstance(node, (ast.Assign, ast.Delete)):
            targets = node.targets
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
            targets = [node.func.value]
        for target in targets:
            inner = target
            while isinstance(inner, (ast.Attribute, ast.Subscript)) and not by_method:
                inner = inner.value
            if isinstance(inner, ast.Name):
                changed[id(inner)] = inner.id, not by_method
    read_names = {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in changed}
    return {
        name: all(surely for changed_name, surely in changed.values() if changed_name == name)
        for name in {name for name, _ in changed.values()} - read_names
    }


def is_own_class(kind: type) -> bool:
    """Whether a class is of a user's code: see `is_own`."""
    module = sys.modules.get(kind.__module__)
    return kind.__module__ in ("__main__", "__mp_main__") or is_own(getattr(module, "__file__", None) or "")
