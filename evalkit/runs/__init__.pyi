from .registry import Registry as Registry
from .run.leaderboards import leaderboard as leaderboard
from .run.run_comparison import compare_runs as compare_runs
from .run.run_record import Run as Run
from .run.runner import Runner as Runner
