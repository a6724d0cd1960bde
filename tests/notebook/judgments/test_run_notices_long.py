"""What the tuner reports quietly and loudly, where its judges' calls go, and what a stopped run cost."""

from __future__ import annotations

import pandas as pd
import pytest
from run_setup import wait_for
from servers import judge_server
from small_tuner import RUBRIC, do

import evalkit as ek

ITEMS = pd.DataFrame(
    {"item_id": [f"i{at:02d}" for at in range(40)], "answer": [f"ITEM-2 no. {at}" for at in range(40)]}
)


def jury(server, *models, **fields):
    return [ek.Judge("openai", name, name=name, base_url=server.url, **fields) for name in models]


def tuner_of(judges, folder, **options):
    made = ek.RubricTuner(ITEMS, RUBRIC, judges, samples=1, folder=folder, retries=0, **options)
    assert made.wait_idle(300)
    return made


def cost_tile(tuner):
    return next(tile for tile in tuner.state["figures"]["tiles"] if tile["title"] == "Cost of this run")


def unreadable(body):
    """Of judge x, the replies on items 7 and 31 are without a number."""
    text = body["messages"][-1]["content"]
    return {"content": "hm"} if body["model"] == "x" and ("no. 7" in text or "no. 31" in text) else None


def test_few_unreadable_replies_are_one_quiet_line_whose_filter_shows_their_items(tmp_path):
    with judge_server(faults=unreadable) as server:
        tuner = tuner_of(jury(server, "x", "y"), tmp_path)
        do(tuner, do="run")
    assert tuner.state["alert"] == ""
    (notice,) = tuner.state["notices"]
    assert notice["text"] == "2 of 80 judgments (2.5%) have no score: 2 unreadable (x)."
    assert notice["n_items"] == 2
    assert notice["advice"][0].startswith("unreadable: no score found")
    do(tuner, do="query", query={"filter": notice["filter"]})
    assert {row["item_id"] for row in tuner.state["page"]["rows"]} == {"i07", "i31"}
    browser = ek.notebook.JudgmentBrowser(tuner.judgments, ITEMS)
    assert notice.pop("again") == "2 requests, price unknown"
    assert (browser.state["alert"], browser.state["notices"]) == ("", [notice])


@pytest.mark.filterwarnings("ignore:judge 'x' was stopped")
def test_a_judge_without_any_score_is_reported_loudly(tmp_path):
    with judge_server(faults=lambda body: {"content": "hm"} if body["model"] == "x" else None) as server:
        tuner = tuner_of(jury(server, "x", "y"), tmp_path, concurrency=64)
        do(tuner, do="run")
    assert tuner.state["alert"].startswith("x: unreadable (no score found")
    assert tuner.state["notices"][0]["text"] == "40 of 80 judgments (50.0%) have no score: 40 unreadable (x)."


def test_refused_calls_are_reported_loudly(tmp_path):
    said = {"error": {"message": "invalid api key"}}

    def refused(body):
        return (
            {"status": 401, "body": said}
            if "no. 31" in body["messages"][-1]["content"] and body["model"] == "x"
            else None
        )

    with judge_server(faults=refused) as server:
        tuner = tuner_of(jury(server, "x", "y"), tmp_path, concurrency=1)
        do(tuner, do="run")
    assert "invalid api key" in tuner.state["alert"]
    assert "401" in tuner.state["alert"]
    assert "y:" not in tuner.state["alert"]
    (notice,) = tuner.state["notices"]
    n = tuner.judgments["error"].notna().sum()  # also those that were not asked any more
    # the server's words stand once on screen
    assert notice["text"].startswith(f"{n} of 80 judgments ({n / 80:.1%}) have no score: {n} judge down (x). ")
    assert notice["text"].endswith(f"Press Run to request the remaining {n}.")


