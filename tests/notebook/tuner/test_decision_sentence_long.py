"""The sentence that decides in real sessions: every case, and its agreement with the figures on the same screen."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import evalkit as ek
from evalkit.errors import InputError
from evalkit.notebook.judgments.item_table import Query, page_of
from evalkit.notebook.tuner.decision_sentence import decision_of, decision_texts, n_tried, running
from evalkit.notebook.tuner.tuner_controller import figures_payload
from evalkit.notebook.tuner.tuning_session import Session
from evalkit.notebook.tuner.version_history import rebase
from evalkit.stats.comparison.comparison_table import Decision

N = 40
RUBRIC = ek.Rubric(
    id="r",
    inputs=["answer"],
    template="number@v1",
    criteria=[{"name": "c", "description": "v1", "scale": {0: "no", 1: "nearly", 2: "yes"}, "pass_at": 2}],
)
TRUTH = {f"i{at}": "2" if at % 2 else "0" for at in range(1000)}


def replies(rubric: ek.Rubric, judge: ek.Judge, wrong: set[int], n: int = N, samples: int = 2) -> None:
    """Store what a judge says of the first n items: right but for these."""
    items = table(n)
    said = [[("2" if TRUTH[item] == "0" else "0") if at in wrong else TRUTH[item]] * samples
            for at, item in enumerate(items["item_id"])]  # fmt: skip
    ek.record(items, rubric, judge, said, overwrite=True)


def table(n: int) -> pd.DataFrame:
    ids = [f"i{at}" for at in range(n)]
    return pd.DataFrame({"item_id": ids, "answer": [f"text {item}" for item in ids]})


def labels(n: int) -> pd.DataFrame:
    rows = [(f"i{at}", "c", "ann", TRUTH[f"i{at}"]) for at in range(n)]
    return pd.DataFrame(rows, columns=["item_id", "criterion", "annotator", "label"])


JUDGE = ek.Judge("openai", "x", name="x", base_url="http://127.0.0.1:9/v1")


def session_of(folder: Path, wrong: list[set[int]], n: int = N, n_labels: int | None = None, **more: Any) -> Session:
    """A session with one version per set of wrong items, all of them run; the last one is shown."""
    given = labels(n if n_labels is None else n_labels)
    options = {"samples": 2, "recorded": "use", "folder": folder, "labels": given} | more
    session, rubric = Session(table(n), RUBRIC, [JUDGE], **options), RUBRIC
    for at, places in enumerate(wrong):
        rubric = RUBRIC if not at else RUBRIC.edit("c", description=f"v{at + 1}")
        replies(rubric, JUDGE, places, n)
        session.drafts.edit(lambda base, _draft, rubric=rubric: rebase(base, rubric.to_dict()))
        session.run()
    return session


def test_without_run_labels_or_second_version(tmp_path: Path) -> None:
    session = session_of(tmp_path / "a", [], n_labels=0, labels=None)
    assert decision_of(session) is None
    assert figures_payload(session)["decision"] == {}
    session = session_of(tmp_path / "b", [set(range(10))], labels=None)
    decision = decision_of(session)
    assert decision is not None
    assert (decision.kind, decision.action) == ("no labels", "queue")
    assert str(decision).startswith(
        "Cannot tell: no item is labelled. Label 30 items first. Without labels: pass rate 0.50"
    )
    session = session_of(tmp_path / "c", [set(range(0, 24, 2))])  # 12 of 20 that fail are passed
    decision = decision_of(session)
    assert decision is not None
    assert (decision.kind, decision.verdict) == ("one version", "v1 agrees with people on 70 %")
    assert decision.then.startswith("of 40 labelled items (0.70 [")
    assert decision.reason == "Most often wrong: people 0, jury 2, a false pass (12 labels)."


def test_two_versions_and_what_stands_beside_them(tmp_path: Path) -> None:
    """The sentence, the counts of fixed and broken, the filters and the interval are of the same rows."""
    for name, before, after, kind in (
        ("keep", set(range(16)), {0}, "chance"),  # 15 of 40 fixed; chance is not measured: recorded replies
        ("drop", {0}, set(range(16)), "drop"),
        ("open", {0, 1, 2}, {0}, "open"),
        ("same", {0, 1}, {0, 1}, "same"),
    ):
        session = session_of(tmp_path / name, [before, after])
        decision, (row, _) = decision_of(session), session.change()  # type: ignore[misc]
        assert decision is not None
        assert row is not None
        assert (row["fixed"], row["broke"]) == (len(before - after), len(after - before))
        changes = [one.change for one in session.rows()]
        assert (changes.count("fixed"), changes.count("broke")) == (row["fixed"], row["broke"])
        assert decision.kind in ({kind, "keep"} if kind == "chance" else {kind, "open"} if kind == "same" else {kind})
        if decision.kind in ("keep", "drop"):
            n = round(100 * abs(len(before) - len(after)) / N)
            assert f"{n} {'more' if decision.kind == 'keep' else 'fewer'} of 100 items than v1" in decision.then
        payload = figures_payload(session)["decision"]
        assert payload["verdict"] == decision.verdict
        assert json.loads(json.dumps(payload)) == payload
        if decision.kind == "drop":
            assert "0 fixed, 15 broke, 8 of them people pass, jury fail." in decision.reason
            assert re.search(r"The best so far is v1 \(agreement 0\.9[78]", decision.reason)
            assert (payload["sign"], payload["mark"]) == ("✗", "worse")


def test_labels_that_came_after_a_decision_are_later_ones(tmp_path: Path) -> None:
    """Where 30 of 40 items were labelled when two versions were first shown; also after a restart, in either order."""
    session = session_of(tmp_path, [set(range(8)), set()], n_labels=30)
    assert decision_of(session) is not None
    versions = [session.runs.against, session.runs.current]
    assert not session.labels.is_later(versions, "c")
    for at in range(30, 40):
        session.label(f"i{at}", TRUTH[f"i{at}"])
    session.labels.count_annotator(session.labels.annotator, counts=True)
    assert session.labels.is_later(versions[::-1], "c")
    again = session_of(tmp_path, [], n_labels=30)
    assert again.labels.is_later(versions, "c")
    assert not again.labels.is_later(versions, "another")


def test_versions_that_judge_the_criterion_alike_count_once(tmp_path: Path) -> None:
    session = session_of(tmp_path, [{0}, {1}, {2}, {3}])
    assert n_tried(session) == 4
    decision = decision_of(session)
    assert decision is not None
    assert "nterval widened for 4 versions (Bonferroni)" in decision.reason
    # another version that asks of this criterion what the last one asked
    session.drafts.edit(lambda base, draft: rebase(base, {**draft.to_dict(), "description": "Of the whole rubric"}))
    if session.drafts.draft.prompt_hashes["c"] == RUBRIC.edit("c", description="v4").prompt_hashes["c"]:
        session.run()
        assert (len(session.history.versions), n_tried(session)) == (5, 4)


def test_a_run_that_was_stopped_and_a_judge_that_gave_no_answer(tmp_path: Path) -> None:
    session = session_of(tmp_path, [{0}])
    rubric = RUBRIC.edit("c", description="half")
    ek.record(table(10), rubric, JUDGE, [["2", "2"]] * 10, overwrite=True)
    session = session_of(tmp_path / "b", [{0}], offline=True)
    session.drafts.edit(lambda base, _draft: rebase(base, rubric.to_dict()))
    session.run()
    decision = decision_of(session)
    assert decision is not None
    assert (decision.kind, decision.verdict) == ("stopped", "Not finished: 20 of 80 judgments.")
    assert decision.reason == "With offline=True no judge is called: open the tuner without it to ask for the rest."

    silent = ek.Judge("openai", "y", name="y", base_url="http://127.0.0.1:9/v1")
    session = Session(
        table(N), RUBRIC, [JUDGE, silent], samples=2, recorded="use", folder=tmp_path / "c", labels=labels(N), retries=0
    )
    session.run()
    decision = decision_of(session)
    assert decision is not None
    assert (decision.kind, decision.action) == ("no answer", "run")
    assert decision.verdict == "Cannot tell: one of two judges gave no answer."
    assert decision.then.startswith("y: no connection to http://127.0.0.1:9")  # the words of the server
    assert decision.reason.endswith("press Run; the others are not asked again.")
    assert "the log" not in decision.reason


@pytest.mark.parametrize(("fixed_held_out", "kind"), [(True, "confirmed"), (False, "held-out")])
def test_held_out_labels_confirm_or_do_not(tmp_path: Path, fixed_held_out: bool, kind: str) -> None:
    n = 200
    session = session_of(tmp_path, [set(range(60))], n=n)
    parts = session.label_log.table.set_index("item_id")["part"]
    held = {int(item[1:]) for item in parts.index[parts == "held-out"]}
    wrong = set() if fixed_held_out else held & set(range(60))
    edited = RUBRIC.edit("c", description="better on dev")
    replies(edited, JUDGE, wrong, n)
    session.drafts.edit(lambda base, _draft: rebase(base, edited.to_dict()))
    session.run()
    first = decision_of(session)
    assert first is not None
    assert first.kind in ("keep", "chance")
    assert "onfirm" not in str(first)
    for about in ("x y overall c", "x  c"):  # the keys of two versions, or of one, and a criterion
        session.labels.looks[about] = {"number": 3}
        assert "against v1; 3 looks" not in str(decision_of(session)) or about == "x  c"
    session.labels.looks.clear()
    session.look_held_out()
    decision = decision_of(session)
    assert decision is not None
    if kind == "held-out":
        assert decision.verdict.startswith("Do not keep v1.")
        assert decision.then.startswith(
            "On the held-out labels of 75 items it is not shown to be better than v1 (0.00 ["
        )
        assert "This was look 1 at the held-out labels" in decision.reason
    else:
        assert decision.kind == first.kind
        if decision.kind == "keep":
            assert re.search(
                r"the held-out labels confirm it \(\+0\.\d\d \[0\.\d\d, 0\.\d\d\], look 1\)", decision.reason
            )
    session.runs.show(session.runs.against, session.runs.current)
    other = decision_of(session)
    assert other is not None
    assert "n the held-out labels of" not in str(other), "the look was at the other version"
    session.runs.show(session.runs.against, session.runs.current)
    assert decision_of(session) == decision
    look = session.look
    session.save(tmp_path)
    assert session.look == look, "the saved version is the same"
    again = Session(
        table(n), RUBRIC, [JUDGE], labels=labels(n), samples=2, recorded="use", folder=tmp_path, name=session.name
    )
    again.runs.show(again.runs.current, again.runs.against)
    assert again.look == look, "it is not gone after a restart, and no look is needed to see it again"


def test_while_judges_are_asked() -> None:
    decision = running(361, 882, "v4")
    assert (decision.verdict, decision.then) == (
        "Running: 361 of 882 replies.",
        "The figures are those of v4 until then.",
    )
    assert decision_texts(decision)["kind"] == "running"
    assert running(0, 1, "") == Decision("running", "Running: 0 of 1 reply.", "", decision.reason)


def test_strip_matrix_filters_and_sentence_count_the_same(tmp_path: Path) -> None:
    """Whatever labels there are (of several people, disputed, picked, of one who has just begun), whatever changes.

    That is the wording, or only the pass rule, which leaves all replies as they are.
    """
    draw = random.Random(41)
    for case in range(14):
        n = draw.randint(20, 30)
        wrong = [set(draw.sample(range(n), draw.randint(2, 8))) for _ in range(2)]
        is_rule = case % 2
        session = session_of(tmp_path / str(case), wrong[: 2 - is_rule], n=n)
        if is_rule:
            edited = RUBRIC.edit("c", pass_at=1)
            session.drafts.edit(lambda base, _draft, rubric=edited: rebase(base, rubric.to_dict()))
            session.run()
        for at in range(n):
            for who, chance in (("bob", 0.5), ("new", 0.2)):
                if draw.random() < chance:
                    session.labels.annotator = who
                    source = draw.choice(["given", "random", "disputed", "picked"])
                    session.label(f"i{at}", draw.choice("012"), source=source)
        if draw.random() < 0.5:
            session.labels.count_annotator("bob")
        figures, page = figures_payload(session), page_of(session.rows(), Query())
        row, _ = session.change() or (None, "")
        assert row is not None
        assert (page.counts["fixed"], page.counts["broke"]) == (row["fixed"], row["broke"]), case
        tile = next(one for one in figures["tiles"] if one["title"] == "Changed")
        assert tile["moved"] == f"▲ {row['fixed']} fixed ▼ {row['broke']} broke on dev labels"
        used = session.labels.used("c", session.evaluation)  # type: ignore[arg-type]
        assert sum(cell["n"] for cell in figures["cells"]) == len(used)
        shown = {
            (item, who): label for one in session.rows() for item in [one.item_id] for who, label in one.people.items()
        }
        assert len(shown) == len(session.labels.log.table)  # all labels stand in the table
        if is_rule and row["effect"]:
            assert figures["decision"]["verdict"] != "No difference that matters."
        elif is_rule and not row["changed"]:
            assert figures["decision"]["verdict"] == "No difference that matters."


def test_a_few_calls_that_failed_change_no_decision_after_save_and_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVALKIT_RUBRICS", str(tmp_path / "rubrics"))
    fails = {"now": set[str]()}

    def ask(prompt: Any) -> str:
        if prompt.inputs["answer"] in fails["now"]:
            raise TimeoutError("the server is busy")
        item = prompt.inputs["answer"].removeprefix("text ")
        right = int(TRUTH[item]) if int(item[1:]) % 3 or "better" in prompt.texts[1] else 2 - int(TRUTH[item])
        return str(right)

    judge = ek.Judge.function(ask, name="x", version="1")
    options = {"samples": 1, "folder": tmp_path, "name": "t", "retries": 0}
    tuner = ek.RubricTuner(table(60), RUBRIC, judge, labels(40), **options)
    tuner.run()
    tuner.edit("c", scale={1: "better"})
    fails["now"] = {"text i1"}
    tuner.run()
    first = tuner.session.evaluation
    assert first is not None
    assert first.judgments["error"].notna().sum() == 1
    verdicts = [str(decision_of(tuner.session))]
    tuner.save()
    verdicts.append(str(decision_of(tuner.session)).replace("v2", "v1.1"))
    again = ek.RubricTuner(table(60), RUBRIC, judge, labels(40), **options)
    assert again.wait_idle(300)
    verdicts.append(str(decision_of(again.session)).replace("v2", "v1.1"))
    assert len(set(verdicts)) == 1, verdicts
    assert "Not finished" not in verdicts[0]
    # half of the calls are another matter, and items that were skipped are no calls
    fails["now"] = {f"text i{at}" for at in range(0, 60, 2)}
    again.edit("c", scale={1: "better so"})
    again.run()
    of_run = decision_of(again.session)
    assert of_run is not None
    again.save()  # gives the same replies another name
    assert str(decision_of(again.session)) == str(of_run).replace("v2.1", "v3")
    restarted = ek.RubricTuner(table(60), RUBRIC, judge, labels(40), **options)
    assert restarted.wait_idle(300)
    assert str(decision_of(restarted.session)).startswith("Not finished: 30 of 60 judgments.")


def test_fixed_and_broken_are_by_the_pass_rule_of_the_version_shown(tmp_path: Path) -> None:
    """Passing from 2 on, then from 1 on; people say 1, 1, 0, 2 and the jury 1, 0, 1, 1."""
    items = table(4)
    ek.record(items, RUBRIC, JUDGE, [["1"], ["0"], ["1"], ["1"]], overwrite=True)
    given = pd.DataFrame(
        {"item_id": items["item_id"], "criterion": "c", "annotator": "ann", "label": ["1", "1", "0", "2"]}
    )
    options: dict[str, Any] = {"samples": 1, "recorded": "use", "folder": tmp_path, "labels": given}
    session = Session(items, RUBRIC, [JUDGE], **options)
    session.run()
    session.drafts.edit(lambda base, _: rebase(base, RUBRIC.edit("c", pass_at=1).to_dict()))
    session.run()
    # people pass i0, i1 and i3 by the new rule; the jury fails all, then passes i0, i2 and i3
    assert [row.change for row in session.rows()] == ["fixed", "", "broke", "fixed"]
    row, _ = session.change() or (None, "")
    assert row is not None
    assert (row["fixed"], row["broke"], row["changed"], row["n_paired"]) == (2, 1, 3, 4)
    # by the old rule people pass i3 alone
    assert row["effect_by_before_rule"] == pytest.approx((1 - 2) / 4)
    moved = [session.alignment(key)["accuracy"] for key in (session.runs.against, session.runs.current)]  # type: ignore[index]
    assert moved[1] - moved[0] == pytest.approx(row["effect"])


def test_same_replies_under_other_rules_weights_and_aggregates(tmp_path: Path) -> None:
    """A sentence about them rests on verdicts against people, by the newer rule, in strip, chips and sentence."""
    rng, kinds = random.Random(41), set[str]()
    for at in range(12):
        n, levels, n_judges = rng.choice([25, 40]), rng.choice([3, 5]), rng.choice([1, 2, 3])
        says = [[rng.randrange(levels) for _ in range(n)] for _ in range(n_judges)]
        ids = [f"i{number}" for number in range(n)]
        items = pd.DataFrame({"item_id": ids, "answer": [f"text {number}" for number in range(n)]})
        judges = [
            ek.Judge("openai", f"x{k}", name=f"j{k}", base_url=f"http://127.0.0.1:9/{at}") for k in range(n_judges)
        ]
        scale = {level: f"level {level}" for level in range(levels)}
        first = ek.Rubric(
            id="r",
            inputs=["answer"],
            template="number@v1",
            criteria=[{"name": "c", "description": "v1", "scale": scale, "pass_at": levels - 1}],
        )
        people = [
            (item, "c", who, str(min(levels - 1, max(0, says[0][number] + rng.choice([0, 0, 1, -1])))))
            for who in "abd"[: rng.choice([1, 2, 3])]
            for number, item in enumerate(ids)
            if rng.random() < 0.8
        ]
        given = pd.DataFrame(people, columns=["item_id", "criterion", "annotator", "label"])
        change = rng.choice(["rule", "set", "weight", "aggregate", "rule and aggregate", "level", "better"])
        second = first
        if "rule" in change:
            second = first.edit("c", pass_at=rng.randrange(1, levels - 1))
        elif change == "better":
            second = first.edit("c", better="low")
        elif change == "set":
            second = first.edit("c", pass_at=None, pass_if=rng.sample(range(levels), rng.randrange(1, levels)))
        elif change == "level":
            second = first.edit("c", pass_at=1, scale={levels - 1: None})
        for judge, codes in zip(judges, says, strict=True):
            ek.record(items, first, judge, [[str(code)] for code in codes], overwrite=True)
            if change == "level":  # people's labels of the level that is gone count in no comparison
                lower = [[str(min(code, levels - 2))] for code in codes]
                ek.record(items, second, judge, lower, overwrite=True)
        session = Session(items, first, judges, given, recorded="use", folder=tmp_path / str(at), samples=1)
        session.run()
        session.drafts.edit(lambda base, _draft, rubric=second: rebase(base, rubric.to_dict()))
        weights = {judge.name: 5.0 if change == "weight" and not k else 1.0 for k, judge in enumerate(judges)}
        rules = ["median", "min", "max", "majority"]
        session.drafts.set_jury(weights, 1, rng.choice(rules) if "aggregate" in change else "mean")
        session.run()
        before, after = session.runs.compared, session.evaluation
        if before is None or after is None:
            assert len(session.history.versions) == 1  # the draw changed nothing
            continue
        row, _ = session.change() or (None, "")
        decision = decision_of(session)
        assert row is not None
        assert decision is not None
        on_both = [one for one in people if change != "level" or one[-1] != str(levels - 1)]
        sides = [side.scores.loc[side.scores["passed"].notna(), ["item_id", "passed"]] for side in (before, after)]
        verdicts = [dict(table.to_numpy().tolist()) for table in sides]

        def counts(rule: ek.Rubric, said: Any = on_both, passed: Any = verdicts) -> tuple[int, int, int]:
            """Fixed, broke and compared, with people's labels by the rule of one version for both."""
            votes: dict[str, list[int]] = {}
            for item, _, _, label in said:
                votes.setdefault(item, []).append(1 if rule.criterion("c").scale.passed(int(label)) else -1)
            truth = {item: sum(of_item) > 0 for item, of_item in votes.items() if sum(of_item)}
            both = truth.keys() & passed[0].keys() & passed[1].keys()
            moved = [item for item in both if passed[0][item] != passed[1][item]]
            n_fixed = sum(passed[1][item] == truth[item] for item in moved)
            return n_fixed, len(moved) - n_fixed, len(both)

        fixed, broke, n_both = counts(after.rubric)
        assert (row["fixed"], row["broke"], row["n_paired"]) == (fixed, broke, n_both), change
        chips = [one.change for one in session.rows()]
        assert (chips.count("fixed"), chips.count("broke")) == (fixed, broke), change
        n_moved = sum(
            bool(one.change) and one.change[:7] not in ("verdict", "label a", "label l") for one in session.rows()
        )
        assert n_moved == row["changed"], change
        if change == "level":
            session.runs.show(session.runs.against, session.runs.current)  # and back
            back = [one.change for one in session.rows()]
            assert (back.count("broke"), back.count("fixed")) == counts(before.rubric)[:2]  # now by the other rule
            continue
        is_same = decision.then.endswith("have the same replies, and the same verdicts.")
        assert is_same == (not fixed and not broke and not row["changed"])
        is_new_rule = "rule" in change or change in ("set", "better")
        assert ("labels count by the pass rule of v1.1, for v1 too" in decision.reason) == is_new_rule
        other = counts(before.rubric)
        # never by one reading of the labels alone
        assert (fixed - broke) * (other[0] - other[1]) > 0 or decision.kind not in ("keep", "drop")
        by_other_rule = pytest.approx((other[0] - other[1]) / other[2] if is_new_rule else math.nan, nan_ok=True)
        assert row["effect_by_before_rule"] == by_other_rule
        given_to = {"labels": given, "rows": "jury"}
        of_compare = ek.compare(before, after, across_modes=True, **given_to)
        assert (of_compare.table["fixed"].item(), of_compare.table["broke"].item()) == (fixed, broke)
        in_words = of_compare.decisions["c"].replace("'after'", "v1.1").split()
        assert in_words[:2] == decision.verdict.split()[:2], change
        kinds.add(f"{change} {decision.kind}")
    assert len(kinds) >= 4, kinds


