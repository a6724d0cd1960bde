"""`evalkit label` attacked: tokens, cookies, paths, methods, sizes, hosts, origins, sockets, sessions and rates."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from commandline import evalkit, write_lines
from label_servers import Server, label_server
from run_setup import wait_for

pytest.importorskip("marimo")
from marimo._server.api.router import build_routes
from starlette.routing import Mount, Route, WebSocketRoute
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.sync.client import connect

from evalkit.cli.main_command import main
from evalkit.notebook.together import label_server as server_module

ITEMS = [
    {"item_id": f"i{n}", "question": "How long?", "answer": f"Answer {n}.", "context": "30 days."} for n in range(5)
]
Headers = list[tuple[str, str]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("label")
    with label_server(folder, ITEMS, "faithfulness", ["ann1", "ann2"], "--lead", "Eva") as running:
        yield running


def own(server: Server, person: str = "ann1") -> Headers:
    return [("Cookie", server.cookie(person)), ("Origin", f"http://127.0.0.1:{server.port}")]


@pytest.mark.long
def test_a_token_is_changed_for_a_cookie_and_leaves_the_address(server: Server) -> None:
    secrets: set[str] = set()
    for person in ("ann1", "ann2", "Eva"):
        status, headers, _ = server.ask("GET", f"/?token={server.token(person)}")
        folder, (name, *flags) = headers["location"], headers["set-cookie"].split("; ")
        assert status == 303
        assert re.fullmatch(r"/[\w-]{32}/", folder)
        assert re.fullmatch(rf"evalkit_label_{server.port}=[\w-]{{32}}", name)
        assert {flag.casefold() for flag in flags} == {"httponly", f"path={folder.casefold()}", "samesite=strict"}
        secrets |= {server.token(person), folder.strip("/"), name.partition("=")[2]}
        assert server.ask("GET", f"/?token={server.token(person)}")[1]["location"] == folder  # a second visit
        status, headers, page = server.ask("GET", folder, [("Cookie", name)])
        assert status == 200
        assert not [secret for secret in secrets if secret.encode() in page]
        assert str(Path(server_module.__file__).parent).encode() not in page
        safe = {"cache-control": "no-store", "referrer-policy": "no-referrer", "x-content-type-options": "nosniff"}
        assert {key: headers[key] for key in safe} == safe
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        asset = re.search(r"/assets/[\w-]+\.js", page.decode())
        # kept by the browser, else a few reloads use up what is allowed
        status, headers, _ = server.ask("GET", folder + asset[0][1:], [("Cookie", name)])
        assert (status, headers["cache-control"]) == (200, "private, max-age=86400")
        assert server.ask("GET", f"{folder}assets/none.js", [("Cookie", name)])[1]["cache-control"] == "no-store"
    assert len(secrets) == 9


@pytest.mark.long
def test_no_request_without_a_right_to_it_reaches_the_app(server: Server) -> None:
    """Each row: what is tried, the request, and the status with which it is refused."""
    one, two = server.token("ann1"), server.token("ann2")
    cookie, other, name = server.cookie("ann1"), server.cookie("ann2"), f"evalkit_label_{server.port}"
    value, here, big = cookie.partition("=")[2], f"http://127.0.0.1:{server.port}", b"x" * 1_000_001
    folder, of_ann2 = server.folder("ann1") + "/", server.folder("ann2") + "/"
    post = f"{folder}api/kernel/set_model_value"
    table: list[tuple[str, str, str, Headers, bytes | None, int]] = [
        ("no token", "GET", "/", [], None, 401),
        ("empty token", "GET", "/?token=", [], None, 401),
        ("wrong token", "GET", "/?token=" + "a" * 32, [], None, 401),
        ("part of a token", "GET", f"/?token={one[:-1]}", [], None, 401),
        ("longer token", "GET", f"/?token={one}x", [], None, 401),
        ("token in other case", "GET", f"/?token={one.swapcase()}", [], None, 401),
        ("two tokens", "GET", f"/?token={one}&token={two}", [], None, 401),
        ("token of nobody, Cyrillic", "GET", "/?token=%D0%B0", [], None, 401),
        ("broken UTF-8 token", "GET", "/?token=%ff%fe", [], None, 401),
        ("null byte", "GET", f"/?token={one}%00", [], None, 401),
        ("wrong token with a right cookie", "GET", "/?token=wrong", [("Cookie", cookie)], None, 401),
        ("token at another address", "GET", f"{folder}assets/index.js?token={one}", [], None, 401),
        ("token of marimo", "GET", f"/?access_token={one}", [], None, 401),
        ("token as bearer", "GET", "/", [("Authorization", f"Bearer {one}")], None, 401),
        ("token as password", "GET", "/", [("Authorization", "Basic YW5uMTp4")], None, 401),
        ("the name as token", "GET", "/?token=ann1", [], None, 401),
        ("forged cookie", "GET", folder, [("Cookie", f"{name}=ann1")], None, 401),
        ("empty cookie", "GET", folder, [("Cookie", f"{name}=")], None, 401),
        ("cookie of another port", "GET", folder, [("Cookie", f"evalkit_label_1={value}")], None, 401),
        ("cookie without a name", "GET", folder, [("Cookie", value)], None, 401),
        ("two cookies of two people", "GET", folder, [("Cookie", f"{cookie}; {other}")], None, 401),
        ("two cookie headers", "GET", folder, [("Cookie", cookie), ("Cookie", other)], None, 401),
        ("quoted cookie", "GET", folder, [("Cookie", f'{name}="{value}"')], None, 401),
        ("the token as cookie", "GET", folder, [("Cookie", f"{name}={one}")], None, 401),
        ("the cookie as token", "GET", f"/?token={value}", [], None, 401),
        ("cookie without its folder", "GET", "/", [("Cookie", cookie)], None, 401),
        ("cookie at another address", "GET", "/assets/index.js", [("Cookie", cookie)], None, 401),
        ("cookie in the folder of another", "GET", of_ann2, [("Cookie", cookie)], None, 401),
        ("folder without its cookie", "GET", folder, [], None, 401),
        ("folder and cookie in the path", "GET", f"{folder}{value}/", [], None, 401),
        ("folder and cookie in one part", "GET", f"{folder[:-1]}%0A{value}/", [], None, 404),
        ("folder and cookie in one part, /", "GET", f"{folder[:-1]}%2F{value}/", [], None, 401),
        ("folder twice", "GET", folder + folder[1:], [("Cookie", cookie)], None, 404),
        ("folder after an empty one", "GET", "/" + folder, [("Cookie", cookie)], None, 401),
        ("post to the folder of another", "POST", of_ann2 + post[len(folder) :], own(server), b"{}", 401),
        ("user in a header", "GET", "/", [("X-Forwarded-User", "ann1"), ("Remote-User", "ann1")], None, 401),
        ("foreign host", "GET", folder, [("Cookie", cookie), ("Host", "evil.example")], None, 403),
        ("foreign, own port", "GET", folder, [("Cookie", cookie), ("Host", f"a.example:{server.port}")], None, 403),
        ("begins as our host", "GET", folder, [("Cookie", cookie), ("Host", "localhost.evil.example")], None, 403),
        ("user in the host", "GET", folder, [("Cookie", cookie), ("Host", "localhost@evil.example")], None, 403),
        ("empty host", "GET", folder, [("Cookie", cookie), ("Host", "")], None, 403),
        ("foreign origin", "GET", folder, [("Cookie", cookie), ("Origin", "http://evil.example")], None, 403),
        ("origin that is no address", "GET", folder, [("Cookie", cookie), ("Origin", "http://[x")], None, 403),
        ("null origin", "GET", folder, [("Cookie", cookie), ("Origin", "null")], None, 403),
        ("origin of another port", "POST", post, [("Cookie", cookie), ("Origin", "http://127.0.0.1:1")], b"{}", 403),
        ("origin that begins as ours", "POST", post, [("Cookie", cookie), ("Origin", here + ".example")], b"{}", 403),
        ("two origins", "POST", post, [*own(server), ("Origin", "http://evil.example")], b"{}", 403),
        ("post without origin", "POST", post, [("Cookie", cookie)], b"{}", 403),
        ("post without cookie", "POST", post, [("Origin", here)], b"{}", 401),
        ("large body", "POST", post, own(server), big, 413),
        ("body of no stated size", "POST", post, [*own(server), ("Transfer-Encoding", "chunked")], b"0\r\n\r\n", 413),
        ("two sizes", "POST", post, [*own(server), ("Content-Length", "4"), ("Transfer-Encoding", "chunked")],
         b"2\r\n{}\r\n0\r\n\r\n", 413),
        ("a size twice", "POST", post, [*own(server), ("Content-Length", "2"), ("Content-Length", "2")], b"{}", 400),
        ("body of a get", "GET", folder, [("Cookie", cookie)], b"x", 413),
    ]  # fmt: skip
    methods = ("HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "get")
    table += [(f"method {method}", method, folder, own(server), None, 405) for method in methods]
    paths = (
        "/../pyproject.toml", "/%2e%2e/%2e%2e/etc/passwd", "/assets/../index.html", "/assets/%2e%2e%2findex.html",
        "/assets/..%5c..%5cindex.html", "/assets/", "/assets/.hidden", "//etc/passwd", "/@file/../../etc/passwd",
        "/@file/10-../../etc/passwd", "/@file/10-%2e%2e%2fetc", "/public/items.jsonl", "/public/../items.jsonl",
        "/items.jsonl", "/items-faithfulness.labels.jsonl", "/server.log", "/mcp", "/mcp/server", "/docs",
        "/openapi.json", "/sse", "/ws", "/ws_sync", "/terminal/ws", "/lsp/pylsp", "/auth/login", "/auth/token",
        "/api/status", "/api/usage", "/?x/../api/status",
    )  # fmt: skip
    table += [
        (f"path {path}", "GET", folder + path[1:], own(server), None, 200 if path[:2] == "/?" else 404)
        for path in paths
    ]
    got = {what: server.ask(method, path, headers, body)[0] for what, method, path, headers, body, _ in table}
    assert got == {row[0]: row[5] for row in table}


def routes(found: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Method and address of every route of marimo."""
    for one in found:
        if isinstance(one, Mount):
            yield from routes(one.routes or [], prefix + one.path)
            yield "GET", f"{prefix}{one.path}/x.txt"
        elif isinstance(one, (Route, WebSocketRoute)):
            path = re.sub(r"{\w+(:\w+)?}", "x", prefix + one.path)
            for method in getattr(one, "methods", None) or ["GET"]:
                yield method, path


