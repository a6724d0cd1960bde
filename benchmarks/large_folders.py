"""Ten million judgments in a folder: every figure, each in a process of its own, within 2 GB."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parent))

from bars import bar

import evalkit as ek
from evalkit.errors import counted
from evalkit.tables import files, schemas

LIMIT_GB = 2.0
N_JUDGMENTS, ROWS = 10_000_000, 5000
SCALE = '{"codes":[0,1,2],"better":"high","pass_at":2}'
TEXT = "Statement {} is supported by the context, as its second sentence says; the other one is not made there."


def write_part(folder: Path, number: int, n_items: int, n_judges: int, samples: int) -> None:
    """Judgments that follow the item's true score 4 times in 5, 2 % of them unscored; a label for one item in two."""
    draw = np.random.default_rng(number)
    each = n_judges * samples
    n = n_items * each
    truth = draw.integers(0, 3, n_items)
    score = np.where(draw.random(n) < 0.8, np.repeat(truth, each), draw.integers(0, 3, n)).astype(float)
    unscored = draw.random(n) < 0.02
    score[unscored] = np.nan
    codes = np.where(unscored, -1, np.nan_to_num(score)).astype(np.int8)
    ids = np.array([f"item-{number * n_items + at}" for at in range(n_items)], dtype=object)

    def constant(text: str) -> pd.Categorical:
        return pd.Categorical.from_codes(np.zeros(n, np.int8), [text])

    judges = np.tile(np.repeat(np.arange(n_judges, dtype=np.int8), samples), n_items)
    passed = pd.arrays.BooleanArray(codes == 2, unscored)
    made = {
        "rubric": constant("r"), "rubric_version": constant("v1"), "item_id": np.repeat(ids, each),
        "criterion": constant("c"), "sample": np.tile(np.arange(samples), n_items * n_judges),
        "judge": pd.Categorical.from_codes(judges, [f"judge-{name}" for name in range(n_judges)]),
        "score": score, "score_norm": score / 2, "label": pd.Categorical.from_codes(codes, ["0", "1", "2"]),
        "passed": passed, "explanation": [TEXT.format(at) for at in range(n)],
        "error": pd.Categorical.from_codes(np.where(unscored, 0, -1), ["unreadable"]), "source": constant("live"),
        "model": constant("m"), "cost_usd": np.full(n, 0.0001), "weight": np.ones(n),
        "key": [f"{value:016x}" * 4 for value in draw.integers(0, 2**63, n)],
        "level": constant("ordinal"), "scale": constant(SCALE),
    }  # fmt: skip
    frame = schemas.table("judgments", made)
    files.write_frame(frame, folder / f"part-{number:06d}.parquet")
    said = pd.DataFrame({"item_id": ids, "criterion": "c", "annotator": "person", "label": truth.astype(str)})
    said[::2].to_parquet(folder / "labels" / f"{number:06d}.parquet")


def fill(folder: Path, n_judges: int, samples: int) -> None:
    """The folder of judgments, unless it is there; labels in a folder inside it."""
    if folder.exists():
        return
    (folder / "labels").mkdir(parents=True)
    for number in range(-(-N_JUDGMENTS // (ROWS * n_judges * samples))):
        write_part(folder, number, ROWS, n_judges, samples)


def labels_of(folder: Path) -> pd.DataFrame:
    """One label for every second item."""
    return pd.concat([pd.read_parquet(path) for path in sorted((folder / "labels").glob("*"))], ignore_index=True)


def evaluation(folder: Path) -> str:
    """An evaluation of all items, as text."""
    ids = pd.concat([pd.read_parquet(path, columns=["item_id"]).drop_duplicates() for path in folder.glob("*.parquet")])
    items = ids.assign(answer="answer " + ids["item_id"])
    return str(ek.Evaluation.of(folder, items, labels_of(folder)))


STEPS = {
    "vote": ek.vote,
    "aggregate": ek.aggregate,
    "disagreement": ek.disagreement,
    "summarize": ek.summarize,
    "reliability": ek.reliability,
    "align": lambda folder: ek.align(folder, labels_of(folder)),
    "Evaluation.of": evaluation,
}


def main() -> int:
    """Each step in a process of its own; ``main FOLDER`` keeps the judgments there for the next time."""
    if len(sys.argv) == 3:
        step, folder = sys.argv[1:]
        STEPS[step](Path(folder))
        used = resource.getrusage(resource.RUSAGE_SELF)
        print(json.dumps({"gb": used.ru_maxrss * 1024 / 1e9, "cpu": used.ru_utime + used.ru_stime}))
        return 0
    met = True
    with tempfile.TemporaryDirectory() as made:
        base = Path(sys.argv[1] if len(sys.argv) > 1 else made)
        for n_judges, samples in ((3, 3), (10, 1)):
            folder = base / f"j{n_judges}k{samples}"
            fill(folder, n_judges, samples)
            print(f"{N_JUDGMENTS:,} judgments: {n_judges} judges, {counted(samples, 'sample')} each")
            for step in STEPS:
                started = time.perf_counter()
                command = [sys.executable, __file__, step, str(folder)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise RuntimeError(done.stderr)
                found = json.loads(done.stdout.splitlines()[-1])
                seconds = time.perf_counter() - started
                met &= bar(f"{step} ({found['cpu']:.0f} s of CPU, {seconds:.0f} s)", found["gb"], LIMIT_GB, " GB")
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
