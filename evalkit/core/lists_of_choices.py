"""All lists of choices. Functions, profiles, the scoring config, the command line and widgets read them from here.

The rules from samples to scores, with their arithmetic, are in `evalkit.core.vote_aggregate_rules`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

# -- who judges


class Provider(NamedTuple):
    """All that is known of a provider; its module in `evalkit.engine.providers` has its name, with underscores.

    Attributes
    ----------
    meaning
        Its description.
    host
        The host that its key is for; ``local``: in this process.
    key_variable, url_variable
        The variables that contain the key and another base URL.
    address
        Where calls go without `base_url`, as `check_server` shows it.
    packages
        The packages of the extra of its name.
    logprobs
        Whether its replies can have log-probabilities.
    seeds
        Whether it sends the seed of each sample to a server.
    batches, batch_share
        The module that sends its batches, and their price at its own host as a share of that of live calls.
    price_list
        Its id in genai-prices.
    in_lighteval
        Whether it is a `judge_backend` of a scoring config.
    """

    meaning: str
    host: str = "local"
    key_variable: str | None = None
    url_variable: str | None = None
    address: str = ""
    packages: tuple[str, ...] = ()
    logprobs: bool = True
    seeds: bool = False
    batches: str | None = None
    batch_share: float = 1.0
    price_list: str | None = None
    in_lighteval: bool = True


PROVIDERS: dict[str, Provider] = {
    "openai": Provider(
        "OpenAI, or any OpenAI-compatible server (base_url)", "api.openai.com", "OPENAI_API_KEY", "OPENAI_BASE_URL",
        "https://api.openai.com/v1", seeds=True, batches="openai_batches", batch_share=0.5, price_list="openai",
    ),
    "anthropic": Provider(
        "Anthropic, by its own client", "api.anthropic.com", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL",
        "https://api.anthropic.com", ("anthropic",), logprobs=False, batches="anthropic_batches", batch_share=0.5,
        price_list="anthropic",
    ),
    "litellm": Provider(
        "any service that LiteLLM reaches", "litellm", address="its provider's address in litellm",
        packages=("litellm",), seeds=True,
    ),
    "inference-providers": Provider(
        "Hugging Face Inference Providers", "router.huggingface.co", "HF_TOKEN",
        address="https://router.huggingface.co/v1", packages=("huggingface_hub",), seeds=True,
    ),
    "transformers": Provider("a model that evalkit loads, by transformers", packages=("torch", "transformers")),
    "vllm": Provider("a model that evalkit loads, by vLLM", packages=("vllm",)),
    "function": Provider("a Python function, as module:function (see Judge.function)", in_lighteval=False),
    "fake": Provider("an embedded stand-in, not an LLM: free, offline, deterministic"),
}  # fmt: skip
"""All providers. ``none`` is not a provider: it means that no judge is called."""

_IN_LIGHTEVAL = [name for name, provider in PROVIDERS.items() if provider.in_lighteval]
BACKENDS = (*_IN_LIGHTEVAL[:-1], "tgi", _IN_LIGHTEVAL[-1])
"""`judge_backend` of a scoring config: the providers, and ``tgi``, an OpenAI-compatible server."""
if TYPE_CHECKING:
    Backend = str
else:  # for pydantic, which names what is allowed
    Backend = Literal[BACKENDS]


ScoreReading = Literal["expected", "mode"]
SCORE_READINGS: tuple[ScoreReading, ...] = get_args(ScoreReading)
"""How a score is read from the log-probabilities of a reply: their mean over the codes, or the most probable code."""


# -- what is judged

Level = Literal["nominal", "ordinal", "interval"]
LEVELS: tuple[Level, ...] = get_args(Level)
"""Level of measurement of a scale."""

Better = Literal["high", "low"]
BETTER: tuple[Better, ...] = get_args(Better)
"""Whether high or low values of a scale are good."""

RubricMode = Literal["pointwise", "pairwise"]
"""Whether one answer is judged by itself, or two answers are compared."""

Layout = Literal["rubric_first", "item_first"]
"""Whether the prompt starts with the rubric or with the item."""

Order = Literal["AB", "BA"]
"""Order in which a pair's answers are shown."""


# -- how judges are asked

OnMiss = Literal["row", "raise"]
ON_MISS: tuple[OnMiss, ...] = get_args(OnMiss)
"""Offline, a missing reply becomes a row with an error, or raises an exception."""

OnMissing = Literal["raise", "skip"]
ON_MISSING: tuple[OnMissing, ...] = get_args(OnMissing)
"""An item that lacks a required input raises an exception, or is skipped and stays unscored."""

Recorded = Literal["miss", "use"]
RECORDED: tuple[Recorded, ...] = get_args(Recorded)
"""Whether recorded replies are used in place of live calls."""

ReplySource = Literal["live", "batch", "recorded"]
REPLY_SOURCES: tuple[ReplySource, ...] = get_args(ReplySource)
"""Where a stored reply comes from: a call, a provider's batch, or a recording."""

Reason = Literal[
    "off_scale", "ambiguous", "unreadable", "truncated", "refused", "empty", "abstained", "low_mass", "timeout",
    "rate_limited", "server_error", "judge_down", "cache_miss", "in_batch", "budget", "stopped", "too_long",
    "missing_input", "unseen_image", "unseen_file", "not_asked",
]  # fmt: skip
"""Why a judgment has no score. Reasons before ``timeout`` come from the text of the reply, the others from the engine.

With ``low_mass`` the log-probabilities cover under .95 of the codes, or the tokens of the verdict were not found.
With ``in_batch`` a batch that has not been collected asks for the reply.
With ``too_long`` the prompt does not fit into the model's context, or into the memory of this machine.
``abstained`` and ``not_asked`` occur in imported judgments: the judge declined to decide, or was not called.
"""
REASONS: tuple[Reason, ...] = get_args(Reason)
ENGINE_REASONS: tuple[Reason, ...] = REASONS[REASONS.index("timeout") :]
SKIPPED: tuple[Reason, ...] = ("missing_input", "unseen_image", "unseen_file")
"""Reasons of the item: it lacks an input, or holds an image or file that judges cannot be shown. No judge is asked."""


# -- judges against people, and criteria together

Ties = Literal["na", "half", "wrong"]
TIES: tuple[Ties, ...] = get_args(Ties)
"""How a judge's tie of t labels is compared with a label: left out; 1/t right if the label is among them; wrong."""

Unscored = Literal["drop", "wrong"]
UNSCORED: tuple[Unscored, ...] = get_args(Unscored)
"""How to treat an answer that has a label but no score: leave it out, or count it as wrong."""

Reference = Literal["each", "mean", "majority"]
REFERENCES: tuple[Reference, ...] = get_args(Reference)
"""What judges are compared with: each annotator in turn (then averaged), the annotators' mean, or their majority."""

MissingCriteria = Literal["na", "renormalise"]
MISSING_CRITERIA: tuple[MissingCriteria, ...] = get_args(MissingCriteria)
"""If a criterion is unscored, the item has no score, or a score over the scored criteria."""


# -- runs

ScoringMode = Literal["deterministic", "judge", "jury"]
SCORING_MODES: tuple[ScoringMode, ...] = get_args(ScoringMode)
"""Who scores a run: no judge, one judge, or several."""

RunStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]
RUN_STATUSES: tuple[RunStatus, ...] = get_args(RunStatus)

PluginType = Literal["task", "metric", "bundle"]
PLUGIN_TYPES: tuple[PluginType, ...] = get_args(PluginType)
"""What a plugin contains."""
