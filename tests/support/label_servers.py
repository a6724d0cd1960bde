"""`evalkit label` as a process, and requests to it as an attacker writes them."""

from __future__ import annotations

import http.client
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from commandline import environment, write_lines


@dataclass(eq=False)
class Server:
    """A running server: the address of each person, and what it wrote."""

    process: subprocess.Popen[str]
    addresses: dict[str, str]
    log: Path
    port: int

    def token(self, person: str) -> str:
        return self.addresses[person].partition("token=")[2]

    @cache  # noqa: B019
    def visit(self, person: str) -> tuple[str, str]:
        """The folder and the cookie for which the person's token was changed."""
        status, headers, _ = self.ask("GET", f"/?token={self.token(person)}")
        assert status == 303
        return headers["location"].rstrip("/"), headers["set-cookie"].partition("; ")[0]

    def folder(self, person: str) -> str:
        return self.visit(person)[0]

    def cookie(self, person: str) -> str:
        return self.visit(person)[1]

    def ask(
        self, method: str, path: str, headers: Sequence[tuple[str, str]] = (), body: bytes | None = None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and content; the headers are sent as they are, `Host` too."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        link.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        names = {name.lower() for name, _ in headers}
        for name, value in [*headers, *([] if "host" in names else [("Host", f"127.0.0.1:{self.port}")])]:
            link.putheader(name, value)
        if body is not None and not names & {"content-length", "transfer-encoding"}:
            link.putheader("Content-Length", str(len(body)))
        link.endheaders(body)
        answer = link.getresponse()
        content = answer.read()
        link.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, content

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)


@contextmanager
def label_server(folder: Path, items: list[dict], rubric: str, people: Sequence[str], *more: str) -> Iterator[Server]:
    write_lines(folder / "items.jsonl", items)
    given = [word for person in people for word in ("--annotator", person)]
    command = [
        sys.executable,
        "-m",
        "evalkit",
        "label",
        "items.jsonl",
        "--rubric",
        rubric,
        *given,
        "--port",
        "0",
        *more,
    ]
    log = folder / "server.log"
    with log.open("w") as written:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=written, text=True
        )
        try:
            lines = [process.stdout.readline() for _ in range(len(people) + more.count("--lead"))]
            assert all(lines), log.read_text()
            addresses = dict(line.strip().rsplit("  ", 1) for line in lines)
            yield Server(process, addresses, log, urlsplit(next(iter(addresses.values()))).port or 0)
        finally:
            process.kill()
            process.communicate()
