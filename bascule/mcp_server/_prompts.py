"""Prompts: texts that a person picks in a client."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias, overload

from bascule.errors import ConfigurationError
from bascule.messages import JsonObject
from bascule.tools import Tool, ToolContext, check_name, run_in_daemon_thread, tool

__all__ = ["Complete", "Prompt", "completions", "prompt"]

Complete: TypeAlias = Callable[[str], Sequence[str] | Awaitable[Sequence[str]]]
"""Called with what was typed so far; returns the values to offer."""


class Prompt:
    """A prompt: a function whose result becomes the messages of a conversation.

    The function returns a text, a content object, or a list of them and of ``{"role", "content"}`` mappings.

    Args:
        function: takes the prompt's arguments, and a ``ToolContext`` when it asks for one; sync or async.
        name: the prompt's name; the function's when left out.
        description: what people read; the docstring's when left out.
        title: a name for people.
        complete: offers values for arguments, by argument name.
        meta: entries for MCP's ``_meta``.

    Raises:
        NameInvalid: clients refuse the name.
        SchemaMissing: an argument has no type.
        ConfigurationError: ``complete`` names an argument that there is not.
    """

    def __init__(
        self,
        function: Callable[..., object],
        *,
        name: str | None = None,
        description: str | None = None,
        title: str | None = None,
        complete: Mapping[str, Complete] | None = None,
        meta: JsonObject | None = None,
    ) -> None:
        self._tool: Tool[..., object] = tool(name=name, description=description, title=title)(function)
        self.name: str = check_name(self._tool.id, what="prompt")
        self.title = title
        self.description: str = self._tool.description
        self.complete: Mapping[str, Complete] = check_completions(complete, self._tool, f"prompt {self.name!r}")
        self.meta = meta

    def __repr__(self) -> str:
        return f"<Prompt {self.name}>"

    @property
    def arguments(self) -> list[JsonObject]:
        """The arguments, each with ``name``, ``required`` and, where there is one, ``description``."""
        return [
            {"name": name, "required": required, **({"description": text} if text else {})}
            for name, required, text in parameters_of(self._tool)
        ]

    async def render(self, arguments: Mapping[str, str], context: ToolContext | None = None) -> object:
        """Call the function.

        Args:
            arguments: by name; converted to the types that the function declares.
            context: identity and owner of the caller.

        Raises:
            ToolInputInvalid: they do not fit.
        """
        return await self._tool.execute(dict(arguments), context)


def parameters_of(described: Tool[..., object]) -> list[tuple[str, bool, str]]:
    """Return name, whether it is required, and description of a function's parameters."""
    schema = described.input_schema
    properties = schema.get("properties")
    required = schema.get("required") or ()
    assert isinstance(properties, Mapping)
    assert isinstance(required, Sequence)
    return [
        (name, name in required, str(entry.get("description", "")) if isinstance(entry, Mapping) else "")
        for name, entry in properties.items()
    ]


def check_completions(
    complete: Mapping[str, Complete] | None, described: Tool[..., object], what: str
) -> Mapping[str, Complete]:
    """Return the completions, each for a parameter that there is.

    Raises:
        ConfigurationError: there is no such parameter.
    """
    names = {name for name, _, _ in parameters_of(described)}
    unknown = sorted(set(complete or ()) - names)
    if unknown:
        raise ConfigurationError(
            f"The {what} offers completions for {unknown[0]!r}, which is not one of its parameters: "
            f"{', '.join(sorted(names)) or '(none)'}."
        )
    return complete or {}


async def completions(complete: Complete, typed: str) -> list[str]:
    """Return what ``complete`` offers for a text."""

    def call() -> Sequence[str] | Awaitable[Sequence[str]]:
        return complete(typed)

    offered = await run_in_daemon_thread(call)
    return list(await offered if isinstance(offered, Awaitable) else offered)


@overload
def prompt(function: Callable[..., object], /) -> Prompt: ...


@overload
def prompt(
    *,
    name: str | None = None,
    description: str | None = None,
    title: str | None = None,
    complete: Mapping[str, Complete] | None = None,
    meta: JsonObject | None = None,
) -> Callable[[Callable[..., object]], Prompt]: ...


def prompt(
    function: Callable[..., object] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    title: str | None = None,
    complete: Mapping[str, Complete] | None = None,
    meta: JsonObject | None = None,
) -> Prompt | Callable[[Callable[..., object]], Prompt]:
    """Make a prompt from a function; its parameters are the prompt's arguments.

    Args:
        function: the function, when used without parentheses.
        name: the prompt's name; the function's when left out.
        description: what people read; the docstring's when left out.
        title: a name for people.
        complete: offers values for arguments, by argument name.
        meta: entries for MCP's ``_meta``.

    Raises:
        NameInvalid: clients refuse the name.
        SchemaMissing: an argument has no type.
    """

    def make(function: Callable[..., object]) -> Prompt:
        return Prompt(function, name=name, description=description, title=title, complete=complete, meta=meta)

    return make if function is None else make(function)
