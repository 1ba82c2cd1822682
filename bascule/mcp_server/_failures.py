"""What callers are told when user code fails: its message without secrets, and an id that leads to the log."""

import logging
from uuid import uuid4

from bascule.errors import InputError, ToolError
from bascule.tools import failure_text

__all__ = ["failure_of"]

logger = logging.getLogger("bascule.mcp")


def failure_of(error: Exception, what: str) -> str:
    """Return the text for a caller; log what the text leaves out.

    Args:
        error: what was raised.
        what: what was being done, such as ``tool 'add'``.
    """
    if isinstance(error, ToolError | InputError):
        return str(error)
    error_id = uuid4().hex[:12]
    logger.error("%s failed (error id %s)", what, error_id, exc_info=error)
    return f"{failure_text(error)} (error id {error_id})"
