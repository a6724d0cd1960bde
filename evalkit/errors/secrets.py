"""Keys and passwords: a type that never prints its value, and functions that find and remove keys in other values."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NoReturn
from urllib.parse import unquote

_NAMES = frozenset({"bearer", "credential", "jwt", "key", "pass", "passphrase", "passwd", "pwd", "sig", "token"})
_ENDS = (
    "accesskey", "accesstoken", "accountkey", "apikey", "apitoken", "auth", "authorization", "authtoken",
    "azureadtoken", "bearertoken", "cookie", "credentials", "functionskey", "ghtoken", "githubtoken", "gitlabtoken",
    "hftoken", "huggingfacehubtoken", "iamtoken", "idtoken", "masterkey", "password", "privatekey", "privatetoken",
    "refreshtoken", "secret", "secretkey", "securitytoken", "sessiontoken", "signature", "subscriptionkey",
    "vaulttoken", "virtualkey",
)  # fmt: skip
_VARIABLES = re.compile(r"_(?:KEY|TOKEN|SECRET|PASSWORD)\Z")  # whose long values are keys
_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:sk|rk|pk)[-_](?=[\w-]{0,99}?(?=[A-Za-z]*\d)[A-Za-z0-9]{10})[\w-]{16,}"  # OpenAI, Anthropic, OpenRouter, Stripe
    r"|(?:hf|gsk|r8|fw|nvapi|xai|pplx|tgp|glpat|gh[pousr]|github_pat|xox[abeoprs])[-_](?=[\w-]*\d)[A-Za-z0-9_-]{16,}"
    r"|(?:AIza|AQVN)[0-9A-Za-z_-]{30,}"  # Google, Yandex
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])"  # Amazon
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"  # JSON Web Token
    r"|(?i:bearer|basic|api-key|oauth)\s+(?=\S*[\d=])[A-Za-z0-9._~+/=-]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r")"
)
_SIGNED_IN = re.compile(r"(?<=://)(?!NAME:PASSWORD@)[^/@\s?#]+@")  # the form in messages is no secret
_PAIR = re.compile(r"(?:(?<=[?&;#,\s])|^)([A-Za-z][\w.-]*)=([^&#;,\s([{<\\][^&#;,\s]*)")  # "key=(.*)" holds none
_QUERY = re.compile(r"(?<=[?&;])([A-Za-z][\w.-]*)=([^&#;,\s'\"\[]+)")
_HEADER = re.compile(r"^\s*((?i:authorization|cookie|[a-z]+-[a-z-]+)):\s*\S")  # "X-Api-Key: …", not "Token: …"
_PLACEHOLDERS = (
    "-", "dummy", "empty", "fake", "lm-studio", "local", "na", "no-key", "none", "not-needed", "null", "ollama",
    "placeholder", "sk-no-key-required", "unused", "x",
)  # fmt: skip
_LONG, _SHORTEST_WITH_DIGIT = 16, 8  # shorter keys may be words of other texts, as "postgres" or "approved"
_LONGEST_MESSAGE = 240
_FOLDERS = ("PWD", "OLDPWD")  # variables of every shell: working directories, though "pwd" names a password elsewhere
_NOT_KEPT = "[not kept]"

_watched: set[str] = set()
_held: list[Secret] = []


class Secret:
    """A key or password. `reveal` returns it to the call that sends it; printing shows ``<hidden>``.

    It is not a str, so that it is not joined or formatted by mistake, and it cannot be pickled, because pickles are
    written to files and sent to other processes.

    Examples
    --------
    >>> key = Secret("sk-of-this-example")
    >>> f"{key} {key!r} {key:>10}", bool(key), key.hide_in("no key sk-of-this-example here")
    ('<hidden> <hidden> <hidden>', True, 'no key … here')
    """

    __slots__ = ("_value",)

    def __init__(self, value: str = "") -> None:
        self._value = value

    @classmethod
    def of(cls, value: Any) -> Any:
        """A str as a Secret; any other value unchanged."""
        return cls(value) if isinstance(value, str) else value

    def reveal(self, before: str = "") -> str:
        """The key, prefixed with `before`. Do not assign it to a variable: tracebacks may show variables."""
        return before + self._value

    def hide_in(self, text: str) -> str:
        """The text with ``…`` for this key."""
        return text.replace(self._value, "…") if is_searchable(self._value) else text

    def hide_in_bytes(self, content: bytes) -> bytes:
        """As `hide_in`, for bytes."""
        return content.replace(self._value.encode(), "…".encode()) if is_searchable(self._value) else content

    @property
    def is_placeholder(self) -> bool:
        """Whether it is one of the words that people write where a server needs no key, as ``EMPTY`` or ``ollama``."""
        return self._value.lower() in _PLACEHOLDERS

    @property
    def is_sendable(self) -> bool:
        """Whether all its characters are printable ASCII, as a header's must be."""
        return self._value.isascii() and self._value.isprintable()

    @property
    def is_long(self) -> bool:
        """Whether it has 16 characters or more, so that it is hidden wherever it stands: no short word is meant."""
        return len(self._value) >= _LONG

    @property
    def is_web_token(self) -> bool:
        """Whether it has the form of a JSON Web Token."""
        return self._value.startswith("eyJ") and self._value.count(".") == 2

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return "<hidden>"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, _: Any) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key cannot be pickled; pass the name of its environment variable (api_key_env) instead")


