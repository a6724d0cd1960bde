"""The scoring contract: config, bindings and receipts, and what broken ones are told."""

from __future__ import annotations

import errno
import hashlib
import json
import multiprocessing
import os
import threading
from pathlib import Path

import pytest

from evalkit.core.judges import Judge
from evalkit.core.providers import BACKENDS
from evalkit.errors import ConfigError
from evalkit.notebook.runs.run_form import RunForm
from evalkit.rubrics import Profile
from evalkit.runs.contract.receipts import (
    JudgeUsed,
    Receipt,
    RunFacts,
    read_facts,
    read_receipts,
    write_facts,
    write_receipt,
)
from evalkit.runs.contract.scoring_config import CONFIG_VARIABLE, MODE_VARIABLE, Scoring, ScoringConfig, TaskBindings
from evalkit.runs.processes.lighteval_command import run_variables

ONE = {"judge_model_name": "gpt-4o-mini", "judge_backend": "openai"}
OTHER = {"judge_model_name": "strict", "judge_backend": "fake"}


def config(*judges: dict, **more: object) -> dict:
    return {"judges": list(judges), **more}


def test_nothing_set_is_deterministic():
    assert Scoring.from_environ({}) == Scoring("deterministic", None)
    assert Scoring.from_environ({MODE_VARIABLE: ""}).mode == "deterministic"


def test_deterministic_mode_neither_reads_nor_hands_on_a_config(tmp_path):
    scoring = Scoring.from_environ({MODE_VARIABLE: "deterministic", CONFIG_VARIABLE: "{no json"})
    assert scoring.config is None
    environ = run_variables("deterministic", {"any": "thing"}, None, tmp_path)
    assert environ[MODE_VARIABLE] == "deterministic"
    assert CONFIG_VARIABLE not in environ


def test_a_config_reads_back_as_it_was_given(tmp_path):
    given = config(ONE | {"weight": 2, "judge_template_id": "tagged@v1"}, OTHER, aggregation="median", samples=5)
    scoring = Scoring.of("jury", given)
    assert scoring.config is not None
    environ = run_variables("jury", scoring.config.to_dict(), None, tmp_path)
    assert json.loads(environ[CONFIG_VARIABLE]) == given
    assert Scoring.from_environ(environ) == scoring


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_back_end_has_a_provider(backend):
    judge = ScoringConfig.of(config(ONE | {"judge_backend": backend, "base_url": "http://127.0.0.1:1/v1"})).to_judges()[
        0
    ]
    assert judge.provider == ("openai" if backend in ("tgi", "vllm") else backend)


def test_vllm_without_a_server_runs_in_this_process():
    assert ScoringConfig.of(config(ONE | {"judge_backend": "vllm"})).to_judges()[0].provider == "vllm"


def test_defaults_are_those_of_the_contract():
    made = ScoringConfig.of(config(ONE))
    assert (made.aggregation, made.report_disagreement, made.samples, made.profile) == ("mean", False, None, None)
    judge = made.to_judges()[0]
    assert (judge.temperature, judge.max_tokens, judge.weight) == (1.0, 512, 1.0)


def test_one_model_with_two_templates_is_two_judges():
    judges = ScoringConfig.of(
        config(ONE | {"judge_template_id": "tagged@v1"}, ONE | {"judge_template_id": "default@v1"})
    ).to_judges()
    assert [judge.name for judge in judges] == ["openai:gpt-4o-mini (tagged@v1)", "openai:gpt-4o-mini (default@v1)"]


