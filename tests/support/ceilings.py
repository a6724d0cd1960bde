"""The most statements that evalkit and each of its packages may have: a part of `make check`.

``python tests/support/ceilings.py [--list]``. A docstring is no statement, and no way of breaking lines changes the
number. Dense lines gain nothing: syntax nodes may grow by at most 3 % beside the statements.

Where a number has fallen, lower it here. What needs more is a row of `RAISED`, which says what came for it.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

HOUSE = Path(__file__).resolve().parents[2] / "evalkit"
ALL = 40_071
MOST = {
    "cli": 1_559,
    "core": 1_497,
    "engine": 9_552,
    "errors": 177,
    "evaluation": 1_976,
    "gate": 2_238,
    "inspect": 153,
    "lighteval": 2_371,
    "notebook": 5_048,
    "plots": 818,
    "rubrics": 4_661,
    "runs": 2_611,
    "stats": 6_014,
    "tables": 1_385,
}
MOST_NODES_PER_STATEMENT = 1.03 * 683_326 / 46_677


class Raise(NamedTuple):
    """More statements for a package, and what came for them."""

    package: str
    statements: int
    reason: str


RAISED = (
    Raise("cli", 5, "a key as a flag is refused without repeating it; the price learnt from earlier replies"),
    Raise("core", 9, "concurrency= that is known as given; blanks in base_url"),
    Raise("core", 22, "how to run in a thread, which was a module of the providers"),
    Raise("engine", 9, "addresses of proxies that cannot be read; limits of servers at different local ports"),
    Raise("errors", 1, "keys that are too short to be searched for"),
    Raise("evaluation", 1, "one budget for all samples of a scorer of Inspect"),
    Raise("lighteval", 11, "a forgotten scoring mode, no judges in a plan, alpha and the pass rate"),
    Raise("inspect", 4, "a budget that cannot be enforced is refused before a model answers"),
    Raise("lighteval", 2, "a failed task says what the same command asks again"),
    Raise("runs", 3, "answers that are taken again are no fact of the scoring; migrations step by step"),
    Raise(
        "notebook",
        27,
        "the price learnt from earlier replies, a new rubric named after its file, tickets found by form",
    ),
    Raise("runs", 5, "Ctrl-C while a run's row is read closes the run"),
    Raise("plots", 10, "words without an order, names that begin with _, items that cost nothing"),
    Raise(
        "rubrics",
        30,
        "two answers under one id, labels of another rubric, questions of Label Studio that give no label",
    ),
    Raise("rubrics", 11, "labels beside two texts of one item"),
    Raise("rubrics", 45, "another level beside a verdict, inputs that are no verdict, the last sentence on a pair"),
    Raise("engine", 158, "one repair request"),
    Raise("engine", 7, "an error about one prompt changes no other call"),
    Raise("engine", 69, "repairs beside cut and adopted replies, in progress, plans and parts; their expected price"),
    Raise("evaluation", 3, "repair=False is remembered"),
    Raise("gate", 4, "the price of repairs"),
    Raise("notebook", 4, "repairs that a stopped run paid for"),
    Raise("tables", 7, "columns that only some replies bring have types, and are in all parts"),
    Raise("gate", 4, "the keys of repairs in that of a verdict"),
    Raise("core", 2, "one repair request"),
    Raise("stats", 2, "a comparison that says which side has repaired replies"),
    Raise("tables", 3, "an index with a name that is no column"),
    Raise("readers", 139, "criteria of five public data sets, by name"),
    Raise("readers", 73, "labels of two tools, which were read in rubrics"),
    Raise("gate", 17, "criteria of another form, lists beside them"),
    Raise("engine", 16, "criteria of another form, lists beside them"),
    Raise("lighteval", 3, "criteria of another form, lists beside them"),
    Raise("cli", 1, "the form of criteria as JSON"),
    Raise("cli", 3, "repairs as a setting that all doors have"),
    Raise("core", 8, "repairs as a setting that all doors have"),
    Raise("gate", 4, "repairs as a setting that all doors have"),
    Raise("lighteval", 3, "repairs as a setting that all doors have"),
    Raise("engine", 4, "the expected price of repairs, and their share beside the figures"),
    Raise("evaluation", 1, "agreement with and without repaired replies"),
    Raise("stats", 24, "agreement with and without repaired replies"),
    Raise("tables", 4, "agreement with and without repaired replies"),
    Raise(
        "stats", 63, "intervals of differences that end with the scale, alt_test by groups, labels decide about pairs"
    ),
    Raise("rubrics", 2, "the width of a scale"),
    Raise("runs", 1, "repairs as a setting that all doors have"),
    Raise(
        "engine", 45, "what one prompt refuses is not learnt for all; empty first waves; plans of repairs as they are"
    ),
    Raise("notebook", 1, "the tuner's plan knows repair="),
    Raise("stats", 2, "the agreement of what was not repaired by the figures that were asked for"),
    Raise("engine", 4, "weights beside criteria are seen at the first step that has criteria"),
    Raise("readers", 6, "texts in signed lists of DR Tulu; what is not of Argilla's form is refused"),
    Raise("readers", 425, "traces of six programs, which were read in tables, and what a foreign form looks like"),
    Raise("engine", 3, "a conversation that is refused is refused with its row"),
    Raise("inspect", 2, "messages by the reader of Inspect"),
    Raise("notebook", 1, "files of messages by a module of their own"),
    Raise("core", 24, "decision models as judges"),
    Raise("engine", 166, "decision models as judges"),
    Raise("evaluation", 3, "decision models as judges"),
    Raise("lighteval", 3, "decision models as judges"),
    Raise("rubrics", 142, "decision models as judges"),
    Raise("stats", 5, "a vote's verdict does not follow from its score; one number as ks="),
    Raise("evaluation", 1, "labels of other systems are left out"),
    Raise("stats", 10, "pass^k and pass@k"),
    Raise("readers", 2, "a node of PaperBench with another parent than the node above it"),
    Raise("readers", 3, "annotators of Label Studio by username, and skipped annotations of older exports"),
    Raise("stats", 18, "evidence where labels were added after a decision; groups in cells of lists"),
    Raise("stats", 10, "verdicts of a user's own table are compared with its scores; ids of rank"),
    Raise("plots", 2, "rows without an item, or with one key"),
    Raise("notebook", 10, "labels that were added after a decision was shown"),
    Raise("tables", 2, "parts of a message whose type is no text"),
    Raise("tables", 18, "errors of readers of traces, fields of parts and calls that are not shown"),
    Raise("stats", 260, "P(pass) against people, cuts on it, the certainty from which a judge agrees"),
    Raise("plots", 9, "a plot of people by P(pass)"),
    Raise("tables", 63, "a row per step of a trajectory, and tools' results cut in their middle"),
    Raise("rubrics", 42, "levels that are the steps of an item, and limits on tools' results"),
    Raise("stats", 91, "agreement on the step that failed, beside chance and the commonest step"),
    Raise("core", 1, "the mark of a prompt that was refused as too long"),
    Raise("tables", 87, "calls of tools checked without a judge"),
    Raise("gate", 17, "the check of calls"),
    Raise("readers", 29, "agents of one trace apart, spans without a trace refused, explanations of Inspect's scores"),
    Raise("rubrics", 18, "decision models that answer by name"),
    Raise("engine", 42, "decision models that answer by name"),
    Raise("core", 6, "samples of one judge; numbers that decision models refuse where they are written"),
    Raise("evaluation", 8, "samples of one judge"),
    Raise("gate", 9, "samples of one judge"),
    Raise("lighteval", 12, "samples of one judge"),
    Raise("notebook", 4, "samples of one judge, the probability beside it"),
    Raise("engine", 5, "probabilities of recorded answers"),
    Raise("stats", 2, "a comparison names another version of a model"),
    Raise("runs", 1, "samples of one judge"),
    Raise("rubrics", 9, "how a label was drawn: one list; a label drawn at random stands in logs that are read"),
    Raise("notebook", 55, "items that changed are asked for blind; how a label was drawn, also in the lead's view"),
    Raise("stats", 108, "labels of chosen items are in no other figure; the difference by all items that changed"),
    Raise("core", 127, "images: what the first bytes of a file say, and where its bytes are"),
    Raise("engine", 79, "images on three wires, their highest price, and judges that see none"),
    Raise("tables", 71, "images below a named folder, and their numbers in a prompt"),
    Raise("rubrics", 15, "an input of images, and the last of them alone"),
    Raise("evaluation", 1, "images in a report"),
    Raise("inspect", 2, "images that a judge of a sample sees"),
    Raise("notebook", 2, "thumbnails of images that are not base64"),
    Raise(
        "notebook",
        62,
        "rows as CSV, an item before and after with its columns and criteria, the sentence in one line, the open item "
        "first, prices said as at most, the plan of a saved session",
    ),
    Raise("engine", 14, "images beside samples of each judge"),
    Raise("notebook", 9, "the form of criteria on the start card"),
    Raise("rubrics", 5, "lists in keys of labels, and versions that are numbers, are refused with the line that works"),
    Raise("rubrics", 2, "a rubric with the steps of items as levels is written without a scale"),
    Raise("core", 10, "the half hundredths that a cut on P(pass) may be, and the rules by name for hashes"),
    Raise("engine", 7, "a cut on P(pass) that cannot decide the verdicts is refused"),
    Raise("gate", 3, "a cut on P(pass) decides the samples of a verdict too"),
    Raise("lighteval", 1, "a cut on P(pass) in the tables of a run"),
    Raise("rubrics", 5, "a cut on P(pass) in a profile"),
    Raise("runs", 1, "a cut on P(pass) in a receipt"),
    Raise("stats", 27, "votes that pass by their mean P(pass) at a cut"),
    Raise("engine", 1, "a batch of image items of which nothing is missing is not refused"),
    Raise("readers", 5, "two scores of Inspect for one column are refused"),
    Raise("rubrics", 5, "examples with images or files are refused"),
    Raise("stats", 3, "doubled votes of first failures, and a share of 0 or 1 to reach, are refused"),
    Raise("tables", 15, "names of images, a history and rules of calls in another form are refused"),
    Raise("gate", 3, "a trace without messages is no trace without forbidden calls"),
    Raise("notebook", 2, "the form of a rubric whose levels are an item's steps"),
    Raise("stats", 13, "parts and sources of labels of first_failure; verdicts of changed items"),
    Raise("rubrics", 1, "labels of steps are steps"),
    Raise("stats", 5, "labels of steps are steps"),
    Raise("engine", 12, "images of items that the rubric does not read"),
    Raise("rubrics", 3, "a scale of unchecked levels is refused"),
    Raise("stats", 4, "labels drawn by level where no level is known are refused"),
    Raise("engine", 13, "too long prompts of batches are stored; an image's detail that Anthropic does not know"),
    Raise("core", 13, "defaults by provider; a cut for each criterion is refused"),
    Raise("evaluation", 36, "what probabilities showed, in the report"),
    Raise("gate", 2, "a recorded verdict against the side of all samples is refused"),
    Raise("lighteval", 6, "POLLUX criteria with decision models are refused"),
    Raise("rubrics", 19, "questions of both forms, which the engine had"),
    Raise("tables", 3, "turns have the numbers of their messages; ids that are the table's are matched at once"),
    Raise("readers", 7, "one function for what readers make of a value, which three modules of other packages had"),
    Raise("core", 5, "fields of a judge that are not set have their defaults by provider; params set by hand stay"),
    Raise("engine", 9, "tickets with fields of another evalkit, and stores that none can update"),
    Raise("notebook", 9, "steps of trajectories in texts where people label"),
    Raise("gate", 14, "meta.attempt and judged lines that are no objects or nested too deeply are refused"),
    Raise("readers", 2, "thoughts that Inspect does not tell stand before no call"),
    Raise("rubrics", 5, "a key of an input takes no method's place in a template"),
    Raise("tables", 1, "a file that a reader's own program cannot open is refused by its form"),
    Raise("evaluation", 1, "what probabilities do not show, and why"),
    Raise("core", 6, "values of others are checked against their model in one place"),
    Raise("core", 2, "images that a decision server takes"),
    Raise("engine", 9, "images on both forms of decision servers, too many refused before sending; pinned versions"),
    Raise("evaluation", 14, "what P(pass) shows against people, as one sentence for report and tuner"),
    Raise("notebook", 14, "what P(pass) shows against people, in the tuner"),
    Raise("tables", 4, "a file of another step's table is named as what it is"),
    Raise("engine", 2, "amounts of a function judge are checked before they are counted"),
    Raise("notebook", 5, "sessions of earlier checkouts open without what they lack"),
    Raise("engine", 3, "a budget that a decision judge's price of text cannot hold to names the way out"),
    Raise("evaluation", 1, "a sum of all criteria in an earlier log is not counted once for each"),
    Raise("errors", 5, "one function puts the place before an error's message, at fifteen places"),
    Raise("evaluation", 3, "what probabilities say in LightEval's rows; a report's call of a mixed jury that runs"),
    Raise("gate", 17, "recorded verdicts of decision judges are replayed without naming the judge"),
    Raise("notebook", 12, "freezing's warning on screen; versions of a session are loaded once"),
    Raise("readers", 3, "a log of Inspect without samples"),
    Raise("rubrics", 1, "fields= and ignore= beside a mapping of texts"),
    Raise("tables", 7, "calls outside of tool_calls are refused, and fields that check_calls does not read are named"),
    Raise("readers", 10, "what a log in no known form holds, and the line that works for any"),
    Raise("tables", 13, "nesting is refused by name; ids by a hash table"),
    Raise("cli", 4, "groups of a comparison from the items in its folders"),
    Raise("stats", 1, "one expression of points in two lines"),
)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def counts() -> tuple[Counter[str], int]:
    """The statements of each package, and the syntax nodes of all."""
    statements: Counter[str] = Counter()
    n_nodes = 0
    for path in sorted(HOUSE.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        package = path.relative_to(HOUSE).parts[0]
        statements[package] += sum(isinstance(node, ast.stmt) and not _is_docstring(node) for node in nodes)
        n_nodes += len(nodes)
    return statements, n_nodes


def complaints(statements: Counter[str], n_nodes: int) -> list[str]:
    """What is above its ceiling, a line each."""
    rows = [(name, n, MOST.get(name, 0)) for name, n in statements.items() if not name.endswith(".py")]
    rows.append(("all of evalkit", statements.total(), ALL))
    lines = []
    for name, n, most in rows:
        limit = most + sum(one.statements for one in RAISED if name in (one.package, "all of evalkit"))
        if n > limit:
            lines.append(f"{name}: {n:,} statements, at most {limit:,}: take some out, or name in RAISED what came")
    most_nodes = MOST_NODES_PER_STATEMENT * statements.total()
    if n_nodes > most_nodes:
        lines.append(f"{n_nodes:,} syntax nodes, at most {most_nodes:,.0f} for so many statements: one thought a line")
    return lines


def main() -> int:
    """Print what is above its ceiling; 1 if anything is."""
    statements, n_nodes = counts()
    if "--list" in sys.argv:
        print("\n".join(f"{package}: {statements[package]:,} of {most:,}" for package, most in MOST.items()))
        print(f"all of evalkit: {statements.total():,} of {ALL:,}; {n_nodes:,} syntax nodes")
    lines = complaints(statements, n_nodes)
    print("\n".join(lines), end="\n" if lines else "")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
