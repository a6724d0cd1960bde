"""Decision models at ``POST /v1/systemone``: the questions of `decisions`, by name in an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Prompt
from evalkit.core.providers import PROVIDERS
from evalkit.engine.providers.chat_client import client_of_loop
from evalkit.engine.providers.decisions import DecisionsClient, check
from evalkit.rubrics.decision_questions import option_names

__all__ = ["check", "connect"]


def connect(judge: Judge) -> SystemOneClient:
    """The client for a judge's server and key variable; one of them per event loop."""
    return client_of_loop(SystemOneClient, judge, judge.base_url or PROVIDERS[judge.provider].address)


class SystemOneClient(DecisionsClient):
    """One server of decision models that takes a state, and an object of questions."""

    endpoint = "/systemone"
    content = "state"
    answers = "object"
    other_provider = "decisions"

    def questions(self, prompt: Prompt) -> dict[str, Any]:
        """The questions of a prompt by their names."""
        return {question["name"]: _question(question) for question in super().questions(prompt)}


def _question(question: Mapping[str, Any]) -> dict[str, Any]:
    """A question in the form of this wire, where levels have no labels and options are keys."""
    instructions = question["instructions"]
    if levels := question.get("levels"):
        texts = [level.get("description", level["label"]) for level in levels]
        return {"type": "score", "instructions": instructions, "criteria": texts}
    if choices := question.get("choices"):
        labels = [choice["value"] for choice in choices]
        names = option_names(labels)
        texts = [choice.get("description") for choice in choices]
        if names != labels:
            texts = [label if text is None else f"{label}: {text}" for label, text in zip(labels, texts, strict=True)]
        return {"type": "choice", "instructions": instructions, "criteria": dict(zip(names, texts, strict=True))}
    return {"type": "noul", "instructions": instructions}
