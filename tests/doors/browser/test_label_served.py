"""`evalkit label` in real browsers: people at once, one of them killed; hostile texts; a link from another site."""

from __future__ import annotations

import http.server
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from commandline import write_lines
from label_servers import label_server
from labs import PATIENCE_MS, chromium

import evalkit as ek

pytest.importorskip("marimo")

N = 100
PRESS = """() => { window.pressing = setInterval(() => {
  for (const key of ["1", "Enter"])
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, composed: true }));
}, 20) }"""


@contextmanager
def opened(browser: Any, address: str, seen: list[str]) -> Iterator[Any]:
    """A page of a browser of its own session, and all that the server sends to it."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.on("websocket", lambda link: link.on("framereceived", lambda frame: seen.append(str(frame))))
    page.goto(address)
    yield page
    context.close()


def done(page: Any) -> int:
    return int(page.locator(".ekw-count").first.inner_text().split()[0])


def test_two_people_a_lead_and_a_tuner_label_at_once_and_a_killed_browser_loses_nothing(
    tmp_path: Path, browser: Any
) -> None:
    from playwright.sync_api import expect

    items = [
        {"item_id": f"i{n:03d}", "question": "How long?", "answer": f"{n} days.", "context": "x"} for n in range(N)
    ]
    of_ana: list[str] = []
    of_ben: list[str] = []
    with label_server(tmp_path, items, "faithfulness", ["Ana", "Ben"], "--lead", "Eva") as server, opened(
        browser, server.addresses["Ana"], of_ana
    ) as ana, opened(browser, server.addresses["Eva"], []) as lead:  # fmt: skip
        tuner = ek.RubricTuner(tmp_path / "items.jsonl", "faithfulness", ["fake:strict"])
        second = browser.browser_type.launch(executable_path=chromium(), args=["--no-sandbox"], timeout=300_000)
        ben_context = second.new_context()
        ben = ben_context.new_page()
        ben.set_default_timeout(PATIENCE_MS)
        ben.on("websocket", lambda link: link.on("framereceived", lambda frame: of_ben.append(str(frame))))
        ben.goto(server.addresses["Ben"])
        for page in (ana, ben):
            expect(page.get_by_text(f"0 of {N} done")).to_be_visible(timeout=PATIENCE_MS)
        for page in (ana, ben):
            page.evaluate(PRESS)
        for number in range(20):
            tuner.label(f"i{number:03d}", 2)
        expect(ben.locator(".ekw-count").first).not_to_have_text(f"0 of {N} done")
        before = done(ben)
        with pytest.raises(Exception, match=r"closed|crash|Target"):
            second.new_browser_cdp_session().send("Browser.crash")
        with opened(browser, server.addresses["Ben"], of_ben) as again:
            expect(again.get_by_text(f"of {N} done")).to_be_visible()
            assert done(again) >= before
            again.evaluate(PRESS)
            for page in (ana, again):
                expect(page.get_by_text(f"All {N} items are done")).to_be_visible(timeout=PATIENCE_MS)
        expect(lead.get_by_text(f"{N} of {N}")).to_have_count(2, timeout=PATIENCE_MS)
        assert server.stop() == 0
    labels = ek.load_labels(tmp_path / "items-faithfulness.labels.jsonl", rubric="faithfulness")
    assert Counter(labels["annotator"]) == {"Ana": N, "Ben": N, "me": 20}
    assert not labels.duplicated(["item_id", "criterion", "annotator"]).any()
    lines = (tmp_path / "items-faithfulness.labels.jsonl").read_text().splitlines()
    assert len([line for line in lines if line.strip()]) == 2 * N + 20  # none twice
    tuner.receive({"do": "look"})
    assert len(tuner.labels) == 2 * N + 20
    assert of_ana
    assert not [frame for frame in of_ana if "Ben" in frame or "Eva" in frame]
    assert not [frame for frame in of_ben if "Ana" in frame or "Eva" in frame]


def test_texts_of_others_run_no_script_and_nothing_comes_from_elsewhere(tmp_path: Path, browser: Any) -> None:
    from playwright.sync_api import expect

    attack = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>${window.hacked=1}{{1}}"
    scale = {0: f"bad {attack}", 1: f"good {attack}"}
    rubric = ek.Rubric(
        id="review",
        inputs=["answer"],
        description=attack,
        criteria=[{"name": "tone", "description": attack, "scale": scale}],
    )
    path = tmp_path / "review.yaml"
    path.write_text(str(rubric))
    items = [{"item_id": f"i{n} {attack}", "answer": f"[a](javascript:window.hacked=1) {attack} {n}"} for n in range(3)]
    write_lines(tmp_path / "items.jsonl", items)
    for name, label in (("Ana", "0"), ("Ben", "1")):  # they differ, so the lead sees both, with comments
        page = ek.notebook.LabelPage(tmp_path / "items.jsonl", str(path), annotator=f"{name} {attack}")
        form = page.state["form"]["form"]
        page.receive({"do": "save", "form": form, "answers": [label], "comment": attack})
    people = [f"Ana {attack}", "Cleo"]
    with label_server(tmp_path, items, str(path), people, "--lead", f"Eva {attack}") as server:
        for address in server.addresses.values():
            urls: list[str] = []
            context = browser.new_context()
            shown = context.new_page()
            shown.on("request", lambda request, urls=urls: urls.append(request.url))
            shown.goto(address)
            expect(shown.get_by_text("onerror=").first).to_be_visible(timeout=PATIENCE_MS)
            for key in ("j", "1", "Enter", "u"):
                shown.keyboard.press(key)
            shown.wait_for_timeout(300)
            assert shown.evaluate("window.hacked") is None
            assert "token" not in shown.url
            begins = (f"http://127.0.0.1:{server.port}/", "data:", "blob:")
            assert not [url for url in urls if not url.startswith(begins)]
            context.close()


def test_a_link_of_another_site_opens_the_page_and_another_port_gets_no_cookie(tmp_path: Path, browser: Any) -> None:
    """A browser sends no SameSite=Strict cookie after such a link, not even after the redirect."""
    from playwright.sync_api import expect

    items = [{"item_id": "a", "question": "How long?", "answer": "30 days.", "context": "x"}]
    with label_server(tmp_path, items, "faithfulness", ["Ana"]) as server:
        address, cookies = server.addresses["Ana"], list[tuple[str, str | None]]()  # of each request: its path first

        class Mail(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                cookies.append((self.path, self.headers["Cookie"]))  # a browser asks for /favicon.ico when it likes
                body = f"<a href='{address}'>label</a>".encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        mail = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Mail)
        threading.Thread(target=mail.serve_forever, daemon=True).start()
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"http://localhost:{mail.server_address[1]}/")
        page.get_by_text("label").click()
        expect(page.get_by_text("You are Ana")).to_be_visible(timeout=PATIENCE_MS)
        assert page.url == f"http://127.0.0.1:{server.port}{server.folder('Ana')}/"
        page.reload()
        expect(page.get_by_text("You are Ana")).to_be_visible(timeout=PATIENCE_MS)
        of_ana, port = server.visit("Ana"), mail.server_address[1]
        asked = ["/", "/api/kernel/set_model_value", "/ws"]  # a browser sends cookies to all ports of a host
        for path in asked:
            page.goto(f"http://127.0.0.1:{port}{path}")
        assert {path for path, _ in cookies} >= set(asked)
        assert {cookie for _, cookie in cookies} == {None}
        page.goto(f"http://127.0.0.1:{port}{of_ana[0]}/")  # it would, to whoever knew the folder
        assert of_ana[1] in (dict(cookies)[f"{of_ana[0]}/"] or "")
        context.close()
        mail.shutdown()
        mail.server_close()


def test_a_page_is_dark_like_its_browser_and_says_when_the_server_is_gone(tmp_path: Path, browser: Any) -> None:
    from playwright.sync_api import expect

    items = [{"item_id": "a", "question": "How long?", "answer": " ", "context": "x"}]
    with label_server(tmp_path, items, "faithfulness", ["Ana"]) as server:
        context = browser.new_context(color_scheme="dark")
        page = context.new_page()
        page.goto(server.addresses["Ana"])
        expect(page.get_by_text("You are Ana")).to_be_visible(timeout=PATIENCE_MS)
        assert "(empty)" in page.get_by_role("region", name="answer").inner_text()
        names = page.locator(".ekw-read section").evaluate_all("all => all.map((one) => one.ariaLabel)")
        assert names == ["question", "answer", "context"]
        shown = page.get_by_text("You are Ana").evaluate("(one) => getComputedStyle(one).color")
        assert min(map(float, shown.partition("(")[2].rstrip(")").split(",")[:3])) > 128, shown  # light on dark
        assert server.stop() == 0
        page.keyboard.press("1")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Not saved: the program behind this page")).to_be_visible(timeout=PATIENCE_MS)
        assert page.locator(".ekw-opt input:checked").count() == 1  # what was chosen stays
        context.close()
