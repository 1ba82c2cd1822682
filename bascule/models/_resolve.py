"""From what people write as a model to the model."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias, TypeGuard, cast

from bascule.errors import ConfigurationError, NameTaken
from bascule.models._anthropic import AnthropicMessages
from bascule.models._azure import AzureOpenAI
from bascule.models._echo import EchoModel
from bascule.models._openai_chat import OpenAIChat
from bascule.models._openai_responses import OpenAIResponses
from bascule.models._protocol import LanguageModel
from bascule.models._providers import BRIDGED, PROVIDERS
from bascule.models._pydantic_ai import INSTALL, PydanticAIModel, installed, is_pydantic_ai_model, knows_provider
from bascule.models._rules import RulesModel
from bascule.models._scripted import ScriptedModel
from bascule.models._turns import Turn

__all__ = ["ModelSpec", "ProviderFactory", "default_model", "register_provider", "resolve_model"]

ModelSpec: TypeAlias = str | LanguageModel
"""``"provider/name"``, ``"provider:name"`` or a model object."""

ProviderFactory: TypeAlias = Callable[[str], LanguageModel]
"""Makes a model of a provider from the model's name."""

_factories: dict[str, ProviderFactory] = {}


class _Adapter(Protocol):
    def __call__(self, model_id: str, *, environ: Mapping[str, str]) -> LanguageModel: ...


_ADAPTERS: Mapping[str, _Adapter] = {
    "anthropic": AnthropicMessages,
    "azure": AzureOpenAI,
    "openai-responses": OpenAIResponses,
}
"""Prefix to adapter, for what is not reached over Chat Completions."""


def register_provider(prefix: str, factory: ProviderFactory, *, replace: bool = False) -> None:
    """Make ``prefix/name`` a model that ``factory(name)`` makes.

    Args:
        prefix: the part before the slash; case does not matter.
        factory: called with the part after it, each time such a model is resolved.
        replace: whether a provider of this prefix may be replaced.

    Raises:
        ConfigurationError: the prefix is empty or holds a separator.
        NameTaken: the prefix is known already.
    """
    key = prefix.strip().lower()
    if not key or "/" in key or ":" in key:
        raise ConfigurationError(f"The provider prefix {prefix!r} is empty or holds '/' or ':'. Choose a plain word.")
    if not replace and (key in {*PROVIDERS, *_ADAPTERS, "scripted"} or _factories.get(key, factory) is not factory):
        raise NameTaken(f"The provider prefix {key!r} is taken. Choose another one, or pass replace=True.")
    _factories[key] = factory


def resolve_model(spec: object, *, environ: Mapping[str, str] = os.environ) -> LanguageModel:
    """Return the model that a spec stands for.

    Args:
        spec: a ``LanguageModel``, a model of pydantic-ai, or a text such as ``openai/gpt-4o-mini``,
            ``ollama:llama3.2``, ``scripted/rules``, ``scripted/echo`` or ``scripted/turns.yaml``.
        environ: where keys and base URLs are looked for.

    Raises:
        ConfigurationError: the spec is none of these, or its provider is not known.
    """
    if isinstance(spec, str):
        return _from_text(spec, environ)
    if _is_model(spec):
        return spec
    if is_pydantic_ai_model(spec):
        return PydanticAIModel(spec)
    if isinstance(spec, Sequence):
        raise ConfigurationError("A list of fallback models is not available in this version; pass one model.")
    raise ConfigurationError(
        f"{type(spec).__name__} is not a model. Pass a text such as 'openai/gpt-4o-mini', an object with provider, "
        "model_id, capabilities and stream(call), or a model of pydantic-ai."
    )


def default_model(environ: Mapping[str, str] = os.environ) -> LanguageModel:
    """Return the model for an agent that names none.

    ``BASCULE_MODEL``, else the first provider whose key is set, else the built-in rules, which need no key.

    Raises:
        ConfigurationError: ``BASCULE_MODEL`` cannot be resolved.
    """
    named = environ.get("BASCULE_MODEL", "").strip()
    if named:
        return resolve_model(named, environ=environ)
    for prefix, provider in PROVIDERS.items():
        if provider.key_env and provider.default_model and environ.get(provider.key_env, "").strip():
            return resolve_model(f"{prefix}/{provider.default_model}", environ=environ)
    return RulesModel()


