"""The key of a call of any memoized function: its name, its source, its arguments, and what it reads from outside.

`docs/adr/0002-reply-keys.md` says what is in it and why.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import inspect
import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from functools import partial
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
from evalkit.engine.judging.function_sources import (
    PLAIN,
    changed_attributes,
    code_digest,
    is_own,
    is_own_class,
    layers_of,
    loads_of,
    methods_of,
    name_of,
    only_written,
    source_text,
)
from evalkit.errors import InputError, listed
from evalkit.rubrics.criteria import FileModel

_SCHEMA = 1
_WAITING = (asyncio.Lock, asyncio.Semaphore, asyncio.Event, asyncio.Condition)
_SESSIONS = {"httpx", "requests", "aiohttp", "urllib3", "unittest"}
"""Packages of clients without an address of their own: sessions of HTTP, and mocks."""
_ADDRESSES = ("base_url", "_base_url", "api_base", "azure_endpoint", "server_url", "endpoint")
_INNER_CLIENTS = ("_client", "client")
_MODELS = ("model", "model_name", "model_id", "deployment")
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

    def __init__(self, func: Any, ignore: Collection[str], sources: dict[str, str] | None = None) -> None:
        self.func, self.ignore, self.sources = func, frozenset(ignore), {} if sources is None else sources
        self.name = name_of(func)
        self._ignored: set[str] = set()
        self._signature: inspect.Signature | None = None
        with contextlib.suppress(TypeError, ValueError):  # some functions of C have none
            self._signature = inspect.signature(func)
        for layer in layers_of(func):
            self._source(layer)

    @property
    def source_digest(self) -> str:
        """The digest of the function's own source."""
        return digest([self._source(layer) for layer in layers_of(self.func)])

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, with defaults and without ignored ones; ``*`` and ``**`` hold the rest."""
        signature = self._signature
        if signature is None:
            return {"*": args, "**": dict(kwargs)}
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        values: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                values["**"] = {key: argument for key, argument in value.items() if not self._is_ignored(key)}
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
        for number, layer in enumerate(layers_of(func)):
            for name, value in self._values_read(layer):
                if not self._is_ignored(name):
                    role = f"{name!r}, which it reads"
                    digests[f"{number} {name}"] = self._hashed(role, value, (layer.__code__,))
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
        parameters = [] if self._signature is None else [*self._signature.parameters]
        unused = sorted(self.ignore - self._ignored - {*parameters})
        if unused:
            raise InputError(
                f"memory.cache cannot ignore {listed(unused)}: {self.name} neither takes nor reads it; it takes "
                f"{listed(parameters)}"
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
        if type(value) in PLAIN:
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
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.compare}
            return type(value).__name__, fields
        code = self._stable_code(value, seen)
        address = client_address(value) if code is value else None
        return code if address is None else ("client", address, self._settings(value))

    def _stable_code(self, value: Any, seen: tuple[CodeType, ...]) -> Any:
        """A function, class or module as what it is made of; other values unchanged."""
        if isinstance(value, MemorizedFunc):
            return self._described(value.func, seen)
        if isinstance(value, ModuleType):
            return "module", value.__name__
        if isinstance(value, MethodType):
            return "method", value.__self__, self._described(value.__func__, seen)
        if isinstance(value, type):
            return self._described_class(value)
        if isinstance(value, (FunctionType, partial)) or (callable(value) and _attribute(value, "__wrapped__")):
            return self._described(value, seen)
        return value

    def _described(self, func: Any, seen: tuple[CodeType, ...]) -> Any:
        """A function as what it is made of: its name, and of one's own code source, defaults and what it reads."""
        if isinstance(func, partial):
            return "partial", self._described(func.func, seen), func.args, func.keywords
        made_of: list[Any] = [name_of(func)]
        for layer in layers_of(func):
            if layer.__code__ in seen:
                continue
            inner, where = (*seen, layer.__code__), f"which it reads (in {name_of(layer)})"
            defaults = self._hashed(f"a default of {name_of(layer)}", [layer.__defaults__, layer.__kwdefaults__], inner)
            made_of += [self._source(layer), defaults]
            for name, value in self._values_read(layer):
                if not self._is_ignored(name):
                    made_of.append((name, self._hashed(f"{name!r}, {where}", value, inner)))
        return "function", made_of

    def _described_class(self, kind: type) -> Any:
        """A class of one's own as its methods, fields and plain attributes; another one as its name."""
        name = name_of(kind)
        if not is_own_class(kind):
            return "class", name
        methods = [(member, self._source(method)) for member, method in methods_of(kind)]
        types = [f"{field}: {hint}" for field, hint in vars(kind).get("__annotations__", {}).items()]
        changed, members = self._changed(kind), vars(kind).items()
        plain = [(member, value) for member, value in members if _is_setting(value) and member[:2] != "__"]
        return "class", name, methods, types, [pair for pair in plain if pair[0] not in changed]

    def _changed(self, kind: type) -> set[str]:
        """The attributes that the methods of a class change once it is made."""
        later = [method for member, method in methods_of(kind) if member not in ("__init__", "__post_init__")]
        return {attribute for method in later for attribute in changed_attributes(self._source(method))}

    def _settings(self, client: Any) -> list[tuple[str, Any]]:
        """What a client says beside its address: the model, and of one's own class all that is no secret and stays."""
        if not is_own_class(type(client)):
            models = ((name, _attribute(client, name)) for name in _MODELS)
            return [(name, str(value)) for name, value in models if isinstance(value, str)]
        left_out = self._changed(type(client)) | {*_ADDRESSES}
        values = vars(client).items()
        settings = [(name, value) for name, value in values if _is_setting(value) and not _SECRETS.search(name)]
        return sorted((name, value) for name, value in settings if name not in left_out)

    def _source(self, func: FunctionType) -> str:
        key = code_digest(func.__code__)
        if key not in self.sources:
            self.sources[key] = source_text(func.__code__) or key
        return self.sources[key]

    def _values_read(self, func: FunctionType) -> Iterator[tuple[str, Any]]:
        """The names that a function reads from closures and globals, with their values."""
        code, written = func.__code__, only_written(self._source(func))
        values: dict[str, Any] = {}
        for name, cell in zip(code.co_freevars, func.__closure__ or (), strict=False):
            with contextlib.suppress(ValueError):  # not assigned yet
                values[name] = cell.cell_contents
        loads = loads_of(code)
        values |= {name: func.__globals__[name] for name in sorted(loads) if name in func.__globals__}
        for name, value in values.items():
            if name in written and (written[name] or isinstance(value, (list, set, dict, deque))):
                continue
            yield name, value
            attributes = loads.get(name, ())
            own_module = isinstance(value, ModuleType) and is_own(getattr(value, "__file__", None) or "")
            if own_module or (isinstance(value, type) and is_own_class(value)):
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
    is_library = not is_own_class(type(value))
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


def _is_setting(value: Any) -> bool:
    if isinstance(value, Mapping) and not isinstance(value, (Judge, FileModel)):
        return all(map(_is_setting, value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(map(_is_setting, value))
    return isinstance(value, (*PLAIN, Judge, FileModel))


def _attribute(value: Any, name: str) -> Any:
    """An attribute that an object really has: a table or a mock has more."""
    try:
        inspect.getattr_static(value, name)
        return getattr(value, name)
    except Exception:  # noqa: BLE001  # there is none, or a property of somebody's class failed
        return None


def _is_record(value: Any) -> bool:
    """Whether an object only holds values: its address alone would not say what it is."""
    kind = type(value)
    if isinstance(value, (SimpleNamespace, tuple, Mapping)) or dataclasses.is_dataclass(value):
        return True
    if hasattr(kind, "model_fields"):
        return True
    names = {name for base in kind.__mro__[:-1] for name in vars(base) if not name.startswith("_")}
    return not any(callable(getattr(kind, name, None)) for name in names)
