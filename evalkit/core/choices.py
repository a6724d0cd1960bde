"""Every list of choices, written once: functions, profiles, the scoring config, the command line and widgets read it.

The rules from samples to scores, with their arithmetic, are in `evalkit.core.vote_aggregate_rules`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

# -- who judges


class Provider(NamedTuple):
    """Who answers: what it is, the host that its key belongs to, and the variable that holds the key."""

    meaning: str
    host: str = "local"
    key_variable: str | None = None


PROVIDERS: dict[str, Provider] = {
    "openai": Provider("OpenAI, or any OpenAI-compatible server (base_url)", "api.openai.com", "OPENAI_API_KEY"),
    "litellm": Provider("any service that LiteLLM reaches", "litellm"),
    "inference-providers": Provider("Hugging Face Inference Providers", "router.huggingface.co", "HF_TOKEN"),
    "transformers": Provider("a model in this process, by transformers"),
    "vllm": Provider("a model in this process, by vLLM"),
    "function": Provider("a Python function, as module:function (see Judge.function)"),
    "fake": Provider("an embedded stand-in, not an LLM: free, offline, deterministic"),
}
"""Provider -> what it is; ``none`` is not a judge."""

Backend = Literal["openai", "litellm", "inference-providers", "transformers", "vllm", "tgi", "fake"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)
"""`judge_backend` of a scoring config: the providers, and ``tgi``, an OpenAI-compatible server."""


# -- what is judged

Level = Literal["nominal", "ordinal", "interval"]
LEVELS: tuple[Level, ...] = get_args(Level)
"""Level of measurement of a scale."""

Better = Literal["high", "low"]
BETTER: tuple[Better, ...] = get_args(Better)
"""Which end of a scale is the good one."""

RubricMode = Literal["pointwise", "pairwise"]
"""One answer by itself, or two compared."""

Layout = Literal["rubric_first", "item_first"]
"""What a prompt shows first."""

Order = Literal["AB", "BA"]
"""Order in which a pair's answers are shown."""


# -- how judges are asked

OnMiss = Literal["row", "raise"]
ON_MISS: tuple[OnMiss, ...] = get_args(OnMiss)
"""What a missing reply becomes offline: a row with an error, or an exception."""

Recorded = Literal["miss", "use"]
RECORDED: tuple[Recorded, ...] = get_args(Recorded)
"""Whether recorded replies answer for a live judge."""

Reason = Literal[
    "off_scale",
    "ambiguous",
    "unreadable",
    "truncated",
    "refused",
    "empty",
    "abstained",
    "timeout",
    "rate_limited",
    "server_error",
    "judge_down",
    "cache_miss",
    "budget",
    "stopped",
    "not_asked",
]
"""Why a judgment has no score. Those before ``timeout`` are read off the reply, the others come from the engine.

``abstained`` and ``not_asked`` come with imported judgments: the judge declined to decide; it was not asked.
"""
REASONS: tuple[Reason, ...] = get_args(Reason)
ENGINE_REASONS: tuple[Reason, ...] = REASONS[REASONS.index("timeout") :]


# -- judges against people, and criteria together

Ties = Literal["na", "half", "wrong"]
TIES: tuple[Ties, ...] = get_args(Ties)
"""How a tie of a judge counts against a label: left out; 1/t right where the label is among its t labels; wrong."""

Unscored = Literal["drop", "wrong"]
UNSCORED: tuple[Unscored, ...] = get_args(Unscored)
"""How an answer without a score counts against a label: left out, or wrong."""

Reference = Literal["each", "mean", "majority"]
REFERENCES: tuple[Reference, ...] = get_args(Reference)
"""What judges are compared with: each annotator, averaged; the annotators' mean; their majority."""

MissingCriteria = Literal["na", "renormalise"]
MISSING_CRITERIA: tuple[MissingCriteria, ...] = get_args(MissingCriteria)
"""An unscored criterion: the item has no score, or one over the criteria that are scored."""


# -- runs

ScoringMode = Literal["deterministic", "judge", "jury"]
SCORING_MODES: tuple[ScoringMode, ...] = get_args(ScoringMode)
"""Who scores a run: no judge, one judge, or several."""

RunStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]
RUN_STATUSES: tuple[RunStatus, ...] = get_args(RunStatus)

PluginType = Literal["task", "metric", "bundle"]
PLUGIN_TYPES: tuple[PluginType, ...] = get_args(PluginType)
"""What a plugin brings."""
