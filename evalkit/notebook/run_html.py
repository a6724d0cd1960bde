"""A run as static HTML, for exported notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from typing import Any

from evalkit.core.formatting import html_page, html_table, html_tiles
from evalkit.errors import InputError, counted
from evalkit.notebook.run_payload import run_payload
from evalkit.notebook.run_samples import SampleQuery, Samples
from evalkit.runs import Run

__all__ = ["run_page"]

_TASKS, _ROWS = 4, 5
_REASON = 240
_LEFT = ("metric", "also", "judges", "by", "rubric", "template", "rules", "model", "text", "explanations")


def run_page(run: Run, samples: Samples) -> str:
    """Tiles, scores, receipts, judges, and of each task the samples that need review first; all texts are escaped."""
    shown = run_payload(run)
    parts = [f"<h4>{html.escape(shown['title'])}</h4>"]
    parts += [f"<p>{html.escape(text)}</p>" for text in (shown["error"], *shown["notes"]) if text]
    parts.append(html_tiles((tile["value"], tile["title"], tile["note"]) for tile in shown["tiles"]))
    if shown["scores"]:
        parts.append(html_table(map(_score, shown["scores"]), texts=_LEFT, caption="scores"))
    parts += [html_table(one["rows"], texts=_LEFT, caption=one["title"]) for one in shown["tables"]]
    parts += _samples(samples) if run.status == "succeeded" else []
    parts += [f"<p class='note'>{html.escape(name)}: {html.escape(value)}</p>" for name, value in shown["facts"]]
    return html_page(parts)


def _score(score: Mapping[str, Any]) -> dict[str, str]:
    return {
        "task": score["task"],
        "metric": f"{score['metric']} (primary)" if score["primary"] else score["metric"],
        "value": score["value"],
        "standard error": score["spread"],
        "scored": score["scored"],
        "also": score["also"],
    }


def _samples(samples: Samples) -> Iterator[str]:
    try:
        for task in samples.tasks()[:_TASKS]:
            page = samples.page(SampleQuery(task))
            rows = [_row(samples, task, page["columns"], row) for row in page["rows"][:_ROWS]]
            if rows:
                caption = f"{task}: {len(rows)} of {counted(page['n_all'], 'sample')}, those that need review first"
                yield html_table(rows, texts=("sample", *_LEFT), caption=caption)
    except InputError as problem:
        yield f"<p class='note'>no samples are shown: {html.escape(str(problem))}</p>"


def _row(samples: Samples, task: str, columns: list[str], row: Mapping[str, Any]) -> dict[str, str]:
    judges = samples.sample(task, row["number"])["judges"]
    reasons = "; ".join(_reason(judge) for judge in judges) or row["error"]
    explained = {"explanations": reasons} if reasons else {}
    return {"sample": row["id"], **dict(zip(columns, row["figures"], strict=True)), "text": row["text"], **explained}


def _reason(judge: Mapping[str, Any]) -> str:
    """A judge's first explanation, and how many of its samples have a score."""
    text = next((one["explanation"] or one["error"] for one in judge["samples"]), "")
    score = "unscored" if judge["score"] is None else judge["score"]
    samples = "sample" if len(judge["samples"]) == 1 else "samples"
    return f"{judge['judge']} {score} ({judge['scored']} {samples}): {text[:_REASON]}"
