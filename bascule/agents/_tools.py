"""Runs the tool calls of one step."""

import logging
from collections.abc import Callable, Mapping, Sequence

import anyio
from anyio import get_cancelled_exc_class

from bascule.agents._machine import Call, Failure, Outcome, Success
from bascule.errors import ScopeMissing, ToolError, ToolInputInvalid
from bascule.messages import JsonObject, JsonValue
from bascule.runs import RunLog
from bascule.stream import Chunk, ToolOutputChunk
from bascule.tools import Answer, LogLevel, SilentChannel, Tool, ToolContext, failure_text, json_value

__all__ = ["AgentChannel", "run_calls"]

logger = logging.getLogger("bascule.agents")

ContextOf = Callable[[Call], ToolContext]


class AgentChannel:
    """Writes what a tool says while it runs into the run's stream; questions go to whoever started the run."""

    __slots__ = ("_call", "_log", "_run_id")

    def __init__(self, log: RunLog, run_id: str, call: Call) -> None:
        self._log = log
        self._run_id = run_id
        self._call = call

    async def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Write the report as data of the tool."""
        report: dict[str, JsonValue] = {"type": "progress", "progress": done}
        if total is not None:
            report["total"] = total
        if message is not None:
            report["message"] = message
        await self.write(report)

    async def log(self, level: LogLevel, data: JsonValue, logger: str | None) -> None:
        """Write the entry as data of the tool."""
        await self.write({"type": "log", "level": level, "data": data, "logger": logger})

    async def emit(self, chunk: Chunk) -> None:
        """Write another run's event, wrapped."""
        self._log.append(ToolOutputChunk(self._run_id, self._call.id, self._call.name, chunk.to_wire(), chunk))

    async def write(self, data: JsonValue) -> None:
        """Write the tool's own data."""
        self._log.append(ToolOutputChunk(self._run_id, self._call.id, self._call.name, data))

    async def ask(self, message: str, schema: JsonObject) -> Answer:
        """Refuse: an agent's tools cannot ask."""
        return await SilentChannel().ask(message, schema)


async def run_calls(
    calls: Sequence[Call],
    tools: Mapping[str, Tool[..., object]],
    *,
    context_of: ContextOf,
    done: Callable[[Call, Outcome], None],
    limit: int,
) -> None:
    """Run all calls, several at once, and report each as soon as it is done.

    Args:
        calls: in the order of the model.
        tools: by the name that the model uses.
        context_of: makes the context of a call.
        done: takes each outcome, in the order in which they end.
        limit: how many may run at once.
    """

    async def one(call: Call) -> None:
        done(call, await _outcome(call, tools, context_of))

    if len(calls) == 1:
        await one(calls[0])
        return
    limiter = anyio.CapacityLimiter(limit)

    async def limited(call: Call) -> None:
        async with limiter:
            await one(call)

    async with anyio.create_task_group() as group:
        for call in calls:
            group.start_soon(one if len(calls) <= limit else limited, call)


async def _outcome(call: Call, tools: Mapping[str, Tool[..., object]], context_of: ContextOf) -> Outcome:
    if call.problem is not None:
        return Failure(*call.problem)
    tool = tools.get(call.name)
    if tool is None:
        known = ", ".join(sorted(tools)) or "none"
        return Failure("not_found", f"There is no tool {call.name!r}. The tools are: {known}.")
    context = context_of(call)
    assert isinstance(call.args, Mapping)
    try:
        value = await tool.execute(call.args, context)
        return _success(tool, value)
    except ToolInputInvalid as error:
        return Failure("invalid_input", str(error))
    except ScopeMissing as error:
        return Failure("denied", str(error))
    except ToolError as error:
        return _raised(context, str(error))
    except get_cancelled_exc_class():
        raise
    except Exception as error:  # the boundary of a tool: what it raises is for the model to read
        logger.info("the tool %s raised in run %s", call.name, context.run_id, exc_info=error)
        return _raised(context, failure_text(error))


def _raised(context: ToolContext, message: str) -> Outcome:
    """Tell a tool that failed because it was told to stop from one that failed by itself."""
    return Failure("cancelled", "The run was stopped.") if context.cancel.cancelled else Failure("raised", message)


def _success(tool: Tool[..., object], value: object) -> Success:
    if tool.to_model_output is None:
        return Success(value, json_value(value))
    return Success(value, json_value(value), json_value(tool.to_model_output(value)))
