"""SQLite behind the storage port."""

from bascule.storage._sqlite._connection import Synchronous
from bascule.storage._sqlite._storage import SqliteStorage

__all__ = ["SqliteStorage", "Synchronous"]
