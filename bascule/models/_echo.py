"""A model that repeats what it is told."""

from collections.abc import AsyncGenerator

import anyio.lowlevel

from bascule.models._prompt import last_user_text, prompt_size
from bascule.models._protocol import Finish, ModelCall, ModelCapabilities, ModelPart, TextDelta, Usage
from bascule.models._words import words_of

__all__ = ["EchoModel"]


class EchoModel:
    """Streams the user's last text back, word by word; needs no key and calls no tools."""

    def __repr__(self) -> str:
        return "EchoModel()"

    @property
    def provider(self) -> str:
        """The provider's name."""
        return "scripted"

    @property
    def model_id(self) -> str:
        """The model's name."""
        return "echo"

    @property
    def capabilities(self) -> ModelCapabilities:
        """What the model can do."""
        return ModelCapabilities(tools=False, label="An echo of your text, not a language model.")

    async def stream(self, call: ModelCall) -> AsyncGenerator[ModelPart, None]:
        """Repeat the user's last text."""
        await anyio.lowlevel.checkpoint()
        text = last_user_text(call.messages)
        for word in words_of(text):
            yield TextDelta(word)
        yield Finish("stop", Usage(input_tokens=prompt_size(call.messages) // 4, output_tokens=len(text) // 4))
