"""The cache: raw replies by key, stored permanently (`ReplyStore`), and joblib memoization over them.

`evalkit.engine.cache.joblib_memory` holds the joblib side and is imported on its own: the store knows nothing of it.
"""

from __future__ import annotations

from evalkit.core.folders import default_folder, network_file_system
from evalkit.engine.cache.counters import Counters
from evalkit.engine.cache.maintenance import PruneReport, Stats
from evalkit.engine.cache.store import ReplyStore

__all__ = [
    "Counters",
    "PruneReport",
    "ReplyStore",
    "Stats",
    "default_folder",
    "network_file_system",
]
