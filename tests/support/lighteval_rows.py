"""Rows of the shape of LightEval's own data sets, for its tasks that run with Inspect, and a model that answers them.

A row's question says what to answer: ``<<the text>>``. The first and the last of three answers are right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

RIGHT = (True, False, True)
"""Whether the answer to each row is right."""


def answer(body: dict[str, Any]) -> dict[str, Any]:
    """The reply of the evaluated model, or of a grader, to a request: for the `faults` of a `judge_server`."""
    text = "\n".join(str(message["content"]) for message in body["messages"])
    if "[Expert]" in text:  # Inspect's grader of facts
        expert, given = (re.findall(rf"\[{name}\]: (.*)", text)[-1] for name in ("Expert", "Submission"))
        return {"content": f"GRADE: {'C' if given == f'ANSWER: {expert}' else 'I'}"}
    if "Gold target" in text:
        gold, given = (re.findall(rf"{name}: (.*)", text)[-1] for name in ("Gold target", "Predicted answer"))
        return {"content": "A" if given == f"ANSWER: {gold}" else "B"}
    wanted = re.findall(r"<<(.*?)>>", text, re.DOTALL)[-1]
    letters = re.findall(rf"^([A-Z])\) {re.escape(wanted)}$", text, re.MULTILINE)
    if letters:
        return {"content": f"ANSWER: {letters[-1]}"}
    return {"content": wanted if wanted.startswith(("[", "=")) else f"ANSWER: {wanted}"}


def _choices(*texts: str) -> tuple[list[str], int, list[str]]:
    """The choices, the place of the right one, and what the model says to each row."""
    return list(texts), 1, [texts[1] if right else texts[0] for right in RIGHT]


def rows_of(module: str, name: str) -> list[dict[str, Any]]:
    """Three rows of the data set of a task, by the module and name of the task."""
    four, at, said = _choices("red", "green", "blue", "grey")
    number = ["7" if right else "8" for right in RIGHT]
    quiz = [f"Which is it, number {n}? <<{{}}>>" for n in range(3)]
    ask = [text.format(one) for text, one in zip(quiz, said, strict=True)]
    count = [text.format(one) for text, one in zip(quiz, number, strict=True)]
    fixed = {"anli": ("True", "Neither"), "boolq": ("Yes", "No"), "civil_comments": ("True", "False")}
    if module in fixed:
        first, second = fixed[module]
        ask = [text.format(second if right else first) for text, right in zip(quiz, RIGHT, strict=True)]
    made: dict[str, Any] = {
        "aa_omniscience": lambda n: {"domain": "d", "topic": "t", "question": count[n], "answer": "7"},
        "agieval": lambda n: {"query": ask[n], "choices": [f"({'ABCD'[at]}){one}" for at, one in enumerate(four)],
                              "gold": [1]},
        "aime": lambda n: {"problem": count[n], "answer": "7"},
        "aimo": lambda n: {"problem": count[n], "answer": 7},
        "anli": lambda n: {"premise": "It rains.", "hypothesis": ask[n], "label": 1},
        "arc": lambda n: {"question": ask[n], "choices": {"text": four}, "answerKey": "B"},
        "arc_agi_2": lambda n: {"fewshots": [{"input": [[1]], "output": [[2]]}],
                                "question": [{"input": [["<<[[3]]>>" if RIGHT[n] else "<<[[4]]>>"]], "output": [[3]]}]},
        "arithmetic": lambda n: {"context": count[n], "completion": "7"},
        "asdiv": lambda n: {"body": "Seven.", "question": count[n], "answer": "7 (apples)"},
        "bbq": lambda n: {"context": "c", "question": ask[n], "choices": four, "gold_index": at},
        "bigbench": lambda n: {"inputs": ask[n], "multiple_choice_targets": four,
                               "multiple_choice_scores": [int(one == at) for one in range(4)]},
        "bigbench_hard": lambda n: {"task_prefix": "p", "input": ask[n], "choices": four, "target_idx": at},
        "bold": lambda n: {"text": f"<<={n}>>"},
        "boolq": lambda n: {"passage": "p", "question": ask[n], "answer": "No",
                            "contrast_inputs": {"passage": "other", "question": ask[n]}},
        "civil_comments": lambda n: {"text": ask[n], "gold": "False"},
        "commonsenseqa": lambda n: {"question": ask[n], "choices": {"text": four}, "answerKey": "B"},
        "covid_dialogue": lambda n: {"query": count[n], "answer": "7"},
        "dyck_language": lambda n: {"input": "<<= ]>>" if RIGHT[n] else "<<= )>>", "output": "= ]"},
        "gpqa": lambda n: {"Question": ask[n], "Correct Answer": "green", "Incorrect Answer 1": "red",
                           "Incorrect Answer 2": "blue", "Incorrect Answer 3": "grey"},
        "gsm8k": lambda n: {"question": count[n], "answer": "Seven.\n#### 7"},
        "gsm_plus": lambda n: {"question": count[n], "answer": "7", "solution": "Seven."},
        "hle": lambda n: {"question": count[n], "answer": "7", "image": "", "id": str(n), "answer_type": "exactMatch",
                          "rationale": "r", "raw_subject": "s", "category": "c", "canary": "c"},
        "math_500": lambda n: {"problem": count[n], "answer": "7", "solution": "Seven."},
        "mmlu_pro": lambda n: {"question": ask[n], "options": four, "answer": "B"},
        "musr": lambda n: {"narrative": "A story.", "question": ask[n], "choices": str(four), "answer_index": at},
        "olympiade_bench": lambda n: {"subject": "Math", "language": "English", "unit": None, "question": count[n],
                                      "is_multiple_answer": False, "answer_type": "Numerical", "final_answer": ["7"]},
        "simpleqa": lambda n: {"problem": count[n], "answer": "7"},
        "ifeval": lambda n: {"prompt": f"Write. <<{'= hi' if RIGHT[n] else '= a, b'}>>",
                             "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{"num_words": None}]},
        "ifbench": lambda n: {"prompt": f"Write. <<{'= a b' if RIGHT[n] else '= a'}>>",
                              "instruction_id_list": ["count:word_count_range"],
                              "kwargs": [{"min_words": 2, "max_words": 3}]},
        "mix_eval": lambda n: {"prompt": count[n], "target": ["7"]} if "freeform" in name
                              else {"prompt": ask[n], "options": four, "target": [str(at)]},
    }  # fmt: skip
    return [made[module](n) for n in range(3)]


def stand_in(folder: Path, configs: Iterable[Any]) -> None:
    """Write the data sets of tasks below `folder`, where `datasets` finds them by name if it is the working folder."""
    parts: dict[str, dict[str, list[str]]] = {}
    for number, config in enumerate(configs):
        parents = config.sample_fields.__module__.removeprefix("lighteval.tasks.tasks.").split(".")
        place = folder / config.hf_repo
        place.mkdir(parents=True, exist_ok=True)
        rows = [json.dumps(row) for row in rows_of(parents[0], config.name)]
        (place / f"{number}.jsonl").write_text("\n".join(rows), encoding="utf-8")
        split = f"  - split: {config.evaluation_splits[0]}\n    path: {number}.jsonl"
        subset = parts.setdefault(config.hf_repo, {}).setdefault(config.hf_subset or "default", [])
        subset += [split] if not any(one.startswith(split.partition("\n")[0] + "\n") for one in subset) else []
    for repo, subsets in parts.items():
        said = [f"- config_name: {json.dumps(name)}\n  data_files:\n" + "\n".join(splits)
                for name, splits in subsets.items()]  # fmt: skip
        text = "---\nconfigs:\n" + "\n".join(said) + "\n---\n"
        (folder / repo / "README.md").write_text(text, encoding="utf-8")
