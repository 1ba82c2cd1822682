"""What is known of the providers, and of those that another package reaches."""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["BRIDGED", "PROVIDERS", "Provider"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Where a provider is reached.

    Attributes:
        base_url: its address; the environment variable ``<PREFIX>_BASE_URL`` replaces it.
        key_env: environment variable with its key, ``None`` for a server that needs none.
        default_model: the model that is used when only the key is set.
        hint: what to do when its server cannot be reached.
    """

    base_url: str
    key_env: str | None = None
    default_model: str | None = None
    hint: str = ""


PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider(base_url="https://api.openai.com/v1", key_env="OPENAI_API_KEY", default_model="gpt-4o-mini"),
    "anthropic": Provider(
        base_url="https://api.anthropic.com", key_env="ANTHROPIC_API_KEY", default_model="claude-haiku-4-5"
    ),
    "openrouter": Provider(
        base_url="https://openrouter.ai/api/v1", key_env="OPENROUTER_API_KEY", default_model="openrouter/auto"
    ),
    "groq": Provider(
        base_url="https://api.groq.com/openai/v1", key_env="GROQ_API_KEY", default_model="llama-3.3-70b-versatile"
    ),
    "deepseek": Provider(
        base_url="https://api.deepseek.com/v1", key_env="DEEPSEEK_API_KEY", default_model="deepseek-chat"
    ),
    "mistral": Provider(
        base_url="https://api.mistral.ai/v1", key_env="MISTRAL_API_KEY", default_model="mistral-small-latest"
    ),
    "together": Provider(base_url="https://api.together.xyz/v1", key_env="TOGETHER_API_KEY"),
    "fireworks": Provider(base_url="https://api.fireworks.ai/inference/v1", key_env="FIREWORKS_API_KEY"),
    "xai": Provider(base_url="https://api.x.ai/v1", key_env="XAI_API_KEY"),
    "ollama": Provider(base_url="http://127.0.0.1:11434/v1", hint="Start it with `ollama serve`."),
    "lmstudio": Provider(base_url="http://127.0.0.1:1234/v1", hint="Start the server in LM Studio."),
    "vllm": Provider(base_url="http://127.0.0.1:8000/v1", hint="Start it with `vllm serve MODEL`."),
    "llamacpp": Provider(base_url="http://127.0.0.1:8080/v1", hint="Start it with `llama-server -m MODEL`."),
}
"""Prefix to provider, in the order in which keys are looked for."""

_GEMINI = "https://generativelanguage.googleapis.com/v1beta/openai"

BRIDGED: Mapping[str, tuple[str, str]] = {
    "google": ("google", _GEMINI),
    "gemini": ("google", _GEMINI),
    "bedrock": ("bedrock", ""),
    "vertex": ("google-cloud", ""),
    "cohere": ("cohere", "https://api.cohere.ai/compatibility/v1"),
}
"""Providers that are reached through pydantic-ai: its name for them, and the OpenAI-compatible address they offer."""
