"""The published or independently computed figures of the recorded data, by evalkit's functions.

SummEval's experts and six judges (Fabbri et al. 2021; labels of Calderon et al. 2025), the alternative annotator test
on three data sets (Calderon et al. 2025), LLMBar's evaluators in both orders and juries of six (Zeng et al. 2023), raw
replies of five judges on SummEval (Shen et al. 2023), a refund agent's answers through four tools, and Topical-Chat
(`topical_chat.py`). Replies, labels and scores go in by `import_judgments`, as a user's would.

    python benchmarks/reference.py [--all] [SECTION …]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parent))

import topical_chat
from recorded import data_folder, loaded, read_otherwise, rows

import evalkit as ek
from evalkit.stats.aggregation.dawid_skene import estimate

CLOSED_FORM, DAWID_SKENE = 1e-6, 0.02
LEVELS = ("nominal", "ordinal", "interval")
CORRELATIONS = {"pearson": "pearson", "spearman": "spearman", "kendall_b": "kendall"}


@dataclass
class Tally:
    """What was compared in one section: name, expected, got, tolerance."""

    found: list[tuple[str, float, float, float]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def add(self, name: str, expected: Any, got: Any, tolerance: float = CLOSED_FORM) -> None:
        """One figure."""
        self.found.append((name, float(expected), float(got), tolerance))

    def add_all(self, name: str, expected: Mapping[str, Any], row: Any, columns: Mapping[str, str]) -> None:
        """Several figures of one row."""
        for theirs, ours in columns.items():
            self.add(f"{name} {theirs}", expected[theirs], row[ours])

    @property
    def off(self) -> list[tuple[str, float, float, float]]:
        """Those that do not match."""
        return [row for row in self.found if not abs(row[1] - row[2]) <= row[3]]


def rubric_of(name: str, scale: Mapping[Any, str], level: str = "ordinal", **fields: Any) -> ek.Rubric:
    """A rubric that stands for the question under which replies or labels were given."""
    template = "label@v1" if level == "nominal" else "number@v1"
    criterion = {"name": name, "level": level, "scale": dict(scale), **fields}
    return ek.Rubric(
        id=f"recorded-{name}", description=name, inputs=["answer"], template=template, criteria=[criterion]
    )


def imported(table: pd.DataFrame, rubric: ek.Rubric, **columns: Any) -> pd.DataFrame:
    """Judgments on the rubric's only criterion, whatever the table calls it."""
    return ek.import_judgments(table, rubric, criterion=rubric.names[0], **columns)


