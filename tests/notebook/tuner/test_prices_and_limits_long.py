"""What the tuner names before it is paid is what the server gets; the session's limit; words that stand once."""

from __future__ import annotations

import json
import random
import re
from types import SimpleNamespace

import pandas as pd
import pytest
from servers import judge_server
from small_tuner import do

import evalkit as ek
from evalkit.core.prompts_and_replies import Reply
from evalkit.evaluation.freeze_and_calibrate import write_profile
from evalkit.notebook.tuner.drafts import run_price
from evalkit.notebook.tuner.version_runs import Runs

N = 12
CRITERIA = [
    {"name": name, "scale": {0: "no", 1: "nearly", 2: "yes"}, "pass_at": 2, "description": f"Is {name} so?"}
    for name in "ab"
]
RUBRIC = ek.Rubric(id="r", inputs=["answer"], criteria=CRITERIA)
ITEMS = pd.DataFrame({"item_id": [f"i{at:02d}" for at in range(N)], "answer": [f"text {at}" for at in range(N)]})


def reply(body):
    """Both criteria and one are read; of item 7, nothing can be read at first."""
    said = {name: {"explanation": "so", "score": 2} for name in "ab"} | {"explanation": "so", "score": 2}
    unread = "text 7" in body["messages"][-1]["content"] and body["model"] == "x"
    return {"content": "hm" if unread else json.dumps(said)}


def n_requests(text):
    found = re.match(r"(\d+) requests?, ", text)
    return int(found[1]) if found else 0


def labels_of(n, of="a"):
    return pd.DataFrame(
        {"item_id": [f"i{at:02d}" for at in range(n)], "criterion": of, "annotator": "ann", "label": "0"}
    )


@pytest.mark.parametrize("model", ["x", "y"])
def test_run_names_what_the_server_then_gets(tmp_path, model, monkeypatch):
    """Whatever a run asks again, and however many criteria stand in a prompt; also of a profile, and after edits."""
    monkeypatch.chdir(tmp_path)
    dice = random.Random(41)
    with judge_server(faults=reply) as server:
        judge = ek.Judge("openai", model, name=model, base_url=server.url, price=(1.0, 2.0), max_tokens=500)
        for number in range(6):
            refresh = dice.choice([False, True, "unscored", 1.0])
            rules = {"samples": 1, "criteria_per_call": dice.choice([1, 2, "all"])}
            folder = tmp_path / str(number)
            folder.mkdir()
            profile = write_profile(folder / "p.yaml", RUBRIC, judge, **rules)
            tuner = ek.RubricTuner(ITEMS, profile, folder=folder, cache=folder / "c", refresh=refresh, retries=0)
            for step in [*dice.choices(["run", "edit"], k=3), "run"]:
                if step == "edit":
                    tuner.edit(dice.choice("ab"), description=f"words {dice.random()}")
                    continue
                assert tuner.wait_idle(300)
                n_named, n_seen = n_requests(tuner.state["status"]["button"]), len(server.paid)
                assert tuner.plan().n_requests == n_named
                do(tuner, do="run")
                assert len(server.paid) - n_seen == n_named, (refresh, rules, step)
                if refresh is True:
                    assert n_named > 0


def test_the_limit_of_the_session_is_on_the_buttons_and_nothing_is_asked_beyond(tmp_path):
    with judge_server(faults=reply) as server:
        judge = ek.Judge("openai", "y", name="y", base_url=server.url, price=(1000.0, 1000.0), max_tokens=50)
        tuner = ek.RubricTuner(ITEMS, RUBRIC, judge, labels_of(4), samples=1, folder=tmp_path, cache=tmp_path / "c",
                               budget_usd=1.0)  # fmt: skip
        assert tuner.wait_idle(300)
        assert tuner.state["status"]["button"].endswith(", over the limit: US$ 1.00 left")
        assert tuner.state["status"]["plan"].endswith("over the limit: US$ 1.00 left; raise 'Spend at most' under Jury")
        do(tuner, do="run")  # what is expected refuses nothing; the run ends where the next call may cost too much
        n_sent = len(server.seen)
        assert n_sent == 0  # each call may cost more than US$ 1
        assert tuner.judgments["error"].eq("budget").sum() == 24
        jury = {"active": {"y": 1}, "samples": 1, "aggregate": "mean"}
        do(tuner, do="jury", **jury, budget_usd="20")
        assert "over" not in tuner.state["status"]["button"]
        do(tuner, do="run")
        paid = 24 * (100 + 11) / 1000  # the server counts 100 and 11 tokens
        assert tuner.session.drafts.left_usd == pytest.approx(20 - paid)
        # what is left is less by what was paid, for suggestions, tries and chance too
        do(tuner, do="jury", **jury, budget_usd=str(paid + 0.5))
        tuner.suggest("fake:strict")
        tuner.edit("a", description="other words")
        assert tuner.wait_idle(300)
        n_seen, suggestions = len(server.seen), tuner.state["suggestions"]
        assert ", over the limit: US$ 0.50 left" in suggestions["prices"]["y"]
        assert ", over the limit: US$ 0.50 left" in suggestions["rows"][0]["price"]
        for message in ({"do": "try", "number": 0}, {"do": "suggest", "judge": "y"}, {"do": "run"}):
            do(tuner, **message)
            assert tuner.session.drafts.left_usd >= 0, message
        left_usd = tuner.session.drafts.left_usd
        assert left_usd == pytest.approx(0.5 - (len(server.seen) - n_seen) * 0.111)
        again = ek.RubricTuner(ITEMS, RUBRIC, judge, labels_of(4), samples=1, folder=tmp_path, cache=tmp_path / "c",
                               budget_usd=1.0)  # fmt: skip
        assert again.session.drafts.left_usd == pytest.approx(left_usd)  # the same session: the kernel has paid


