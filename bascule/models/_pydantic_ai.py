"""Any model of pydantic-ai behind our own seam.

pydantic-ai takes seconds to import, so nothing of it is loaded before the first call of a model that is given by name.
"""

import importlib.util
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeGuard

import anyio.to_thread

from bascule.errors import ConfigurationError
from bascule.models._protocol import ModelCall, ModelCapabilities, ModelPart

if TYPE_CHECKING:  # an optional dependency
    from pydantic_ai.models import Model

    from bascule.models._pydantic_ai_bridge import Bridge

__all__ = ["INSTALL", "PydanticAIModel", "installed", "is_pydantic_ai_model", "knows_provider"]

INSTALL = "pip install bascule[pydantic-ai]"
"""What brings pydantic-ai."""


class PydanticAIModel:
    """A model that pydantic-ai speaks to, with its own provider packages, retries and settings.

    Options reach its settings through ``provider_options``: those under the provider's name with that name in front
    (``{"google": {"thinkingConfig": ...}}`` is ``google_thinking_config``), those under ``pydantic_ai`` as they are.
    """

    def __init__(self, model: "Model | str", *, capabilities: ModelCapabilities | None = None) -> None:
        """Wrap a model; nothing is opened, and a name is looked up by the first call.

        Args:
            model: a pydantic-ai ``Model``, or a name of one, such as ``google:gemini-2.5-flash``.
            capabilities: what the model can do; by default what pydantic-ai says of an object, and tools and images
                for a name.

        Raises:
            ConfigurationError: pydantic-ai is not installed, or this is no model of it.
        """
        if isinstance(model, str):
            self._provider, separator, self._model_id = model.replace("/", ":", 1).partition(":")
            if not (separator and self._provider and self._model_id):
                raise ConfigurationError(f"The model {model!r} names no provider. Write provider:name.")
            _require()
            self._capabilities = capabilities or ModelCapabilities(images=True)
        elif is_pydantic_ai_model(model):
            self._provider, self._model_id = model.system, model.model_name
            self._capabilities = capabilities or _capabilities_of(model)
        else:
            raise ConfigurationError(
                f"{type(model).__name__} is no model of pydantic-ai. Pass an object of a class below "
                "pydantic_ai.models.Model, or a name such as 'google:gemini-2.5-flash'."
            )
        self._given: Model | str = model
        self._bridge: Bridge | None = None

    def __repr__(self) -> str:
        return f"PydanticAIModel({self._model_id!r}, provider={self._provider!r})"

    @property
    def provider(self) -> str:
        """The provider's name."""
        return self._provider

    @property
    def model_id(self) -> str:
        """The model's name at its provider."""
        return self._model_id

    @property
    def capabilities(self) -> ModelCapabilities:
        """What the model can do."""
        return self._capabilities

    async def stream(self, call: ModelCall) -> AsyncGenerator[ModelPart, None]:
        """Answer a call, part by part.

        Raises:
            ModelError: the model cannot be made, or the call failed.
        """
        if self._bridge is None:
            self._bridge = await anyio.to_thread.run_sync(_load, self._given)
        async with aclosing(self._bridge.answer(call)) as parts:
            async for part in parts:
                yield part


def installed() -> bool:
    """Whether pydantic-ai can be imported; does not import it."""
    try:
        return importlib.util.find_spec("pydantic_ai") is not None
    except (ImportError, ValueError):  # its import is blocked
        return False


def is_pydantic_ai_model(value: object) -> "TypeGuard[Model]":
    """Whether this is a model object of pydantic-ai; does not import it, for such an object cannot exist before."""
    kind = getattr(sys.modules.get("pydantic_ai.models"), "Model", None)  # absent while another thread imports it
    return kind is not None and isinstance(value, kind)


def knows_provider(prefix: str) -> bool:
    """Whether pydantic-ai is installed and has a provider of this name; imports it to find out."""
    if not installed():
        return False
    from pydantic_ai.providers import infer_provider_class  # noqa: PLC0415  # an optional dependency

    try:
        infer_provider_class(prefix)
    except ValueError:
        return False
    except ImportError:
        return True  # known, but its own package is missing: the first call says which
    return True


def _require() -> None:
    if not installed():
        raise ConfigurationError(f"Models of pydantic-ai need an extra of ours: {INSTALL}.")


def _capabilities_of(model: "Model") -> ModelCapabilities:
    profile = model.profile
    return ModelCapabilities(
        tools=profile.get("supports_tools", True),
        native_json=profile.get("supports_json_schema_output", False),
        images=profile.get("supports_image_input", True),
    )


def _load(given: "Model | str") -> "Bridge":
    """Import pydantic-ai and make the model; both take long the first time."""
    _require()
    from bascule.models._pydantic_ai_bridge import Bridge  # noqa: PLC0415  # an optional dependency

    return Bridge(given)