def test_the_cost_after_stop_is_what_the_server_was_asked_and_run_asks_the_remaining(tmp_path):
    """Each request costs (100 · 1 + 11 · 2)/10⁶ US$: the server counts 100 prompt and 11 completion tokens."""
    with judge_server(always={"delay": 0.05}) as server:
        judges = jury(server, "x", "y", price=(1.0, 2.0))
        tuner = tuner_of(judges, tmp_path, concurrency=2)
        tuner.receive({"do": "run"})
        wait_for(lambda: len(server.seen) >= 10)
        do(tuner, do="stop")
        paid = len(server.paid)
        assert 10 <= paid < 80
        assert cost_tile(tuner)["note"].startswith(f"{paid} live replies")
        assert tuner.session.evaluation.cost.paid_usd == pytest.approx(paid * 122e-6)
        assert ek.history().iloc[0]["paid_usd"] == pytest.approx(paid * 122e-6)
        rest = f"Press Run to request the remaining {80 - paid}."
        again = tuner_of(judges, tmp_path)
        for shown in (tuner, again):
            assert (shown.state["alert"], len(shown.state["notices"])) == ("", 1)
            what = f"{80 - paid} of 80 judgments ({1 - paid / 80:.1%}) have no score: {80 - paid} without a reply."
            assert shown.state["notices"][0]["text"] == f"{what} {rest}"
        do(again, do="jury", active={"x": 1}, samples=1, aggregate="mean", budget_usd="")
        assert "Select its judges and samples under Jury, then press Run" in again.state["notices"][0]["text"]
        again.edit(again.rubric.names[0], description="Other words?")
        assert again.wait_idle(300)
        assert "Press 'Edit the version shown' under Versions, select its" in again.state["notices"][0]["text"]
        do(again, do="take", key=again.session.runs.current)
        do(again, do="jury", active={"x": 1, "y": 1}, samples=1, aggregate="mean", budget_usd="")
        do(again, do="run")
        assert len(server.paid) == 80
        assert again.state["notices"] == []


def test_a_stop_after_the_last_reply_says_that_all_are_here(tmp_path):
    with judge_server() as server:
        session = tuner_of(jury(server, "x"), tmp_path).session

        def report(progress):
            if progress.done == progress.total:
                session.runs.stop()

        text = session.run(report)
    assert text == f"stopped: {len(server.paid)} replies received; all replies are here"


def test_calls_that_outlast_the_wait_of_ctrl_c_are_in_the_cost_after_stop(tmp_path):
    with judge_server(always={"delay": 6}) as server:
        tuner = tuner_of(jury(server, "x"), tmp_path, concurrency=3)
        tuner.receive({"do": "run"})
        wait_for(lambda: len(server.seen) == 3)
        do(tuner, do="stop")
        assert len(server.paid) == 3
    assert cost_tile(tuner)["note"].startswith("3 live replies")


