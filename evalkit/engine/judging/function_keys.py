"""The key of a call of any memoized function: its name, its source, its arguments, and what it reads from outside.

`docs/adr/0002-reply-keys.md` says what is in it and why. Over 350 lines, because what is hashed of a value, and which
values a source reads, find each other: a value may be a function, whose source is read in turn.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import dataclasses
import dis
import inspect
import linecache
import re
import sys
import sysconfig
import textwrap
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

from joblib import Memory
from joblib.hashing import NumpyHasher

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Message
from evalkit.core.reply_keys import digest
from evalkit.core.strict_json import plain_number
from evalkit.engine.cache.store import ReplyStore
from evalkit.errors import InputError, listed
from evalkit.rubrics.criteria import FileModel

_SCHEMA = 1
_CODE = (
    "co_name", "co_code", "co_exceptiontable", "co_consts", "co_names", "co_varnames", "co_freevars", "co_argcount",
    "co_flags",
)  # fmt: skip
_LOADS = re.compile(r"LOAD_(NAME|.*GLOBALS?|.*DEREF)")
_LIBRARIES = (*{sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), str(Path(__file__).parents[2])},)
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")
_CONTAINERS = (list, set, dict, deque)
_CHANGES = {"add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert", "remove", "update"}
"""Methods of Python's containers that return nothing."""
_INNER = ("__func__", "fget", "func")
"""Where methods of classes, properties and cached ones have their function."""
_PLAIN = (str, bytes, int, float, bool, type(None), list, tuple, dict, set, frozenset)
_UNCOUNTED = (Memory, ReplyStore, asyncio.Lock, asyncio.Semaphore, asyncio.Event, asyncio.Condition)
_OF_JUDGE = attrgetter("provider", "service", "model", "temperature", "max_tokens", "template", "score")
_CONTENTS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (Message, dict),
    (Judge, lambda judge: (_OF_JUDGE(judge), dict(judge.params))),
    (FileModel, lambda model: model.to_dict()),
    (_UNCOUNTED, lambda _: ""),
    (CodeType, attrgetter(*_CODE)),
    (MethodType, attrgetter("__self__", "__func__")),
)
"""What counts of a value whose pickle says too much, or cannot be made."""
_SESSIONS = re.compile(
    r"(httpx|requests|aiohttp|urllib3)\..*\b(Async|Base)?(Client|Session|ClientSession|PoolManager|ConnectionPool)"
    r"|unittest\.mock\.\w+"
)
"""Clients without an address of their own: sessions of HTTP, and mocks."""
_ADDRESSES = ("base_url", "_base_url", "api_base", "server_url", "endpoint")
_MODELS = ("model", "model_name", "model_id", "deployment")
_ALL_NAMES = re.compile(r"\b(?:locals|vars|eval|exec|_getframe|currentframe|stack)\(")
"""Calls that read arguments without naming them."""
_SECRETS = re.compile(r"key|token|secret|password|credential|auth|header|cookie", re.IGNORECASE)


