"""Columns of other names as inputs of a rubric, and items that lack an input."""

from __future__ import annotations

import asyncio
import json
from html import unescape
from pathlib import Path

import pandas as pd
import pytest
from commandline import write_lines
from hypothesis import given, settings
from hypothesis import strategies as st

import evalkit as ek
from evalkit.cli.main_command import main
from evalkit.core.judges import Judge
from evalkit.engine import explain
from evalkit.errors import CacheMiss, ConfigError, InputError, JudgeError
from evalkit.evaluation.sampling_again import sample_again
from evalkit.notebook import JudgmentBrowser
from evalkit.notebook.tuner.code_snippets import session_code
from evalkit.notebook.tuner.tuning_session import Session

RUBRIC = ek.Rubric(
    id="r",
    inputs=["question", "answer", "hint?"],
    template="number@v1",
    criteria=[{"name": "c", "scale": {0: "no", 1: "yes"}, "pass_at": 1}, {"name": "d", "scale": {0: "a", 1: "b"}}],
)
NAMED = [{"item_id": f"i{n}", "question": f"q {n}", "answer": f"a {n}"} for n in range(4)]
OTHER = [{"item_id": f"i{n}", "prompt": f"q {n}", "response": f"a {n}"} for n in range(4)]
COLUMNS = {"question": "prompt", "answer": "response"}
JURY = ["fake:strict", "fake:noisy"]
COUNTS = ("n_clusters", "n_clusters_effective")


def gaps(*numbers: int) -> list[dict]:
    """`NAMED`, with no answer in the items of these numbers."""
    return [item | {"answer": None} if at in numbers else item for at, item in enumerate(NAMED)]


def same(first: pd.DataFrame, second: pd.DataFrame, *, but: tuple[str, ...] = ()) -> None:
    """Assert that two tables are equal but for some columns."""
    assert list(first) == list(second)
    for name in first.columns.difference(but):
        a, b = (table[name].astype(object).where(table[name].notna(), None).tolist() for table in (first, second))
        assert a == b, name


class TestNames:
    def test_the_same_texts_under_other_names_come_from_the_cache(self):
        first = ek.judge(NAMED, RUBRIC, JURY, samples=2)
        assert ek.plan(OTHER, RUBRIC, JURY, samples=2, inputs=COLUMNS).n_to_call == 0
        second = ek.judge(OTHER, RUBRIC, JURY, samples=2, inputs=COLUMNS, offline=True)
        same(first, second, but=("source",))
        assert set(second["source"]) == {"cache"}

    def test_ajudge_and_record_read_the_same_columns(self):
        assert ek.record(OTHER, RUBRIC, "fake:strict", ["1"] * 4, criterion="c", inputs=COLUMNS) == 4
        table = ek.judge(NAMED, RUBRIC, "fake:strict", samples=1, offline=True)
        assert table.loc[table["criterion"] == "c", "source"].tolist() == ["recorded"] * 4
        live = ek.judge(NAMED, RUBRIC, JURY, samples=1)
        same(live, asyncio.run(ek.ajudge(OTHER, RUBRIC, JURY, samples=1, inputs=COLUMNS)), but=("source",))

    def test_the_mapping_decides_even_if_a_column_has_the_name_of_the_input(self):
        swapped = [{"item_id": row["item_id"], "question": row["answer"], "answer": row["question"]} for row in NAMED]
        keys = [ek.judge(items, RUBRIC, "fake", samples=1, **options)["key"].tolist() for items, options in (
            (NAMED, {}), (swapped, {"inputs": {"question": "answer", "answer": "question"}}),
            ([row | {"answer": "x", "response": row["answer"]} for row in NAMED], {"inputs": {"answer": "response"}}),
        )]  # fmt: skip
        assert keys[0] == keys[1] == keys[2]

    def test_two_inputs_may_share_a_column(self):
        both = [{"item_id": "x", "text": "t"}]
        mapped = {"question": "text", "answer": "text", "hint": "text"}
        named = [{"item_id": "x", "question": "t", "answer": "t", "hint": "t"}]
        same(ek.judge(named, RUBRIC, "fake", samples=1), ek.judge(both, RUBRIC, "fake", samples=1, inputs=mapped),
             but=("source",))  # fmt: skip

    def test_no_mapping_is_an_empty_mapping(self):
        same(ek.judge(NAMED, RUBRIC, "fake"), ek.judge(NAMED, RUBRIC, "fake", inputs={}), but=("source",))

    def test_the_prompt_is_that_of_the_named_columns(self):
        other = ek.build_prompt(RUBRIC, OTHER[0], "c", inputs=COLUMNS)
        assert str(other) == str(ek.build_prompt(RUBRIC, NAMED[0], "c"))

    @pytest.mark.parametrize(
        ("inputs", "error", "words"),
        [
            (
                {"anwser": "response"},
                ConfigError,
                "inputs= names 'anwser', which rubric 'r' does not have; did you mean",
            ),
            ({"answer": "respnse"}, InputError, "which the items do not have; did you mean 'response'"),
            ({"question": "prompt", "answer": "response", "hint": "tip"}, InputError, "inputs= maps 'hint' to column"),
            ({"item_id": "nr"}, ConfigError, "pass the column of ids as item_id='nr'"),
            ({"answer": ["response"]}, ConfigError, "expected a mapping from input to column"),
            (["answer"], ConfigError, "expected a mapping from input to column"),
            (None, InputError, "map it, as in inputs={'question': 'your_column'}"),
            ({"answer": "response"}, InputError, "needs 1 column that the items do not have: 'question'"),
        ],
    )
    @pytest.mark.parametrize("function", [ek.judge, ek.plan, ek.evaluate])
    def test_errors_come_before_any_call(self, function, inputs, error, words):
        with pytest.raises(error) as problem:
            function(OTHER, RUBRIC, "fake", inputs=inputs)
        assert words in str(problem.value)

    @pytest.mark.parametrize("function", [ek.judge, ek.plan, ek.evaluate])
    def test_a_column_of_chats_is_to_be_split(self, function):
        chats = [{"log": [{"role": "user", "content": "Is it on?"}, {"role": "assistant", "content": "Yes."}]}]
        with pytest.raises(
            InputError, match=r"'log' holds chats: ek\.tables\.split_messages\(items, 'log'\) .*ek\.start"
        ):
            function(chats, RUBRIC, "fake")

    @pytest.mark.long
    def test_an_evaluation_shows_inputs_and_keeps_the_columns_of_the_items(self):
        evaluation = ek.evaluate(OTHER, RUBRIC, JURY, inputs=COLUMNS)
        assert list(evaluation.items) == ["item_id", "prompt", "response"]
        assert evaluation.input_columns == COLUMNS
        page = unescape(Path(ek.report(evaluation, "r.html")).read_text(encoding="utf-8"))
        assert "inputs={'question': 'prompt', 'answer': 'response'}" in page
        again = ek.Evaluation.of(evaluation.judgments, OTHER, rubric=RUBRIC, inputs=COLUMNS)
        assert (again.n_unique, again.input_columns) == (4, COLUMNS)
        assert again.clusters.nunique() == 4

    @pytest.fixture(autouse=True)
    def _here(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)


