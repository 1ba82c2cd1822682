"""Drives an agent's run: the I/O around the step machine."""

import logging
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import anyio
import anyio.lowlevel
from anyio import get_cancelled_exc_class

from bascule.agents._conversation import Conversation
from bascule.agents._machine import Call, Failure, StepMachine
from bascule.agents._tools import AgentChannel, run_calls
from bascule.context import CancelToken, RequestContext, use_context
from bascule.errors import BasculeError
from bascule.messages import JsonObject
from bascule.models import LanguageModel, ModelCall, ModelSettings, ModelTool, ToolChoice
from bascule.runs import AgentOutput, RunLog, shown_text
from bascule.stream import Chunk
from bascule.tools import Tool, ToolContext

__all__ = ["AgentRun"]

logger = logging.getLogger("bascule.agents")

SAVE_TIMEOUT = 5.0
"""Seconds that storing a stopped run's messages may take."""


@dataclass(slots=True, kw_only=True)
class AgentRun:
    """Everything one run needs; ``drive`` is the run."""

    machine: StepMachine
    model: LanguageModel
    tools: Mapping[str, Tool[..., object]]
    offered: Sequence[ModelTool]
    conversation: Conversation
    context: RequestContext
    settings: ModelSettings
    tool_choice: ToolChoice
    provider_options: JsonObject | None
    include_raw: bool
    concurrency: int
    deps: object

    async def drive(self, output: AgentOutput) -> None:
        """Run to the end and write every event to ``output.log``.

        Raises:
            Exception: nothing; what goes wrong is an event. Only the cancellation of the task goes through.
        """
        log, token = output.log, output.cancel_token
        _tell(log, self.machine.begin())
        try:
            with use_context(self.context), anyio.CancelScope() as scope:
                forget = token.on_cancel(scope.cancel)
                try:
                    if not token.cancelled:
                        await self._steps(log, token)
                        return
                finally:
                    forget()
            await self._aborted(output, token.reason)
        except get_cancelled_exc_class():
            token.cancel("the task was cancelled")
            await self._aborted(output, token.reason)
            raise
        except Exception as error:  # the boundary of a run: what goes wrong in it is its result
            if not isinstance(error, BasculeError):
                logger.error("run %s failed", output.run_id, exc_info=error)
            _tell(log, self.machine.model_failed(error, shown_text(error, output.run_id)))
            await self._keep_anyway()
        finally:
            output.extras.messages = self.conversation.added(self.machine.parts)
            output.extras.remembered = self.conversation.remembered

    async def _aborted(self, output: AgentOutput, reason: str | None) -> None:
        _tell(output.log, self.machine.abort(reason))
        await self._keep_anyway()

    async def _keep_anyway(self) -> None:
        """Store what there is after an unhappy end; a store that fails now changes nothing more."""
        with anyio.move_on_after(SAVE_TIMEOUT, shield=True):
            try:
                await self.conversation.keep(self.machine.parts)
            except BasculeError:
                return

    async def _steps(self, log: RunLog, token: CancelToken) -> None:
        machine = self.machine
        machine.given = self.conversation.given
        await self.conversation.recall()
        machine.remembered = self.conversation.remembered
        offered = self.offered
        choice = self.tool_choice
        while True:
            _tell(log, machine.begin_step(int(time.time() * 1000)))
            await self._call_model(log, token, offered, choice)
            _tell(log, machine.model_ended())
            if machine.calls:
                await self._run_tools(log, token)
                if token.cancelled:
                    await anyio.lowlevel.checkpoint()
            _tell(
                log,
                machine.end_step(timestamp=datetime.now(UTC).isoformat(timespec="milliseconds")),
            )
            await self.conversation.keep(machine.parts)
            if not machine.continues:
                break
            choice = "auto" if choice != "none" else "none"
        _tell(log, machine.finish())

    async def _call_model(
        self, log: RunLog, token: CancelToken, offered: Sequence[ModelTool], choice: ToolChoice
    ) -> None:
        call = ModelCall(
            messages=self.conversation.prompt(self.machine.parts),
            tools=offered,
            tool_choice=choice,
            settings=self.settings,
            provider_options=self.provider_options,
            include_raw=self.include_raw,
            cancel=token,
            request_context=self.context,
        )
        take, append = self.machine.part, log.append
        parts = self.model.stream(call)
        try:
            async for part in parts:
                for chunk in take(part):
                    append(chunk)
        finally:
            if isinstance(parts, AsyncGenerator):
                await parts.aclose()

    async def _run_tools(self, log: RunLog, token: CancelToken) -> None:
        machine = self.machine
        if machine.incomplete:
            failure = Failure("cancelled", "The model's answer broke off before the call was complete.")
            for call in machine.calls:
                _tell(log, machine.tool_outcome(call, failure))
            return
        messages = self.conversation.prompt(machine.parts)

        def context_of(call: Call) -> ToolContext:
            return ToolContext(
                run_id=machine.run_id,
                tool_call_id=call.id,
                request_context=self.context,
                cancel=token,
                messages=messages,
                deps=self.deps,
                channel=AgentChannel(log, machine.run_id, call),
            )

        await run_calls(
            machine.calls,
            self.tools,
            context_of=context_of,
            done=lambda call, outcome: _tell(log, machine.tool_outcome(call, outcome)),
            limit=self.concurrency,
        )


def _tell(log: RunLog, chunks: Iterable[Chunk]) -> None:
    for chunk in chunks:
        log.append(chunk)
