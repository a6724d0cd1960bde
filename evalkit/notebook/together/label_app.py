"""The marimo app that `evalkit label` serves: the page of the person who opened it."""

import marimo

app = marimo.App(width="full", app_title="Labels")


@app.cell
def _():  # type: ignore[no-untyped-def]  # as marimo writes a cell
    import marimo as mo

    from evalkit.notebook.together.label_server import page_of

    page_of(mo.app_meta().request)
    return
