"""The documentation site: README, pages, notebooks and an API reference. `make docs` builds it into out/docs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import evalkit

project, author, copyright = "evalkit", "the evalkit developers", "the evalkit developers"  # noqa: A001
version = release = evalkit.__version__
root_doc = "README"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
# The source folder is the project's root, so that links between README, pages and notebooks hold here as well.
include_patterns = [
    "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "cache/README.md", "docs/**.md", "notebooks/*.ipynb",
    "evalkit/_data/examples/README.md",
]  # fmt: skip
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
nb_execution_mode = "off"  # the notebooks' outputs are kept in them, and the tests compare them
default_role = "code"
autodoc_member_order = "bysource"
autodoc_default_options = {"exclude-members": "model_config"}
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_google_docstring = False
napoleon_use_rtype = False
toc_object_entries_show_parents = "hide"
html_theme = "pydata_sphinx_theme"
html_title = "evalkit"
html_show_sphinx = html_copy_source = html_show_sourcelink = False
html_theme_options: dict[str, Any] = {
    "navigation_with_keys": False,
    "show_toc_level": 1,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

# What GitHub shows as it is needs no contents tree; the site does. Each entry: page, title, entries below it.
_TREES = {
    "README": ("Guide <docs/index>", "docs/notebooks", "docs/api/index", "CHANGELOG", "CONTRIBUTING"),
    "docs/index": (
        "rubrics", "judges", "asking", "item-criteria", "imported", "own-tables", "compose", "cache", "batches",
        "scale", "statistics", "calibration", "improving", "tuner", "label-together", "probes", "plots", "gate", "gate-in-ci",
        "lighteval", "inspect",
        "lighteval-tasks",
        "metric-list", "pollux", "registry", "runs", "command-line", "security", "architecture", "adr/*",
        "/cache/README", "/evalkit/_data/examples/README",
    ),
    "docs/notebooks": ("/notebooks/*",),
    "docs/api/index": ("*",),
}  # fmt: skip


def _add_tree(_app: Any, page: str, text: list[str]) -> None:
    if page in _TREES:
        text[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n" + "\n".join(_TREES[page]) + "\n```\n"


def _skip_known(app: Any, _kind: str, name: str, thing: object, skip: bool, _options: object) -> bool | None:
    """A name of the root is described once, on the root's page."""
    known = app.env.docname != "docs/api/index" and getattr(evalkit, name, None) is thing
    return True if known else (skip or None)


def _add_front_page(app: Any, problem: Exception | None) -> None:
    if problem is None and app.builder.format == "html":
        shutil.copyfile(Path(app.outdir) / "README.html", Path(app.outdir) / "index.html")


def setup(app: Any) -> None:
    """Sphinx calls this."""
    app.connect("source-read", _add_tree)
    app.connect("autodoc-skip-member", _skip_known)
    app.connect("build-finished", _add_front_page)
