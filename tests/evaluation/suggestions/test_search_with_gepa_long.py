"""The library gepa searches for a wording with `judge` and `align` as its metric, as docs/improving.md shows."""

from __future__ import annotations

import contextlib
import io
import json
import types
from collections.abc import Iterator
from typing import Any

import pytest
from page_blocks import blocks_of
from places import ROOT

import evalkit as ek
from evalkit.stats.alignment.label_splits import held_out_looks

pytest.importorskip("gepa")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The names of the page after its blocks ran; each printed what the page says."""
    module: Any = types.ModuleType("page")
    with pytest.MonkeyPatch.context() as patch:
        module.cache = tmp_path_factory.mktemp("cache")
        patch.setenv("EVALKIT_CACHE", str(module.cache))
        for block in blocks_of((ROOT / "docs" / "improving.md").read_text(encoding="utf-8")):
            if block.words[:1] == ("python",):
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(block.body, vars(module))
                assert block.output in (None, printed.getvalue())
        yield module


def test_gepa_finds_the_wording_and_the_held_out_labels_confirm_it(page: Any) -> None:
    assert "minor slips" in page.found.best_candidate["level 1"]
    assert page.found.val_aggregate_scores[page.found.best_idx] == 1.0
    looks = held_out_looks(page.cache)
    assert looks["n_looks"].sum() == 2  # the suggested edit's and this one's; the search took none


def test_an_item_without_a_verdict_is_not_right(page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(prompt: Any) -> str:
        number = int(prompt.inputs["answer"].split()[1])
        return json.dumps({"score": int(number % 3 != 1)}) if number % 2 else "I cannot say."

    monkeypatch.setattr(page, "judge", ek.Judge.function(ask, name="half mute", version="1"))
    mute, spoken = ["i0", "i2"], ["i1", "i3", "i4"]  # of the second, two of three are right
    monkeypatch.setattr(page, "dev", page.people[page.people["item_id"].isin([*mute, *spoken])])
    scores = page.Agreement().evaluate([mute, spoken], {"level 1": "right"}).scores
    assert scores == [0.0, pytest.approx(2 / 3)]
