"""The tuner's screen in Chromium without a notebook: its script, its style, and a live `RubricTuner` behind them.

As a program, ``python tests/support/tuner_screen.py N [FOLDER]`` tries N combinations of codes and juries, of 96, light
and dark, and prints what overlaps, is cut or cannot be hit; with a folder it writes pictures there.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from axe import findings

import evalkit as ek

ROOM = [848, 1008, 1078, 1108, 1238, 1488, 1696, 2128]
"""Widths that hosts leave: JupyterLab beside its file browser, Notebook 7, marimo."""

WIDTHS = sorted({*range(700, 2561, 80), *ROOM, 2560})
THEMES = ("light", "dark")

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Tuner</title><style>
html{color-scheme:light dark}body{margin:0;padding:8px;background:light-dark(#fffffe,#16181c)}</style></head>
<body><main id="host"></main></body></html>"""

START = """async ([script, style, state]) => {
    const sheet = document.createElement('style');
    sheet.textContent = style;
    document.head.append(sheet);
    const module = await import(URL.createObjectURL(new Blob([script], { type: 'text/javascript' })));
    const heard = new Map();
    window.model = {
        get: (name) => state[name], off: () => {},
        on: (event, call) => heard.set(event, [...(heard.get(event) || []), call]),
        send: (message) => window.toPython(JSON.stringify(message)),
    };
    window.fromPython = (changed) => {
        Object.assign(state, changed);
        Object.keys(changed).forEach((name) => (heard.get(`change:${name}`) || []).forEach((call) => call()));
    };
    module.default.render({ model: window.model, el: document.getElementById('host') });
}"""

FINDINGS = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")

TEXTS = [
    ("Anyone can call /admin/export: the other admin routes have @requires('admin') and this one does not. "
    "Since dump_all() contains e-mail addresses, this should block the merge."),
    "Please improve this.",
    ("The new column is NOT NULL without a default, so this migration fails on any table that already has rows. "
    "Add it nullable, backfill in batches, then set the constraint in a second migration."),
    "Floats? Timezones are hard.\n\n```python\nfor order in orders:\n    total += order.price\n```\nSum decimals.",
]  # fmt: skip
DIFF = """@@ -3,4 +3,9 @@
 CREATE INDEX orders_by_day ON orders (created_on);
+ALTER TABLE orders ADD COLUMN state text NOT NULL;
-ALTER TABLE orders DROP COLUMN is_open;
"""
WORDS = [
    "unusable", "misleading", "incomplete", "passable", "acceptable", "good", "very good", "excellent", "outstanding",
]  # fmt: skip


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
        drawn = version == versions - 1
        (tuner if drawn else tuner.session).run()
    tuner.wait_idle(60)
    return tuner


LONG = {
    "figures": {
        "decision": {
            "sign": "✓", "mark": "better", "verdict": "Cannot tell: label about 40 more items.", "action": "measure",
            "then": "v1.10 may be better than v1.9 (+0.06 [−0.01, 0.14]).",
            "reason": "About 190 labels in all decide in four cases of five if the difference stays as it is, about 55 "
            "minutes at your pace. Held-out labels: not looked at.",
        }
    },
    "status": {
        "plan": "150 items, 3 criteria, 2,646 judgments: 1,764 cached (67%), 882 to call in 294 requests; US$ 0.38",
        "button": "294 requests, about US$ 0.38, over the limit: US$ 0.05 left",
        "paid": "paid: session US$ 2.41, project US$ 9.87",
    },
}  # fmt: skip
"""What the strip holds at most, by trait."""


class Screen:
    """A page with the tuner in it. What is pressed reaches Python at once; `settle` brings the answer.

    `more` is put into the traits, by name.
    """

    def __init__(self, page: Any, tuner: Any, more: Mapping[str, Any] | None = None) -> None:
        self.page, self.tuner, self.more, self._sent = page, tuner, more or {}, dict[str, str]()
        page.set_content(PAGE)
        page.expose_function("toPython", lambda text: tuner.receive(json.loads(text)))
        widget = tuner.widget
        page.evaluate(START, [str(widget._esm), str(widget._css), self._changes()])

    def _changes(self) -> dict[str, Any]:
        changed = {}
        for name, value in self.tuner.state.items():
            value = {**value, **self.more[name]} if name in self.more else value
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
        """What is wrong at this width, the height of the strip, the width of the texts, the points that were hit."""
        found: dict[str, Any] = self.page.evaluate(FINDINGS)
        return found

    def sweep(self, widths: Sequence[int] = WIDTHS) -> Iterator[tuple[int, dict[str, Any]]]:
        """Width -> what is wrong there."""
        for width in widths:
            self.resize(width)
            yield width, self.findings()


def sample(browser: Any, n: int, pictures: Path | None = None) -> Iterator[tuple[str, list[str], int]]:
    """What is wrong in `n` of all combinations of 2-9 codes, numbers or words, and 1-6 judges, in a fixed order.

    Each combination is drawn light and dark, without and with an open item, at two widths; axe-core looks at it closed
    in one theme and open in the other, which change from combination to combination. The people, versions and criteria
    are drawn too. Yields the state, what is wrong, and how many points were hit.
    """
    dice = random.Random(41)
    combinations = [
        (codes, words, judges) for codes in range(2, 10) for words in (False, True) for judges in range(1, 7)
    ]
    for at, (codes, words, judges) in enumerate(dice.sample(combinations, n)):
        looked_at = {("closed", THEMES[at % 2]), ("open", THEMES[1 - at % 2])}
        rest = {"versions": dice.choice([1, 2, 3, 6, 10]), "people": dice.randint(1, 5), "criteria": dice.randint(1, 3)}
        page = browser.new_page(reduced_motion="reduce")
        errors: list[str] = []
        page.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
        with tempfile.TemporaryDirectory() as folder:
            tuner = tuner_of(Path(folder), codes=codes, words=words, judges=judges, n_items=12, **rest)
            screen = Screen(page, tuner, dice.choice([None, LONG]))
            for state, theme in itertools.product(("closed", "open"), THEMES):
                if state == "open" and theme == "light":
                    page.locator("tr[data-id]").nth(dice.randrange(5)).click()
                    screen.settle()
                page.emulate_media(color_scheme=theme)
                widths = dice.sample(WIDTHS, 2)
                for width, found in screen.sweep(widths):
                    about = (
                        f"{codes} {'words' if words else 'numbers'}, {judges} judges, {rest}, {state}, {theme}, {width}"
                    )
                    axe = (state, theme) in looked_at and width == widths[0]
                    wrong = [*found["findings"], *errors, *(findings(page) if axe else ())]
                    yield about, wrong, found["points"]
                    if pictures is not None:
                        page.screenshot(
                            path=pictures / f"{codes}-{judges}-{'words-' * words}{state}-{theme}-{width}.png"
                        )
        page.close()


def main(n: int, pictures: Path | None) -> int:
    from labs import running_browser

    n_wrong = n_points = 0
    with running_browser() as browser:
        for about, wrong, points in sample(browser, n, pictures):
            n_points += points
            n_wrong += bool(wrong)
            if wrong:
                print(about, *wrong[:5], sep=" | ")
    print(f"{n_points} points, states with findings: {n_wrong}")
    return int(n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None))
