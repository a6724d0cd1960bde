"""How long to wait after a failed call before it is sent again."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from evalkit.engine.request import ProviderError

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
LONGEST_RETRY_AFTER_S = 300.0

PERMANENT = ("auth", "quota")
OF_ONE_PROMPT = ("forbidden", "unknown_model")  # perhaps: firewalls and routers answer 403 or 404 for one prompt
_NEVER_RETRIED = ("client_error", "too_long", "refused_parameter", "content_filter", *PERMANENT, *OF_ONE_PROMPT)


class Wait(NamedTuple):
    """Seconds until the call is retried, and seconds without any call to the service (after HTTP 429)."""

    call_s: float
    service_s: float = 0.0


def wait_of(problem: ProviderError, tried: int) -> Wait | None:
    """How long to wait after `tried` retries; None if a retry is useless or the wait too long."""
    retry_after_s = problem.retry_after or None  # 0 says nothing
    if problem.kind in _NEVER_RETRIED or (retry_after_s or 0.0) > LONGEST_RETRY_AFTER_S:
        return None
    spread = random.uniform(0.5, 1.0)  # noqa: S311  # jitter, no secret
    wait = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0**tried) * spread
    if problem.kind != "rate_limited":
        return Wait(max(wait, retry_after_s or 0.0))
    if retry_after_s is None:
        return Wait(wait, wait)
    # each call waits a little longer than the service, so that they do not all come back at once
    return Wait(retry_after_s + FIRST_WAIT_S * spread / 4, retry_after_s)


def wait_text(seconds: float) -> str:
    """How long a service asks to wait, and when that ends, in words.

    Examples
    --------
    >>> wait_text(40_000.4).partition(",")[0], wait_text(1e20)
    ('40000 s', 'more than a year')
    """
    if seconds > 366 * 86400:
        return "more than a year"
    end = datetime.now(UTC) + timedelta(seconds=seconds)
    return f"{seconds:.0f} s, until {end.astimezone().isoformat(' ', 'minutes')}"
