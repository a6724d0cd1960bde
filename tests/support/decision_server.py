"""A decision model on loopback: the content says how probable each answer is, as ``MASS .1 .2 .7``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from servers import JudgeServer, judge_server

import evalkit as ek

Answers = list[dict[str, Any]]
RUBRIC = ek.Rubric(
    id="replies", description="Is the shop's reply good?", inputs=["letter", "reply"],
    criteria=[
        {"name": "tone: how it sounds", "description": "How friendly is the reply?", "pass_at": 3,
         "scale": {1: "Cold", 2: "Correct", 3: "Warm"}},
        {"name": "true", "description": "Does the reply keep to the letter?", "pass_at": 1,
         "scale": {0: "It contradicts the letter.", 1: "It keeps to the letter."}},
        {"name": "topic", "level": "nominal", "description": "What is the letter about?",
         "scale": {"1": "Parcels", "2": "Bills"}},
    ],
)  # fmt: skip


def masses(content: str, k: int) -> list[float]:
    """The probabilities that a content states for k answers; the first answer is sure if it states none for k."""
    for numbers in re.findall(r"MASS((?: [\d.]+)+)", content):
        if len(shares := [float(number) for number in numbers.split()]) == k:
            return shares
    return [1.0] + [0.0] * (k - 1)


def answer_to(question: dict[str, Any], content: str) -> dict[str, Any]:
    """One answer; that of a predicate is sure of no, or has the mass of the second of two answers."""
    kind, name = question["type"], question["name"]
    options = question.get("choices", question.get("levels", [None, None]))
    shares = masses(content, len(options))
    if kind == "predicate":
        return {"type": kind, "name": name, "probability": shares[1]}
    if kind == "choice":
        rows = [{"value": row["value"], "probability": share} for row, share in zip(options, shares, strict=True)]
        return {"type": kind, "name": name, "choice": rows[0]["value"], "confidence": 0.5, "probabilities": rows}
    rows = [
        {"value": place, "label": row["label"], "probability": share}
        for place, (row, share) in enumerate(zip(options, shares, strict=True))
    ]
    return {"type": kind, "name": name, "score": 0.0, "confidence": 0.5, "probabilities": rows}


def of_system_one(questions: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The questions of ``POST /v1/systemone`` as those of ``POST /v1/decisions``."""
    lists = {"score": "levels", "choice": "choices", "noul": ""}
    made = []
    for name, question in questions.items():
        assert set(question) <= {"type", "instructions", "criteria"}
        options = [{"label": option, "value": option} for option in question.get("criteria", ())]
        kind = "predicate" if question["type"] == "noul" else question["type"]
        made.append({**question, "type": kind, "name": name, lists[question["type"]]: options})
    return made


def for_system_one(answers: Answers, questions: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Answers in the form of ``POST /v1/systemone``, which has no refusals: those are left out."""
    made: dict[str, Any] = {}
    for answer in answers:
        name, kind = answer["name"], answer["type"]
        if kind == "predicate":
            made[name] = {"type": "noul", "noul": answer["probability"]}
        elif kind != "refusal":
            shares = {str(row["value"]): row["probability"] for row in answer.get("probabilities", ())}
            made[name] = {"type": kind, "confidence": 0.5, "probabilities": shares}
            if kind == "score":
                made[name] |= {"score": 0.0, "legend": dict(zip(shares, questions[name]["criteria"], strict=False))}
    return made


class Decider:
    """Answers the requests of ``POST /v1/decisions`` and of ``POST /v1/systemone``, and keeps them.

    `edit` changes the answers; more than `most` questions are refused. A question costs 10 tokens, a content 100.
    `asked` has all bodies in the form of ``/v1/decisions``.
    """

    def __init__(self, edit: Callable[[Answers], Answers] = list, most: int = 400) -> None:
        self.edit, self.most, self.asked = edit, most, list[dict[str, Any]]()

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        is_second = "state" in body
        known = {"state", "images"} if is_second else {"input", "prompt_cache_key"}
        unknown = body.keys() - {"model", "questions"} - known
        if unknown or not body["questions"]:
            return {"status": 400, "body": {"error": {"message": "a field is wrong", "param": str(unknown)}}}
        if len(body["questions"]) > self.most:
            said = {"message": "Too many questions.", "param": "questions", "code": "array_above_max_length"}
            return {"status": 400, "body": {"error": said}}
        asked = body
        if is_second:
            fields = {"input" if name == "state" else name: value for name, value in body.items()}
            asked = fields | {"questions": of_system_one(body["questions"])}
        self.asked.append(asked)
        content = asked["input"] if isinstance(asked["input"], str) else asked["input"][0]["content"][0]["text"]
        answers: Any = self.edit([answer_to(question, content) for question in asked["questions"]])
        answers = for_system_one(answers, body["questions"]) if is_second else answers
        n_output = 7 * is_second  # counted, never billed
        usage = {"input_tokens": 100 + 10 * len(asked["questions"]), "output_tokens": n_output}
        return {"body": {"model": f"{body['model']}-2026", "answers": answers, "usage": usage}}


@contextmanager
def decider(**options: Any) -> Iterator[tuple[JudgeServer, Decider]]:
    """A running server, and what answers there."""
    model = Decider(**options)
    with judge_server(proxied=True, faults=model) as server:
        yield server, model


def at(server: JudgeServer, **fields: Any) -> ek.Judge:
    """The judge at a server; a million tokens cost a dollar, so that a token is a millionth."""
    defaults = {"provider": "decisions", "base_url": server.url, "price": (1.0, 0.0)}
    return ek.Judge(model="luna", **(defaults | fields))


def items_with(*texts: str) -> list[dict[str, str]]:
    """Items whose reply is one of these texts."""
    return [{"item_id": str(n), "letter": f"Where is parcel {n}?", "reply": text} for n, text in enumerate(texts)]
