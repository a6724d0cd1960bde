"""A lean transport for the openai client: one aiohttp session for a server.

The one that ships with the package takes a closed connection for a time-out while connecting, so that it could not
be told whether a call may have been billed.
"""

from __future__ import annotations

import ssl
import urllib.request
from typing import Any

import aiohttp
import httpx2
import yarl

__all__ = ["AiohttpTransport"]

_CONNECT_S = 20.0
_OWN_HEADERS = (b"content-encoding", b"content-length", b"transfer-encoding")


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """Sends a request by aiohttp and reads the whole answer.

    Proxies are those of the environment (``HTTPS_PROXY``, ``NO_PROXY`` …), certificates too (``SSL_CERT_FILE``,
    ``SSL_CERT_DIR``). The user's ``.netrc`` is not read: it could add a password to a request. Raises
    ConnectTimeout or ConnectError if nothing was sent, ReadTimeout or ReadError if something may have been.
    """

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._proxies: dict[str, str | None] = {}

    def _open(self, secure: bool) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            context: Any = httpx2.create_ssl_context() if secure else True
            # How many calls are in flight is the engine's business, not the pool's
            connector = aiohttp.TCPConnector(limit=0, ssl=context, keepalive_timeout=30)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._session

    def _proxy(self, url: httpx2.URL) -> str | None:
        host = url.host
        if host not in self._proxies:
            bypassed = urllib.request.proxy_bypass(host)
            found = {} if bypassed else urllib.request.getproxies()
            self._proxies[host] = found.get(url.scheme) or found.get("all")
        return self._proxies[host]

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; the answer is read to its end, so that the connection is free again."""
        timeout = request.extensions.get("timeout", {}).get("read") or 60.0
        session = self._open(request.url.scheme == "https")
        try:
            async with session.request(
                request.method,
                yarl.URL(str(request.url), encoded=True),
                headers=request.headers,
                data=request.content or None,
                allow_redirects=False,
                proxy=self._proxy(request.url),
                timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=min(_CONNECT_S, 0.9 * timeout)),
            ) as answer:
                body = await answer.read()
        except aiohttp.ConnectionTimeoutError as error:
            raise httpx2.ConnectTimeout("no connection in time", request=request) from error
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL, ssl.SSLError) as error:
            raise httpx2.ConnectError(_said(error), request=request) from error
        except (aiohttp.ClientHttpProxyError, aiohttp.NonHttpUrlClientError) as error:
            raise httpx2.ConnectError(_said(error), request=request) from error
        except TimeoutError as error:
            raise httpx2.ReadTimeout(f"no answer in {timeout:g} s", request=request) from error
        except (aiohttp.ClientError, OSError) as error:
            raise httpx2.ReadError(_said(error), request=request) from error
        headers = [(name, value) for name, value in answer.raw_headers if name.lower() not in _OWN_HEADERS]
        return httpx2.Response(answer.status, headers=headers, content=body, request=request)

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
