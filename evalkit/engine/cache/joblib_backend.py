"""The store that joblib sees: registered as ``"evalkit"``, backed by `ReplyStore`.

``tests/engine/cache/test_joblib_memory.py`` checks the private parts of joblib that are used here.
"""

# ruff: noqa: ARG002  # the signatures are joblib's

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from joblib import register_store_backend
from joblib._store_backends import StoreBackendBase, StoreBackendMixin

from evalkit.core.prompts_and_replies import Reply
from evalkit.core.settings import is_address
from evalkit.engine.cache.store import ReplyStore
from evalkit.engine.cache.writer import decoded
from evalkit.errors import CacheError, ConfigError

BACKEND = "evalkit"
FUNCTION_ID = "evalkit.reply"
"""joblib's name of every function whose replies have a key of their own: a reply is not identified by the function."""

TEXT_ID = "evalkit.text"
"""The same for functions that return only the text."""

CallId = Sequence[str]
"""joblib's name of a call: (function id, argument hash); here the second is the reply key in hex."""


class ReplyText(str):  # noqa: SLOT000  # it has the reply
    """The text of a reply, which has the fields of the reply as attributes (`cost_usd`, `model` …) and as `reply`."""

    reply: Reply

    def __new__(cls, reply: Reply) -> ReplyText:
        """The text of a reply that has one."""
        text = super().__new__(cls, reply.text or "")
        text.reply = reply
        return text

    def __getattr__(self, name: str) -> Any:
        if name in Reply.__slots__:
            return getattr(self.reply, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __reduce__(self) -> tuple[type[ReplyText], tuple[Reply]]:
        return ReplyText, (self.reply,)


def shown(reply: Reply) -> ReplyText | None:
    """What a function that returns a text has for a reply; None if it has no text."""
    return None if reply.text is None else ReplyText(reply)


class ReplyBackend(StoreBackendBase, StoreBackendMixin):  # type: ignore[misc]
    """joblib's view of one `ReplyStore`: looks replies up by key, and removes nothing.

    It does not write through joblib's `dump_item`, which gets no key parts and reports no failure: it would
    only warn that a paid reply was not stored.
    """

    verbose = 0
    store: ReplyStore
    for_replies = False
    recorded = False
    since: float | None = None

    def configure(self, location: str, verbose: int = 0, backend_options: Mapping[str, Any] | None = None) -> None:
        """Open the store of the folder `location`.

        joblib appends ``joblib`` to a location that is a string; it is removed again, so that a string and a
        Path name the same store.

        Parameters
        ----------
        location
            The cache folder.
        verbose
            Unused.
        backend_options
            `for_replies` (set by `ReplyMemory`), `read_only`, `recorded`, `since`; joblib's `compress` and
            `mmap_mode` must be off.
        """
        options = dict(backend_options or {})
        for unfit in ("compress", "mmap_mode"):
            if options.pop(unfit, None):
                raise ConfigError(
                    f"joblib.Memory(backend={BACKEND!r}) does not support {unfit}, because it stores replies as JSON "
                    "in SQLite; omit it"
                )
        self.for_replies = options.pop("for_replies", False)
        self.recorded = options.pop("recorded", False)
        self.since = options.pop("since", None)
        read_only = options.pop("read_only", False)
        if options:
            raise ConfigError(f"unknown backend_options {sorted(options)}; allowed: 'read_only', 'recorded', 'since'")
        # joblib adds a folder of its own to a text
        cache = str(location).removesuffix("/joblib") if is_address(location) else Path(location)
        if isinstance(cache, Path) and not self.for_replies and cache.name == "joblib":
            cache = cache.parent
        self.verbose = verbose
        self.store = ReplyStore.open(cache, read_only=read_only)
        self.location = str(self.store.cache)

    def find(self, call_id: CallId) -> Reply | None:
        """The stored reply of a call; None if there is none."""
        key = bytes.fromhex(call_id[1])
        value = self.store.get_many([key], since=self.since, recorded=self.recorded).get(key)
        return None if value is None else decoded(value)

    def contains_item(self, call_id: CallId) -> bool:
        """Whether a reply of that key is stored."""
        return self.find(call_id) is not None

    def load_item(
        self, call_id: CallId, verbose: int = 1, timestamp: float | None = None, metadata: object = None
    ) -> Any:
        """The stored reply or its text; KeyError if there is none, as joblib expects."""
        reply = self.find(call_id)
        if reply is None:
            raise KeyError(f"no reply with the key {call_id[1]} in {self.store.place}")
        return shown(reply) if call_id[0] == TEXT_ID else reply

    def get_metadata(self, call_id: CallId) -> dict[str, Any]:
        """An empty dict: all metadata is in the reply."""
        return {}

    def store_cached_func_code(self, call_id: CallId, func_code: str | None = None) -> None:
        """Store no source: an edit of the function must not invalidate a reply.

        Raises
        ------
        ConfigError
            If a function is memoized by joblib's own `Memory`, whose argument hash is not a reply key.
        """
        if not self.for_replies:
            raise ConfigError(
                f"joblib.Memory(backend={BACKEND!r}) cannot memoize {call_id[0]!r}, because this backend stores only "
                "replies of judges; use memory = evalkit.memory() and @memory.cache instead, or another backend"
            )

    def get_cached_func_code(self, call_id: CallId) -> NoReturn:
        """Raise OSError, which tells joblib that no source is stored."""
        raise OSError(f"the source code of the function {call_id[0]} is not stored with the replies")

    def get_cached_func_info(self, call_id: CallId) -> dict[str, str]:
        """Where the replies are."""
        return {"location": str(self.store.place)}

    def dump_item(self, call_id: CallId, item: object, verbose: int = 1) -> NoReturn:
        """Refuse: a reply is stored with the parts of its key, by `ReplyMemory`."""
        raise CacheError(
            f"cannot store the reply {call_id[1]}, because its function was not decorated with the "
            "cache of evalkit.memory(); use that decorator"
        )

    def store_metadata(self, call_id: CallId, metadata: Mapping[str, Any]) -> None:
        """Store nothing: joblib's metadata contains the arguments in plain text."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise CacheError(
            f"joblib must not remove replies from {self.store.place}, because they were paid for; use "
            "evalkit.memory().clear(confirm=…) or ReplyStore.prune()"
        )

    clear = clear_item = clear_path = clear_location = enforce_store_limits = get_items = _refuse
    # joblib's file primitives: the methods above replace all that would call them
    create_location = _open_item = _item_exists = _move_item = contains_path = _refuse


register_store_backend(BACKEND, ReplyBackend)