class FunctionKeys:
    """Makes the keys of the calls of one memoized function.

    Attributes
    ----------
    name
        Module and qualified name of the function.
    sources
        The source of each function that was looked at, by a digest of its code. It is looked up when the function is
        memoized, and travels with it: a file may be edited later, and another process may not have it.
    """

    def __init__(self, func: Any, ignore: Collection[str]) -> None:
        self.func, self.ignore, self.name = func, frozenset(ignore), name_of(func)
        self.sources: dict[str, str] = {}
        self._names: set[str] = set()  # all that it takes and reads
        self.version()

    def __getstate__(self) -> dict[str, Any]:
        with contextlib.suppress(InputError):  # so that the sources of what it reads travel too
            self.parts({})
        return self.__dict__

    def version(self) -> str:
        """A digest of the function's own source."""
        code = getattr(inspect.unwrap(self.func), "__code__", None)
        return digest("" if code is None else self._source(code))

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, with defaults and without ignored ones; `*0` and so on have no name."""
        signature = inspect.signature(self.func)
        bound, values = signature.bind(*args, **kwargs), dict[str, Any]()
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            kind = signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                values |= {
                    f"*{number}": argument for number, argument in enumerate(value) if not {name, "*"} & self.ignore
                }
            elif kind is inspect.Parameter.VAR_KEYWORD:
                values |= {f"**{key}" if key in values else key: argument for key, argument in value.items()}
            else:
                values[name] = value
        self._names |= {*signature.parameters, *values, "*"}
        return {name: value for name, value in values.items() if name not in self.ignore}

    def parts(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What the key of a call is made of: the function's name, digests of its `arguments` and of what it `reads`.

        Functions and classes of one's own that are met on the way are read too.

        Raises
        ------
        InputError
            When one cannot be hashed; or if a name to ignore is in neither.
        """
        met: list[Any] = []
        rows = {name: self._without_label(name, value) for name, value in arguments.items()}
        digests = {name: self._hashed(f"the argument {name!r}", value, met) for name, value in rows.items()}
        call = getattr(type(self.func), "__call__", None)  # noqa: B004  # the method itself is wanted
        root = self.func.__call__ if isinstance(call, FunctionType) else self.func
        reads = {"0 function": self._hashed("the function", root, met)}
        for number, function in enumerate(met):  # more are met in the loop
            for name, value in self._made_of(function):
                where = f" (in {name_of(function)})" if number else ""
                reads[f"{number} {name}"] = self._hashed(f"{name!r}, which it reads{where}", value, met)
        if unused := sorted(self.ignore - self._names):
            raise InputError(
                f"memory.cache cannot ignore {listed(unused)}: {self.name} neither takes nor reads it; it takes "
                f"{listed(arguments)}"
            )
        return {"schema": _SCHEMA, "function": self.name, "arguments": digests, "reads": reads}

    def _without_label(self, name: str, value: Any) -> Any:
        """A row of a table without the number of its place, if the function's own source takes only cells of it."""
        code = getattr(self.func, "__code__", None)
        if type(value).__name__ != "Series" or not isinstance(plain_number(value.name), int) or code is None:
            return value
        is_row = value.index.inferred_type == "string" and value.index.is_unique  # else a cell may be a row itself
        if not is_row or hasattr(self.func, "__wrapped__"):
            return value
        return value.rename(None) if _takes_cells(self._source(code), name, value.__class__) else value

    def _hashed(self, what: str, value: Any, met: list[Any]) -> str:
        """Joblib's hash of a value; `what` names it in the error."""
        try:
            return str(_Hasher(met).hash(value))
        except Exception as problem:
            raise InputError(
                f"memory.cache cannot make a key for {self.name}: {what} ({type(value).__name__}) cannot be hashed "
                f"({type(problem).__name__}: {problem}); if it cannot change the answer, name it in "
                f"@memory.cache(ignore=[…]), else pass what matters of it as an argument; nothing was asked"
            ) from problem

    def _made_of(self, function: Any) -> Iterator[tuple[str, Any]]:
        """What a class or function of one's own is: its source, and the names that it reads, with their values."""
        if isinstance(function, type):
            yield "fields", function.model_json_schema() if hasattr(function, "model_json_schema") else None
            for base in filter(_is_own, function.__mro__):
                for name, member in vars(base).items():
                    inner = next(
                        (getattr(member, attribute) for attribute in _INNER if hasattr(member, attribute)), member
                    )
                    if isinstance(inspect.unwrap(inner), FunctionType):
                        yield f"{base.__name__}.{name}", self._source(inspect.unwrap(inner).__code__)
                    elif isinstance(member, (*_PLAIN, Judge, FileModel)) and name[:2] != "__":
                        yield f"{base.__name__}.{name}", member
            return
        yield "wrapped", getattr(function, "__wrapped__", None)
        if _is_own(function):
            yield "source", self._source(function.__code__)
            values = self._values_read(function)
            self._names |= {*values}
            yield from ((name, value) for name, value in values.items() if name not in self.ignore)

    def _values_read(self, func: FunctionType) -> dict[str, Any]:
        code, loads = func.__code__, _loads_of(func.__code__)
        outer, stored = dict(func.__globals__), _stored(self._source(code))
        for name, cell in zip(code.co_freevars, func.__closure__ or (), strict=False):
            with contextlib.suppress(ValueError):  # not assigned yet
                outer[name] = cell.cell_contents
        values: dict[str, Any] = {} if func is self.func else {"defaults": [func.__defaults__, func.__kwdefaults__]}
        for name, attribute in sorted(loads):
            value = outer.get(name)
            only_changed = {attribute_read for loaded, attribute_read in loads if loaded == name} <= _CHANGES
            if name not in outer or name in stored or (only_changed and isinstance(value, _CONTAINERS)):
                continue
            if isinstance(value, ModuleType) and _is_own(value) and hasattr(value, attribute):  # as in settings.MODEL
                values[f"{name}.{attribute}"] = getattr(value, attribute)
            else:
                values[name] = value
        return values

    def _source(self, code: CodeType) -> str:
        key = _code_digest(code)
        if key not in self.sources:
            self.sources[key] = _source_text(code) or f"code_{key}"
        return self.sources[key]


