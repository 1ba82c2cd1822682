"""The messages of one run: what the model is shown, and what memory keeps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bascule.context import RequestContext
from bascule.errors import InputError
from bascule.messages import JsonValue, Message, Part
from bascule.tools import MemoryOption

__all__ = ["Conversation", "ConversationMemory", "Thread", "thread_of"]


class ConversationMemory(Protocol):
    """Where an agent's conversations are kept; ``bascule.Memory`` is one."""

    @property
    def last_messages(self) -> int | bool:
        """How many messages of a thread the model is shown; ``False`` keeps nothing at all."""
        ...

    async def load(self, thread_id: str, *, resource_id: str, limit: int | None = None) -> tuple[Message, ...]:
        """Return the last messages of a thread, oldest first."""
        ...

    async def save_turn(
        self, messages: Sequence[Message], *, thread: str | Mapping[str, JsonValue], resource_id: str
    ) -> object:
        """Store messages, and the thread when it is new, in one transaction; again is harmless."""
        ...


@dataclass(frozen=True, slots=True)
class Thread:
    """The conversation that a run belongs to: its id, its owner, and what the caller said about it."""

    id: str
    resource_id: str
    given: str | Mapping[str, JsonValue]


def thread_of(option: MemoryOption | None, context: RequestContext, *, agent: str) -> Thread | None:
    """Return the thread that a run's memory option names.

    The owner is the verified caller's whatever the option says; without auth it is the option's, else the context's.

    Raises:
        InputError: the option names no thread, or no owner can be found.
    """
    if option is None:
        return None
    given = option.get("thread")
    thread_id = given.get("id") if isinstance(given, Mapping) else given
    if not isinstance(thread_id, str) or not thread_id:
        raise InputError(
            f"The memory option of {agent!r} names no thread; pass memory={{'thread': id, 'resource': id}}."
        )
    resource = context.owner if context.principal.verified else option.get("resource") or context.resource_id
    if not resource:
        raise InputError(
            f"The memory option of {agent!r} names the thread {thread_id!r} but not its owner; "
            "pass memory={'thread': id, 'resource': id}."
        )
    assert given is not None
    return Thread(thread_id, resource, given)


@dataclass(slots=True)
class Conversation:
    """Prompt and history of one run.

    Attributes:
        before: system messages and the messages for this run alone, in order; never stored.
        given: the caller's messages.
        turn: the assistant message that the run makes.
        remembered: what memory contributed.
    """

    before: tuple[Message, ...]
    given: tuple[Message, ...]
    turn: Message
    memory: ConversationMemory | None = None
    thread: Thread | None = None
    remembered: tuple[Message, ...] = field(default=())

    def _turn(self, parts: Sequence[Part]) -> Message:
        turn = self.turn
        return Message(role=turn.role, parts=tuple(parts), id=turn.id, created_at=turn.created_at)

    def prompt(self, parts: Sequence[Part]) -> tuple[Message, ...]:
        """Return what the model is shown when the turn holds ``parts``."""
        told = (*self.before, *self.remembered, *self.given)
        return (*told, self._turn(parts)) if parts else told

    def added(self, parts: Sequence[Part]) -> tuple[Message, ...]:
        """Return the messages that this run adds to the conversation."""
        messages = (*self.given, self._turn(parts)) if parts else self.given
        if self.thread is None:
            return messages
        thread = self.thread
        return tuple(message.owned_by(thread_id=thread.id, resource_id=thread.resource_id) for message in messages)

    async def recall(self) -> None:
        """Read the history, and store the caller's messages before anything happens with them."""
        if self.memory is None or self.thread is None or self.memory.last_messages is False:
            return
        thread = self.thread
        limit = None if self.memory.last_messages is True else self.memory.last_messages
        known = {message.id for message in self.given}
        history = await self.memory.load(thread.id, resource_id=thread.resource_id, limit=limit)
        self.remembered = tuple(message for message in history if message.id not in known)
        await self.keep(())

    async def keep(self, parts: Sequence[Part]) -> None:
        """Store the conversation as it stands; the same message again replaces what was stored."""
        if self.memory is None or self.thread is None or self.memory.last_messages is False:
            return
        thread = self.thread
        await self.memory.save_turn(self.added(parts), thread=thread.given, resource_id=thread.resource_id)
