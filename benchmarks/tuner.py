"""The tuner: from the click on Run to updated tiles with everything cached, the first paint, and 2,000 items."""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from bars import bar, own_cache, told

import evalkit as ek

JURY = ["fake:strict", "fake:lenient", "fake:noisy"]
EDITS = ["Supported in the main; minor additions are acceptable.", "Fully supported, exactly and in every claim."]


def items_of(n: int) -> list[dict[str, object]]:
    return [
        {
            "item_id": f"i{i}",
            "question": f"When was station {i} opened?",
            "answer": f"It was opened in {1850 + i % 150}.",
            "context": [f"Station {i} was opened in {1850 + (i * 7) % 150}."],
            "people": i % 3,
        }
        for i in range(n)
    ]


def made(n: int) -> tuple[ek.RubricTuner, float]:
    """A tuner, and the seconds until it could be drawn."""
    started = time.perf_counter()
    tuner = ek.RubricTuner(items_of(n), "faithfulness", JURY, {"faithfulness": "people"}, folder=tempfile.mkdtemp())
    tuner._repr_mimebundle_()
    return tuner, time.perf_counter() - started


def act(tuner: ek.RubricTuner, **said: object) -> float:
    """Seconds until what a person did is on its way to the browser."""
    started = time.perf_counter()
    tuner.receive(said)
    tuner.wait_idle(60)
    return time.perf_counter() - started


def clicks(tuner: ek.RubricTuner, rounds: int) -> list[float]:
    """Seconds from each click on Run to the new tiles, the plan for the next run included; all cached."""
    for text in EDITS:
        tuner.edit("faithfulness", scale={2: text})
        tuner.run()
    seconds = []
    for at in range(rounds):
        tuner.edit("faithfulness", scale={2: EDITS[at % 2]})
        tuner.wait_idle(60)
        seconds.append(act(tuner, do="run"))
    return seconds


