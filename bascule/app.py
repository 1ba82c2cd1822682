"""The app: what is served, and to whom.

An app of tools alone starts without agents, workflows, coding agents and auth: whoever hands one over has imported it,
and what is made of a name here is imported then.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeAlias, TypeVar, cast

import anyio

from bascule.errors import ConfigurationError, NameTaken
from bascule.mcp_server import HttpParser, McpServer, Prompt, Resource, serve_http, serving_process
from bascule.memory import Memory
from bascule.settings import Settings, data_folder, load_settings
from bascule.storage import Storage
from bascule.tools import Runnable, Tool, as_tool, safe_name

if TYPE_CHECKING:
    from bascule.acp import AcpAgent
    from bascule.agents import Agent
    from bascule.auth import Auth, AuthProvider
    from bascule.workflows import Workflow

__all__ = ["Bascule"]

ASGIApp: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI 3 application."""


CLOSE_TIMEOUT = 15.0
"""Seconds that closing an app may take."""


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


_Item = TypeVar("_Item", bound=_HasId)


class Bascule:
    """Agents, tools, workflows and coding agents under one roof, served over MCP on stdio and HTTP.

    Lists take the ids from the objects, mappings give the keys that are used instead.

    Args:
        name: shown to clients; also names the default database.
        agents: agents, each the MCP tool ``ask_<id>``.
        tools: tools, or functions that are made into tools.
        workflows: workflows, each the MCP tool ``run_<id>``.
        acp_agents: external coding agents, or the names of presets; each the MCP tool ``ask_<id>``.
        memory: where conversations are kept; shared by all agents that have no memory of their own.
        storage: a URL such as ``sqlite:///bascule.db`` for the memory, when ``memory`` is left out. Without either,
            a served app keeps a database in the user's data folder and a library call keeps things in the process.
        auth: an ``Auth``, or a provider that one is made of; ``"none"`` says that anyone may call, from other machines
            too.
        prompts: MCP prompts.
        resources: MCP resources.
        instructions: tells MCP clients how to use the server.
        version: the app's version, shown to clients.
        settings: what can also be set from outside.

    Raises:
        NameTaken: two things would be served under one name.
        NameInvalid: a name that clients refuse.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        agents: "Sequence[Agent] | Mapping[str, Agent]" = (),
        tools: Sequence[Tool[..., Any] | Callable[..., Any]] | Mapping[str, Tool[..., Any]] = (),
        workflows: "Sequence[Workflow] | Mapping[str, Workflow]" = (),
        acp_agents: "Sequence[AcpAgent | str]" = (),
        memory: Memory | None = None,
        storage: str | Storage | None = None,
        auth: "Auth | AuthProvider | Literal['none'] | None" = None,
        prompts: Sequence[Prompt] = (),
        resources: Sequence[Resource] = (),
        instructions: str | None = None,
        version: str | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.name: str = name or "bascule"
        self.named: bool = name is not None
        self.own_settings: Settings | None = settings
        self.settings: Settings = settings or load_settings()
        self.instructions = instructions
        self.version = version
        self.agents: dict[str, Agent] = _registry("agent", agents)
        self.tools: dict[str, Tool[..., Any]] = _registry(
            "tool", [as_tool(item) for item in tools] if not isinstance(tools, Mapping) else tools
        )
        self.workflows: dict[str, Workflow] = _registry("workflow", workflows)
        self.acp_agents: dict[str, AcpAgent] = _registry("ACP agent", _acp_agents(acp_agents) if acp_agents else ())
        self.prompts: tuple[Prompt, ...] = tuple(prompts)
        self.resources: tuple[Resource, ...] = tuple(resources)
        self.open_to_anyone: bool = auth == "none"
        self.auth: Auth | None = None if auth is None or auth == "none" else _auth(auth)
        self.source: Path | None = None
        """The file that the app was loaded from."""
        self._storage = storage
        self._memory = memory
        self._server: McpServer | None = None

    def __repr__(self) -> str:
        return f"<Bascule {self.name}>"

    # --- parts ---

    @property
    def memory(self) -> Memory:
        """The conversations of all agents that have no memory of their own."""
        if self._memory is None:
            self._memory = Memory(storage=self._storage or self.settings.storage)
        return self._memory

    def keep_in_data_folder(self) -> None:
        """Keep conversations in the user's data folder, unless the app or a setting says where.

        The file is named after the app and, for one that was loaded from a file, after that file's place: two apps of
        one name do not share conversations.
        """
        if self._memory is None and not (self._storage or self.settings.storage):
            place = "" if self.source is None else f"-{sha256(str(self.source).encode()).hexdigest()[:8]}"
            self._storage = f"sqlite:///{data_folder() / f'{safe_name(self.name)}{place}.db'}"

    def add_agent(self, agent: "Agent") -> None:
        """Serve one more agent; not any more when the app is being served.

        Raises:
            NameTaken: the app has an agent with this id.
            ConfigurationError: the app is being served already.
        """
        self._add(self.agents, agent, "an agent")

    def add_acp_agent(self, agent: "AcpAgent") -> None:
        """Serve one more coding agent; not any more when the app is being served.

        Raises:
            NameTaken: the app has a coding agent with this id.
            ConfigurationError: the app is being served already.
        """
        self._add(self.acp_agents, agent, "a coding agent")

    def _add(self, registry: dict[str, _Item], item: _Item, what: str) -> None:
        if item.id in registry:
            raise NameTaken(f"The app has {what} {item.id!r} already. Leave one of them out, or rename it.")
        if self._server is not None:
            raise ConfigurationError(
                f"The app is being served, so {what} {item.id!r} comes too late. "
                "Add it before asgi() or run() is called."
            )
        registry[item.id] = item

    def runnables(self) -> Mapping[str, Runnable]:
        """Return agents and coding agents by id."""
        return {**self.agents, **self.acp_agents}

    def server(self) -> McpServer:
        """Return the MCP server of this app; always the same one.

        Raises:
            NameTaken: two things would be served under one name.
        """
        if self._server is None:
            for agent in self.agents.values():
                if agent.memory is None:
                    agent.memory = self.memory
            self._server = McpServer(
                self.name,
                tools=list(self.tools.values()),
                agents=list(self.runnables().values()),
                workflows=list(self.workflows.values()),
                memory=self.memory if self.agents else None,
                prompts=self.prompts,
                resources=self.resources,
                instructions=self.instructions,
                version=self.version,
            )
        return self._server

    # --- serving ---

    def check(self) -> None:
        """Find what would go wrong later: names that clash, models that cannot be resolved. Call it before serving.

        Raises:
            ConfigurationError: says what is wrong, with which agent or tool.
        """
        self.server()
        for agent in self.agents.values():
            agent.resolved_model()

    def asgi(
        self,
        *,
        path: str = "/mcp",
        allowed_hosts: Sequence[str] | None = None,
        allowed_origins: Sequence[str] | None = None,
    ) -> ASGIApp:
        """Return one ASGI app that serves everything; it may be mounted anywhere, and starts itself when it has to.

        Args:
            path: where MCP is served, with and without a slash at its end.
            allowed_hosts: names that it answers to; see ``McpServer.asgi``.
            allowed_origins: origins of web pages that may call it.

        Raises:
            NameTaken: two things would be served under one name.
        """
        base_url = self.settings.base_url
        return self.server().asgi(
            path=path,
            auth=self.auth,
            base_url=base_url,
            allowed_hosts=allowed_hosts,
            allowed_origins=allowed_origins,
            ready=self._ready,
        )

    async def run_stdio(self) -> None:
        """Serve MCP over stdin and stdout until stdin ends; there is no auth, the caller is the local person."""
        async with self:
            await self.server().run_stdio()

    async def run_http(self, *, on_listening: Callable[[str, int], None] | None = None) -> None:
        """Serve over HTTP where the settings say, until SIGTERM or SIGINT.

        Args:
            on_listening: called with host and port as soon as connections are accepted.

        Raises:
            PortInUse: another process listens there.
            ConfigurationError: the auth provider does not allow this address.
        """
        self._check_host()
        async with self:
            await serve_http(
                self.asgi(),
                host=self.settings.host,
                port=self.settings.port,
                grace=self.settings.grace,
                http=cast("HttpParser", self.settings.http),  # checked where settings are read
                root_path=self.settings.root_path,
                on_listening=on_listening,
            )

    def _check_host(self) -> None:
        from bascule.auth import is_loopback  # noqa: PLC0415  # see the top of the module

        host = self.settings.host
        if self.auth is not None:
            self.auth.check_host(host)
        elif not self.open_to_anyone and not is_loopback(host):
            raise ConfigurationError(
                f"The host {host!r} can be reached from other machines, and nothing checks who calls. Turn on auth "
                "(--jwt-jwks, or Bascule(auth=...)), or say that anyone may call: --auth none, or Bascule(auth='none')."
            )

    def run(self, transport: Literal["stdio", "http"] = "stdio") -> None:
        """Serve until the end, from a script.

        Args:
            transport: ``stdio`` for a client that starts the script, ``http`` for one that connects.

        Raises:
            ConfigurationError: the app cannot be served.
        """
        self.check()
        with serving_process():
            anyio.run(self.run_stdio if transport == "stdio" else self.run_http)

    async def _ready(self) -> bool:
        """Whether the store answers."""
        if self._remembers:
            await self.memory.get_thread("readiness", resource_id="readiness")
        return True

    @property
    def _remembers(self) -> bool:
        """Whether anything that is served keeps conversations; without that no store is opened."""
        return bool(self.agents) or self._memory is not None

    async def __aenter__(self) -> Self:
        if self._remembers:
            await self.memory.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the store, the models' connections and the coding agents' processes; each, whatever the others do."""
        with anyio.move_on_after(CLOSE_TIMEOUT, shield=True):
            async with AsyncExitStack() as closing:
                if self._memory is not None:
                    closing.push_async_callback(self._memory.aclose)
                for agent in self.agents.values():
                    closing.push_async_callback(agent.aclose)
                for coding_agent in self.acp_agents.values():
                    closing.push_async_callback(coding_agent.aclose)


def _acp_agents(items: "Sequence[AcpAgent | str]") -> "Sequence[AcpAgent]":
    from bascule.acp import AcpAgent  # noqa: PLC0415  # see the top of the module

    return [AcpAgent(item) if isinstance(item, str) else item for item in items]


def _auth(given: "Auth | AuthProvider") -> "Auth":
    from bascule.auth import Auth  # noqa: PLC0415  # see the top of the module

    return given if isinstance(given, Auth) else Auth(given)


def _registry(kind: str, items: Sequence[_Item] | Mapping[str, _Item]) -> dict[str, _Item]:
    if isinstance(items, Mapping):
        return dict(items)
    found: dict[str, _Item] = {}
    for item in items:
        if item.id in found:
            raise NameTaken(f"Two {kind}s have the id {item.id!r}; rename one, or give a mapping with other keys.")
        found[item.id] = item
    return found
