"""What Inspect's log holds is what the judge is shown: calls, later turns, targets, images."""

from __future__ import annotations

import gc
import json
import math
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import judge_server
from small_rubrics import rubric_of
from warm_process import WarmProcess

import evalkit as ek

pytest.importorskip("inspect_ai")

from inspect_ai import Task
from inspect_ai import eval as run_eval
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    ContentImage,
    ContentReasoning,
    ContentText,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.solver import (
    Generate,
    TaskState,
    generate,
    multiple_choice,
    prompt_template,
    self_critique,
    solver,
    system_message,
    use_tools,
    user_message,
)
from inspect_ai.tool import ToolCall, ToolError, tool

from evalkit.inspect import judge_scorer

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # of Inspect's own streams

SCALE = {0: "no", 1: "in part", 2: "yes"}
CHAT = rubric_of("chat", SCALE, inputs="conversation? question answer", meaning="d")
ALL = ek.Rubric(id="all", inputs=["conversation", "answer"], criteria=[{"name": "c", "scale": SCALE}])
WHOLE = ek.Rubric(id="whole", inputs=["conversation"], criteria=[{"name": "c", "scale": SCALE}])
PICTURE = "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ"


@pytest.fixture(autouse=True, scope="module")
def _streams_of_inspect() -> Iterator[None]:
    """Inspect's streams are collected here, not in a test of this process that takes warnings for errors."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {"INSPECT_LOG_DIR": str(tmp_path / "logs"), "HOME": str(tmp_path), "INSPECT_DISPLAY": "none",
                        "XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CACHE_HOME": str(tmp_path / "xdg"),
                        "EVALKIT_CACHE": str(tmp_path / "cache")}.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)


@tool
def weather() -> Any:
    async def execute(city: str) -> str:
        """The weather.

        Args:
            city: The city.
        """
        if city == "Atlantis":
            raise ToolError("no such city")
        return f"18 degrees in {city}"

    return execute


def called(name: str, **arguments: Any) -> ModelOutput:
    return ModelOutput.for_tool_call("mockllm/model", name, arguments, content="")


def evaluated(
    samples: Any, solvers: Any, outputs: list[Any], rubric: Any, epochs: int = 1, **options: Any
) -> tuple[Any, list[dict[str, Any]]]:
    """The log, and the inputs that the judge was shown."""
    seen: list[dict[str, Any]] = []

    @ek.Judge.function(name="spy", version="1")
    def spy(prompt: Any) -> str:
        seen.append(dict(prompt.inputs))
        return '{"explanation": "x", "score": 2}'

    made = [one if isinstance(one, ModelOutput) else ModelOutput.from_content("mockllm/model", one) for one in outputs]
    for one in made:
        one.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    task = Task(dataset=samples, solver=solvers, scorer=judge_scorer(rubric, spy, samples=1, **options), epochs=epochs)
    model = get_model("mockllm/model", custom_outputs=made, memoize=False)
    (log,) = run_eval(task, model=model, max_connections=1, display="none", log_level="error")
    return log, seen


def told(conversation: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Role and text of each message; calls and errors as the text that holds them."""
    made = []
    for one in conversation:
        made += [(one["role"], one["content"])] if one["content"] or not one.get("tool_calls") else []
        made += [(f"{one['role']} calls {call['name']}", call["arguments"]) for call in one.get("tool_calls", [])]
        made += [("error", one["error"])] if "error" in one else []
    return made


ASK = ("question", "(The question, which is shown apart, stood here.)")


def test_calls_results_and_errors_stand_between_question_and_answer() -> None:
    outputs = [called("weather", city="Oslo"), called("weather", city="Atlantis"), "18 degrees."]
    log, (seen,) = evaluated(
        [Sample(input="Oslo?")], [system_message("Be brief."), use_tools(weather()), generate()], outputs, CHAT
    )
    assert log.status == "success"
    assert (seen["question"], seen["answer"]) == ("Oslo?", "18 degrees.")
    between = [
        ("assistant calls weather", {"city": "Oslo"}), ("tool", "18 degrees in Oslo"),
        ("assistant calls weather", {"city": "Atlantis"}), ("tool", ""), ("error", "unknown: no such city"),
    ]  # fmt: skip
    assert told(seen["conversation"]) == [("system", "Be brief."), ASK, *between]
    _, (seen,) = evaluated(
        [Sample(input="Oslo?")], [system_message("Be brief."), use_tools(weather()), generate()], outputs, ALL
    )
    assert told(seen["conversation"]) == [("system", "Be brief."), ("user", "Oslo?"), *between]


