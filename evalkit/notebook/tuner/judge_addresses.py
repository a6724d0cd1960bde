"""The servers of a jury, and the one that a judge named on screen is on: never another host without a word."""

from __future__ import annotations

from collections.abc import Sequence

from evalkit.core.judges import Judge
from evalkit.core.providers import PROVIDERS
from evalkit.errors import ConfigError, listed

OWN = "the provider's own"


def server_of(judge: Judge) -> str:
    """The address that a judge's calls go to, with the variable of its key; empty for one in this process.

    Examples
    --------
    >>> server_of(Judge.of("fake:strict")), server_of(Judge("openai", "m", base_url="http://127.0.0.1:8000/v1"))
    ('', 'http://127.0.0.1:8000/v1')
    """
    address = judge.base_url or PROVIDERS[judge.provider].host
    key = f" (key in {judge.api_key_env})" if judge.api_key_env else ""
    return "" if address == "local" else f"{address}{key}"


class ServerError(ConfigError):
    """The judges are on several servers, and none of them was chosen for another judge."""


def judge_at(
    name: str, pool: Sequence[Judge], server: str = "", *, advice: str = "choose one beside Add judge"
) -> Judge:
    """The judge ``provider:model`` on a server of the jury.

    Parameters
    ----------
    name
        ``provider:model``.
    pool
        The judges that there are.
    server
        `server_of` one of them, or `OWN`. Empty: the server of those with the same provider.
    advice
        What to do if they are on several servers, for the message.

    Raises
    ------
    ServerError
        If `server` is empty and they are on several servers.
    ConfigError
        If no judge is on `server`.
    """
    judge = Judge.of(name)
    if server == OWN or not server_of(judge):
        return judge
    fits = [one for one in pool if (server_of(one) == server if server else one.provider == judge.provider)]
    likes = {server_of(one): one for one in fits}
    if len(likes) > 1:
        raise ServerError(f"judge {judge.name} names no server; {advice}: {listed(likes)}")
    if server and not likes:
        raise ConfigError(f"no judge is on the server {server!r}")
    for like in likes.values():
        client = {"ask": like.ask} if like.given and judge.provider == like.provider else {}
        names = ("base_url", "api_key_env", "headers_env", "service")
        return judge.replace(**{name: getattr(like, name) for name in names}, **client)
    return judge
