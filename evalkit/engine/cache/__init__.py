"""The cache: raw replies by key, stored permanently (`ReplyStore`), and joblib memoization over them.

`evalkit.engine.cache.joblib_memory` has the joblib side and is imported on its own: the store does not depend on it.
"""

from evalkit.engine.cache.opened_stores import open_store
from evalkit.engine.cache.store import ReplyStore

__all__ = ["ReplyStore", "open_store"]
