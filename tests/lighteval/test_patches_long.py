"""What `evalkit lighteval` uses of LightEval's insides: it must be there, and what is put around it must hold."""

from __future__ import annotations

import inspect
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.errors import ConfigError

pytest.importorskip("lighteval")

from evalkit.lighteval.items import repaired
from evalkit.lighteval.lighteval_main import launch, settle_environment, with_custom_tasks
from evalkit.lighteval.patches import _check, _content, _names, _names_twice, _tasks


def test_what_is_wrapped_is_there_with_its_arguments():
    from lighteval.pipeline import Pipeline
    from lighteval.tasks.registry import Registry
    from lighteval.utils.cache_management import SampleCache
    from litellm.caching.caching import Cache

    def words(function: object) -> list[str]:
        return list(inspect.signature(function).parameters)  # type: ignore[arg-type]

    assert words(Registry.__init__)[:2] == ["self", "tasks"]
    assert words(Registry.load_all_task_configs) == ["custom_tasks", "load_multilingual"]
    assert words(Registry._load_from_files) == ["files", "module_prefix"]
    assert words(Registry._load_from_subdirs) == ["subdirs"]
    assert words(Registry.create_custom_tasks_module) == ["custom_tasks"]
    assert words(Registry._extract_configs) == ["module"]
    assert words(Pipeline._init_tasks_and_requests) == ["self", "tasks"]
    assert words(SampleCache.__init__) == ["self", "model_config"]
    assert words(SampleCache._get_task_hash) == ["self", "full_task_name"]
    assert words(SampleCache._dump_sample) == ["self", "result"]
    assert words(SampleCache._load_cached_indices) == ["self"]
    assert words(SampleCache.get_cache_path) == ["self", "task_id"]
    assert "self.get_cache_path(task_id)" in inspect.getsource(SampleCache.get_samples_from_cache)
    assert words(Cache._get_cache_logic) == ["self", "cached_result", "max_age"]
    assert words(Pipeline._post_process_outputs) == ["self", "sampling_method_responses"]
    order = inspect.getsource(Pipeline.evaluate)
    assert order.index("_post_process_outputs") < order.index("_compute_metrics"), "texts are repaired first"
    assert "self._dump_sample(result)" in inspect.getsource(SampleCache.cache_samples)
    source = inspect.getsource(Pipeline.__init__)
    assert source.index("_init_tasks_and_requests") < source.index("_init_model"), "checks come before the model"
    inside = inspect.getsource(Pipeline._init_tasks_and_requests)
    assert "self.tasks_dict" in inside
    assert "self.documents_dict" in inside
    assert "copy.deepcopy(config)" in inspect.getsource(Registry._update_task_configs), "the metric's earliest check"


def test_specs_are_read_as_lighteval_reads_them(tmp_path):
    assert _names("a|0,b:c|5, lighteval|d|0,e@k=1|0,f") == ["a", "b:c", "d", "e", "f"]
    (tmp_path / "tasks.txt").write_text("# mine\na|0\n\nb|1\n")
    assert _names(str(tmp_path / "tasks.txt")) == ["a", "b"]


def test_a_list_of_tasks_may_be_longer_than_a_files_name():
    names = [f"a_task_with_a_rather_long_name_{number:02}" for number in range(20)]
    assert len(",".join(names)) > 255, "longer than a file's name may be"
    assert _names(",".join(f"{name}|0" for name in names)) == names


def test_two_metrics_of_one_name_are_refused():
    from types import SimpleNamespace as Part

    def task(*names: str) -> Part:
        return Part(full_name="qa|0", metrics=[Part(metric_name=name) for name in names])

    assert _names_twice(task("safety", "em", "again")) == []
    [fault] = _names_twice(task("safety", "em", "safety", "safety"))
    assert fault.startswith("task 'qa|0' has two metrics named 'safety'")