@pytest.mark.long
def test_of_all_addresses_of_marimo_only_those_of_the_page_are_served(server: Server) -> None:
    known = sorted({*routes(build_routes())})
    assert len(known) > 90
    folder = server.folder("ann1")
    answers = {(method, path): server.ask(method, folder + path, own(server), b"{}" if method == "POST" else None)[0]
               for method, path in known}  # fmt: skip
    passed = {key for key, status in answers.items() if status not in (404, 405)}
    assert passed == {("GET", "/"), ("GET", "/health"), ("POST", "/api/kernel/set_model_value")}


def socket_of(
    server: Server, session: str, headers: Headers, person: str = "ann1", folder: str = "", **more: Any
) -> Any:
    given = dict(headers)
    shown = given.pop("Origin", None)
    address = f"ws://127.0.0.1:{server.port}{folder or server.folder(person)}/ws?session_id={session}"
    return connect(address, additional_headers=given, origin=shown, proxy=None, max_size=None, **more)  # type: ignore[arg-type]


@pytest.mark.long
def test_sockets_are_refused_before_they_open(server: Server) -> None:
    cookie, here = server.cookie("ann1"), f"http://127.0.0.1:{server.port}"
    table: list[tuple[str, Headers, int]] = [
        ("no cookie", [("Origin", here)], 401),
        ("cookie of another", [("Cookie", server.cookie("ann2")), ("Origin", here)], 401),
        ("forged cookie", [("Cookie", cookie[:-1]), ("Origin", here)], 401),
        ("no origin", [("Cookie", cookie)], 403),
        ("null origin", [("Cookie", cookie), ("Origin", "null")], 403),
        ("foreign origin", [("Cookie", cookie), ("Origin", "http://evil.example")], 403),
        ("other port", [("Cookie", cookie), ("Origin", "http://127.0.0.1:1")], 403),
    ]
    for what, headers, status in table:
        with pytest.raises(InvalidStatus) as refused, socket_of(server, "s_aaaaaa", headers):
            pass
        assert refused.value.response.status_code == status, what
    for folder in ("/", server.folder("ann2"), server.folder("ann1")[:-1]):
        with pytest.raises(InvalidStatus) as refused, socket_of(server, "s_aaaaaa", own(server), folder=folder):
            pass
        assert refused.value.response.status_code == 401, folder
    for path in ("/ws_sync", "/terminal/ws", "/sse", "/ws/x", "/api/kernel/ws"):
        with pytest.raises(InvalidStatus) as refused, connect(
            f"ws://127.0.0.1:{server.port}{server.folder('ann1')}{path}?session_id=s_bbbbbb&file=/etc/passwd",
            additional_headers={"Cookie": cookie}, origin=here, proxy=None,  # type: ignore[arg-type]
        ):  # fmt: skip
            pass
        assert refused.value.response.status_code == 404, path