def two_criteria(folder: Path, rng: random.Random, n: int = 120) -> tuple[Session, list[dict[str, list[int]]]]:
    """Three versions, each an edit of one criterion of the first or of none, and the verdicts of each by criterion."""

    def criteria(texts: dict[str, str]) -> list[dict[str, Any]]:
        scales = {name: {0: "no", 1: f"{name} {text}"} for name, text in texts.items()}
        return [{"name": name, "description": "?", "scale": scale, "pass_at": 1} for name, scale in scales.items()]

    texts = [{"a": "v1", "b": "v1"}, {"a": "better", "b": "v1"}, {"a": "better", "b": "better"}]
    first = ek.Rubric(id="two", inputs=["answer"], criteria=criteria(texts[0]))
    truth = {name: [rng.randrange(2) for _ in range(n)] for name in "ab"}
    said = {(name, text): [one ^ (rng.random() < share) for one in truth[name]]
            for name in "ab" for text, share in (("v1", 0.4), ("better", rng.choice([0.05, 0.3])))}  # fmt: skip

    def ask(prompt: Any) -> str:
        name, text = prompt.texts[1].split()
        return json.dumps({"score": int(said[name, text][int(prompt.inputs["answer"].split()[1])])})

    rows = [(f"i{at}", name, who, str(truth[name][at] ^ (rng.random() < 0.1)))
            for name in "ab" for who in ("ann", "ben", "eve") for at in range(n)]  # fmt: skip
    given = pd.DataFrame(rows, columns=["item_id", "criterion", "annotator", "label"])
    items = pd.DataFrame({"item_id": [f"i{at}" for at in range(n)], "answer": [f"text {at}" for at in range(n)]})
    judge = ek.Judge.function(ask, name="f", version=str(folder))
    session = Session(items, first, [judge], samples=1, folder=folder, cache=folder, labels=given)
    for names in texts:
        edits = criteria(names)
        session.drafts.edit(lambda base, _draft, edits=edits: rebase(base, first.edit(criteria=edits).to_dict()))
        session.run()
    return session, [{name: said[name, text] for name, text in names.items()} for names in texts]


