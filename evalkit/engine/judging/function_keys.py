"""The key of a call of any memoized function: its name, its source, its arguments, and what it reads from outside.

`docs/adr/0002-reply-keys.md` says what is in it and why.
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
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from joblib import Memory
from joblib.hashing import NumpyHasher
from joblib.memory import MemorizedFunc

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Message
from evalkit.core.reply_keys import digest
from evalkit.engine.cache.store import ReplyStore
from evalkit.errors import InputError, listed
from evalkit.rubrics.criteria import FileModel

_SCHEMA = 1
_PLAIN = (str, bytes, int, float, bool, type(None), list, tuple, dict, set, frozenset)
_WAITING = (asyncio.Lock, asyncio.Semaphore, asyncio.Event, asyncio.Condition)
_SESSIONS = {"httpx", "requests", "aiohttp", "urllib3", "unittest"}
"""Packages of clients without an address of their own: sessions of HTTP, and mocks."""
_ADDRESSES = ("base_url", "_base_url", "api_base", "azure_endpoint", "server_url", "endpoint")
_INNER_CLIENTS = ("_client", "client")
_MODELS = ("model", "model_name", "model_id", "deployment")
_GLOBAL_LOADS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_ATTRIBUTE_LOADS = {"LOAD_ATTR", "LOAD_METHOD"}
_SECRETS = re.compile(r"key|token|secret|password|credential|auth|header|cookie", re.IGNORECASE)
_CHANGES = {"add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert", "remove", "update"}
"""Methods of Python's containers that return nothing."""
_PACKAGE = str(Path(__file__).parents[2])


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

    def __init__(self, func: Any, ignore: Collection[str], sources: dict[str, str] | None = None) -> None:
        self.func, self.ignore, self.sources = func, frozenset(ignore), {} if sources is None else sources
        self.name = _name(func)
        self._ignored: set[str] = set()
        for layer in _layers(func):
            self._source(layer)

    @property
    def source_digest(self) -> str:
        """The digest of the function's own source."""
        return digest([self._source(layer) for layer in _layers(self.func)])

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, with defaults and without ignored ones; ``*`` and ``**`` hold the rest."""
        try:
            signature = inspect.signature(self.func)
        except (TypeError, ValueError):
            return {"*": args, "**": dict(kwargs)}
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        values: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                values["**"] = {key: one for key, one in value.items() if not self._is_ignored(key)}
            else:
                values["*" if kind is inspect.Parameter.VAR_POSITIONAL else name] = value
        if isinstance(self.func, MethodType):
            values["self"] = self.func.__self__
        elif not isinstance(self.func, (FunctionType, BuiltinFunctionType, partial)) and callable(self.func):
            values["self"] = self.func
        return {name: value for name, value in values.items() if not self._is_ignored(name)}

    def reads(self) -> dict[str, str]:
        """What the function reads from globals and closures now: a digest by name."""
        digests: dict[str, str] = {}
        func = self.func
        while isinstance(func, partial):
            digests["partial"] = self._hashed("what the partial holds", [func.args, func.keywords, digests], ())
            func = func.func
        for number, layer in enumerate(_layers(func)):
            for name, value in self._values_read(layer):
                if not self._is_ignored(name):
                    what = f"{name!r}, which it reads"
                    digests[f"{number} {name}"] = self._hashed(what, value, (layer.__code__,))
        return digests

    def key(self, arguments: Mapping[str, Any], reads: Mapping[str, str]) -> str:
        """The key (64 hexadecimal digits) of a call with these `arguments`, when the function reads that.

        Raises
        ------
        InputError
            When an argument, or something that the function reads, cannot be hashed; or if a name to ignore is in
            neither.
        """
        parts = {
            "schema": _SCHEMA,
            "function": self.name,
            "source": self.source_digest,
            "reads": dict(reads),
            "arguments": {name: self._hashed(f"the argument {name!r}", value, ()) for name, value in arguments.items()},
        }
        unused = sorted(self.ignore - self._ignored - {*_parameters(self.func)})
        if unused:
            raise InputError(
                f"memory.cache cannot ignore {listed(unused)}: {self.name} neither takes nor reads it; it takes "
                f"{listed(_parameters(self.func))}"
            )
        return digest(parts)

    def _is_ignored(self, name: str) -> bool:
        if name in self.ignore:
            self._ignored.add(name)
            return True
        return False

    def _hashed(self, what: str, value: Any, seen: tuple[CodeType, ...]) -> str:
        """Joblib's hash of a value; `what` names it in the error."""
        try:
            return str(_Hasher(self, seen).hash(value))
        except InputError:
            raise
        except Exception as problem:
            kind = type(value).__name__
            raise InputError(
                f"memory.cache cannot make a key for {self.name}: {what} ({kind}) cannot be hashed "
                f"({type(problem).__name__}: {problem}); if it cannot change the answer, name it in "
                f"@memory.cache(ignore=[…]), else pass what matters of it as an argument; nothing was asked"
            ) from problem

    def stable(self, value: Any, seen: tuple[CodeType, ...]) -> Any:  # one line per kind
        """What is hashed in place of a value whose pickle says too much, or cannot be made."""
        if type(value) in _PLAIN:
            return value
        if isinstance(value, Message):
            return dict(value)
        if isinstance(value, Judge):
            names = ("provider", "service", "model", "temperature", "max_tokens")
            return "judge", [getattr(value, name) for name in names], dict(value.params)
        if isinstance(value, FileModel):
            return type(value).__name__, value.to_dict()  # type: ignore[attr-defined]  # of all that are public
        if isinstance(value, (Memory, ReplyStore, *_WAITING)):
            return type(value).__name__
        if dataclasses.is_dataclass(value) and type(value).__module__.startswith("evalkit."):
            fields = {one.name: getattr(value, one.name) for one in dataclasses.fields(value) if one.compare}
            return type(value).__name__, fields
        code = self._stable_code(value, seen)
        address = client_address(value) if code is value else None
        return code if address is None else ("client", address, _settings(value))

    def _stable_code(self, value: Any, seen: tuple[CodeType, ...]) -> Any:
        """A function, class or module as what it is made of; other values unchanged."""
        if isinstance(value, MemorizedFunc):
            return self._described(value.func, seen)
        if isinstance(value, ModuleType):
            return "module", value.__name__
        if isinstance(value, MethodType):
            return "method", value.__self__, self._described(value.__func__, seen)
        if isinstance(value, type):
            return _described_class(value)
        if isinstance(value, (FunctionType, partial)) or (callable(value) and _attribute(value, "__wrapped__")):
            return self._described(value, seen)
        return value

    def _described(self, func: Any, seen: tuple[CodeType, ...]) -> Any:
        """A function as what it is made of: its name, and of one's own code source, defaults and what it reads."""
        if isinstance(func, partial):
            return "partial", self._described(func.func, seen), func.args, func.keywords
        made_of: list[Any] = [_name(func)]
        for layer in _layers(func):
            if layer.__code__ in seen:
                continue
            inner, where = (*seen, layer.__code__), f"which it reads (in {_name(layer)})"
            defaults = self._hashed(f"a default of {_name(layer)}", [layer.__defaults__, layer.__kwdefaults__], inner)
            made_of += [self._source(layer), defaults]
            for name, value in self._values_read(layer):
                if not self._is_ignored(name):
                    made_of.append((name, self._hashed(f"{name!r}, {where}", value, inner)))
        return "function", made_of

    def _source(self, func: FunctionType) -> str:
        key = _code_digest(func.__code__)
        if key not in self.sources:
            self.sources[key] = _source_text(func.__code__) or key
        return self.sources[key]

    def _values_read(self, func: FunctionType) -> Iterator[tuple[str, Any]]:
        """The names that a function reads from closures and globals, with their values."""
        code, written = func.__code__, _only_written(self._source(func))
        values: dict[str, Any] = {}
        for name, cell in zip(code.co_freevars, func.__closure__ or (), strict=False):
            with contextlib.suppress(ValueError):  # not assigned yet
                values[name] = cell.cell_contents
        loads = _loads(code)
        values |= {name: func.__globals__[name] for name in sorted(loads) if name in func.__globals__}
        for name, value in values.items():
            if name in written and (written[name] or isinstance(value, (list, set, dict, deque))):
                continue
            yield name, value
            attributes = loads.get(name, ())
            own_module = isinstance(value, ModuleType) and _is_own(getattr(value, "__file__", None) or "")
            if own_module or (isinstance(value, type) and _is_own_class(value)):
                for attribute in sorted(attributes):  # as in settings.MODEL
                    if hasattr(value, attribute):
                        yield f"{name}.{attribute}", getattr(value, attribute)


