"""The MCP server: what it offers, and the ways to serve it."""

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from urllib.parse import urlsplit
from weakref import WeakSet

from bascule.mcp_server._agents import agent_tools, ask_name
from bascule.mcp_server._answers import ASGIApp
from bascule.mcp_server._asgi import HEALTH, READY, McpAsgi, Ready
from bascule.mcp_server._catalogue import AnyTool, Catalogue, room_for
from bascule.mcp_server._clients import Clients, OnClient
from bascule.mcp_server._guard import LOOPBACK, Guard, Guarded
from bascule.mcp_server._memory import memory_tools, thread_listing, thread_resource, thread_uri
from bascule.mcp_server._progress import HEARTBEAT
from bascule.mcp_server._prompts import Prompt
from bascule.mcp_server._resources import Resource
from bascule.mcp_server._stdout import protocol_streams
from bascule.mcp_server._workflows import WorkflowLike, workflow_tool
from bascule.memory import Memory
from bascule.tools import Runnable, run_in_daemon_thread

if TYPE_CHECKING:
    from bascule.mcp_server._sdk._build import Built
    from bascule.mcp_server._sdk._pipe import ServePipe
    from bascule.mcp_server._sdk._updates import Updates

__all__ = ["McpServer", "Protector"]


class Protector(Protocol):
    """Puts a guard in front of an app that lets verified callers through, such as ``Auth``."""

    def protect(self, app: ASGIApp, *, base_url: str | None = None, path: str = "/mcp") -> ASGIApp:
        """Return the app behind the guard."""
        ...


@runtime_checkable
class _KnowsHost(Protocol):
    """A protector that may know under which host clients reach the app."""

    def public_host(self, base_url: str | None = None) -> str | None: ...


