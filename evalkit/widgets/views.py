"""The one widget: an anywidget whose script and style are files of this package; nothing comes from a network."""

from __future__ import annotations

from pathlib import Path

import anywidget
import traitlets

__all__ = ["View"]

_STATIC = Path(__file__).parent / "static"
_SCRIPTS = ("texts", "figures", "items", "editor", "runs", "tuner")


def _script() -> str:
    """The files one after the other: an anywidget is one module, and may import nothing that lies beside it."""
    return "\n".join((_STATIC / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS)


class View(anywidget.AnyWidget):
    """What is on screen; it draws what the traits hold and sends back what a person does."""

    _esm = _script()
    _css = (_STATIC / "tuner.css").read_text(encoding="utf-8")
    draft = traitlets.Dict().tag(sync=True)
    jury = traitlets.Dict().tag(sync=True)
    board = traitlets.Dict().tag(sync=True)
    page = traitlets.Dict().tag(sync=True)
    item = traitlets.Dict().tag(sync=True)
    advice = traitlets.Dict().tag(sync=True)
    status = traitlets.Dict().tag(sync=True)
    alert = traitlets.Unicode().tag(sync=True)
    code = traitlets.Unicode().tag(sync=True)