def _is_model(value: object) -> TypeGuard[LanguageModel]:
    names = ("provider", "model_id", "capabilities")
    return all(hasattr(value, name) for name in names) and callable(getattr(value, "stream", None))


def _from_text(spec: str, environ: Mapping[str, str]) -> LanguageModel:
    text = spec.strip()
    cut = min((position for position in (text.find("/"), text.find(":")) if position >= 0), default=-1)
    prefix, name = text[:cut].strip().lower(), text[cut + 1 :].strip()
    if cut < 1 or not name:
        raise ConfigurationError(
            f"The model {spec!r} names no provider. Write provider/name, such as 'openai/gpt-4o-mini' or "
            "'scripted/rules'."
        )
    factory = _factories.get(prefix)
    if factory is not None:
        return factory(name)
    if prefix == "scripted":
        return _scripted(name)
    if prefix in _ADAPTERS:
        return _ADAPTERS[prefix](name, environ=environ)
    if prefix in PROVIDERS:
        return OpenAIChat(name, provider=prefix, environ=environ)
    return _bridged(prefix, name, spec)


def _bridged(prefix: str, name: str, spec: str) -> LanguageModel:
    """Return a model of a provider that only pydantic-ai reaches."""
    if prefix in BRIDGED and installed():
        return PydanticAIModel(f"{BRIDGED[prefix][0]}:{name}")
    if prefix not in BRIDGED and knows_provider(prefix):
        return PydanticAIModel(f"{prefix}:{name}")
    raise _unknown(prefix, spec)


def _unknown(prefix: str, spec: str) -> ConfigurationError:
    if prefix in BRIDGED:
        address = BRIDGED[prefix][1] or "its OpenAI-compatible address"
        return ConfigurationError(
            f"The provider {prefix!r} of the model {spec!r} needs an extra: {INSTALL}. Or reach it through an "
            f"OpenAI-compatible base URL: OpenAIChat(name, base_url={address!r}, api_key=...)."
        )
    known = ", ".join(sorted({*PROVIDERS, *_ADAPTERS, *_factories, "scripted"}))
    return ConfigurationError(
        f"The provider {prefix!r} of the model {spec!r} is not known; known are {known}. Any other server that speaks "
        f"Chat Completions is reached with OpenAIChat(name, base_url=...), and more providers with {INSTALL}."
    )


def _scripted(name: str) -> LanguageModel:
    if name == "echo":
        return EchoModel()
    if name == "rules":
        return RulesModel()
    path = Path(name).expanduser()
    if not path.is_file():
        raise ConfigurationError(
            f"There is no script {name!r}. Write scripted/echo, scripted/rules, or scripted/ and the path of a YAML or "
            "JSON file."
        )
    return _read_script(path)


def _read_script(path: Path) -> ScriptedModel:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        try:
            script: object = json.loads(text)
        except ValueError as error:
            raise ConfigurationError(f"The script {path.name!r} is not JSON: {error}.") from error
    else:
        import yaml  # noqa: PLC0415  # only scripts in YAML need it

        try:
            script = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigurationError(f"The script {path.name!r} is not YAML: {error}.") from error
    default: object = "echo"
    if isinstance(script, Mapping):
        options = cast("Mapping[str, object]", script)  # a parsed document; its entries are checked below
        script, default = options.get("turns"), options.get("default", "echo")
    if not isinstance(script, Sequence) or isinstance(script, str):
        raise ConfigurationError(f"The script {path.name!r} holds neither a list of turns nor a mapping with 'turns'.")
    if default not in ("echo", "error"):
        raise ConfigurationError(f"default is {default!r} in the script {path.name!r}; it is 'echo' or 'error'.")
    turns = cast("Sequence[Turn]", script)  # each turn is checked by ScriptedModel
    return ScriptedModel(turns, default="error" if default == "error" else "echo", model_id=path.stem)
