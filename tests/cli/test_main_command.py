"""The command line inside one process: every command, what it prints where, and its exit code."""

import argparse
import inspect
import io
import json
import os
import re
import time
import tomllib
from pathlib import Path

import orjson
import pandas as pd
import pytest
from commandline import ITEMS, LABELS, ROOT, write_lines
from pictures import png, url_of
from servers import judge_server

import evalkit as ek
from evalkit import tables
from evalkit.cli import main
from evalkit.cli.arguments import Parser, moment, options_of
from evalkit.cli.doctor import EXTRAS
from evalkit.cli.main_command import parse_arguments, parser_of_commands
from evalkit.core.formatting import Bill, text_table
from evalkit.core.settings import Options
from evalkit.errors import ConfigError, InputError, RubricError
from evalkit.evaluation import promote, show
from evalkit.evaluation.freeze_and_calibrate import write_profile
from evalkit.rubrics import load_profile, load_rubric, new_rubric
from evalkit.stats.comparison.comparison_table import Comparison
from evalkit.tables import files, schemas

FAKE = ("--rubric", "faithfulness", "--judge", "fake")


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    write_lines(tmp_path / "items.jsonl", ITEMS)
    write_lines(tmp_path / "labels.jsonl", LABELS)


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]):
    """Exit code, stdout and stderr of a command."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return code, out, err

    return call


@pytest.fixture
def printed(run):
    """What a command that succeeds prints on stdout."""

    def call(*arguments: object) -> str:
        code, out, err = run(*arguments)
        assert code == 0, err
        return out

    return call


@pytest.fixture
def refused(run):
    """The one line that a command says which ends with 2 and prints nothing."""

    def call(*arguments: object) -> str:
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        return one_line(err)

    return call


def one_line(err: str) -> str:
    """The only line of stderr."""
    lines = err.splitlines()
    assert len(lines) == 1, err
    return lines[0]


# -- the whole way


def test_images_are_read_from_a_file_or_refused_by_name(run, tmp_path: Path) -> None:
    scale = "criteria: [{name: red, scale: {0: 'No.', 1: 'Yes.'}}]"
    (tmp_path / "picture.yaml").write_text(f"id: picture\nversion: v1\ninputs: [image]\n{scale}\n")
    write_lines(tmp_path / "shots.jsonl", [{"item_id": "a", "image": "shots/a.png"}])
    code, _, err = run("judge", "shots.jsonl", "--rubric", "picture.yaml", "--judge", "fake:strict")
    assert code != 0
    assert "input 'image': got 'shots/a.png'; expected an image" in err
    write_lines(tmp_path / "shots.jsonl", [{"item_id": "a", "image": url_of(png())}])
    command = ("judge", "shots.jsonl", "--rubric", "picture.yaml", "--judge", "fake:strict", "-o", "judged.jsonl")
    code, _, err = run(*command)
    assert "no judge is shown images" in err
    assert tables.read_table(tmp_path / "judged.jsonl", "judgments")["error"].unique().tolist() == ["unseen_image"]


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
@pytest.mark.long
def test_tables_through_files_are_those_of_the_python_calls(run, form: str) -> None:
    judges = ["fake:strict", "fake:noisy", "fake:broken"]
    flags = [word for judge in judges for word in ("--judge", judge)]
    names = {name: f"{name}.{form}" for name in ("judgments", "alignment", "jury")}
    names |= {name: f"o/{name}.{form}" for name in ("votes", "scores", "summary")}
    rules = ("--vote", "majority", "--aggregate", "median")
    steps = [
        ("judge", "items.jsonl", "--rubric", "faithfulness", *flags, "--samples", 3, "-o", names["judgments"]),
        ("evaluate", "--judgments", names["judgments"], *rules, "--out", "o", "--format", form),
        ("align", names["votes"], "labels.jsonl", "-o", names["alignment"]),
        ("align", names["scores"], "labels.jsonl", "-o", names["jury"]),
    ]
    for step in steps:
        code, out, err = run(*step)
        assert code == 0, err
        if step[0] == "evaluate":
            continue
        assert out == ""
        assert f"rows to {step[-1]}" in err or f"1 row to {step[-1]}" in err

    judgments = ek.judge(ek.load_items("items.jsonl"), "faithfulness", judges, samples=3)
    votes = ek.vote(judgments, method="majority")
    scores = ek.aggregate(votes, method="median")
    labels = tables.read_table("labels.jsonl", "labels")
    assert judgments["error"].notna().any(), "fake:broken leaves something unscored"
    expected = {
        "judgments": judgments.assign(source="live"),
        "votes": votes,
        "scores": scores,
        "summary": ek.summarize(scores),
    }
    for name, table in expected.items():
        read = tables.read_table(names[name], name)
        wanted = schemas.check(table, name)
        if form == "csv":  # a cell of a CSV file is text: what is no column of the contract stays so
            read, wanted = read[schemas.columns_of(name)], wanted[schemas.columns_of(name)]
        if name == "judgments":
            read, wanted = read.assign(source="live"), wanted  # asked by the command, cached for the Python call
        pd.testing.assert_frame_equal(plain(read), plain(wanted), rtol=1e-12)
    for name, judged in {"alignment": votes, "jury": scores}.items():
        wanted = ek.align(judged, labels)
        read = tables.read_frame(names[name])
        assert read["judge"].tolist() == wanted["judge"].tolist()
        figures = ["accuracy", "kappa", "spearman", "bias", "n_scored"]
        given = read[figures].replace("", None).astype(float)
        pd.testing.assert_frame_equal(given, wanted[figures].astype(float), rtol=1e-12)


def plain(table: pd.DataFrame) -> pd.DataFrame:
    """Cells as plain values, None for what is missing."""
    rows = list(files.records(table))
    return pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=object) for name in table.columns})


@pytest.mark.long
def test_compare_finds_what_evaluations_differ_in(run, refused) -> None:
    for judge, folder in (("fake:lenient", "a"), ("fake:strict", "b")):
        code, *_ = run(
            "evaluate", "items.jsonl", "--rubric", "faithfulness", "--judge", judge, "--out", folder, "--quiet"
        )
        assert code == 0
    items = ek.load_items("items.jsonl")
    wanted = ek.compare(*(ek.evaluate(items, "faithfulness", judge) for judge in ("fake:lenient", "fake:strict")))
    code, out, err = run("compare", "a", "b", "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert (found["before"], found["after"]) == (wanted.before, wanted.after)
    assert found["table"] == json.loads(orjson.dumps(list(files.records(wanted.table))))
    code, out, _ = run("compare", "a", "b")
    assert (code, out.splitlines()[0].startswith("before: faithfulness@v1, judge fake:lenient")) == (0, True)
    assert "(or folders of 'evalkit evaluate --out')" in refused("compare", "a/judgments.jsonl", "b/judgments.jsonl")
    code, out, err = run("compare", "a", "b", "-o", "changes.csv")
    assert (code, out) == (0, "")
    assert len(tables.read_frame("changes.csv")) == len(wanted.table)


@pytest.mark.long
@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_compare_takes_groups_from_the_items_in_its_folders(run, form) -> None:
    items = ek.load_items("items.jsonl")
    groups = [f"g{at // 3}" for at in range(len(items))]
    files.write_frame(items.assign(group_id=groups), "grouped.jsonl")
    for judge, folder in (("fake:lenient", "a"), ("fake:strict", "b")):
        options = ("--rubric", "faithfulness", "--judge", judge, "--out", folder, "--format", form, "--quiet")
        assert run("evaluate", "grouped.jsonl", *options)[0] == 0
    (row,) = json.loads(run("compare", "a", "b", "--json")[1])["table"]
    assert row["n_clusters"] == len(set(groups)) < row["n_common"]


@pytest.mark.long
def test_fail_on_worse_is_the_only_failure_of_compare(run) -> None:
    # 24 items whose score falls from 2 to 0: sign-flip and McNemar are far below .05; the other way they rise.
    rows = [{**ITEMS[0], "item_id": f"x{at}", "answer": "Goods are taken back for 30 days."} for at in range(24)]
    items = pd.DataFrame(rows).assign(question=[f"How long, {at}?" for at in range(24)])
    good = ek.evaluate(items, "faithfulness", "fake:strict").judgments
    bad = good.assign(score=0.0, score_norm=0.0, passed=False, label="0")
    files.write_frame(good, "good.jsonl")
    files.write_frame(bad, "bad.jsonl")
    code, _, err = run("compare", "good.jsonl", "bad.jsonl", "--fail-on-worse")
    assert (code, one_line(err)) == (1, "evalkit: after is worse than before: faithfulness")
    assert run("compare", "good.jsonl", "bad.jsonl")[0] == 0
    assert run("compare", "bad.jsonl", "good.jsonl", "--fail-on-worse")[0] == 0
    assert run("compare", "good.jsonl", "good.jsonl", "--fail-on-worse")[0] == 0
    # people say that all of these answers invent: then the fall is right
    write_lines(Path("people.jsonl"), [{"item_id": f"x{at}", "a": 0} for at in range(24)])
    arguments = ("--labels", "people.jsonl", "--label", "faithfulness=a")
    assert run("compare", "good.jsonl", "bad.jsonl", "--fail-on-worse", *arguments)[0] == 0
    assert run("compare", "bad.jsonl", "good.jsonl", "--fail-on-worse", *arguments)[0] == 1
    code, _, err = run("compare", "good.jsonl", "bad.jsonl", "--label", "faithfulness=a")
    assert code == 2
    assert "--labels" in err


@pytest.mark.long
@pytest.mark.parametrize("lost", ["before", "after", "both"])
def test_the_gate_of_compare_is_shut_where_too_little_was_compared(run, lost: str) -> None:
    row = {"question": "How long?", "context": ["The shop takes goods back for 30 days."], "answer": "30 days."}
    items = [row | {"item_id": f"x{at}", "question": f"How long, {at}?"} for at in range(30)]
    good = ek.judge(items, "faithfulness", "fake:first", samples=1)
    good = good.assign(score=2.0, score_norm=1.0, passed=True, label="2")
    bad = good.assign(score=0.0, score_norm=0.0, passed=False, label="0")
    for n_lost, reason in ((0, ""), (1, "off_scale"), (14, "timeout"), (15, "server_error"), (30, "rate_limited")):
        holes = {"score": None, "score_norm": None, "passed": None, "label": None, "error": reason}
        sides = {}
        for side, table in (("before", good), ("after", bad)):
            sides[side] = table.astype(dict.fromkeys(holes, object))
            if lost in (side, "both"):
                sides[side].loc[good["item_id"].isin([f"x{at}" for at in range(n_lost)]), list(holes)] = [
                    *holes.values()
                ]
            files.write_frame(sides[side], f"{side}.jsonl")
        code, _, err = run("compare", "before.jsonl", "after.jsonl", "--fail-on-worse")
        # all answers broke: what is compared shows it, if it is more than half
        assert code == (1 if 2 * n_lost < 30 else 2), (n_lost, err)
        assert code == 1 or f"{30 - n_lost} of 30 items could be compared; more than half must" in err
        same = ek.compare(sides["before"], sides["before"])
        assert (same.worse, bool(same.undecided)) == ([], lost != "after" and 2 * n_lost >= 30)
    assert run("compare", "before.jsonl", "after.jsonl")[0] == 0, "nothing was asked of it"


@pytest.mark.long
@pytest.mark.parametrize("judges", [1, 3])
def test_too_few_items_to_find_anything_worse_are_told(judges: int) -> None:
    names = ["fake:strict", "fake:lenient", "fake:first"][:judges]
    items = [{"item_id": f"x{at}", "answer": "a", "question": f"q{at}", "context": "c"} for at in range(9)]
    table = ek.judge(items, "faithfulness", names, samples=1)
    for n in range(1, 10):
        first = table[table["item_id"].isin([f"x{at}" for at in range(n)])]
        good = first.assign(score=2.0, score_norm=1.0, passed=True, label="2")
        compared = ek.compare(good, first.assign(score=0.0, score_norm=0.0, passed=False, label="0"))
        # by hand: mid-p of n that broke and none that was fixed is 1/2^n; by Holm over the judges: times their number
        is_enough = judges * 0.5**n <= 0.05
        assert bool(compared.worse) == is_enough
        why = [f"faithfulness, {name}: {n} item{'s' * (n > 1)}, too few for a p of 0.05, whatever" for name in names]
        assert [text.removesuffix(" they show") for text in compared.undecided] == ([] if is_enough else why)


@pytest.mark.parametrize("text", ["", "\n", "item_id,judge,score\n"], ids=["nothing", "blank", "head"])
def test_a_table_without_rows_is_an_error_for_every_command_that_reads_one(
    run, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    assert run("judge", "items.jsonl", *FAKE, "-o", "full.jsonl")[0] == 0
    name = "none.csv" if "," in text else "none.jsonl"
    Path(name).write_text(text)
    commands = [
        ["align", name, "labels.jsonl"],
        ["compare", name, "full.jsonl"], ["compare", "full.jsonl", name, "--fail-on-worse"], ["compare", name, name],
        ["compare", "full.jsonl", "full.jsonl", "--floor", name], ["evaluate", "--judgments", name],
        ["report", "--judgments", "full.jsonl", "--baseline", name, "-o", "page.html"],
        ["judge", name, *FAKE], ["evaluate", name, *FAKE], ["plan", name, *FAKE],
    ]  # fmt: skip
    for command in commands:
        code, _, err = run(*command)
        assert code == 2, (command, err)
        assert any(words in err for words in ("has no rows", "no items", "missing (it has")), (command, err)
    if not text:
        for command in (["align", "-", "labels.jsonl"], ["evaluate", "--judgments", "-"]):
            monkeypatch.setattr("sys.stdin", argparse.Namespace(buffer=io.BytesIO()))
            assert run(*command)[::2] == (2, "evalkit: error: stdin has no rows\n")


def worse(table: pd.DataFrame) -> list[str]:
    return Comparison("a", "b", table, Bill(0.0, 0, 0), Bill(0.0, 0, 0), 0, 0).worse


def test_a_jurys_row_counts_where_there_is_one() -> None:
    row = {"criterion": "c", "effect": -0.5, "mcnemar_p_holm": 0.01, "mean_difference": -0.5, "sign_flip_p_holm": 0.01}
    same = row | {"effect": 0.0, "mean_difference": 0.0, "mcnemar_p_holm": 1.0, "sign_flip_p_holm": 1.0}
    both = pd.DataFrame([row | {"judge": "one"}, same | {"judge": "jury"}]).assign(against="verdicts")
    assert worse(both) == []
    assert worse(both.iloc[:1]) == ["c"]
    assert worse(both.iloc[:0]) == []


# -- judge, plan, evaluate


def test_judge_shows_a_table_and_says_what_it_cost(run) -> None:
    code, out, err = run("judge", "items.jsonl", *FAKE, "--samples", 2)
    assert code == 0
    assert "faithfulness@v1 · faithfulness · fake:strict · 8 rows" in out
    assert one_line(err).startswith("evalkit: 8 judgments: 8 asked now")
    code, out, err = run("judge", "items.jsonl", *FAKE, "--samples", 2, "--quiet", "--rows", 3)
    assert (code, err) == (0, "")
    assert "the first 3 of 8 rows" in out


def test_unscored_rows_are_reported_with_advice_and_do_not_fail(run, refused) -> None:
    code, out, err = run("judge", "items.jsonl", "--rubric", "faithfulness", "--judge", "openai:m", "--offline")
    assert code == 0
    assert "cache_miss" in out
    said = [line for line in err.splitlines() if "unscored" in line]
    assert said == [
        (
            "evalkit: unscored: 12 (100%) of openai:m, cache_miss (item i0, i1, i2, …): "
            "not in the cache: run without offline, or import the replies"
        )
    ]
    assert "12 of 12 judgments are not in the cache" in refused(
        "judge", "items.jsonl", *FAKE, "--offline", "--on-miss", "raise"
    )


def test_rates_are_shown_with_the_number_of_their_verdicts(run) -> None:
    names = [word for judge in ("fake:strict", "fake:broken") for word in ("--judge", judge)]
    run("evaluate", "items.jsonl", "--rubric", "faithfulness", *names, "--samples", 2, "--out", "o", "--quiet")
    table = ek.align(tables.read_table("o/votes.jsonl", "votes"), tables.read_table("labels.jsonl", "labels"))
    words = run("align", "o/votes.jsonl", "labels.jsonl")[1].split()
    assert "n_verdicts" in words
    assert {str(n) for n in table["n_verdicts"]} <= {*words}


def test_json_is_one_document_without_nan(printed) -> None:
    out = printed("judge", "items.jsonl", "--rubric", "faithfulness", "--judge", "openai:m", "--offline", "--json")
    rows = json.loads(out, parse_constant=pytest.fail)
    assert len(rows) == 12
    assert rows[0]["score"] is None
    assert rows[0]["error"] == "cache_miss"
    assert list(rows[0])[:4] == ["rubric", "rubric_version", "item_id", "criterion"]


@pytest.mark.long
def test_out_dash_is_jsonl_that_the_next_command_reads(run, printed, monkeypatch: pytest.MonkeyPatch) -> None:
    out = printed("judge", "items.jsonl", *FAKE, "-o", "-", "--quiet")
    assert len([json.loads(line) for line in out.splitlines()]) == 12
    Path("piped").write_text(out, encoding="utf-8")
    with Path("piped").open(encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        out = printed("evaluate", "--judgments", "-", "--json")
    assert (json.loads(out)["n_judgments"], json.loads(out)["samples"]) == (12, 3)
    with Path("labels.jsonl").open(encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        code, _, err = run("evaluate", "--judgments", "-")
    assert code == 2
    assert one_line(err).startswith("evalkit: error: stdin: not a judgments table")


@pytest.mark.long
def test_plan_counts_what_is_to_be_asked(run) -> None:
    run("judge", "items.jsonl", *FAKE, "--samples", 1, "--quiet")
    code, out, err = run("plan", "items.jsonl", *FAKE, "--samples", 3, "--json")
    found = json.loads(out)
    # 4 items × 3 samples = 12, of which 4 × 1 are stored
    assert (code, err, found["n_items"], found["n_to_call"]) == (0, "", 4, 8)
    assert found["judges"][0]["n_cached"] == 4
    code, out, _ = run("plan", "items.jsonl", *FAKE)
    assert out.startswith("4 items, 12 judgments: 4 cached (33%), 8 to call")
    assert re.search("^rubric +faithfulness@v1 +flag --rubric$", out, re.MULTILINE)
    assert found["settings"]["rubric"] == {"value": "faithfulness@v1", "source": "flag --rubric"}
    run("freeze", "p.yaml", *FAKE, "--quiet")
    found = json.loads(run("plan", "items.jsonl", "--profile", "p.yaml", "--json")[1])
    assert found["settings"]["rubric"]["source"] == "profile p@1"


@pytest.mark.long
def test_evaluate_writes_every_table_and_prints_the_figures(run) -> None:
    arguments = ("evaluate", "items.jsonl", *FAKE, "--judge", "fake:lenient", "--labels", "labels.jsonl")
    code, out, err = run(*arguments, "--out", "all", "--format", "parquet")
    assert code == 0
    assert "Judges against people" in out
    assert "wrote 9 tables to all" in err
    names = ["items", "judgments", "votes", "scores", "rubric_scores", "summary", "disagreement", "reliability"]
    assert {path.name for path in Path("all").iterdir()} == {
        "settings.json",
        *(f"{name}.parquet" for name in [*names, "alignment"]),
    }
    wanted = ek.evaluate(
        ek.load_items("items.jsonl"),
        "faithfulness",
        ["fake:strict", "fake:lenient"],
        labels=tables.read_table("labels.jsonl", "labels"),
    )
    code, out, _ = run(*arguments, "--json")
    found = json.loads(out)
    assert found["n_judgments"] == 24
    assert found["rules"]["vote"] == "mean"
    assert found["summary"][0]["mean"] == pytest.approx(wanted.summary["mean"].iloc[0])
    assert [row["judge"] for row in found["alignment"]] == ["jury", "fake:strict", "fake:lenient"]
    pd.testing.assert_frame_equal(plain(pd.read_parquet("all/scores.parquet")), plain(wanted.scores), check_dtype=False)


@pytest.mark.long
def test_judgments_that_exist_already_are_evaluated_without_calls(run) -> None:
    arguments = (*FAKE, "--judge", "fake:lenient")
    run("judge", "items.jsonl", *arguments, "-o", "j.jsonl", "--quiet")
    expected = json.loads(run("evaluate", "items.jsonl", *arguments, "--labels", "labels.jsonl", "--json")[1])
    for items in ((), ("items.jsonl",)):
        code, out, err = run("evaluate", *items, "--judgments", "j.jsonl", "--labels", "labels.jsonl", "--json")
        result = json.loads(out)
        assert (code, result["n_items"], result["n_judgments"], err) == (0, 4, 24, "")
        assert [result[name] for name in ("summary", "alignment")] == [
            expected[name] for name in ("summary", "alignment")
        ]
    code, out, _ = run("evaluate", "--judgments", "j.jsonl", "--vote", "majority", "--aggregate", "min", "--out", "all")
    settings = json.loads(Path("all/settings.json").read_text(encoding="utf-8"))
    assert (code, settings["rules"]["vote"], settings["rules"]["aggregate"]) == (0, "majority", "min")
    assert run("report", "--judgments", "j.jsonl", "--out", "r.html") == (0, "", "evalkit: wrote r.html\n")
    for page in (out, Path("r.html").read_text(encoding="utf-8")):
        assert all(text in page for text in ("Judges among themselves", "24 asked live", "not an LLM")), page
        assert "asked now" not in page
    code, _, err = run("evaluate", "--judgments", "j.jsonl", "--judge", "fake", "--samples", 2)
    assert (code, "calls no judges; remove --judge, --samples" in one_line(err)) == (2, True)
    code, _, err = run("evaluate", *FAKE)
    assert (code, "name the file of items to judge, or pass --judgments FILE" in one_line(err)) == (2, True)


@pytest.mark.long
def test_labels_in_columns_are_those_of_the_table(run, refused) -> None:
    rows = [item | {"x": int("2002"[at]), "y": int("2012"[at])} for at, item in enumerate(ITEMS)]
    write_lines(Path("labelled.jsonl"), rows)
    run("evaluate", "items.jsonl", *FAKE, "--out", "o", "--quiet")
    _, table, _ = run("align", "o/votes.jsonl", "labels.jsonl", "--json")
    code, columns, _ = run("align", "o/votes.jsonl", "labelled.jsonl", "--label", "faithfulness=x,y", "--json")
    assert code == 0
    named = columns.replace("(x: ", "(ann1: ").replace("(y: ", "(ann2: ")  # a note names who has few other answers
    assert json.loads(named) == json.loads(table)
    code, out, _ = run("evaluate", "labelled.jsonl", *FAKE, "--label", "faithfulness=x,y", "--json")
    assert json.loads(out)["alignment"][0]["accuracy"] == json.loads(table)[0]["accuracy"]
    code, _, err = run("evaluate", "labelled.jsonl", *FAKE, "--label", "faithfulness=x", "--labels", "labels.jsonl")
    assert code == 2
    assert "--labels (a table) and --label (columns of the items) contradict each other" in err
    assert "the items have no column 'z'" in refused("evaluate", "labelled.jsonl", *FAKE, "--label", "faithfulness=z")


@pytest.mark.long
def test_groups_are_the_units_of_intervals(run, refused) -> None:
    write_lines(Path("grouped.jsonl"), [item | {"group_id": f"g{at // 2}"} for at, item in enumerate(ITEMS)])
    run("evaluate", "items.jsonl", *FAKE, "--out", "o", "--quiet")
    _, out, _ = run("align", "o/votes.jsonl", "labels.jsonl", "--items", "grouped.jsonl", "--json")
    assert json.loads(out)[0]["n_clusters"] == 2
    assert "takes the groups from the column 'group_id', which" in refused(
        "align", "o/votes.jsonl", "labels.jsonl", "--items", "items.jsonl"
    )


# -- judges


@pytest.mark.long
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ["--judge", "openai"],
            "flag --judge: the judge 'openai' has no model; name openai:MODEL, or pass --judge-model MODEL",
        ),
        (["--judge", "gpt-4o-mini"], "--judge: unknown judge 'gpt-4o-mini'; allowed: none, profile, openai, "),
        (
            ["--judge", "opnai:m"],
            "flag --judge: unknown judge 'opnai:m'; did you mean 'openai'? allowed: none, profile, openai, ",
        ),
        (["--judge", "fake:stern"], "unknown persona 'stern'"),
        (["--judge", "openai:m"], "environment variable OPENAI_API_KEY is not set"),
        (["--judge", "none"], "no profile with judges was passed; pass one, or name a judge"),
        (["--judge", "none", "--profile", "strict"], "no profile with judges was passed"),
        (["--judge", "none", "--judge", "fake"], "and no other --judge flag"),
        (["--judge", "fake", "--judge", "fake:strict"], "are the same"),
        (["--judge", "fake", "--judge-model", "m"], "unknown persona 'm'"),
        (["--judge", "openai:a", "--judge-model", "b"], "flag --judge: judge 'openai:a' cannot be combined with model"),
        (["--judge", "fake", "--judge-base-url", "http://localhost:1"], "runs inside evalkit and has no server"),
        (["--judge", "anthropic:m", "--judge-score", "mode"], "gives no log-probabilities"),
        (["--judge-temperature", "0"], "no judge is named"),
        ([], "no judge is named"),
        (["--judge", "fake", "--concurrency", "0"], "concurrency must be a whole number ≥ 1, not 0"),
        (
            ["--judge", "fake", "--offline", "--refresh"],
            "refresh (call the judges again) and offline (make no calls) contradict each other",
        ),
        (["--judge", "fake", "--template", "nosuch"], "nosuch"),
    ],
)
def test_a_wrong_judge_is_one_line_and_exit_2(run, flags: list[str], said: str) -> None:
    code, out, err = run("judge", "items.jsonl", "--rubric", "faithfulness", *flags)
    assert (code, out) == (2, "")
    assert one_line(err).startswith("evalkit: error: ")
    assert said in err


def test_what_is_judged_must_be_named(refused) -> None:
    assert "pass --rubric ID ('evalkit rubric list' lists the ids), or --profile" in refused(
        "judge", "items.jsonl", "--judge", "fake"
    )
    assert "has no rubric; add one with profile.with_rubric(…) or --rubric" in refused(
        "judge", "items.jsonl", "--judge", "fake", "--profile", "strict"
    )


@pytest.mark.long
def test_flags_change_the_judges_they_name(run, printed) -> None:
    run("judge", "items.jsonl", *FAKE, "--quiet")
    ask = ("plan", "items.jsonl", *FAKE, "--json")
    assert json.loads(run(*ask)[1])["n_to_call"] == 0
    # another temperature or length is another key
    assert json.loads(run(*ask, "--judge-temperature", "0.5")[1])["n_to_call"] == 12
    assert json.loads(run(*ask, "--judge-max-tokens", "none")[1])["n_to_call"] == 12
    # log-probabilities are asked for, once for both readings
    assert json.loads(run(*ask, "--judge-score", "expected")[1])["n_to_call"] == 12
    run("judge", "items.jsonl", *FAKE, "--judge-score", "expected", "--quiet")
    assert json.loads(run(*ask, "--judge-score", "mode")[1])["n_to_call"] == 0
    out = printed(
        *("freeze", "p.yaml", "--rubric", "faithfulness", "--judge", "openai", "--judge-model", "m", "--judge", "fake"),
        *("--judge-base-url", "http://localhost:8000/v1", "--judge-api-key-env", "MINE", "--judge-temperature", "none"),
        "--json",
    )
    first, second = json.loads(out)["judges"]
    assert (first["model"], first["base_url"], first["api_key_env"]) == ("m", "http://localhost:8000/v1", "MINE")
    assert first["temperature"] is None
    assert "base_url" not in second, "what is embedded has no server"
    assert second["temperature"] is None


@pytest.mark.long
def test_judge_none_replays_the_profiles_judges(run, printed) -> None:
    assert run("freeze", "p.yaml", *FAKE, "--samples", 2, "--quiet")[0] == 0
    out = printed("judge", "items.jsonl", "--profile", "p.yaml", "--judge", "none", "--json")
    assert {row["error"] for row in json.loads(out)} == {"cache_miss"}
    run("judge", "items.jsonl", "--profile", "p.yaml", "--quiet")
    out = printed("evaluate", "items.jsonl", "--profile", "p.yaml", "--judge", "none", "--json")
    assert json.loads(out)["cost"] == {
        "paid_usd": 0.0,
        "reused_usd": 0.0,
        "n_live": 0,
        "n_cached": 8,
        "n_recorded": 0,
        "n_missing": 0,
        "known_usd": 0.0,
        "n_unpriced": 0,
    }


def test_freeze_writes_a_profile_once(run, refused) -> None:
    arguments = (*FAKE, "--samples", 5, "--vote", "majority", "--ties", "low", "--aggregate", "min", "--quorum", "1")
    code, out, err = run("freeze", "mine.yaml", *arguments, "--min-self-agreement", "0.6")
    assert code == 0
    assert out == Path("mine.yaml").read_text(encoding="utf-8")
    assert "--profile mine.yaml" in one_line(err)
    profile = load_profile("mine.yaml")
    assert (profile.profile, profile.samples, profile.vote, profile.aggregate) == ("mine", 5, "majority", "min")
    assert (profile.ties, profile.quorum, profile.min_self_agreement) == ("low", 1.0, 0.6)
    before = Path("mine.yaml").read_bytes()
    assert "already exists and is never overwritten" in refused("freeze", "mine.yaml", *arguments)
    assert Path("mine.yaml").read_bytes() == before
    code, _, _ = run("freeze", "strict2.yaml", "--profile", "strict", *FAKE, "--quiet")
    assert code == 0
    assert load_profile("strict2.yaml").aggregate == "min", "the rules of a profile are kept"


def test_a_profile_must_be_called_yaml() -> None:
    with pytest.raises(ConfigError, match="must end in"):
        write_profile("x.txt", "relevancy", "fake")
    assert not Path("x.yaml").exists()


# -- bad input


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"item_id": "a", "question": "q", "answer": "x"}, "needs 1 column that the items do not have: 'context'"),
        ({"item_id": "a", "question": "q", "answer": None, "context": "c"}, "1 of 1 item has no 'answer'"),
        ({"item_id": None, "question": "q", "answer": "x", "context": "c"}, "row 0 has an invalid id"),
    ],
)
def test_bad_items_are_one_line(refused, line: dict, said: str) -> None:
    write_lines(Path("bad.jsonl"), [line])
    assert said in refused("judge", "bad.jsonl", *FAKE, "-o", "out.jsonl")
    assert not Path("out.jsonl").exists()


def test_bad_files_are_one_line(run) -> None:
    Path("nan.jsonl").write_text('{"item_id": "a", "answer": NaN}\n', encoding="utf-8")
    Path("empty.jsonl").write_text("", encoding="utf-8")
    Path("items.txt").write_text("x", encoding="utf-8")
    write_lines(Path("twice.jsonl"), [ITEMS[0], ITEMS[0]])
    for name, said in {
        "nan.jsonl": "line 1: invalid JSON .*; JSON has no NaN or Infinity: write null",
        "empty.jsonl": "has no rows",
        "items.txt": "unknown file format: items.txt; allowed endings: .jsonl",
        "gone.jsonl": "file not found: gone.jsonl",
        "twice.jsonl": "'i0'; pass another column as item_id",
    }.items():
        code, out, err = run("judge", name, *FAKE)
        assert (code, out) == (2, "")
        assert re.search(said, one_line(err)), err


@pytest.mark.long
def test_empty_and_long_answers_are_judged_with_a_warning(run) -> None:
    write_lines(Path("odd.jsonl"), [ITEMS[0] | {"answer": ""}, ITEMS[1] | {"answer": "word " * 400_000}])
    code, out, err = run("judge", "odd.jsonl", *FAKE, "--samples", 1, "--quiet")
    assert code == 0
    assert len(out.splitlines()) == 4
    assert sorted(err.splitlines()) == [
        "evalkit: warning: 1 of 2 items have an empty 'answer' (item 'i0'); it is judged as an empty text",
        (
            "evalkit: warning: 1 of 2 items have more than a million characters in 'answer' (item 'i1'); few judges "
            "read that much, and you pay for all of it; plan shows the cost"
        ),
    ]


@pytest.mark.long
def test_outputs_are_checked_before_anything_is_asked(run, refused) -> None:
    Path("folder").mkdir()
    Path("file").write_text("x", encoding="utf-8")
    for out, said in {
        "items.jsonl": "is an input of this command",
        "./items.jsonl": "is an input of this command",
        "x.xlsx": "unknown file format",
        "file/x.csv": "cannot be written",
    }.items():
        assert said in refused("judge", "items.jsonl", *FAKE, "-o", out)
    assert ek.evaluation.cache_stats()["n_replies"] == 0
    for out in ("x.csv", "file", "-"):
        assert "--out must be a folder" in refused("evaluate", "items.jsonl", *FAKE, "--out", out)
    assert "both go to stdout" in refused("judge", "items.jsonl", *FAKE, "-o", "-", "--json")
    before = Path("items.jsonl").read_bytes()
    run("judge", "items.jsonl", *FAKE, "-o", "again.csv", "--samples", 1)
    assert run("judge", "items.jsonl", *FAKE, "-o", "again.csv", "--samples", 2)[0] == 0, "tables are replaced"
    assert len(tables.read_frame("again.csv")) == 8
    assert Path("items.jsonl").read_bytes() == before


@pytest.mark.parametrize("place", ["file", "closed", "/proc"])
def test_no_command_pays_before_it_knows_that_it_can_write(run, place: str) -> None:
    """A file in place of a folder, a folder without permission, and a file system that takes no files, even of root."""
    Path("file").write_text("x", encoding="utf-8")
    Path("closed").mkdir(mode=0o555)
    if (place == "/proc" and not Path("/proc/self").is_dir()) or (place == "closed" and os.access("closed", os.W_OK)):
        pytest.skip("not here")
    test = {"id": "t", "expected": {"type": "faithfulness", "samples": 1}}
    Path("eval.json").write_text(json.dumps({"tests": [test]}), encoding="utf-8")
    trace = {"schema_version": 1, "type": "verdict.trace", "request_id": "t", "prompt": "How long?", "response": "30."}
    write_lines(Path("traces.jsonl"), [trace | {"context": ["30 days."]}])
    gate = ("--config", "eval.json", "--trace-file", "traces.jsonl")
    rubric = ("items.jsonl", "--rubric", "faithfulness")
    outputs = [
        ("ci", *gate, "--out", f"{place}/x"), ("ci", *gate, "--out", place), ("ci", *gate, "--junit", f"{place}/x.xml"),
        ("ci", *gate, "--markdown", f"{place}/x.md"), ("ci", *gate, "--json", f"{place}/x.json"),
        ("judge", *gate, "-o", f"{place}/x.jsonl"), ("judge", *rubric, "-o", f"{place}/x.csv"),
        ("judge", *rubric, "-o", f"{place}/x/"), ("evaluate", *rubric, "-o", f"{place}/x"),
        ("report", *rubric, "-o", f"{place}/x.html"),
    ]  # fmt: skip
    with judge_server(always={"content": '{"explanation": "e", "score": 2}'}) as server:
        judge = ("--judge", "openai:m", "--judge-base-url", server.url)
        for command in outputs:
            code, _, err = run(*command, *judge)
            assert code == 2, command
            assert "Traceback" not in err
            assert place in err, command
            assert server.seen == [], command
        assert run("ci", *gate, *judge, "--out", "x")[0] == 0
        assert len(server.seen) == 1


def test_a_table_of_another_kind_is_named(run, refused) -> None:
    run("judge", "items.jsonl", *FAKE, "-o", "j.jsonl", "--quiet")
    assert "j.jsonl: this is a judgments table, not votes" in refused("align", "j.jsonl", "labels.jsonl")
    for command in (("compare", "j.jsonl", "labels.jsonl"), ("compare", ".", "j.jsonl")):
        code, _, err = run(*command)
        assert code == 2
        assert "not a judgments table" in err or "was not written by 'evalkit evaluate --out'" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["jugde"],
        ["judge"],
        ["judge", "items.jsonl", "--rub", "x"],
        ["judge", "--refresh", "items.jsonl"],
        ["judge", "items.jsonl", "--judge-max-tokens", "many"],
        ["align", "x", "y", "--unscored", "lots"],
        ["evaluate", "x", "--vote", "max"],
        ["evaluate", "x", "--label", "faithfulness"],
        ["cache"],
        ["cache", "prune", "--older-than", "long ago"],
        ["rubric", "show"],
    ],
)
def test_usage_errors_are_one_line_and_exit_2(run, arguments: list[str]) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert one_line(err).startswith("evalkit: error: ")
    assert "--help" in err


def test_nothing_at_all_shows_the_help(run) -> None:
    code, out, err = run()
    assert (code, out) == (2, "")
    assert "first steps" in err


@pytest.mark.long
def test_every_command_explains_itself(run, printed) -> None:
    out = printed("--help")
    listed = re.findall(r"^    (\w+) ", out, re.MULTILINE)
    assert {"demo", "evaluate", "judge", "plan", "align", "compare"} <= set(listed)
    assert {"freeze", "rubric", "cache", "doctor"} <= set(listed)
    for command in listed:
        code, out, err = run(command, "--help")
        assert (code, err) == (0, "")
        assert f"usage: evalkit {command}" in out
        for inner in re.findall(r"^    (\w+) ", out, re.MULTILINE) if command in ("rubric", "cache") else ():
            assert run(command, inner, "--help")[0] == 0
    assert run("--version")[1] == f"evalkit {ek.__version__}\n"


def _parsers(parser: Parser) -> dict[str, Parser]:
    (commands,) = (action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return dict(commands)


def test_a_command_builds_its_own_parser_as_the_help_of_all_has_it() -> None:
    every = _parsers(parser_of_commands())
    for command, parser in every.items():
        alone = _parsers(parser_of_commands(command))
        assert alone[command].format_help() == parser.format_help()
        assert len(alone) <= 5  # those of its module
    assert list(_parsers(parser_of_commands("comparison"))) == list(every)  # whose error lists all


def test_debug_shows_where_an_error_came_from(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALKIT_DEBUG", "1")
    code, _, err = run("judge", "gone.jsonl", *FAKE)
    assert code == 2
    assert "Traceback" in err
    assert err.splitlines()[-1] == "evalkit: error: file not found: gone.jsonl"


def test_a_fault_of_evalkit_is_shown_in_full_and_is_no_failed_check(run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*_: object, **__: object) -> None:
        raise ZeroDivisionError("at the bottom")

    monkeypatch.setattr(ek, "judge", fault)
    code, _, err = run("judge", "items.jsonl", *FAKE)
    assert code == 2
    assert "ZeroDivisionError: at the bottom" in err
    assert "error in evalkit" in err.splitlines()[-1]


# -- rubrics


def test_rubric_list_and_show(run, refused) -> None:
    code, out, err = run("rubric", "list")
    assert (code, err) == (0, "")
    assert "faithfulness" in out
    code, out, _ = run("rubric", "list", "--json")
    assert {row["id"] for row in json.loads(out)} == set(ek.rubrics.list_rubrics()["id"])
    code, out, _ = run("rubric", "show", "faithfulness")
    assert out.startswith("id: faithfulness\n")
    Path("copy.yaml").write_text(out, encoding="utf-8")
    assert load_rubric(Path("copy.yaml")) == load_rubric("faithfulness")
    code, out, _ = run("rubric", "show", "faithfulness", "--json")
    assert json.loads(out)["criteria"][0]["scale"].keys() == {"0", "1", "2"}
    assert "rubric 'nosuch' not found; available: " in refused("rubric", "show", "nosuch")


@pytest.mark.long
def test_lint_fails_on_errors_alone(run, refused, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("rubric", "lint")[:2] == (0, f"nothing to fix in {len(ek.rubrics.list_rubrics())} rubrics\n")
    text = Path(ek.rubrics.list_rubrics()["path"].iloc[0]).read_text(encoding="utf-8")
    folder = Path("mine/coherence")
    folder.mkdir(parents=True)
    (folder / "v7.yaml").write_text(text.replace("version: v1", "version: v7").replace("pass_at", "pas_at"), "utf-8")
    code, out, err = run("rubric", "lint", folder / "v7.yaml")
    assert (code, err) == (1, "")
    assert re.match(r"error: mine/coherence/v7.yaml: .*unknown key 'pas_at'.* \(allowed: ", out)
    monkeypatch.setenv("EVALKIT_RUBRICS", str(Path("mine").resolve()))
    assert run("rubric", "lint", "coherence")[0] == 1
    assert run("rubric", "lint", "coherence@v7")[0] == 1
    assert run("rubric", "lint")[0] == 1
    assert run("rubric", "lint", "coherence@v1")[0] == 0
    code, out, _ = run("rubric", "lint", "coherence", "--json")
    assert (code, json.loads(out)[0]["severity"]) == (1, "error")
    assert "unknown key 'pas_at'" in refused("judge", "items.jsonl", "--rubric", "coherence", "--judge", "fake")
    assert run("rubric", "lint", "nosuch")[0] == 2, "what is not there was not checked"
    assert run("rubric", "lint", "nosuch.yaml")[0] == 2
    (folder / "v7.yaml").unlink()
    warned = load_rubric("coherence").edit(description="")
    warned.save()
    code, out, _ = run("rubric", "lint", "coherence")
    assert (code, out.startswith("warning: coherence: no description")) == (0, True)


def test_diff_says_what_changed(run, printed) -> None:
    out = printed("rubric", "diff", "faithfulness", "relevancy")
    assert "id is 'relevancy' instead of 'faithfulness'" in out
    code, out, err = run("rubric", "diff", "faithfulness", "faithfulness@v1")
    assert (code, out) == (0, "")
    assert "are the same" in one_line(err)


def test_new_starts_a_version_and_changes_none(run, refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALKIT_RUBRICS", str(Path("mine").resolve()))
    code, out, err = run("rubric", "new", "support_tone")
    path = Path(out.strip())
    assert (code, path.name) == (0, "v1.yaml")
    assert "evalkit rubric lint" in one_line(err)
    assert run("rubric", "lint", path)[0] == 0
    first = path.read_bytes()
    _, out, _ = run("rubric", "new", "support_tone")
    assert Path(out.strip()).name == "v2.yaml"
    assert path.read_bytes() == first
    assert load_rubric("support_tone@v2").content_hash == load_rubric("support_tone@v1").content_hash
    _, out, _ = run("rubric", "new", "mine", "--like", "faithfulness", "--folder", "other", "--quiet")
    made = load_rubric(Path(out.strip()))
    assert (made.id, made.version, made.names) == ("mine", "v1", load_rubric("faithfulness").names)
    assert load_rubric(new_rubric("faithfulness")).version == "v2", "the shipped version is counted"
    for name in ("Big Name", "templates", "../x"):
        assert "invalid rubric id" in refused("rubric", "new", name)


# -- cache and doctor


def test_replies_are_carried_elsewhere(run, tmp_path: Path) -> None:
    run("judge", "items.jsonl", *FAKE, "--quiet")
    code, out, err = run("cache", "export", "replies.jsonl")
    assert (code, out) == (0, "")
    assert one_line(err) == "evalkit: wrote 12 replies to replies.jsonl"
    code, out, _ = run("cache", "import", "replies.jsonl", "--cache", "other", "--json")
    assert json.loads(out) == {"n_lines": 12, "n_added": 12, "n_present": 0, "n_conflicts": 0}
    code, out, _ = run("judge", "items.jsonl", *FAKE, "--cache", "other", "--offline", "--json")
    assert {row["error"] for row in json.loads(out)} == {None}
    code, out, _ = run("cache", "stats", "--cache", "other", "--json")
    stats = json.loads(out)
    assert (stats["n_replies"], stats["judges"][0]["model"]) == (12, "strict")
    assert "session" not in stats
    code, out, _ = run("cache", "stats")
    assert "12 replies to 12 keys" in out
    assert "rubric_version" in out
    Path("broken.jsonl").write_text('{"key": 1}\n', encoding="utf-8")
    code, _, err = run("cache", "import", "broken.jsonl")
    assert code == 2
    assert one_line(err).startswith("evalkit: error: ")


def test_prune_is_a_dry_run_without_apply(run, refused) -> None:
    run("judge", "items.jsonl", *FAKE, "--judge", "fake:lenient", "--quiet")
    code, _, err = run("cache", "prune", "--model", "lenient")
    assert code == 0
    assert re.search("would remove 12 replies .* nothing was removed; pass apply=True \\(--apply\\)", one_line(err))
    assert ek.evaluation.cache_stats()["n_replies"] == 24
    code, out, _ = run("cache", "prune", "--model", "lenient", "--apply", "--export-to", "kept.jsonl", "--json")
    assert (json.loads(out)["n_replies"], json.loads(out)["applied"]) == (12, True)
    assert len(Path("kept.jsonl").read_text(encoding="utf-8").splitlines()) == 12
    assert ek.evaluation.cache_stats()["n_replies"] == 12
    assert run("cache", "prune", "--older-than", "1d", "--apply")[0] == 0
    assert ek.evaluation.cache_stats()["n_replies"] == 12, "nothing is that old"
    assert "needs a condition" in refused("cache", "prune")


def test_promote_pays_nothing_for_unchanged_criteria(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALKIT_RUBRICS", str(Path("mine").resolve()))
    first = ek.Rubric(**(load_rubric("faithfulness").to_dict() | {"id": "support"}))
    first.save()
    load_rubric("support").edit("faithfulness", pass_at=1).save()  # a pass rule is in no prompt
    run("judge", "items.jsonl", "--rubric", "support@v1", "--judge", "fake", "--quiet")
    code, _, err = run("cache", "promote", "support", "v1", "v2")
    assert (code, one_line(err)) == (0, "evalkit: 12 more replies count for support@v2 now")
    assert ek.plan(ek.load_items("items.jsonl"), "support@v2", "fake").n_to_call == 0
    load_rubric("support").edit("faithfulness", scale={0: "All is invented."}).save()
    assert run("cache", "promote", "support@v2")[2] == "evalkit: 0 more replies count for support@v2 now\n"
    assert run("cache", "promote", "support")[0] == 2
    assert run("cache", "promote", "support@v2", "v1", "v2")[0] == 2
    with pytest.raises(RubricError, match="because no criterion has the same prompt in both"):
        promote("support", "v2", "v3")


def test_doctor_looks_at_everything_and_shows_no_key(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    code, out, err = run("doctor")
    assert (code, err) == (0, "")
    assert "no problems found" in out
    assert re.search(r"OPENAI_API_KEY +set\n", out)
    code, text, _ = run("doctor", "--json")
    assert "sk-very-secret" not in out + text
    found = json.loads(text)
    assert found["settings"]["HF_TOKEN"] == "not set"
    assert found["versions"]["pandas"] == pd.__version__
    assert found["rubrics"]["rubrics"] == len(ek.rubrics.list_rubrics())
    assert found["extras"]["parquet"] == "present"
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(EXTRAS) == set(extras) - {"dev"}


@pytest.mark.long
def test_doctor_names_what_is_broken(run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run("judge", "items.jsonl", *FAKE, "--quiet")
    found = json.loads(run("doctor", "--json")[1])
    assert (found["cache"]["replies"], found["cache"]["integrity"], found["problems"]) == (12, "ok", [])
    (tmp_path / "foreign").mkdir()
    stored = next(Path(found["cache"]["folder"]).glob("*.sqlite"))
    (tmp_path / "foreign" / stored.name).write_text("hello", encoding="utf-8")
    (tmp_path / "mine/odd").mkdir(parents=True)
    (tmp_path / "mine/odd/v1.yaml").write_text("id: odd\n", encoding="utf-8")
    monkeypatch.setenv("EVALKIT_RUBRICS", str(tmp_path / "mine"))
    code, out, _ = run("doctor", "--cache", "foreign")
    assert code == 1
    assert run("doctor", "--cache", "foreign", "--json")[0] == 1
    assert "no problems" not in out
    assert "not a SQLite file" in out
    assert "odd/v1.yaml" in out
    assert (tmp_path / "foreign" / stored.name).read_text(encoding="utf-8") == "hello"


# -- words and columns


@pytest.mark.parametrize("command", ["judge", "evaluate", "report"])
def test_every_option_of_judge_is_a_flag(command: str) -> None:
    names = set(inspect.signature(ek.judge).parameters) | set(Options.__slots__)
    # these are arguments or flags of another name: --judge, --judge-…, --quiet; on_progress takes a function
    names -= {"items", "judges", "samples", "progress", "on_progress"}
    args = parser_of_commands().parse_args([command, "items.jsonl", "--out", "x.html"])
    assert names - set(vars(args)) == set()
    assert set(options_of(args)) == set(Options.__slots__) - {"on_progress"}


@pytest.mark.parametrize("text", ["1769856000.5", "2026-01-31", "2026-01-31T12:30", "30d"])
def test_a_time_is_read_alike_by_every_flag_that_takes_one(text: str) -> None:
    gate = ["--config", "e.yaml", "--trace-file", "t.jsonl"]
    times = [
        parse_arguments(["judge", "items.jsonl", "--refresh", text]).refresh,
        parse_arguments(["judge", *gate, "--judge-refresh", text]).refresh,
        parse_arguments(["ci", *gate, "--refresh", text]).refresh,
        parse_arguments(["ci", *gate, "--drift", text]).drift,
    ]
    assert times == pytest.approx([moment(text)] * 4, abs=60)
    assert isinstance(parse_arguments(["ci", *gate, "--drift"]).drift, float), "the beginning of today"


def test_moments() -> None:
    before = time.time()
    assert before - 2 * 86400 <= moment("2d") <= time.time() - 2 * 86400
    assert moment("1700000000.5") == 1700000000.5
    # 2024-01-01 is 19723 days after 1970-01-01: 54 years of 365 days and 13 leap days
    assert moment("2024-01-01T00:00+00:00") == (54 * 365 + 13) * 86400


def test_refresh_asks_again(run) -> None:
    run("judge", "items.jsonl", *FAKE, "--samples", 1, "--quiet")
    sources = [row["source"] for row in json.loads(run("judge", "items.jsonl", *FAKE, "--samples", 1, "--json")[1])]
    assert sources == ["cache"] * 4
    out = run("judge", "items.jsonl", *FAKE, "--samples", 1, "--json", "--refresh")[1]
    assert [row["source"] for row in json.loads(out)] == ["live"] * 4
    out = run("judge", "items.jsonl", *FAKE, "--samples", 1, "--json", "--refresh", "2020-01-01")[1]
    assert [row["source"] for row in json.loads(out)] == ["cache"] * 4
    out = run("judge", "items.jsonl", *FAKE, "--samples", 1, "--json", "--refresh", "unscored")[1]
    assert [row["source"] for row in json.loads(out)] == ["cache"] * 4


@pytest.mark.long
@pytest.mark.parametrize("width", [80, 120])
def test_tables_fit_the_terminal(run, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    write_lines(
        Path("long.jsonl"), [item | {"item_id": f"a rather long name of item {at}"} for at, item in enumerate(ITEMS)]
    )
    flags = ("--judge", "fake", "--judge", "fake:broken")
    labels = [label | {"item_id": f"a rather long name of item {label['item_id'][1:]}"} for label in LABELS]
    write_lines(Path("long-labels.jsonl"), labels)
    run("evaluate", "long.jsonl", "--rubric", "faithfulness", *flags, "--out", "s1", "--quiet")
    for command in (
        ("judge", "long.jsonl", "--rubric", "faithfulness", *flags),
        ("align", "s1/votes.jsonl", "long-labels.jsonl"),
        ("evaluate", "long.jsonl", "--rubric", "faithfulness", *flags, "--labels", "long-labels.jsonl"),
        ("compare", "s1", "s1"),
        ("rubric", "list"),
        ("plan", "long.jsonl", "--rubric", "faithfulness", *flags),
    ):
        code, out, err = run(*command)
        assert code == 0, err
        assert max(map(len, out.splitlines())) <= width, out
        if command[0] == "compare":  # no row is cut in two
            assert (
                sum(line.startswith("mean difference") or "  mean difference" in line for line in out.split("\n")) == 1
            )


@pytest.mark.long
def test_align_names_its_choices_beside_the_figures(run) -> None:
    run("evaluate", "items.jsonl", *FAKE, "--out", "o", "--format", "csv", "--quiet")
    _, out, _ = run("align", "o/votes.csv", "labels.jsonl")
    assert out.splitlines()[-1] == "ties: na, unscored: drop"
    code, out, err = run("align", "--ties", "half", "--figures", "accuracy,macro_f1", "o/votes.csv", "labels.jsonl")
    assert (code, out.splitlines()[-1]) == (0, "ties: half, unscored: drop"), err
    assert "macro_f1" in out


def test_narrow_tables_cut_texts_not_figures() -> None:
    rows = [{"item": "i", "mean": "1.50 [1.00, 2.00]", "text": "word " * 20}] * 9
    lines = text_table(rows, width=50, left=["text"]).splitlines()
    assert max(map(len, lines)) == 50
    assert all("1.50 [1.00, 2.00]" in line for line in lines[1:])
    assert lines[1].endswith("…")
    # 9 rows of figures that have no room: the columns go on below, beside the names of the rows
    wide = [{"item": "i"} | {f"figure{at}": "1.50 [1.00, 2.00]" for at in range(5)}] * 9
    lines = text_table(wide, width=50).splitlines()
    assert max(map(len, lines)) <= 50
    assert [line.split() for line in lines if "figure" in line] == [
        ["item", "figure0", "figure1"], ["item", "figure2", "figure3"], ["item", "figure4"],
    ]  # fmt: skip
    assert sum(line.count("1.50 [1.00, 2.00]") for line in lines) == 45
    # 2 rows: they become columns, and nothing is lost
    lines = text_table(wide[:2], width=50).splitlines()
    assert lines[-1].split("  ", 1)[0] == "figure4"
    assert sum(line.count("1.50 [1.00, 2.00]") for line in lines) == 10


def test_what_a_judge_wrote_cannot_steer_the_terminal() -> None:
    text = text_table([{"explanation": "a\x1b[2Jb\nc\u202ed"}])
    assert text.splitlines()[1] == "a\N{REPLACEMENT CHARACTER}[2Jb c\N{REPLACEMENT CHARACTER}d"


def test_show_folds_what_rows_share() -> None:
    votes = ek.vote(ek.judge(ITEMS, "faithfulness", ["fake:strict", "fake:lenient"]))
    text = str(show(votes, width=400))
    assert "faithfulness@v1 · faithfulness · 8 rows" in text
    assert "3 of 3" in text
    head = text.splitlines()[0].split()
    assert "judge" in head
    assert not {"rubric", "criterion", "reason", "n_samples"} & set(head)
    assert str(show(votes.iloc[:0], width=80)) == "(no rows)"


def test_outputs_that_cannot_be_written_are_named(monkeypatch: pytest.MonkeyPatch, refused) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert "pip install '.[parquet]'" in refused("judge", "items.jsonl", *FAKE, "-o", "x.parquet")
    assert ek.evaluation.cache_stats()["n_replies"] == 0
    Path("f.csv").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        files.check_target("f.csv")


def test_the_judge_profile_is_all_judges_of_the_profile(run):
    Path("two.yaml").write_text(
        "profile: two\njudges: [{provider: fake, model: strict}, {provider: fake, model: first}]\n"
    )
    asked = ("judge", "items.jsonl", "--rubric", "faithfulness", "--quiet", "--json")
    made = [run(*asked, "--profile", "two.yaml", *flags) for flags in ((), ("--judge", "profile"))]
    assert [code for code, _, _ in made] == [0, 0]
    judges = [[row["judge"] for row in json.loads(out)] for _, out, _ in made]
    assert judges[0] == judges[1]
    assert set(judges[1]) == {"fake:strict", "fake:first"}
    for flags in (("--judge", "profile"), ("--profile", "two.yaml", "--judge", "profile", "--judge", "fake")):
        code, _, err = run(*asked, *flags)
        assert (code, "profile" in err) == (2, True)
