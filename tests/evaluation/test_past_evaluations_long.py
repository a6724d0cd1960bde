"""The log of evaluations: what `history` lists, and what `open_evaluation` builds again from stored replies."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import warnings
from types import SimpleNamespace

import pandas as pd
import pytest
from cache_setup import python, ran

import evalkit as ek
from evalkit.cli.main_command import main
from evalkit.core.prompts_and_replies import Reply
from evalkit.engine.cache import ReplyStore
from evalkit.errors import CacheMiss, EvalkitWarning, InputError
from evalkit.evaluation import open_evaluation
from evalkit.rubrics.prompt_builder import load_template

JURY = ["fake:strict", "fake:lenient"]
FIGURES = ["mean", "low", "high", "pass_rate", "pass_low", "pass_high", "n_scored", "n_items"]


@pytest.fixture(scope="module")
def example() -> tuple[pd.DataFrame, pd.DataFrame]:
    items, labels = ek.load_example("support")
    items = items.head(8)
    return items, labels[labels["item_id"].isin(items["item_id"])]


def same(opened: ek.Evaluation, made: ek.Evaluation) -> bool:
    """Whether two evaluations have equal judgments and scores."""
    columns = [name for name in made.judgments if name != "source"]
    return opened.judgments[columns].equals(made.judgments[columns]) and opened.scores.equals(made.scores)


def ids() -> list[str]:
    return list(ek.history()["evaluation"])


# --- what is listed


def test_history_lists_each_evaluation_with_its_figures(example) -> None:
    items, labels = example
    assert ek.history().empty
    assert list(ek.history().columns[:4]) == ["evaluation", "time", "rubric", "rubric_version"]
    started = pd.Timestamp.now("UTC")
    first = ek.evaluate(items, "faithfulness", JURY, samples=2, vote="median")
    second = ek.evaluate(items, "relevancy", "fake:strict", samples=1, labels=None)
    table = ek.history()
    assert table[["rubric", "judges", "samples", "n_items"]].values.tolist() == [
        ["relevancy", "fake:strict", 1, 8],
        ["faithfulness", "fake:strict, fake:lenient", 2, 8],
    ]
    for row, made in ((0, second), (1, first)):
        expected = made.summary.loc[0, FIGURES].astype(float)
        assert table.loc[row, FIGURES].astype(float).to_dict() == pytest.approx(expected.to_dict(), nan_ok=True)
    assert table.loc[1, "disagreement"] == pytest.approx(first.disagreement["disagreement"].mean())
    assert (table.loc[1, "template"], table.loc[1, "rubric_version"]) == ("default@v1", "v1")
    assert table.loc[1, "rules"].startswith("vote median, ")
    assert table["accuracy"].isna().all()
    assert table["n_compared"].isna().all()
    assert table["time"].between(started, pd.Timestamp.now("UTC")).all()
    labelled = ek.evaluate(items, "faithfulness", JURY, samples=2, vote="median", labels=labels)
    agreement = labelled.alignment.iloc[0]
    row = ek.history().iloc[0]
    assert (row["accuracy"], row["kappa"]) == pytest.approx((agreement["accuracy"], agreement["kappa"]))
    assert row["n_compared"] == agreement["n_verdicts"]


def test_every_criterion_has_a_row(example) -> None:
    talk = [{"conversation": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]}]
    ek.evaluate(talk, "conversation_quality", "fake:strict", samples=1)
    table = ek.history()
    assert list(table["criterion"]) == list(ek.load_rubric("conversation_quality").names)
    assert table["evaluation"].nunique() == 1


def test_the_same_evaluation_again_adds_nothing(example) -> None:
    items, labels = example
    ek.evaluate(items, "faithfulness", JURY, labels=labels)
    before = ek.history()
    ek.evaluate(items.iloc[::-1], "faithfulness", JURY, labels=labels.iloc[::-1])
    ek.evaluate(items, "faithfulness", JURY, labels=labels, offline=True)
    pd.testing.assert_frame_equal(ek.history(), before)
    ek.evaluate(items, "faithfulness", JURY, labels=labels.iloc[1:])
    ek.evaluate(items, "faithfulness", JURY, labels=labels, aggregate="median")
    ek.evaluate(items.head(7), "faithfulness", JURY, labels=labels)
    assert len(ids()) == 4


def test_what_was_paid_is_listed(example) -> None:
    items, _ = example
    reply = Reply('{"explanation": "so", "score": 2}', prompt_tokens=1000, completion_tokens=1000)
    judge = ek.Judge.function(lambda _: reply, name="mine", version="1", price=(1.0, 2.0))
    ek.evaluate(items, "faithfulness", judge, samples=1)
    row = ek.history().iloc[0]
    assert row["judges"] == "mine (function:mine@1)"
    assert (row["paid_usd"], row["cost_usd"]) == pytest.approx((8 * 0.003, 8 * 0.003))
    ek.evaluate(items, "faithfulness", judge, samples=1, vote="median")  # from the cache
    row = ek.history().iloc[0]
    assert (row["paid_usd"], row["cost_usd"]) == pytest.approx((0, 8 * 0.003))


def test_without_any_reply_nothing_is_written(example, tmp_path) -> None:
    folder = tmp_path / "cache"
    ek.evaluate(example[0], "faithfulness", JURY, offline=True, cache=folder)
    ek.evaluate([], "faithfulness", JURY, cache=folder)
    assert not folder.exists()
    assert ek.history(folder).empty


def test_runs_of_the_tuner_are_listed(example, tmp_path) -> None:
    tuner = ek.RubricTuner(example[0], "faithfulness", "fake:strict", folder=tmp_path)
    tuner.run()
    assert ek.history()[["rubric", "judges"]].values.tolist() == [["faithfulness", "fake:strict"]]


def test_runs_of_the_tuner_are_listed_with_the_agreement_that_it_shows(example, tmp_path) -> None:
    items, labels = example
    tuner = ek.RubricTuner(items, "faithfulness", JURY, labels, folder=tmp_path)
    tuner.run()
    row, jury = ek.history().iloc[0], tuner.alignment.iloc[0]
    assert row["n_compared"] == jury["n_verdicts"] == 8
    assert row[["accuracy", "kappa"]].tolist() == pytest.approx(jury[["accuracy", "kappa"]].tolist())
    again = ek.RubricTuner(items, "faithfulness", JURY, folder=tmp_path)  # shows the version without running it
    assert again.wait_idle(300)
    assert len(ek.history()) == 1


# --- opened again


def test_an_evaluation_is_opened_from_the_store(example) -> None:
    items, labels = example
    rubric = ek.load_rubric("faithfulness")
    edited = rubric.edit("faithfulness", scale={1: "Nothing contradicts the context, one claim is not in it."})
    before = ek.evaluate(items, rubric, JURY, labels=labels)
    after = ek.evaluate(items, edited, JURY, labels=labels, quorum=1.0)
    newest, oldest = (open_evaluation(name, items, labels) for name in ids())
    assert same(oldest, before)
    assert same(newest, after)
    assert (newest.rubric.label, newest.rules, newest.spec.judges) == (
        after.rubric.label,
        after.rules,
        after.spec.judges,
    )
    assert newest.alignment.equals(after.alignment)
    assert str(ek.compare(oldest, newest)) == str(ek.compare(before, after))
    assert ek.notebook.JudgmentBrowser(newest).rows[0].item_id in set(items["item_id"])
    assert len(ids()) == 2, "opening is not judging"


def test_replies_that_came_later_do_not_count(example) -> None:
    items, _ = example
    answers = iter([0] * 8 + [2] * 8)
    judge = ek.Judge.function(
        lambda _: json.dumps({"explanation": "so", "score": next(answers)}), name="mine", version="1"
    )
    first = ek.evaluate(items, "faithfulness", judge, samples=1, concurrency=1)
    second = ek.evaluate(items, "faithfulness", judge, samples=1, refresh=True)
    assert (first.scores["score"].mean(), second.scores["score"].mean()) == (0, 2)
    newest, oldest = (open_evaluation(name, items) for name in ids())
    assert same(oldest, first)
    assert same(newest, second)


def test_settings_of_every_kind_are_restored(example, tmp_path) -> None:
    items, _ = example
    rubric = ek.load_rubric("faithfulness")
    folder = tmp_path / "templates" / "own"
    folder.mkdir(parents=True)
    source = load_template("default@v1").source
    (folder / "v1.jinja").write_text(source.replace("no message", "no hidden message"), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVALKIT_RUBRICS", str(tmp_path))
        own = ek.evaluate(items, rubric, ["fake:strict", ek.Judge("fake", "lenient", name="x", template="own@v1")])
    shutil.rmtree(folder)
    ek.judge(items, rubric, "fake:noisy", samples=1)
    saved = rubric.edit("faithfulness", pass_at=1).save(tmp_path)
    adopted = ek.evaluate(items, saved, "fake:noisy", samples=1, adopt=True)
    ek.record(items, rubric, "openai:m", [['{"explanation": "so", "score": 1}'] * (1 + at % 4) for at in range(8)])
    recorded = ek.evaluate(items, rubric, "openai:m", offline=True)
    pair = [{"question": "2 + 2?", "answer_a": "4", "answer_b": "5", "context": "4", "reference": "4"}]
    pairwise = ek.evaluate(pair, "preference", "fake:first", samples=1)
    assert adopted.judgments["source"].eq("cache").all()
    assert recorded.samples == 4
    for name, made in zip(reversed(ids()), (own, adopted, recorded, pairwise), strict=True):
        assert same(open_evaluation(name, made.items), made)


def test_columns_of_other_names_and_skipped_items_are_opened_as_they_were(example) -> None:
    items, _ = example
    odd = items.rename(columns={"answer": "response"})
    odd.loc[2, "response"] = None
    made = ek.evaluate(odd, "faithfulness", JURY, samples=2, inputs={"answer": "response"}, on_missing="skip")
    (name,) = ids()
    assert same(open_evaluation(name, odd), made)
    again = odd.rename(columns={"response": "text"})
    assert same(open_evaluation(name, again, inputs={"answer": "text"}), made)
    assert ek.evaluate(again, "faithfulness", JURY, samples=2, inputs={"answer": "text"}, on_missing="skip") is not None
    assert ids() == [name], "the same evaluation, whatever the columns are called"
    with pytest.raises(InputError, match="inputs= maps 'answer' to column 'response', which the items do not have"):
        open_evaluation(name, again)


def test_a_run_that_stopped_is_opened_as_it_was(example) -> None:
    items, _ = example
    part = ek.evaluate(items, "faithfulness", "fake:strict", samples=1, max_calls=3)
    whole = ek.evaluate(items, "faithfulness", "fake:strict", samples=1)
    assert part.judgments["error"].eq("budget").sum() == 5
    newest, oldest = (open_evaluation(name, items) for name in ids())
    assert same(newest, whole)
    assert list(oldest.judgments["score"].isna()) == list(part.judgments["score"].isna())


def test_what_is_missing_is_named(example) -> None:
    items, _ = example
    ek.evaluate(items, "faithfulness", "fake:strict", samples=1)
    ek.evaluate(items.head(5), "faithfulness", "fake:strict", samples=1)
    name = ids()[1]
    with pytest.raises(InputError, match=r"these 7 items are not those of evaluation \w{10}; pass the items that were"):
        open_evaluation(name, items.head(7))
    changed = items.assign(answer=["another", *items["answer"].iloc[1:]])
    with pytest.raises(InputError, match=f"nothing is stored for '{items['item_id'].iloc[0]}'"):
        open_evaluation(name, changed)
    with pytest.raises(InputError, match=r"evaluation 'xyz' not found in .*; available: '\w{10}', '\w{10}'"):
        open_evaluation("xyz", items)
    with pytest.raises(InputError, match=r"evaluation '%' not found"):
        open_evaluation("%", items)
    ReplyStore.open().prune(model="strict", apply=True)
    with pytest.raises(CacheMiss, match=r"8 of 8 replies of evaluation \w{10} are no longer in the cache at .*pruned"):
        open_evaluation(name, items)


def test_an_id_may_be_shortened_unless_several_start_with_it(example) -> None:
    items, _ = example
    made = [ek.evaluate(items, "faithfulness", "fake:strict", samples=k) for k in range(1, 18)]  # 17 ids, 16 digits
    names = ids()
    shared = next(name[0] for name in names if sum(other[0] == name[0] for other in names) > 1)
    with pytest.raises(
        InputError, match=f"several evaluations have an id that begins with '{shared}' in .*: '{shared}"
    ):
        open_evaluation(shared, items)
    assert same(open_evaluation(names[-1][:9], items), made[0])


def test_other_scores_than_then_are_a_warning(example, monkeypatch) -> None:
    items, _ = example
    ek.evaluate(items, "faithfulness", "fake:strict", samples=1)
    with sqlite3.connect(ReplyStore.open().path) as connection:
        connection.execute("UPDATE replies SET value = replace(CAST(value AS TEXT), 'score', 'scored')")
    connection.close()
    with pytest.warns(
        EvalkitWarning, match=r"evaluation \w{10} has other scores now than at the time when it was made"
    ):
        open_evaluation(ids()[0], items)


# --- no reason to fail, nothing secret


def test_a_read_only_store_has_no_log_and_no_complaint(example, tmp_path, monkeypatch) -> None:
    items, _ = example
    ek.judge(items, "faithfulness", JURY, cache=tmp_path)
    monkeypatch.setattr("evalkit.engine.cache.opened_stores.os", SimpleNamespace(access=lambda *_: False, W_OK=os.W_OK))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = ek.evaluate(items, "faithfulness", JURY, cache=tmp_path)
    assert made.judgments["score"].notna().all()
    assert ek.history(tmp_path).empty


def test_a_log_that_cannot_be_written_does_not_end_the_evaluation(example, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(ReplyStore, "log_evaluation", fail)
    assert ek.evaluate(example[0], "faithfulness", JURY).judgments["score"].notna().all()
    assert ek.history().empty


def test_the_log_holds_no_texts_of_items_and_no_keys(example, monkeypatch) -> None:
    key = "sk-of-the-history-0123456789abcdef"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    items, labels = example
    rubric = ek.load_rubric("faithfulness").edit("faithfulness", scale={1: f"as in https://me:pw@host/ with {key}"})
    ek.evaluate(items, rubric, "fake:strict", samples=1, labels=labels)
    assert len(ids()) == 1
    with sqlite3.connect(ReplyStore.open().path) as connection:
        (texts,) = connection.execute("SELECT summary || settings FROM evaluations").fetchall()
    connection.close()
    assert key not in texts[0]
    assert "me:pw" not in texts[0]
    for name in ("question", "answer", "item_id"):
        assert not [text for text in items[name] if text in texts[0]]
    assert len(texts[0]) < 10_000


EVALUATE = """
import sys
import evalkit as ek
items, labels = ek.load_example("support")
print("ready", flush=True)
sys.stdin.readline()
ek.evaluate(items, "faithfulness", ["fake:strict", "fake:lenient"], cache=sys.argv[1], labels=labels, progress=False)
ek.evaluate(items, "faithfulness", "fake:" + sys.argv[2], cache=sys.argv[1], progress=False)
"""


def test_two_processes_log_at_once(tmp_path) -> None:
    processes = [python(EVALUATE, tmp_path, persona) for persona in ("strict", "lenient")]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    assert sorted(ek.history(tmp_path)["judges"]) == ["fake:lenient", "fake:strict", "fake:strict, fake:lenient"]


KILLED = """
import os, signal, sys
import evalkit as ek
from evalkit.engine.cache import ReplyStore
ReplyStore.log_evaluation = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
items, _ = ek.load_example("support")
ek.evaluate(items, "faithfulness", "fake:strict", cache=sys.argv[1], progress=False)
"""
AGAIN = """
import sys
import evalkit as ek
items, _ = ek.load_example("support")
made = ek.evaluate(items, "faithfulness", "fake:strict", cache=sys.argv[1], progress=False)
print(made.cost.n_live)
"""


def test_a_kill_between_replies_and_log_loses_nothing(tmp_path) -> None:
    process = python(KILLED, tmp_path)
    process.communicate(timeout=300)
    assert process.returncode == -9
    assert ek.history(tmp_path).empty
    assert ran(AGAIN, tmp_path) == "0\n"
    assert len(ek.history(tmp_path)) == 1


# --- on the command line


def test_the_commands_evaluate_and_report_are_listed(example, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    example[0].to_json("items.jsonl", orient="records", lines=True)
    judging = ["items.jsonl", "--judge", "fake", "--cache", "there", "--quiet"]
    assert main(["evaluate", *judging, "--rubric", "faithfulness"]) == 0
    assert main(["report", *judging, "--rubric", "relevancy", "--out", "r.html"]) == 0
    past = ek.history("there")
    assert past[["rubric", "n_items"]].to_numpy().tolist() == [["relevancy", 8], ["faithfulness", 8]]
    assert past["accuracy"].isna().all()


def test_the_browser_shows_an_evaluation_with_its_own_rules(example) -> None:
    items, _ = example
    made = ek.evaluate(items, "faithfulness", JURY, aggregate="min")
    rows = ek.notebook.JudgmentBrowser(open_evaluation(ids()[0], items)).rows
    scores = made.scores.set_index("item_id")["score"]
    mean = ek.evaluate(items, "faithfulness", JURY).scores.set_index("item_id")["score"]
    assert {row.item_id: float(row.jury) for row in rows} == scores.to_dict() != mean.to_dict()


def test_show_puts_what_one_looks_for_on_one_line_each():
    items, labels = ek.load_example("support")
    ek.evaluate(items, "faithfulness", ["fake:strict", "fake:lenient"], samples=1, labels=labels)
    ek.evaluate(items[:5], "helpfulness", "fake:strict", samples=1)
    text = str(ek.show(ek.history(), width=210))
    assert len(text.splitlines()) == 4
    assert re.search(
        r"^\w{10}  \d{4}-\d\d-\d\d \d\d:\d\d  faithfulness@v1  fake:strict, fake:lenient .* 22  24 of 24  ",
        text,
        re.MULTILINE,
    )
    assert "template" not in text
    assert max(map(len, str(ek.show(ek.history())).splitlines())) <= 80
    assert ek.show(ek.history())._repr_html_().count("<tr>") == 3
