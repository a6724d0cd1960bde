"""Run notebooks and store their outputs, without what differs from run to run and from machine to machine.

    .venv-test/bin/python notebooks/regenerate.py          # all of them
    .venv-test/bin/python notebooks/regenerate.py 01 06    # those whose names begin with 01 or 06

A notebook is stored only if all of its cells succeed. Its kernel starts with an empty cache, without any variable of
evalkit, and imports evalkit from this checkout. Stored is what nbval compares (warnings on stderr as well), after the
replacements of sanitize.cfg, those of the sections "compared …" aside; views of widgets and facts about the kernel are
removed.
"""

from __future__ import annotations

import configparser
import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
VIEW = "application/vnd.jupyter.widget-view+json"


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
    own["PYTHONPATH"] = os.pathsep.join(filter(None, [str(FOLDER.parent), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as cache:
        client = NotebookClient(notebook, timeout=600, store_widget_state=False, record_timing=False)
        client.execute(cwd=str(FOLDER), env=own | {"EVALKIT_CACHE": cache})
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [clean(output) for output in joined(cell.outputs)]
    nbformat.write(notebook, file)


def joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """The outputs with texts that were printed one after another in one piece, however they arrived."""
    kept: list[nbformat.NotebookNode] = []
    for output in outputs:
        if kept and output.output_type == kept[-1].output_type == "stream" and output.name == kept[-1].name:
            kept[-1].text += output.text
        else:
            kept.append(output)
    return kept


def clean(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """An output of a cell without timings, ids of runs, paths and views that need a kernel."""
    if output.output_type == "stream":
        output.text = plain(output.text)
    elif "data" in output:
        output.data = {kind: plain(value) for kind, value in output.data.items() if kind != VIEW}
        output.metadata = {}
    return output


def plain(value: object) -> object:
    """A text with the same ids, timings and paths in every run; other values as they are."""
    if isinstance(value, str):
        for pattern, replacement in replaced():
            value = re.sub(pattern, replacement, value)
    return value


def replaced() -> list[tuple[str, str]]:
    """What is replaced in stored outputs: regex, replacement."""
    rules = configparser.RawConfigParser()
    rules.read(FOLDER / "sanitize.cfg", encoding="utf-8")
    kept = [rules[name] for name in rules.sections() if not name.startswith("compared")]
    return [(rule["regex"], rule["replace"]) for rule in kept]


if __name__ == "__main__":
    main(sys.argv[1:])
