"""One module per provider, and one for all decision models, loaded on first use. Each has `check` and `connect`."""

from __future__ import annotations

from importlib import import_module

from evalkit.core.judges import Judge
from evalkit.core.providers import PROVIDERS
from evalkit.engine.request import Client

__all__ = ["check_ready", "connect"]

MODULES = {
    name: f"{__name__}.{'decisions' if provider.decides else name.replace('-', '_')}"
    for name, provider in PROVIDERS.items()
}


def connect(judge: Judge, concurrency: int | None = None) -> Client:
    """The client of a judge's provider; a function judge has as many threads as calls may be in flight.

    Raises
    ------
    ConfigError
        For an unknown persona of ``fake``, or parameters that a model in this process does not take.
    MissingExtraError
        If the library that the provider needs is not installed.
    """
    if getattr(judge.given, "calls", False):
        called: Client = import_module(f"{__name__}.called_clients").connect(judge)
        return called
    options = (judge,) if concurrency is None or judge.provider != "function" else (judge, concurrency)
    client: Client = import_module(MODULES[judge.provider]).connect(*options)
    return client


def check_ready(judge: Judge) -> None:
    """Check, before any call, that a judge can be called; loads its provider's library.

    Raises
    ------
    JudgeError
        If the variable that holds the key is not set.
    ConfigError, MissingExtraError
        As `connect`.
    """
    import_module(MODULES[judge.provider]).check(judge)
    if judge.provider != "function" and judge.ask is not None:
        import_module(f"{__name__}.called_clients").check(judge)