@contextmanager
def opened(server: Server, session: str, person: str) -> Iterator[tuple[Any, str]]:
    """A socket of this person, and the id of the model by which marimo knows their page."""
    with socket_of(server, session, own(server, person), person) as link:
        text = ""
        while f'"annotator":"{person}"' not in text.replace(" ", ""):
            text = link.recv(timeout=120)
        yield link, json.loads(text)["data"]["model_id"]


def wait_for_the_end(link: Any) -> None:
    while True:
        link.recv(timeout=60)


@pytest.mark.long
def test_nobody_reaches_the_session_of_another_and_frames_are_bounded(server: Server) -> None:
    message = {"method": "custom", "content": {"do": "skip", "form": "x", "reason": "no"}}
    log = server.log.with_name("items-faithfulness.labels.jsonl")
    with opened(server, "s_victim", "ann1") as (link, model):
        body = json.dumps({"modelId": model, "message": message, "buffers": []}).encode()

        def say(person: str) -> int:
            session = ("Marimo-Session-Id", "s_victim")
            post = f"{server.folder(person)}/api/kernel/set_model_value"
            return server.ask("POST", post, [*own(server, person), session], body)[0]

        assert say("ann1") == 200
        assert say("ann2") >= 400  # to marimo this is another session, which does not exist
        with opened(server, "s_victim", "ann2") as (_, other):  # nor does a socket take it over
            assert other != model
        assert say("ann1") == 200
        assert "ann2" not in (log.read_text() if log.exists() else "")
        link.send("x" * 70_000)
        with pytest.raises(ConnectionClosedError) as closed:
            wait_for_the_end(link)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009  # too big


