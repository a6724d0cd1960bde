"""HTTP with aiohttp; errors record whether a call may have been billed."""

from __future__ import annotations

import asyncio
import io
import os
import re
import select
import ssl
import urllib.request
import weakref
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import lru_cache
from types import FunctionType
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import urlsplit

import aiohttp
import yarl
from aiohttp.http import HttpProcessingError, StreamWriter
from multidict import CIMultiDict, CIMultiDictProxy

from evalkit.core.judge_settings import set_by
from evalkit.engine.request import ProviderError
from evalkit.errors import ConfigError
from evalkit.errors.secrets import Secret, locals_forgotten, without_keys

MOST_BYTES = 16 << 20
"""Maximum size of an answer, before and after decompression: 16 MiB."""

_SCHEMES = ("http", "https")
_CONNECT_S = 20.0
_LARGE_BYTES = 1 << 19
_SHORT_BYTES = 48 << 10  # with the headers so few that a connection takes them at once
_ERROR_BYTES = 1 << 16
_TRUST = " (SSL_CERT_FILE names certificates to trust)"
_SIGN_IN = "asks for a name and password"
_GZIP = b"\x1f\x8b"
_ID = re.compile(rb'"id"\s*:\s*"([\w.:/+=-]{6,200})"')
_DRAWN_ID = re.compile(rb"chatcmpl-\d{1,3}")  # Ollama draws one of 999: they meet by chance
_ID_WITHIN, _IDS = 512, 10_000  # ids stand at an end of an answer; so many of the last ones are known
_BEFORE = {"authorization": "Bearer "}
# the versions whose connections `_post` was tested with: it uses more than their documentation promises
_READ_MINORS, _MINOR = (["3", "12"], ["3", "13"], ["3", "14"]), aiohttp.__version__.split(".")[:2]
_NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError, ssl.SSLError)


_Received = tuple[int, Mapping[str, str], bytes]


