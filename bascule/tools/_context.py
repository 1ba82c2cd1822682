"""What a running tool can see and say."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from bascule.context import CancelToken, Principal, RequestContext
from bascule.errors import ToolError
from bascule.messages import JsonObject, JsonValue, Message, new_id
from bascule.stream import Chunk

__all__ = ["Answer", "LogLevel", "SilentChannel", "ToolChannel", "ToolContext"]

LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person answered.

    Attributes:
        action: ``accept`` with ``content``; ``decline`` when they said no; ``cancel`` when they gave no answer.
        content: the answer, which fits the question's schema.
    """

    action: Literal["accept", "decline", "cancel"]
    content: JsonObject | None = None


class ToolChannel(Protocol):
    """Carries what a tool says while it runs to whoever called it."""

    async def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Report how far the tool is."""
        ...

    async def log(self, level: LogLevel, data: JsonValue, logger: str | None) -> None:
        """Send a log entry to the caller."""
        ...

    async def emit(self, chunk: Chunk) -> None:
        """Hand on an event of a run that the tool drives."""
        ...

    async def write(self, data: JsonValue) -> None:
        """Send the tool's own data."""
        ...

    async def ask(self, message: str, schema: JsonObject) -> Answer:
        """Put a question to the person behind the caller."""
        ...


class SilentChannel:
    """The channel of a tool that is called directly: nobody listens."""

    async def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Drop the report."""

    async def log(self, level: LogLevel, data: JsonValue, logger: str | None) -> None:
        """Drop the entry."""

    async def emit(self, chunk: Chunk) -> None:
        """Drop the event."""

    async def write(self, data: JsonValue) -> None:
        """Drop the data."""

    async def ask(self, message: str, schema: JsonObject) -> Answer:
        """Refuse: there is nobody to ask.

        Raises:
            ToolError: always.
        """
        raise ToolError(
            f"The tool wants to ask {message!r}, but its caller cannot be asked. "
            "Call it from a client that supports elicitation."
        )


SILENT = SilentChannel()


@dataclass(slots=True, kw_only=True)
class ToolContext:
    """Handed to a tool's parameter of this type; not part of its schema.

    Attributes:
        run_id: the run that the call belongs to.
        tool_call_id: this call.
        request_context: identity, owner and trace of the request.
        cancel: set when nobody wants the result any more.
        messages: the conversation so far, when an agent calls.
        deps: what the app handed to the agent for its tools.
        channel: carries progress, data and questions to the caller.
    """

    run_id: str = ""
    tool_call_id: str = field(default_factory=new_id)
    request_context: RequestContext = field(default_factory=RequestContext)
    cancel: CancelToken = field(default_factory=CancelToken)
    messages: Sequence[Message] = ()
    deps: object = None
    channel: ToolChannel = SILENT

    @property
    def principal(self) -> Principal:
        """Who called."""
        return self.request_context.principal

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report how far the tool is.

        Args:
            done: grows with every report, in any unit.
            total: the value of ``done`` at the end, when it is known.
            message: a short text for people.
        """
        await self.channel.progress(done, total, message)

    async def log(self, level: LogLevel, data: JsonValue, logger: str | None = None) -> None:
        """Send a log entry to the client that called."""
        await self.channel.log(level, data, logger)

    async def write(self, data: JsonValue) -> None:
        """Send data of the tool's own to whoever reads the run's stream."""
        await self.channel.write(data)

    async def ask(self, message: str, schema: JsonObject) -> Answer:
        """Put a question to the person behind the caller and wait for the answer.

        Args:
            message: the question.
            schema: JSON schema of the answer: an object whose properties are strings, numbers, booleans or enums.

        Raises:
            ToolError: the caller cannot be asked.
        """
        return await self.channel.ask(message, schema)
