"""Scores of items whose criteria are the rows of an evaluation, against plain Python on random criteria."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from own_criteria import items

import evalkit as ek
from evalkit.evaluation.items_with_criteria import criteria_of, got_words, items_of_rows, number, score_tiles
from evalkit.evaluation.overview import tiles
from evalkit.notebook.judgments.headline_numbers import jury_tiles
from evalkit.notebook.judgments.item_table import Query, page_of, rows_of
from evalkit.stats.alignment.label_splits import split_labels
from evalkit.tables.schemas import empty

AXES = ["accuracy", "style", None]


def drawn_items(draw: random.Random) -> list[dict[str, Any]]:
    """Items with criteria; one may require others that stand before it."""
    made = []
    for at in range(draw.randint(1, 5)):
        criteria = [
            {"id": n, "text": f"Says {n} of {at}", "points": draw.choice([5, 3, 1, 0.5, -2, -4]),
             "axis": draw.choice(AXES), "requires": draw.sample(range(n), min(n, draw.choice([0, 0, 1, 2])))}
            for n in range(draw.randint(1, 7))
        ]  # fmt: skip
        made.append({"item_id": draw.choice([at, f"task {at}", f"a#{at}"]), "question": "q", "answer": f"answer {at}",
                     "criteria": criteria})  # fmt: skip
    return made


def evaluation_of(rows: pd.DataFrame, verdicts: list[int | None]) -> ek.Evaluation:
    """These verdicts of one judge, as they would be imported."""
    table = [{"id": name, "mark": verdict} for name, verdict in zip(rows["item_id"], verdicts, strict=True)]
    options = {"item": "id", "judge": "openai:mine", "score": "mark", "codes": {None: "unreadable"}}
    judgments = ek.import_judgments(table, "requirement", **options)
    return ek.Evaluation.of(judgments, rows, rubric="requirement")


def earned_of(item: dict[str, Any], verdicts: list[int | None]) -> list[float | None]:
    """What each criterion earns: None if its verdict, or that of one it requires, could change it."""
    found: list[float | None] = []
    for one, verdict in zip(item["criteria"], verdicts, strict=True):
        needed = [verdicts[n] for n in one["requires"]]
        ends = set()
        for guess in (0, 1):
            mine = guess if verdict is None else verdict
            for others in (0, 1):
                ends.add(mine * min([1, *(others if other is None else other for other in needed)]))
        found.append(one["points"] * ends.pop() if len(ends) == 1 else None)
    return found


@pytest.mark.long
def test_points_of_criteria_items_and_axes():
    draw = random.Random(43)
    n_open = n_blocked = n_scored = 0
    for _ in range(6):
        given = drawn_items(draw)
        rows = ek.explode_criteria(given)
        verdicts: list[int | None] = [draw.choice([0, 1, 1, None]) for _ in range(len(rows))]
        evaluation = evaluation_of(rows, verdicts)
        at, scores, open_of = 0, [], 0
        for item in given:
            mine = verdicts[at : (at := at + len(item["criteria"]))]
            expected = earned_of(item, mine)
            found = criteria_of(evaluation, str(item["item_id"]), "requirement")
            assert [one["earned"] for one in found] == expected
            assert [one["worth"] for one in found] == [one["points"] for one in item["criteria"]]
            assert [one["passed"] for one in found] == [None if mark is None else bool(mark) for mark in mine]
            for one, source, mark, got in zip(found, item["criteria"], mine, expected, strict=True):
                needs = ", ".join(map(str, source["requires"]))
                blocked = bool(mark) and got == 0 and bool(needs)
                assert one["needs"] == (f"needs {needs}{', not met' * blocked}" if needs else "")
                assert (one["id"], one["text"], one["axis"]) == (str(source["id"]), source["text"], source["axis"])
                n_blocked += blocked
            whole = dict(items_of_rows(evaluation, "requirement"))[str(item["item_id"])]
            possible = sum(one["points"] for one in item["criteria"] if one["points"] > 0)
            decided = [one for one in expected if one is not None]
            assert whole["possible"] == possible
            assert whole["n_open"] == len(expected) - len(decided)
            open_of += whole["n_open"]
            if possible and len(decided) == len(expected):
                scores.append(sum(decided) / possible)
                assert got_words(whole)[0] == f"{number(sum(decided))} of {number(possible)}"
        n_open, n_scored = n_open + open_of, n_scored + len(scores)
        _, figure, note = score_tiles(evaluation)[0]
        mean = f"{sum(scores) / len(scores):.2f}" if scores else "NA"
        assert figure.split(" [")[0] in (mean, mean.replace("-0.00", "0.00"))
        assert note.startswith(f"{len(scores)} of {len(given)} items scored; {open_of} of {len(rows)} criteria open:")
    text = str(evaluation)
    assert text.index("with criteria of their own") < text.index(
        "Criteria (share of criteria met; not a score of items)"
    )
    assert min(n_open, n_blocked, n_scored) > 0


@pytest.mark.long
def test_the_share_of_criteria_met_is_the_same_on_the_page_and_in_the_browser(tmp_path: Path) -> None:
    given = [{"item_id": 1, "answer": "x", "criteria": ["met by one", "met by two", "met by three", "met by twelve"]}]
    jury = [ek.Judge.function(lambda prompt, word=word: str(int(word in str(prompt))), name=word, version="1")
            for word in ("met by t", "met by tw")]  # fmt: skip
    evaluation = ek.evaluate(given, "requirement", jury, samples=1, cache=tmp_path)
    assert evaluation.summary["mean_norm"].tolist() == [0.625]  # the tie counts half
    share = evaluation.summary["pass_rate"].iloc[0]
    shown = next(entry for entry in jury_tiles(evaluation, "requirement") if entry.title == "Share of criteria met")
    assert shown.value.startswith(f"{share:.2f}")
    assert f"{shown.value}" in tiles(evaluation)
    report = ek.report(evaluation, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "met by t (true): " in report
    assert "met by tw (false): " in report  # of the tie


def test_rows_of_an_item_stay_together():
    """In every order and under every filter; the items stand where the first of their rows would."""
    draw = random.Random(7)
    rows = ek.explode_criteria(items(9))
    evaluation = evaluation_of(rows, [draw.choice([0, 1, None]) for _ in range(len(rows))])
    shown = rows_of(evaluation, split_labels(empty("labels")), "requirement")
    assert {row.item for row in shown} == {f"task-{at}" for at in range(1, 10)}
    assert all(row.points.count(" points, score ") == 1 for row in shown)
    assert shown[0].text == rows["requirement"][0]  # and not the answer, which all rows of an item share
    for sort in ("review", "item", "jury", "file"):
        for down in (True, False):
            for name in ("all", "unscored"):
                query = Query(filter=name, sort=sort, down=down)
                page = page_of(shown, query, size=10_000)
                together = [row.item for row in page.rows]
                runs = [item for at, item in enumerate(together) if at == 0 or item != together[at - 1]]
                assert len(runs) == len(set(runs)), query
                assert {row.item_id for row in page.rows} == {
                    row.item_id for row in shown if name == "all" or row.status != "ok"
                }


def test_a_table_of_points_can_be_read():
    rows = ek.explode_criteria(items(2))
    evaluation = evaluation_of(rows, [1, 1, 0, 1, 0, 1, 0, 0, 1, None, 1, 0] + [1] * 11)
    assert evaluation.points is not None
    lines = [" ".join(line.split()) for line in str(ek.show(evaluation.points)).splitlines()]
    assert lines[1] == "task-1 12.5 to 15.5 of 25.5 NA 0.49 to 0.61 1 of 12 open_criteria"
    assert lines[2] == "task-2 20.5 of 25.5 0.80 0.80 0 of 11 NA"
    by_axis = str(ek.show(ek.points(evaluation.scores, rows, by="axis")))
    assert "−2 to 1 of 8" in by_axis
    assert "9 of 9" in by_axis


@pytest.mark.long
def test_rows_without_their_prerequisites_and_other_tables():
    """The reason instead of item scores; rows that are no criteria are shown as before."""
    rows = ek.explode_criteria(items(1))
    alone = rows[rows["item_id"] == "task-1#4"]
    evaluation = evaluation_of(alone, [1])
    assert "no points: criterion 'task-1#4' requires 'task-1#1'" in " ".join(str(evaluation).split())
    assert ek.notebook.JudgmentBrowser(evaluation).state["alert"].startswith("no points")
    assert "item score," not in evaluation._repr_html_()  # no tile
    plain = evaluation_of(rows.drop(columns="of_item"), [1] * 12)
    assert plain.points is None
    assert "\nScores\n" in str(plain)
    assert "criteria met" not in str(plain)
    assert len(ek.notebook.JudgmentBrowser(plain).rows) == 12


@pytest.mark.long
def test_the_browser_shows_the_criteria_of_items_together(tmp_path):
    many = [{"text": f"Says {at}", "axis": f"axis {at % 20}", "points": 1 - 2 * (at % 2)} for at in range(120)]
    given = [*items(3), {"item_id": 7, "question": "q", "answer": "many", "criteria": many}]
    rows = ek.explode_criteria(given)
    evaluation = evaluation_of(rows, [1, None] * 76 + [1])
    browser = ek.notebook.JudgmentBrowser(evaluation)
    assert [row.item_id for row in browser.rows] == rows["item_id"].tolist()
    assert list(dict.fromkeys(row.item for row in browser.rows)) == ["task-1", "task-2", "task-3", "7"]
    judgments = evaluation_of(rows, [1] * len(rows)).judgments
    assert len(ek.notebook.JudgmentBrowser(judgments, given).rows) == len(rows)  # items that bring the criteria
    assert len(ek.notebook.JudgmentBrowser(judgments).rows) == len(rows)  # without items, only ids
    assert browser.state["page"]["own"] == "requirement"
    assert browser.state["figures"]["tiles"][1]["title"] == "Item score"
    browser.receive({"do": "select", "item_id": "7#101"})
    item = browser.state["item"]
    assert item["siblings"] == criteria_of(evaluation, "7", "requirement")
    assert [one["id"] for one in item["siblings"]] == [str(at + 1) for at in range(120)]
    assert item["columns"]["axis"] == "axis 0"
    browser.receive({"do": "query", "query": {"column": ["axis", "axis 2"]}})  # an axis is a filter
    assert {row["item_columns"]["axis"] for row in browser.state["page"]["rows"]} == {"axis 2"}
    assert browser.state["page"]["n"] == 6
    browser.receive({"do": "select", "item_id": ""})
    assert browser.state["item"] == {}


@pytest.mark.parametrize("requires", [[float("nan"), 1], [None, "1"], ["", "['1']"], [[], [1]]])
def test_what_a_criterion_requires_is_shown_as_points_reads_it(requires):
    rows = ek.explode_criteria([{"item_id": "x", "question": "q", "answer": "a", "criteria": ["one", "two"]}])
    evaluation = evaluation_of(rows.assign(requires=requires), [0, 1])
    assert evaluation.points["points"].tolist() == [0]
    assert [one["needs"] for one in criteria_of(evaluation, "x", "requirement")] == ["", "needs 1, not met"]


@pytest.mark.long
def test_the_report_cuts_no_criterion_that_may_cost_most(tmp_path):
    criteria = [f"Names {n}" for n in range(50)] + [{"text": "Invents", "points": -9}]
    rows = ek.explode_criteria([{"item_id": "x", "question": "q", "answer": "a", "criteria": criteria}])
    page = ek.report(evaluation_of(rows, [1] * 50 + [None]), tmp_path / "report.html").read_text(encoding="utf-8")
    lowest = page[page.index("<article id='of-item-") :]
    assert 0 < lowest.index("Invents") < lowest.index("Names 0")


@pytest.mark.long
def test_the_report_shows_the_lowest_items(tmp_path):
    hostile = {
        "item_id": "<b>x</b>",
        "question": "q",
        "answer": "a",
        "criteria": ["</table><script>1</script>", "w" * 9000],
    }
    rows = ek.explode_criteria([*items(7), hostile])
    evaluation = evaluation_of(rows, [1, 0, None] * (len(rows) // 3) + [0] * (len(rows) % 3))
    page = ek.report(evaluation, tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<article id='of-item-") == 5
    assert "Lowest item scores" in page
    assert "<script>" not in page
    assert "<b>x" not in page
    assert "Lowest scores" not in page
    assert "item score, requirement" in page
    assert page.index("item score, requirement") < page.index("share of criteria met")


def test_items_of_equal_content_are_one_cluster_unless_they_have_groups():
    def item(n, content, **more):
        criteria = ["one", {"text": "two", "points": 2}]
        return {"item_id": f"i{n}", "question": "q", "answer": f"a{content}", "criteria": criteria} | more

    rows = ek.explode_criteria([item(n, n % 4) for n in range(12)])
    met = [1, 0, 0, 1, 1, 1, 0, 0] * 3
    evaluation = evaluation_of(rows, met)
    assert evaluation.points["group_id"].tolist() == [f"i{n % 4}" for n in range(12)]
    (row,) = ek.summarize(evaluation.points).to_dict("records")
    (of_four,) = ek.summarize(ek.points(evaluation.scores, rows.assign(
        group_id=[f"g{n % 4}" for n in range(12) for _ in range(2)]))).to_dict("records")  # fmt: skip
    assert (row["n_clusters"], row["low"], row["high"]) == (4, of_four["low"], of_four["high"])
    assert evaluation.clusters.nunique() == 4
    assert evaluation.summary["n_clusters"].tolist() == [4]

    grouped = ek.explode_criteria([item(n, n % 4, group_id=f"g{n % 6}") for n in range(12)])
    assert evaluation_of(grouped, met).points["group_id"].tolist() == [f"g{n % 6}" for n in range(12)]
    other = ek.explode_criteria([item(0, 0), item(1, 0) | {"criteria": ["one"]}])
    assert evaluation_of(other, [1, 0, 1]).clusters.nunique() == 2  # the same answer, and other criteria
