"""The cache: raw replies by key, stored for good (`ReplyStore`), and joblib memoization over them.

`evalkit.caching.memory` holds the joblib side and is imported on its own: the store knows nothing of it.
"""

from __future__ import annotations

from evalkit.caching.counters import Counters
from evalkit.caching.places import default_folder, network_file_system
from evalkit.caching.store import ReplyStore
from evalkit.caching.upkeep import PruneReport, Stats

__all__ = [
    "Counters",
    "PruneReport",
    "ReplyStore",
    "Stats",
    "default_folder",
    "network_file_system",
]