def test_of_a_run_beyond_the_limit_the_part_that_fits_can_be_bought(tmp_path):
    with judge_server(faults=reply) as server:
        judge = ek.Judge("openai", "y", name="y", base_url=server.url, price=(1000.0, 1000.0), max_tokens=50)
        labels = labels_of(N).tail(2)  # which are judged first
        tuner = ek.RubricTuner(ITEMS, RUBRIC, judge, labels, samples=1, folder=tmp_path, cache=tmp_path / "c",
                               budget_usd=4.0)  # fmt: skip
        assert tuner.wait_idle(300)
        part = tuner.state["status"]["part"]
        n_items = int(re.match(r"Run (\d+) items: ", part)[1])
        assert 2 < n_items < N
        assert n_requests(part.partition(": ")[2]) == 2 * n_items
        price = float(part.rpartition("US$ ")[2].removesuffix(", the limit"))
        assert price <= 4 < price * (n_items + 1) / n_items  # one item more is too much
        do(tuner, do="part")
        assert len(server.paid) == 2 * n_items
        scored = tuner.scores.loc[tuner.scores["n_scored"] > 0, "item_id"]
        assert {"i10", "i11"} <= {*scored}
        assert scored.nunique() == n_items
        assert f"Not finished: {2 * n_items} of 24" in tuner.state["figures"]["decision"]["verdict"]
        do(tuner, do="part")  # nothing fits any more, or the rest that does
        do(tuner, do="jury", active={"y": 1}, samples=1, aggregate="mean", budget_usd="")
        assert tuner.state["status"]["part"] == ""
        do(tuner, do="run")
        assert (len(server.paid), len(tuner.versions)) == (24, 1)  # nothing is paid twice


def test_of_a_part_the_reasons_of_what_failed_are_shown(tmp_path):
    with judge_server(faults=lambda body: {"status": 404} if body["model"] == "down" else reply(body)) as server:
        judges = [
            ek.Judge("openai", name, name=name, base_url=server.url, price=(1000.0, 1000.0), max_tokens=50)
            for name in ("y", "down")
        ]
        tuner = ek.RubricTuner(ITEMS, RUBRIC, judges, labels_of(2), samples=1, folder=tmp_path, cache=tmp_path / "c",
                               budget_usd=8.0, retries=0)  # fmt: skip
        assert tuner.wait_idle(300)
        n = 2 * int(re.match(r"Run (\d+) items: ", tuner.state["status"]["part"])[1])
        do(tuner, do="part")
        text = tuner.state["status"]["text"]
        assert text == f"received {n} replies; {n} calls failed ('down'); {48 - n} still to ask for"
        errors = tuner.judgments["error"]
        failed = errors.isin(["server_error", "judge_down"]).sum()
        assert (failed, errors.eq("stopped").sum()) == (n, 48 - 2 * n)
        assert "404" in tuner.state["alert"]
        assert f"Not finished: {n} of 48" in tuner.state["figures"]["decision"]["verdict"]


