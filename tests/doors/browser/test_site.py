"""The documentation site: built as `make docs` builds it, where a broken link is an error, and searched."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from labs import ROOT

import evalkit as ek


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
    results.filter(has_text="What every figure means").first.click()
    expect(page.locator("h1")).to_contain_text("What every figure means")


def test_one_gets_from_the_readme_to_a_notebook_and_a_function(site: Path, page: Any) -> None:
    from playwright.sync_api import expect

    page.goto(f"{site.as_uri()}/index.html")
    page.get_by_role("link", name="tour").click()
    expect(page.locator("h1")).to_contain_text("Does a support bot stick to its sources?")
    page.get_by_role("link", name="API reference").first.click()
    expect(page.locator("h1")).to_contain_text("API reference")
    page.wait_for_load_state()
    missing = [
        name for name in ek.__all__ if name != "__version__" and not page.locator(f'[id="evalkit.{name}"]').count()
    ]
    assert missing == []