def test_documents_with_half_a_sign_have_a_content_too():
    from lighteval.tasks.requests import Doc

    def content(query: str) -> str:
        return _content([Doc(query=query, choices=[""], gold_index=0, id="0")])

    assert content("half \ud83d") != content("half")


CUSTOM = (
    "class Task:\n    def __init__(self, name): self.name = name\nTASKS_TABLE = [Task('mine'), Task('group:one')]\n"
)


def test_lightevals_own_tasks_are_not_imported_where_none_is_asked_for(tmp_path, monkeypatch):
    path = tmp_path / "custom_only.py"
    path.write_text(CUSTOM)

    def forbidden(*_: object) -> dict:
        raise AssertionError("LightEval's own tasks were imported")

    monkeypatch.setattr("evalkit.lighteval.patches._own_tasks", forbidden)
    assert set(_tasks(["mine", "group"], str(path))) == {"mine", "group:one"}
    with pytest.raises(AssertionError):
        _tasks(["mine", "gsm8k"], str(path))


def test_a_module_that_cannot_be_imported_is_named_and_left_out(tmp_path, monkeypatch):
    path = tmp_path / "custom_beside.py"
    path.write_text(CUSTOM)
    own = ({"gsm8k": "its task"}, {"tiny_benchmarks": "ConnectionError: no network"})
    monkeypatch.setattr("evalkit.lighteval.patches._own_tasks", lambda *_: own)
    assert set(_tasks(["gsm8k", "mine"], str(path))) == {"gsm8k", "mine", "group:one"}
    with pytest.raises(ConfigError) as problem:
        _tasks(["tinyMMLU", "mine"], str(path))
    assert "unknown task tinyMMLU" in str(problem.value)
    assert "tiny_benchmarks could not be imported: ConnectionError: no network" in str(problem.value)


def test_a_task_of_a_slip_is_suggested_once(tmp_path, monkeypatch):
    path = tmp_path / "custom_near.py"
    path.write_text(CUSTOM)
    monkeypatch.setattr("evalkit.lighteval.patches._own_tasks", lambda *_: ({}, {}))
    with pytest.raises(
        ConfigError, match=r"unknown task minee; did you mean 'mine'\? `evalkit lighteval tasks list` lists all"
    ):
        _tasks(["minee"], str(path))


def test_a_task_of_lightevals_name_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "custom_same.py"
    path.write_text(CUSTOM)
    monkeypatch.setattr("evalkit.lighteval.patches._own_tasks", lambda *_: ({"mine": "its task"}, {}))
    with pytest.raises(ConfigError, match=r"tasks mine of .* have the names of tasks of LightEval"):
        _tasks(["gsm8k"], str(path))


@pytest.mark.parametrize("mode", ["", "deterministic"])
def test_a_broken_config_is_named_although_no_mode_is_set(mode, caplog):
    for text in ('{"jdges": []}', "/path/of/jury.json", '{"judges": []}', ""):
        caplog.clear()
        settle_environment({"EVALUATOR_SCORING_CONFIG": text, "EVALUATOR_SCORING_MODE": mode})
        is_broken = "jdges" in text or "path" in text
        assert ("it is also invalid: EVALUATOR_SCORING_CONFIG" in caplog.text) is (is_broken and not mode), text


def test_deterministic_mode_takes_an_inherited_config_out():
    environ = {"EVALUATOR_SCORING_CONFIG": '{"judges": []}', "EVALUATOR_SCORING_MODE": "deterministic"}
    assert settle_environment(environ).mode == "deterministic"
    assert "EVALUATOR_SCORING_CONFIG" not in environ
    assert settle_environment({"EVALUATOR_RECEIPT_PATH": "/dev/null/receipts.json"}).mode == "deterministic"
    with pytest.raises(ConfigError, match="EVALUATOR_SCORING_MODE='both'"):
        settle_environment({"EVALUATOR_SCORING_MODE": "both"})


