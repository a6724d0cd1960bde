"""Exported notebooks: each one's tables, tiles and plots are there in a browser without a network."""

from __future__ import annotations

import copy
from pathlib import Path

import nbformat
import pytest
from labs import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
WIDGET = "application/vnd.jupyter.widget-view+json"
SHOWN = """() => {
    const seen = (one) => { const box = one.getBoundingClientRect(); return box.width > 20 && box.height > 5; };
    const drawn = (one) => seen(one) && (one.tagName !== 'IMG' || one.naturalWidth > 0);
    const all = (css, test = seen) => {
        const found = [...document.querySelectorAll(css)];
        return [found.length, found.filter(test).length];
    };
    const output = '.jp-OutputArea-output';
    return {
        outputs: all(`.jp-RenderedHTMLCommon${output}`), tables: all(`${output} table`), tiles: all(`${output} .tile`),
        pictures: all(`${output} :is(img, svg[viewBox])`, drawn),
    };
}"""


def exported(book: nbformat.NotebookNode, folder: Path) -> Path:
    from nbconvert import HTMLExporter

    page, _ = HTMLExporter().from_notebook_node(book)
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    return path


def shown(browser, path: Path) -> tuple[dict[str, list[int]], str]:
    """What is on the page, and its text; everything that is not the file itself is refused."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    try:
        page = context.new_page()
        page.route("**/*", lambda route: route.continue_() if route.request.url.startswith("file:") else route.abort())
        page.goto(path.as_uri(), wait_until="load")
        return page.evaluate(SHOWN), page.inner_text("body")
    finally:
        context.close()


def mimes(book: nbformat.NotebookNode) -> list[dict[str, str]]:
    return [out["data"] for cell in book.cells for out in cell.get("outputs", []) if "data" in out]


def test_there_are_notebooks():
    assert [path.name[:2] for path in NOTEBOOKS][:2] == ["01", "02"]
    assert len({path.name[:2] for path in NOTEBOOKS}) == len(NOTEBOOKS)  # numbered, each number once


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_tables_tiles_and_plots_are_there_without_a_network(path, browser, tmp_path):
    book = nbformat.read(path, as_version=4)
    pages = [data["text/html"] for data in mimes(book) if "text/html" in data]
    found, text = shown(browser, exported(book, tmp_path))
    for kind, (there, visible) in found.items():
        assert there == visible, kind
    assert found["tables"][0] == sum(page.count("<table") for page in pages)
    assert found["tiles"][0] == sum(page.count("class='tile'") for page in pages)
    assert found["outputs"][0] >= len(pages)
    for data in mimes(book):
        plain = str(data.get("text/plain", ""))
        assert "text/html" in data or plain, "an output without a form that can be read"
    assert len(text) > 1_000


def test_a_widget_as_jupyterlab_saves_it_is_shown_as_html(browser, tmp_path):
    """JupyterLab stores an output with the widget's id and no state: the HTML beside it is what is left."""
    book = nbformat.read(ROOT / "notebooks" / "06-tune-a-rubric.ipynb", as_version=4)
    plain, _ = shown(browser, exported(book, tmp_path))
    live = copy.deepcopy(book)
    marked = [data for data in mimes(live) if "class='tile'" in data.get("text/html", "")]
    assert marked
    for data in marked:
        data[WIDGET] = {"model_id": "0" * 32, "version_major": 2, "version_minor": 0}
    found, _ = shown(browser, exported(live, tmp_path))
    assert found == plain
    assert found["tiles"][1] > 0
