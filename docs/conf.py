"""The documentation site: README, pages, notebooks and an API reference. `make docs` builds it into out/docs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
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
html_search_scorer = str(Path(__file__).parent / "search.js")
html_theme = "pydata_sphinx_theme"
html_title = "evalkit"
html_show_sphinx = html_copy_source = html_show_sourcelink = False
html_theme_options: dict[str, Any] = {
    "navigation_with_keys": False,
    "collapse_navigation": True,
    "show_toc_level": 1,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

# What GitHub shows as it is needs no contents tree; the site does. Each entry: page, title, entries below it.
_DOCS = Path(__file__).parent
_TREES = {
    "README": (
        "Start <docs/index>", "How to <docs/how-to>", "Figures at a glance <docs/figures>",
        "Reference <docs/reference>",
    ),
    "docs/index": ("tutorial", "notebooks", "/evalkit/_data/examples/README"),
    "docs/notebooks": ("/notebooks/*",),
    "docs/how-to": (
        "tuner", *(page.stem for page in sorted(_DOCS.glob("label-*.md"))), "improving", "measure-chance", "rubrics",
        "item-criteria", "agents", "judges", "calls", "local-models", "asking", "decisions", "own-tables", "compose",
        "imported",
        "share-cache", "batches", "scale", "judge-bias", "gate-in-ci", "gate", "lighteval", "inspect", "plots",
    ),
    "docs/figures": ("statistics", "people", "comparing", "pairs", "calibration"),
    "docs/reference": (
        "api/index", "command-line", "cache", "registry", "runs", "lighteval-tasks", "metric-list", "pollux",
        "security", "architecture", "adr/*", "/cache/README", "/CHANGELOG", "/CONTRIBUTING",
    ),
    "docs/api/index": ("*",),
}  # fmt: skip

# What readers call the subject of a page in the search, where its headings have other words.
_SEARCHES = {
    "docs/tutorial": "start from a CSV; first steps; getting started; quickstart; beginner; Excel spreadsheet; "
                     "trust a judge",
    "docs/index": "documentation; install",
    "docs/how-to": "second annotator; two people; several annotators; label together; async code; progress bar",
    "docs/label-together": "second annotator; two people; several annotators; adjudication; Label Studio; Argilla",
    "docs/figures": "what figures mean; confidence interval; inter-annotator agreement; human agreement; "
                    "Cohen's kappa; false positives; false negatives; accuracy; coverage; metrics explained; glossary",
    "docs/statistics": "formulas; confidence interval; inter-rater reliability; Krippendorff's alpha; Fleiss; Gwet; "
                       "Dawid-Skene; majority vote; how many samples; clusters",
    "docs/people": "agreement with people; Cohen's kappa; false pass; ties; abstain; alt-test; replace a person; "
                   "threshold; value of a jury",
    "docs/comparing": "significance test; p-value; McNemar; noise floor; compare versions; keep a version; "
                      "model changed; drift",
    "docs/pairs": "rank systems; Bradley-Terry; win rate; pairwise; order of answers",
    "docs/calibration": "how many labels; which items to label; few labels; prediction-powered inference; calibration",
    "docs/tuner": "keyboard shortcuts; shortcut keys; annotation; label items; prompt engineering; edit a rubric; "
                  "marimo; VS Code; undo; held-out labels",
    "docs/improving": "held-out labels; overfitting; optimize a prompt; automatic prompt improvement; "
                      "gepa; DSPy; test set",
    "docs/measure-chance": "noise floor; random variation; is the change significant; A/B test; drift; "
                           "compare versions; regression",
    "docs/rubrics": "write a rubric; scoring instructions; Likert scale; prompt template; few-shot examples; Jinja; "
                    "chats; tool calls; pairwise; compare two answers",
    "docs/item-criteria": "own criteria; criteria per item; checklist; HealthBench; PaperBench; points",
    "docs/agents": "agent; trace; trajectory; tool calls; OpenTelemetry; OpenInference; Phoenix; Langfuse; LangSmith; "
                   "MLflow; ATIF; Codex; Claude Code; Responses API; LangChain",
    "docs/judges": "API key; choose a judge; OpenAI; Azure; Gemini; OpenRouter; gateway; custom function",
    "docs/calls": "rate limit; retry; timeout; budget; spending limit; max cost; price; prices; cost of a run; seed; "
                  "unscored; resume; error 429; concurrency",
    "docs/local-models": "Ollama; vLLM; llama.cpp; LM Studio; self-hosted; Hugging Face model; GPU; open-weight model; "
                         "without an API key",
    "docs/asking": "log probabilities; logprobs; expected score; chain of thought; reference answer; G-Eval",
    "docs/decisions": "OpenAI decisions API; probabilities; calibrated; classifier; System One; Jev; llama.cpp",
    "docs/own-tables": "pandas DataFrame; table of scores; columns",
    "docs/compose": "custom aggregation; bootstrap; own metric; summary per group",
    "docs/imported": "import scores; load labels; Label Studio; Argilla; existing judgments; ratings of others",
    "docs/cache": "memoization; pay twice; where replies are stored; delete replies; refresh; reproducible; "
                  "export; joblib",
    "docs/share-cache": "PostgreSQL; team; colleagues; several machines; shared database; NFS",
    "docs/batches": "half price; cheaper; discount; Batch API; overnight",
    "docs/scale": "million items; Ray; Dask; Spark; SLURM; cluster; parallel; speed; parquet",
    "docs/judge-bias": "position bias; length bias; verbosity bias; prompt injection; robustness; order of answers",
    "docs/gate-in-ci": "gate in CI; GitHub Actions; GitLab; continuous integration; fail the build; pull request",
    "docs/gate": "regression test; pytest; eval.yaml; traces; JUnit; exit code; threshold",
    "docs/lighteval": "LightEval metric; benchmark; evaluate a model; jury in LightEval",
    "docs/inspect": "Inspect AI; scorer",
    "docs/plots": "chart; figure; matplotlib; HTML report; share results",
    "docs/notebooks": "examples; nbval; Jupyter",
    "docs/command-line": "CLI; shell; terminal; flags; environment variables; exit code",
    "docs/runs": "leaderboard; compare models; receipts",
    "docs/registry": "plugin; pack; template",
    "docs/security": "privacy; secrets; injection; threat model; data protection",
    "docs/architecture": "design; packages; table columns; schema; decision records",
}  # fmt: skip


def _add_tree(_app: Any, page: str, text: list[str]) -> None:
    if page in _TREES:
        text[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n" + "\n".join(_TREES[page]) + "\n```\n"
    if page in _SEARCHES:
        title, rest = text[0].split("\n", 1)
        entries = "\n".join(f"   single: {words.strip()}" for words in _SEARCHES[page].split(";"))
        text[0] = f"{title}\n\n```{{eval-rst}}\n.. index::\n{entries}\n```\n{rest}"
    if page == "docs/api/index":
        text[0] += "\n```{eval-rst}\n" + "\n".join(_public_names()) + "\n```\n"


def _public_names() -> Iterator[str]:
    """The names of the root under the headings of its stub, which has them in the order of the work."""
    stub = (_DOCS.parent / "evalkit" / "__init__.pyi").read_text(encoding="utf-8").partition("\n\n# what")
    for line in (stub[1] + stub[2]).splitlines():
        name = line.rpartition(" as ")[2]
        if line.startswith("# "):
            yield from ("", line[2].upper() + line[3:], "-" * len(line), "")
        elif line.startswith("from .") and not name.startswith("__"):
            kind = "autoclass" if isinstance(getattr(evalkit, name), type) else "autofunction"
            yield f".. {kind}:: evalkit.{name}" + ("\n   :members:" if kind == "autoclass" else "") + "\n"


def _read_again(_app: Any, env: Any, _added: object, _changed: object, _removed: object) -> list[str]:
    """Sphinx forgets the index entries of pages that it does not read again."""
    return [page for page in _SEARCHES if page in env.found_docs]


def _skip_known(app: Any, _kind: str, name: str, thing: object, skip: bool, _options: object) -> bool | None:
    """A name of the root is described once, on the root's page."""
    known = app.env.docname != "docs/api/index" and getattr(evalkit, name, None) is thing
    return True if known else (skip or None)


def _finish(app: Any, problem: Exception | None) -> None:
    if problem is None and app.builder.format == "html":
        for page in Path(app.outdir).rglob("*.html"):  # the theme's arrows in the navigation have no name
            text = page.read_text(encoding="utf-8")
            if "<summary><span" in text:
                page.write_text(
                    text.replace("<summary><span", '<summary aria-label="Pages below"><span'), encoding="utf-8"
                )
        shutil.copyfile(Path(app.outdir) / "README.html", Path(app.outdir) / "index.html")


def setup(app: Any) -> None:
    """Sphinx calls this."""
    app.add_config_value("added_to_pages", [_TREES, _SEARCHES], "env")  # if they change, all pages are read again
    app.connect("source-read", _add_tree)
    app.connect("env-get-outdated", _read_again)
    app.connect("autodoc-skip-member", _skip_known)
    app.connect("build-finished", _finish)