def test_looks_count_per_criterion_and_decide_until_the_next_one(tmp_path: Path) -> None:
    """Versions x criteria x labels x looks in random order; what was looked at is known from a plain list."""
    n_same = n_since = 0
    for seed in range(2):
        rng = random.Random(seed)
        session, verdicts = two_criteria(tmp_path / str(seed), rng)
        keys, numbers = list(session.history.versions), dict[Any, int]()
        last: dict[Any, Any] = {}
        for who in ("ben", "eve"):
            session.labels.count_annotator(who, counts=False)
        people = {"ann"}
        for _ in range(16):
            now, against = rng.sample(range(3), 2)
            session.criterion = name = rng.choice("ab")
            session.runs.show(keys[now], keys[against])
            if rng.random() < 0.2 and (who := rng.choice(["ben", "eve"])):
                people ^= {who}
                session.labels.count_annotator(who, counts=who in people)
            sides = tuple(map(tuple, (verdicts[now][name], verdicts[against][name])))
            decision = decision_of(session)
            assert decision is not None
            if sides[0] == sides[1]:
                assert (decision.kind, f"the same verdicts on {name!r}" in decision.then) == ("same", True)
                with pytest.raises(InputError, match="nothing was looked at"):
                    session.look_held_out()
                assert decision_of(session) == decision
                n_same += 1
                continue
            if (name, sides) in last:  # the result does not vanish
                number, difference, before, was_dropped = last[name, sides]
                assert (session.look["number"], session.look["difference"]) == (number, difference)
                assert (decision.kind == "held-out") == was_dropped
                assert "not looked at" not in str(decision)
                is_other = before != frozenset(people)
                assert ("look again" in session.look.get("since", "")) == is_other
                if is_other and len(before) != len(people):
                    more = len(people) - len(before)
                    word = "added" if more > 0 else "taken away"
                    assert f"labels were {word}" in session.look["since"]
                    n_since += 1
            elif decision.kind == "keep":
                assert "held-out labels: not looked at with" in decision.reason
            if rng.random() < 0.5:
                session.look_held_out()
                number = numbers.setdefault((name, sides, frozenset(people)), 0)
                numbers[name, sides, frozenset(people)] = number or sum(key[0] == name for key in numbers)
                assert session.look["number"] == numbers[name, sides, frozenset(people)]
                after = decision_of(session)
                assert after is not None
                dropped = after.kind == "held-out"
                last[name, sides] = session.look["number"], session.look["difference"], frozenset(people), dropped
    assert min(n_same, n_since) >= 2


