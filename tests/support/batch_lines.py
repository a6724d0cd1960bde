"""A request as a line of OpenAI's batches, and the answer in a line of results."""

from __future__ import annotations

from typing import Any

import orjson

from evalkit.core.prompts_and_replies import Reply
from evalkit.engine.providers.openai_batches import Service, answer_of
from evalkit.engine.request import Request


def line_of(request: Request, body: dict[str, Any]) -> tuple[dict[str, Any], list[Reply]]:
    """The line of the request, and the replies that are read in the answer `body`."""
    sent = orjson.loads(Service.line("a", request, {}).content)
    answer = answer_of({"custom_id": "a", "response": {"status_code": 200, "body": body}}, request.judge)
    assert isinstance(answer, list)
    return sent, answer