class TestMissing:
    def test_by_default_it_is_an_error_that_says_what_to_do(self):
        with pytest.raises(InputError, match=r"1 of 4 items have no 'answer'.*item 'i2'.*on_missing='skip'"):
            ek.judge(gaps(2), RUBRIC, "fake")
        with pytest.raises(ConfigError, match="on_missing='drop' is unknown; allowed: 'raise', 'skip'"):
            ek.judge(NAMED, RUBRIC, "fake", on_missing="drop")

    def test_a_skipped_item_is_rows_without_reply_cost_source_or_key(self):
        asked: list[str] = []
        judge = Judge.function(lambda prompt: asked.append(prompt.inputs["question"]) or "1", name="f", version="1")
        table = ek.judge(gaps(2), RUBRIC, judge, samples=2, on_missing="skip")
        assert sorted(set(asked)) == ["q 0", "q 1", "q 3"]
        assert table["item_id"].tolist() == [f"i{n}" for n in range(4) for _ in range(4)]
        mine = table["item_id"] == "i2"
        assert set(table.loc[mine, "error"]) == {"missing_input"}
        assert table.loc[~mine, "error"].isna().all()
        assert (
            table.loc[mine, ["score", "label", "source", "key", "cost_usd", "latency_s", "model"]].isna().all(axis=None)
        )
        rest = ek.judge([NAMED[n] for n in (0, 1, 3)], RUBRIC, judge, samples=2)
        same(table[~mine].reset_index(drop=True), rest, but=("source",))

    def test_a_missing_column_is_an_error_in_any_case(self):
        with pytest.raises(InputError, match="needs 1 column"):
            ek.judge([{"question": "q"}], RUBRIC, "fake", on_missing="skip")

    def test_optional_inputs_and_empty_texts_are_not_missing(self):
        with pytest.warns(ek.errors.EvalkitWarning, match="an empty 'answer'"):
            table = ek.judge([NAMED[0], NAMED[1] | {"answer": ""}], RUBRIC, "fake", on_missing="skip")
        assert table["error"].isna().all()

    def test_all_items_may_be_skipped(self):
        evaluation = ek.evaluate(gaps(0, 1, 2, 3), RUBRIC, JURY, on_missing="skip")
        assert set(evaluation.judgments["error"]) == {"missing_input"}
        assert evaluation.summary[["n_items", "n_scored"]].values.tolist() == [[4, 0], [4, 0]]
        assert evaluation.summary["mean"].isna().all()

    def test_plan_counts_them_and_asks_for_the_rest(self):
        made = ek.plan(gaps(1, 2), RUBRIC, JURY, samples=2, on_missing="skip")
        assert (made.n_items, made.n_skipped, made.n_to_call) == (4, 2, 16)
        assert made.table["n_judgments"].tolist() == [8, 8]
        assert str(made).startswith("4 items (2 skipped for a missing input), 16 judgments: 0 cached (0%), 16 to call")
        ek.judge(gaps(1, 2), RUBRIC, JURY, samples=2, on_missing="skip")
        done = ek.plan(gaps(1, 2), RUBRIC, JURY, samples=2, on_missing="skip")
        assert (done.n_to_call, done.table["n_cached"].tolist()) == (0, [8, 8])

    @pytest.mark.parametrize("refresh", ["unscored", True])
    def test_no_refresh_asks_about_them(self, refresh):
        asked: list[str] = []
        judge = Judge.function(lambda prompt: asked.append(prompt.inputs["question"]) or "1", name="f", version="1")
        for _ in range(2):
            ek.judge(gaps(2), RUBRIC, judge, samples=1, on_missing="skip", refresh=refresh)
        assert "q 2" not in asked
        assert len(asked) == (12 if refresh is True else 6)

    def test_a_reply_to_the_same_texts_does_not_count_once_the_input_is_required(self):
        """The prompt of a rubric that needs the hint equals that of one that does not, and so does its reply key."""
        judged = ek.judge(NAMED, RUBRIC, "fake:strict", samples=1)
        needs = ek.Rubric.model_validate(RUBRIC.to_dict() | {"inputs": ["question", "answer", "hint"]})
        items = pd.DataFrame([NAMED[0], NAMED[1] | {"hint": "h"}])
        table = ek.judge(items, needs, "fake:strict", samples=1, on_missing="skip", adopt=True)
        assert table["error"].isna().tolist() == [False, False, True, True]
        assert judged["error"].isna().all()

    def test_offline_they_are_no_misses(self):
        ek.judge(gaps(2), RUBRIC, JURY, samples=2, on_missing="skip")
        table = ek.judge(gaps(2), RUBRIC, JURY, samples=2, on_missing="skip", offline=True, on_miss="raise")
        assert table["error"].value_counts().to_dict() == {"missing_input": 8}
        with pytest.raises(CacheMiss):
            ek.judge(gaps(1), RUBRIC, JURY, samples=2, on_missing="skip", offline=True, on_miss="raise")

    def test_among_recorded_replies_they_are_one_row(self):
        stored = ek.record(gaps(2), RUBRIC, "fake", [["1", "0"]] * 4, criterion="c", on_missing="skip")
        assert stored == 6
        table = ek.judge(gaps(2), RUBRIC, "fake", offline=True, on_missing="skip")
        rows = table[table["criterion"] == "c"].groupby("item_id", sort=False)["error"].agg(list)
        assert [len(row) for row in rows] == [2, 2, 1, 2]
        assert rows["i2"] == ["missing_input"]

    def test_a_judge_that_is_down_is_an_error_although_items_were_skipped(self):
        down = Judge("openai", "m", base_url="http://127.0.0.1:9/v1", api_key_env=None)
        with pytest.raises(JudgeError, match="no judge could be called"):
            ek.judge(gaps(2), RUBRIC, down, samples=1, on_missing="skip", retries=0)

    def test_the_reason_is_in_every_table(self):
        evaluation = ek.evaluate(gaps(2), RUBRIC, JURY, on_missing="skip")
        for table in (evaluation.votes, evaluation.scores):
            assert set(table.loc[table["item_id"] == "i2", "reason"]) == {"missing_input"}
        row = evaluation.rubric_scores.set_index("item_id").loc["i2"]
        assert (row["status"], row["reason"]) == ("unscored", "missing_input")
        assert evaluation.summary[["n_items", "n_scored"]].values.tolist() == [[4, 3], [4, 3]]
        assert "missing_input 1" in str(evaluation)
        assert (evaluation.cost.n_live, evaluation.cost.n_missing) == (36, 0)
        advice = explain(evaluation.judgments)
        assert advice["error"].tolist() == ["missing_input"] * 2
        assert "lacks an input" in advice["what_to_do"].iloc[0]

    @settings(max_examples=4)
    @given(st.sets(st.integers(0, 11), max_size=11))
    @pytest.mark.long
    def test_figures_of_the_others_are_those_of_a_table_without_them(self, lacking):
        items, labels = ek.load_example("facts")
        items = items.head(12)
        holes, rest = items.copy(), items[[at not in lacking for at in range(12)]]
        holes.loc[list(lacking), "answer"] = None
        edited = ek.load_rubric("correctness").edit("correctness", scale={1: "right in part"})
        options = {"samples": 2, "on_missing": "skip"}
        whole, part, after_whole, after_part = (
            ek.evaluate(table, rubric, JURY, **options)
            for rubric in ("correctness", edited) for table in (holes, rest)
        )  # fmt: skip
        for name in ("votes", "scores", "rubric_scores", "disagreement"):
            table = getattr(whole, name)
            same(table[table["item_id"].isin(rest["item_id"])].reset_index(drop=True), getattr(part, name))
        same(whole.summary, part.summary, but=("n_items", *COUNTS, "worst", "best", "notes"))
        # its jackknife counts all clusters, those without a score included
        ends = tuple(name for name in whole.reliability if name.endswith(("_low", "_high")))
        same(whole.reliability, part.reliability, but=("n_items", *COUNTS, "coverage", "notes", *ends))
        tables = [ek.compare(*pair).table for pair in ((whole, after_whole), (part, after_part))]
        same(*tables, but=("n_common", *COUNTS, "scored_before", "scored_after", "notes"))
        known = labels[labels["item_id"].isin(rest["item_id"])]
        aligned = [ek.align(one.votes, known, clusters=one.clusters) for one in (whole, part)]
        same(*aligned, but=("n_items", *COUNTS))
        same(*(ek.stats.noise_floor(sample_again(one, progress=False), samples=2) for one in (whole, part)))

    def test_the_tuner_skips_and_maps(self, tmp_path):
        items = [row | {"response": None} if row["item_id"] == "i2" else row for row in OTHER]
        session = Session(items, RUBRIC, JURY, inputs=COLUMNS, on_missing="skip", folder=tmp_path, samples=1)
        assert (session.drafts.plan().n_skipped, session.drafts.plan().n_to_call) == (1, 12)
        session.run()
        assert session.evaluation.judgments["error"].value_counts().to_dict() == {"missing_input": 4}
        assert [(row.text, row.texts) for row in session.rows()][:1] == [("a 0", {"question": "q 0", "answer": "a 0"})]
        assert dict(session.detail("i0")["inputs"]) == {"question": "q 0", "answer": "a 0"}
        assert "q 0" in session.detail("i0")["prompt"]
        code = session_code(session)
        assert "inputs={'question': 'prompt', 'answer': 'response'}, on_missing='skip'" in code

    def test_the_browser_of_judgments_maps(self):
        judgments = ek.judge(OTHER, "relevancy", JURY, inputs=COLUMNS, samples=1)
        browser = JudgmentBrowser(judgments, OTHER, inputs=COLUMNS)
        assert browser.rows[0].text == "a 0"
        browser.receive({"do": "select", "item_id": "i0"})
        assert dict(browser.state["item"]["inputs"]) == {"question": "q 0", "answer": "a 0"}