@pytest.mark.long
def test_who_knows_the_widget_of_another_cannot_act_in_it(server: Server) -> None:
    log = server.log.with_name("items-faithfulness.labels.jsonl")

    def skip_all(person: str, session: str, model: str) -> None:
        for item in ITEMS:
            content = {"do": "skip", "form": item["item_id"], "reason": f"said by {person}"}
            body = {"modelId": model, "message": {"method": "custom", "content": content}, "buffers": []}
            headers = [*own(server, person), ("Marimo-Session-Id", session)]
            post = f"{server.folder(person)}/api/kernel/set_model_value"
            status, *_ = server.ask("POST", post, headers, json.dumps(body).encode())
            assert status == 200

    def said(message: dict[str, Any]) -> None:
        body = json.dumps({"modelId": model, "message": message, "buffers": []}).encode()
        headers = [*own(server), ("Marimo-Session-Id", "s_knowna")]
        assert server.ask("POST", f"{server.folder('ann1')}/api/kernel/set_model_value", headers, body)[0] == 200

    def logged(person: str) -> bool:
        return log.exists() and f"said by {person}" in log.read_text()

    with opened(server, "s_knowna", "ann1") as (_, model), opened(server, "s_knownb", "ann2") as (_, other):
        skip_all("ann2", "s_knownb", model)
        skip_all("ann2", "s_knownb", other)  # of her own page: her messages of before have been handled then
        wait_for(lambda: logged("ann2"))
        lines = [json.loads(line) for line in log.read_text().splitlines() if "said by ann2" in line]
        assert {line["annotator"] for line in lines} == {"ann2"}
        for content in (
            None,
            1,
            [],
            {},
            {"do": []},
            {"do": "save", "form": []},
            {"do": "open", "form": {}},
            {"do": "skip"},
        ):
            said({"method": "custom", "content": content})
        for state in ({}, {"form": 1}, {"form": {"view": "lead"}}, {"_esm": "alert(1)"}, {"alert": 3}, {"nope": 1}):
            said({"method": "update", "state": state, "bufferPaths": []})
        skip_all("ann1", "s_knowna", model)
        wait_for(lambda: logged("ann1"))
    assert "Traceback" not in server.log.read_text()


