"""Resources: data that clients read by URI."""

from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from bascule.errors import ConfigurationError
from bascule.mcp_server._prompts import Complete, check_completions, parameters_of
from bascule.mcp_server._templates import UriTemplate
from bascule.messages import JsonObject
from bascule.tools import Tool, ToolContext, safe_name, tool

__all__ = ["Resource", "resource"]


class Resource:
    """Something to read under a URI, or under every URI of a template.

    The function returns text, bytes, a content object (or several), or a value that is given as JSON.

    Args:
        uri: a URI, or a template such as ``notes://{id}`` whose names are the function's parameters.
        function: returns the contents; takes a ``ToolContext`` when it asks for one; sync or async.
        name: a name; the function's when left out.
        title: a name for people.
        description: what it holds; the docstring's when left out.
        media_type: MIME type of the contents.
        complete: offers values for the template's parameters, by name.
        meta: entries for MCP's ``_meta``.

    Raises:
        ConfigurationError: the URI has no scheme, or its template does not fit the function's parameters.
        SchemaMissing: a parameter has no type.
    """

    def __init__(
        self,
        uri: str,
        function: Callable[..., object],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        media_type: str | None = None,
        complete: Mapping[str, Complete] | None = None,
        meta: JsonObject | None = None,
    ) -> None:
        if not urlsplit(uri).scheme:
            raise ConfigurationError(f"The resource URI {uri!r} has no scheme; use one such as 'notes://{uri}'.")
        self.uri = uri
        self.template: UriTemplate = UriTemplate.parse(uri)
        self.name: str = name or str(getattr(function, "__name__", type(function).__name__))
        self._tool: Tool[..., object] = tool(name=safe_name(self.name), description=description)(function)
        self.title = title
        self.description: str = self._tool.description
        self.media_type = media_type
        self.meta = meta
        self._check_parameters()
        self.complete: Mapping[str, Complete] = check_completions(complete, self._tool, f"resource {uri!r}")

    def __repr__(self) -> str:
        return f"<Resource {self.uri}>"

    def _check_parameters(self) -> None:
        wanted = {name: required for name, required, _ in parameters_of(self._tool)}
        given = set(self.template.names)
        missing = [name for name, required in wanted.items() if required and name not in self.template.required]
        unknown = sorted(given - set(wanted))
        if missing or unknown:
            raise ConfigurationError(
                f"The resource template {self.uri!r} names {sorted(given)}, but its function takes {sorted(wanted)}. "
                "The names must be the same; a query parameter needs a default."
            )

    async def read(self, parameters: Mapping[str, str], context: ToolContext | None = None) -> object:
        """Call the function.

        Args:
            parameters: the template's parameters, by name; converted to the types that the function declares.
            context: identity and owner of the caller.

        Raises:
            ToolInputInvalid: they do not fit.
            NotFound: raised by the function when there is nothing under these parameters.
        """
        return await self._tool.execute(dict(parameters), context)


def resource(
    uri: str,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    media_type: str | None = None,
    complete: Mapping[str, Complete] | None = None,
    meta: JsonObject | None = None,
) -> Callable[[Callable[..., object]], Resource]:
    """Make a resource from a function.

    Args:
        uri: a URI, or a template such as ``notes://{id}`` whose names are the function's parameters.
        name: a name; the function's when left out.
        title: a name for people.
        description: what it holds; the docstring's when left out.
        media_type: MIME type of the contents.
        complete: offers values for the template's parameters, by name.
        meta: entries for MCP's ``_meta``.

    Raises:
        ConfigurationError: the URI has no scheme, or its template does not fit the function's parameters.
    """

    def make(function: Callable[..., object]) -> Resource:
        return Resource(
            uri,
            function,
            name=name,
            title=title,
            description=description,
            media_type=media_type,
            complete=complete,
            meta=meta,
        )

    return make
