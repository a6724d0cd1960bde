"""The tuner's screen in Chromium without a notebook: its script, its style, and a live `RubricTuner` behind them.

As a program, ``python tests/support/tuner_screen.py [FOLDER]`` sweeps all widths, codes and juries, light and dark, and
prints what overlaps, is cut or cannot be hit; with a folder it writes pictures there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import evalkit as ek

WIDTHS = [*range(700, 2561, 80), 2560]
FILE_BROWSER = {1280: 848, 1440: 1008, 1920: 1488, 2560: 2128}
"""Window -> the room that JupyterLab leaves for an output beside its file browser."""

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Tuner</title><style>html{color-scheme:light dark}
body{margin:0;padding:8px;background:light-dark(#fffffe,#16181c)}</style></head><body><main id="host"></main></body></html>"""

START = """async ([script, style, state]) => {
    const sheet = document.createElement('style');
    sheet.textContent = style;
    document.head.append(sheet);
    const module = await import(URL.createObjectURL(new Blob([script], { type: 'text/javascript' })));
    const heard = new Map();
    window.model = {
        get: (name) => state[name], on: (event, call) => heard.set(event, [...(heard.get(event) || []), call]), off: () => {},
        send: (message) => window.toPython(JSON.stringify(message)),
    };
    window.fromPython = (changed) => {
        Object.assign(state, changed);
        Object.keys(changed).forEach((name) => (heard.get(`change:${name}`) || []).forEach((call) => call()));
    };
    module.default.render({ model: window.model, el: document.getElementById('host') });
}"""

FINDINGS = r"""({ axe }) => {
    const out = [], page = document.documentElement, root = document.querySelector('.ekw');
    if (page.scrollWidth > page.clientWidth) out.push(`the page scrolls sideways: ${page.scrollWidth} > ${page.clientWidth}`);
    const seen = (one) => { const box = one.getBoundingClientRect(); return box.width > 1 && box.height > 1 && one.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true }) && !one.closest('.ekw-sr, .ekw-skips'); };
    const name = (one) => `${one.tagName}.${one.className} '${(one.getAttribute('aria-label') || one.textContent || '').trim().slice(0, 30)}'`;
    const controls = [...root.querySelectorAll('button, a, input, select, textarea, summary')].filter(seen), cells = [...root.querySelectorAll('td, th')].filter(seen);
    for (const one of [...controls, ...cells]) {
        one.scrollIntoView({ block: 'center' });
        const box = one.getBoundingClientRect(), x = box.left + box.width / 2, y = box.top + Math.min(box.height, innerHeight) / 2, hit = document.elementFromPoint(x, y);
        if (!hit || !(one.contains(hit) || hit.closest('label')?.contains(one))) out.push(`covered: ${name(one)} by ${hit ? name(hit) : 'nothing'}`);
        if (box.left < 0 || box.right > page.clientWidth + 0.5) out.push(`outside: ${name(one)}`);
        if (one.tagName === 'BUTTON' && (box.height < 23.9 || box.width < 23.9)) out.push(`small: ${name(one)} ${box.width} x ${box.height}`);
    }
    for (const one of root.querySelectorAll('*')) {
        if (!seen(one) || one.closest('.ekw-fold:not(.ekw-all), .ekw-two') || one.matches('.ekw-one, option, optgroup, select, textarea, input, tr, tbody, thead, table')) continue;
        const style = getComputedStyle(one);
        if (style.display === 'inline' || style.display === 'contents' || !one.clientWidth) continue;
        if (one.scrollWidth > one.clientWidth + 1) out.push(`overflows: ${name(one)} ${one.scrollWidth} > ${one.clientWidth}`);
        if (['hidden', 'clip', 'auto', 'scroll'].includes(style.overflowY) && one.scrollHeight > one.clientHeight + 1) out.push(`cut: ${name(one)} ${one.scrollHeight} > ${one.clientHeight}`);
    }
    for (const fold of root.querySelectorAll('.ekw-fold')) if (seen(fold) && fold.scrollHeight > fold.clientHeight + 1 && fold.nextElementSibling.hidden) out.push('folded without a control');
    scrollTo(0, 0);
    const boxes = controls.filter((one) => !one.closest('.ekw-top, .ekw-item-head')).map((one) => [one, one.getBoundingClientRect()]);
    boxes.forEach(([one, box], at) => boxes.slice(at + 1).forEach(([other, side]) => {
        if (!one.contains(other) && !other.contains(one) && !one.matches('.ekw-list *') && Math.min(box.right, side.right) - Math.max(box.left, side.left) > 1 && Math.min(box.bottom, side.bottom) - Math.max(box.top, side.top) > 1) out.push(`overlap: ${name(one)} / ${name(other)}`);
    }));
    for (const head of root.querySelectorAll('.ekw-matrix tbody th')) if (head.getBoundingClientRect().height > 52 || getComputedStyle(head).writingMode !== 'horizontal-tb') out.push(`not upright: ${name(head)}`);
    const widths = [...root.querySelectorAll('.ekw-list thead th')].map((one) => [one.className, one.getBoundingClientRect().width]), wide = widths.find(([kind]) => kind === 'ekw-t')?.[1] || 0;
    if (widths.some(([kind, width]) => kind !== 'ekw-t' && width >= wide)) out.push(`the text is not the widest: ${JSON.stringify(widths)}`);
    const strip = root.querySelector('.ekw-top')?.offsetHeight || 0;
    if (root.clientWidth >= 830 && strip > 144) out.push(`the strip is ${strip} px high`);
    return { findings: [...new Set(out)], strip, text: Math.round(wide), points: controls.length + cells.length };
}"""