@pytest.mark.parametrize("as_list", [False, True])
def test_the_question_is_the_last_one_that_was_asked(as_list: bool) -> None:
    given: Any = [ChatMessageUser(content="Q1")] if as_list else "Q1"
    _, (seen,) = evaluated([Sample(input=given)], [generate(), user_message("Q2"), generate()], ["A1", "A2"], CHAT)
    assert (told(seen["conversation"]), seen["question"], seen["answer"]) == (
        [("user", "Q1"), ("assistant", "A1")], "Q2", "A2",
    )  # fmt: skip


def test_turns_that_were_recorded_or_added_by_solvers() -> None:
    recorded: list[ChatMessage] = [
        ChatMessageSystem(content="S"),
        ChatMessageUser(content="Q0"),
        ChatMessageAssistant(content="A0", tool_calls=[ToolCall(id="c", function="order", arguments={"id": 7})]),
        ChatMessageTool(content="sent", tool_call_id="c", function="order"),
        ChatMessageUser(content="Q1"),
    ]
    solvers = [prompt_template("Do this: {prompt}"), generate(), self_critique()]
    _, (seen,) = evaluated([Sample(input=recorded)], solvers, ["A1", "weak", "A2"], CHAT)
    assert told(seen["conversation"]) == [
        ("system", "S"), ("user", "Q0"), ("assistant", "A0"), ("assistant calls order", {"id": 7}), ("tool", "sent"),
        ("user", "Do this: Q1"), ("assistant", "A1"),
    ]  # fmt: skip
    assert "[Critique]: weak" in seen["question"]


@pytest.mark.parametrize("kind", ["good", "bad"])
def test_a_rubric_without_an_answer_sees_the_answer_as_the_last_turn(kind: str) -> None:
    _, seen = evaluated([Sample(input="Help!")], generate(), [f"A {kind} answer."], "conversation_quality")
    assert len(seen) == 4
    assert all(told(one["conversation"]) == [("user", "Help!"), ("assistant", f"A {kind} answer.")] for one in seen)


@solver
def extracts() -> Any:
    async def solve(state: TaskState, ask: Generate) -> TaskState:
        state = await ask(state)
        state.output = ModelOutput.from_content("mockllm/model", "42")
        return state

    return solve


def test_an_answer_that_is_not_among_the_messages() -> None:
    _, (seen,) = evaluated([Sample(input="6 x 7?")], extracts(), ["Well: 42"], CHAT)
    assert (told(seen["conversation"]), seen["answer"]) == ([ASK, ("assistant", "Well: 42")], "42")
    _, seen_all = evaluated([Sample(input="6 x 7?")], extracts(), ["Well: 42"], "conversation_quality")
    assert told(seen_all[0]["conversation"]) == [("user", "6 x 7?"), ("assistant", "Well: 42"), ("assistant", "42")]


def test_reasoning_is_no_part_of_the_answer() -> None:
    said = ChatMessageAssistant(content=[ContentReasoning(reasoning="hidden"), ContentText(text="42")])
    output = ModelOutput(model="mockllm/model", choices=[ChatCompletionChoice(message=said)])
    _, (seen,) = evaluated([Sample(input="6 x 7?")], generate(), [output], CHAT)
    assert seen == {"question": "6 x 7?", "answer": "42"}


def test_targets_are_alternatives_and_choices_are_all_right() -> None:
    _, (seen,) = evaluated(
        [Sample(input="?", target=["Paris", "City of Light", " "])], generate(), ["P"], "correctness"
    )
    assert seen["reference"] == "Any one of these:\n1. Paris\n2. City of Light"
    _, (seen,) = evaluated([Sample(input="?", target=["Paris"])], generate(), ["P"], "correctness")
    assert seen["reference"] == "Paris"
    primes = Sample(input="Primes?", choices=["2", "3", "4"], target=["A", "B"])
    _, (seen,) = evaluated([primes], multiple_choice(multiple_correct=True), ["ANSWER: A,B"], "correctness")
    assert seen["reference"] == "A, B"


