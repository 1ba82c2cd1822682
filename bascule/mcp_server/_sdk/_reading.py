"""prompts/*, resources/* and completion/complete."""

from collections.abc import Mapping

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CompleteRequestParams,
    GetPromptRequestParams,
    PaginatedRequestParams,
    PromptReference,
    ReadResourceRequestParams,
)

from bascule.context import use_context
from bascule.errors import InputError, NotFound
from bascule.mcp_server._catalogue import Catalogue
from bascule.mcp_server._clients import Clients
from bascule.mcp_server._failures import failure_of
from bascule.mcp_server._prompts import Complete, Prompt, completions
from bascule.mcp_server._resources import Resource
from bascule.mcp_server._results import Wire, present, prompt_messages, resource_contents, sendable
from bascule.mcp_server._sdk._channel import ClientChannel
from bascule.mcp_server._sdk._requests import Context, caller_of, request_context_of
from bascule.mcp_server._sdk._tools import LISTED
from bascule.tools import ToolContext

__all__ = ["ReadingRequests"]

MOST_COMPLETIONS = 100


class ReadingRequests:
    """Answers the requests about prompts and resources."""

    def __init__(self, catalogue: Catalogue, clients: Clients) -> None:
        self._catalogue = catalogue
        self._clients = clients

    def _context(self, context: Context) -> ToolContext:
        caller = caller_of(context)
        self._clients.saw(caller)
        channel = ClientChannel(context, level=self._clients.level_of(caller))
        return ToolContext(request_context=request_context_of(context, caller.principal), channel=channel)

    async def list_prompts(self, context: Context, params: PaginatedRequestParams) -> Wire:
        """Return the prompts."""
        return {"prompts": [_prompt_wire(prompt) for prompt in self._catalogue.prompts.values()], **LISTED}

    async def get_prompt(self, context: Context, params: GetPromptRequestParams) -> Wire:
        """Return a prompt's messages.

        Raises:
            MCPError: no such prompt, or arguments that do not fit.
        """
        prompt = self._catalogue.prompts.get(params.name)
        if prompt is None:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {params.name}", {"name": params.name})
        ours = self._context(context)
        try:
            with use_context(ours.request_context):
                value = await prompt.render(params.arguments or {}, ours)
        except Exception as error:
            raise _failed(error, f"prompt {prompt.name!r}") from error
        answer = {"description": prompt.description or None, "messages": prompt_messages(value)}
        return {**present(answer), "resultType": "complete"}

    async def list_resources(self, context: Context, params: PaginatedRequestParams) -> Wire:
        """Return the resources with a fixed URI, and what the app's listings add."""
        ours = self._context(context)
        found = [_resource_wire(resource, "uri") for resource in self._catalogue.resources.values()]
        for listing in self._catalogue.listings:
            found += [dict(entry) for entry in await listing(ours.request_context)]
        return {"resources": sendable(found), **LISTED}

    async def list_templates(self, context: Context, params: PaginatedRequestParams) -> Wire:
        """Return the templates of resources."""
        found = [_resource_wire(resource, "uriTemplate") for resource in self._catalogue.templates.values()]
        return {"resourceTemplates": found, **LISTED}

    async def read_resource(self, context: Context, params: ReadResourceRequestParams) -> Wire:
        """Return a resource's contents.

        Raises:
            MCPError: no such resource, or one of another owner.
        """
        uri = str(params.uri)
        found = self._catalogue.find_resource(uri)
        if found is None:
            raise _no_resource(uri)
        resource, parameters = found
        ours = self._context(context)
        try:
            with use_context(ours.request_context):
                value = await resource.read(parameters, ours)
        except InputError as error:  # not found, or parameters that no such resource can have
            raise _no_resource(uri) from error
        except Exception as error:
            raise _failed(error, f"resource {uri!r}") from error
        return {"contents": resource_contents(uri, value, resource.media_type), **LISTED}

    async def complete(self, context: Context, params: CompleteRequestParams) -> Wire:
        """Return values for an argument of a prompt or a parameter of a template.

        Raises:
            MCPError: no such prompt or template.
        """
        if isinstance(params.ref, PromptReference):
            owner = self._catalogue.prompts.get(params.ref.name)
            if owner is None:
                raise MCPError(INVALID_PARAMS, f"Unknown prompt: {params.ref.name}", {"name": params.ref.name})
            offers: Mapping[str, Complete] = owner.complete
        else:
            resource = self._catalogue.templates.get(params.ref.uri) or self._catalogue.resources.get(params.ref.uri)
            if resource is None:
                raise _no_resource(params.ref.uri)
            offers = resource.complete
        offer = offers.get(params.argument.name)
        ours = self._context(context)
        try:
            with use_context(ours.request_context):
                values = [] if offer is None else await completions(offer, params.argument.value)
        except Exception as error:
            raise _failed(error, f"completion of {params.argument.name!r}") from error
        shown = sendable(list(values[:MOST_COMPLETIONS]))
        found = {"values": shown, "total": len(values), "hasMore": len(values) > len(shown)}
        return {"completion": found, "resultType": "complete"}


def _no_resource(uri: str) -> MCPError:
    return MCPError(INVALID_PARAMS, f"Unknown resource: {uri}", {"uri": uri})


def _failed(error: Exception, what: str) -> MCPError:
    code = INVALID_PARAMS if isinstance(error, InputError) and not isinstance(error, NotFound) else INTERNAL_ERROR
    return MCPError(code, failure_of(error, what))


def _prompt_wire(prompt: Prompt) -> Wire:
    return present(
        {
            "name": prompt.name,
            "title": prompt.title,
            "description": prompt.description or None,
            "arguments": prompt.arguments,
            "_meta": prompt.meta,
        }
    )


def _resource_wire(resource: Resource, key: str) -> Wire:
    return present(
        {
            key: resource.uri,
            "name": resource.name,
            "title": resource.title,
            "description": resource.description or None,
            "mimeType": resource.media_type,
            "_meta": resource.meta,
        }
    )
