"""The whole path on real recorded replies: record, replay offline, vote, align, against published figures."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import topical_chat
from recorded import data_folder, loaded, rows

DATA = data_folder()
PROMPTS = [
    f"{criterion}/{prompt}"
    for criterion in ("naturalness", "engagingness")
    for prompt in (
        "geval",
        "geval_no_auto_cot",
        "llm_eval_no_cot",
        "rate_explain",
        "rate_explain_auto_cot",
        "analyze_rate",
        "analyze_rate_auto_cot",
    )
]


@pytest.mark.skipif(DATA is None, reason="no recorded data: set EVALKIT_DATA to its folder")
@pytest.mark.parametrize("prompt", PROMPTS)
def test_correlations_equal_the_published_ones(prompt: str) -> None:
    assert DATA is not None
    items = {row["item_id"]: row | {"answer": row["system_output"]} for row in rows(DATA, "topicalchat_items")}
    recorded = rows(DATA, f"topicalchat_gpt35_{prompt.split('/')[0]}")
    replies = [row for row in recorded if row["prompt_id"] == prompt]
    parsed = loaded(DATA, "topicalchat_ref_parsed.json.gz")[prompt]
    reference = loaded(DATA, "reference.json")["topicalchat_gpt35"]["values"][prompt]

    variant = topical_chat.replay(prompt, replies, items, parsed)

    assert len(variant.own) == 20 * len(replies)
    assert set(variant.own["source"]) == {"recorded"}
    n_figures = 0
    for name, k, rule, published in topical_chat.expected(reference):
        found = topical_chat.figures(variant, variant.authors[variant.authors["sample"] < k], **rule)
        assert found == pytest.approx(published, abs=1e-6), name
        n_figures += len(published)
    assert n_figures == 2 * 6 + 5 * 4 * 6
    assert len(topical_chat.readings(variant)) <= 0.02 * len(variant.own)
