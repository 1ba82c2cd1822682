"""Conversations over MCP: tools to list and read them, and one resource for each.

Whose conversations they are follows from the request alone, never from an argument of a verified caller: another's
thread is like one that does not exist.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated
from urllib.parse import quote

from pydantic import Field

from bascule.context import RequestContext, current_context
from bascule.errors import NotFound
from bascule.mcp_server._catalogue import AnyTool
from bascule.mcp_server._resources import Resource
from bascule.mcp_server._steps import shorten
from bascule.memory import Memory, Thread
from bascule.messages import ErrorPart, FilePart, JsonObject, JsonValue, Message, TextPart, ToolCallPart
from bascule.tools import ToolContext, model_text, tool

__all__ = [
    "THREADS",
    "Conversations",
    "is_thread_uri",
    "memory_tools",
    "thread_listing",
    "thread_resource",
    "thread_uri",
]

THREADS = "bascule://threads/{thread_id}"
LISTED = 200
"""How many threads are listed as resources, the ones that changed last first."""


def thread_uri(thread_id: str) -> str:
    """Return the URI of a thread."""
    return THREADS.format(thread_id=quote(thread_id, safe=""))


def is_thread_uri(uri: str) -> bool:
    """Whether a URI is a thread's."""
    return uri.startswith(thread_uri(""))


class Conversations(Resource):
    """The template under which every conversation can be read.

    Args:
        memory: holds the conversations.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

        async def thread(thread_id: str, context: ToolContext) -> str:
            """A conversation, as text."""
            found = await memory.recall(thread_id, resource_id=context.request_context.owner)
            return transcript(found.messages)

        async def thread_ids(typed: str) -> Sequence[str]:
            context = current_context()
            if context is None:
                return []
            found = await memory.list_threads(resource_id=context.owner, order_by="updated_at", per_page=LISTED)
            return [thread.id for thread in found.threads if thread.id.startswith(typed)]

        super().__init__(
            THREADS, thread, name="conversation", media_type="text/plain", complete={"thread_id": thread_ids}
        )

    async def check(self, parameters: Mapping[str, str], context: RequestContext) -> None:
        """See to it that the owner has this conversation.

        Raises:
            NotFound: there is none, or it is another's.
        """
        identifier = parameters["thread_id"]
        if await self._memory.get_thread(identifier, resource_id=context.owner) is None:
            raise NotFound(f"There is no thread {identifier!r}.")


def memory_tools(memory: Memory) -> Sequence[AnyTool]:
    """Return the tools that list conversations and read one."""

    @tool(name="memory_list_threads", title="List conversations", annotations={"readOnlyHint": True})
    async def list_threads(
        context: ToolContext,
        page: Annotated[int, Field(ge=0, description="Which page, from 0.")] = 0,
        per_page: Annotated[int, Field(ge=1, le=100, description="Conversations on a page.")] = 20,
    ) -> str:
        """List your conversations, the ones that changed last first."""
        found = await memory.list_threads(
            resource_id=context.request_context.owner, order_by="updated_at", page=page, per_page=per_page
        )
        lines = [_thread_line(thread) for thread in found.threads]
        more = f"{found.total} in all; ask for page {page + 1} for more." if found.has_more else ""
        return "\n".join([*lines, more]).strip() or "There are no conversations."

    @tool(name="memory_read_thread", title="Read a conversation", annotations={"readOnlyHint": True})
    async def read_thread(
        context: ToolContext,
        thread_id: Annotated[str, Field(min_length=1, description="The conversation's id.")],
        page: Annotated[int, Field(ge=0, description="Which page, from 0, the oldest messages first.")] = 0,
        per_page: Annotated[int, Field(ge=1, le=200, description="Messages on a page.")] = 50,
    ) -> str:
        """Read one of your conversations."""
        found = await memory.recall(thread_id, resource_id=context.request_context.owner, page=page, per_page=per_page)
        more = f"{found.total} messages in all; ask for page {page + 1} for more." if found.has_more else ""
        return "\n\n".join(filter(None, [transcript(found.messages), more])) or "The conversation is empty."

    return (list_threads, read_thread)


def thread_resource(memory: Memory) -> Conversations:
    """Return the template under which every conversation can be read."""
    return Conversations(memory)


def thread_listing(memory: Memory) -> Callable[[RequestContext], Awaitable[Sequence[JsonObject]]]:
    """Return what lists a caller's conversations as resources, as soon as they exist."""

    async def listing(context: RequestContext) -> Sequence[JsonObject]:
        found = await memory.list_threads(resource_id=context.owner, order_by="updated_at", per_page=LISTED)
        return [_thread_entry(thread) for thread in found.threads]

    return listing


def transcript(messages: Sequence[Message]) -> str:
    """Return a conversation as text: who said what, and which tools were called."""
    return "\n\n".join(f"{message.role}: {said}" for message in messages if (said := _said(message)))


def _said(message: Message) -> str:
    lines: list[str] = []
    for part in message.parts:
        match part:
            case TextPart():
                lines.append(part.text)
            case ToolCallPart():
                outcome = part.error if part.error is not None else model_text(part.result)
                lines.append(f"[{part.tool_name}({shorten(model_text(part.args), 200)}): {shorten(outcome, 500)}]")
            case FilePart():
                lines.append(f"[file {part.filename or part.media_type}]")
            case ErrorPart():
                lines.append(f"[failed: {part.message}]")
            case _:
                pass
    return "\n".join(filter(None, lines))


def _thread_line(thread: Thread) -> str:
    title = f" {thread.title!r}" if thread.title else ""
    return f"{thread.id}{title}, last changed {thread.updated_at:%Y-%m-%d %H:%M} UTC"


def _thread_entry(thread: Thread) -> JsonObject:
    entry: dict[str, JsonValue] = {
        "uri": thread_uri(thread.id),
        "name": thread.id,
        "mimeType": "text/plain",
        "annotations": {"lastModified": thread.updated_at.isoformat()},
    }
    return {**entry, "title": thread.title} if thread.title else entry
