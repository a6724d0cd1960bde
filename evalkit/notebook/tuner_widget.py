"""The one widget: an anywidget whose script and style are files of this package; nothing comes from a network."""

from __future__ import annotations

import anywidget
import traitlets

from evalkit.notebook.widget_base import joined

__all__ = ["View"]


class View(anywidget.AnyWidget):
    """What is on screen; it draws what the traits hold and sends back what a person does."""

    _esm = joined("js", "texts", "stage", "figures", "items", "editor", "runs", "tuner")
    _css = joined("css", "tuner")
    draft = traitlets.Dict().tag(sync=True)
    jury = traitlets.Dict().tag(sync=True)
    board = traitlets.Dict().tag(sync=True)
    page = traitlets.Dict().tag(sync=True)
    item = traitlets.Dict().tag(sync=True)
    advice = traitlets.Dict().tag(sync=True)
    status = traitlets.Dict().tag(sync=True)
    alert = traitlets.Unicode().tag(sync=True)
    code = traitlets.Unicode().tag(sync=True)