def from_the_last_reply(n: int, rounds: int) -> list[float]:
    """Seconds from the last reply of three judges on a loopback server to the new tiles: one sample, nothing cached."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
    from servers import judge_server

    def reply(body: dict[str, Any]) -> dict[str, str]:
        text = json.dumps([body["model"], body["messages"]])
        return {"content": json.dumps({"explanation": "so", "score": zlib.crc32(text.encode()) % 3})}

    seen: dict[str, float] = {}

    def of_status(change: dict[str, Any]) -> None:
        status = change["new"]
        if status.get("total") and status["done"] >= status["total"]:
            seen.setdefault("last", time.perf_counter())

    os.environ.setdefault("OPENAI_API_KEY", "none")
    with judge_server(faults=reply) as server:
        jury = [ek.Judge("openai", name, base_url=server.url, name=name) for name in "abc"]
        labels, folder = {"faithfulness": "people"}, tempfile.mkdtemp()
        tuner = ek.RubricTuner(items_of(n), "faithfulness", jury, labels, samples=1, folder=folder, concurrency=64)
        tuner.widget.observe(of_status, "status")
        tuner.widget.observe(lambda _: seen.setdefault("tiles", time.perf_counter()), "figures")
        tuner.run()
        seconds = []
        for at in range(rounds):
            tuner.edit("faithfulness", scale={2: f"{EDITS[0]} {at}"})
            tuner.wait_idle(60)
            seen.clear()
            act(tuner, do="run")
            seconds.append(seen["tiles"] - seen["last"])
    return seconds


CELL = """
import evalkit as ek
items = ek.load_items({path!r})
"""
TUNER = f"""
tuner = ek.RubricTuner(items, "faithfulness", {JURY!r}, {{"faithfulness": "people"}})
tuner"""
CLICK = """async () => {
    const shown = () => [...document.querySelectorAll('.ekw-pick select')].map((one) => one.value).join();
    const before = shown(), started = performance.now();
    document.querySelector('.ekw [data-do=run]').click();
    while (shown() === before) {
        if (performance.now() - started > 30_000) throw new Error('no other version is shown after 30 s');
        await new Promise((done) => requestAnimationFrame(done));
    }
    return (performance.now() - started) / 1000;
}"""
KEY = """async () => {
    const rows = [...document.querySelectorAll('.ekw tr[data-id]')], started = performance.now();
    document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown', bubbles: true }));
    await new Promise((done) => requestAnimationFrame(done));
    if (!rows.includes(document.activeElement)) throw new Error('no row has the focus');
    return (performance.now() - started) / 1000;
}"""
PLAN = """async (text) => {
    const level = document.querySelector(".ekw [data-part=text]");
    const plan = () => document.querySelector(".ekw-plan")?.textContent;
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const before = plan(), started = performance.now();
    level.value = text;
    level.dispatchEvent(new Event('input', { bubbles: true }));
    await frame();
    const typed = performance.now() - started;
    while (plan() === before) await frame();
    return [typed / 1000, (performance.now() - started) / 1000];
}"""
OPEN = """async (at) => {
    const row = document.querySelectorAll('.ekw tr[data-id]')[at], started = performance.now();
    row.click();
    while (document.querySelector('.ekw-item h3')?.firstChild.textContent.trim() !== row.dataset.id) {
        await new Promise((done) => requestAnimationFrame(done));
    }
    return (performance.now() - started) / 1000;
}"""
PAINT = """async () => {
    const started = performance.now();
    window.jupyterapp.commands.execute('notebook:run-cell');
    while (!document.querySelector('.ekw .ekw-run button')) await new Promise((done) => requestAnimationFrame(done));
    return (performance.now() - started) / 1000;
}"""


def in_browser(n: int, rounds: int) -> tuple[list[float], float] | None:
    """Seconds from a click on Run to new tiles in Chromium, and from running the cell to the first paint."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
    from labs import Notebook, missing, running_browser, running_lab

    if why := missing():
        print(f"not timed in a browser: {why}")
        return None
    with tempfile.TemporaryDirectory() as root, running_lab(Path(root)) as lab, running_browser() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(60_000)
        path = Path(root) / "items.jsonl"
        path.write_text("".join(json.dumps(item) + "\n" for item in items_of(n)))
        notebook = Notebook(page, lab)
        notebook.open(CELL.format(path=str(path)), TUNER, run=False)
        page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-cell-and-select-next')")
        page.wait_for_function(Notebook.IDLE)
        painted = page.evaluate(PAINT)
        page.wait_for_function(Notebook.IDLE)
        level, seconds = page.get_by_label("What level 2 means"), []
        page.evaluate(CLICK)
        for at in range(rounds + 2):
            level.fill(EDITS[at % 2])
            words = "nothing to pay" if at > 1 else "to call"
            page.locator(".ekw-plan", has_text=words).wait_for(state="attached")
            page.wait_for_timeout(600)
            took = page.evaluate(CLICK)
            page.wait_for_timeout(600)
            seconds += [took] * (at > 1)
        notebook.close()
        return seconds, painted


LARGE = """
import evalkit as ek
items = [{"item_id": f"i{at}", "question": f"When was station {at} opened?", "answer": f"In {1850 + at % 150}.",
          "people": at % 3} for at in range(2_000)]
rubric = ek.Rubric(id="large", inputs=["question", "answer"], criteria=[
    {"name": name, "scale": {0: "no", 1: "nearly", 2: "yes"}, "pass_at": 2} for name in ("a", "b", "c")])
tuner = ek.RubricTuner(items, rubric, ["fake:strict", "fake:lenient"], {"a": "people"}, samples=1, name="large")
tuner.run()
"""
SHOWN = """
tuner = ek.RubricTuner(items, rubric, ["fake:strict", "fake:lenient"], {"a": "people"}, samples=1, name="large")
tuner"""


