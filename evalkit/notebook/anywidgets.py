"""The three anywidgets. Their scripts and styles are files of this package; nothing comes from a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import traitlets

_STATIC = Path(__file__).parent / "static"


def _joined(kind: str, *names: str) -> str:
    """Several files as one text: an anywidget is one module and cannot import the files beside it."""
    return "\n".join((_STATIC / f"{name}.{kind}").read_text(encoding="utf-8") for name in names)


class TunerWidget(anywidget.AnyWidget):
    """The screen of `RubricTuner`, `StartCard` and `JudgmentBrowser`: draws its traits, sends what the user does."""

    _esm = _joined("js", "texts", "widget", "figures", "items", "editor", "runs", "queue", "start", "tuner")
    _css = _joined("css", "tuner")
    card = traitlets.Dict().tag(sync=True)
    draft = traitlets.Dict().tag(sync=True)
    jury = traitlets.Dict().tag(sync=True)
    figures = traitlets.Dict().tag(sync=True)
    page = traitlets.Dict().tag(sync=True)
    item = traitlets.Dict().tag(sync=True)
    suggestions = traitlets.Dict().tag(sync=True)
    queue = traitlets.Dict().tag(sync=True)
    notices: traitlets.List[Any] = traitlets.List().tag(sync=True)
    price = traitlets.Unicode().tag(sync=True)
    status = traitlets.Dict().tag(sync=True)
    alert = traitlets.Unicode().tag(sync=True)
    code = traitlets.Unicode().tag(sync=True)


class RunWidget(anywidget.AnyWidget):
    """The screen of `RunWizard` and `RunView`: draws its traits, and sends back what the user does."""

    _esm = _joined("js", "texts", "widget", "wizard", "runview")
    _css = _joined("css", "tuner", "runs")
    form = traitlets.Dict().tag(sync=True)
    choices = traitlets.Dict().tag(sync=True)
    check = traitlets.Dict().tag(sync=True)
    runs = traitlets.Dict().tag(sync=True)
    progress = traitlets.Dict().tag(sync=True)
    run = traitlets.Dict().tag(sync=True)
    page = traitlets.Dict().tag(sync=True)
    sample = traitlets.Dict().tag(sync=True)
    alert = traitlets.Unicode().tag(sync=True)


class LabelWidget(anywidget.AnyWidget):
    """The screen of `LabelPage`: draws its traits, sends what the person does."""

    _esm = _joined("js", "texts", "widget", "items", "label")
    _css = _joined("css", "tuner", "label")
    form = traitlets.Dict().tag(sync=True)
    alert = traitlets.Unicode().tag(sync=True)