class _Hasher(NumpyHasher):  # type: ignore[misc]
    """joblib's hash, without what a pickle says too much. Functions and classes of one's own go to the list `met`."""

    def __init__(self, met: list[Any]) -> None:
        super().__init__("sha256")
        self._met = met

    def save(self, obj: Any) -> None:
        """Add a value to the hash."""
        super().save(self._stable(obj))

    def _stable(self, value: Any) -> Any:
        if isinstance(value, (set, frozenset)):  # their order differs between processes
            return type(value).__name__, sorted(_Hasher(self._met).hash(member) for member in value)
        if type(value) in _PLAIN:
            return value
        for kinds, content in _CONTENTS:
            if isinstance(value, kinds):
                return type(value).__name__, content(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):  # it may hold more, such as what it cached
            names = {member.name for member in dataclasses.fields(value)} | {*getattr(value, "__dict__", ())}
            if type(value).__module__.startswith("evalkit."):
                names = {member.name for member in dataclasses.fields(value) if member.compare}
            kind = type(value)
            plain = [name for name in sorted(names) if not isinstance(getattr(kind, name, None), cached_property)]
            return kind, [(name, getattr(value, name, None)) for name in plain]
        if isinstance(value, ModuleType):
            return "module", value.__name__, inspect.getsource(value) if _is_own(value) else ""
        if isinstance(value, FunctionType) or (isinstance(value, type) and _is_own(value)):
            if not any(value is function for function in self._met):
                self._met.append(value)
            return "function", name_of(value), [value is function for function in self._met].index(True)
        if not isinstance(value, type) and callable(value) and _attribute(value, "__wrapped__") is not None:
            return "wrapper", name_of(value), value.__wrapped__
        address = client_address(value)
        return value if address is None else ("client", address, *_settings(value))


def _settings(client: Any) -> tuple[Any, ...]:
    """What a client says beside its address: the model; of one's own also its class, texts, rates and switches."""
    kind = type(client)
    names = {*getattr(client, "__dict__", ())} - {*_ADDRESSES} if _is_own(kind) else _MODELS
    values = ((name, _attribute(client, name)) for name in sorted(names) if not _SECRETS.search(name))
    return kind if _is_own(kind) else "", [pair for pair in values if isinstance(pair[1], (str, float, bool))]


def client_address(value: Any) -> str | None:
    """The address of a client of a service, without name, password and query; None if it is no client.

    A client knows its `base_url`; so does what a library's client holds, such as ``client.chat.completions``. The
    sessions of HTTP libraries and mocks are clients without an address. Records are no clients: the address alone would
    not say what they are.
    """
    kind = type(value)
    is_record = isinstance(value, (SimpleNamespace, tuple, Mapping)) or hasattr(kind, "model_fields")
    if is_record or dataclasses.is_dataclass(value):
        return None
    for owner in (value, None if _is_own(kind) else _attribute(value, "_client")):
        for name in _ADDRESSES:
            if match := re.match(r"(\w+://)(?:[^/@]*@)?([^/?#]+[^?#]*)", str(_attribute(owner, name))):
                return match[1] + match[2].rstrip("/")
    is_session = any(_SESSIONS.fullmatch(f"{base.__module__}.{base.__qualname__}") for base in kind.__mro__)
    return kind.__qualname__ if is_session else None


def _attribute(value: Any, name: str) -> Any:
    """An attribute that an object really has: a table or a mock has more."""
    try:
        inspect.getattr_static(value, name)
        return getattr(value, name)
    except Exception:  # noqa: BLE001  # there is none, or a property of somebody's class failed
        return None