def test_chance_is_measured_of_what_is_asked_and_on_the_criterion_shown(tmp_path: Path) -> None:
    session, _ = two_criteria(tmp_path, random.Random(1), n=60)
    (first, second, third), repeats = session.history.versions, session.repeats
    session.runs.show(third, first)  # both criteria are asked in another way
    assert repeats.price("a").startswith("at most 60 requests on 60 items")
    assert repeats.price().startswith("at most 120 requests on 60 items")
    repeats.sizes[second] = {"a": 60, "b": 60}
    assert repeats.measured(first) == {"b": 60}, "the first two ask b alike"
    assert repeats.measured(third) == {"a": 60}
    repeats.prices.clear()
    assert (repeats.price("b"), repeats.price("a")[:19]) == ("", "at most 60 requests")
    with pytest.raises(InputError, match="nothing to measure"):
        repeats.measure(criterion="b")


@pytest.mark.parametrize("per_call", [1, "all"])
def test_where_a_prompt_holds_several_criteria_an_edit_of_one_is_another_prompt_for_all(
    tmp_path: Path, per_call: Any
) -> None:
    """Versions counted, looks and chance, against a plain list of what each version asks."""
    n, rng = 130, random.Random(46)
    truth = [rng.randrange(2) for _ in range(n)]
    noise = random.Random(47)

    def ask(prompt: Any) -> str:
        at, right = int(prompt.inputs["answer"].split()[1]), 0.6 if "v0" in prompt.texts[1] else 0.9
        return json.dumps(
            {name: {"score": truth[at] ^ (noise.random() > right)} for name in "ab"} | {"score": truth[at]}
        )

    judge = ek.Judge.function(ask, name="f", version="1", max_tokens=2000)
    criteria = [{"name": name, "description": f"Is {name} v0?", "scale": {0: "no", 1: "yes"}, "pass_at": 1}
                for name in "ab"]  # fmt: skip
    rubric = ek.Rubric(id="two", inputs=["answer"], criteria=criteria)
    items = pd.DataFrame({"item_id": [f"i{at}" for at in range(n)], "answer": [f"text {at}" for at in range(n)]})
    given = pd.DataFrame({"item_id": items["item_id"], "criterion": "a", "annotator": "ann", "label": map(str, truth)})
    options: dict[str, Any] = {"samples": 2, "criteria_per_call": per_call, "folder": tmp_path, "cache": tmp_path}
    tuner = ek.RubricTuner(items, rubric, judge, given, **options)
    session, asked = tuner.session, []
    for step in range(5):
        texts = [f"v{rng.randrange(2)}" if step else "v0" for _ in "ab"]
        for name, text in zip("ab", texts, strict=True):
            tuner.edit(name, description=f"Is {name} {text}?")
        tuner.run()
        asked = [*asked, *({tuple(texts)} - {*asked})]
    assert len(asked) >= 3
    keys, of_a = list(session.history.versions), [texts if per_call == "all" else texts[0] for texts in asked]
    assert n_tried(session) == len({*of_a})
    for now, then in itertools.permutations(range(len(asked)), 2):
        session.runs.show(keys[now], keys[then])
        is_same = of_a[now] == of_a[then]
        decision = decision_of(session)
        assert decision is not None
        assert (decision.kind == "same" and "same replies" in decision.then) == is_same
        if is_same:
            continue
        assert session.look == {}  # nothing was looked at with two that ask this
        if session.floor_missing:
            assert session.repeats.price("a").startswith("at most ")
            assert session.repeats.measure(criterion="a").startswith("chance measured on ")
        assert not session.floor_missing
        session.look_held_out()
        look = session.look
        for one, other in itertools.permutations(range(len(asked)), 2):
            session.runs.show(keys[one], keys[other])
            assert (session.look == look) == ((of_a[one], of_a[other]) == (of_a[now], of_a[then]))
        session.labels.looks.clear()


