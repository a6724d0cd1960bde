"""A budget of half the cost is never exceeded, by the server's own bill; with faults and without.

Needs the stub server (see `stub.py`).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from stub import RUBRIC, Checks, control, needed_folder, rows, stub_server

import evalkit as ek

N_ITEMS, SAMPLES = 300, 3
PRICE = (0.15, 0.6)
FAULTS = {"p500": 0.03, "preset": 0.02, "pmalformed": 0.02, "retry_after": "0.1", "p429": 0.03}


def bill(base: str, cache: str, items: list[dict[str, object]], budget_usd: float | None) -> tuple[float, object]:
    """What the server bills for a run, and the table."""
    control(base, "/_reset", {})
    judge = ek.Judge("openai", "gpt-4o-mini", base_url=f"{base}/v1", price=PRICE, max_tokens=60)
    table = ek.judge(
        items, RUBRIC, judge, samples=SAMPLES, item_id="id", cache=cache, budget_usd=budget_usd, progress=False
    )
    return control(base, "/_stats")["usd"], table


def main() -> int:
    """The whole, then half of it."""
    folder, checks = needed_folder(), Checks()
    items = rows(folder, N_ITEMS)
    for name, faults in (("no faults", {}), ("faults", FAULTS)):
        with stub_server(folder, latency_ms=20, price_in=PRICE[0], price_out=PRICE[1], **faults) as base:
            with tempfile.TemporaryDirectory() as cache:
                whole, _ = bill(base, cache, items, None)
                ek.engine.ReplyStore.open(cache).close()
            with tempfile.TemporaryDirectory() as cache:
                half, table = bill(base, cache, items, whole / 2)
                rest, _ = bill(base, cache, items, None)
                ek.engine.ReplyStore.open(cache).close()
        left = int((table["error"] == "budget").sum())
        print(f"\n{name}: all for US$ {whole:.5f}; budget {whole / 2:.5f}: {left} of {len(table)} left out")
        checks.true("the bill is within the budget", half <= whole / 2, f"US$ {half:.5f}")
        checks.true("and uses most of it", half >= 0.6 * whole / 2, f"{half / (whole / 2):.0%}")
        checks.true("every other row says why", set(table["error"].dropna()) == {"budget"}, left)
        checks.true("the rest is paid once", rest + half <= whole * 1.1, f"US$ {rest:.5f}")
    return int(not checks.met)


if __name__ == "__main__":
    sys.exit(main())
