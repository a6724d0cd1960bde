"""The readings ``expected`` and ``mode`` of a score: from the distribution over codes to a verdict and its columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from evalkit.core.lists_of_choices import REASONS, ScoreReading

if TYPE_CHECKING:
    from evalkit.rubrics.scales import Code

LEAST_MASS, MOST_MASS = 0.95, 1.05
"""Under this probability of all codes together, a reply has no score."""
COLUMNS = ("score_sd", "score_mass", "score_low", "score_high", "pass_prob")
"""The columns of judgments that these readings add."""

Verdict = tuple[float, float, str | None, int, int]
_LOW_MASS: Verdict = (math.nan, math.nan, None, -1, REASONS.index("low_mass"))
_TIED: Verdict = (math.nan, math.nan, None, -1, REASONS.index("ambiguous"))
_TOLERANCE = 1e-9


def read_score(
    codes: Mapping[Code, float], reading: ScoreReading, verdict_of: Callable[[Code], Verdict], *, is_first: bool
) -> tuple[Verdict, tuple[float, ...]]:
    """The verdict and the values of `COLUMNS` of one reply.

    Parameters
    ----------
    codes
        Code -> probability.
    reading
        ``expected``: score and `score_norm` are means over the codes, renormalised; the label is the most probable
        code; it passes if P(pass) > .5. ``mode``: all of the most probable code.
    verdict_of
        Score, normalised score, label and pass of a code.
    is_first
        Whether nothing was written before the verdict: else P(pass) is conditional on that text, and left out.
    """
    stated_mass = math.fsum(codes.values())
    total = max(1.0, stated_mass)  # stored values are rounded
    shares = [(share / total, verdict_of(code)) for code, share in codes.items()]
    mass = math.fsum(share for share, _ in shares)
    scores = [verdict[0] for _, verdict in shares]
    weighted = math.fsum(share * verdict[0] for share, verdict in shares)
    missing = max(0.0, 1.0 - mass)
    bounds = weighted + missing * min(scores), weighted + missing * max(scores)
    if not LEAST_MASS <= stated_mass <= MOST_MASS:
        return _LOW_MASS, (math.nan, stated_mass, *bounds, math.nan)
    mean, norm = weighted / mass, math.fsum(share * verdict[1] for share, verdict in shares) / mass
    has_rule = shares[0][1][3] >= 0
    passes = math.fsum(share for share, verdict in shares if verdict[3] == 1) / mass if has_rule else math.nan
    first, second = sorted((share for share, _ in shares), reverse=True)[:2]
    top = max(shares, key=lambda pair: pair[0])[1]
    tied = first - second <= _TOLERANCE
    figures = (mass, *bounds, passes if is_first else math.nan)
    if tied and (reading == "mode" or math.isnan(mean)):
        return _TIED, (math.nan, *figures)
    if reading == "mode":
        return top, (math.nan, *figures)
    spread = math.sqrt(math.fsum(share * (verdict[0] - mean) ** 2 for share, verdict in shares) / mass)
    passed = -1 if not has_rule or abs(passes - 0.5) <= _TOLERANCE else int(passes > 0.5)
    return (mean, norm, None if tied else top[2], passed, -1), (spread, *figures)