@pytest.mark.long
def test_a_restart_ends_all_addresses_and_the_log_names_no_token(tmp_path: Path) -> None:
    with label_server(tmp_path, ITEMS, "faithfulness", ["ann1"]) as first:
        old = first.token("ann1")
        folder, cookie = first.visit("ann1")
        with opened(first, "s_abcdef", "ann1"):
            assert first.stop() == 0  # with a page open
        text = first.log.read_text()
        assert "stopped; the labels are in" in text
        assert "Traceback" not in text
    with label_server(tmp_path, ITEMS, "faithfulness", ["ann1"], "--quiet") as second:
        cookie = cookie.replace(str(first.port), str(second.port))
        for where in ("/", f"{folder}/", f"{second.folder('ann1')}/"):
            assert second.ask("GET", where, [("Cookie", cookie)])[0] == 401
        status, _, page = second.ask("GET", f"/?token={old}")
        assert status == 401
        assert b"ask the person who sent it to you for a new one" in page
        here, cookie = second.visit("ann1")
        for path in ("api/kernel/set_model_value%1b[2J", "@file/1-x.js", "@file/10-items.csv"):
            assert second.ask("GET", f"{here}/{path}", own(second))[0] in (400, 404)
        bodies = [b"", b"null", b"[]", b"{}", b"not json", b"\xff", b'{"modelId": 1}', b"[" * 5000]
        bodies += [b'{"modelId": "x", "message": {"method": "custom", "content": "\\ud800"}, "buffers": []}']
        for body in bodies:
            assert second.ask("POST", f"{here}/api/kernel/set_model_value", own(second), body)[0] in (400, 500), body
        assert second.stop() == 0
        text = second.log.read_text()
        tokens = (old, folder.strip("/"), second.token("ann1"), here.strip("/"), cookie.partition("=")[2])
        assert not [token for token in tokens if token in text]
        assert "Traceback" not in text
        assert text.count("\n") <= len(bodies) + 3  # a line each