def test_a_judge_that_is_added_keeps_the_server_of_the_jury(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret")
    with judge_server() as server:
        tuner = tuner_of(jury(server, "x", api_key_env="MY_KEY"), tmp_path)
        do(tuner, do="judge", judge="openai:z")
        assert tuner.state["status"]["text"] == f"added openai:z: its calls go to {server.url} (key in MY_KEY)"
        do(tuner, do="run")
        assert {(one.body["model"], one.headers["Authorization"]) for one in server.seen} == {
            ("x", "Bearer secret"),
            ("z", "Bearer secret"),
        }
        tuner.label("i00", "0")  # against the jury: there is something to improve
        do(tuner, do="suggest", judge="openai:adviser")
        assert server.seen[-1].body["model"] == "adviser"
        again = tuner_of(jury(server, "x", api_key_env="MY_KEY"), tmp_path)
        assert [judge["server"] for judge in again.state["jury"]["judges"]] == [f"{server.url} (key in MY_KEY)"] * 2


def test_on_several_servers_the_person_is_asked(tmp_path):
    judges = [ek.Judge("openai", name, base_url=f"http://127.0.0.1:{port}/v1") for name, port in (("x", 9), ("y", 19))]
    tuner = tuner_of(judges, tmp_path)
    do(tuner, do="judge", judge="openai:z")
    assert "judge openai:z names no server" in tuner.state["alert"]
    assert len(tuner.state["jury"]["judges"]) == 2
    servers = tuner.state["jury"]["servers"]
    assert servers == ["http://127.0.0.1:19/v1", "http://127.0.0.1:9/v1", "the provider's own"]
    do(tuner, do="judge", judge="openai:z", server=servers[0])
    assert tuner.state["alert"] == ""
    do(tuner, do="judge", judge="openai:gpt-4.1", server=servers[-1])
    assert tuner.state["status"]["text"].endswith("its calls go to api.openai.com (key in OPENAI_API_KEY)")
    assert [judge["server"] for judge in tuner.state["jury"]["judges"]][2:] == [
        servers[0],
        "api.openai.com (key in OPENAI_API_KEY)",
    ]


def test_an_error_goes_away_with_its_cause(tmp_path):
    tuner = tuner_of("fake:strict", tmp_path)
    do(tuner, do="judge", judge="nobody:x")
    assert "unknown judge provider" in tuner.state["alert"]
    do(tuner, do="dismiss", action="run")  # typed elsewhere
    assert "unknown judge provider" in tuner.state["alert"]
    do(tuner, do="dismiss", action="judge")  # typed anew
    assert tuner.state["alert"] == ""
    do(tuner, do="yaml", text="- 1")
    do(tuner, do="run")
    assert "fix the rubric first" in tuner.state["alert"]
    do(tuner, do="yaml", text="- 2")
    assert "fix the rubric first" in tuner.state["alert"]
    do(tuner, do="yaml", text=str(RUBRIC))
    assert tuner.state["alert"] == ""
    do(tuner, do="run")
    do(tuner, do="label", item_id="i00", label="9")
    assert "not on the scale" in tuner.state["alert"]
    do(tuner, do="select", item_id="i01")
    assert tuner.state["alert"] == ""


def test_an_item_can_be_skipped_and_comes_again_at_the_end(tmp_path):
    tuner = tuner_of("fake:strict", tmp_path)
    do(tuner, do="queue", open=True, source="random", blind=True)
    first = tuner.state["queue"]["item_id"]
    do(tuner, do="skip_item", item_id=first, criterion="c", id="m 1")
    queue = tuner.state["queue"]
    assert (queue["answers"], queue["n_done"], queue["n_skipped"]) == ("m 1", 0, 1)
    second = queue["item_id"]
    do(tuner, do="skip_item", item_id=first, criterion="c")  # is not on screen any more
    assert tuner.state["queue"]["item_id"] == second != first
    for _ in range(39):
        do(tuner, do="label_next", item_id=tuner.state["queue"]["item_id"], criterion="c", label="2")
    assert tuner.state["queue"]["item_id"] == first
    assert first not in set(tuner.labels["item_id"])
    do(tuner, do="skip_item", item_id=first, criterion="c")  # the only one that is left
    do(tuner, do="label_next", item_id=first, criterion="c", label="2")
    assert (tuner.state["queue"]["item_id"], tuner.state["queue"]["n_skipped"]) == (None, 0)


def test_an_annotator_can_be_left_out_again_in_the_queue(tmp_path):
    tuner = tuner_of("fake:strict", tmp_path, annotator="Ana")
    do(tuner, do="run")
    do(tuner, do="queue", open=True, source="random", blind=True)
    assert tuner.state["queue"]["counts"] is True  # nobody else has labels: hers count from the first one on
    do(tuner, do="label_next", item_id=tuner.state["queue"]["item_id"], criterion="c", label="2")
    do(tuner, do="count_labels", annotator="Ana", counts=False)
    do(tuner, do="label_next", item_id=tuner.state["queue"]["item_id"], criterion="c", label="2")
    for shown in (tuner, tuner_of("fake:strict", tmp_path, annotator="Ana")):
        do(shown, do="queue", open=True, source="random", blind=True)
        assert shown.state["queue"]["counts"] is False
        do(shown, do="queue", open=False, source="random", blind=True)
        assert shown.state["figures"]["newcomers"] == {"Ana": 2}
        assert shown.state["figures"]["tiles"][0]["value"] == "NA"
    do(tuner, do="count_labels", annotator="Ana", counts=True)
    assert tuner.state["figures"]["newcomers"] == {}


def test_the_columns_to_show_never_hold_labels_of_people(tmp_path):
    """Also those of held-out items, whose looks are counted."""
    items = pd.concat([ITEMS, ITEMS.assign(item_id=lambda t: "j" + t["item_id"])], ignore_index=True)
    items = items.assign(ann=[at % 3 for at in range(80)], language=["en", "de"] * 40)
    tuner = ek.RubricTuner(items, RUBRIC, "fake:strict", {"c": ["ann"]}, samples=1, folder=tmp_path)
    assert tuner.wait_idle(300)
    do(tuner, do="run")
    assert tuner.labels["part"].eq("held-out").any()
    assert tuner.state["page"]["item_columns"] == {"language": ["de", "en"]}