@pytest.mark.parametrize("rubric", [CHAT, "conversation_quality"])
def test_images_leave_a_sample_unscored_and_the_others_go_on(rubric: Any) -> None:
    asked = ChatMessageUser(content=[ContentText(text="What is it?"), ContentImage(image=PICTURE)])
    log, seen = evaluated([Sample(input=[asked]), Sample(input="plain")], generate(), ["A", "B"], rubric)
    first, second = (sample.scores["judge_scorer"] for sample in log.samples)
    name = rubric if isinstance(rubric, str) else rubric.id
    assert math.isnan(first.value[name])
    assert (first.reason, first.metadata["error"]) == ("scoring_failed", "unseen_image")
    assert "image" in first.explanation
    assert second.value[name] == 1
    assert "iVBOR" not in json.dumps(seen)


def test_a_sample_without_an_input_is_unscored_and_the_others_go_on() -> None:
    contexts: list[Any] = [["d"], None, math.inf, ["e"]]
    samples = [Sample(input=f"Q{at}", metadata={"context": one}) for at, one in enumerate(contexts)]
    log, seen = evaluated(samples, generate(), ["A"] * 4, "faithfulness")
    assert log.status == "success"
    scores = [sample.scores["judge_scorer"] for sample in log.samples]
    assert [one.metadata["error"] for one in scores] == ["", "missing_input", "unusable_input", ""]
    assert [one["context"] for one in seen] == [["d"], ["e"]]
    assert "sample 2 has no 'context', which rubric 'faithfulness' needs" in scores[1].explanation
    assert "infinite" in scores[2].explanation
    assert evaluated(samples, generate(), ["A"] * 4, "faithfulness", on_missing="skip")[0].status == "success"
    log, _ = evaluated(samples[1:2], generate(), ["A"], "faithfulness", on_missing="raise")
    assert (log.status, "has no 'context'" in log.error.message) == ("error", True)
    with pytest.raises(ek.errors.ConfigError, match="on_missing"):
        judge_scorer("faithfulness", "fake:strict", on_missing="drop")  # type: ignore[arg-type]


def test_epochs_with_equal_calls_share_their_judgments_and_evaluate_finds_them() -> None:
    outputs: list[Any] = [called("weather", city="Oslo"), "18."] * 3
    for at, one in enumerate(outputs[::2]):
        one.message.tool_calls[0].id = f"drawn-{at}"
    log, seen = evaluated([Sample(input="Oslo?")], [use_tools(weather()), generate()], outputs, CHAT, epochs=3)
    assert (len(seen), len(log.samples)) == (1, 3)
    keys = {sample.scores["judge_scorer"].metadata["judgments"][0]["key"] for sample in log.samples}
    # the same log as items: by the reader of Inspect's logs, through split_messages
    samples = ek.load_items(log.location, form="inspect")
    assert samples["item_id"].tolist() == ["1", "1/2", "1/3"]
    items = ek.tables.split_messages(samples.iloc[2:], "messages")

    @ek.Judge.function(name="spy", version="1")
    def spy(prompt: Any) -> str:
        raise AssertionError(prompt)

    assert set(ek.judge(items, CHAT, spy, samples=1, progress=False)["key"]) == keys


TASK = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser, ContentImage, ContentText, ModelOutput, ModelUsage, get_model
from inspect_ai.solver import generate, use_tools, user_message
from inspect_ai.tool import tool
from evalkit.inspect import judge_scorer
import evalkit as ek

@tool
def weather():
    async def execute(city: str) -> str:
        '''The weather.

        Args:
            city: The city.
        '''
        return "18 degrees in " + city
    return execute