def name_of(func: Any) -> str:
    """Module and qualified name; a script is ``__main__`` in all processes that run it."""
    if isinstance(func, partial):
        return name_of(func.func)
    inner = getattr(func, "__func__", func)
    inner = inner if hasattr(inner, "__qualname__") else type(inner)
    module = getattr(inner, "__module__", None) or "builtins"
    return f"{module.replace('__mp_main__', '__main__')}.{inner.__qualname__}"


def _is_own(value: Any) -> bool:
    """Whether a function, class or module is a user's: not of Python, of an installed package or of evalkit."""
    name = str(getattr(value, "__module__", None) or getattr(value, "__name__", ""))
    if isinstance(value, FunctionType):  # a wrapper has the name of what it wraps
        name = value.__globals__.get("__name__", "")
    module = sys.modules.get(name)
    if module is None or name in ("__main__", "__mp_main__"):
        return True
    file = getattr(module, "__file__", None) or _LIBRARIES[0]
    return not file.startswith(_LIBRARIES) and not _INSTALLED.search(file)


def _source_text(code: CodeType) -> str | None:
    """The source of a function without its decorators; None if there is none that is surely its own."""
    linecache.checkcache(code.co_filename)
    try:
        text = textwrap.dedent("".join(inspect.getsourcelines(code)[0]))
        node = ast.parse(text).body[0]
    except Exception:  # noqa: BLE001  # no file, no text of it, or not that of this function
        return None
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.name != code.co_name:
        return None
    return "\n".join(line.rstrip() for line in text.splitlines()[node.lineno - 1 :])


@lru_cache(maxsize=1024)
def _code_digest(code: CodeType) -> str:
    return str(_Hasher([]).hash(code))


@lru_cache(maxsize=1024)
def _loads_of(code: CodeType) -> frozenset[tuple[str, str]]:
    """The outer names that code reads, each with the attribute that it reads of it, if it does.

    `inspect.getclosurevars` takes attributes for names, and does not look into comprehensions.
    """
    instructions = [instruction for instruction in dis.get_instructions(code) if instruction.opname != "EXTENDED_ARG"]
    loads = {
        (instruction.argval, after.argval if after.opname in ("LOAD_ATTR", "LOAD_METHOD") else "")
        for instruction, after in pairwise(instructions)
        if _LOADS.fullmatch(instruction.opname)
    }
    loads.update(*(_loads_of(inner) for inner in code.co_consts if isinstance(inner, CodeType)))
    return frozenset(pair for pair in loads if pair[0] not in code.co_cellvars)


@lru_cache(maxsize=1024)
def _stored(source: str) -> frozenset[str]:
    """The outer names that a function assigns: by ``global`` or ``nonlocal``, or only as in ``count["n"] += 1``.

    Such a count or log cannot change the answer, and with its value in the key no second call would be found.
    """
    nodes, stored, declared = [*ast.walk(ast.parse(source))], set(), set()
    for node in nodes:
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            declared |= {*node.names}
        if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
            while isinstance(node, (ast.Attribute, ast.Subscript)):
                node = node.value
            stored.add(node)
    names = [node for node in nodes if isinstance(node, ast.Name)]
    read_names = {node.id for node in names if node not in stored}
    return frozenset({node.id for node in names if node in stored} - read_names | declared)


@lru_cache(maxsize=1024)
def _takes_cells(source: str, name: str, kind: type) -> bool:
    """Whether all that a function does with this argument is ``row["x"]``, ``row.x`` or ``row.get("x")``."""
    tree = ast.parse(source)
    function, nodes, cells = tree.body[0], [*ast.walk(tree)], set[ast.expr]()
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or _ALL_NAMES.search(source):
        return False
    for node in nodes:
        match node:
            case ast.Subscript(value=row, slice=ast.Constant(value=str())):
                cells.add(row)
            case ast.Attribute(value=row, attr=attribute) if attribute[0] != "_" and not hasattr(kind, attribute):
                cells.add(row)
            case ast.Call(func=ast.Attribute(value=row, attr="get"), args=[ast.Constant(value=str()), *_]):
                cells.add(row)
    signature = function.args
    is_argument = name in {
        argument.arg for argument in (*signature.posonlyargs, *signature.args, *signature.kwonlyargs)
    }
    return is_argument and all(node in cells for node in nodes if isinstance(node, ast.Name) and node.id == name)