def watch_key(key: str | Secret, *, instead_of: Secret | None = None) -> None:
    """Search for this key from now on: a Secret, or the value of the environment variable with this name.

    `instead_of` is one that is no longer used, as one that was valid for an hour.
    """
    if instead_of in _held:
        _held.remove(instead_of)
    if isinstance(key, str):
        _watched.add(key)
    elif key not in _held:
        _held.append(key)


@lru_cache(maxsize=4096)
def is_key(name: str) -> bool:
    """Whether a value under this name is a key itself, and not the name of a variable that contains one.

    Examples
    --------
    >>> is_key("API-Key"), is_key("hf_token"), is_key("api_key_env"), is_key("max_tokens"), is_key("pad_token")
    (True, True, False, False, False)
    """
    plain = re.sub(r"[^a-z0-9]", "", name.casefold())
    return plain in _NAMES or plain.endswith(_ENDS)


def find_key(value: Any) -> str | None:
    """Where a value contains a key, in words that do not show it; None if it contains none.

    A key is: a text (or list of texts) under a name as ``api_key``, ``token``, ``Authorization``, ``password`` or
    ``cookie``; such a name in a query (``?key=…``); a name or password before a host; the value (if it
    `is_searchable`) of an environment variable that a judge names as `api_key_env`, that is called like a key or, where
    the value has 16 characters and a digit, that ends in ``_KEY`` or ``_TOKEN``; and what has the shape of one
    (``sk-…``, ``hf_…``, ``AIza…``, ``AKIA…``, ``Bearer …``, a JSON Web Token).

    Examples
    --------
    >>> find_key({"extra_headers": {"X-API-Key": "0815"}})
    "a value under 'X-API-Key'"
    >>> find_key("https://me.example/v1?api-version=2024-10-21&key=0815")
    "a value for 'key='"
    >>> find_key("https://gateway.ai.cloudflare.com/v1/0123456789abcdef0123456789abcdef/judges/openai") is None
    True
    """
    return _find(value, _known_keys())


def _find(value: Any, known: Mapping[str, str]) -> str | None:
    if isinstance(value, Mapping):
        return next(filter(None, _in_fields(value, known)), None)
    if isinstance(value, (list, tuple, set, frozenset)):
        return next(filter(None, (_find(element, known) for element in value)), None)
    if isinstance(value, Secret):
        return "a key"
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str):
        return None
    return _in_text(value, known) or (_in_text(unquote(value), known) if "%" in value else None)


