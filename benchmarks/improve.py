"""How often `improve` keeps a change: where nothing helps, over repeated sessions, and where one sentence helps.

    .venv-test/bin/python benchmarks/improve.py [SIMULATED [WHOLE [PROCESSES]]]

Each run has 240 dev and 160 held-out labels and a judge that is wrong on a fifth of the items. In each of two rounds
two wordings are tried on the dev labels; what the dev labels chose meets the held-out ones.

- nothing helps: a wording fixes 5 % of the items and breaks 5 %, at random. Each run has ten sessions with other
  wordings on the same labels, and counts as kept if one of them is. Limit: 65 of 1,000.
- the same in clusters of four items, half of which change as a whole. Limit: the same.
- the same, all clusters change as a whole: breaks come in larger numbers than fixes, and sign flips are no longer
  exact. No limit: it shows how far off they are.
- one sentence helps: one wording fixes 12 % of the items and breaks 2 %. One session. Limit: 90 %.

SIMULATED runs (1,000) draw the verdicts and use the log and the test of `improve`; WHOLE runs (30) call `improve` with
judges that are Python functions, four sessions each. It prints a line per setting; the exit code is 1 if a limit of the
simulated runs is missed.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import evalkit as ek
from evalkit.evaluation.suggestions.improving import CLEARLY
from evalkit.stats.alignment.held_out_log import ItemSet
from evalkit.stats.alignment.held_out_tests import HeldOutLog, alpha_of, flip_p
from evalkit.stats.alignment.label_splits import HELD_OUT_SHARE

N_DEV, N_HELD, ROUNDS = 240, 160, 2
NULL, HELPS = (0.25, 0.0625), (0.6, 0.025)
"""The shares of wrong items that a wording fixes, and of right ones that it breaks."""

RUBRIC = ek.Rubric(
    id="simulated",
    inputs=["answer"],
    criteria=[{"name": "c", "description": "Is it so?", "scale": {0: "no", 1: "yes"}, "pass_at": 1}],
)


class Setting(NamedTuple):
    """Items per cluster, the share of clusters that change as a whole, whether a sentence helps, and the limit."""

    size: int
    shared: float
    helps: bool
    limit: float | None


SETTINGS = {
    "nothing helps": Setting(1, 0.0, False, 0.065),
    "nothing helps, clusters": Setting(4, 0.5, False, 0.065),
    "nothing helps, whole clusters": Setting(4, 1.0, False, None),
    "one sentence helps": Setting(1, 0.0, True, 0.9),
}


def simulated(run: int, setting: Setting) -> tuple[bool, bool]:
    """Whether a session of the run kept a change, and whether a look was taken; verdicts are drawn."""
    draw, n = np.random.default_rng(run), N_DEV + N_HELD
    start, cluster = draw.random(n) < 0.2, np.arange(n) // setting.size
    dev, ids = np.arange(n) < N_DEV, [f"i{at}" for at in range(N_DEV, n)]

    def changed(wrong: Any, *, helps: bool) -> Any:
        whole = (draw.random(n) < setting.shared)[cluster * setting.size]
        chance = np.where(whole, draw.random(n)[cluster * setting.size], draw.random(n))
        fixed, broke = HELPS if helps else NULL
        return np.where(wrong, chance >= fixed, chance < broke)

    def nets(before: Any, after: Any, part: Any) -> Any:
        return np.bincount(cluster[part], weights=(before.astype(int) - after)[part]).astype(np.int64)

    looked = False
    with tempfile.TemporaryDirectory() as folder:
        for session in range(1 if setting.helps else 10):
            best = start
            for number in range(ROUNDS):
                tried = [changed(best, helps=setting.helps and at + number == 0) for at in range(2)]
                other = min(tried, key=lambda wrong: int(wrong[dev].sum()))
                if flip_p(nets(best, other, dev)) <= CLEARLY:
                    best = other
            if best is start:
                continue
            log = HeldOutLog(folder, "c", f"s{session}")
            number, _ = log.look(ItemSet.of("c", ids), f"candidate {session}", {})
            looked = True
            if flip_p(nets(start, best, ~dev)) <= alpha_of(number):
                return True, True
    return False, looked


def number(*parts: object) -> float:
    """A number in 0-1 that follows from the parts."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") / 2**64


