"""What an evaluation shows of itself: the same figures as text and as HTML."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd

from evalkit.evaluation.figures import count_of, figure, html_page, html_table, text_table

if TYPE_CHECKING:
    from evalkit.evaluation.evaluations import Evaluation

__all__ = ["page", "text"]

Rows = list[dict[str, str]]


def text(evaluation: Evaluation, width: int | None = None) -> str:
    """The evaluation on a terminal, of `width` columns if it is given."""
    blocks = [heading(evaluation)]
    for title, rows, note in sections(evaluation):
        blocks.append("\n".join(filter(None, [title, text_table(rows, width=width) if rows else "", note])))
    return "\n\n".join(blocks)


def page(evaluation: Evaluation) -> str:
    """The evaluation in a notebook."""
    parts = [f"<p>{html.escape(heading(evaluation))}</p>", _tiles(evaluation)]
    for title, rows, note in sections(evaluation):
        parts.append(f"<h4>{html.escape(title)}</h4>{html_table(rows) if rows else ''}")
        if note:
            parts.append(f"<p class='note'>{html.escape(note)}</p>")
    return html_page(parts)


def heading(evaluation: Evaluation) -> str:
    """One line: rubric, number of items, judges and samples."""
    spec = evaluation.spec
    judges = ", ".join(judge.name for judge in spec.judges)
    unique = "" if evaluation.n_unique == len(evaluation.items) else f" ({evaluation.n_unique} that differ)"
    line = (
        f"{spec.rubric.id}@{spec.rubric.label}: {len(evaluation.items)} items{unique}, "
        f"judged by {judges}, {spec.samples} {'sample' if spec.samples == 1 else 'samples'} each"
    )
    stand_ins = [judge.name for judge in spec.judges if not judge.is_llm]
    return line + ("\n(fake judges are evalkit's embedded stand-in, not an LLM)" if stand_ins else "")


def sections(evaluation: Evaluation) -> Iterator[tuple[str, Rows, str]]:
    """Title, rows and note of each part."""
    yield (
        "Scores",
        _scores(evaluation.summary),
        "95 % intervals; unscored items are left out of means, not counted as bad",
    )
    yield "Judges among themselves", *_reliability(evaluation)
    if evaluation.alignment is not None:
        yield "Judges against people", _alignment(evaluation.alignment), _ceiling(evaluation.alignment)
    unscored = int(evaluation.judgments["error"].notna().sum())
    hint = f"{unscored} judgments unscored: ek.explain(evaluation.judgments) says why" if unscored else ""
    yield f"Cost: {evaluation.cost}", [], hint


def _scores(summary: pd.DataFrame) -> Rows:
    return [
        {
            "criterion": str(row["criterion"]),
            "mean": figure(row["mean"], row["low"], row["high"]),
            "on 0-1": figure(row["mean_norm"], row["norm_low"], row["norm_high"]),
            "if unscored were bad / good": f"{figure(row['worst'])} / {figure(row['best'])}",
            "pass rate": figure(row["pass_rate"], row["pass_low"], row["pass_high"]),
            "scored": count_of(row["n_scored"], row["n_items"]),
        }
        for _, row in summary.iterrows()
    ]


def _reliability(evaluation: Evaluation) -> tuple[Rows, str]:
    apart = evaluation.disagreement.groupby("criterion", observed=True, sort=False)["disagreement"]
    rows = []
    for _, row in evaluation.reliability.iterrows():
        criterion = str(row["criterion"])
        one = apart.get_group(criterion) if criterion in apart.groups else pd.Series(dtype=float)
        rows.append(
            {
                "criterion": criterion,
                "alpha": figure(row["alpha_single"], row["alpha_single_low"], row["alpha_single_high"]),
                "percent agreement": figure(
                    row["percent_agreement"], row["percent_agreement_low"], row["percent_agreement_high"]
                ),
                "mean disagreement": figure(one.mean()),
                "items that split": count_of((one > 0).sum(), one.notna().sum()),
            }
        )
    spread = [f"{row['criterion']}: {_spread(row)}" for _, row in evaluation.reliability.iterrows()]
    notes = [f"variance of scores from {'; '.join(spread)}" if len(evaluation.spec.judges) > 1 else ""]
    notes += [str(note) for note in evaluation.reliability["notes"].dropna()]
    return rows, "\n".join(dict.fromkeys(filter(None, notes)))


def _spread(row: Any) -> str:
    """Where the spread of scores comes from, as shares of the whole variance."""
    parts = {
        "items": row["spread_item"],
        "judges": row["spread_judge"],
        "items × judges": row["spread_item_judge"],
        "samples": row["spread_sample"],
    }
    known = {name: float(value) for name, value in parts.items() if not pd.isna(value)}
    whole = sum(known.values())
    if not whole:
        return "NA"
    return ", ".join(f"{name} {value / whole:.0%}" for name, value in known.items())


def _alignment(alignment: pd.DataFrame) -> Rows:
    rows = []
    for _, row in alignment.iterrows():
        shown = {"judge": str(row["judge"]), "criterion": str(row["criterion"])}
        for name, title in (
            ("accuracy", "accuracy"),
            ("kappa", "kappa"),
            ("quadratic_kappa", "quadratic kappa"),
            ("spearman", "Spearman"),
        ):
            shown[title] = figure(row[name], row.get(f"{name}_low"), row.get(f"{name}_high"))
        shown["bias"] = figure(row["bias"])
        shown["compared"] = count_of(row["n_scored"], row["n_labelled"])
        rows.append(shown)
    return rows


def _ceiling(alignment: pd.DataFrame) -> str:
    said = []
    for _, row in alignment.drop_duplicates("criterion").iterrows():
        known = [
            f"{name.replace('_', ' ')} {figure(row[f'{name}_ceiling'])}"
            for name in ("accuracy", "kappa", "quadratic_kappa", "spearman")
            if f"{name}_ceiling" in row and not pd.isna(row[f"{name}_ceiling"])
        ]
        if known:
            said.append(f"{row['criterion']}: {', '.join(known)}")
    return f"people among themselves (the ceiling): {'; '.join(said)}" if said else ""


def _tiles(evaluation: Evaluation) -> str:
    summary = evaluation.summary
    tiles: list[tuple[str, str, str]] = []
    for _, row in summary.iterrows():
        tiles.append(
            (
                figure(row["mean_norm"], row["norm_low"], row["norm_high"]),
                f"{row['criterion']} (0-1)",
                f"{count_of(row['n_scored'], row['n_items'])} scored",
            )
        )
    for _, row in evaluation.reliability.iterrows():
        interval = figure(row["alpha_single"], row["alpha_single_low"], row["alpha_single_high"])
        tiles.append((interval, f"alpha, {row['criterion']}", f"{len(evaluation.spec.judges)} judges"))
    best = _best(evaluation.alignment)
    if best is not None:
        tiles.append(best)
    cells = "".join(
        f"<div class='tile'><b>{html.escape(value)}</b><span>{html.escape(name)}<br>{html.escape(note)}</span></div>"
        for value, name, note in tiles
    )
    return f"<div class='tiles'>{cells}</div>"


def _best(alignment: pd.DataFrame | None) -> tuple[str, str, str] | None:
    if alignment is None or alignment.empty:
        return None
    row: Any = alignment.iloc[-1]
    value = figure(row["accuracy"], row.get("accuracy_low"), row.get("accuracy_high"))
    return value, f"accuracy against people, {row['judge']}", f"{count_of(row['n_scored'], row['n_labelled'])} compared"
