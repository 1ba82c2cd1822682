"""What callers are told when user code fails: its message without secrets, and an id that leads to the log."""

import logging
from uuid import uuid4

from bascule.errors import InputError, ScopeMissing, ToolError
from bascule.mcp_server._results import sendable
from bascule.tools import failure_text

__all__ = ["failure_of"]

logger = logging.getLogger("bascule.mcp")

SHOWN = 200
"""Characters of a failure's text in its log line: a reader of stderr that is slow should not hold up the server."""


def failure_of(error: Exception, what: str) -> str:
    """Return the text for a caller, with an id that the log has too; the traceback is logged at debug level.

    Args:
        error: what was raised.
        what: what was being done, such as ``tool 'add'``.
    """
    if isinstance(error, ToolError | InputError | ScopeMissing):
        return sendable(str(error))
    error_id = uuid4().hex[:12]
    text = sendable(failure_text(error))
    logger.warning("%s failed (error id %s): %s", what[:SHOWN], error_id, " ".join(text[:SHOWN].split()))
    logger.debug("the failure with error id %s", error_id, exc_info=error)
    return f"{text} (error id {error_id})"
