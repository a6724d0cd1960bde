"""HTTPS with certificates of one's own, proxies, and what `check_server` says of servers."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from judge_requests import request_of
from servers import judge_server

from evalkit.core.judges import Judge
from evalkit.core.settings import Options
from evalkit.engine.cache.store import ReplyStore
from evalkit.engine.calls.event_loop import fetch
from evalkit.engine.calls.pending_call import Outcome
from evalkit.engine.calls.server_check import check_server
from evalkit.errors import ConfigError


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate that nobody trusts, for 127.0.0.1, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl here to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    files = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
            "-addext", "subjectAltName=IP:127.0.0.1", "-out", str(files[0]), "-keyout", str(files[1]),
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    return files


def one(judge: Judge, store: ReplyStore, item: int = 3) -> Outcome:
    (outcome,) = fetch([request_of(judge, item)], store, Options(retries=0))
    return outcome


def test_a_certificate_is_trusted_when_the_environment_says_so(
    certificate: tuple[Path, Path], store: ReplyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with judge_server(tls=certificate) as server:
        judge = Judge("openai", "m", base_url=server.url, timeout_s=10)
        failure = one(judge, store).failure
        assert "CERTIFICATE_VERIFY_FAILED" in failure.detail
        assert "SSL_CERT_FILE" in failure.detail
        assert (failure.maybe_paid, server.seen) == (0, [])
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))  # heard by the next run, without a new process
        assert one(judge, store).failure is None


class Tunnel:
    """A proxy that opens tunnels (CONNECT) to the one server that it knows; keeps what it was told."""

    def __init__(self, port: int) -> None:
        self.port, self.told, self.url = port, list[bytes](), ""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()
        assert self._ready.wait(300)

    def _main(self) -> None:
        self._loop.run_until_complete(self._listen())
        self._loop.run_until_complete(asyncio.sleep(0))  # transports close in the loop's next round
        self._loop.close()

    async def _listen(self) -> None:
        self._over = asyncio.Event()
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as server:
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            self._ready.set()
            await self._over.wait()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.told.append(await reader.readuntil(b"\r\n\r\n"))
        back, forth = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            with contextlib.suppress(OSError):
                await asyncio.gather(self._copy(reader, forth), self._copy(back, writer))
        finally:
            forth.close()
            writer.close()

    @staticmethod
    async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while portion := await source.read(65536):
            target.write(portion)
            await target.drain()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(300)


def test_https_goes_through_the_proxy_of_the_environment_which_never_sees_the_key(
    certificate: tuple[Path, Path], store: ReplyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with judge_server(tls=certificate) as server:
        port = int(server.url.removesuffix("/v1").rpartition(":")[2])
        tunnel = Tunnel(port)
        for name, value in {
            "https_proxy": tunnel.url.replace("http://", "http://someone:pass-to-proxy@"), "no_proxy": "",
            "SSL_CERT_FILE": str(certificate[0]), "MY_KEY": "sk-mine",
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        judge = Judge("openai", "m", base_url=server.url, api_key_env="MY_KEY", timeout_s=10)
        assert one(judge, store).failure is None
        assert server.seen[0].headers["Authorization"] == "Bearer sk-mine"
        tunnel.close()
    assert tunnel.told[0].startswith(b"CONNECT 127.0.0.1:%d" % port)
    assert all(b"sk-mine" not in told for told in tunnel.told)
    assert "Proxy-Authorization" not in server.seen[0].headers


def test_a_proxy_that_is_not_there_is_named_without_its_password(
    store: ReplyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://someone:pass-to-proxy@127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    failure = one(Judge("openai", "m", base_url="http://judge.invalid/v1", timeout_s=5), store).failure
    assert "by the proxy http://127.0.0.1:9" in failure.detail
    assert "pass-to-proxy" not in failure.detail


def test_a_proxy_of_another_kind_is_refused_before_anything_is_sent(
    store: ReplyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("all_proxy", "socks5://someone:pass-to-proxy@127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(ConfigError, match=r"is not an HTTP proxy \(socks5://127.0.0.1:9\).*NO_PROXY"):
        one(Judge("openai", "m", base_url="http://judge.invalid/v1", timeout_s=5), store)


@pytest.mark.parametrize(
    "proxy",
    [
        "http://someone:Winter#pass-to-proxy@127.0.0.1:9", "http://someone:12#pass-to-proxy@127.0.0.1:9",
        "http://someone:1/pass-to-proxy@127.0.0.1:9", "http://someone:1?pass-to-proxy@127.0.0.1:9",
        "//someone:pass-to-proxy@127.0.0.1:9", "http://someone:pass-to-proxy x@127.0.0.1:9x",
        "http://someone:pass-to-proxy@[::1", "http://someone:pass-to-proxy@",
    ],
)  # fmt: skip
def test_the_password_of_a_proxy_is_never_shown(store: ReplyStore, monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(ConfigError, match=r"is not an HTTP proxy \(.*http://NAME:PASSWORD@HOST:PORT") as caught:
        one(Judge("openai", "m", base_url="http://judge.invalid/v1", timeout_s=5), store)
    assert "pass-to-proxy" not in str(caught.value)


def test_certificates_that_are_not_there_are_named(store: ReplyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "no-such-file.pem")
    failure = one(Judge("openai", "m", base_url="https://127.0.0.1:9/v1", timeout_s=5), store).failure
    assert failure.reason == "judge_down"
    assert "names 'no-such-file.pem', which cannot be used" in failure.detail


# -- check_server


def test_a_good_server_is_found_good() -> None:
    with judge_server(models=["m", "other"], always={"content": '{"score": 1}'}) as server:
        report = check_server(Judge("openai", "m", base_url=server.url))
        assert len(server.paid) == report.n_calls == 2
    assert (report.reachable, report.answers, report.model_listed, report.models) == (True, True, True, ["m", "other"])
    assert (report.n, report.json_schema) == ("works", "works")
    assert (report.refused, report.problems) == ([], [])
    assert "n               works" in str(report)


def test_what_a_model_refuses_is_named_and_does_not_count_as_a_fault() -> None:
    with judge_server(refuses=("n", "max_tokens", "response_format")) as server:
        report = check_server(Judge("openai", "m", base_url=server.url))
        assert len(server.paid) == report.n_calls == 2
    assert (report.n, report.json_schema) == ("refused", "refused")
    assert sorted(report.refused) == ["max_tokens", "n", "response_format"]
    assert report.problems == []
    assert report.json_object == "refused"


@pytest.mark.parametrize(("text", "expected"), [('{"score": 1}', "works"), ("1", "ignored")])
@pytest.mark.parametrize("words", ["no json_schema here", "no"])
def test_a_server_that_refuses_a_schema_may_take_a_json_object(text: str, expected: str, words: str) -> None:
    def answer(body: dict[str, Any]) -> dict[str, Any] | None:
        has_schema = body.get("response_format", {}).get("type") == "json_schema"
        return {"status": 400, "body": {"error": {"message": words}}} if has_schema else {"content": text}

    with judge_server(faults=answer) as server:
        report = check_server(Judge("openai", "m", base_url=server.url))
        assert len(server.paid) == report.n_calls == 2
    assert (report.json_schema, report.json_object, report.refused) == ("refused", expected, ["response_format"])
    assert f"json object     {expected}" in str(report)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"always": {"body": b"<html>"}}, "HTML"),
        ({"always": {"status": 401, "body": {"error": {"message": "bad key"}}}}, "bad key"),
        ({"models": ["other"], "always": {"status": 404, "body": {"error": {"message": "gone"}}}}, "does not list"),
    ],
)
def test_what_is_wrong_with_a_server_is_said(options: dict[str, object], words: str) -> None:
    with judge_server(**options) as server:
        report = check_server(Judge("openai", "m", base_url=server.url))
    assert (report.reachable, report.answers) == (True, False)
    assert any(words in problem for problem in report.problems)


def test_no_server_no_key_and_no_network_judge() -> None:
    report = check_server(Judge("openai", "m", base_url="http://127.0.0.1:9/v1"))
    assert (report.reachable, report.n_calls) == (False, 0)
    assert "no connection to http://127.0.0.1:9" in report.problems[0]
    assert "OPENAI_API_KEY is not set" in check_server("openai:gpt-4o-mini").problems[0]
    for name in ("fake:strict", "vllm:m", "transformers:m"):
        with pytest.raises(
            ConfigError, match=r"has no server to check.*openai, anthropic, litellm, inference-providers"
        ):
            check_server(name)


LIBRARIES = [
    pytest.param("litellm", "litellm", "openai/m", id="litellm"),
    pytest.param("inference-providers", "aiohttp", "org/m", id="inference-providers"),
]


@pytest.mark.parametrize(("provider", "library", "model"), LIBRARIES)
def test_a_server_is_looked_at_through_a_library_too(provider: str, library: str, model: str) -> None:
    pytest.importorskip(library, reason=f"needs the extra {provider}")
    with judge_server(always={"content": '{"score": 1}'}) as server:
        report = check_server(Judge(provider, model, base_url=server.url))
        assert len(server.paid) == report.n_calls == 2
    assert (report.reachable, report.answers, report.n, report.json_schema) == (True, True, "works", "works")
    assert (report.models, report.model_listed, report.problems) == ([], None, [])
    with judge_server(refuses=("n", "max_tokens", "response_format")) as server:
        report = check_server(Judge(provider, model, base_url=server.url))
        assert len(server.paid) == report.n_calls == 2
    assert (report.n, report.json_schema, report.problems) == ("refused", "refused", [])
    assert sorted(report.refused) == ["max_tokens", "n", "response_format"]
    with judge_server(always={"status": 401, "body": {"error": {"message": "bad key"}}}) as server:
        report = check_server(Judge(provider, model, base_url=server.url))
    assert (report.reachable, report.answers, report.n_calls, report.n) == (True, False, 0, "failed")
    assert "bad key" in report.problems[0]
    report = check_server(Judge(provider, model, base_url="http://127.0.0.1:9/v1"))
    assert (report.reachable, report.answers, len(report.problems)) == (False, False, 1)


def test_doctor_looks_at_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    from evalkit.cli import main

    with judge_server(models=["m"], always={"content": '{"score": 1}'}) as server:
        code = main(["doctor", "--judge", "openai:m", "--judge-base-url", server.url])
    out = capsys.readouterr().out
    assert code == 0
    assert f"openai:m at {server.url}" in out
    assert "json schema     works" in out
    for status in (401, 402, 404, 500):
        with judge_server(always={"status": status}) as server:
            for flags in ([], ["--json"]):
                assert main(["doctor", "--judge", "openai:m", "--judge-base-url", server.url, *flags]) == 1, status
    assert main(["doctor", "--judge", "openai:m", "--judge-base-url", "http://127.0.0.1:9/v1"]) == 1, "no server"
