"""Asks a pydantic-ai model and says what went wrong. Needs pydantic-ai, so it is imported by the first call only."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from pydantic_ai import exceptions
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.models import Model, infer_model

from bascule.errors import ModelError
from bascule.models._errors import ErrorKind, kind_of_status
from bascule.models._protocol import ModelCall, ModelPart
from bascule.models._pydantic_ai_request import request_messages, request_parameters, request_settings
from bascule.models._pydantic_ai_stream import BridgeStream

__all__ = ["Bridge", "model_error"]

_KINDS: tuple[tuple[type[Exception], ErrorKind], ...] = (
    (exceptions.ModelTimeoutError, "timeout"),
    (exceptions.ModelRequestTimeout, "timeout"),
    (exceptions.ModelConnectionError, "connection"),
    (exceptions.ModelAuthenticationError, "auth"),
    (exceptions.ModelNotFoundError, "not_found"),
    (exceptions.ModelQuotaExceededError, "other"),
    (exceptions.ModelRateLimitError, "rate_limit"),
    (exceptions.ModelRequestRejectedError, "bad_request"),
    (exceptions.ModelUnavailableError, "server"),
    (exceptions.ModelServerError, "server"),
    (exceptions.UnexpectedModelBehavior, "protocol"),
    (TimeoutError, "timeout"),
)


class Bridge:
    """One model of pydantic-ai."""

    def __init__(self, given: Model | str) -> None:
        """Make the model.

        Raises:
            ModelError: there is no such model, or its key or its provider's package is missing.
        """
        try:
            self._model = infer_model(given)
        except (exceptions.UserError, ImportError) as error:
            raise ModelError(f"pydantic-ai cannot make the model {given!r}: {error}", kind="other") from error

    async def answer(self, call: ModelCall) -> AsyncGenerator[ModelPart, None]:
        """Answer a call, part by part.

        Raises:
            ModelError: the call failed.
        """
        try:
            async with aclosing(self._parts(call)) as parts:
                async for part in parts:
                    yield part
        except Exception as error:
            raise model_error(error, self._model) from error

    async def _parts(self, call: ModelCall) -> AsyncGenerator[ModelPart, None]:
        model, messages = self._model, request_messages(call.messages)
        settings, parameters = request_settings(call, model.system), request_parameters(call)
        stream = BridgeStream(model.system, include_raw=call.include_raw)
        started = False
        try:
            async with model_request_stream(
                model, messages, model_settings=settings, model_request_parameters=parameters
            ) as response:
                async for event in response:
                    started = True
                    for part in stream.event(event):
                        yield part
            for part in stream.end(response.get()):
                yield part
        except NotImplementedError:
            if started:
                raise
            answer = await model_request(model, messages, model_settings=settings, model_request_parameters=parameters)
            for part in stream.whole(answer):  # a model that cannot stream
                yield part


def model_error(error: Exception, model: Model) -> ModelError:
    """Return what an exception of pydantic-ai means."""
    status = error.status_code if isinstance(error, exceptions.ModelHTTPError) else None
    api = error if isinstance(error, exceptions.ModelAPIError) else None
    return ModelError(
        f"{model.system} ({model.model_name}) failed: {str(error) or type(error).__name__}",
        kind=_kind(error, status),
        status=status,
        retry_after=api.retry_after if api is not None else None,
        raw=api.body if api is not None else None,
    )


def _kind(error: Exception, status: int | None) -> ErrorKind:
    for family, kind in _KINDS:
        if isinstance(error, family):
            return kind
    return kind_of_status(status) if status is not None else "other"
