"""`evalkit history`."""

from __future__ import annotations

import argparse
from shutil import get_terminal_size
from textwrap import fill
from typing import TYPE_CHECKING

import evalkit as ek
from evalkit.cli.arguments import Commands, add_command, add_flags
from evalkit.cli.reading_and_printing import put, put_shown
from evalkit.cli.stderr_messages import note
from evalkit.core.printable_text import one_line
from evalkit.errors import counted

if TYPE_CHECKING:
    import pandas as pd

_EXAMPLES = """\
  evalkit history
  evalkit history --cache other-cache -o history.csv"""


def add(commands: Commands) -> None:
    """Its parser."""
    text = "past evaluations: what was judged, when, by what, with which figures"
    parser = add_command(commands, "history", _history, text, _EXAMPLES)
    add_flags(parser, "cache")
    parser.add_output()


def _history(args: argparse.Namespace) -> None:
    from evalkit.core.formatting import money
    from evalkit.evaluation.evaluation_log import AGREEMENT, SUMMARY

    table = ek.history(args.cache)
    if args.json or args.out is not None:
        put(args, table.assign(time=table["time"].map(lambda moment: moment.isoformat(timespec="seconds"))))
        return
    is_job = table["items"].isna()
    evaluations = list(table[~is_job].groupby("evaluation", sort=False))
    for _, rows in evaluations[: args.rows]:
        print(_what(rows))
        put_shown(rows[["criterion", *SUMMARY, "disagreement"]])
        labelled = rows[rows["n_compared"].notna()]
        if len(labelled):
            print("against the labels:")
            put_shown(labelled[["criterion", *AGREEMENT, "n_compared"]])
        print()
    total_usd, others_usd = table["paid_usd"].sum(), table.loc[is_job, "paid_usd"].sum()
    if total_usd:
        paid = f"{money(total_usd)}, of which {money(others_usd)} outside of evaluations"
        print(f"paid for all replies in the cache: {paid}")
    shown = min(args.rows, len(evaluations))
    opening = "; ek.evaluation.open_evaluation(ID, items) opens one" if shown else ""
    note(args, f"{shown} of {counted(len(evaluations), 'evaluation')}{opening}")


def _what(rows: pd.DataFrame) -> str:
    """What was judged, when, by what and at what cost."""
    from evalkit.core.formatting import money

    row, sums = rows.iloc[0], rows[["cost_usd", "paid_usd"]].sum(skipna=False)
    parts = [
        row["evaluation"], f"{row['time']:%Y-%m-%d %H:%M} UTC", f"{row['rubric']}@{row['rubric_version']}",
        f"{row['judges']}, {counted(row['samples'], 'sample')}", f"template {row['template']}", row["rules"],
        f"cost {money(sums['cost_usd'])}, of which {money(sums['paid_usd'])} paid then",
    ]  # fmt: skip
    return fill(one_line(" · ".join(parts)), get_terminal_size((100, 24)).columns, subsequent_indent="  ")
