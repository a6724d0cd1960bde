"""Runs: a pack resolved, LightEval started as a process of its own, its results stored; workers, comparisons.

Neither LightEval nor judging is imported here: how judges work may change without a change of what launches them.
"""

from evalkit import registry  # noqa: F401  # first: without its extra it says what to install
from evalkit.running.comparisons import compare_runs
from evalkit.running.leaderboards import leaderboard
from evalkit.running.resolutions import Resolution, resolve
from evalkit.running.runners import Runner
from evalkit.running.runs import Run, RunScore, RunTask
from evalkit.running.workers import Worker

__all__ = ["Resolution", "Run", "RunScore", "RunTask", "Runner", "Worker", "compare_runs", "leaderboard", "resolve"]
