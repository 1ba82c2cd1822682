"""One run of a workflow: started once, read by anyone."""

from collections.abc import Callable, Generator
from dataclasses import replace
from datetime import datetime

from bascule.context import CancelToken, RequestContext, current_context
from bascule.errors import InputError, RunError, RunIdInUse, WorkflowInputError
from bascule.messages import JsonValue, utc_now
from bascule.runs import LiveRun, RunLog
from bascule.workflows._execution import Execution, Plan
from bascule.workflows._result import RunResult, RunStatus, fold
from bascule.workflows._shape import plain

__all__ = ["WorkflowOutput", "WorkflowRun"]


class WorkflowOutput(LiveRun[RunResult]):
    """The live output of a workflow's run.

    ``async for chunk in output`` gives its events from the first on, for any number of readers, also after the end.
    ``await output`` gives the ``RunResult``; a failed run is a result too. The run starts when it is first read,
    awaited or entered; as a context manager it is stopped when the block is left before its end.
    """

    def __init__(self, execution: Execution, abort_signal: CancelToken | None) -> None:
        self._execution = execution

        async def drive(_: object) -> None:
            forget = _nothing if abort_signal is None else _follow(abort_signal, execution.cancel)
            try:
                await execution.drive()
            finally:
                forget()

        super().__init__(drive, run_id=execution.run_id, cancel_token=execution.cancel, log=execution.log)

    def __await__(self) -> Generator[object, None, RunResult]:
        return self.result().__await__()

    @property
    def status(self) -> RunStatus:
        """How the run stands now, without waiting."""
        return self.snapshot().status

    def snapshot(self) -> RunResult:
        """Return what the run has come to so far, without waiting."""
        result = fold(self.log.chunks, run_id=self.run_id)
        if self.log.closed and result.status == "running":
            return replace(result, status="canceled")  # closed before it had started
        return result

    def _end(self, error: BaseException | None) -> None:
        if error is None:
            self._execution.close()
        else:
            self._execution.close("failed", f"An internal error ended the run {self.run_id}; its log tells more.")


class WorkflowRun:
    """A run of a workflow; made by ``Workflow.create_run``.

    Attributes:
        run_id: the run.
        resource_id: the owner on whose behalf it runs.
    """

    def __init__(
        self, plan: Plan, *, run_id: str, resource_id: str | None = None, now: Callable[[], datetime] = utc_now
    ) -> None:
        self.run_id: str = run_id
        self.resource_id: str | None = resource_id
        self._plan = plan
        self._now = now
        self._cancel = CancelToken()
        self._output: WorkflowOutput | None = None

    @property
    def workflow_id(self) -> str:
        """The workflow."""
        return self._plan.workflow_id

    @property
    def ended(self) -> bool:
        """Whether the run is over."""
        return self._output is not None and self._output.log.closed

    async def start(
        self,
        input: object = None,
        *,
        request_context: RequestContext | None = None,
        abort_signal: CancelToken | None = None,
    ) -> RunResult:
        """Run to the end and return the result; a failed step makes a failed result, not an exception.

        Args:
            input: fits the workflow's input schema.
            request_context: identity, owner and trace; those of the current request when left out.
            abort_signal: stops the run when it is cancelled, as cancelling the awaiting task does.

        Raises:
            WorkflowInputError: the input does not fit; nothing has run.
            RunError: the run was started before.
        """
        return await self.stream(input, request_context=request_context, abort_signal=abort_signal)

    def stream(
        self,
        input: object = None,
        *,
        request_context: RequestContext | None = None,
        abort_signal: CancelToken | None = None,
    ) -> WorkflowOutput:
        """Return the run's live output; the run starts when that is first read, awaited or entered.

        Args:
            input: fits the workflow's input schema.
            request_context: identity, owner and trace; those of the current request when left out.
            abort_signal: stops the run when it is cancelled.

        Raises:
            WorkflowInputError: the input does not fit; nothing has run, and the run can be started again.
            RunError: the run was started before.
        """
        self._refuse_a_second_start()
        value = self._checked(input)
        execution = Execution(
            plan=self._plan,
            value=value,
            run_id=self.run_id,
            log=RunLog(),
            cancel=self._cancel,
            context=self._context(request_context or current_context() or RequestContext()),
            now=self._now,
        )
        self._output = WorkflowOutput(execution, abort_signal)
        return self._output

    def cancel(self, reason: str | None = None) -> None:
        """Stop the run: the steps at work are cancelled, no later one begins, and the result is ``canceled``."""
        self._cancel.cancel(reason)

    def _refuse_a_second_start(self) -> None:
        if self._output is None:
            return
        advice = "A run is started once; make another with create_run(), or read the output that stream() returned."
        if self.ended:
            raise RunError(f"The run {self.run_id!r} of the workflow {self.workflow_id!r} is over. {advice}")
        raise RunIdInUse(f"The run {self.run_id!r} of the workflow {self.workflow_id!r} was started before. {advice}")

    def _checked(self, input: object) -> JsonValue:
        what = f"The input of the workflow {self.workflow_id!r}"
        try:
            return plain(input, what) if self._plan.input is None else self._plan.input.dump(input, what)
        except InputError as error:
            raise WorkflowInputError(str(error)) from error

    def _context(self, context: RequestContext) -> RequestContext:
        """Return the context of the run's steps; a verified caller stays the owner whatever ``resource_id`` says."""
        resource_id = self.resource_id
        if resource_id is None or context.principal.verified:
            resource_id = context.resource_id
        return replace(context, run_id=self.run_id, resource_id=resource_id)


def _follow(signal: CancelToken, token: CancelToken) -> Callable[[], None]:
    """Cancel ``token`` when ``signal`` is cancelled; returns a function that ends this."""
    return signal.on_cancel(lambda: token.cancel(signal.reason))


def _nothing() -> None:
    return
