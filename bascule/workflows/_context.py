"""What a running step can see and say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol

from typing_extensions import TypeVar

from bascule.context import CancelToken, RequestContext
from bascule.errors import NotFound
from bascule.messages import JsonValue
from bascule.tools import SilentChannel, ToolChannel, json_value

__all__ = ["StepContext"]

In = TypeVar("In", default=Any)


class _Named(Protocol):
    @property
    def id(self) -> str: ...


@dataclass(slots=True, kw_only=True)
class StepContext(Generic[In]):
    """Handed to a step function's parameter of this type; ``StepContext[Order]`` declares the step's input.

    Attributes:
        input: the output of the entry before, or the run's input for the first one; as the declared type.
        init_data: the input of the workflow that the step belongs to, as JSON values.
        results: outputs of the steps that have succeeded so far, by step id.
        run_id: the run.
        workflow_id: the workflow that is run.
        step_id: this step; ``outer.inner`` for a step of a nested workflow.
        request_context: identity, owner and trace of the request.
        cancel: set when the run was told to stop.
        channel: carries what the step writes to whoever reads the run's stream.
    """

    input: In
    init_data: Any = None  # Any: JSON values whose shape only the app knows; so is what get_result returns
    results: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    run_id: str = ""
    workflow_id: str = ""
    step_id: str = ""
    request_context: RequestContext = field(default_factory=RequestContext)
    cancel: CancelToken = field(default_factory=CancelToken)
    channel: ToolChannel = field(default_factory=SilentChannel)

    def get_result(self, step: str | _Named) -> Any:
        """Return the output of a step of this workflow that has succeeded.

        Args:
            step: the step, or its id.

        Raises:
            NotFound: there is no such step, or it has no output yet.
        """
        step_id = step if isinstance(step, str) else step.id
        if step_id not in self.results:
            finished = ", ".join(repr(name) for name in self.results) or "none"
            raise NotFound(
                f"The step {self.step_id!r} asks for the result of {step_id!r}, which there is not. "
                f"Steps with a result so far: {finished}."
            )
        return self.results[step_id]

    async def write(self, data: object) -> None:
        """Send data to whoever reads the run's stream; it never waits for a reader."""
        await self.channel.write(json_value(data))