async def _through(gate: Any, path: str, headers: Headers, kind: str = "http") -> int:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    raw = [(name.lower().encode(), value.encode()) for name, value in headers]
    scope = {
        "type": kind,
        "path": path,
        "query_string": b"",
        "headers": raw,
        "extensions": {"websocket.http.response": {}},
    }
    await gate(scope | ({"method": "GET"} if kind == "http" else {}), None, send)
    return next((message["status"] for message in sent if "status" in message), 0)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_requests_are_limited_for_each_person(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(server_module, "time", SimpleNamespace(monotonic=lambda: now[0]))  # asyncio reads the other
    reached: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["user"]["username"])
        assert b"cookie" not in dict(scope["headers"])
        assert "f1" not in f"{scope}"
        is_socket = scope["type"] == "websocket"
        await send({"type": "websocket.accept" if is_socket else "http.response.start", "status": 200, "headers": []})
        await send({"type": "websocket.close" if is_socket else "http.response.body"})

    marks = iter(["f1", "c1", "f2", "c2"])
    monkeypatch.setattr("secrets.token_urlsafe", lambda _: next(marks))
    gate = server_module.Gate({"a": "one", "b": "two"}, "127.0.0.1", 8600).before(app)
    first, second = ([("Host", "localhost:8600"), ("Cookie", f"evalkit_label_8600={mark}")] for mark in ("c1", "c2"))
    for _ in range(4000):
        assert await _through(gate, "/f1/health", first) == 200
    assert await _through(gate, "/f1/health", first) == 429
    socket = [*second, ("Origin", "http://localhost:8600")]
    for _ in range(33):  # a socket costs as much as 120 requests, and the other person has all of theirs
        assert await _through(gate, "/f2/ws", socket, "websocket") == 200
    assert await _through(gate, "/f2/ws", socket, "websocket") == 429
    now[0] += 1.0
    for _ in range(40):
        assert await _through(gate, "/f1/health", first) == 200
    assert await _through(gate, "/f1/health", first) == 429
    assert (reached.count("a"), reached.count("b")) == (4040, 33)


@pytest.mark.long
def test_what_cannot_be_served_is_one_line(tmp_path: Path, server: Server) -> None:
    write_lines(tmp_path / "items.jsonl", ITEMS)
    right = ["label", "items.jsonl", "--rubric", "faithfulness", "--annotator", "a", "--port", "0"]
    table = [
        (["label", "items.jsonl", "--rubric", "faithfulness"], "--annotator NAME, once for each person"),
        (["label", "items.jsonl", "--rubric", "faithfulness", "--host", "0.0.0.0"], "--annotator NAME"),
        (["label", "items.jsonl", "--annotator", "a"], "needs --rubric"),
        ([*right, "--annotator", "A"], "a different name for each person"),
        ([*right, "--lead", "b", "--lead", "B"], "a different name for each person"),
        ([*right, "--annotator", " "], "a different name for each person"),
        ([*right, "--lead", "a"], "a different name for each person"),
        ([*right, "--annotator", "b\x1b[2J"], "a different name for each person"),
        ([*right, "--annotator", "decided by b"], "is no name of a person"),
        ([*right, "--order", "disputed"], "the log has no draw"),
        (["label", "none.jsonl", *right[2:]], "none.jsonl"),
        (["label", "items.jsonl", "--rubric", "faithfulnes", "--annotator", "a"], "did you mean 'faithfulness'"),
        ([*right[:-1], str(server.port)], "cannot be opened (Address already in use); pass another --port"),
        ([*right[:-1], "99999"], "cannot be opened"),
        ([*right, "--host", "203.0.113.7"], "203.0.113.7 port 0 cannot be opened"),
        ([*right, "--host", "no-such-name.invalid"], "no-such-name.invalid port 0 cannot be opened"),
    ]
    for words, says in table:
        done = evalkit(*words, folder=tmp_path)
        assert (done.returncode, done.stdout) == (2, ""), (words, done)
        assert says in done.stderr, (words, done.stderr)
        assert done.stderr.count("\n") == 1, done.stderr


def test_without_marimo_one_line_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "items.jsonl", ITEMS)
    monkeypatch.setitem(sys.modules, "marimo", None)
    monkeypatch.delitem(sys.modules, "evalkit.notebook.together.label_server", raising=False)
    assert main(["label", "items.jsonl", "--rubric", "faithfulness", "--annotator", "a"]) == 2
    text = capsys.readouterr().err
    assert "evalkit label needs marimo: install evalkit's extra 'label'" in text
    assert text.count("\n") == 1
