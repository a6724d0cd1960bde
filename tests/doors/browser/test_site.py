"""The documentation site: built as `make docs` builds it, where a broken link is an error, and searched."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from axe import _axe
from labs import ROOT

import evalkit as ek

# what a reader types, and the pages that answer it
SEARCHES = {
    "measure chance": ["measure-chance"],
    "second annotator": ["label-together", "how-to"],
    "share a cache": ["share-cache"],
    "gate in CI": ["gate-in-ci"],
    "local model": ["local-models"],
    "half price": ["batches"],
    "from a CSV": ["tutorial"],
    "held-out labels": ["improving"],
    "position bias": ["judge-bias"],
    "how many labels": ["calibration"],
    "API key": ["judges"],
    "own criteria": ["item-criteria"],
    "resume": ["calls", "cache"],
    "cost": ["calls", "batches"],
    "write a rubric": ["rubrics"],
    "confidence interval": ["statistics", "figures"],
    "log probabilities": ["asking"],
    "github actions": ["gate-in-ci"],
    "ek.aggregate": ["api/index"],
}
# axe-core takes 20 s for the 18,000 elements of docs/api/index, which are of the kinds of docs/api/notebook
LOOKED_AT = ("index", "docs/tutorial", "docs/how-to", "docs/figures", "docs/api/notebook", "docs/index")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    ended = subprocess.run(
        ["make", "docs", f"SITE={folder}"], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder


@pytest.fixture
def page(browser: Any) -> Any:
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    yield context.new_page()
    context.close()


def test_search_finds_functions_and_pages(site: Path, page: Any) -> None:
    from playwright.sync_api import expect

    page.goto(f"{site.as_uri()}/search.html?q=disagreement")
    results = page.locator("#search-results li a")
    expect(results.filter(has_text=re.compile(r"^evalkit\.disagreement$"))).to_have_count(1)
    results.filter(has_text="How figures are computed").first.click()
    expect(page.locator("h1")).to_contain_text("How figures are computed")


def test_search_finds_the_page_that_answers(site: Path, page: Any) -> None:
    from playwright.sync_api import expect

    missed = {}
    for words, answers in SEARCHES.items():
        page.goto(f"{site.as_uri()}/search.html?q={quote(words)}")
        expect(page.locator("#search-results")).to_contain_text(re.compile(r"found|match"))
        links = page.locator("#search-results li a").evaluate_all("(all) => all.map((a) => a.getAttribute('href'))")
        pages = [re.sub(r"[?#].*|\.html", "", link) for link in links[:3]]
        if not {f"docs/{name}" for name in answers} & set(pages):
            missed[words] = pages
    assert missed == {}


def test_it_loads_nothing_from_elsewhere_and_everyone_can_read_it(site: Path, browser: Any) -> None:
    for theme in ("light", "dark"):
        context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=theme)
        page, loaded = context.new_page(), list[str]()
        page.on("request", lambda request, loaded=loaded: loaded.append(request.url))
        for name in (*LOOKED_AT, "docs/api/index"):
            page.set_viewport_size({"width": 1280, "height": 900})
            page.goto(f"{site.as_uri()}/{name}.html")
            assert [url for url in loaded if not url.startswith(("file:", "data:"))] == []
            if name in LOOKED_AT:
                page.evaluate(_axe())
                found = page.evaluate("async () => (await axe.run(document, {resultTypes: ['violations']})).violations")
                assert [(one["id"], one["nodes"][0]["html"]) for one in found] == [], (name, theme)
            page.set_viewport_size({"width": 900, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= 900, name
        context.close()
    for file in site.rglob("*.html"):
        assert not re.search(
            r'(?:src|href)="/|<(?:script|img|link)[^>]+(?:src|href)="https?:', file.read_text("utf-8")
        ), file


def test_one_gets_from_the_readme_to_a_notebook_and_a_function(site: Path, page: Any) -> None:
    from playwright.sync_api import expect

    page.goto(f"{site.as_uri()}/index.html")
    page.get_by_role("link", name="From your CSV to a judge you trust").click()
    expect(page.locator("h1")).to_contain_text("From your CSV to a judge you trust")
    expect(page.get_by_role("link", name="library.csv")).to_be_visible()
    page.go_back()
    page.get_by_role("link", name="tour", exact=True).click()
    expect(page.locator("h1")).to_contain_text("Does a support bot stick to its sources?")
    page.get_by_role("link", name="Reference", exact=True).first.click()
    page.get_by_role("link", name="API reference").first.click()
    expect(page.locator("h1")).to_contain_text("API reference")
    page.wait_for_load_state()
    missing = [
        name for name in ek.__all__ if name != "__version__" and not page.locator(f'[id="evalkit.{name}"]').count()
    ]
    assert missing == []
