"""What a server offers, by name. Says what each caller sees and finds what a caller asks for; opens nothing."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from bascule.context import Principal, RequestContext, missing_scopes
from bascule.errors import NameTaken, ScopeMissing
from bascule.mcp_server._prompts import Prompt
from bascule.mcp_server._resources import Resource
from bascule.messages import JsonObject
from bascule.tools import Tool, check_name

__all__ = ["AnyTool", "Catalogue", "Listing", "ToolEntry", "room_for"]

AnyTool: TypeAlias = Tool[Any, Any]  # Any: how the decorated function is called from Python does not matter here


Listing: TypeAlias = Callable[[RequestContext], Awaitable[Sequence[JsonObject]]]
"""Returns the resources that a caller may see now, each in the protocol's spelling."""


def room_for(server_name: str) -> int:
    """Return how many characters clients put in front of a tool's name: ``mcp__<server>__``."""
    return len(f"mcp__{server_name}__")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEntry:
    """A tool as clients see it.

    Attributes:
        name: the name under which it is called.
        what: what it was made from, for error texts.
        tool: the tool for callers whom no auth provider vouches for.
        verified: the tool for verified callers, who may not choose an owner.
    """

    name: str
    what: str
    tool: AnyTool
    verified: AnyTool

    def of(self, principal: Principal) -> AnyTool:
        """Return the tool that this caller gets."""
        return self.verified if principal.verified else self.tool

    def refusal(self, principal: Principal) -> ScopeMissing | None:
        """Return why a verified caller may not use it; callers of a server without auth have no scopes to lack."""
        missing = missing_scopes(principal.scopes, self.tool.scopes) if principal.verified else ()
        if not missing:
            return None
        text = f"The tool {self.name!r} needs the scope {' '.join(sorted(missing))!r}."
        return ScopeMissing(text, scopes=self.tool.scopes)


@dataclass(slots=True)
class Catalogue:
    """Tools, prompts and resources by name.

    Attributes:
        room: characters that clients put in front of a tool's name.
        listings: give resources that come and go, beside the fixed ones.
    """

    room: int = 0
    tools: dict[str, ToolEntry] = field(default_factory=dict[str, ToolEntry])
    prompts: dict[str, Prompt] = field(default_factory=dict[str, Prompt])
    resources: dict[str, Resource] = field(default_factory=dict[str, Resource])
    templates: dict[str, Resource] = field(default_factory=dict[str, Resource])
    listings: list[Listing] = field(default_factory=list[Listing])

    @property
    def has_resources(self) -> bool:
        """Whether there is, or may come to be, something to read."""
        return bool(self.resources or self.templates or self.listings)

    @property
    def has_scopes(self) -> bool:
        """Whether a caller may see some tools and not others."""
        return any(entry.tool.scopes for entry in self.tools.values())

    @property
    def completes(self) -> bool:
        """Whether values can be offered for any argument or parameter."""
        readable = (*self.resources.values(), *self.templates.values())
        return any(prompt.complete for prompt in self.prompts.values()) or any(item.complete for item in readable)

    def add_tool(self, tool: AnyTool, *, what: str | None = None, verified: AnyTool | None = None) -> None:
        """Add a tool under its own name.

        Args:
            tool: the tool.
            what: what it was made from, for error texts.
            verified: another form of it for verified callers.

        Raises:
            NameInvalid: clients refuse the name, or it leaves no room for the prefix that they put before it.
            NameTaken: the name is in use.
        """
        what = what or f"tool {tool.id!r}"
        name = check_name(tool.id, room=self.room)
        if name in self.tools:
            raise NameTaken(
                f"The {what} and the {self.tools[name].what} would both be called {name!r} over MCP. "
                "Rename one of them."
            )
        self.tools[name] = ToolEntry(name=name, what=what, tool=tool, verified=verified or tool)

    def add_prompt(self, prompt: Prompt) -> None:
        """Add a prompt under its own name.

        Raises:
            NameTaken: the name is in use.
        """
        if prompt.name in self.prompts:
            raise NameTaken(f"Two prompts are called {prompt.name!r}. Rename one of them.")
        self.prompts[prompt.name] = prompt

    def add_resource(self, resource: Resource) -> None:
        """Add a resource, or a template of resources, under its URI.

        Raises:
            NameTaken: the URI is in use.
        """
        where = self.resources if resource.template.fixed else self.templates
        if resource.uri in where:
            raise NameTaken(
                f"The resources {where[resource.uri].name!r} and {resource.name!r} have the same URI {resource.uri!r}. "
                "Change one of them."
            )
        where[resource.uri] = resource

    def visible_tools(self, principal: Principal) -> Iterable[AnyTool]:
        """Return the tools that a caller may use, in the order in which they were added."""
        return (entry.of(principal) for entry in self.tools.values() if entry.refusal(principal) is None)

    def find_resource(self, uri: str) -> tuple[Resource, Mapping[str, str]] | None:
        """Return the resource that a URI belongs to, with the parameters of its template."""
        fixed = self.resources.get(uri)
        if fixed is not None:
            return fixed, {}
        for resource in self.templates.values():
            parameters = resource.template.match(uri)
            if parameters is not None:
                return resource, parameters
        return None