@pytest.mark.parametrize("per_call", ["all", 3])
def test_the_part_that_fits_holds_whole_items_where_a_prompt_does(tmp_path, per_call):
    items = [
        {
            "item_id": f"i{at}",
            "question": f"q {at}",
            "answer": f"text {at}",
            "criteria": [f"has {c}{at}" for c in "abcd"],
        }
        for at in range(10)
    ]
    rows = ek.explode_criteria(pd.DataFrame(items), "criteria")
    n_asked = []

    def own(prompt):
        n_asked.append(len(set(re.findall(r"has [abcd]\d", str(prompt)))))
        met = [{"number": number + 1, "explanation": "so", "score": 1} for number in range(n_asked[-1])]
        return Reply(json.dumps(met if n_asked[-1] > 1 else met[0]), prompt_tokens=100, completion_tokens=10)

    judge = ek.Judge.function(own, name="own", version="1", price=(100.0, 10.0), max_tokens=500)
    labels = pd.DataFrame(
        {"item_id": rows["item_id"][::4], "criterion": "requirement", "annotator": "ann", "label": "1"}
    )
    tuner = ek.RubricTuner(rows, "requirement", judge, labels, samples=1, criteria_per_call=per_call, folder=tmp_path,
                           cache=tmp_path / "c")  # fmt: skip
    assert tuner.wait_idle(300)
    jury = {"active": {"own": 1}, "samples": 1, "aggregate": "mean"}
    do(tuner, do="jury", **jury, budget_usd=str(0.8 * tuner.plan().usd))
    assert tuner.state["status"]["part"].startswith("Run ")
    do(tuner, do="part")
    n_part = len(n_asked)
    do(tuner, do="jury", **jury, budget_usd="")
    do(tuner, do="run")
    assert sorted(n_asked) == sorted([4] * 10 if per_call == "all" else [3, 1] * 10), "each prompt once, and whole"
    assert n_part < len(n_asked)


def test_the_part_that_fits_is_the_largest_and_is_found_in_few_plans(tmp_path, monkeypatch):
    """Whatever the items cost: a list of prices knows the truth."""
    dice = random.Random(45)
    for attempt in range(60):
        n = dice.randint(1, 200)
        kind = attempt % 3
        prices = [1.0 if kind == 0 else dice.random() if kind == 1 else dice.choice([0.0, 0.0, 50.0]) for _ in range(n)]
        left_usd, asked = dice.random() * sum(prices), []

        def plan(_version, ids, prices=prices, asked=asked):
            asked.append(len(ids))
            return SimpleNamespace(
                usd=sum(prices[: len(ids)]), n_to_call=len(ids), n_requests=len(ids), usd_at_most=1.0,
                table=pd.DataFrame({"n_to_call": [len(ids)], "n_past": [20]}),
            )  # fmt: skip

        items = pd.DataFrame({"item_id": [f"i{at}" for at in range(n)]})
        setup = SimpleNamespace(items=items, spec=SimpleNamespace(per_item=False), plan=plan)
        drafts = SimpleNamespace(left_usd=left_usd, next_version=lambda: None)
        log = SimpleNamespace(counted=pd.DataFrame({"item_id": []}))
        runs = object.__new__(Runs)
        runs._setup, runs._drafts, runs._labels = setup, drafts, SimpleNamespace(log=log)
        fits = [size for size in range(n + 1) if sum(prices[:size]) <= left_usd]
        expected = max(fits) if max(fits) < n else 0  # all fit: no part
        assert len(runs.fitting()[0]) == expected, (prices, left_usd)
        assert len(asked) <= (4 if kind == 0 else 20)


def test_the_words_of_a_server_stand_once_and_unread_replies_are_asked_again(tmp_path):
    def faults(body):
        if body["model"] == "down":
            return {"status": 401, "body": {"error": {"message": "key of nobody"}}}
        return reply(body)

    with judge_server(faults=faults) as server:
        judges = [ek.Judge("openai", name, name=name, base_url=server.url, price=(1.0, 2.0)) for name in ("x", "down")]
        tuner = ek.RubricTuner(ITEMS, RUBRIC, judges, labels_of(4), samples=1, folder=tmp_path, retries=0)
        do(tuner, do="run")
        decision = tuner.state["figures"]["decision"]
        shown = json.dumps([decision, tuner.state["alert"], tuner.state["notices"]])
        assert shown.count("key of nobody") == 1
        assert "key of nobody" in decision["then"]
        do(tuner, do="jury", active={"x": 1}, samples=1, aggregate="mean", budget_usd="")
        do(tuner, do="run")
        (notice,) = tuner.state["notices"]
        assert n_requests(notice["again"]) == 2  # one item, two criteria
        n_seen = len(server.paid)
        do(tuner, do="again")
        assert (len(server.paid) - n_seen, len(tuner.versions)) == (2, 2)


