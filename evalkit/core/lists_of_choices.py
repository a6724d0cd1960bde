"""All lists of choices. Functions, profiles, the scoring config, the command line and widgets read them from here.

Providers are in `evalkit.core.providers`, the rules from samples to scores, with their arithmetic, in
`evalkit.core.vote_aggregate_rules`.
"""

from __future__ import annotations

from typing import Literal, get_args

# -- who judges

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

With ``low_mass`` the log-probabilities cover under .95 of the codes or sum to over 1.05, or the tokens of the verdict
were not found.
With ``in_batch`` a batch that has not been collected asks for the reply.
With ``too_long`` the prompt does not fit into the model's context, or into the memory of this machine.
``abstained`` and ``not_asked`` occur in imported judgments: the judge declined to decide, or was not called.
"""
REASONS: tuple[Reason, ...] = get_args(Reason)
ENGINE_REASONS: tuple[Reason, ...] = REASONS[REASONS.index("timeout") :]
SKIPPED: tuple[Reason, ...] = ("missing_input", "unseen_image", "unseen_file")
"""Reasons of the item: it lacks an input, or holds an image or file that a judge cannot be shown. It is not asked."""


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

RunStatus = Literal["running", "succeeded", "failed", "cancelled"]
RUN_STATUSES: tuple[RunStatus, ...] = get_args(RunStatus)

PluginType = Literal["task", "metric", "bundle"]
PLUGIN_TYPES: tuple[PluginType, ...] = get_args(PluginType)
"""What a plugin contains."""