class McpServer:
    """An MCP server over stdio and HTTP, for clients of every protocol revision.

    Args:
        name: how it introduces itself, and the ``<server>`` in ``mcp__<server>__<tool>``.
        tools: offered under their names.
        prompts: offered under their names.
        resources: offered under their URIs.
        agents: each is offered as the tool ``ask_<id>``.
        workflows: each is offered as the tool ``run_<id>``.
        memory: its conversations can be listed, read and searched for, each caller's own.
        instructions: what clients tell the model about this server.
        version: its version; Bascule's when left out.
        title: a name for people.
        heartbeat: seconds of silence after which a caller that wants progress hears that its call goes on.

    Raises:
        NameInvalid: clients refuse a name, or it leaves no room for the prefix that they put before it.
        NameTaken: two things have the same name.
    """

    def __init__(
        self,
        name: str,
        *,
        tools: Iterable[AnyTool] = (),
        prompts: Iterable[Prompt] = (),
        resources: Iterable[Resource] = (),
        agents: Iterable[Runnable] = (),
        workflows: Iterable[WorkflowLike] = (),
        memory: Memory | None = None,
        instructions: str | None = None,
        version: str | None = None,
        title: str | None = None,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        self.name = name
        self.title = title
        self.instructions = instructions
        self.version = version
        self.heartbeat = heartbeat
        self.catalogue: Catalogue = Catalogue(room=room_for(name))
        self._clients = Clients()
        self._updates: WeakSet[Updates] = WeakSet()
        for tool in tools:
            self.catalogue.add_tool(tool)
        for agent in agents:
            self._add_agent(agent)
        for workflow in workflows:
            self._add_workflow(workflow)
        if memory is not None:
            self._add_memory(memory)
        for prompt in prompts:
            self.catalogue.add_prompt(prompt)
        for resource in resources:
            self.catalogue.add_resource(resource)

    def __repr__(self) -> str:
        return f"<McpServer {self.name}>"

    def _add_agent(self, agent: Runnable) -> None:
        anyone, verified = agent_tools(agent, answered=self._thread_changed)
        self.catalogue.add_tool(anyone, verified=verified, what=f"agent {agent.id!r} (tool {ask_name(agent.id)})")

    def _add_workflow(self, workflow: WorkflowLike) -> None:
        tool = workflow_tool(workflow)
        self.catalogue.add_tool(tool, what=f"workflow {workflow.id!r} (tool {tool.id})")

    def _add_memory(self, memory: Memory) -> None:
        for tool in memory_tools(memory):
            self.catalogue.add_tool(tool, what=f"memory tool {tool.id!r}")
        self.catalogue.add_resource(thread_resource(memory))
        self.catalogue.listings.append(thread_listing(memory))

    async def _thread_changed(self, thread_id: str, owner: str) -> None:
        await self.resource_updated(thread_uri(thread_id), owner=owner)

    def on_client(self, callback: OnClient) -> None:
        """Call ``callback`` once for every client, when it first lists tools or uses something."""
        self._clients.on_client(callback)

    def build(self) -> "Built":
        """Return a new server of the MCP SDK that offers what this one does: ``.server`` is the SDK's object."""
        from bascule.mcp_server._sdk._build import Identity, build  # noqa: PLC0415  # the door of a heavy package

        identity = Identity(
            name=self.name, version=self.version or _own_version(), title=self.title, instructions=self.instructions
        )
        built = build(self.catalogue, self._clients, identity, heartbeat=self.heartbeat)
        self._updates.add(built.updates)
        return built

    async def resource_updated(self, uri: str, *, owner: str | None = None) -> None:
        """Tell every client that watches a resource that it changed; does not wait until they have heard of it.

        Args:
            uri: the resource's URI.
            owner: tell only clients of this owner; everybody when left out.
        """
        for updates in tuple(self._updates):
            await updates.resource_updated(uri, owner)

    async def run_stdio(self, *, grace: float = 0.5) -> None:
        """Serve one client over stdin and stdout until it closes them.

        While it serves, everything else that writes to stdout ends up on stderr. Inside ``serving_process`` a signal
        or the end of the parent process is an end too.

        Args:
            grace: seconds that calls in flight may go on after the end has come.
        """
        serve_pipe, built = await run_in_daemon_thread(self._pipe_parts)
        with protocol_streams() as wire:
            await serve_pipe(built, wire, grace=grace)

    def _pipe_parts(self) -> "tuple[ServePipe, Built]":
        """Load what serves a pipe; away from the event loop, which the imports would block."""
        from bascule.mcp_server._sdk._pipe import serve_pipe  # noqa: PLC0415  # the door of a heavy package

        return serve_pipe, self.build()

    def asgi(
        self,
        *,
        path: str = "/mcp",
        auth: Protector | None = None,
        base_url: str | None = None,
        allowed_hosts: Iterable[str] | None = None,
        allowed_origins: Iterable[str] | None = None,
        health: bool = True,
        ready: Ready | None = None,
    ) -> ASGIApp:
        """Return an ASGI app that serves clients over HTTP.

        It may be mounted under any prefix. It needs no lifespan: without one it starts with the first request.

        Args:
            path: where MCP is served, with and without a slash at the end.
            auth: lets verified callers through only; everything that is stored then belongs to the caller's identity.
            base_url: the address under which clients reach the server, when a proxy stands in front of it.
            allowed_hosts: names that it answers to, such as ``api.example.org``, ``*.example.org`` or ``*``; when left
                out, the hosts of ``base_url`` and of the base URL that ``auth`` knows, beside loopback names; without
                those, loopback names on the loopback interface, and any name elsewhere.
            allowed_origins: origins of web pages that may call it, beside its own and those of this machine.
            health: whether to serve ``/healthz`` and ``/readyz``.
            ready: asked by ``/readyz`` whether the app can serve.

        Raises:
            SettingInvalid: a host or origin that cannot be one.
        """
        app: ASGIApp = McpAsgi(self.build, self.catalogue, path=path, health=health, ready=ready)
        if auth is not None:
            app = auth.protect(app, base_url=base_url, path=path)
        if allowed_hosts is None:
            known = auth.public_host(base_url) if isinstance(auth, _KnowsHost) else None
            hosts = [host for host in (urlsplit(base_url or "").hostname, known) if host]
            allowed_hosts = [*(f"[{host}]" if ":" in host else host for host in hosts), *LOOPBACK] if hosts else None
        guard = Guard.of(allowed_hosts, allowed_origins)
        return Guarded(app, guard, open_paths=(HEALTH, READY) if health else ())


def _own_version() -> str:
    try:
        return version("bascule")
    except PackageNotFoundError:
        return "0"