def _in_fields(values: Mapping[Any, Any], known: Mapping[str, str]) -> Iterator[str | None]:
    for name, value in values.items():
        yield _find(str(name), known)
        texts = value if isinstance(value, (list, tuple)) else [value]
        if is_key(str(name)) and any(isinstance(text, (str, bytes, Secret)) and text for text in texts):
            yield f"a value under {str(name)!r}"
        yield _find(value, known)


def _in_text(text: str, known: Mapping[str, str]) -> str | None:
    whose = next((whose for key, whose in known.items() if key in text), None)
    if whose is not None:
        return whose
    if _SIGNED_IN.search(text):
        return "a name or password before its host"
    if _SHAPES.search(text):
        return "text that looks like a key"
    pair = next((found[1] for found in _PAIR.finditer(text) if is_key(found[1])), None)
    if pair is not None:
        return f"a value for '{pair}='"
    header = _HEADER.match(text)
    return f"a value for '{header[1]}:'" if header and is_key(header[1]) else None


def is_searchable(key: str) -> bool:
    """Whether a key is searched for in other texts: it has 16 characters, or 8 with a digit, and is no placeholder.

    Examples
    --------
    >>> is_searchable("s3cretpw"), is_searchable("postgres"), is_searchable("sk-no-key-required")
    (True, False, False)
    """
    shortest = _SHORTEST_WITH_DIGIT if any(map(str.isdigit, key)) else _LONG
    return len(key) >= shortest and not Secret(key).is_placeholder


def _known_keys() -> dict[str, str]:
    """Each known key -> its origin. Do not store the result: it contains the keys."""
    known = {
        value.strip(): f"the value of the environment variable {name}"
        for name, value in os.environ.items()
        if _is_variable(name, value.strip())
    }
    known |= {key.reveal(): "an API key passed as an argument" for key in _held}
    return {key: whose for key, whose in known.items() if is_searchable(key)}


def _is_variable(name: str, value: str) -> bool:
    """Whether an environment variable holds a key, by its name and, for most names, by its value."""
    is_like_a_key = len(value) >= _LONG and any(map(str.isdigit, value))
    is_named = name in _watched or (is_key(name) and name not in _FOLDERS)
    return is_named or (is_like_a_key and _VARIABLES.search(name) is not None)


def text_of_error(error: BaseException) -> str:
    """The message of an error in one line, without keys, and not all of a very long one."""
    return " ".join(str(without_keys(str(error)[:4000])).split())[:_LONGEST_MESSAGE]


def without_keys(values: Any) -> Any:
    """JSON values, or a text, with ``[not kept]`` for keys, and URLs without user names and passwords.

    Examples
    --------
    >>> without_keys({"judges": [{"api_key": "sk-1", "base_url": "http://me:pw@host/v1?key=1"}], "samples": 3})
    {'judges': [{'api_key': '[not kept]', 'base_url': 'http://host/v1?key=[not kept]'}], 'samples': 3}
    """
    if isinstance(values, Mapping):
        return {name: _NOT_KEPT if is_key(str(name)) else without_keys(value) for name, value in values.items()}
    if isinstance(values, list):
        return [without_keys(value) for value in values]
    if not isinstance(values, str):
        return values
    text = _SHAPES.sub(_NOT_KEPT, _SIGNED_IN.sub("", values))
    for key in sorted(_known_keys(), key=len, reverse=True):  # one may hold another
        text = text.replace(key, _NOT_KEPT)
    return _QUERY.sub(lambda found: f"{found[1]}={_NOT_KEPT}" if is_key(found[1]) else found[0], text)


@contextmanager
def locals_forgotten() -> Iterator[None]:
    """Empty the frames that an error comes through, with those of its causes: a library's variables hold the key.

    Frames that still run keep theirs: use it around the call of the library.
    """
    try:
        yield
    except BaseException as error:
        waiting: list[BaseException | None] = [error]
        done: set[int] = set()
        while waiting:
            link = waiting.pop()
            if link is not None and id(link) not in done:
                done.add(id(link))
                traceback.clear_frames(link.__traceback__)
                waiting += [link.__cause__, link.__context__]
                waiting += link.exceptions if isinstance(link, BaseExceptionGroup) else ()
        raise