class _Hasher(NumpyHasher):  # type: ignore[misc]
    """joblib's hash, of `FunctionKeys.stable` of each value."""

    def __init__(self, keys: FunctionKeys, seen: tuple[CodeType, ...]) -> None:
        super().__init__("sha256")
        self._keys, self._seen = keys, seen

    def save(self, obj: Any) -> None:
        """Add a value to the hash."""
        super().save(self._keys.stable(obj, self._seen))


def client_address(value: Any) -> str | None:
    """The address of a client of a service, without name, password and query; None if it is no client.

    A client is an object with methods that knows its `base_url`; so is what a library's client holds, such as
    ``client.chat.completions``. The sessions of HTTP libraries and mocks are clients without an address.
    """
    if _is_record(value):
        return None
    is_library = not _is_own_class(type(value))
    for owner in (value, *(_attribute(value, name) for name in _INNER_CLIENTS if is_library)):
        for name in _ADDRESSES:
            address = _attribute(owner, name)
            if isinstance(address, str) or type(address).__name__ in ("URL", "Url"):
                parts = urlsplit(str(address))
                if parts.hostname:
                    port = f":{parts.port}" if parts.port else ""
                    return f"{parts.scheme}://{parts.hostname}{port}{parts.path.rstrip('/')}"
    is_session = any(base.__module__.partition(".")[0] in _SESSIONS for base in type(value).__mro__)
    return type(value).__qualname__ if is_session else None


