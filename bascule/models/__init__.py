"""Language models: the protocol, the models that need no key, and adapters over HTTP."""

from bascule.models._anthropic import AnthropicMessages
from bascule.models._azure import AzureOpenAI
from bascule.models._echo import EchoModel
from bascule.models._embeddings import EmbeddingModel, HashEmbedder
from bascule.models._openai_chat import OpenAIChat
from bascule.models._openai_embeddings import OpenAIEmbeddings
from bascule.models._openai_responses import OpenAIResponses
from bascule.models._protocol import (
    File,
    Finish,
    FinishReason,
    LanguageModel,
    ModelCall,
    ModelCapabilities,
    ModelPart,
    ModelSettings,
    ModelTool,
    Raw,
    ReasoningDelta,
    Source,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolChoice,
    Usage,
)
from bascule.models._pydantic_ai import PydanticAIModel
from bascule.models._resolve import ModelSpec, ProviderFactory, default_model, register_provider, resolve_model
from bascule.models._rules import RulesModel
from bascule.models._scripted import ScriptedModel

__all__ = [
    "AnthropicMessages",
    "AzureOpenAI",
    "EchoModel",
    "EmbeddingModel",
    "File",
    "Finish",
    "FinishReason",
    "HashEmbedder",
    "LanguageModel",
    "ModelCall",
    "ModelCapabilities",
    "ModelPart",
    "ModelSettings",
    "ModelSpec",
    "ModelTool",
    "OpenAIChat",
    "OpenAIEmbeddings",
    "OpenAIResponses",
    "ProviderFactory",
    "PydanticAIModel",
    "Raw",
    "ReasoningDelta",
    "RulesModel",
    "ScriptedModel",
    "Source",
    "TextDelta",
    "ToolCall",
    "ToolCallDelta",
    "ToolChoice",
    "Usage",
    "default_model",
    "register_provider",
    "resolve_model",
]
