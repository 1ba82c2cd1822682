"""The agent: instructions, a model, tools, and the run loop behind ``stream`` and ``generate``."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar, Unpack, cast
from weakref import WeakValueDictionary

import anyio

from bascule.agents._conversation import Conversation, ConversationMemory, Thread, thread_of
from bascule.agents._machine import StepMachine
from bascule.agents._options import RunOptions, check_options
from bascule.agents._run import AgentRun
from bascule.context import CancelToken, RequestContext, current_context
from bascule.errors import InputError, NameTaken, RunIdInUse
from bascule.messages import Message, MessagesInput, TextPart, normalize
from bascule.models import LanguageModel, ModelSettings, ModelSpec, ModelTool, default_model, resolve_model
from bascule.runs import AgentOutput
from bascule.stream import FullOutput
from bascule.tools import Runnable, Tool, as_tool, check_name, runnable_tool, safe_name

__all__ = ["Agent"]

ToolLike = Tool[..., Any] | Callable[..., Any]


class WorkflowLike(Protocol):
    """A workflow, as far as an agent needs it."""

    @property
    def id(self) -> str:
        """Its id in the app."""
        ...

    def as_tool(self, name: str | None = None) -> Tool[..., object]:
        """Return the workflow as a tool."""
        ...


class _Named(Protocol):
    @property
    def id(self) -> str: ...


_Item = TypeVar("_Item", bound=_Named)

_NO_SETTINGS = ModelSettings()

_claimed: WeakValueDictionary[str, AgentOutput] = WeakValueDictionary()
"""The runs of this process whose id was chosen by their caller."""


class Agent:
    """Answers messages with a model that may call tools.

    Args:
        id: names the agent in the app, in URLs and in MCP (``ask_<id>``).
        name: a name for people; the id when left out.
        description: what it is good for; read by other agents and by MCP clients.
        instructions: the system text.
        model: ``"provider/name"`` or a ``LanguageModel``; when left out the app's environment decides, and without any
            key a built-in model that only follows rules.
        tools: tools, or functions that are made into tools.
        agents: agents that it may delegate to, as the tools ``agent-<key>``.
        workflows: workflows that it may run, as the tools ``workflow-<key>``.
        memory: where conversations are kept.
        default_options: run options for every run.
        metadata: the app's own entries.

    Raises:
        NameInvalid: the id cannot be used in a tool name.
        NameTaken: two tools have one name.
    """

    __slots__ = (
        "_offered",
        "_resolved",
        "_tools",
        "default_options",
        "description",
        "id",
        "instructions",
        "memory",
        "metadata",
        "model",
        "name",
    )

    def __init__(
        self,
        id: str,
        /,
        *,
        name: str | None = None,
        description: str = "",
        instructions: str = "",
        model: ModelSpec | None = None,
        tools: Sequence[ToolLike] = (),
        agents: Sequence[Runnable] | Mapping[str, Runnable] | None = None,
        workflows: Sequence[WorkflowLike] | Mapping[str, WorkflowLike] | None = None,
        memory: ConversationMemory | None = None,
        default_options: RunOptions | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> None:
        self.id: str = check_name(id, what="agent")
        self.name: str = name or id
        self.description: str = description
        self.instructions: str = instructions
        self.model: ModelSpec | None = model
        self.memory: ConversationMemory | None = memory
        self.default_options: RunOptions | None = default_options
        self.metadata: Mapping[str, object] | None = metadata
        self._resolved: LanguageModel | None = None
        self._offered: tuple[ModelTool, ...] | None = None
        self._tools = _tools_by_name(id, tools, agents, workflows)

    def __repr__(self) -> str:
        return f"<Agent {self.id}>"

    @property
    def tools(self) -> Mapping[str, Tool[..., Any]]:
        """Its tools by the name that the model uses, subagents and workflows included."""
        return self._tools

    def resolved_model(self) -> LanguageModel:
        """Return the model that answers: its own, else the environment's, else the built-in rules.

        Raises:
            ConfigurationError: the model cannot be resolved.
        """
        if self._resolved is None:
            self._resolved = default_model() if self.model is None else resolve_model(self.model)
        return self._resolved

    def stream(self, messages: MessagesInput, **options: Unpack[RunOptions]) -> AgentOutput:
        """Start a run and return its live output; it begins when the output is read, awaited or entered.

        Args:
            messages: a text, a message, or a list of them.
            **options: see ``RunOptions``.

        Raises:
            InputError: a message or an option cannot be used.
            RunIdInUse: a run with the given id is going on.
        """
        if self.default_options:
            options = cast("RunOptions", {**self.default_options, **options})
        check_options(options)
        context = options.get("request_context") or current_context() or RequestContext()
        run_id = options.get("run_id")
        output = AgentOutput(
            self._driver(normalize(messages), context, options),
            run_id=run_id,
            trace_id=context.trace_id,
            cancel_token=options.get("abort_signal") or CancelToken(),
        )
        if run_id is not None:
            other = _claimed.get(run_id)
            if other is not None and not other.log.closed:
                raise RunIdInUse(f"The run {run_id!r} is going on. Wait for its end, or leave run_id out.")
            _claimed[run_id] = output
        return output

    async def generate(self, messages: MessagesInput, **options: Unpack[RunOptions]) -> FullOutput:
        """Run to the end and return the whole result: the fold of ``stream``.

        Args:
            messages: a text, a message, or a list of them.
            **options: see ``RunOptions``.

        Raises:
            AgentRunError: the run failed; ``.output`` has what it came to.
            InputError: a message or an option cannot be used.
        """
        return await self.stream(messages, **options)

    def generate_sync(self, messages: MessagesInput, **options: Unpack[RunOptions]) -> FullOutput:
        """Do what ``generate`` does, for a script without an event loop.

        Raises:
            RuntimeError: an event loop is running in this thread; use ``await generate(...)`` there.
        """
        try:
            anyio.get_current_task()
        except Exception:  # noqa: BLE001  # each backend has its own error for: no event loop here
            return anyio.run(partial(self.generate, messages, **options))
        raise RuntimeError("generate_sync was called inside an event loop; use 'await agent.generate(...)' there.")

    def as_tool(self, name: str | None = None, description: str | None = None) -> Tool[..., object]:
        """Return a tool ``{prompt}`` that runs the agent and answers with its text."""
        return runnable_tool(self, name=name, description=description)

    async def aclose(self) -> None:
        """Close the connections of the model that the agent resolved itself."""
        model, self._resolved = self._resolved, None
        close = getattr(model, "aclose", None)
        if close is not None and isinstance(self.model, str | None):
            await close()

    # --- one run ---

    def _driver(
        self, given: tuple[Message, ...], context: RequestContext, options: RunOptions
    ) -> Callable[[AgentOutput], Any]:
        thread = thread_of(options.get("memory"), context, agent=self.id)
        if thread is not None and self.memory is None:
            raise InputError(
                f"The agent {self.id!r} keeps no memory, so it has no thread {thread.id!r}. "
                "Give it one: Agent(..., memory=Memory())."
            )

        settings = _settings(options.get("model_settings"))

        async def drive(output: AgentOutput) -> None:
            await self._run(output, given, context, thread, settings, options).drive(output)

        return drive

    def _run(
        self,
        output: AgentOutput,
        given: tuple[Message, ...],
        context: RequestContext,
        thread: Thread | None,
        settings: ModelSettings,
        options: RunOptions,
    ) -> AgentRun:
        chosen = options.get("model")
        model = self.resolved_model() if chosen is None else resolve_model(chosen)
        if self._offered is None:
            self._offered = tuple(
                ModelTool(name=name, description=tool.description, input_schema=tool.input_schema)
                for name, tool in self._tools.items()
            )
        return AgentRun(
            machine=StepMachine(
                run_id=output.run_id,
                message_id=output.message_id,
                agent_id=self.id,
                max_steps=options.get("max_steps", 5),
                provider=model.provider,
                model_id=model.model_id,
            ),
            model=model,
            tools=self._tools,
            offered=self._offered,
            conversation=Conversation(
                before=self._before(options),
                given=given,
                turn=Message(role="assistant", parts=(), id=output.message_id),
                memory=self.memory,
                thread=thread,
            ),
            context=context.for_run(output.run_id, thread.id if thread is not None else context.thread_id),
            settings=settings,
            tool_choice=options.get("tool_choice", "auto"),
            provider_options=options.get("provider_options"),
            include_raw=options.get("include_raw_chunks", False),
            concurrency=options.get("tool_call_concurrency", 10),
            deps=options.get("deps"),
        )

    def _before(self, options: RunOptions) -> tuple[Message, ...]:
        system = options.get("system", ())
        texts = (options.get("instructions", self.instructions), *((system,) if isinstance(system, str) else system))
        told = tuple(Message(role="system", parts=(TextPart(text),)) for text in texts if text)
        context = options.get("context")
        return told if context is None else (*told, *normalize(context))


def _settings(given: ModelSettings | Mapping[str, object] | None) -> ModelSettings:
    if given is None:
        return _NO_SETTINGS
    if isinstance(given, ModelSettings):
        return given
    unknown = given.keys() - ModelSettings.__dataclass_fields__.keys()
    if unknown:
        known = ", ".join(ModelSettings.__dataclass_fields__)
        raise InputError(f"model_settings has no entry {', '.join(sorted(unknown))}; the entries are {known}.")
    return ModelSettings(**cast("dict[str, Any]", dict(given)))  # Any: the adapters read what they need


def _tools_by_name(
    agent: str,
    tools: Sequence[ToolLike],
    agents: Sequence[Runnable] | Mapping[str, Runnable] | None,
    workflows: Sequence[WorkflowLike] | Mapping[str, WorkflowLike] | None,
) -> dict[str, Tool[..., Any]]:
    found: dict[str, Tool[..., Any]] = {}
    offered: list[Tool[..., Any]] = [as_tool(item) for item in tools]
    if agents:
        offered += [runnable_tool(item, name=safe_name(f"agent-{key}")) for key, item in _keyed(agents)]
    if workflows:
        offered += [item.as_tool(safe_name(f"workflow-{key}")) for key, item in _keyed(workflows)]
    for item in offered:
        if item.id in found:
            raise NameTaken(f"The agent {agent!r} has two tools named {item.id!r}; rename one of them.")
        found[item.id] = item
    return found


def _keyed(items: Sequence[_Item] | Mapping[str, _Item]) -> Iterable[tuple[str, _Item]]:
    return items.items() if isinstance(items, Mapping) else ((item.id, item) for item in items)