def test_receipts_that_cannot_be_written_are_told_before_a_run(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "receipts.json", tmp_path, tmp_path / "file"):
        with pytest.raises(ConfigError, match="receipts") as problem:
            settle_environment({"EVALUATOR_SCORING_MODE": "judge", "EVALUATOR_RECEIPT_PATH": str(place)})
        assert str(place) in str(problem.value)
    good = tmp_path / "new" / "receipts.json"
    settle_environment({"EVALUATOR_SCORING_MODE": "judge", "EVALUATOR_RECEIPT_PATH": str(good)})
    assert good.parent.is_dir()
    assert not good.exists(), "a run without judged tasks leaves none"


def test_evalkits_tasks_are_added_only_where_none_are_named():
    plugin = ["--custom-tasks", "evalkit.lighteval.plugin"]
    assert with_custom_tasks(["endpoint", "litellm", "c", "t|0"])[-2:] == plugin
    assert with_custom_tasks(["custom", "--custom-tasks", "mine.py"]) == ["custom", "--custom-tasks", "mine.py"]
    assert with_custom_tasks(["custom", "--custom-tasks=mine.py"]) == ["custom", "--custom-tasks=mine.py"]
    assert with_custom_tasks(["--version"]) == ["--version"]


def test_the_command_that_computes_no_metric_is_refused_before_lighteval_is_loaded():
    with pytest.raises(ConfigError, match=r"without their metrics.*endpoint litellm.*judge_scorer"):
        launch(["eval", "openai/gpt-4o", "safety_guardrail"])


def test_what_a_model_takes_may_be_long(tmp_path):
    from evalkit.runs.processes.lighteval_command import lighteval_words

    def words(backend, model):
        return lighteval_words(backend, model, ["t|0"], tmp_path, {})

    long = "model_name=openai/candidate," + ",".join(f"generation_parameters_{n}=1" for n in range(20))
    assert words("accelerate", long)[:3] == ["accelerate", long, "t|0"]
    assert words("endpoint-litellm", long)[:4] == ["endpoint", "litellm", long, "t|0"]
    assert words("accelerate", str(tmp_path))[1] == f"model_name={tmp_path}"
    assert words("accelerate", "m" * 300)[1] == f"model_name={'m' * 300}"
    with pytest.raises(ConfigError, match=r"takes --model FILE\.py"):
        words("custom", "m" * 300)


@pytest.mark.parametrize("n", [0, -1])
def test_no_documents_are_no_run(n, tmp_path):
    from evalkit.lighteval.lighteval_run import run_lighteval

    with pytest.raises(ConfigError, match="max_samples must be a whole number ≥ 1"):
        run_lighteval("sums|0", "model_name=x", max_samples=n, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("given", "mended_"),
    [
        ("plain \U0001f600", "plain \U0001f600"),
        ("half \ud83d of it", "half \ufffd of it"),
        ("\ude00 the other half", "\ufffd the other half"),
        ("\ud83d\ude00", "\U0001f600"),  # both halves, as two escapes of JSON have them
        (["\ud83d", {"\ud83d": ("\ud83d", 1, None)}], ["\ufffd", {"\ufffd": ("\ufffd", 1, None)}]),
        ("", ""),
    ],
    ids=["whole", "high", "low", "pair", "nested", "empty"],
)
def test_half_signs_are_replaced_and_all_else_stays(given, mended_):
    assert repaired(given) == mended_
    json.dumps(repaired(given), ensure_ascii=False).encode()  # raised UnicodeEncodeError before


@given(st.text(st.characters()))
def test_any_text_can_be_encoded_after_it_and_one_that_can_stays(text):
    found = repaired(text)
    found.encode()
    try:
        text.encode()
    except UnicodeEncodeError:
        assert found != text
    else:
        assert found is text


@pytest.mark.parametrize("names", ["safety", ["safety", "em"]])
def test_a_metric_of_others_may_have_an_attribute_of_any_name(names):
    from types import SimpleNamespace as Part

    faults: dict[str, list[str]] = {}
    _check(Part(metric_name=names, sample_level_fn=Part(called=False)), "qa|0", [], faults)
    assert faults == {}