MISUSE = {
    "one judge in a jury": ("jury", config(ONE), "takes two judges or more"),
    "two judges in judge mode": ("judge", config(ONE, OTHER), "takes one judge"),
    "unknown mode": ("panel", config(ONE), "deterministic, judge, jury"),
    "unknown back end": ("judge", config(ONE | {"judge_backend": "opnai"}), "'openai', 'anthropic', 'litellm'"),
    "unknown judge key": ("judge", config(ONE | {"modell": "x"}), "'judges[0].modell' (allowed: judge_model_name"),
    "unknown key": (
        "judge",
        config(ONE, agregation="mean"),
        "'agregation'; did you mean 'aggregation'? (allowed: judges, aggregation",
    ),
    "aggregation misspelt": ("judge", config(ONE, aggregation="avg"), "'mean', 'median', 'majority', 'min', 'max'"),
    "weights all zero": ("jury", config(ONE | {"weight": 0}, OTHER | {"weight": 0}), "all weights are 0"),
    "negative weight": (
        "judge",
        config(ONE | {"weight": -1}),
        "weight: must be 0, or a number from 1e-9 to 1e9, got -1",
    ),
    "a literal key": ("judge", config(ONE | {"api_key": "sk-very-secret"}), "api_key_env"),
    "a key as the variable's name": ("judge", config(ONE | {"api_key_env": "sk-very-secret"}), "environment variable"),
    "a password in the address": ("judge", config(ONE | {"base_url": "http://u:sk-very-secret@h/v1"}), "base_url"),
    "tgi without a server": ("judge", config(ONE | {"judge_backend": "tgi"}), "needs base_url"),
    "a model missing": ("judge", config({"judge_backend": "fake"}), "'judges[0].judge_model_name' is missing"),
    "max_tokens as text": ("judge", config(ONE | {"max_tokens": "64"}), "judges[0].max_tokens"),
    "samples 0": ("judge", config(ONE, samples=0), "samples: must be greater than or equal to 1"),
    "the same judge twice": ("jury", config(ONE, ONE), "two have the name"),
    "a list": ("judge", [ONE], "expected a mapping"),
    "no JSON": ("judge", "{judges: []}", "invalid JSON"),
    "no file": ("judge", "jury.yml.bak", "expected a mapping, a JSON string"),
}


@pytest.mark.parametrize("case", MISUSE)
def test_misuse_is_named_with_what_is_allowed_and_shows_no_secret(case):
    mode, given, said = MISUSE[case]
    with pytest.raises(ConfigError) as problem:
        Scoring.of(mode, given)
    assert said in str(problem.value)
    assert "very-secret" not in str(problem.value)
    assert "\n" not in str(problem.value)


def test_a_broken_variable_is_named():
    with pytest.raises(ConfigError, match=CONFIG_VARIABLE):
        Scoring.from_environ({MODE_VARIABLE: "judge", CONFIG_VARIABLE: '{"judges": [}'})
    with pytest.raises(ConfigError, match="of a file, pass the content, not the path"):
        Scoring.from_environ({MODE_VARIABLE: "judge", CONFIG_VARIABLE: "/path/of/jury.json"})
    with pytest.raises(ConfigError, match=f"{MODE_VARIABLE}='both'"):
        Scoring.from_environ({MODE_VARIABLE: "both"})


@pytest.mark.parametrize("given", ["judges: [] " * 40, "x" * 300], ids=["yaml", "word"])
def test_a_text_that_is_no_file_is_told_however_long_it_is(given):
    with pytest.raises(ConfigError, match="expected a mapping, a JSON string"):
        ScoringConfig.of(given)


def test_the_names_of_profiles_are_read_too():
    for backend in BACKENDS:
        given = {"judge_backend": backend, "judge_model_name": "strict", "base_url": "http://127.0.0.1:9/v1"}
        given = given if backend in ("tgi", "vllm", "openai") else {**OTHER, "judge_backend": backend}
        if backend == "fake":
            given = OTHER
        other = {**given, "provider": given["judge_backend"], "model": given["judge_model_name"]}
        del other["judge_backend"], other["judge_model_name"]
        assert ScoringConfig.of(config(other)) == ScoringConfig.of(config(given))
        assert ScoringConfig.of(config(other)).to_dict() == config(given), "one form is passed on"
    for twice in ({"model": "x"}, {"provider": "fake"}):
        with pytest.raises(ConfigError, match=r"judges\[0\]: \w+ and judge_\w+ mean the same; keep one of them"):
            ScoringConfig.of(config(OTHER | twice))


def test_judges_are_a_list():
    with pytest.raises(ConfigError, match="judges: expected a list"):
        ScoringConfig.of({"judges": "openai:gpt-4o-mini"})


def test_a_config_file_is_yaml_or_json(tmp_path: Path):
    (tmp_path / "jury.yaml").write_text("judges:\n  - {judge_model_name: strict, judge_backend: fake}\nsamples: 1\n")
    (tmp_path / "jury.json").write_text(json.dumps(config(OTHER, samples=1)))
    assert ScoringConfig.of(tmp_path / "jury.yaml") == ScoringConfig.of(str(tmp_path / "jury.json"))


def template(text: str = "{# evalkit form: label #}{{ criterion.name }}") -> dict:
    return {"name": "mine", "version": "v1", "text": text, "hash": hashlib.sha256(text.encode()).hexdigest()}


