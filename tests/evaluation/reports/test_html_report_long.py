"""Reports: one file that holds everything, escapes everything, needs nothing, and says what is missing."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
from commandline import ITEMS, LABELS, evalkit, write_lines
from decision_server import RUBRIC, at, decider, items_with
from judgment_tables import graded
from strict_page import Page

import evalkit as ek
from evalkit.core.formatting import count_of, figure
from evalkit.evaluation.reports.html_report import provenance
from evalkit.stats.comparison.comparison_table import chance_sentences

pytest.importorskip("matplotlib")

WHO = ek.Judge("openai", "m")
EVIL = "<script>alert('x')</script><img src=http://evil.example/x onerror=alert(1)> & \"оценка\""


def check(path: Path) -> Page:
    """What holds of every report."""
    page = Page(path.read_text(encoding="utf-8"))
    assert page.source.startswith("<!DOCTYPE html>")
    tags = set(page.tags)
    assert not tags & {"script", "img", "iframe", "object", "embed", "link", "base", "form"}
    assert not [name for _, name, _ in page.attributes if name == "src" or name.startswith("on")]
    assert all(value.startswith("#") for value in page.values("href"))
    assert not re.findall(r"url\((?!#)|@import", page.source)
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert {value[1:] for value in page.values("href")} <= set(ids)
    assert page.tags.count("h1") == 1
    levels = [int(tag[1]) for tag in page.tags if re.fullmatch("h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert ("html", "lang", "en") in page.attributes
    assert page.tags.count("table") == page.tags.count("caption")
    assert {value for tag, name, value in page.attributes if tag == "th" and name == "scope"} <= {"col"}
    assert page.tags.count("th") == len(page.values("scope"))
    assert page.values("class").count("wide") == page.values("tabindex").count("0")  # what scrolls can have the focus
    assert "prefers-color-scheme:dark" in page.source
    assert "@media print" in page.source
    return page


def written(evaluation, tmp_path, **options) -> Page:
    return check(ek.report(evaluation, tmp_path / "report.html", **options))


@pytest.fixture(scope="module")
def support(tmp_path_factory):
    cache = tmp_path_factory.mktemp("cache")
    items, labels = ek.load_example("support")
    rubric = ek.load_rubric("faithfulness")
    options = {"labels": labels, "cache": cache, "progress": False, "samples": 2}
    jury = ["fake:strict", "fake:lenient"]
    first = ek.evaluate(items.head(10), rubric, jury, **options)
    edited = rubric.edit("faithfulness", scale={2: "Supported in the main."})
    return first, ek.evaluate(items.head(10), edited, jury, **options)


class TestContent:
    def test_every_figure_stands_with_its_coverage(self, support, tmp_path):
        first, _ = support
        text = written(first, tmp_path).text
        for _, row in first.summary.iterrows():
            assert figure(row["mean"], row["low"], row["high"]) in text
            assert count_of(row["n_scored"], row["n_items"]) in text
        for _, row in first.alignment.iterrows():
            assert figure(row["accuracy"], row["accuracy_low"], row["accuracy_high"]) in text
        alpha = first.reliability.iloc[0]
        assert figure(alpha["alpha_single"], alpha["alpha_single_low"], alpha["alpha_single_high"]) in text
        assert "people among themselves" in text
        assert "stand-in, not an LLM" in text
        assert str(first.cost) in text

    def test_every_row_of_figures_has_its_coverage_column(self, support, tmp_path):
        page = written(support[0], tmp_path)
        tables = re.findall(r"<caption>([^<]*figures[^<]*)</caption><thead>(.*?)</thead>", page.source)
        assert len(tables) == 4
        assert all("scored</th>" in head or "compared</th>" in head for _, head in tables)

    def test_the_items_to_look_at_are_those_of_the_tables(self, support, tmp_path):
        first, _ = support
        page = written(first, tmp_path)
        lowest = first.scores.sort_values("score_norm", kind="stable")["item_id"].iloc[0]
        apart = first.disagreement.sort_values("disagreement", ascending=False, kind="stable").iloc[0]
        assert f"{lowest} · faithfulness: score" in page.text
        assert f"{apart['item_id']} · faithfulness: disagreement {apart['disagreement']:.2f}" in page.text
        wide = first.wide().set_index("item_id")
        assert " ".join(str(wide.loc[lowest, "answer"]).split()) in page.text
        assert " ".join(str(wide.loc[lowest, "faithfulness_fake:strict_explanation"]).split()) in page.text

    def test_what_was_used_is_there_to_do_it_again(self, support, tmp_path):
        _, edited = support
        text = written(edited, tmp_path).text
        spec = edited.spec
        assert edited.rubric.content_hash in text
        assert "Supported in the main." in text
        assert spec.prompt_builders[0].template.hash in text
        assert " ".join(spec.prompt_builders[0].template.source.split()) in text
        assert "['fake:strict', 'fake:lenient'], samples=2, labels=labels, vote='mean'" in text
        assert "the rubric was edited after this version" in text
        assert ek.__version__ in text
        assert pd.__version__ in text

    def test_the_plots_are_there(self, support, tmp_path):
        page = written(support[0], tmp_path)
        names = [value.split(".")[0] for value in page.values("aria-label")]
        assert names[1:] == [
            "Distribution of scores",
            "Agreement among judges",
            "Judges against people",
            "Does disagreement predict errors?",
        ]

    def test_the_baseline_is_compared(self, support, tmp_path):
        first, edited = support
        page = written(edited, tmp_path, baseline=first)
        found = ek.compare(first, edited, labels=edited.labels, clusters=edited.clusters)
        assert "What changed since the baseline" in page.text
        for _, row in found.table.iterrows():
            assert f"{row['changed']} of {row['n_verdicts']}" in page.text
            assert chance_sentences(row) in page.text  # test, measured floor and range
        assert "Two versions" in page.source
        assert "baseline" not in written(edited, tmp_path).text

    def test_without_verdicts_nothing_is_counted(self, tmp_path):
        rubric, items = ek.load_rubric("helpfulness"), [{"question": "How?", "answer": text} for text in ("ab", "abc")]
        rubrics = rubric, rubric.edit("helpfulness", description="Is it of use?")
        judge = ek.Judge.function(lambda _: "no comment", name="mute", version="1")  # no reply is a score
        before, after = (ek.evaluate(items, one, judge, progress=False) for one in rubrics)
        text = written(after, tmp_path, baseline=before).text
        assert "helpfulness, mute: no verdicts to compare" in text
        assert "of 0 changed" not in text

    def test_judgments_alone_are_a_baseline(self, support, tmp_path):
        first, edited = support
        assert "What changed" in written(edited, tmp_path, baseline=first.judgments).text

    def test_the_same_evaluation_gives_the_same_bytes(self, support, tmp_path):
        one = ek.report(support[0], tmp_path / "one.html").read_bytes()
        assert ek.report(support[0], tmp_path / "two.html").read_bytes() == one

    def test_replies_used_are_known_by_one_hash(self, support, tmp_path):
        digests = [
            re.search(r"hash of all reply keys ([0-9a-f]{64})", written(one, tmp_path).text)[1] for one in support
        ]
        assert digests[0] != digests[1]


class TestTexts:
    def test_texts_of_items_judges_labels_and_rubrics_stay_texts(self, tmp_path):
        criterion = {"name": f"c {EVIL}", "scale": {0: EVIL, 1: "да", 2: "yes"}, "pass_at": 2, "description": EVIL}
        rubric = ek.Rubric(id="evil", inputs=["answer"], template="tagged@v1", description=EVIL, criteria=[criterion])
        items = [{"item_id": f"i {EVIL}", "answer": EVIL}, {"item_id": "b", "answer": f"другой {EVIL}"}]
        replies = [[f"[FEEDBACK] {EVIL} [RESULT] 0 [END]"], [f"[FEEDBACK] {EVIL} [RESULT] 1 [END]"]]
        ek.record(items, rubric, WHO, replies)
        labels = pd.DataFrame(
            {"item_id": [row["item_id"] for row in items], "criterion": criterion["name"], "annotator": EVIL}
        ).assign(label=[2, 2])
        one = ek.evaluate(items, rubric, WHO, samples=1, offline=True, labels=labels)
        page = written(one, tmp_path, baseline=one)
        assert "<script" not in page.source
        assert "<img" not in page.source
        assert html.escape(EVIL, quote=False).split("&amp;")[0] in page.source.replace("&#x27;", "'")
        assert "оценка" in page.text
        assert "другой" in page.text

    def test_long_inputs_are_cut_and_that_is_said(self, tmp_path):
        item = {"question": "q", "answer": "z" * 5000, "reference": "r"}
        text = written(ek.evaluate([item], "correctness", "fake", progress=False), tmp_path).text
        assert "(3000 more characters)" in text
        assert "z" * 2001 not in text

    def test_conversations_show_who_speaks(self, tmp_path):
        talk = [{"role": "user", "content": "Где заказ?"}, {"role": "assistant", "content": "Не знаю."}]
        page = written(ek.evaluate([{"conversation": talk}], "conversation_quality", "fake"), tmp_path)
        assert "user: Где заказ? assistant: Не знаю." in page.text

    def test_a_judge_shows_no_secret(self, tmp_path, monkeypatch):
        monkeypatch.setenv("SOME_KEY", "sk-very-secret")
        judge = WHO.replace(api_key_env="SOME_KEY", base_url="http://localhost:9/v1")
        one = ek.evaluate([{"question": "q", "answer": "a", "reference": "r"}], "correctness", judge, offline=True)
        source = written(one, tmp_path).source
        assert "sk-very-secret" not in source


class TestDegenerate:
    def test_no_items(self, tmp_path):
        empty = ek.evaluate(pd.DataFrame({"question": [], "answer": [], "reference": []}), "correctness", "fake")
        assert "nothing was judged" in written(empty, tmp_path).text

    def test_all_unscored(self, tmp_path):
        page = written(graded([["nonsense"], ["nonsense too"]]), tmp_path)
        assert "2 of 2 judgments are unscored" in page.text
        assert "unreadable" in page.text
        assert "0 of 2" in page.text

    def test_one_judge_one_item_no_labels(self, tmp_path):
        page = written(graded([["[FEEDBACK] so [RESULT] 1 [END]"]]), tmp_path)
        assert "one judge: nothing to compare" in page.text
        assert "Judges against people" not in page.text

    def test_labels_of_some_criteria_only_and_several_criteria(self, tmp_path):
        talk = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]
        items = [
            {"item_id": f"i{at}", "conversation": [*talk, {"role": "user", "content": str(at)}]} for at in range(4)
        ]
        labels = pd.DataFrame({"item_id": ["i0", "i1"], "criterion": "tone", "annotator": "ann", "label": [1, 2]})
        one = ek.evaluate(items, "conversation_quality", ["fake", "fake:broken"], labels=labels, progress=False)
        text = written(one, tmp_path).text
        assert all(name in text for name in one.rubric.names)
        assert "no labels for resolution" in text

    def test_a_persons_label_stays_beside_the_name_whatever_the_direction_of_the_script(self, tmp_path):
        items, labels = ek.load_example("support")
        named = labels.assign(annotator=labels["annotator"].astype(str).map({"ann1": "محمد", "ann2": "שרה"}))
        one = ek.evaluate(items.head(3), "faithfulness", "fake", labels=named, progress=False)
        source = written(one, tmp_path).source
        said = re.findall("<p>labels of people: <bdi>(.*?)</bdi>, <bdi>(.*?)</bdi></p>", source)
        assert len(said) == source.count("labels of people") > 0
        given = [f"{row['annotator']}: {row['label']}" for row in named.to_dict("records")]
        assert {text for texts in said for text in texts} <= set(given)

    def test_empty_labels(self, tmp_path):
        items, labels = ek.load_example("support")
        one = ek.evaluate(items.head(3), "faithfulness", "fake", labels=labels[:0], progress=False)
        written(one, tmp_path)


@pytest.mark.parametrize(
    ("judges", "options", "says"),
    [
        (["fake:strict"], {}, "['fake:strict'], samples=2, vote='mean'"),
        (["fake:strict"], {"template": "reference@v1"}, "template='reference@v1'"),
        (["fake:strict"], {"template": "commit_first@v1"}, "template='commit_first@v1'"),
        ([ek.Judge("fake", "noisy", template="number@v1", temperature=0.5), "fake:strict"], {}, "template='number@v1'"),
        ([ek.Judge("fake", "noisy", name="mine", score="expected")], {"template": "number@v1"}, "score='expected'"),
        (["fake:strict"], {"criteria_per_call": "all"}, "criteria_per_call='all'"),
    ],
)
def test_the_call_that_a_report_shows_repeats_the_evaluation(judges, options, says):
    items, _ = ek.load_example("facts")
    one = ek.evaluate(items.head(4), "correctness", judges, samples=2, **options)
    call = provenance(one)["call"]
    assert says in call
    again = eval(call, {"ek": ek, "items": items.head(4)})
    assert again.judgments["key"].tolist() == one.judgments["key"].tolist()
    assert again.judgments["score"].tolist() == one.judgments["score"].tolist()
    shown = {row["template"] for row in provenance(one)["judges"]}
    assert set(provenance(one)["templates"]) == shown


def test_the_call_of_a_mixed_jury_runs_once_the_address_is_filled_in(tmp_path):
    with decider() as (server, model):
        one = ek.evaluate(items_with("x"), RUBRIC, [at(server), "fake:strict"], cache=tmp_path)
        call = provenance(one)["call"]
        n_asked = len(model.asked)
        filled = call.replace("'…'", repr(server.url)).replace("'replies@v1'", "RUBRIC")
        names = {"ek": ek, "items": items_with("x"), "RUBRIC": RUBRIC}
        again = eval(filled.removesuffix(")") + ", cache=cache)", names | {"cache": tmp_path})
    assert len(model.asked) == n_asked
    assert again.judgments["key"].tolist() == one.judgments["key"].tolist()


def test_the_call_of_a_report_names_the_column_of_ids():
    items = ek.load_example("facts")[0].head(4).rename(columns={"item_id": "uid"})
    one = ek.evaluate(items, "correctness", "fake:strict", samples=1, item_id="uid")
    again = eval(provenance(one)["call"], {"ek": ek, "items": items})
    assert again.judgments["item_id"].tolist() == items["uid"].tolist()
    assert "item_id" not in provenance(ek.evaluate(items, "correctness", "fake:strict", samples=1))["call"]


class TestFile:
    def test_a_report_is_replaced_whole_and_leaves_nothing_beside(self, support, tmp_path):
        (tmp_path / "report.html").write_text("old")
        written(support[0], tmp_path / "deep" / "er")
        written(support[0], tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "report.html"]

    def test_a_link_stays_a_link(self, support, tmp_path):
        (tmp_path / "link.html").symlink_to(tmp_path / "real.html")
        ek.report(support[0], tmp_path / "link.html")
        assert (tmp_path / "link.html").is_symlink()
        assert (tmp_path / "real.html").read_text("utf-8").startswith("<!DOCTYPE html>")

    def test_what_cannot_be_written_is_said(self, support, tmp_path):
        with pytest.raises(ek.errors.ConfigError, match=r"name it \.html"):
            ek.report(support[0], tmp_path / "report.pdf")
        (tmp_path / "file").write_text("")
        with pytest.raises(ek.errors.ConfigError, match="cannot be written"):
            ek.report(support[0], tmp_path / "file" / "report.html")
        with pytest.raises(ek.errors.InputError, match="report needs the result of evaluate, got DataFrame"):
            ek.report(support[0].judgments, tmp_path / "report.html")

    def test_without_matplotlib_the_report_stands_without_plots(self, tmp_path):
        code = (
            "import sys\nsys.modules['matplotlib'] = None\nimport evalkit as ek\n"
            "item = {'question': 'q', 'answer': 'a', 'reference': 'a'}\n"
            f"ek.report(ek.evaluate([item], 'correctness', 'fake'), {str(tmp_path / 'report.html')!r})"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        assert "extra 'notebook'" in check(tmp_path / "report.html").text


class TestCommand:
    def test_the_command_writes_the_page(self, tmp_path):
        write_lines(tmp_path / "items.jsonl", ITEMS)
        write_lines(tmp_path / "labels.jsonl", LABELS)
        what = ("items.jsonl", "--rubric", "faithfulness", "--judge", "fake", "--labels", "labels.jsonl")
        assert evalkit("evaluate", *what, "--out", "before", "--quiet", folder=tmp_path).returncode == 0
        done = evalkit("report", *what, "--baseline", "before", "--out", "page.html", folder=tmp_path, cold=True)
        assert done.returncode == 0, done.stderr
        assert "wrote page.html" in done.stderr
        assert "What changed since the baseline" in check(tmp_path / "page.html").text

    def test_a_wrong_name_is_refused_before_anything_is_judged(self, tmp_path):
        write_lines(tmp_path / "items.jsonl", ITEMS)
        what = ("items.jsonl", "--rubric", "faithfulness", "--judge", "fake", "--out", "page.pdf")
        done = evalkit("report", *what, folder=tmp_path)
        assert done.returncode == 2
        assert ".html" in done.stderr
        assert not (tmp_path / "page.pdf").exists()