def test_the_copied_code_counts_the_labels_of_each_version_and_criterion(tmp_path: Path) -> None:
    """Two criteria, a level that one version lacks, people with few labels of one criterion and many of the other."""
    kinds = set[bool]()
    for seed in range(6):
        rng, n, folder = random.Random(seed), 40, tmp_path / str(seed)
        said = {(name, at): rng.randrange(3) for name in "ab" for at in range(n)}

        def ask(prompt: Any, said: Any = said) -> str:
            question = re.search(r"Is ([ab]) up to (\d)", str(prompt))
            assert question
            return json.dumps(
                {"score": min(int(question[2]), said[question[1], int(prompt.inputs["answer"].split()[1])])}
            )

        def criteria(*highest: int) -> list[dict[str, Any]]:
            tops = zip("ab", highest, strict=True)
            return [{"name": name, "description": f"Is {name} up to {top}?", "pass_at": 1,
                     "scale": dict(enumerate(["no", "nearly", "yes"][: top + 1]))} for name, top in tops]  # fmt: skip

        rubric = ek.Rubric(id="two", inputs=["answer"], criteria=criteria(2, 2))
        items = pd.DataFrame({"item_id": [f"i{at}" for at in range(n)], "answer": [f"text {at}" for at in range(n)]})
        people = [(f"i{at}", name, who, str(rng.randrange(3))) for name in "ab" for who in ("ann", "ben", "eve")
                  for at in rng.sample(range(n), rng.choice([4, 9, 13, 30]))]  # fmt: skip
        given = pd.DataFrame(people, columns=["item_id", "criterion", "annotator", "label"])
        judge = ek.Judge.function(ask, name="f", version=str(seed))
        tuner = ek.RubricTuner(items, rubric, judge, given, samples=1, folder=folder, cache=folder)
        tuner.run()
        edited = rubric.edit(criteria=criteria(rng.choice([1, 2]), rng.choice([1, 2])), description=f"of {seed}")
        tuner.session.drafts.edit(lambda base, _, edited=edited: rebase(base, edited.to_dict()))
        tuner.run()
        session, code, place = tuner.session, tuner.code(), {"items": items, "f": judge}
        assert "# f: the judge 'f' that was passed" in code
        lines, compare = code.rstrip().rsplit("\n", 1)
        exec(lines, place, place)
        compared = eval(compare, place).table
        for session.criterion in "ab":
            names = ["accuracy", "accuracy_low", "n_labelled", "n_annotators"]
            for name, key in (("ev", session.runs.current), ("last", session.runs.against)):
                figures, table = session.alignment(key), place[name].alignment
                row = table[(table["criterion"] == session.criterion).to_numpy()].iloc[0]
                assert figures is not None
                assert row[names].to_list() == pytest.approx(figures[names].to_list(), nan_ok=True), (seed, name)
            change, _ = session.change() or (None, "")
            row = compared[(compared["criterion"] == session.criterion).to_numpy()].iloc[0]
            assert change is not None
            names = ["fixed", "broke", "n_paired", "effect", "effect_low"]
            assert row[names].to_list() == pytest.approx(change[names].to_list(), nan_ok=True), seed
        kinds.add("labels['of']" in code)
    assert kinds == {True, False}


