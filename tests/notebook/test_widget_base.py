"""Widgets of evalkit in the layouts of ipywidgets."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

import evalkit as ek
from evalkit.notebook.widget_base import NotebookWidget

ipywidgets = pytest.importorskip("ipywidgets")
pytest.importorskip("anywidget")


@pytest.mark.long
def test_evalkits_widgets_stand_wherever_ipywidgets_takes_a_widget(tmp_path: Path) -> None:
    items, labels = ek.load_example("facts")
    evaluation = ek.evaluate(items, "correctness", "fake:strict", samples=1, cache=tmp_path)
    widgets: list[Any] = [
        ek.RubricTuner(items, "correctness", ["fake:strict"], labels, folder=tmp_path),
        ek.notebook.JudgmentBrowser(evaluation),
        ek.start(items),
    ]
    layouts = [
        lambda *ones: ipywidgets.VBox(ones),
        lambda *ones: ipywidgets.HBox(list(ones)),
        lambda *ones: ipywidgets.Tab(ones, titles=["a", "b", "c"]),
        lambda *ones: ipywidgets.Accordion(children=ones),
        lambda *ones: ipywidgets.AppLayout(left_sidebar=ones[0], center=ones[1], right_sidebar=ones[2]),
        lambda *ones: ipywidgets.VBox([ipywidgets.Tab([one]) for one in ones]),
    ]
    ids = [f"IPY_MODEL_{one.widget.model_id}" for one in widgets]
    for layout in layouts[:-1]:
        assert sorted(layout(*widgets).get_state("children")["children"]) == sorted(ids)
    tabs = layouts[-1](*widgets).children
    assert [tab.get_state("children")["children"] for tab in tabs] == [[one] for one in ids]
    assert [tab.children[0] for tab in tabs] == widgets
    for one in widgets:
        assert isinstance(one, (ipywidgets.Widget, ipywidgets.DOMWidget))
        assert isinstance(one, NotebookWidget)
        assert isinstance(one, type(one))
        one.layout.width = "50%"
        assert (one.widget.layout.width, one.model_id) == ("50%", one.widget.model_id)
        seen: list[Any] = []
        one.observe(seen.append, "alert")
        one.widget.alert = "changed"
        assert [change["new"] for change in seen] == ["changed"]
        # what was missing stays missing: neither the parts of a screen nor private names
        for name in ("notices", "nonsense", "_esm", "_repr_png_"):
            with pytest.raises(AttributeError, match=f"{type(one).__name__} has no attribute '{name}'"):
                getattr(one, name)
        with pytest.raises(TypeError, match="cannot be set"):
            one.__class__ = dict
        assert repr(one).splitlines()[0] == repr(copy.copy(one)).splitlines()[0]
    picked: Any = ipywidgets.interactive(lambda number: widgets[number], number=(0, 2))
    picked.children[0].value = 2
    assert picked.result is widgets[2]