def test_bindings_are_found_by_task_with_and_without_shots():
    bound = TaskBindings.of({"grounded_qa|0": {"judge_profile": "strict", "templates": [template()]}})
    assert bound.of_task("grounded_qa|5").judge_profile == "strict"
    assert bound.of_task("other|0").to_dict() == {}
    assert TaskBindings.from_environ({"EVALKIT_TASK_BINDINGS": bound.to_json()}) == bound
    assert not TaskBindings.from_environ({})


BROKEN = {
    "unknown key": ({"t": {"profile": "strict"}}, "task 't': unknown key 'profile'; did you mean 'judge_profile'?"),
    "changed template": ({"t": {"templates": [template() | {"text": "another"}]}}, "does not match its hash"),
    "twice": ({"t|0": {}, "t|1": {}}, "has two bindings"),
    "a list": (["t"], "expected an object (task → binding)"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_bindings_are_named(case):
    given, said = BROKEN[case]
    with pytest.raises(ConfigError) as problem:
        TaskBindings.of(given)
    assert said in str(problem.value)


def receipt(task: str, metric: str = "safety", n_scored: int = 1) -> Receipt:
    judge = JudgeUsed(
        name="j", provider="fake", service="local", model="strict", weight=1.0, temperature=1.0, max_tokens=512,
        template="default@v1", template_hash="0" * 64,
    )  # fmt: skip
    return Receipt(
        task=task, metric=metric, scoring_mode="judge", rubric="safety", rubric_version="v1", rubric_hash="1" * 64,
        judges=[judge], n_items=2, n_scored=n_scored, n_empty=0, n_judgments=6, n_unscored=0, n_live=6, n_cached=0,
        evalkit_version="0",
    )  # fmt: skip


def test_a_later_receipt_takes_the_place_of_an_earlier_one(tmp_path: Path):
    place = tmp_path / "deep" / "receipts.json"
    for one in (receipt("a|0"), receipt("b|0"), receipt("a|0", n_scored=2), receipt("a|0", metric="other")):
        write_receipt(one, place)
    assert {(one.task, one.metric, one.n_scored) for one in read_receipts(place)} == {
        ("a|0", "safety", 2), ("a|0", "other", 1), ("b|0", "safety", 1),
    }  # fmt: skip


def test_the_facts_of_a_run_are_noted_beside_the_receipts(tmp_path: Path):
    place = tmp_path / "receipts.json"
    assert read_facts(place) == RunFacts()
    metrics = {"x": {"scorer": "unknown"}, "tone": {"scorer": "judge", "higher_is_better": True}}
    task = {"documents": {"n": 2, "golds": "0f"}, "metrics": metrics}
    noted = RunFacts.model_validate({"model": {"model.py": "sha256:0"}, "tasks": {"mine|0": task}})
    write_facts(noted, place)
    assert not place.exists(), "no receipt was left"
    write_receipt(receipt("a|0"), place)
    assert read_facts(place) == noted
    [beside] = [file for file in tmp_path.glob("*.json") if file != place]
    for text, said in (
        ('{"tasks": {"a|0": {"metrics": {"x": {"scorer": "sure"}}}}}', "must be 'judge', 'own' or 'unknown'"),
        ("[1]", "not the facts of a run"),
        ('{"tasks": {"a|0":', "not the facts of a run"),
    ):
        beside.write_text(text)
        with pytest.raises(ConfigError, match=said):
            read_facts(place)


def test_receipts_of_many_threads_are_all_kept(tmp_path: Path):
    place = tmp_path / "receipts.json"
    threads = [threading.Thread(target=write_receipt, args=(receipt(f"t{i}|0"), place)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {one.task for one in read_receipts(place)} == {f"t{i}|0" for i in range(20)}


def write_from_a_process(place: Path, *tasks: str) -> None:
    for task in tasks:
        write_receipt(receipt(task), place)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are POSIX's")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_processes_forked_while_receipts_are_written_block_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A child has the lock as another thread of its parent held it, and the locked file, for as long as it lives."""
    place, replace, children = tmp_path / "receipts.json", Path.replace, []
    context = multiprocessing.get_context("fork")
    done = context.Event()

    def stay() -> None:
        write_receipt(receipt("child|0"), tmp_path / "childs.json")
        done.wait(600)

    def fork() -> None:
        children.append(context.Process(target=stay))
        children[-1].start()

    def replace_amid_a_fork(self: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "replace", replace)
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", replace_amid_a_fork)
    write_receipt(receipt("first|0"), place)
    other = context.Process(target=write_from_a_process, args=(place, "second|0"))
    other.start()
    try:
        other.join(300)
        assert other.exitcode == 0, "the lock went with its writing, though a child has the file open"
        done.set()
        children[0].join(300)
        assert children[0].exitcode == 0, "a child writes receipts of its own"
        assert [one.task for one in read_receipts(tmp_path / "childs.json")] == ["child|0"]
    finally:
        for process in (other, *children):
            process.kill()
            process.join()
    assert [one.task for one in read_receipts(place)] == ["first|0", "second|0"]


@pytest.mark.long
def test_processes_that_write_receipts_at_once_lose_none(tmp_path: Path):
    place = tmp_path / "receipts.json"
    context = multiprocessing.get_context("spawn")
    tasks = [[f"t{number}{part}|0" for part in "abcde"] for number in range(3)]
    processes = [context.Process(target=write_from_a_process, args=(place, *names)) for names in tasks]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert sorted(one.task for one in read_receipts(place)) == sorted(name for names in tasks for name in names)


def test_a_receipt_that_cannot_be_written_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    place = tmp_path / "receipts.json"
    write_receipt(receipt("a|0"), place)
    before = sorted(path.name for path in tmp_path.iterdir())

    def refuse(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(ConfigError, match=r"cannot write receipts to .*no space left"):
        write_receipt(receipt("b|0"), place)
    assert [one.task for one in read_receipts(place)] == ["a|0"]
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_without_a_place_no_receipt_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("EVALUATOR_RECEIPT_PATH", raising=False)
    monkeypatch.chdir(tmp_path)
    write_receipt(receipt("a|0"))
    assert not list(tmp_path.iterdir())


def test_a_receipts_file_cut_short_is_named(tmp_path: Path):
    place = tmp_path / "receipts.json"
    write_receipt(receipt("a|0"), place)
    whole = place.read_text()
    for n in (0, 1, len(whole) // 2, len(whole) - 1):
        place.write_text(whole[:n])
        with pytest.raises(ConfigError, match="receipts"):
            read_receipts(place)


def judge_used(name: str, **counts: object) -> JudgeUsed:
    return JudgeUsed(
        name=name, provider="openai", service="local", model=name, weight=1, temperature=1.0, max_tokens=9,
        template="default@v1", template_hash="0" * 64, **counts,
    )  # fmt: skip


def test_a_receipt_warns_of_each_judge_and_of_what_has_no_score_at_all():
    good = judge_used("a", n_judgments=6, n_scored=6)
    dead = judge_used("b", n_judgments=6, n_scored=1, reasons={"judge_down": 3, "unreadable": 2})
    one = receipt("t|0").model_copy(update={"judges": [good, dead], "n_items": 2, "n_scored": 2})
    assert one.warnings == ["t|0, safety: b: 1 of 6 scored: judge_down 3, unreadable 2"]
    none = one.model_copy(update={"n_scored": 0, "n_empty": 1})
    assert none.warnings == ["t|0, safety: none of 1 answer has a score", *one.warnings]
    assert one.model_copy(update={"n_scored": 0, "n_empty": 2}).scored_nothing is False, "nothing was to be judged"
    assert one.model_copy(update={"judges": [judge_used("a")]}).warnings == [], "of an earlier evalkit: not counted"


@pytest.mark.parametrize("text", [
    '{"judges": [], "samples": 3, "samples": 5}',
    '{"judges": [{"judge_model_name": "m", "judge_backend": "openai", "samples": 1, "samples": 2}]}',
])  # fmt: skip
def test_a_key_that_stands_twice_is_refused_wherever_json_is_read(text: str, tmp_path: Path):
    with pytest.raises(ConfigError, match="EVALUATOR_SCORING_CONFIG: duplicate key 'samples' in one object"):
        Scoring.from_environ({"EVALUATOR_SCORING_MODE": "judge", "EVALUATOR_SCORING_CONFIG": text})
    (tmp_path / "config.json").write_text(text)
    for given in (text, tmp_path / "config.json"):
        with pytest.raises(ConfigError, match="duplicate key 'samples'"):
            ScoringConfig.of(given)
    with pytest.raises(ConfigError, match="EVALKIT_TASK_BINDINGS: duplicate key 'a'"):
        TaskBindings.from_environ({"EVALKIT_TASK_BINDINGS": '{"a": {}, "a": {}}'})
    assert Scoring.from_environ({"EVALUATOR_SCORING_CONFIG": text}).mode == "deterministic", "where nobody reads it"


def test_disagreement_asked_of_one_judge_is_said_to_have_no_effect():
    judge = {"judge_model_name": "strict", "judge_backend": "fake"}
    config = {"judges": [judge], "report_disagreement": True}
    [said] = Scoring.of("judge", config).warnings
    assert said.startswith("report_disagreement has no effect in scoring mode 'judge'")
    assert Scoring.of("judge", {"judges": [judge]}).warnings == ()
    assert Scoring.of("jury", {**config, "judges": [judge, {**judge, "judge_model_name": "lenient"}]}).warnings == ()


@pytest.mark.parametrize(
    "fields",
    [{"weight": True}, {"temperature": False}, {"max_tokens": True}, {"samples": True}, {"samples": "3"}],
    ids=str,
)
def test_true_and_texts_are_no_numbers_in_a_scoring_config(fields):
    own = {} if "samples" in fields else fields
    given = config(OTHER | own, **({} if own else fields))
    with pytest.raises(ConfigError, match=next(iter(fields))):
        Scoring.of("judge", given)


NULLS = ("weight", "judge_template_id", "base_url", "api_key_env", "score", "name")


def test_null_is_not_sent_or_not_set_in_a_config_a_judge_and_pollux():
    """Temperature and length: not sent; all else: as if it were left out."""
    from evalkit.lighteval.pollux.llm_judge_metric import judge_and_options

    plain, nulls = dict(ONE), dict(ONE) | dict.fromkeys(NULLS)
    for name in ("temperature", "max_tokens"):
        for given in (plain, nulls):
            (by_config,) = Scoring.of("judge", config(given | {name: None})).config.to_judges()
            fields = {"provider": "openai", "model": "gpt-4o-mini", name: None}
            by_judge = Judge.of(
                fields | dict.fromkeys(("weight", "template", "base_url", "name", "price", "timeout_s"))
            )
            assert by_config == by_judge == Judge("openai", "gpt-4o-mini", **{name: None})
    (left_out,) = Scoring.of("judge", config(nulls)).config.to_judges()
    assert left_out == Judge("openai", "gpt-4o-mini")
    nothing = {"timeout_s": None, "price": None, "params": None, "retries": None, "offline": None, "refresh": None}
    options = {"temperature": None} | nothing | {"max_concurrency": None}
    judge, run = judge_and_options("m", "openai", "http://127.0.0.1:1/v1", None, None, options)
    assert (judge.temperature, judge.max_tokens, judge.timeout_s, run.retries) == (None, None, 60.0, 5)
    made = ScoringConfig.of(dict.fromkeys(("judges", "aggregation", "report_disagreement", "samples", "profile")))
    assert made == ScoringConfig()
    kept = ScoringConfig.of(config(ONE | {"temperature": None}))
    assert ScoringConfig.of(kept.to_dict()) == kept, "null reaches the process that scores"
    whole = ScoringConfig.of(kept.to_dict() | {"criteria_per_call": "all", "force_aggregation": True, "samples": 2})
    assert RunForm().filled(whole, scoring_mode="judge").config == whole.to_dict(), "and the form loses nothing"


def test_what_a_config_replaces_in_a_profile_is_said():
    profile = Profile(profile="p", judges=["fake:strict"], aggregate="min", samples=5)
    given = config(OTHER | {"judge_model_name": "lenient"}, aggregation="max", samples=3)
    for is_bound in (False, True):
        for is_forced in (False, True):
            made = ScoringConfig.of(given | ({"force_aggregation": True} if is_forced else {}))
            rule, *more = made.replaced(profile, is_bound=is_bound)
            assert ("is not used" in rule) == (is_bound and not is_forced)
            assert "'max' of the scoring config" in rule
            assert "'min'" in rule
            assert [text.split(" of ")[0] for text in more] == ["samples 3", "judges fake:lenient"]
    assert list(ScoringConfig().replaced(profile, is_bound=True)) == []
    same = ScoringConfig.of(config(OTHER, aggregation="min", samples=5))
    assert list(same.replaced(profile, is_bound=True)) == [], "what is the same replaces nothing"
    assert list(ScoringConfig.of(given).replaced(Profile(profile="q"), is_bound=True)) == [], "nor what is not set"
