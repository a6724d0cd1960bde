"""`evalkit demo`: judge the bundled examples offline, compare with labels, edit the rubric, see what changed."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path

import evalkit as ek
from evalkit.cli.arguments import Commands, add_command

JURY = ["fake:strict", "fake:lenient", "fake:verbose"]
EDIT = {2: "Supported in the main. What matters is stated in the context; minor or small additions are acceptable."}
"""The demo's edit of the rubric: it accepts side remarks, which the labels do not."""

_WIDEST, _NARROWEST = 118, 60
_OPENING = """\
A jury of three judges reads 24 answers of three invented shop bots, each beside the sources that the bot was given. \
Every judge scores every answer three times by the rubric 'faithfulness': 0 contradicted or invented, 1 supported but \
for a side remark, 2 fully supported.
The judges are built in (fake:strict, fake:lenient, fake:verbose): they count shared words, offline and free.
A fake judge is not an LLM: the figures show what evalkit does, not how good real judges are."""
_CLOSING = """
── Next steps
   The replies are stored in {cache}: a second run of the demo makes no calls.
   Your own items:     ek.evaluate(ek.load_items('items.jsonl'), 'faithfulness', 'openai:gpt-4o-mini')
                       (needs OPENAI_API_KEY; any OpenAI-compatible server: Judge(…, base_url=…))
   From the shell:     evalkit evaluate items.jsonl --rubric faithfulness --judge openai:gpt-4o-mini
   In a notebook:      .venv/bin/jupyter lab notebooks/01-tour.ipynb
   Freeze and reuse:   ek.freeze(ev2, 'support-strict.yaml')"""


def add(commands: Commands) -> None:
    """Its parser."""
    add_command(commands, "demo", lambda _: run(), "judge the bundled examples offline: a tour of evalkit in a minute")


def run() -> None:
    """Print the tour; takes seconds, needs no key and no network."""
    from evalkit.core.settings import default_folder

    cache, width = default_folder() / "demo", _width()
    print("evalkit: does a support bot stick to its sources?\n")
    _wrap(0, *_OPENING.splitlines())

    items, labels = ek.load_example("support")
    rubric = ek.load_rubric("faithfulness")
    _step("1. The prompt that a judge gets", "print(ek.build_prompt(rubric, items.iloc[0]))")
    lines = ek.build_prompt(rubric, items.iloc[0]).messages[-1].content.splitlines()
    for line in ("… criterion, scale and form of the reply, then:", *lines[lines.index("Question:") :]):
        print(textwrap.indent(textwrap.fill(line, width - 5, subsequent_indent="  "), "   │ ") or "   │")

    _step("2. What it will cost", "ek.plan(items, rubric, judges, samples=3)")
    print(ek.show(ek.plan(items, rubric, JURY, cache=cache), width=width))

    _step("3. Judge, vote, aggregate, compare with labels", "ev = ek.evaluate(items, rubric, judges, labels=labels)")
    first = ek.evaluate(items, rubric, JURY, labels=labels, cache=cache, progress=False)
    print(ek.show(first, width=width), end="\n\n")
    _wrap(0, "The labels were written together with the examples; they do not represent real annotators.")

    _step("4. Where to look: the items on which the judges differ most", "ev.disagreement, ev.wide()")
    _print_disagreement(first)

    _step(
        "5. Edit the rubric: only the edited criterion is judged again",
        "ev2 = ek.evaluate(items, rubric.edit(…), judges, …)",
    )
    edited = rubric.edit(rubric.names[0], scale=EDIT)
    _wrap(3, *rubric.diff(edited).splitlines(), "")
    second = ek.evaluate(items, edited, JURY, labels=labels, cache=cache, progress=False)
    here = Path.cwd()
    place = cache.relative_to(here) if cache.is_relative_to(here) else cache
    print(ek.compare(first, second, labels=labels).text(width), _CLOSING.format(cache=place), sep="\n")


def _print_disagreement(evaluation: ek.Evaluation) -> None:
    name = evaluation.rubric.names[0]
    disagreement = evaluation.disagreement.set_index("item_id")["disagreement"]
    wide = evaluation.wide().set_index("item_id")
    for item in disagreement.sort_values(ascending=False, kind="stable").index[:2]:
        row = wide.loc[item]
        labels = " and ".join(str(row[f"{name}_{annotator}"]) for annotator in ("ann1", "ann2"))
        _wrap(3, f"{item}: disagreement {disagreement[item]:.2f}, labels {labels}")
        _wrap(5, f"answer: {row['answer']}")
        for judge in JURY:
            _wrap(5, f"{judge} {row[f'{name}_{judge}']:.2f}: {row[f'{name}_{judge}_explanation']}")


def _width() -> int:
    return max(_NARROWEST, min(shutil.get_terminal_size((_WIDEST, 24)).columns, _WIDEST))


def _wrap(indent: int, *texts: str) -> None:
    lead = " " * indent
    for text in texts:
        print(textwrap.fill(text, _width(), initial_indent=lead, subsequent_indent=f"{lead}  " if lead else ""))


def _step(title: str, call: str) -> None:
    """The heading of a step, with the Python call that does the same."""
    print(f"\n── {title}")
    _wrap(3, call, "")