def large_in_browser() -> bool:
    """2,000 items, 3 criteria, 2 judges: first paint, an arrow key, an item, typing, the plan, Tabs to the table."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
    from labs import Notebook, missing, running_browser, running_lab

    if why := missing():
        print(f"not timed in a browser: {why}")
        return True
    with tempfile.TemporaryDirectory() as root, running_lab(Path(root)) as lab, running_browser() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(120_000)
        notebook = Notebook(page, lab)
        notebook.open("import evalkit as ek", SHOWN, run=False)
        notebook.run_code(LARGE)
        page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-cell-and-select-next')")
        notebook.idle()
        painted = page.evaluate(PAINT)
        page.locator("tr[data-id]").first.wait_for()
        notebook.run_code("tuner.wait_idle(60)")
        page.locator("tr[data-id]").first.focus()
        keys = [page.evaluate(KEY) for _ in range(20)]
        opened = [page.evaluate(OPEN, at) for at in range(10)]
        page.keyboard.press("Escape")
        plans = []
        for at in range(5):
            plans.append(page.evaluate(PLAN, "no" if at % 2 else f"no, in version {at}"))  # and back: another plan
            page.wait_for_timeout(1_500)
        tabs = 0
        page.locator(".ekw [data-to]").first.evaluate("(one) => one.focus()")
        page.keyboard.press("Enter")
        tabs = 1 if page.evaluate("() => !!document.activeElement.closest('tr[data-id]')") else 99
        notebook.close()
    name = "2,000 items x 3 criteria x 2 judges in the browser"
    met = bar(f"first paint, {name}", painted, 1.5, " s")
    met &= bar(f"an arrow key, {name}", statistics.median(keys), 0.05, " s")
    typed, planned = zip(*plans, strict=True)
    met &= bar(f"a press to the open item, {name}", statistics.median(opened), 0.15, " s")
    met &= bar(f"typing to the next frame, {name}", statistics.median(typed), 0.05, " s")
    met &= bar(f"plan after an edit, {name}", statistics.median(planned), 0.5, " s")
    return bar("Tabs to the table", tabs, 10, "") and met


def main() -> int:
    with own_cache():
        tuner, _ = made(200)
        tuner.run()
        shown = clicks(tuner, 8)
        large, painted = made(2_000)
        large.run()
        shown_large = clicks(large, 4)
        paging = [act(large, do="query", query={"page": at, "filter": "split"}) for at in range(10)]
        opening = [act(large, do="select", item_id=f"i{at}") for at in range(10)]
        after = from_the_last_reply(2_000, 5)
    print(told("click to tiles sent, 200 items, cached", shown))
    print(told("click to tiles sent, 2,000 items, cached", shown_large))
    print(told("a page of 2,000 items", paging))
    print(told("an item of 2,000", opening))
    print(told("last reply to tiles, 2,000 items × 3 judges", after))
    met = bar("click to tiles sent, 200 items × 3 judges × 3 samples, cached", statistics.median(shown), 0.5, " s")
    met &= bar("a tuner on 2,000 items", painted, 1.0, " s")
    met &= bar("a page of 2,000 items", statistics.median(paging), 0.1, " s")
    met &= bar("an item of 2,000", statistics.median(opening), 0.15, " s")
    met &= bar("last reply to tiles, 2,000 items × 3 judges × 1 sample", statistics.median(after), 0.5, " s")
    for n, rounds in ((200, 7), (2_000, 5)):
        if (seen := in_browser(n, rounds)) is not None:
            print(told(f"click to tiles in the browser, {n} items, cached", seen[0]))
            print(f"first paint in the browser after import, {n} items: {seen[1]:.3f} s")
            if n == 200:
                met &= bar("click to tiles in the browser, 200 items", statistics.median(seen[0]), 0.5, " s")
                met &= bar("first paint in the browser", seen[1], 1.0, " s")
    met &= large_in_browser()
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