class Answer(NamedTuple):
    """A complete answer of a server; `origin` is scheme, host and port of the URL, `path` its path.

    `cost_usd` is the cost that the client library reports, if any.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes
    origin: str
    path: str = ""
    cost_usd: float | None = None


class Transport:
    """Sends requests to one server and reads the whole answers.

    Proxies are those of the environment (``HTTPS_PROXY``, ``NO_PROXY`` …), certificates too (``SSL_CERT_FILE``,
    ``SSL_CERT_DIR``). The user's ``.netrc`` is not read: it could add a password to a request. Redirects are
    not followed: they could take the key elsewhere.
    """

    def __init__(self, base_url: str) -> None:
        url, _, self._query = base_url.partition("?")
        # the address of one endpoint, as some consoles show it
        self._base = yarl.URL(url.rstrip("/").removesuffix("/chat/completions"), encoded=True)
        self._address = str(self._base)
        self.origin = str(self._base.origin()) if self._base.is_absolute() else str(self._base)
        self._session: aiohttp.ClientSession | None = None
        # where connections for short requests are, and as what they are opened; None: these are sent as all others
        self._direct: tuple[aiohttp.BaseConnector, aiohttp.ClientRequest] | None = None
        self._reuses = True  # whether connections are used again; not those of a server that repeated an answer
        self._used: weakref.WeakSet[aiohttp.client_proto.ResponseHandler] = weakref.WeakSet()
        self._requests: dict[bytes, int] = {}  # id of an answer -> hash of the request that it answered
        self._proxy = proxy_of(base_url)
        if self._proxy and not _is_address(self._proxy.reveal()):
            raise ConfigError(
                f"the proxy for {self.origin} in the environment is not an HTTP proxy "
                f"({_without_password(self._proxy)}); set http://HOST:PORT or http://NAME:PASSWORD@HOST:PORT (with %23 "
                f"for # and so on) in {_variable(self._base.scheme)}, or add the host to NO_PROXY"
            )

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            context: Any = ssl_context() if self._base.scheme == "https" else True
            # How many calls are in flight is the engine's business, not the pool's. A session gives a connection back
            # before its answer can be looked at, so it uses none again.
            connector = aiohttp.TCPConnector(limit=0, ssl=context, force_close=True)
            self._session = session = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
            )
            self._direct, is_known = None, _MINOR in _READ_MINORS and self._base.scheme in _SCHEMES
            # what only `ClientSession.request` can do
            needs_more = self._proxy or "@" in self._address or session.trace_configs
            if is_known and self._base.host and not needs_more:
                request = aiohttp.ClientRequest("POST", self._base, loop=asyncio.get_running_loop(), session=session)
                self._direct = aiohttp.TCPConnector(limit=0, ssl=context, keepalive_timeout=30), request
        return self._session

    async def send(
        self,
        path: str,
        headers: Mapping[str, str],
        body: bytes | aiohttp.FormData | AsyncIterator[bytes] | None,
        *,
        key: Secret | None = None,
        key_headers: Sequence[str] = ("authorization",),
        own: Mapping[str, Secret] | None = None,
        timeout_s: float,
        method: str = "POST",
        to: BinaryIO | None = None,
    ) -> Answer:
        """Send one request to a path below the base URL; the answer is read to its end, so that its connection is free.

        The query of the base URL follows the path. The key is sent in `key_headers`; `own` are further headers.

        With `to`, the body of a good answer is written there, whatever its size, and is not in the answer.

        The key is in no variable that a traceback shows: the frames that an error comes through are emptied.

        Raises
        ------
        ProviderError
            ``connection``, with `maybe_paid` unless nothing was sent; ``timeout``; ``malformed`` for a good answer that
            is larger than `MOST_BYTES`, or cannot be decompressed.
        """
        query = f"{'&' if '?' in path else '?'}{self._query}" if self._query else ""
        url = yarl.URL(f"{self._address}{path}{query}", encoded=True)
        with locals_forgotten():
            try:
                async with asyncio.timeout(timeout_s):
                    status, sent_back, content = await self._exchange(method, url, {
                        **headers,
                        **{name: key.reveal(_BEFORE.get(name, "")) for name in key_headers if key is not None},
                        **{name: value.reveal() for name, value in (own or {}).items()},
                    }, body, to, _timeout(timeout_s))  # fmt: skip
                content = (key or Secret()).hide_in_bytes(content)  # some servers echo it
                for value in (own or {}).values():
                    content = value.hide_in_bytes(content) if value.is_long else content
                return Answer(status, sent_back, content, self.origin, url.path)
            except (aiohttp.ClientError, OSError) as error:
                raise self._problem(error, timeout_s) from None

    async def _exchange(
        self, method: str, url: yarl.URL, headers: Mapping[str, str], body: Any, to: Any, limit: aiohttp.ClientTimeout
    ) -> _Received:
        """Status, headers and body of the answer."""
        session, is_plain = self._open(), method == "POST" and to is None and _is_as_installed()
        is_plain = is_plain and "expect" not in map(str.lower, headers)  # what follows waits for the server
        if self._direct is not None and is_plain and isinstance(body, bytes) and len(body) <= _SHORT_BYTES:
            return await self._post(url, headers, body, limit)
        data = io.BytesIO(body) if isinstance(body, bytes) and len(body) > _LARGE_BYTES else body
        proxy = self._proxy.reveal() if self._proxy else None
        async with session.request(
            method, url, headers=headers, data=data, allow_redirects=False, proxy=proxy, timeout=limit
        ) as answer:
            return answer.status, answer.headers, await self._read(answer.status, answer.headers, answer.content, to)

    async def _post(
        self, url: yarl.URL, headers: Mapping[str, str], body: bytes, limit: aiohttp.ClientTimeout
    ) -> _Received:
        """As `_exchange`, for a short body: half of the time that `ClientSession.request` takes.

        The connections are aiohttp's, and what reads them; what calls of judges do without is left out: redirects,
        cookies, middleware, a task for the body.
        """
        assert self._direct is not None
        _, request = self._direct
        connection, protocol, is_used = await self._connected(limit)
        try:
            protocol.set_response_params(read_until_eof=True, auto_decompress=False)
            writer, size = StreamWriter(protocol, request.loop), str(len(body))
            all_headers = CIMultiDict({"Host": request.headers["Host"], **headers, "Content-Length": size})
            await writer.write_headers(f"POST {url.raw_path_qs} HTTP/1.1", all_headers)
            await writer.write_eof(body)
            head, stream = await protocol.read()
            while 100 <= head.code < 200 and head.code != 101:
                head, stream = await protocol.read()
            content = await self._read(head.code, head.headers, stream, None)
            is_call = url.path.endswith(("/completions", "/messages"))  # a batch is named in each answer about it
            if 200 <= head.code < 300 and (not is_call or self._is_next(body, content, is_used=is_used)):
                connection.release()
        except HttpProcessingError as error:
            about = aiohttp.RequestInfo(url, "POST", CIMultiDictProxy(CIMultiDict()), url)
            raise aiohttp.ClientResponseError(about, (), status=error.code, message=error.message) from error
        finally:
            connection.close()
        return head.code, head.headers, content

    async def _connected(
        self, limit: aiohttp.ClientTimeout
    ) -> tuple[aiohttp.connector.Connection, aiohttp.client_proto.ResponseHandler, bool]:
        """A connection, its protocol, and whether it was used before; none on which something unread came."""
        assert self._direct is not None
        connector, request = self._direct
        while True:
            try:
                connection = await connector.connect(request, [], limit)
            except TimeoutError as error:
                raise aiohttp.ConnectionTimeoutError from error
            protocol = connection.protocol
            assert protocol is not None
            is_used = protocol in self._used
            if not is_used or (self._reuses and not _has_unread(protocol)):
                self._used.add(protocol)
                return connection, protocol, is_used
            connection.close()

    def _is_next(self, body: bytes, content: bytes, *, is_used: bool) -> bool:
        """Whether the next answer on this connection will be that to the next request.

        Servers and proxies may repeat an answer on an open connection; who takes it for that to the next request reads
        every later one shifted by one. Only its id tells. Equal requests may get one answer of a cache.

        Raises
        ------
        ProviderError
            ``malformed``: the id is that of the answer to another request, and the connection was used before.
        """
        match = _ID.search(content, 0, _ID_WITHIN) or _ID.search(content, max(0, len(content) - _ID_WITHIN))
        if match is None:
            return self._reuses and not self._requests  # a server that gives ids gives them to all whole answers
        name, request = match[1], hash(body)
        if _DRAWN_ID.fullmatch(name):
            name += b" %d" % hash(content)
        if name not in self._requests:
            self._requests[name] = request
            if len(self._requests) > _IDS:
                del self._requests[next(iter(self._requests))]
            return self._reuses
        has_one_id = len(self._requests) == 1 and not self._reuses  # so it was asked again, on another connection
        if is_used and self._requests[name] != request and not has_one_id:
            self._reuses = False
            raise ProviderError(
                "malformed",
                f"{self.origin} sent an answer with the id of that to another request ({match[1].decode('latin-1')}) "
                "on a connection that was kept open; its connections are not used again",
                maybe_paid=True,
            )
        return False

    def _problem(self, error: Exception, timeout_s: float) -> ProviderError:
        """The `ProviderError` for an error of the connection."""
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return self._unreached("no connection in time")
        if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
            return self._unreached(f"{_message(error)}{_TRUST}")
        if isinstance(error, aiohttp.ClientHttpProxyError):
            why = "does not let this host through: allow it there, or add it to NO_PROXY"
            if error.status == 407:
                why = f"{_SIGN_IN}: {_variable(self._base.scheme)}=http://NAME:PASSWORD@HOST:PORT"
            by = _without_password(self._proxy or Secret())
            return ProviderError(
                "connection", f"no connection to {self.origin}: the proxy {by} (HTTP {error.status}) {why}"
            )
        if isinstance(error, _NOT_SENT):
            return self._unreached(_message(error))
        if isinstance(error, TimeoutError):
            return ProviderError("timeout", f"no answer from {self.origin} in {timeout_s:g} s", maybe_paid=True)
        return ProviderError(
            "connection", f"the connection to {self.origin} broke off: {_message(error)}", maybe_paid=True
        )

    async def _read(
        self, status: int, headers: Mapping[str, str], stream: aiohttp.StreamReader, to: BinaryIO | None
    ) -> bytes:
        """The body, decompressed; it never takes much more memory than `MOST_BYTES`."""
        good = 200 <= status < 300
        encoding = headers.get("content-encoding", "").strip().lower()
        packed = encoding in ("gzip", "x-gzip", "deflate")
        if good and packed and to is not None:
            raise self._unreadable("is compressed, although that was not asked for")
        if good and not packed and encoding not in ("", "identity"):
            raise self._unreadable(f"is encoded as {encoding[:40]!r}; only gzip and deflate are supported")
        content = bytearray()
        while piece := await stream.readany():
            if good and to is not None:
                to.write(piece)
                continue
            content += piece
            if len(content) > MOST_BYTES:
                break
        if packed and 0 < len(content) <= MOST_BYTES:
            try:
                content = decompressed(bytes(content))
            except zlib.error as error:
                if good:
                    raise self._unreadable(f"cannot be decompressed: {_message(error)}") from None
                content.clear()
        if good and len(content) > MOST_BYTES:
            raise self._unreadable(f"is larger than {MOST_BYTES >> 20} MiB, the maximum")
        return bytes(content if good else content[:_ERROR_BYTES])

    def _unreadable(self, why: str) -> ProviderError:
        return ProviderError("malformed", f"the answer of {self.origin} {why}", maybe_paid=True)

    def _unreached(self, why: str) -> ProviderError:
        by = f" by the proxy {_without_password(self._proxy)}" if self._proxy else ""
        return ProviderError(
            "connection",
            f"no connection to {self.origin}{by} ({why}); check that the server is running and that base_url"
            f"{set_by('base_url', self.origin)} is right",
        )

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
        if self._direct is not None:
            await self._direct[0].close()


def decompressed(packed: bytes) -> bytearray:
    """Decompress gzip or deflate (with or without its header), up to one byte more than `MOST_BYTES`."""
    is_bare = not packed.startswith(_GZIP[:1]) and packed[0] & 15 != zlib.DEFLATED
    content = bytearray()
    while len(content) <= MOST_BYTES:
        stream = zlib.decompressobj(-zlib.MAX_WBITS if is_bare else 32 + zlib.MAX_WBITS)
        content += stream.decompress(packed, MOST_BYTES + 1 - len(content))
        packed = stream.unused_data
        if not packed.startswith(_GZIP):  # the end, or padding
            break
    return content


def _has_unread(protocol: aiohttp.client_proto.ResponseHandler) -> bool:
    """Whether anything came since the last answer: read by aiohttp (which hands the connection out), or not yet."""
    if protocol.should_close or protocol.transport is None:
        return True
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(protocol.transport.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _is_as_installed() -> bool:
    """Whether aiohttp's own functions send requests: others in their place, as in tests, must get all of them."""
    used = aiohttp.ClientSession.request, aiohttp.ClientSession._request
    return all(type(way) is FunctionType and way.__code__.co_filename == aiohttp.client.__file__ for way in used)


