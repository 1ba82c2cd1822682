"""The events of a Messages stream, as the server writes them."""

import json

from tests.integration.models.loopback import Reply

Event = dict[str, object]
BEGIN: Event = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m-1",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 7, "output_tokens": 1},
    },
}
PING: Event = {"type": "ping"}
STOP: Event = {"type": "message_stop"}


def block(index: int, **content: object) -> Event:
    """Return the beginning of a content block."""
    return {"type": "content_block_start", "index": index, "content_block": content}


def delta(index: int, kind: str, **content: object) -> Event:
    """Return a piece of a content block."""
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **content}}


def close(index: int) -> Event:
    """Return the end of a content block."""
    return {"type": "content_block_stop", "index": index}


def said(text: str) -> Event:
    """Return a piece of text in the first block."""
    return delta(0, "text_delta", text=text)


def end(reason: str = "end_turn") -> Event:
    """Return why the answer ends."""
    return {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {"output_tokens": 3},
    }


def sse(*events: Event) -> bytes:
    """Return events as they are streamed."""
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def answer(text: str = "ok") -> Reply:
    """Return a whole short answer."""
    return Reply(pieces=[sse(BEGIN, PING, block(0, type="text", text=""), said(text), close(0), end(), STOP)])


def broke(kind: str, message: str = "Overloaded") -> Event:
    """Return an error inside the stream."""
    return {"type": "error", "error": {"type": kind, "message": message}}


def thought(index: int, text: str, signature: str) -> list[Event]:
    """Return a block of thinking."""
    return [
        block(index, type="thinking", thinking="", signature=""),
        delta(index, "thinking_delta", thinking=text),
        delta(index, "signature_delta", signature=signature),
        close(index),
    ]
