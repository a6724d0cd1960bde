"""The three anywidgets. Their scripts and styles are files of this package; nothing comes from a network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets

_STATIC = Path(__file__).parent / "static"


def _joined(kind: str, *names: str) -> str:
    """Several files as one text: an anywidget is one module and cannot import the files beside it."""
    return "\n".join((_STATIC / f"{name}.{kind}").read_text(encoding="utf-8") for name in names)


def _widget(
    name: str,
    *,
    scripts: Sequence[str],
    styles: Sequence[str],
    dicts: Sequence[str],
    lists: Sequence[str] = (),
    texts: Sequence[str] = ("alert",),
) -> Any:
    """A class of widgets with these files, which draw the traits of these names and send what the user does."""
    kinds: dict[Any, Sequence[str]] = {traitlets.Dict: dicts, traitlets.List: lists, traitlets.Unicode: texts}
    traits = {trait: kind().tag(sync=True) for kind, names in kinds.items() for trait in names}
    files = {"_esm": _joined("js", *scripts), "_css": _joined("css", *styles)}
    return type(name, (anywidget.AnyWidget,), {"__module__": __name__, **files, **traits})


TunerWidget = _widget(
    "TunerWidget",
    scripts=("texts", "widget", "figures", "items", "editor", "runs", "queue", "start", "tuner"),
    styles=("tuner",),
    dicts=("card", "draft", "jury", "figures", "page", "item", "suggestions", "queue", "status"),
    lists=("notices",),
    texts=("price", "alert", "code"),
)
"""The screen of `RubricTuner`, `StartCard` and `JudgmentBrowser`."""

RunWidget = _widget(
    "RunWidget",
    scripts=("texts", "widget", "wizard", "runview"),
    styles=("tuner", "runs"),
    dicts=("form", "choices", "check", "runs", "progress", "run", "page", "sample"),
)
"""The screen of `RunWizard` and `RunView`."""

LabelWidget = _widget(
    "LabelWidget", scripts=("texts", "widget", "items", "label"), styles=("tuner", "label"), dicts=("form",)
)
"""The screen of `LabelPage`."""
