"""Requests in, replies out: limits, retries, budget and single flight, on one loop thread; no pandas."""

from evalkit.calling.checkups import ServerReport, check_server
from evalkit.calling.engine import afetch, fetch, submit
from evalkit.calling.limits import Limits, Outcome, Progress
from evalkit.calling.loop import LoopThread
from evalkit.providers.prices import price_of

__all__ = [
    "Limits",
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