@task
def mine():
    judge = ek.Judge("openai", "judge", base_url={url!r}, price=(1, 1))
    image = [ChatMessageUser(content=[ContentText(text="Look:"), ContentImage(image={picture!r})])]
    samples = [Sample(input="Oslo?", target=["18", "eighteen"], id="plain"), Sample(input=image, id="image")]
    call = ModelOutput.for_tool_call("mockllm/model", "weather", {{"city": "Oslo"}}, content="")
    said = [ModelOutput.from_content("mockllm/model", text) for text in ("18.", "Yes, 18.")]
    for one in (call, *said):
        one.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    model = get_model("mockllm/model", custom_outputs=[call, *said] * 4)
    solver = [use_tools(weather()), generate(), user_message("Sure?"), generate()]
    return Task(model=model, dataset=samples, solver=solver,
                scorer=judge_scorer("helpfulness", judge, samples=1), epochs=2)
"""


def test_inspect_eval_and_inspect_score_as_processes(tmp_path: Path, warm_lighteval: WarmProcess) -> None:
    with judge_server(always={"content": '{"explanation": "x", "score": 4}'}) as server:
        (tmp_path / "task.py").write_text(TASK.format(url=server.url, picture=PICTURE), encoding="utf-8")
        environ = os.environ | {"OPENAI_API_KEY": "sk-x", "INSPECT_DISPLAY": "plain", "PYTHONUTF8": "1",
                                "PYTHONPATH": str(Path(ek.__file__).resolve().parents[1])}  # fmt: skip

        def inspect(*words: str) -> None:
            done = subprocess.run(
                warm_lighteval.command("-m", "inspect_ai", *words), cwd=tmp_path, env=environ, capture_output=True,
                text=True, timeout=240, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

        inspect("eval", "task.py", "--max-connections", "1", "--max-samples", "1", "--log-dir", "logs")
        judged = [one.body["messages"][-1]["content"] for one in server.seen]
        assert len(judged) == 1, "two epochs share a judgment, and the sample with an image has none"
        (prompt,) = judged
        places = [
            "user (", "Oslo?", "assistant: call 1, weather", '{"city":"Oslo"}', "tool: result of call 1, weather",
            "18 degrees in Oslo", "assistant (", "18.", "<question-", "Sure?", "<answer-", "Yes, 18.",
        ]  # fmt: skip
        shown = prompt[prompt.index("Conversation:") :]
        at = 0
        for place in places:
            at = shown.index(place, at) + len(place)
        (path,) = (tmp_path / "logs").glob("*.eval")
        errors = {sample.id: sample.scores["judge_scorer"].metadata["error"] for sample in read_eval_log(path).samples}
        assert errors == {"plain": "", "image": "unseen_image"}
        again = ("-S", "rubric=correctness", "-S", "judges=fake:strict", "-S", "samples=1")
        inspect("score", str(path), "--scorer", "evalkit/judge_scorer", *again, "--overwrite", "--action", "append")
        scored = [sample for sample in read_eval_log(path).samples if sample.id == "plain"]
        assert all(sample.scores["judge_scorer1"].value["coverage"] == 1 for sample in scored)
        assert len(server.seen) == 1, "the second scorer asks another judge"


def test_an_answer_stands_once_whatever_its_line_ends_and_accents() -> None:
    _, (seen,) = evaluated([Sample(input="Q")], generate(), ["one\r\ncafe\u0301"], WHOLE)
    assert told(seen["conversation"]) == [("user", "Q"), ("assistant", "one\ncaf\u00e9")]


def test_a_conversation_that_ends_with_a_call_is_judged_but_not_an_empty_answer() -> None:
    solvers = [use_tools(weather()), generate(tool_calls="single")]
    _, (seen,) = evaluated([Sample(input="Q")], solvers, [called("weather", city="Oslo")], WHOLE)
    assert [one["role"] for one in seen["conversation"]] == ["user", "assistant", "tool"]
    log, seen_of_empty = evaluated([Sample(input="Q")], generate(), [" "], WHOLE)
    (score,) = log.samples[0].scores.values()
    assert (score.reason, seen_of_empty) == ("no_response", [])


def test_a_rubric_that_is_not_shown_what_the_model_wrote_is_refused() -> None:
    blind = ek.Rubric(id="blind", inputs=["question", "context?"], criteria=[{"name": "c", "scale": SCALE}])
    with pytest.raises(ek.errors.RubricError, match=r"'blind' has neither 'answer' nor 'conversation' among its"):
        judge_scorer(blind, "fake:strict")
