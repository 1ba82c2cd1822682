"""Carries what a tool says while it runs to the client that called it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, get_args

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import LOG_LEVEL_META_KEY, LoggingLevel, LoggingMessageNotification, LoggingMessageNotificationParams

from bascule.errors import ToolError
from bascule.mcp_server._progress import Progress, Report
from bascule.mcp_server._results import sendable
from bascule.mcp_server._sdk._requests import Context, is_modern
from bascule.mcp_server._steps import StepTexts
from bascule.messages import JsonObject, JsonValue
from bascule.stream import Chunk
from bascule.tools import Answer, LogLevel

__all__ = ["ClientChannel"]

LEVELS: Final[tuple[str, ...]] = get_args(LoggingLevel)
"""From the least to the most severe."""


class ClientChannel:
    """The channel of one tool call.

    Args:
        context: the SDK's context of the call.
        level: the least level of log entries that the client's session asked for.
    """

    def __init__(self, context: Context, *, level: str | None = None) -> None:
        self._context = context
        meta = context.meta or {}
        self.wants_progress = meta.get("progress_token") is not None
        self._progress = Progress()
        self._steps = StepTexts()
        self._sent_at = self._began_at = anyio.current_time()
        self._level = meta.get(LOG_LEVEL_META_KEY) if is_modern(context) else level or LEVELS[0]

    async def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Send a progress notification, when the client gave a token for it."""
        if self.wants_progress:
            await self._send(self._progress.report(done, total, message))

    async def emit(self, chunk: Chunk) -> None:
        """Tell what a run does as progress with a text."""
        if self.wants_progress:
            text = self._steps.of(chunk)
            if text is not None:
                await self._send(self._progress.step(text))

    async def log(self, level: LogLevel, data: JsonValue, logger: str | None) -> None:
        """Send a log entry, when the client asked for this level."""
        if self._level not in LEVELS or LEVELS.index(level) < LEVELS.index(self._level):
            return
        params = LoggingMessageNotificationParams(level=level, data=sendable(data), logger=logger)
        await self._context.session.send_notification(
            LoggingMessageNotification(params=params), related_request_id=self._context.request_id
        )

    async def write(self, data: JsonValue) -> None:
        """Drop the tool's own data: the protocol has no message for it."""

    async def ask(self, message: str, schema: JsonObject) -> Answer:
        """Ask the person behind the client.

        Raises:
            ToolError: the client cannot be asked.
        """
        message, session = sendable(message), self._context.session
        client = session.client_capabilities
        if is_modern(self._context) or client is None or client.elicitation is None or not session.can_send_request:
            raise ToolError(
                f"The tool needs an answer to {message!r}, but this client cannot be asked while a tool runs. "
                "Call it from a client that supports elicitation."
            )
        try:
            result = await session.elicit_form(message, dict(schema), related_request_id=self._context.request_id)
        except MCPError as error:
            raise ToolError(
                f"The tool needs an answer to {message!r}, but the client refused to ask: {error}"
            ) from error
        return Answer(result.action, result.content)

    @asynccontextmanager
    async def beating(self, interval: float) -> AsyncGenerator[None]:
        """Report progress inside the block whenever nothing was sent for ``interval`` seconds."""
        async with anyio.create_task_group() as beside:
            beside.start_soon(self._beat, interval)
            yield
            beside.cancel_scope.cancel()

    async def _beat(self, interval: float) -> None:
        while True:
            silent = anyio.current_time() - self._sent_at
            if silent >= interval:
                await self._send(self._progress.heartbeat(anyio.current_time() - self._began_at))
            else:
                await anyio.sleep(interval - silent)

    async def _send(self, report: Report) -> None:
        self._sent_at = anyio.current_time()
        await self._context.session.report_progress(report.done, report.total, sendable(report.message))
