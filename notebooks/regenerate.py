"""Run notebooks and store their outputs, without what differs from run to run and from machine to machine.

    .venv-test/bin/python notebooks/regenerate.py          # all of them
    .venv-test/bin/python notebooks/regenerate.py 01 06    # those whose names begin with 01 or 06

A notebook is stored only if all of its cells succeed. Its kernel starts with an empty cache and without any variable of
evalkit. Stored are printed texts and the text and HTML of results; warnings, progress bars, the state of widgets, timings,
times of execution, and facts about the kernel are removed.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
SHOWN = ("text/html", "text/plain")
REPLACED = (
    (re.compile(r"\b20\d{6}-\d{6}-[0-9a-f]{6}\b"), "20260131-120000-000000"),  # ids of runs
    (re.compile(r"\bin \d+(\.\d+)? s\b"), "in … s"),
    (re.compile(rf"{re.escape(tempfile.gettempdir())}/[\w.-]+/"), ""),
    (re.compile(re.escape(f"{FOLDER.parent}/")), ""),
)


def main(prefixes: list[str]) -> None:
    """Run the notebooks whose names begin with one of the prefixes; without prefixes, all."""
    for file in sorted(FOLDER.glob("*.ipynb")):
        if file.name.startswith(tuple(prefixes) or ""):
            print(file.name, flush=True)
            regenerate(file)


def regenerate(file: Path) -> None:
    """Run one notebook and store it; CellExecutionError if a cell fails."""
    notebook = nbformat.read(file, as_version=4)
    own = {name: value for name, value in os.environ.items() if not name.startswith("EVALKIT_")}
    with tempfile.TemporaryDirectory() as cache:
        client = NotebookClient(notebook, timeout=600, store_widget_state=False, record_timing=False)
        client.execute(cwd=str(FOLDER), env=own | {"EVALKIT_CACHE": cache})
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = joined([clean(output) for output in cell.outputs if is_stored(output)])
    nbformat.write(notebook, file)


def is_stored(output: nbformat.NotebookNode) -> bool:
    """Whether an output is neither a warning nor a progress bar: a widget's view without HTML."""
    data = output.get("data", {})
    return output.get("name") != "stderr" and (
        "application/vnd.jupyter.widget-view+json" not in data or SHOWN[0] in data
    )


def joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """The outputs with texts that were printed one after another in one piece, however they arrived."""
    kept: list[nbformat.NotebookNode] = []
    for output in outputs:
        if kept and output.output_type == kept[-1].output_type == "stream":
            kept[-1].text += output.text
        else:
            kept.append(output)
    return kept


def clean(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """An output of a cell without timings, ids of runs, paths and views that need a kernel."""
    if output.output_type == "stream":
        output.text = plain(output.text)
    elif "data" in output:
        output.data = {kind: plain(output.data[kind]) for kind in SHOWN if kind in output.data}
        output.metadata = {}
    return output


def plain(text: str) -> str:
    """The text with the same ids, timings and paths in every run."""
    for pattern, replacement in REPLACED:
        text = pattern.sub(replacement, text)
    return text


if __name__ == "__main__":
    main(sys.argv[1:])