@lru_cache
def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, sock_connect=min(_CONNECT_S, 0.9 * seconds))


def proxy_of(base_url: str) -> Secret | None:
    """The proxy for a server from the environment, or None; its address may contain a password."""
    url = urlsplit(base_url)
    if urllib.request.proxy_bypass(url.hostname or ""):
        return None
    proxies = urllib.request.getproxies()
    address = proxies.get(url.scheme) or proxies.get("all") or ""
    return Secret(address if "://" in address or not address else f"http://{address}") or None  # as curl reads it


def _variable(scheme: str) -> str:
    """The variable of the environment that names the proxy for addresses of this scheme."""
    return "HTTPS_PROXY" if scheme == "https" else "HTTP_PROXY"


def ssl_context() -> ssl.SSLContext:
    """The certificates that the environment names, or the system's; a `ProviderError` if they cannot be used."""
    import httpx2  # reads SSL_CERT_FILE and SSL_CERT_DIR, and knows the system's certificates

    try:
        return httpx2.create_ssl_context()
    except OSError as error:
        path = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
        raise ProviderError(
            "auth", f"SSL_CERT_FILE or SSL_CERT_DIR names {path!r}, which cannot be used: {error}"
        ) from None


def _is_address(proxy: str) -> bool:
    """Whether this is the address of an HTTP proxy, without a part behind its port that may be of a password."""
    try:
        url = yarl.URL(proxy)
        return url.scheme in _SCHEMES and bool(url.host and url.port) and "@" not in url.path_qs + url.fragment
    except ValueError:
        return False


def _without_password(proxy: Secret) -> str:
    scheme, _, address = proxy.reveal().partition("://")
    return f"{scheme}://{address.rpartition('@')[2]}" if scheme.isalnum() else address.rpartition("@")[2]


def _message(error: Exception) -> str:
    return " ".join(str(without_keys(str(error)[:4000]) or type(error).__name__).split())