TEXTS = [
    "Anyone can call /admin/export: the other admin routes have @requires('admin') and this one does not. Since dump_all() "
    "contains e-mail addresses, this should block the merge.",
    "Please improve this.",
    "The new column is NOT NULL without a default, so this migration fails on any table that already has rows. Add it "
    "nullable, backfill in batches, then set the constraint in a second migration.",
    "Floats? Timezones are hard.\n\n```python\nfor order in orders:\n    total += order.price\n```\nSum decimals instead.",
]
DIFF = "@@ -3,4 +3,9 @@\n CREATE INDEX orders_by_day ON orders (created_on);\n+ALTER TABLE orders ADD COLUMN state text NOT NULL;\n-ALTER TABLE orders DROP COLUMN is_open;\n"
WORDS = [
    "unusable",
    "misleading",
    "incomplete",
    "passable",
    "acceptable",
    "good",
    "very good",
    "excellent",
    "outstanding",
]


def tuner_of(
    folder: Path,
    *,
    codes: int = 3,
    judges: int = 3,
    versions: int = 2,
    n_items: int = 60,
    words: bool = False,
    people: int = 2,
    criteria: int = 3,
) -> ek.RubricTuner:
    """A tuner on code reviews that has judged its items with several versions; nothing in it is random."""
    rows = []
    for at in range(n_items):
        diff = DIFF + "".join(f" line {line} of the file\n" for line in range(4 * (at % 5)))
        rows.append(
            {"item_id": f"CR-{1001 + at}", "comment": TEXTS[at % len(TEXTS)], "diff": diff, "team": f"t{at % 3}"}
        )
    names = WORDS[:codes] if words else [str(code) for code in range(codes)]
    level = {"level": "nominal", "pass_if": names[codes // 2 :]} if words else {"pass_at": names[codes // 2]}
    made = [
        {
            "name": name,
            "description": text,
            "scale": {code: f"what {code} means, in some words" for code in names},
            **level,
        }
        for name, text in [
            ("correct", "Is what the comment says true of the changed lines? Compare with the diff."),
            ("actionable", "Does the author know what to do next after reading the comment?"),
            ("tone", "Would you want to receive this comment?"),
        ][:criteria]
    ]
    rubric = ek.Rubric(id="review", description="A comment on a diff.", inputs=["diff", "comment"], criteria=made)

    def judge(number: int) -> ek.Judge:
        def reply(prompt: Any) -> str:
            draft = sum(map(ord, "".join(prompt.texts))) // 7
            at = (sum(map(ord, prompt.inputs["comment"] + prompt.inputs["diff"])) + draft * (number + 1)) % codes
            key = "label" if words else "score"
            return json.dumps(
                {
                    "explanation": "It is so, because the cause is named and the line is given.",
                    key: names[at] if words else at,
                }
            )

        return ek.Judge.function(reply, name=f"provider:judge-{number}", version="1")

    labels = pd.DataFrame(
        [
            {
                "item_id": row["item_id"],
                "criterion": criterion["name"],
                "annotator": ["Anna", "Ben", "Chris", "Dana", "Eve"][who],
                "label": names[(at + who) % codes],
            }
            for at, row in enumerate(rows)
            for criterion in made
            for who in range(people)
            if (at + who) % 7
        ]
    )
    tuner = ek.RubricTuner(
        rows,
        rubric,
        [judge(number) for number in range(judges)],
        labels,
        samples=3,
        folder=folder,
        cache=folder / "cache",
    )
    for version in range(versions):
        if version:
            tuner.edit("correct", scale={names[0] if words else int(names[0]): f"edited {version} times"})
        tuner.run()
    tuner.wait_idle(60)
    return tuner


class Screen:
    """A page with the tuner in it. What is pressed reaches Python at once; `settle` brings the answer."""

    def __init__(self, page: Any, tuner: Any) -> None:
        self.page, self.tuner, self._sent = page, tuner, dict[str, str]()
        page.set_content(PAGE)
        page.expose_function("toPython", lambda text: tuner.receive(json.loads(text)))
        widget = tuner.widget
        page.evaluate(START, [str(widget._esm), str(widget._css), self._changes()])

    def _changes(self) -> dict[str, Any]:
        changed = {}
        for name, value in self.tuner.state.items():
            text = json.dumps(value, default=str)
            if self._sent.get(name) != text:
                self._sent[name], changed[name] = text, json.loads(text)
        return changed

    def settle(self) -> None:
        """Wait until Python is idle, and draw what it changed."""
        self.page.wait_for_timeout(80)
        self.tuner.wait_idle(60)
        self.page.evaluate("(changed) => window.fromPython(changed)", self._changes())

    def resize(self, width: int, height: int = 0) -> None:
        """Make the window so wide that the tuner has this width."""
        self.page.set_viewport_size({"width": width + 16, "height": height or (720 if width < 1400 else 1080)})
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def findings(self) -> dict[str, Any]:
        return self.page.evaluate(FINDINGS, {"axe": False})

    def sweep(self, widths: Sequence[int] = WIDTHS) -> Iterator[tuple[int, dict[str, Any]]]:
        """Width -> what is wrong there."""
        for width in widths:
            self.resize(width)
            yield width, self.findings()


def main(folder: Path | None) -> int:
    import tempfile

    from labs import running_browser

    n_wrong = n_points = 0
    with running_browser() as browser:
        for codes, judges, words, versions in [
            (3, 3, False, 2),
            (2, 1, False, 3),
            (5, 2, False, 10),
            (9, 6, True, 10),
            (9, 6, False, 4),
            (7, 4, True, 5),
        ]:
            with tempfile.TemporaryDirectory() as place:
                tuner = tuner_of(
                    Path(place), codes=codes, judges=judges, words=words, versions=versions, people=1 + judges % 5
                )
                page = browser.new_page(color_scheme="dark" if judges % 2 else "light")
                screen = Screen(page, tuner)
                for state in ("closed", "open"):
                    if state == "open":
                        page.locator("tr[data-id]").first.click()
                        screen.settle()
                    for width, found in screen.sweep():
                        n_points += found["points"]
                        if found["findings"]:
                            n_wrong += 1
                            print(
                                codes,
                                judges,
                                words,
                                state,
                                width,
                                len(found["findings"]),
                                *found["findings"][:5],
                                sep="\n   ",
                            )
                        if folder is not None and width in (700, 860, 1020, 1260, 1420, 1900, 2560):
                            page.screenshot(path=folder / f"{codes}-{judges}-{'words-' * words}{state}-{width}.png")
                page.close()
    print(f"{n_points} points, widths with findings: {n_wrong}")
    return int(n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
