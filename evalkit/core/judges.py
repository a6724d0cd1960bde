"""`Judge`: a model that judges, by provider, model and parameters."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import orjson

from evalkit.core.clients import ELSEWHERE, GivenClient, fields_of
from evalkit.core.judge_field_checks import (
    FIELDS,
    LOGPROBS,
    TEXT_FIELDS,
    base_url_of,
    host_of,
    is_server,
    with_logprobs,
    without_nulls,
)
from evalkit.core.lists_of_choices import ScoreReading
from evalkit.core.providers import PROVIDERS
from evalkit.core.reply_keys import Params, canonical_json
from evalkit.core.validation_errors import unknown_key
from evalkit.errors import ConfigError, guess, listed
from evalkit.errors.secrets import find_key, watch_key

if TYPE_CHECKING:
    from evalkit.core.prompts_and_replies import Prompt, Reply

    Ask: TypeAlias = Callable[[Prompt], str | Reply | Awaitable[str | Reply]]
    """A function that judges, sync or async: takes a Prompt, returns the text of a reply, or a Reply."""


class _Unset:
    def __repr__(self) -> str:
        return "unset"


_UNSET: Any = _Unset()
"""The value of a field that the user does not set; `_defaults` has its value by provider."""
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_FIELD_PARAMS = ("temperature", "max_tokens")
_NUMBERS: Mapping[str, Callable[[Any], Any]] = {
    "temperature": float, "max_tokens": int, "weight": float, "price": lambda price: tuple(map(float, price)),
}  # fmt: skip
_IDENTITY = ("provider", "service", "model", "template", *_FIELD_PARAMS, "params")


def _defaults(provider: str) -> dict[str, Any]:
    """The fields whose default is another for each provider: decision models and functions are sent no parameters."""
    if PROVIDERS[provider].decides:
        return {"temperature": None, "max_tokens": None, "score": "expected"}
    is_function = provider == "function"
    return {"temperature": None if is_function else 1.0, "max_tokens": None if is_function else 512, "score": None}


@dataclass(frozen=True, slots=True)
class Judge:
    """A model, the service that hosts it, and its request parameters.

    Attributes
    ----------
    provider
        One of `PROVIDERS`.
    model
        The model's name as the service knows it; a persona for ``fake``.
    name
        The judge's name in tables; ``provider:model`` by default. Unique in a jury.
    service
        Host of `base_url` without port, ``local`` for loopback and for models in this process, ``litellm`` for
        ``litellm`` without `base_url`, unless you set it. Part of the reply key.
    temperature
        Sampling temperature, ≥ 0 (default 1.0; of functions None), or None: not sent. At 0, more than one sample has no
        use. Decision models take none.
    max_tokens
        Longest reply in tokens, ≥ 1 (default 512; of functions None), or None: not sent. Decision models take none.
    weight
        Relative weight in a jury: 0, or from 1e-9 to 1e9; 0 removes the judge from scores.
    template
        A prompt template for this judge only, ``name@version`` or ``name``; by default the rubric's.
    base_url
        Root of the server; the provider's own (or ``OPENAI_BASE_URL``, ``ANTHROPIC_BASE_URL``) by default.
    api_key_env
        Name of the environment variable that contains the API key. A host other than the provider's own gets a key
        only if you set this. The key itself is never stored.
    headers_env
        Name of the environment variable with further headers of each request, one ``Name: value`` per line.
    timeout_s
        Seconds that one call may take.
    price
        US$ per million prompt tokens and per million completion tokens; a third number is the price of prompt tokens
        from the service's cache, without which the cost of calls with such tokens is unknown.
    params
        Every other parameter of the request (``top_p``, ``seed``, ``reasoning_effort`` …).
    score
        How a score is read: None, the code in the text; ``expected`` or ``mode``, the mean or the most probable code by
        the tokens' log-probabilities, which adds ``logprobs`` and ``top_logprobs`` to `params`. Decision models state
        the probabilities; for them, ``expected`` is the default. Not in the reply key.
    samples
        Replies per item, criterion and order, in place of `samples=` of the call; None: as many as the call names. If
        it names none, that is 3, and 1 of decision models, which draw nothing. Not in the reply key.
    images
        Whether the model is shown images of items (``openai``, ``anthropic``, ``decisions``, ``systemone``); None: at
        the provider's own host, models that evalkit knows to take them are. Not in the reply key.
    ask
        For the provider ``function``: the Python function, or its import path ``module:function`` (see
        `Judge.function`). For a judge of `Judge.client`: the client.

    Raises
    ------
    ConfigError
        For an unknown provider or a value outside its range.

    Examples
    --------
    >>> Judge.of("fake:strict").name
    'fake:strict'
    """

    provider: str
    model: str
    name: str = ""
    service: str = ""
    temperature: float | None = _UNSET
    max_tokens: int | None = _UNSET
    weight: float = 1.0
    template: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    headers_env: str | None = None
    timeout_s: float = 60.0
    price: tuple[float, ...] | None = None
    params: Mapping[str, Any] = field(default_factory=Params)
    score: ScoreReading | None = _UNSET
    samples: int | None = None
    images: bool | None = None
    ask: Callable[[Any], Any] | str | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        self._refuse_keys()
        if self.provider not in PROVIDERS:
            raise ConfigError(
                f"unknown judge provider {self.provider!r}; {guess(self.provider, PROVIDERS)}allowed: "
                f"{', '.join(PROVIDERS)} (as in 'openai:gpt-4o-mini' or 'fake:strict')"
            )
        if not isinstance(self.model, str) or not self.model.strip():
            raise ConfigError(f"a judge needs a model; write it as '{self.provider}:MODEL'")
        who = f"judge '{self.provider}:{self.model}'"
        self._check_fields(who)
        if self.decides:
            self._check_decider(who)
        self._check_params(who)
        self._check_images(who)
        self._check_addresses(who)
        host = self._host
        if not self.service:
            put(self, "service", host)
        if not self.name:
            put(self, "name", f"{self.provider}:{self.model}")
        # by the real host: a service of that name given by hand must not bring the key to another one
        if self.api_key_env is None and (not self.base_url or host == PROVIDERS[self.provider].host):
            put(self, "api_key_env", PROVIDERS[self.provider].key_variable)

    @property
    def _host(self) -> str:
        return host_of(self.base_url) if self.base_url else PROVIDERS[self.provider].host

    def _check_fields(self, who: str) -> None:
        """Set the defaults of the provider, and numbers in one type; ConfigError for a value out of its range."""
        for name, default in _defaults(self.provider).items():
            if getattr(self, name) is _UNSET:
                object.__setattr__(self, name, default)
        for name, (allowed, fits) in FIELDS.items():
            if not fits(value := getattr(self, name)):
                raise ConfigError(f"{name} of {who} must be {allowed}, got {value!r:.60}")
        for name, read in _NUMBERS.items():
            if getattr(self, name) is not None:
                object.__setattr__(self, name, read(getattr(self, name)))

    def _check_addresses(self, who: str) -> None:
        object.__setattr__(self, "base_url", base_url_of(self.provider, self.base_url))
        if self.base_url and not is_server(self.base_url):
            # not shown: it may contain a password
            raise ConfigError(
                f"base_url of {who} is not the address of a server, or contains a password; write it as "
                "http://HOST:PORT/v1, and name the variable of the key in api_key_env"
            )
        if self.api_key_env is not None and not _VARIABLE.fullmatch(self.api_key_env):
            # not shown: it may be a key
            raise ConfigError(
                f"api_key_env of {who} must name an environment variable (capital letters, digits and '_', as in "
                "OPENAI_API_KEY); never pass the key itself"
            )
        if self.headers_env is not None:
            if not _VARIABLE.fullmatch(self.headers_env):  # not shown: it may be a key
                raise ConfigError(
                    f"headers_env of {who} must name an environment variable (capital letters, digits and '_'), which "
                    "contains one header per line, as in 'X-Team: judges'"
                )
            if PROVIDERS[self.provider].host == "local":
                raise ConfigError(f"{who} is not called over HTTP and takes no headers_env; omit it")
        if self.provider != "function":
            if self.ask is not None and not isinstance(self.ask, GivenClient) and self.ask not in ELSEWHERE:
                raise ConfigError(f"{who} has ask=…, which only judges of the provider 'function' take; omit ask=")
        elif not callable(self.ask) and not (isinstance(self.ask, str) and ":" in self.ask):
            raise ConfigError(
                f"{who} needs ask=…: a Python function, or its import path 'module:function'; see Judge.function"
            )
        elif self.base_url or self.api_key_env:
            raise ConfigError(f"{who} calls a Python function and takes neither base_url nor api_key_env; omit them")

    def _check_images(self, who: str) -> None:
        if self.images and PROVIDERS[self.provider].takes_images is None:
            allowed = [name for name, provider in PROVIDERS.items() if provider.takes_images is not None]
            raise ConfigError(f"{who} cannot be shown images; providers that can: {listed(allowed)}; omit images=True")

    def _check_decider(self, who: str) -> None:
        """Raise ConfigError for what decision models do not take."""
        allowed = PROVIDERS[self.provider].body_params or ()
        for name in _FIELD_PARAMS:
            if getattr(self, name) is not None:
                raise ConfigError(f"{who} takes no {name}: a decision model writes no text; omit {name}=")
        if unknown := [name for name in self.params if name not in allowed]:
            raise ConfigError(
                f"params of {who} must not contain {listed(unknown)}, which decision models do not take; allowed: "
                f"{', '.join(allowed) or 'none'}"
            )
        object.__setattr__(self, "score", self.score or "expected")

    def _check_params(self, who: str) -> None:
        own = [name for name in self.params if name in _FIELD_PARAMS]
        if own:
            raise ConfigError(f"params of {who} must not contain {listed(own)}; pass {own[0]}= to Judge instead")
        try:
            plain = orjson.loads(canonical_json(dict(self.params)))  # a copy: the caller's may change later
        except TypeError as problem:
            raise ConfigError(f"params of {who} must be JSON values with string keys: {problem}") from None
        object.__setattr__(self, "params", Params(with_logprobs(plain, self.provider, self.score, who)))

    def _refuse_keys(self) -> None:
        """Raise ConfigError for a key in any field; the message does not show the field's value."""
        if isinstance(self.api_key_env, str) and _VARIABLE.fullmatch(self.api_key_env):
            watch_key(self.api_key_env)
        fields = {name: getattr(self, name) for name in ("provider", "model", *TEXT_FIELDS, "params")}
        fields["base_url"] = base_url_of(self.provider, self.base_url)
        if find_key(list(fields.values())) is None:
            return
        name, where = next((name, where) for name, value in fields.items() if (where := find_key(value)))
        raise ConfigError(
            f"{name} of a judge contains an API key ({where}; not shown here), but evalkit stores the {name}; put the "
            "key into an environment variable and pass the variable's name as api_key_env"
        )

    @classmethod
    def of(cls, judge: Judge | str | Mapping[str, Any]) -> Judge:
        """A judge from a Judge, a string ``provider:model`` or a mapping of the fields above."""
        if isinstance(judge, Judge):
            return judge
        if isinstance(judge, str):
            provider, _, model = judge.partition(":")
            if provider.strip() == "function":
                return cls._imported(model.strip())
            if provider == "fake" and not model:
                model = "strict"
            return cls(provider.strip(), model.strip())
        if isinstance(judge, Mapping):
            fields = without_nulls(judge)
            unknown = [str(name) for name in fields if name not in cls.__slots__]
            if unknown:
                raise ConfigError(f"judge: {unknown_key(unknown[0], cls.__slots__)}")
            if "provider" not in fields or "model" not in fields:
                raise ConfigError(f"a judge needs 'provider' and 'model'; got {listed(fields)}")
            return cls(**fields)
        raise ConfigError(
            f"expected a Judge, a string 'provider:model' or a mapping, got {type(judge).__name__}; pass a "
            "function as ek.Judge.function(FUNCTION, name='NAME', version='1'), a client of openai or anthropic as "
            "ek.Judge.client(CLIENT, 'MODEL')"
        )

    @overload
    @classmethod
    def function(cls, ask: Ask | str, *, name: str, version: str, **fields: Any) -> Judge: ...

    @overload
    @classmethod
    def function(cls, ask: None = None, *, name: str, version: str, **fields: Any) -> Callable[[Ask], Judge]: ...

    @classmethod
    def function(
        cls, ask: Ask | str | None = None, *, name: str, version: str, **fields: Any
    ) -> Judge | Callable[[Ask], Judge]:
        """A judge that is a Python function, sync or async; also a decorator.

        Parameters
        ----------
        ask
            The function, or its import path ``module:function``. It takes a `Prompt` and returns the text of a reply
            (in the form that the prompt requires), a `Reply`, or None for an answer without a text. A sync function
            runs in threads, an async one on the event loop of evalkit.
        name, version
            Name and version of the function. Both are part of the reply key; the function's code is not. **If you
            change the function, change its version**; otherwise its old replies are reused.
        **fields
            Further fields of a judge: `timeout_s`, `weight`, `template`, `price`, `params` …. `temperature` and
            `max_tokens` are None here.

        Returns
        -------
        Judge
            Without `ask`, a decorator that makes one.

        Examples
        --------
        >>> @Judge.function(name="length", version="1")
        ... def length(prompt):
        ...     return '{"explanation": "by length", "score": 2}'
        >>> length.name, length.model
        ('length', 'length@1')
        """
        if not isinstance(name, str) or not name.strip() or "@" in name or not str(version).strip():
            raise ConfigError(
                f"a function judge needs a version, and a name without an '@'; got name={name!r}, version={version!r}"
            )

        def made(function: Ask | str) -> Judge:
            return cls("function", f"{name}@{version}", ask=function, **({"name": name} | fields))

        return made if ask is None else made(ask)

    @classmethod
    def client(cls, client: Any, model: str, *, api: str | None = None, **fields: Any) -> Judge:
        """A judge that is asked as a client of openai or anthropic asks, with its key.

        Address, key (or the function that returns one), headers, query, organisation and time limit are read off the
        client, and evalkit's own transport sends them. A client with an HTTP client of its own (proxy, certificates),
        of a class that extends openai's, of another package, or whose calls another package traces, is called itself,
        without its retries: a synchronous one in threads, an asynchronous one on the event loop of evalkit.

        Parameters
        ----------
        client
            An ``OpenAI``, ``AsyncOpenAI``, ``AzureOpenAI``, ``AsyncAzureOpenAI``, ``Anthropic`` or ``AsyncAnthropic``,
            or an object of their shape (``chat.completions.create`` or ``messages.create``).
        model
            The model's name as the service knows it; for Azure the deployment.
        api
            ``decisions``: the model is a decision model, which a client of openai calls by ``client.decisions``.
        **fields
            Further fields of a judge. `api_key_env` and `headers_env` name the variables that hold key and headers in
            other processes, where the judge is asked by its address; by default those that hold them here, or names
            that are made of the host's. The key itself is in no file, pickle, log or message.

        Returns
        -------
        Judge
            Its replies have the keys of a judge with the same address.

        Raises
        ------
        ConfigError
            For what is no client, or a client that states no address.
        """
        judge = cls(**fields_of(client, model, fields, api))
        judge.ask.base_url = judge.base_url  # type: ignore[union-attr]
        return judge

    @property
    def decides(self) -> bool:
        """Whether its model returns probabilities of answers to questions, and no text."""
        return PROVIDERS[self.provider].decides

    @property
    def sees_images(self) -> bool:
        """Whether it is shown the images of items."""
        provider = PROVIDERS[self.provider]
        if self.images is not None or provider.takes_images is None or self.service != provider.host:
            return bool(self.images)
        return re.fullmatch(provider.takes_images, self.model) is not None

    @property
    def given(self) -> GivenClient | None:
        """The client that this judge was made of, if it sends to this judge's address."""
        client = self.ask
        if not isinstance(client, GivenClient) or client.provider != self.provider:
            return None
        return client if client.base_url == self.base_url else None

    @classmethod
    def _imported(cls, path: str) -> Judge:
        """The function judge at ``module:name``."""
        found = cls._at(path)
        if not isinstance(found, Judge):
            raise ConfigError(
                f"{path!r} is a {type(found).__name__}, not a judge; make it one with @evalkit.Judge.function(name=…, "
                "version=…)"
            )
        return found if callable(found.ask) else replace(found, ask=path)

    @staticmethod
    def _at(path: str) -> Any:
        module, _, name = path.partition(":")
        try:
            return attrgetter(name)(import_module(module))
        except (ImportError, AttributeError, ValueError) as error:
            raise ConfigError(
                f"no function judge at {path!r} ({error}); expected function:MODULE:NAME. If MODULE is not installed, "
                "add its folder to PYTHONPATH"
            ) from None

    def load_function(self) -> Ask:
        """The function of a function judge, imported from its import path if necessary.

        Raises
        ------
        ConfigError
            If it cannot be found, or has another name or version than this judge.
        """
        if not isinstance(self.ask, str) and self.ask is not None:
            return self.ask
        found: Any = self._at(str(self.ask))
        if isinstance(found, Judge):
            if found.model != self.model:
                raise ConfigError(
                    f"judge '{self.name}' needs the function {self.model!r}, but the function at {self.ask!r} is "
                    f"{found.model!r}; restore the old function, or change the judge"
                )
            found = found.load_function()
        if not callable(found):
            raise ConfigError(f"{self.ask!r} of judge '{self.name}' is a {type(found).__name__}, not a function")
        function: Ask = found
        return function

    @property
    def import_path(self) -> str | None:
        """``module:function``, from which another process can import `ask`; None if it cannot, such as for a lambda.

        For a client, what stands for it there.
        """
        if self.ask is None or isinstance(self.ask, str):
            return self.ask
        if isinstance(self.ask, GivenClient):
            return self.ask.elsewhere
        module, name = getattr(self.ask, "__module__", ""), getattr(self.ask, "__qualname__", "")
        try:
            found = attrgetter(name)(sys.modules[module])
        except (AttributeError, KeyError):
            return None
        found = found.ask if isinstance(found, Judge) else found
        return f"{module}:{name}" if found is self.ask and module != "__main__" else None

    def __copy__(self) -> Judge:
        return self

    def __deepcopy__(self, _: Any) -> Judge:
        return self  # it is immutable, and a copy would have no client

    def __getstate__(self) -> dict[str, Any]:
        # a decorated function is no longer found under its own name, so it cannot be pickled as a function
        ask = self.import_path or (None if isinstance(self.ask, GivenClient) else self.ask)
        return {name: getattr(self, name) for name in self.__slots__} | {"ask": ask}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)

    @property
    def identity(self) -> tuple[Any, ...]:
        """The fields that affect replies: two judges with the same identity are the same judge."""
        return tuple(getattr(self, name) for name in _IDENTITY)

    @property
    def is_llm(self) -> bool:
        """False for the embedded stand-in ``fake``."""
        return self.provider != "fake"

    def replace(self, **changes: Any) -> Judge:
        """A copy with some fields changed; what was not set by hand is derived again: name, service, defaults."""
        if "name" not in changes and self.name == f"{self.provider}:{self.model}":
            changes["name"] = ""
        if "provider" in changes:
            for name, default in _defaults(self.provider).items():
                if getattr(self, name) == default:
                    changes.setdefault(name, _UNSET)
            of_score = {} if self.score is None else LOGPROBS  # they are set again where the score needs them
            params = {name: value for name, value in self.params.items() if (name, value) not in of_score.items()}
            changes.setdefault("params", params)
        if "base_url" in changes or "provider" in changes:
            if self.service == self._host:
                changes.setdefault("service", "")
            changes.setdefault("api_key_env", None)  # a key never follows to another host, nor do headers
            changes.setdefault("headers_env", None)
            if isinstance(self.ask, GivenClient) or self.ask in ELSEWHERE:
                changes.setdefault("ask", None)
        return replace(self, **changes)


JudgeLike = str | Judge | Mapping[str, Any]
"""One judge: ``"openai:gpt-4o-mini"``, a `Judge`, or its fields as a mapping."""

JudgesLike = JudgeLike | Iterable[JudgeLike]
"""One judge or several."""