def long_labels(criterion: str, said: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Labels of {item: {annotator: code}}."""
    flat = [(item, criterion, name, str(code)) for item, codes in said.items() for name, code in codes.items()]
    return pd.DataFrame(flat, columns=["item_id", "criterion", "annotator", "label"])


def figures_of(table: pd.DataFrame, labels: pd.DataFrame, **options: Any) -> pd.DataFrame:
    """`align` without intervals, by judge."""
    return ek.align(table, labels, **options).set_index("judge")


def inside_groups(table: pd.DataFrame, labels: pd.DataFrame, groups: Any, **options: Any) -> pd.DataFrame:
    """The mean correlations inside groups, by judge, and how many groups there are and have one."""
    by_group = figures_of(table, labels, by=groups, **options).groupby("judge", observed=True)
    counts = pd.DataFrame({"groups": by_group.size(), "groups_used": by_group["pearson"].count()})
    return by_group[list(CORRELATIONS.values())].mean().join(counts)


# -- SummEval: three experts, six judges


def summeval(folder: Path, reference: Mapping[str, Any], tally: Tally) -> None:
    """Reliability of the experts, and six judges and their juries against the mean expert."""
    experts = rows(folder, "summeval_items")
    for criterion, published in reference["summeval_alttest"]["values"].items():
        replies = pd.DataFrame(rows(folder, f"summeval_alttest_{criterion}"))
        people = {row["item_id"]: row["experts"][criterion] for row in experts}
        clusters = {row["item_id"]: row["group_id"] for row in experts}
        _experts(criterion, published["experts"], people, tally)
        _judges(criterion, published, replies, people, clusters, tally)


def _scale(level: str) -> dict[Any, str]:
    return {str(code) if level == "nominal" else code: "" for code in range(1, 6)}


def _experts(criterion: str, published: Mapping[str, Any], people: Mapping[str, Any], tally: Tally) -> None:
    long = long_labels(criterion, people)
    for level in LEVELS:
        rubric = rubric_of(f"{criterion}-experts-{level}", _scale(level), level)
        table = imported(long, rubric, judge="annotator", score="label")
        full = ek.reliability(table, full=True).iloc[0]
        tally.add(f"{criterion} experts alpha {level}", published["krippendorff"][level], full["alpha_single"])
        if level == "nominal":
            tally.add(f"{criterion} experts Fleiss", published["fleiss_kappa"], full["fleiss_kappa"])
            apart = ek.disagreement(ek.vote(table, method="majority"))["disagreement"]
            tally.add(f"{criterion} experts all agree", published["all_agree"], (apart == 0).mean())
    rubric = rubric_of(f"{criterion}-experts-ordinal", _scale("ordinal"))
    table = imported(long, rubric, judge="annotator", score="label")
    votes = ek.vote(table)
    for pair, cell in published["pairwise"].items():
        a, b = (f"e{n}" for n in pair.split("-"))
        other = long_labels(f"{criterion}-experts-ordinal", {item: {b: codes[b]} for item, codes in people.items()})
        row = figures_of(votes[votes["judge"] == a], other).loc[a]
        kappas = {"quadratic_kappa": "quadratic_kappa", "cohen_kappa": "kappa", "n": "n_scored"}
        tally.add_all(f"{criterion} experts {pair}", cell, row, CORRELATIONS | kappas)


def _judges(
    criterion: str,
    published: Mapping[str, Any],
    replies: pd.DataFrame,
    people: Mapping[str, Any],
    clusters: Mapping[str, str],
    tally: Tally,
) -> None:
    table = imported(replies, rubric_of(criterion, _scale("ordinal")), text="samples")
    votes, labels = ek.vote(table), long_labels(criterion, people)
    middle = {item: {"median": int(np.median(list(codes.values())))} for item, codes in people.items()}
    corpus = figures_of(votes, labels, reference="mean")
    group = inside_groups(votes, labels, clusters, reference="mean")
    median = figures_of(votes, long_labels(criterion, middle))
    for judge, cells in published["judges"].items():
        name = f"{criterion} {judge}"
        tally.add_all(f"{name} corpus", cells["dataset"], corpus.loc[judge], CORRELATIONS | {"n": "n_scored"})
        tally.add_all(f"{name} group", cells["group"], group.loc[judge], CORRELATIONS)
        used = cells["group"]["groups"] - cells["group"]["groups_skipped"]
        tally.add(f"{name} groups used", used, group.loc[judge, "groups_used"])
        tally.add(f"{name} mae", cells["mae"], corpus.loc[judge, "mae"])
        tally.add(f"{name} kappa", cells["quadratic_kappa_vs_expert_median"], median.loc[judge, "quadratic_kappa"])
    _six(criterion, published, table, votes, labels, clusters, tally)


def _six(
    criterion: str,
    published: Mapping[str, Any],
    table: pd.DataFrame,
    votes: pd.DataFrame,
    labels: pd.DataFrame,
    clusters: Mapping[str, str],
    tally: Tally,
) -> None:
    # "majority, ties by their mean" is a rule of samples: the six judges are taken as six samples of one
    order = {judge: at for at, judge in enumerate(dict.fromkeys(table["judge"]))}
    as_one = table.assign(sample=table["judge"].map(order).astype("int64"), judge="jury")
    juries = {
        "mean": ek.aggregate(votes, method="mean"),
        "median": ek.aggregate(votes, method="median"),
        "majority_tie_mean": ek.vote(as_one, method="majority", ties="mean"),
    }
    for rule, jury in juries.items():
        cells = published["jury6"][rule]
        corpus = figures_of(jury, labels, reference="mean").loc["jury"]
        inside = inside_groups(jury, labels, clusters, reference="mean").loc["jury"]
        for level, row in (("dataset", corpus), ("group", inside)):
            tally.add_all(f"{criterion} jury {rule} {level}", cells[level], row, CORRELATIONS)
    agreement = published["judges_agreement"]
    for level in LEVELS:
        other = imported(table, rubric_of(f"{criterion}-{level}", _scale(level), level), score="label")
        alpha = ek.reliability(other).iloc[0]["alpha_single"]
        tally.add(f"{criterion} judges alpha {level}", agreement["krippendorff"][level], alpha)
    apart = ek.disagreement(votes).set_index("item_id")
    # the published SD divides by the number of judges and is in points of a scale of five
    sd = apart["sd"] * 4 * np.sqrt((apart["n_scored"] - 1) / apart["n_scored"])
    tally.add(f"{criterion} judges SD of an item", agreement["mean_item_sd_ddof0"], sd.mean())
    human = labels.assign(label=labels["label"].astype(float)).pivot(
        index="item_id", columns="annotator", values="label"
    )
    scores = votes.astype({"judge": str}).pivot(index="item_id", columns="judge", values="score").astype(float)
    error = pd.Series(abs(scores.to_numpy().mean(axis=1) - human.to_numpy().mean(axis=1)), index=scores.index)
    # items that are tied in truth are told apart by the rounding of numpy's means and SDs in the published figure
    noisy = error.corr(pd.Series(scores.to_numpy().std(axis=1), index=scores.index), method="spearman")
    tally.add(f"{criterion} disagreement against error", published["disagreement_vs_error_spearman"], noisy)
    exact = error.round(9).corr(sd.round(9), method="spearman")
    tally.remarks.append(
        f"{criterion} disagreement against error with ties as ties: {exact:.4f} (published {noisy:.4f})"
    )


# -- the alternative annotator test


def alt_tests(folder: Path, reference: Mapping[str, Any], tally: Tally) -> None:
    """Winning rate, advantage probability and every p on three data sets."""
    for name, published in reference["alt_test"]["values"].items():
        answers = rows(folder, f"alttest_{name}")
        stars = name == "cebab_stars"
        long = pd.DataFrame(
            [(row["item_id"], judge, str(code)) for row in answers for judge, code in row["judges"].items()],
            columns=["item_id", "judge", "code"],
        )
        people = {row["item_id"]: row["human"] for row in answers}
        codes = {str(code) for said in people.values() for code in said.values()} | set(long["code"])
        scale = _scale("ordinal") if stars else dict.fromkeys(sorted(codes), "")
        rubric = rubric_of(name.replace("_", "-"), scale, "ordinal" if stars else "nominal")
        votes = ek.vote(imported(long, rubric, score="code"), method="mean" if stars else "majority")
        made = ek.stats.alt_test(votes, long_labels(rubric.names[0], people), 0.2 if name == "mtbench" else 0.1)
        summary = made.summary.set_index("judge")
        for judge, cell in published.items():
            tally.add(f"{name} {judge} winning rate", cell["winning_rate"], summary.loc[judge, "winning_rate"])
            tally.add(f"{name} {judge} advantage", cell["advantage_prob"], summary.loc[judge, "advantage_probability"])
            ours = sorted(made.annotators.loc[made.annotators["judge"] == judge, "p"])
            for at, (p, q) in enumerate(zip(sorted(cell["p_values"]), ours, strict=True)):
                tally.add(f"{name} {judge} p {at}", p, q)


# -- LLMBar: pairs with an objectively better answer


def llmbar(folder: Path, reference: Mapping[str, Any], tally: Tally) -> None:
    """Accuracy and order agreement of each evaluator, and juries of six models."""
    given = pd.DataFrame(rows(folder, "llmbar_judgements"))
    given["name"] = given["subset"] + "/" + given["judge"] + "/" + given["prompt_id"]
    shown = pd.concat([given.assign(order=order, verdict=given["parsed"].str[order]) for order in ("AB", "BA")])
    # the authors' reading is mapped back to the answers
    table = ek.import_judgments(
        shown.reset_index(drop=True), "preference", judge="name", order="order", score="verdict",
        codes={"1": "A", "2": "B", None: "unreadable"}, verdicts="unswapped",
    )  # fmt: skip
    gold = long_labels("preference", {row.item_id: {"gold": {1: "A", 2: "B"}[row.gold]} for row in given.itertuples()})
    _evaluators(reference["llmbar"]["per_evaluator"], table, gold, tally)
    for name, published in reference["llmbar"]["juries"].items():
        prompt, subset, orders = name.split("/")
        own = shown[(shown["prompt_id"] == prompt) & (shown["subset"] == subset)]
        both = orders == "both_orders"
        own = own.assign(judge=own["judge"] + "|" + own["order"]) if both else own[own["order"] == "AB"]
        _jury(name, published, own[own["judge"].isin(published["judges"])], tally)


def _evaluators(reference: Mapping[str, Any], table: pd.DataFrame, gold: pd.DataFrame, tally: Tally) -> None:
    votes = ek.vote(table)
    items = votes[["item_id"]].drop_duplicates().assign(system_a="first", system_b="second")
    orders = ek.rank(votes, items).drop_duplicates("judge").set_index("judge")
    first = (votes["first_rate"] * votes["n_scored"]).groupby(votes["judge"].astype(str)).sum()
    aligned = {
        order: figures_of(ek.vote(table[table["order"] == order], method="majority"), gold) for order in ("AB", "BA")
    }
    labels = table.assign(label=table["label"].astype(object))
    truth = gold.set_index("item_id")["label"]
    for name, published in reference.items():
        row, n_judgments = orders.loc[name], 2 * published["n"]
        right = {order: own.loc[name, "accuracy"] * own.loc[name, "coverage"] for order, own in aligned.items()}
        wide = labels[labels["judge"] == name].pivot(index="item_id", columns="order", values="label")
        mine = truth.reindex(wide.index)
        both_unread = (wide["AB"].isna() & wide["BA"].isna()).mean()
        ours = {
            "n": row["n_items"],
            # published: an unread verdict is a wrong one
            "acc_AB": right["AB"],
            "acc_BA": right["BA"],
            "acc_avg": (right["AB"] + right["BA"]) / 2,
            "position_agreement": row["agreement"],
            "position_inconsistency": 1 - row["agreement"],
            "null_verdicts": wide.isna().sum().sum(),
            "first_position_rate": first[name] / n_judgments,
            "both_correct": ((wide["AB"] == mine) & (wide["BA"] == mine)).mean(),
            "position_agreement_null_equals_null": row["agreement"] + both_unread,
        }
        for figure, value in ours.items():
            tally.add(f"{name} {figure}", published[figure], value)


def _jury(name: str, published: Mapping[str, Any], own: pd.DataFrame, tally: Tally) -> None:
    rubric = rubric_of(name.replace("/", "-").replace("_", "-").lower(), {"first": "", "second": ""}, "nominal")
    codes = {"1": "first", "2": "second", None: "unreadable"}
    votes = ek.vote(imported(own, rubric, score="verdict", codes=codes), method="majority")
    gold = own.drop_duplicates("item_id").set_index("item_id")["gold"].map({1: "first", 2: "second"})
    full = ek.reliability(votes, full=True).iloc[0]
    tally.add(f"{name} alpha", published["krippendorff_nominal"], full["alpha_vote"])
    tally.add(f"{name} Fleiss", published["fleiss_kappa_complete_items"], full["fleiss_kappa"])
    tally.add(f"{name} complete items", published["complete_items"], full["n_complete"])
    jury = ek.aggregate(votes, method="majority", quorum=0).set_index("item_id")["label"].astype(object)
    jury = jury.reindex(gold.index)
    tally.add(f"{name} ties or empty", published["ties_or_empty"], jury.isna().sum())
    right = np.where(jury.isna(), 0.5, jury == gold)
    tally.add(f"{name} majority accuracy", published["majority_accuracy_tie_half"], right.mean())
    _dawid_skene(name, published, votes, gold, tally)


def _dawid_skene(name: str, published: Mapping[str, Any], votes: pd.DataFrame, gold: pd.Series, tally: Tally) -> None:
    """The full model, which the published figures are of; and what `aggregate` takes where items are few."""
    said = votes[votes["label"].notna()]
    item, items = pd.factorize(said["item_id"])
    judge, label = pd.factorize(said["judge"])[0], (said["label"] == "second").to_numpy().astype(np.int64)
    made = estimate(item.astype(np.int64), judge.astype(np.int64), label, 2, one_coin=False)
    right = np.where(made.posterior[:, 1] > 0.5, "second", "first") == gold.reindex(items).to_numpy()
    tally.add(f"{name} Dawid-Skene", published["dawid_skene_own_accuracy"], right.sum() / len(gold), DAWID_SKENE)
    tally.add(f"{name} Dawid-Skene log-likelihood", published["dawid_skene_own_loglik"], made.log_likelihood, 0.05)
    scores = ek.aggregate(votes, method="dawid_skene", quorum=0).set_index("item_id")
    accuracy = (scores["label"].astype(object) == gold.reindex(scores.index)).mean()
    if scores["options"].iloc[0] == "one_coin":
        theirs = published["crowdkit_OneCoinDawidSkene_accuracy"]
        tally.add(f"{name} Dawid-Skene, one coin, against crowd-kit", theirs, accuracy, DAWID_SKENE)
    else:
        tally.add(f"{name} Dawid-Skene by aggregate", published["dawid_skene_own_accuracy"], accuracy, DAWID_SKENE)


# -- raw replies of five judges on SummEval


def damo(folder: Path, reference: Mapping[str, Any], tally: Tally) -> None:
    """Correlations on the authors' reading, unread replies as -1 and left out; evalkit's own reading beside it."""
    parsed = loaded(folder, "summeval_damo_ref_parsed.json.gz")
    n_replies: Counter[str] = Counter()
    n_other: Counter[str] = Counter()
    for criterion in ("coherence", "consistency"):
        replies = pd.DataFrame(rows(folder, f"summeval_damo_raw_{criterion}"))
        once = replies.drop_duplicates("item_id").set_index("item_id")
        clusters, labels = once["group_id"], long_labels(criterion, once["human"].to_dict())
        for name, published in reference["summeval_damo"]["values"].items():
            if not name.startswith(f"{criterion}/"):
                continue
            _, judge, prompt = name.split("/")
            mine = replies[(replies["judge"] == judge) & (replies["prompt_id"] == prompt)].assign(judge=name)
            own = imported(mine, rubric_of(criterion, _scale("ordinal")), text="samples")
            decimal = rubric_of(criterion, _scale("interval"), "interval")  # the authors read 2.5 as it stands
            codes = {None: "unreadable", -1: "unreadable"}
            theirs = imported(
                mine.assign(parsed=mine["item_id"].map(parsed[name])), decimal, score="parsed", codes=codes
            )
            tally.add(f"{name} unread", published["unparsed"], theirs["error"].notna().sum())
            votes = ek.vote(theirs)
            row = figures_of(votes, labels, reference="mean").loc[name]
            tally.add_all(f"{name} read", published["valid_only"], row, CORRELATIONS | {"n": "n_scored"})
            group = inside_groups(votes, labels, clusters, reference="mean").loc[name]
            columns = CORRELATIONS | {"groups_used": "groups_used", "groups": "groups"}
            tally.add_all(f"{name} read, within documents", published["valid_only_group"], group, columns)
            filled = ek.vote(theirs, unscored=-1)
            row = figures_of(filled, labels, reference="mean").loc[name]
            tally.add_all(f"{name} unread as -1", published["authors"], row, CORRELATIONS)
            n_replies[prompt] += len(own)
            n_other[prompt] += len(read_otherwise(own, theirs))
    shown = ", ".join(f"{prompt} {n_other[prompt]} of {n}" for prompt, n in n_replies.items())
    tally.remarks.append(f"read otherwise by evalkit as a bare number (letters and prose are none): {shown}")


# -- a refund agent's answers through four tools


def agent(folder: Path, reference: Mapping[str, Any], tally: Tally) -> None:
    """False passes and false fails of four judges, each by the majority of three."""
    answers = pd.DataFrame(rows(folder, "bc038_judgements"))
    said = {row.item_id: {"gold": int(row.gold == "correct")} for row in answers.itertuples()}
    labels = long_labels("correct", said)
    rubric = rubric_of("correct", {0: "wrong", 1: "right"}, pass_at=1)
    codes = {True: 1, False: 0, None: "unreadable"}
    table = imported(answers, rubric, judge="prompt_id", score="parsed", codes=codes)
    votes = ek.vote(table, method="majority")
    table = ek.stats.confusion(votes, labels)
    for tool, published in reference["bc038"]["values"].items():
        cells = table[table["judge"] == tool].set_index(["label_human", "label_judge"])["n"]
        own = votes[votes["judge"] == tool]
        ours = {
            "cases": len(own),
            "false_pass": cells[("0", "1")],
            "false_fail": cells[("1", "0")],
            "unstable_over_3_repeats": (own["agreement"] < 1).sum(),
        }
        for figure, value in ours.items():
            tally.add(f"{tool} {figure}", published[figure], value)


# -- Topical-Chat


def topical(folder: Path, reference: Mapping[str, Any], tally: Tally) -> None:
    """The correlations of `topical_chat.py`, counts, and curves over random samples."""
    for variant in topical_chat.variants(folder):
        published = reference["topicalchat_gpt35"]["values"][variant.name]
        table = topical_chat.compared(variant, published)
        for row in table.itertuples(index=False):
            tally.add(f"{row.prompt} {row.what} {row.figure}", row.published, row.matched)
        _counts(variant, published, tally)


def _counts(variant: topical_chat.Variant, published: Mapping[str, Any], tally: Tally) -> None:
    scores = variant.authors["score"]
    ours = {
        "n_items": variant.authors["item_id"].nunique(),
        "n_samples": variant.authors["sample"].nunique(),
        "unparsed": scores.isna().sum(),
        "out_of_scale": (~scores.dropna().isin([1, 2, 3])).sum(),
    }
    for name, value in ours.items():
        tally.add(f"{variant.name} {name}", published[name], value)
    votes = ek.vote(variant.authors)
    whole = figures_of(votes, variant.labels).iloc[0]
    group = inside_groups(votes, variant.labels, variant.groups).iloc[0]
    cells = published["drop_unparsed"]
    tally.add(f"{variant.name} n", cells["dataset"]["n"], whole["n_scored"])
    used = cells["group"]["groups"] - cells["group"]["groups_skipped"]
    tally.add(f"{variant.name} groups used", used, group["groups_used"])
    tally.add(f"{variant.name} groups", cells["group"]["groups"], group["groups"])


SECTIONS: dict[str, Callable[[Path, Mapping[str, Any], Tally], None]] = {
    "summeval": summeval, "alt_test": alt_tests, "llmbar": llmbar, "damo": damo, "agent": agent, "topical": topical,
}  # fmt: skip


def compared(folder: Path, names: Sequence[str]) -> Iterator[tuple[str, Tally, float]]:
    """Section, what was compared, seconds."""
    reference = loaded(folder, "reference.json")
    for name in names:
        tally, started = Tally(), time.perf_counter()
        SECTIONS[name](folder, reference, tally)
        yield name, tally, time.perf_counter() - started


def main() -> int:
    """Print what matched and what not; exit 1 if anything is off."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("sections", nargs="*", metavar="SECTION", help="by default all")
    options.add_argument("--all", action="store_true", help="print every figure")
    chosen = options.parse_args()
    folder = data_folder()
    if folder is None:
        print("skipped: no recorded data (set EVALKIT_DATA to its folder)")
        return 0
    n_off = n_all = 0
    for name, tally, seconds in compared(folder, chosen.sections or list(SECTIONS)):
        print(f"{name}: {len(tally.found) - len(tally.off)} of {len(tally.found)} figures match ({seconds:.0f} s)")
        for figure, expected, got, tolerance in tally.found if chosen.all else tally.off:
            mark = "" if abs(expected - got) <= tolerance else "  NOT MATCHED"
            print(f"    {figure}: published {expected:.6f}, evalkit {got:.6f}{mark}")
        for remark in tally.remarks:
            print(f"    {remark}")
        n_off += len(tally.off)
        n_all += len(tally.found)
    print(
        f"\n{n_all - n_off} of {n_all} figures match (to {CLOSED_FORM:g}; Dawid-Skene to {DAWID_SKENE:g}, curves over "
        "random samples to half the SD of a draw)"
    )
    print("not compared: what other Dawid-Skene programs give, and counts that are the same in many cells")
    return int(bool(n_off))


if __name__ == "__main__":
    sys.exit(main())
