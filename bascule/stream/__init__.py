"""The events of a run's stream, what a run came to, and how both are written for others."""

# The event classes are many and each module lists its own: one line per module keeps this page readable.
from bascule.stream import (
    _acp_chunks,
    _agent_chunks,
    _background_chunks,
    _content_chunks,
    _control_chunks,
    _result,
    _tool_chunks,
    _workflow_chunks,
)
from bascule.stream._acp_chunks import *  # noqa: F403
from bascule.stream._agent_chunks import *  # noqa: F403
from bascule.stream._ai_sdk_stream import ai_sdk_response, ai_sdk_stream
from bascule.stream._background_chunks import *  # noqa: F403
from bascule.stream._chunk import Chunk, Sender, Wire
from bascule.stream._content_chunks import *  # noqa: F403
from bascule.stream._control_chunks import *  # noqa: F403
from bascule.stream._decode import UnknownChunk, chunk_from_wire
from bascule.stream._fold import RunFold, fold
from bascule.stream._result import *  # noqa: F403
from bascule.stream._sse import SSE_DONE, SSE_HEADERS, StreamResponse, json_record, sse_frame
from bascule.stream._tool_chunks import *  # noqa: F403
from bascule.stream._usage import NO_USAGE, Usage
from bascule.stream._workflow_chunks import *  # noqa: F403

__all__ = ["NO_USAGE", "Chunk", "Sender", "UnknownChunk", "Usage", "Wire", "chunk_from_wire"]
__all__ += ["RunFold", "fold"]
__all__ += ["SSE_DONE", "SSE_HEADERS", "StreamResponse", "ai_sdk_response", "ai_sdk_stream", "json_record", "sse_frame"]
__all__ += _acp_chunks.__all__
__all__ += _agent_chunks.__all__
__all__ += _background_chunks.__all__
__all__ += _content_chunks.__all__
__all__ += _control_chunks.__all__
__all__ += _result.__all__
__all__ += _tool_chunks.__all__
__all__ += _workflow_chunks.__all__
