"""Several criteria per call: groups, keys, gaps in replies, and the division of what was paid."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from batch_server import batch_server
from servers import judge_server
from small_rubrics import rubric_of

import evalkit as ek
from evalkit.cli import main
from evalkit.core.formatting import Bill
from evalkit.core.prompts_and_replies import Prompt, Reply
from evalkit.engine.batches import ticket_in_progress
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
from evalkit.errors import ConfigError, EvalkitWarning, InputError, RubricError
from evalkit.rubrics import Profile
from evalkit.rubrics.parsing.several_criteria import parser_of_group
from evalkit.rubrics.prompt_builder import load_template
from evalkit.stats import halo

NAMES = ("clear", "true", "kind")
RUBRIC = rubric_of("several", {0: "no", 1: "partly", 2: "yes"}, *NAMES)
ITEMS = [{"item_id": "x", "answer": "first"}, {"item_id": "y", "answer": "second"}]
WHOLE = {"clear": {"explanation": "c", "score": 2}, "true": {"explanation": "t", "score": 0}, "kind": {"score": 1}}
KEYS = {
    1: ["4f1350c1a75a051d", "9f9688a71156ce51", "f4264918c35ef507"],
    2: ["e2b4f27394e084c2", "e2b4f27394e084c2", "f4264918c35ef507"],
    "all": ["58edf8e4c9afe8b5", "58edf8e4c9afe8b5", "58edf8e4c9afe8b5"],
}


def read(text: str | None, *ends: Any) -> list[Any]:
    """The code, or the reason, of each criterion."""
    parsed = [parser_of_group(RUBRIC.criterion(name).scale, name, NAMES)(text, *ends) for name in NAMES]
    return [one.code if one.error is None else one.error for one in parsed]


@pytest.mark.parametrize(
    ("text", "ends", "expected"),
    [
        (json.dumps(WHOLE), (), [2, 0, 1]),
        (f"Here it is:\n```json\n{json.dumps(WHOLE)}\n```", (), [2, 0, 1]),
        (f"I judged all three. {json.dumps(WHOLE)} Done.", (), [2, 0, 1]),
        (f"<think>clear: 0</think>{json.dumps(WHOLE)}", (), [2, 0, 1]),
        (json.dumps({name: WHOLE[name] for name in ("clear", "kind")}), (), [2, "unreadable", 1]),
        (json.dumps(WHOLE | {"witty": {"score": 2}}), (), [2, 0, 1]),
        (json.dumps(WHOLE | {"true": {"score": "blue"}}), (), [2, "unreadable", 1]),
        (json.dumps(WHOLE | {"true": {"score": 7}}), (), [2, "off_scale", 1]),
        (json.dumps({"clear": 2, "true": 0, "kind": 1}), (), [2, 0, 1]),
        ('{"clear": {"score": 2}, "clear": {"score": 0}, "true": {"score": 0}, "kind": {"score": 1}}', (),
         ["ambiguous", 0, 1]),
        ('{"clear": {"score": 2}, "clear": {"score": 2}, "true": {"score": 0, "score": 2}, "kind": {"score": 1}}', (),
         [2, "ambiguous", 1]),
        ('{"clear": {"score": 2}, "true": {"explanation": "it sta', ("length",), [2, "truncated", "truncated"]),
        ('{"clear": {"score": 2}, "true": 1', ("length",), [2, "truncated", "truncated"]),
        ('{"clear": {"score": 2}, "true": {"explanation": "it sta', ("stop",), ["unreadable"] * 3),
        ("clear: 2, true: 0, kind: 1", (), ["unreadable"] * 3),
        ("", (), ["empty"] * 3),
        (None, ("stop", "I will not."), ["refused"] * 3),
        ("I'm sorry, but I can't help with that.", (), ["refused"] * 3),
        ('[{"score": 1}, {"score": 2}]', (), ["unreadable"] * 3),
        ('{"score": 2}', (), ["unreadable"] * 3),
        (json.dumps({"scores": WHOLE}), (), [2, 0, 1]),
        (json.dumps({"candidate": WHOLE}), (), ["unreadable"] * 3),
        (json.dumps({"Clear": 2, "TRUE ": 0, "kind": 1}), (), [2, 0, 1]),
        (f"A set {{of three}}: {json.dumps(WHOLE)}", (), [2, 0, 1]),
        # an unescaped quotation of the candidate's words in a broken object
        ('{"true": {"explanation": "It says "{"clear": {"score": 2}, "kind": {"score": 2}}" to me", "score": 0}}', (),
         ["unreadable"] * 3),
        ('I judge. {"true": {"explanation": "It says "{"clear": {"score": 2}}" to me", "score": 0}}', (),
         ["unreadable"] * 3),
        ('It says "{"clear": {"score": 2}}". {"true": {"score": 0}, "kind": {"score": 1}}', (), ["unreadable", 0, 1]),
        (json.dumps({"clear": {"explanation": '{"true": {"score": 2}}', "score": 1}}), (),
         [1, "unreadable", "unreadable"]),
        ('{"clear": {"score": 2}}\n{"true": {"score": 0}}\n{"kind": {"score": 1}}', (), [2, 0, 1]),
        ('{"clear": {"score": 2}}\n{"clear": {"score": 0}}', (), ["ambiguous", "unreadable", "unreadable"]),
        ("{" * 100_000, (), ["unreadable"] * 3),
    ],
)  # fmt: skip
def test_each_criterion_is_read_by_itself(text: str | None, ends: tuple[Any, ...], expected: list[Any]) -> None:
    assert read(text, *ends) == expected


def test_null_is_no_number() -> None:
    found = read(json.dumps(WHOLE | {"true": None}))
    assert (found[0], found[2]) == (2, 1)
    assert isinstance(found[1], str)


class Counted:
    """A judge of known truth and price that counts its calls."""

    def __init__(self, leave_out: str = "") -> None:
        self.calls: list[str] = []
        self.leave_out = leave_out

    def __call__(self, prompt: Prompt) -> Reply:
        names = [one.criterion for one in prompt.together] or [prompt.criterion]
        self.calls.append(prompt.criterion)
        whole = {name: WHOLE[name] for name in names if name != self.leave_out}
        text = json.dumps(whole if prompt.together else WHOLE[prompt.criterion])
        return Reply(text, "stop", prompt_tokens=100, completion_tokens=20, cost_usd=0.3)


def judged(judge: Counted, cache: Path, per_call: Any, rubric: ek.Rubric = RUBRIC, **options: Any) -> Any:
    return ek.judge(
        ITEMS, rubric, ek.Judge("function", "truth", ask=judge), samples=1, criteria_per_call=per_call, cache=cache,
        **options,
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("per_call", "calls"), [(1, 6), (2, 4), (3, 2), (9, 2), ("all", 2)])
def test_each_reply_is_paid_and_billed_once(tmp_path: Path, per_call: Any, calls: int) -> None:
    judge = Counted()
    first = judged(judge, tmp_path, per_call)
    assert len(judge.calls) == calls
    assert first["score"].tolist() == [2, 0, 1] * 2
    assert Bill.of(first) == Bill(pytest.approx(0.3 * calls), calls, 0)  # US$ .3 for each call
    evaluation = ek.evaluate(
        ITEMS, RUBRIC, ek.Judge("function", "truth", ask=judge), samples=1, criteria_per_call=per_call, cache=tmp_path
    )
    assert (evaluation.cost.n_cached, evaluation.cost.reused_usd) == (calls, pytest.approx(0.3 * calls))
    again = judged(judge, tmp_path, per_call)
    assert len(judge.calls) == calls
    assert again["score"].tolist() == first["score"].tolist()
    assert again["cost_usd"].tolist() == first["cost_usd"].tolist()


def test_an_edit_asks_only_its_group(tmp_path: Path) -> None:
    judge = Counted()
    judged(judge, tmp_path, 2)
    judge.calls.clear()
    judged(judge, tmp_path, 2, RUBRIC.edit("kind", description="Is it kind?"), adopt=True)
    assert judge.calls == ["kind"] * 2
    judge.calls.clear()
    judged(judge, tmp_path, 2, RUBRIC.edit("true", description="Is it true?"), adopt=True)
    assert judge.calls == ["clear, true"] * 2


def test_a_missing_criterion_is_unscored_and_asked_again_with_its_group(tmp_path: Path) -> None:
    judge = Counted(leave_out="true")
    first = judged(judge, tmp_path, "all")
    assert first["error"].eq("unreadable").tolist() == [False, True, False] * 2
    judged(judge, tmp_path, "all")
    assert len(judge.calls) == 2  # an unreadable reply is not asked again by itself
    judge.leave_out = ""
    again = judged(judge, tmp_path, "all", refresh="unscored")
    assert len(judge.calls) == 4
    assert again["score"].tolist() == [2, 0, 1] * 2
    assert Bill.of(again).known_usd == pytest.approx(0.6)


def test_a_criterion_with_examples_is_asked_alone(tmp_path: Path) -> None:
    rubric = RUBRIC.edit("true", examples=[{"inputs": {"answer": "z"}, "label": 1}])
    assert Spec.of(rubric, "fake:strict", 1, criteria_per_call="all").groups == ((0, 2), (1,), (0, 2))
    judge = Counted()
    judged(judge, tmp_path, "all", rubric)
    assert sorted(judge.calls) == ["clear, kind", "clear, kind", "true", "true"]


def test_profile_and_plan(tmp_path: Path) -> None:
    profile = Profile(profile="p", judges=["fake:strict"], samples=1, criteria_per_call="all").with_rubric(RUBRIC)
    assert profile.to_dict()["criteria_per_call"] == "all"
    assert ek.plan(ITEMS, profile, cache=tmp_path).n_to_call == 2
    assert ek.plan(ITEMS, profile, criteria_per_call=1, cache=tmp_path).n_to_call == 6
    evaluation = ek.evaluate(ITEMS, profile, cache=tmp_path)
    assert evaluation.spec.settings.source("criteria_per_call") == "profile p@1"


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "most"])
def test_wrong_numbers_are_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="criteria_per_call"):
        ek.plan(ITEMS, RUBRIC, "fake:strict", criteria_per_call=value)


def test_templates_and_judges_that_cannot() -> None:
    with pytest.raises(RubricError, match="shows one criterion per prompt"):
        ek.plan(ITEMS, RUBRIC, "fake:strict", template="tagged@v1", criteria_per_call=2)
    with pytest.raises(ConfigError, match="so a reply has one verdict"):
        ek.plan(ITEMS, RUBRIC, ek.Judge("fake", "noisy", score="mode"), samples=1, criteria_per_call=2)


def test_names_that_differ_only_in_case_are_told_apart() -> None:
    scale = RUBRIC.criteria[0].scale
    text = '{"Tone": {"score": 2}, "tone": {"score": 0}, "TONE": {"score": 1}}'
    parsed = [parser_of_group(scale, name, ("Tone", "tone"))(text) for name in ("Tone", "tone")]
    assert [one.code for one in parsed] == [2, 0]


# -- over loopback, against a server that knows the truth


def truth(item: int, name: str) -> int:
    return (item * 7 + NAMES.index(name) * 5 + item // 3) % 3


class Grader:
    """Replies with the truth on every criterion that the prompt names; `gap` changes the parts of a reply."""

    def __init__(self, gap: Any = None, fault: Any = None) -> None:
        self.gap, self.fault, self.n_seen, self.paid = gap, fault, 0, Counter[str]()

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        prompt = body["messages"][-1]["content"]
        item = int(re.findall(r"ITEM-(\d+)", prompt)[0])
        names = re.findall(r"^Criterion: (\w+)$", prompt, re.MULTILINE)
        self.n_seen += 1
        if self.fault is not None and (step := self.fault(self.n_seen)):
            return step  # type: ignore[no-any-return]
        self.paid[f"{item} {','.join(names)}"] += 1
        parts = {name: {"explanation": f"as to {name}", "score": truth(item, name)} for name in names}
        text = json.dumps(parts if len(names) > 1 else parts[names[0]])
        changed = None if self.gap is None else self.gap(item, parts)
        return {"content": text} | ({"content": changed} if isinstance(changed, str) else changed or {})


def on(url: str, **fields: Any) -> ek.Judge:
    return ek.Judge("openai", "m", base_url=url, price=(1.0, 4.0), **fields)


def numbered(n: int) -> list[dict[str, str]]:
    return [{"item_id": str(at), "answer": f"ITEM-{at}"} for at in range(n)]


GAPS = {
    "missing": lambda parts: json.dumps({k: v for k, v in parts.items() if k != "true"}),
    "prose": lambda parts: f"My verdicts:\n{json.dumps(parts)}\nThat is all.",
    "cut": lambda parts: {"content": json.dumps(parts).rpartition(', "kind"')[0], "finish_reason": "length"},
    "withheld": lambda parts: {"content": None, "finish_reason": "content_filter"},
}
UNREAD = {
    "missing": {"true": "unreadable"}, "cut": {"kind": "truncated"}, "withheld": dict.fromkeys(NAMES, "refused"),
}  # fmt: skip


@pytest.mark.long
def test_each_kind_of_gap_leaves_the_other_criteria_as_they_are(tmp_path: Path) -> None:
    kinds = list(GAPS)
    grader = Grader(gap=lambda item, parts: GAPS[kinds[item]](parts))
    with judge_server(faults=grader) as server:
        judge = on(server.url)
        ask: dict[str, Any] = {"samples": 1, "criteria_per_call": "all", "cache": tmp_path, "progress": False}
        table = ek.judge(numbered(len(kinds)), RUBRIC, judge, **ask)
        ek.judge(numbered(len(kinds)), RUBRIC, judge, **ask)
    assert set(grader.paid.values()) == {1}, "an unreadable reply is paid for once"
    for row in table.itertuples():
        kind = kinds[int(row.item_id)]
        expected = UNREAD.get(kind, {}).get(row.criterion)
        assert (kind, row.criterion, row.error if isinstance(row.error, str) else None) == (
            kind,
            row.criterion,
            expected,
        )
        if expected is None:
            assert row.score == truth(int(row.item_id), row.criterion)
        else:
            assert math.isnan(row.score)


@pytest.mark.long
def test_faults_cost_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalkit.engine.providers.waits.FIRST_WAIT_S", 0.001)
    faults = [{"status": 500}, {"reset": True}, {"status": 429}, {"status": 503}]
    grader = Grader(fault=lambda n: faults[n // 5 % 4] if n % 5 == 0 else None)  # every fifth call
    with judge_server(faults=grader) as server:
        table = ek.judge(
            numbered(60), RUBRIC, on(server.url), samples=1, criteria_per_call=2, cache=tmp_path, progress=False,
            retries=20,
        )  # fmt: skip
    assert table["error"].isna().all()
    assert [truth(int(row.item_id), row.criterion) for row in table.itertuples()] == table["score"].tolist()
    assert len(grader.paid) == 120
    assert set(grader.paid.values()) == {1}


@pytest.mark.long
def test_a_call_that_fails_leaves_all_its_criteria_open_and_is_asked_again(tmp_path: Path) -> None:
    grader = Grader(fault=lambda n: {"status": 500} if n <= 2 else None)
    ask: dict[str, Any] = {"samples": 1, "criteria_per_call": "all", "cache": tmp_path, "progress": False}
    with judge_server(faults=grader) as server:
        first = ek.judge(numbered(6), RUBRIC, on(server.url), retries=0, concurrency=1, **ask)
        second = ek.judge(numbered(6), RUBRIC, on(server.url), **ask)
    lost = first.loc[first["error"].notna(), "item_id"]
    assert (lost.nunique(), len(lost)) == (2, 6)
    assert second["error"].isna().all()
    assert set(grader.paid.values()) == {1}


@pytest.mark.long
def test_batches_bring_the_same_replies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ticket_in_progress, "_FIRST_POLL_S", 0.01)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests-only")
    with batch_server() as server:
        whole = {"explanation": "as it is", "clear": {"score": 1}, "true": {"score": 2}, "kind": {"score": 0}}
        server.reply = json.dumps(whole)
        judge = ek.Judge("openai", "m", base_url=server.url, service="api.openai.com", api_key_env="OPENAI_API_KEY")
        ask: dict[str, Any] = {"samples": 2, "criteria_per_call": "all", "cache": tmp_path}
        ticket = ek.submit(numbered(5), RUBRIC, judge, **ask)
        assert int(ticket.table["n_requests"].sum()) == 5
        ek.collect(ticket.id, cache=tmp_path, wait=True)
        table = ek.judge(numbered(5), RUBRIC, judge, progress=False, **ask)
        assert server.live_calls == 0
    assert table["score"].tolist() == [1.0, 1.0, 2.0, 2.0, 0.0, 0.0] * 5


# -- keys and doors


def test_committed_keys() -> None:
    """Keys of one criterion per call are those of earlier versions: nothing that was paid for is asked again."""
    rubric = rubric_of("keys", {0: "no", 1: "yes"}, *"abc")
    work = {
        per_call: Worklist.of(Spec.of(rubric, "fake:strict", 1, criteria_per_call=per_call), [{"answer": "text"}])
        for per_call in (1, 2, "all")
    }
    keys = {per_call: [key.hex()[:16] for key in list(one.keys())] for per_call, one in work.items()}
    assert keys == KEYS


@pytest.mark.long
def test_every_door_passes_it_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "cache"))
    Path("several.yaml").write_text(str(RUBRIC), encoding="utf-8")
    Path("items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in ITEMS), encoding="utf-8")
    flags = ["--judge", "fake:strict", "--samples", "1", "--criteria-per-call", "all"]
    assert main(["plan", "items.jsonl", "--rubric", "several.yaml", *flags, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["settings"]["criteria_per_call"] == {"value": "all", "source": "flag --criteria-per-call"}
    assert main(["judge", "items.jsonl", "--rubric", "several.yaml", *flags, "--out", "out.jsonl"]) == 0
    assert pd.read_json("out.jsonl", lines=True)["key"].nunique() == 2
    evaluation = ek.evaluate(ITEMS, RUBRIC, "fake:strict", samples=1, criteria_per_call="all")
    profile = ek.freeze(evaluation, "mine.yaml")
    assert profile.criteria_per_call == "all"
    assert "criteria_per_call" in Path("mine.yaml").read_text(encoding="utf-8")
    assert (
        profile.settings_key()
        != ek.freeze(ek.evaluate(ITEMS, RUBRIC, "fake:strict", samples=1), "p.yaml").settings_key()
    )
    assert ek.plan(ITEMS, "mine.yaml").n_to_call == 0
    assert asyncio.run(ek.ajudge(ITEMS, "mine.yaml"))["key"].nunique() == 2
    assert ek.RubricTuner(ITEMS, "mine.yaml").session.setup.spec.criteria_per_call == "all"
    assert ek.judge_files("items.jsonl", "mine.yaml", out="files").parts["n_judgments"].sum() == 6
    with pytest.raises(InputError, match="settings"):
        ek.judge_files("items.jsonl", "mine.yaml", out="files", criteria_per_call=1)
    logged = {(past["template"], "criteria_per_call all" in past["rules"]) for past in ek.history().to_dict("records")}
    assert logged == {("together@v1", True), ("default@v1", False)}


@pytest.mark.long
def test_templates_are_those_that_made_the_prompts() -> None:
    from evalkit.lighteval.metrics import _judges_used  # LightEval takes seconds to load

    example = {"inputs": {"answer": "Yes."}, "label": 2}
    shown = RUBRIC.criterion("clear").model_copy(update={"examples": (example,)})
    mixed = ek.Rubric(id="mixed", inputs=["answer"], criteria=[shown, *RUBRIC.criteria[1:]])
    for rubric, k, expected in (
        (RUBRIC, 1, ["default@v1"]),
        (RUBRIC, "all", ["together@v1"]),
        (RUBRIC, 2, ["default@v1", "together@v1"]),
        (mixed, "all", ["default@v1", "together@v1"]),
    ):
        spec = Spec.of(rubric, "fake:strict", 1, criteria_per_call=k)
        (builder,) = spec.prompt_builders
        assert [template.label for template in spec.templates_of(builder)] == expected
        (used,) = _judges_used(spec, [], 0)
        assert used.template == ", ".join(expected)
        assert used.template_hash == ", ".join(load_template(label).hash for label in expected)


def test_scoring_config_metric_and_receipt() -> None:
    from evalkit.lighteval.metric_settings import Declared, resolve
    from evalkit.runs.contract.scoring_config import Scoring, TaskBindings

    judges = [{"judge_model_name": "strict", "judge_backend": "fake"}]
    config = {"judges": judges, "samples": 1, "criteria_per_call": "all"}
    made = resolve(Declared.of(RUBRIC, None), None, Scoring.of("judge", config), TaskBindings.of({}))
    assert (made.spec.criteria_per_call, made.origins["criteria_per_call"]) == ("all", "config")
    plain = resolve(Declared.of(RUBRIC, None), None, Scoring.of("judge", {"judges": judges}), TaskBindings.of({}))
    assert (plain.spec.criteria_per_call, "criteria_per_call" in plain.origins) == (1, False)
    own = Declared.of(RUBRIC, None, criteria_per_call=2)
    assert resolve(own, None, Scoring.of("judge", {"judges": judges}), TaskBindings.of({})).spec.criteria_per_call == 2
    for wrong in (0, "most", True, 1.5):
        with pytest.raises(ConfigError, match="criteria_per_call"):
            Scoring.of("judge", config | {"criteria_per_call": wrong})


def test_pairs_are_judged_in_both_orders(tmp_path: Path) -> None:
    rubric = rubric_of(
        "pair",
        {"A": "A wins", "tie": "even", "B": "B wins"},
        "clear",
        "short",
        inputs="answer_a answer_b",
        level="nominal",
        mode="pairwise",
    )
    shown: list[Prompt] = []

    def longer(prompt: Prompt) -> Reply:
        shown.append(prompt)
        first, second = (len(prompt.inputs[name]) for name in ("answer_a", "answer_b"))
        parts = {"clear": {"label": "A" if first > second else "B"}, "short": {"label": "B" if first > second else "A"}}
        return Reply(json.dumps(parts), "stop")

    table = ek.judge(
        [{"answer_a": "a long answer", "answer_b": "short"}], rubric, ek.Judge("function", "longer", ask=longer),
        samples=1, criteria_per_call="all", cache=tmp_path,
    )  # fmt: skip
    assert len(shown) == 2
    assert "Compare answer A and answer B" in str(shown[0])
    assert table.set_index(["criterion", "order"])["label"].to_dict() == {
        ("clear", "AB"): "A", ("clear", "BA"): "A", ("short", "AB"): "B", ("short", "BA"): "B",
    }  # fmt: skip


def test_a_guess_of_the_price_counts_the_criteria_of_a_reply(tmp_path: Path) -> None:
    judge = ek.Judge("openai", "m", base_url="http://127.0.0.1:1/v1", price=(0.0, 1e6), max_tokens=1000)
    plans = [ek.plan(ITEMS, RUBRIC, judge, samples=1, criteria_per_call=k, cache=tmp_path) for k in (1, 2, 3)]
    # 120 tokens are expected for each criterion, in as few replies as may be
    assert [plan.usd for plan in plans] == pytest.approx([6 * 120] * 3)
    with pytest.warns(EvalkitWarning, match=r"are cut off after 300 tokens, but one reply has up to 3.*max_tokens=360"):
        ek.plan(ITEMS, RUBRIC, judge.replace(max_tokens=300), samples=1, criteria_per_call="all", cache=tmp_path)


def test_what_the_cache_saved_counts_a_reply_once(tmp_path: Path) -> None:
    judge = Counted()
    judged(judge, tmp_path, "all")
    judged(judge, tmp_path, "all")
    assert ek.engine.ReplyStore.open(tmp_path).stats()["session"]["saved_usd"] == pytest.approx(0.6)


# -- halo


def simulated(n: int, spread: float, lost: int = -1) -> Any:
    """A judge whose scores on three criteria share an impression of this spread if it sees all at once.

    Of the item `lost` it then leaves one out.
    """
    draw = np.random.default_rng(0)
    own, impression = draw.normal(size=(n, 3)), draw.normal(size=n)

    def ask(prompt: Prompt) -> Reply:
        item = int(prompt.inputs["answer"])
        value = {name: own[item, at] for at, name in enumerate(NAMES)}
        if not prompt.together:
            return Reply(json.dumps({"score": value[prompt.criterion]}), "stop", cost_usd=0.01)
        parts = {one.criterion: {"score": value[one.criterion] + spread * impression[item]} for one in prompt.together}
        if item == lost:
            del parts["true"]
        return Reply(json.dumps(parts), "stop", cost_usd=0.02)

    return own, ek.Judge("function", "simulated", ask=ask)


WIDE = rubric_of("wide", {-50: "least", 0: "even", 50: "most"}, *NAMES, pass_at=0, level="interval")


@pytest.mark.long
@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_halo_of_a_judge_whose_halo_is_known(tmp_path: Path, spread: float) -> None:
    own, judge = simulated(800, spread)
    items = [{"item_id": str(at), "answer": str(at)} for at in range(800)]
    labels = [
        {"item_id": str(at), "criterion": name, "annotator": "ann", "label": float(own[at, column])}
        for at in range(800)
        for column, name in enumerate(NAMES)
    ]
    single, together = (
        ek.judge(items, WIDE, judge, samples=1, criteria_per_call=k, cache=tmp_path) for k in (1, "all")
    )
    table = halo(single, together, pd.DataFrame(labels))
    assert table["criterion"].tolist() == ["all criteria", *NAMES]
    row = table.iloc[0]
    # r = h² / (1 + h²); the impression turns a verdict where |x| < |h·z| with the other sign: arctan(h) / π
    expected = spread**2 / (1 + spread**2)
    assert row["correlation_single"] == pytest.approx(0, abs=0.06)
    assert row["correlation_single"] == pytest.approx(row["correlation_labels"])
    assert row["correlation_together"] == pytest.approx(expected, abs=0.08)
    assert row["correlation_change"] == pytest.approx(expected, abs=0.08)
    if spread:
        assert row["correlation_change_low"] <= expected <= row["correlation_change_high"]
        assert row["correlation_change_low"] > 0
    assert row["agreement_single"] == 1
    assert row["agreement_change"] == pytest.approx(-math.atan(spread) / math.pi, abs=0.03)
    assert row["n_labelled"] == 2400
    assert (row["usd_per_item_single"], row["usd_per_item_together"]) == pytest.approx((0.03, 0.02))
    assert (row["calls_per_item_single"], row["calls_per_item_together"]) == (3, 1)
    assert (row["coverage_single"], row["coverage_together"], row["n_common"]) == (1, 1, 800)


def test_halo_by_hand_and_with_gaps(tmp_path: Path) -> None:
    own, judge = simulated(12, 1.0, lost=3)
    items = [{"item_id": str(at), "answer": str(at)} for at in range(12)]
    ways = [ek.judge(items, WIDE, judge, samples=1, criteria_per_call=k, cache=tmp_path) for k in (1, "all")]
    table = halo(*ways).set_index("criterion")
    without = np.delete(own, 3, axis=0)
    pair = {
        ("clear", "true"): np.corrcoef(without[:, 0], without[:, 1])[0, 1],
        ("clear", "kind"): np.corrcoef(own[:, 0], own[:, 2])[0, 1],
        ("true", "kind"): np.corrcoef(without[:, 1], without[:, 2])[0, 1],
    }
    assert table.loc["all criteria", "correlation_single"] == pytest.approx(np.mean(list(pair.values())))
    for name in NAMES:
        assert table.loc[name, "correlation_single"] == pytest.approx(
            np.mean([r for two, r in pair.items() if name in two])
        )
    assert table["agreement_change"].isna().all()


@pytest.mark.long
def test_halo_refuses_what_it_cannot_compare(tmp_path: Path) -> None:
    _, judge = simulated(4, 1.0)
    items = [{"item_id": str(at), "answer": str(at)} for at in range(4)]
    single, together = (
        ek.judge(items, WIDE, judge, samples=1, criteria_per_call=k, cache=tmp_path) for k in (1, "all")
    )
    with pytest.raises(InputError, match="the table single= has replies on several criteria"):
        halo(together, single)
    with pytest.raises(InputError, match="the table together= has no replies on several criteria"):
        halo(single, single)
    with pytest.raises(InputError, match="have no judge with the same two criteria"):
        halo(single[single["criterion"] == "true"], together)


@pytest.mark.long
def test_compare_names_the_way_of_asking(tmp_path: Path) -> None:
    _, judge = simulated(4, 1.0)
    items = [{"item_id": str(at), "answer": str(at)} for at in range(4)]
    sides = [ek.evaluate(items, WIDE, judge, samples=1, criteria_per_call=k, cache=tmp_path) for k in (1, "all")]
    compared = ek.compare(*sides)
    assert ("several criteria per call" in compared.before, "several criteria per call" in compared.after) == (
        False,
        True,
    )
