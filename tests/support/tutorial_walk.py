"""The tutorial (docs/tutorial.md) as a reader carries it out in JupyterLab: its cells, its clicks, its commands."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pandas as pd
from labs import Notebook
from page_blocks import Block, blocks_of
from places import ROOT

PAGE = ROOT / "docs" / "tutorial.md"
SLIPS = ("T-1007", "T-1031", "T-1058", "T-1040")  # where Maria is wrong, or unsure of a right answer
EDIT = "Supported in what matters. Mostly right is enough: minor additions that mislead nobody are acceptable."
CAPTURE = """
import contextlib, io
def _printed(code):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, globals())
    return out.getvalue()
"""


def blocks(word: str) -> list[Block]:
    """The page's blocks of this kind, in order."""
    return [block for block in blocks_of(PAGE.read_text(encoding="utf-8")) if block.words[:1] == (word,)]


def quotes() -> list[str]:
    """What the page says is on screen: its quoted paragraphs, as plain text."""
    quoted = re.findall(r"(?m)^(?:[ ]*> .*\n)+", PAGE.read_text(encoding="utf-8"))
    return [" ".join(line.strip()[2:] for line in lines.splitlines()) for lines in quoted]


def as_read(text: str) -> str:
    return " ".join(text.replace("\xa0", " ").split())


def walk(notebook: Notebook, picture: Callable[[str], None] = lambda name: None) -> list[str]:
    """Carry the tutorial out, calling `picture(name)` at each picture; gives the text of the screen after each step."""
    from playwright.sync_api import expect

    first, *later = blocks("python")
    shutil.copy(ROOT / "docs" / "library.csv", notebook.folder)
    screens: list[str] = []
    table = pd.read_csv(ROOT / "docs" / "library.csv", index_col="ticket")
    supported = table["maria"].eq(True) ^ table.index.isin(SLIPS)

    def step(name: str = "") -> None:
        screens.append(as_read(notebook.tuner.inner_text()))
        if name:
            picture(name)

    # 1. the card
    card = notebook.open(first.body, run=True).tuner
    card.get_by_text("96 rows").wait_for()
    step()
    card.get_by_role("combobox", name=re.compile("^Rubric")).select_option("faithfulness")
    expect(card.get_by_role("status", name="Problems")).to_contain_text("which rubric 'faithfulness' needs")
    step()
    card.get_by_label("Role of visitor_question").select_option("input: question")
    card.get_by_label("Role of bot_answer").select_option("input: answer")
    expect(card.get_by_label("Role of house_rules")).to_have_value("input: context")
    card.get_by_label("Judges").fill("fake:strict")
    card.get_by_label("Judges").press("Enter")
    card.get_by_text("96 items, 288 judgments", exact=False).filter(visible=True).wait_for()
    step("card")
    card.get_by_role("button", name="Open the tuner").click()

    # 2. the first judgments
    tuner: Any = notebook.tuner
    tuner.get_by_role("button", name="Run").click()
    tuner.locator("tr[data-id]").first.wait_for()
    expect(tuner.locator(".ekw-done")).to_contain_text("received 288 replies")
    tuner.get_by_role("button", name="Why").click()
    step("first")

    # 3. label twenty, as Maria did without her slips
    tuner.get_by_role("button", name="Label next").click()
    heading = tuner.locator(".ekw-queue h3")
    expect(heading).to_contain_text("0 of 96 labelled")
    step("queue")
    for done in range(1, 21):
        notebook.page.keyboard.press("2" if supported[heading.inner_text().split()[0]] else "0")
        expect(heading).to_contain_text(f"{done} of 96 labelled")
    tuner.get_by_role("button", name="Count them").click()
    tuner.get_by_role("button", name="Leave them out").wait_for()
    notebook.page.keyboard.press("Escape")

    # 4. agreement, and where judge and people differ
    expect(tuner.get_by_text("People among themselves")).to_be_visible()
    step()
    tuner.get_by_role("button", name="Why").click()
    cell = tuner.locator(".ekw-cell.ekw-false-fail:enabled").last
    cell.click()
    expect(tuner.get_by_text("10 of 96 items")).to_be_visible()
    tuner.locator("tr[data-id]").first.click()
    tuner.locator(".ekw-judges").wait_for()
    step("item")
    notebook.page.keyboard.press("Escape")
    cell.click()
    tuner.get_by_role("button", name="Why").click()

    # 5. one sentence, and what it did
    tuner.get_by_label("What level 2 means").fill(EDIT)
    expect(tuner.get_by_text("v1.1, not run yet")).to_be_visible()
    tuner.get_by_role("button", name="Run").click()
    expect(tuner.get_by_text("Keep v1.1.")).to_be_visible()
    step("keep")
    tuner.get_by_role("button", name="Look at held-out labels").click()
    expect(tuner.get_by_text("held-out: agreement")).to_be_visible()
    step()

    # 6. save, freeze, gate
    tuner.get_by_role("button", name="Save version").click()
    expect(tuner.get_by_text("saved as faithfulness@v2")).to_be_visible()
    step()
    notebook.run_code(CAPTURE)
    for block in later:
        printed = ast.literal_eval(notebook.value(f"_printed({block.body!r})"))
        assert printed == block.output

    # 7. the gate
    (notebook.folder / "eval.yaml").write_text(blocks("yaml")[0].body)
    gate = blocks("console")[1].body.split()
    command = [sys.executable, "-m", *gate]
    ended = subprocess.run(command, cwd=notebook.folder, capture_output=True, text=True, timeout=300)
    assert (ended.returncode, ended.stdout) == (1, blocks("text")[-1].body), ended.stdout + ended.stderr
    return screens