def test_the_sentence_says_on_how_many_of_the_labelled_items_both_have_a_verdict(tmp_path: Path) -> None:
    """Two judges tie on the same items in both versions: the verdicts are as many, and not of all labelled items."""
    rng = random.Random(46)
    for number in range(4):
        judges = [ek.Judge("openai", f"t{k}", name=f"t{k}", base_url=f"http://127.0.0.1:9/{number}") for k in range(2)]
        tied = set(rng.sample(range(N), rng.choice([0, 1, 6])))
        options: dict[str, Any] = {"samples": 1, "recorded": "use", "folder": tmp_path / str(number)}
        session, wrong = Session(table(N), RUBRIC, judges, labels(N), **options), [set(range(12)), set(range(3))]
        for at, places in enumerate(wrong):
            rubric = RUBRIC if not at else RUBRIC.edit("c", description="v2")
            replies(rubric, judges[0], places, samples=1)
            replies(rubric, judges[1], places ^ tied, samples=1)
            session.drafts.edit(lambda base, _, rubric=rubric: rebase(base, rubric.to_dict()))
            session.run()
        words = f"On {N - len(tied)} dev items" if tied else ""
        assert ("dev items" in str(decision_of(session)), words in str(decision_of(session))) == (bool(tied), True)


def test_labels_between_levels_are_counted_beside_the_matrix_and_for_each_version(tmp_path: Path) -> None:
    """Means of people have no verdict by any pass rule; no version loses them from what it is compared with."""
    rng = random.Random(46)
    for number in range(3):
        said = [rng.choice("012") for _ in range(N)]
        items = table(N)
        people = [(item, "c", who, rng.choice(["0", "1", "2", "1.5", "0.5", "true", "false"]))
                  for item in items["item_id"] for who in "xy" if rng.random() < 0.8]  # fmt: skip
        given = pd.DataFrame(people, columns=["item_id", "criterion", "annotator", "label"])
        ek.record(items, RUBRIC, JUDGE, [[code] for code in said], overwrite=True)
        options: dict[str, Any] = {"samples": 1, "recorded": "use", "folder": tmp_path / str(number), "labels": given}
        session = Session(items, RUBRIC, [JUDGE], **options)
        session.run()
        session.drafts.edit(lambda base, _: rebase(base, RUBRIC.edit("c", pass_at=1).to_dict()))
        session.run()
        figures, rows = figures_payload(session), [session.alignment(key) for key in session.history.versions]
        n_means = int(given["label"].isin(["1.5", "0.5"]).sum())
        assert (figures["between"], sum(cell["n"] for cell in figures["cells"])) == (n_means, len(given) - n_means)
        assert [row["n_labelled"] for row in rows if row is not None] == [given["item_id"].nunique()] * 2


@pytest.mark.parametrize("word", ["not sure", "?"])
def test_words_of_a_level_that_was_removed_are_no_means_of_people(word: str, tmp_path: Path) -> None:
    items = table(12)
    words = [word] * 3 + ["no", "yes"] * 4 + ["yes"]
    given = pd.DataFrame({"item_id": items["item_id"], "criterion": "c", "annotator": "x", "label": words})
    scale = {"no": "", "yes": "", word: ""}
    question = {"name": "c", "scale": scale, "level": "nominal", "pass_if": ["yes"]}
    rubric = ek.Rubric(id="r", inputs=["answer"], criteria=[question])
    edited = rubric.edit("c", scale={word: None})
    ek.record(items, edited, JUDGE, [["no"]] * 12, overwrite=True)
    session = Session(items, rubric, [JUDGE], samples=1, recorded="use", folder=tmp_path, labels=given)
    session.drafts.edit(lambda base, _: rebase(base, edited.to_dict()))
    session.run()
    figures = figures_payload(session)
    assert (figures["between"], figures["off_scale"]) == (0, 3)  # words of a removed level
    assert sum(cell["n"] for cell in figures["cells"]) == 9