def _settings(client: Any) -> list[tuple[str, str]]:
    """What a client says beside its address: the model, and of one's own class all texts that are no secrets."""
    if not _is_own_class(type(client)):
        return [(name, str(_attribute(client, name))) for name in _MODELS if isinstance(_attribute(client, name), str)]
    texts = ((name, one) for name, one in vars(client).items() if isinstance(one, (str, float, bool)))
    return sorted((name, str(one)) for name, one in texts if not _SECRETS.search(name) and name not in _ADDRESSES)


def _attribute(value: Any, name: str) -> Any:
    """An attribute that an object really has: a table or a mock has more."""
    try:
        inspect.getattr_static(value, name)
        return getattr(value, name)
    except Exception:  # noqa: BLE001  # there is none, or a property of somebody's class failed
        return None


def _is_own_class(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    return kind.__module__ in ("__main__", "__mp_main__") or _is_own(getattr(module, "__file__", None) or "")


def _is_record(value: Any) -> bool:
    """Whether an object only holds values: its address alone would not say what it is."""
    kind = type(value)
    if isinstance(value, (SimpleNamespace, tuple, Mapping)) or dataclasses.is_dataclass(value):
        return True
    if hasattr(kind, "model_fields"):
        return True
    names = {name for base in kind.__mro__[:-1] for name in vars(base) if not name.startswith("_")}
    return not any(callable(getattr(kind, name, None)) for name in names)


def _parameters(func: Any) -> list[str]:
    try:
        return [*inspect.signature(func).parameters]
    except (TypeError, ValueError):
        return []


def _name(func: Any) -> str:
    """Module and qualified name; a script is ``__main__`` in all processes that run it."""
    if isinstance(func, partial):
        return _name(func.func)
    inner = getattr(func, "__func__", func)
    if not hasattr(inner, "__qualname__"):
        inner = type(inner)
    module = getattr(inner, "__module__", None) or "builtins"
    return f"{module.replace('__mp_main__', '__main__')}.{inner.__qualname__}"


def _layers(func: Any) -> list[Any]:
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
        if isinstance(func, FunctionType) and _is_own(func.__code__.co_filename):
            layers.append(func)
        func = getattr(func, "__wrapped__", None)
    return layers


@lru_cache(maxsize=1)
def _libraries() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({*(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")), _PACKAGE})


@lru_cache(maxsize=4096)
def _is_own(file: str) -> bool:
    """Whether a file is a user's: not of Python, of an installed package or of evalkit. Cells of a notebook are."""
    if not file or file.startswith("<frozen") or {"site-packages", "dist-packages"} & {*Path(file).parts}:
        return False
    return not file.startswith(_libraries())


def _described_class(kind: type) -> Any:
    name = f"{kind.__module__.replace('__mp_main__', '__main__')}.{kind.__qualname__}"
    if kind.__module__ == "builtins":
        return "class", name
    try:
        own = _is_own(inspect.getsourcefile(kind) or "")
        return "class", name, textwrap.dedent(inspect.getsource(kind)) if own else ""
    except (OSError, TypeError):  # made in a cell or by a function
        members = dict(vars(kind))
        codes = [_code_digest(one.__code__) for one in members.values() if isinstance(one, FunctionType)]
        plain = [f"{name} {one!r}" for name, one in members.items() if type(one) in _PLAIN and name[:2] != "__"]
        types = [f"{name}: {one}" for name, one in members.get("__annotations__", {}).items()]
        return "class", name, sorted(codes), sorted(plain), types


def _code_digest(code: CodeType) -> str:
    """A digest of what a code object does, the same in all processes of one version of Python."""
    constants = [
        _code_digest(one)
        if isinstance(one, CodeType)
        else sorted(map(repr, one))
        if isinstance(one, frozenset)
        else f"{type(one).__name__} {one!r}"
        for one in code.co_consts
    ]
    names = [code.co_name, *code.co_names, "", *code.co_varnames, "", *code.co_freevars]
    counts = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags]
    return digest([code.co_code.hex(), code.co_exceptiontable.hex(), names, counts, constants])


def _source_text(code: CodeType) -> str | None:
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
    (first, start), (last, end) = min((one[0], one[2]) for one in places), max((one[1], one[3]) for one in places)
    lines = [line.encode() for line in linecache.getlines(code.co_filename)[first - 1 : last]]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return f"lambda {', '.join(names)}: (\n{b''.join(lines).decode()}\n)"


@lru_cache(maxsize=1024)
def _loads(code: CodeType) -> Mapping[str, frozenset[str]]:
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
            for name, more in _loads(constant).items():
                loads.setdefault(name, set()).update(more)
    return {name: frozenset(attributes) for name, attributes in loads.items()}


@lru_cache(maxsize=1024)
def _only_written(source: str) -> Mapping[str, bool]:
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
    read = {one.id for one in nodes if isinstance(one, ast.Name) and id(one) not in changed}
    return {
        name: all(surely for one, surely in changed.values() if one == name)
        for name in {name for name, _ in changed.values()} - read
    }
