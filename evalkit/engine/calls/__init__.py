"""Send requests, store replies: limits, retries, budget and single flight, on one event-loop thread. No pandas."""

from evalkit.engine.calls.event_loop import LoopThread
from evalkit.engine.calls.fetching import afetch, fetch, submit
from evalkit.engine.calls.outcomes import Outcome, Progress
from evalkit.engine.calls.server_check import ServerReport, check_server
from evalkit.engine.providers.prices import price_of

__all__ = [
    "LoopThread",
    "Outcome",
    "Progress",
    "ServerReport",
    "afetch",
    "check_server",
    "fetch",
    "price_of",
    "submit",
]
