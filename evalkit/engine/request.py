"""`Request`: samples of one prompt that one judge is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Prompt, Reply
from evalkit.core.reply_keys import KeyParts, has_seed

BYTES_PER_TOKEN = 4
TOKENS_PER_CRITERION = 120
"""Expected length of a reply on one criterion, with an explanation."""
ReadReply = Callable[[bytes, Reply], str | None]


@dataclass(slots=True, eq=False)
class Request:
    """Samples of one prompt to request from one judge.

    Attributes
    ----------
    judge
        The judge.
    source
        The prompt, or a function that renders it. It is called shortly before the request is sent, so that the first
        calls need not wait for the last prompt.
    parts
        The key parts of the prompt.
    samples
        Numbers of the samples that are missing.
    keys
        Their reply keys.
    read
        A function from a key and its reply to the reason why the reply has no score, or None; for the first replies of
        a judge.
    """

    judge: Judge
    source: Prompt | Callable[[], Prompt]
    parts: KeyParts
    samples: tuple[int, ...]
    keys: tuple[bytes, ...]
    read: ReadReply | None = None

    @property
    def prompt(self) -> Prompt:
        """The prompt, rendered on first use."""
        if not isinstance(self.source, Prompt):
            self.source = self.source()
        return self.source


def shares_bill(judge: Judge, facts: Mapping[str, Any]) -> bool:
    """Whether all samples of a prompt are one request, billed for the prompt once; `facts` are those of the service."""
    return not asks_singly(judge) and facts.get("n_supported") is True


def asks_singly(judge: Judge) -> bool:
    """Whether each sample needs a request of its own: each has its own seed, or the judge sets ``n`` to 1."""
    return judge.params.get("n") == 1 or has_seed(judge.provider, judge.params)


def parameters_of_user(judge: Judge) -> list[str]:
    """Parameters that the user set in `params`: they are never left out. Those of `score` are evalkit's."""
    return [name for name in judge.params if not (judge.score and name in ("logprobs", "top_logprobs"))]
