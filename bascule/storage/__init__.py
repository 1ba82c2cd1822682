"""Storage: where threads and messages are kept, behind one port."""

from bascule.storage._open import open
from bascule.storage._protocol import DateRange, MemoryStore, MessageFilter, Order, Storage, Thread, ThreadOrder

__all__ = [
    "DateRange",
    "MemoryStore",
    "MessageFilter",
    "Order",
    "Storage",
    "Thread",
    "ThreadOrder",
    "open",
]