@pytest.mark.parametrize("grouped", [1, "all"])
def test_only_what_cannot_be_read_is_asked_again_whatever_rubric_it_was_asked_for(tmp_path, grouped, monkeypatch):
    """Replies of another rubric with the same prompts count; those of them that can be read are not asked again."""
    monkeypatch.chdir(tmp_path)
    with judge_server(faults=reply) as server:
        judge = ek.Judge("openai", "x", name="x", base_url=server.url, price=(1.0, 2.0), max_tokens=500)
        for name, criteria in [("r", CRITERIA), ("o", CRITERIA), ("p", [CRITERIA[0], CRITERIA[1] | {"weight": 2}])]:
            rubric = ek.Rubric(id=name, inputs=["answer"], criteria=criteria)
            profile = write_profile(tmp_path / f"{name}.yaml", rubric, judge, criteria_per_call=grouped, samples=1)
            tuner = ek.RubricTuner(ITEMS, profile, folder=tmp_path, cache=tmp_path / "c", retries=0)
            do(tuner, do="run")
            for _ in range(2):
                n_seen = len(server.paid)
                n_named = n_requests(tuner.state["notices"][0]["again"])
                assert n_named == (1 if grouped == "all" else 2), "item 7 alone"
                do(tuner, do="again")
                assert len(server.paid) - n_seen == n_named


def test_prices_are_of_the_labels_and_of_the_draft_as_they_are_now(tmp_path):
    n = 240
    items = pd.DataFrame({"item_id": [f"i{at}" for at in range(n)], "answer": [f"item {at}" for at in range(n)]})
    labels = pd.DataFrame({"item_id": items["item_id"], "criterion": "a", "annotator": "ann"})
    labels["label"] = ["2" if at % 2 else "0" for at in range(n)]
    with judge_server(always={"content": json.dumps({"explanation": "so", "score": 2})}) as server:
        judge = ek.Judge("openai", "y", name="y", base_url=server.url, price=(1.0, 2.0), max_tokens=2000)
        tuner = ek.RubricTuner(items, RUBRIC, judge, labels, samples=1, folder=tmp_path, cache=tmp_path / "c")
        do(tuner, do="run")
        tuner.edit("a", description="Is a so, in other words?")
        assert tuner.wait_idle(300)
        figures = tuner.state["figures"]
        share = (tuner.labels.loc[tuner.labels["part"] == "dev", "label"].astype(str) == "2").mean()
        values = {name: point["value"] for name, point in figures["agreements"].items()}
        assert values == {"a": pytest.approx(share, abs=1e-4)}
        assert tuner.state["draft"]["differs"] == "1 question differs from v1"
        tuner.edit("a", scale={1: "almost"})
        tuner.edit("b", scale={0: "never"})
        assert tuner.state["draft"]["differs"] == "1 question and 2 levels differ from v1"
        # a criterion without labels: nothing to look at, no suggestion to pay for until a label says otherwise
        assert figures["split"] is True
        do(tuner, do="criterion", name="b")
        assert tuner.state["figures"]["split"] is False
        assert "y" not in tuner.state["suggestions"]["prices"]
        do(tuner, do="label", item_id="i0", criterion="b", label="0")
        assert tuner.state["suggestions"]["prices"].get("y", "").startswith("at most US$ ")


def test_a_price_that_the_spending_limit_cuts_says_so(tmp_path):
    judge = ek.Judge("openai", "y", base_url="http://127.0.0.1:1/v1", price=(10.0, 100.0), max_tokens=500)
    plan = ek.plan(ITEMS, RUBRIC, judge, samples=1, cache=tmp_path)
    between = (plan.usd + plan.usd_at_most) / 2
    assert plan.usd < between < plan.usd_at_most
    assert run_price(plan, between).endswith(f"at most US$ {between:.2f}, the limit")
    assert run_price(plan, plan.usd_at_most + 1).endswith(f"at most US$ {plan.usd_at_most:.2f}")


def test_a_request_that_is_not_sent_is_not_called_free(tmp_path):
    with judge_server(faults=reply) as server:
        judge = ek.Judge("openai", "y", name="y", base_url=server.url, price=(1.0, 1.0), max_tokens=50)
        labels = labels_of(6).assign(label="2")
        tuner = ek.RubricTuner(ITEMS, RUBRIC, judge, labels, samples=1, folder=tmp_path, cache=tmp_path / "c")
        do(tuner, do="run")
        assert tuner.state["suggestions"]["prices"] == {"y": "nothing: jury and people agree on all dev items"}
        n_paid = len(server.paid)
        do(tuner, do="suggest", judge="y")
        assert len(server.paid) == n_paid
        do(tuner, do="label", item_id="i00", label=None, criterion="a")
        tuner.label("i01", "0", criterion="a")
        tuner.session.labels.annotator = "ann"
        tuner.label("i01", "0", criterion="a")
        assert tuner.wait_idle(300)
        assert tuner.state["suggestions"]["prices"]["y"].startswith("at most US$ ")
