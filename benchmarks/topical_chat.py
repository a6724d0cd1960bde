"""Recorded Topical-Chat replies through the whole of evalkit, against published figures.

20 samples an item of gpt-3.5-turbo, 7 prompt variants, naturalness and engagingness (Chiang and Lee,
2023, "A Closer Look into Automatic Evaluation Using Large Language Models"): taken in by `import_judgments`, voted,
aligned. Every correlation of `reference.json` for
k = 1, 3, 5, 10, 20 and each vote rule, under both policies for unreadable replies, is compared on the
authors' reading of the replies; evalkit's own reading stands beside it.

    python benchmarks/topical_chat.py [--all]
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

sys.path.insert(0, str(Path(__file__).parent))

from recorded import data_folder, loaded, read_otherwise, rows

import evalkit as ek

TOLERANCE = 1e-6
JUDGE = "openai:gpt-3.5-turbo"
RULES: dict[str, dict[str, Any]] = {
    "mean": {"method": "mean"},
    "median": {"method": "median"},
    "majority_tie_low": {"method": "majority", "ties": "low"},
    "majority_tie_mean": {"method": "majority", "ties": "mean"},
}
FIGURES = {"pearson": "pearson", "spearman": "spearman", "kendall_b": "kendall"}


@dataclass(frozen=True)
class Variant:
    """The replies to one prompt: judgments as evalkit and as the authors read them, and the labels."""

    name: str
    own: pd.DataFrame
    authors: pd.DataFrame
    labels: pd.DataFrame
    groups: pd.Series


def rubric_of(variant: str, codes: Iterable[float] = ()) -> ek.Rubric:
    """A rubric that stands for the prompt under which the replies were given; `codes` are stray ones beside 1, 2, 3."""
    criterion, scale = variant.split("/")[0], {1: "bad", 2: "ok", 3: "good"}
    return ek.Rubric(
        id=f"topicalchat-{variant.replace('/', '-').replace('_', '-')}",
        description="A response in a conversation about a fact",
        inputs=["source", "context", "answer"],
        template="number@v1",
        criteria=[{"name": criterion, "scale": dict.fromkeys(codes, "") | scale}],
    )


def variants(folder: Path) -> Iterator[Variant]:
    """Every prompt variant."""
    parsed = loaded(folder, "topicalchat_ref_parsed.json.gz")
    for criterion in ("naturalness", "engagingness"):
        replies = pd.DataFrame(rows(folder, f"topicalchat_gpt35_{criterion}"))
        for name, own in replies.groupby("prompt_id", sort=False):
            yield variant_of(str(name), own, parsed[name])


def variant_of(name: str, replies: pd.DataFrame, parsed: Mapping[str, list[float | None]]) -> Variant:
    """The replies to one prompt, as evalkit and as the authors read them."""
    rubric = rubric_of(name)
    strays = {score for scores in parsed.values() for score in scores if score is not None}
    own = ek.import_judgments(replies, rubric, judge=JUDGE, text="samples")
    read_by_authors = replies.assign(read=[parsed[item] for item in replies["item_id"]])
    authors = ek.import_judgments(
        read_by_authors, rubric_of(name, strays), judge=JUDGE, score="read", codes={None: "unreadable"}
    )
    labels = ek.extract_labels(replies, {rubric.names[0]: "human_mean"}, item_id="item_id")
    return Variant(name, own, authors, labels, replies.set_index("item_id")["group_id"])


def figures(variant: Variant, judgments: pd.DataFrame, **rule: Any) -> dict[str, float]:
    """Correlations with people over the corpus and within groups."""
    votes = ek.vote(judgments, **rule)
    found: dict[str, float] = {}
    for prefix, groups in (("dataset", None), ("group", variant.groups)):
        rows = ek.align(votes, variant.labels, by=groups)
        found |= {f"{prefix}_{name}": float(rows[column].mean()) for name, column in FIGURES.items()}
    return found


def expected(reference: dict[str, Any]) -> Iterator[tuple[str, int, dict[str, Any], dict[str, float]]]:
    """Name, k, rule and published figures of everything there is for one prompt."""
    for policy, rule in (("drop_unparsed", {}), ("unparsed_as_zero", {"unscored": 0})):
        cells = reference[policy]
        flat = {f"{part}_{name}": cells[part][name] for part in ("dataset", "group") for name in FIGURES}
        yield policy, 20, {"method": "mean"} | rule, flat
    for k in (1, 3, 5, 10, 20):
        for rule_name, rule in RULES.items():
            cells = reference["k_curve"][f"prefix{k}/{rule_name}"]
            yield f"k={k} {rule_name}", k, rule, {name: value for name, value in cells.items() if name != "n"}


def compared(variant: Variant, reference: dict[str, Any]) -> pd.DataFrame:
    """One row a figure: published, on the authors' reading, on evalkit's own, and the gap."""
    found = []
    for name, k, rule, published in expected(reference):
        theirs = figures(variant, variant.authors[variant.authors["sample"] < k], **rule)
        own = figures(variant, variant.own[variant.own["sample"] < k], **rule)
        found += [
            (variant.name, name, figure, value, theirs[figure], own[figure]) for figure, value in published.items()
        ]
    table = pd.DataFrame(found, columns=["prompt", "what", "figure", "published", "matched", "own"])
    return table.assign(gap=(table["matched"] - table["published"]).abs())


def readings(variant: Variant) -> pd.DataFrame:
    """The replies that evalkit reads otherwise than the authors did."""
    return read_otherwise(variant.own, variant.authors).assign(prompt=variant.name)


def verdict(authors: str, evalkit: str, reply: str) -> str:
    """Who read a reply right, by what stands in it; what no rule settles is left open, never claimed."""
    scored = evalkit in ("1", "2", "3")
    if evalkit == "off_scale" and re.search(r"\d[.,]\d", reply):
        return "evalkit: a decimal is no code of a 1-2-3 scale; the authors cut it off"
    if scored and re.match(r"\s*1\.\s", reply):
        return "evalkit: the authors took the number of a list"
    if scored and authors == "unreadable":
        return "evalkit: read by the level's name, or from its line; the authors left it unread"
    if evalkit == "ambiguous":
        return "evalkit: two ratings, or a quoted scale; the authors took the first"
    if authors not in ("1", "2", "3"):
        return "evalkit: a stray number, off the scale; the authors took it"
    if evalkit == "unreadable" and re.search(r"score of [123]|rated as (an? )?[123]|[123] \(|[123] - ", reply):
        return "the authors: the verdict stands in prose"
    return "open: look at the reply"


def main() -> int:
    """Print what matched and what not; exit 1 if anything is off."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--all", action="store_true", help="print every figure, and every reply that is read otherwise"
    )
    chosen = options.parse_args()
    folder = data_folder()
    if folder is None:
        print("skipped: no recorded data (set EVALKIT_DATA to its folder)")
        return 0
    reference = loaded(folder, "reference.json")["topicalchat_gpt35"]["values"]
    read = list(variants(folder))
    whole = pd.concat([compared(variant, reference[variant.name]) for variant in read], ignore_index=True)
    differ = pd.concat([readings(variant) for variant in read], ignore_index=True)
    shown = whole if chosen.all else whole[whole["what"].isin(["drop_unparsed", "unparsed_as_zero"])]
    print(shown.to_string(index=False, float_format=lambda value: f"{value:.6f}"))
    off = whole[~(whole["gap"] <= TOLERANCE)]
    print(f"\n{len(whole) - len(off)} of {len(whole)} figures match to {TOLERANCE:g}")
    print(f"\n{len(differ)} of {sum(len(variant.own) for variant in read)} replies are read otherwise:")
    judged = [verdict(*row) for row in differ[["other", "reading", "reply"]].itertuples(index=False, name=None)]
    counts = pd.Series(judged).value_counts()
    print("\n".join(f"{count:5}  {who}" for who, count in counts.items()))
    if chosen.all:
        for who, row in zip(judged, differ.itertuples(), strict=True):
            print(f"{row.prompt}: authors {row.other}, evalkit {row.reading}, {who}\n    {row.reply!r}")
    if len(off):
        print("\nnot matched:\n" + off.to_string(index=False))
    return int(bool(len(off)))


if __name__ == "__main__":
    sys.exit(main())
