"""The widget of wizard and run view: an anywidget whose script and style are files of this package."""

from __future__ import annotations

import anywidget
import traitlets

from evalkit.notebook.widget_base import joined

__all__ = ["RunScreen"]


class RunScreen(anywidget.AnyWidget):
    """What is on screen; it draws what the traits hold and sends back what a person does."""

    _esm = joined("js", "texts", "stage", "wizard", "runview")
    _css = joined("css", "tuner", "runs")
    form = traitlets.Dict().tag(sync=True)
    choices = traitlets.Dict().tag(sync=True)
    check = traitlets.Dict().tag(sync=True)
    runs = traitlets.Dict().tag(sync=True)
    progress = traitlets.Dict().tag(sync=True)
    run = traitlets.Dict().tag(sync=True)
    page = traitlets.Dict().tag(sync=True)
    sample = traitlets.Dict().tag(sync=True)
    alert = traitlets.Unicode().tag(sync=True)