def items_of(run: int, size: int) -> pd.DataFrame:
    """Items in groups of this size, as many held out as wanted."""
    ids: dict[bool, list[tuple[str, str]]] = {False: [], True: []}
    at = 0
    while len(ids[False]) < N_DEV or len(ids[True]) < N_HELD:
        group = f"r{run}-{at}"
        place = int.from_bytes(hashlib.sha256(f"group {group}".encode()).digest()[:8], "big") / 2**64
        ids[place >= 1 - HELD_OUT_SHARE] += [(f"{group}-{k}", group) for k in range(size)]
        at += 1
    rows = ids[False][:N_DEV] + ids[True][:N_HELD]
    return pd.DataFrame([{"item_id": name, "group_id": group, "answer": name} for name, group in rows])


def truth(item: str) -> int:
    """What people say."""
    return int(number("truth", item) < 0.6)


def ask(prompt: Any, *, shared: float) -> str:
    """The judge: wrong on a fifth; each word of the wording changes verdicts."""
    item = prompt.inputs["answer"]
    group, wrong = item.rsplit("-", 1)[0], number("wrong", item) < 0.2
    for word in prompt.texts[1].split()[1:]:
        chance = number(word, group if number("whole", word, group) < shared else item)
        fixed, broke = HELPS if word.startswith("helps") else NULL
        wrong = chance >= fixed if wrong else chance < broke
    return json.dumps({"score": truth(item) ^ wrong})


def suggest(prompt: Any, *, session: int, helps: bool) -> str:
    """The judge that suggests: two wordings."""
    now = prompt.texts[1]
    word = f"{number(session, now):.9f}"
    texts = [f"{now} {'helps' * (helps and 'helps' not in now)}{word}a", f"{now} {word}b"]
    edits = [{"criterion": "c", "part": "level", "code": "1", "text": text, "reason": "r"} for text in texts]
    return json.dumps({"edits": edits})


def whole(run: int, setting: Setting) -> tuple[bool, bool]:
    """As `simulated`, by `improve`."""
    items = items_of(run, setting.size)
    said = [str(truth(item)) for item in items["item_id"]]
    labels = pd.DataFrame({"item_id": items["item_id"], "criterion": "c", "annotator": "p", "label": said})
    judge = ek.Judge.function(partial(ask, shared=setting.shared), name="j", version="1")
    looked = False
    with tempfile.TemporaryDirectory() as folder:
        evaluation = ek.evaluate(items, RUBRIC, judge, samples=1, labels=labels, cache=folder, progress=False)
        for session in range(1 if setting.helps else 4):
            ask_for = partial(suggest, session=session, helps=setting.helps)
            helper = ek.Judge.function(ask_for, name=f"h{session}", version="1")
            found = ek.improve(evaluation, judge=helper, rounds=ROUNDS, progress=False)
            looked |= found.look > 0
            if found.outcome == "kept":
                return True, True
    return False, looked


def main() -> int:
    """Run the settings and print a line for each."""
    given = [int(text) for text in sys.argv[1:]]
    n_simulated, n_whole, processes = [*given, *(1000, 30, 2)[len(given) :]]
    failed = False
    for what, setting in SETTINGS.items():
        for how, runs in ((simulated, n_simulated), (whole, n_whole)):
            if not runs:
                continue
            start = time.time()
            with ProcessPoolExecutor(processes) as pool:
                made = list(pool.map(partial(how, setting=setting), range(runs), chunksize=5))
            n, looks = (sum(column) for column in zip(*made, strict=True))
            limit = ""
            if setting.limit is not None and how is simulated:
                good = n >= setting.limit * runs if setting.helps else n <= setting.limit * runs
                failed |= not good
                limit = f" ({'at least' if setting.helps else 'at most'} {setting.limit:.1%})"
            print(
                f"{what:<30}{how.__name__:<10} kept {n} of {runs}, {n / runs:.1%}{limit}; looked in {looks}; "
                f"{time.time() - start:.0f} s",
                flush=True,
            )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