class TestCommandLine:
    @pytest.fixture
    def file(self, tmp_path, monkeypatch) -> str:
        monkeypatch.chdir(tmp_path)
        items = [row | {"response": None} if row["item_id"] == "i2" else row for row in OTHER]
        return write_lines(tmp_path / "items.jsonl", items)

    @pytest.mark.long
    def test_plan_judge_evaluate_and_report(self, file, capsys):
        asked = [file, "--rubric", "relevancy", "--judge", "fake"]
        mapped = [*asked, "--input", "question=prompt", "--input", " answer = response "]
        assert main(["judge", *asked]) == 2
        assert "as in inputs={'question': 'your_column'}" in capsys.readouterr().err
        assert main(["judge", *mapped]) == 2
        assert "on_missing='skip'" in capsys.readouterr().err
        skip = [*mapped, "--on-missing", "skip"]
        assert main(["plan", *skip, "--json"]) == 0
        made = json.loads(capsys.readouterr().out)
        assert (made["n_skipped"], made["n_to_call"]) == (1, 9)
        assert made["settings"]["inputs"] == {"value": ["question=prompt", "answer=response"], "source": "flag --input"}
        assert main(["judge", *skip, "--json"]) == 0
        out, err = capsys.readouterr()
        assert [row["error"] for row in json.loads(out)].count("missing_input") == 3
        assert "missing_input (item i2)" in err
        assert main(["evaluate", *skip, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["summary"][0]["n_scored"] == 3
        assert main(["report", *skip, "--out", "page.html"]) == 0
        assert "on_missing='skip'" in unescape(Path("page.html").read_text(encoding="utf-8"))

    def test_a_mapping_is_read_or_refused(self, file, capsys):
        assert main(["judge", file, "--rubric", "relevancy", "--judge", "fake", "--input", "response"]) == 2
        assert "expected INPUT=COLUMN as in answer=response, got 'response'" in capsys.readouterr().err
