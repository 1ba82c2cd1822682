"""Memory: conversations that outlive a run."""

from bascule.memory._memory import Memory
from bascule.memory._pages import MessagePage, ThreadPage
from bascule.storage import DateRange, MessageFilter, Thread

__all__ = ["DateRange", "Memory", "MessageFilter", "MessagePage", "Thread", "ThreadPage"]
