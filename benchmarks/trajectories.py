"""A thousand trajectories of 60 kB whose replies are stored: seconds of computing and memory of judging them again.

``python benchmarks/trajectories.py``; exit 1 above 20 s or 1.5 GB.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import evalkit as ek
from evalkit.errors import EvalkitWarning

N, N_STEPS, MOST_S, MOST_GB = 1000, 20, 20.0, 1.5


def trajectory(number: int) -> dict[str, object]:
    """An agent's log of 60 kB: calls and their results."""
    messages: list[dict[str, object]] = [{"role": "user", "content": f"Find order {number}."}]
    for step in range(N_STEPS):
        key = f"call_{number}_{step}"
        function = {"name": "search", "arguments": json.dumps({"page": step})}
        messages += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": key, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": key, "content": json.dumps({"rows": [f"row {number} {step}"] * 200})},
        ]
    return {"item_id": str(number), "task": "Find the order.", "messages": messages}


def main() -> int:
    """Judge twice and print the figures of the second time, in seconds of computing; 1 if they are above the limits."""
    warnings.simplefilter("ignore", EvalkitWarning)
    size = len(json.dumps(trajectory(0)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "traces.jsonl")
        path.write_text("".join(json.dumps(trajectory(number)) + "\n" for number in range(N)), "utf-8")
        rubric = ek.load_rubric("task_completion").edit(limits={"tool_result": 1000})
        ek.judge(ek.load_items(path), rubric, "fake:strict", samples=1, cache=Path(folder, "cache"))
        started = time.process_time()
        table = ek.judge(ek.load_items(path), rubric, "fake:strict", samples=1, cache=Path(folder, "cache"))
        seconds = time.process_time() - started
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    n_cached = int((table["source"] == "cache").sum())
    print(f"{N} trajectories of {size:,} characters, {n_cached} cached: {seconds:.1f} s, {gigabytes:.2f} GB at most")
    return int(n_cached < N or seconds > MOST_S or gigabytes > MOST_GB)


if __name__ == "__main__":
    sys.exit(main())
