"""Imports and `--help`, against `import pandas`, each in a fresh process, median of interleaved runs."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bars import bar, fresh, interleaved, told

CODE = "import time,json;t=time.perf_counter();{};print(json.dumps({{'s':time.perf_counter()-t}}))"


def timed(statement: str) -> float:
    """Seconds that a statement takes in a fresh interpreter."""
    return fresh(CODE.format(statement))["s"]


def command() -> float:
    """Seconds of `evalkit --help`, start of the interpreter included."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "evalkit", "--help"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


seen = interleaved(
    {
        "import pandas": lambda: timed("import pandas"),
        "import evalkit; evalkit.judge": lambda: timed("import evalkit; evalkit.judge"),
        "import evalkit": lambda: timed("import evalkit"),
    },
    runs=9,
)
helps = interleaved({"evalkit --help": command}, runs=5)
for name, values in (seen | helps).items():
    print(told(name, values))
ratio = statistics.median(seen["import evalkit; evalkit.judge"]) / statistics.median(seen["import pandas"])
met = bar("import evalkit; evalkit.judge, as a multiple of import pandas", ratio, 1.3)
met &= bar("evalkit --help", statistics.median(helps["evalkit --help"]), 0.3, " s")
sys.exit(not met)
