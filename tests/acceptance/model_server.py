"""A language model for real agents: it asks for scripted tool calls, one a turn, then repeats what the last one said.

It serves Anthropic Messages and OpenAI Chat Completions, streamed or whole, on a loopback port. It keeps no state
between requests: the tool results that a request carries tell how far the conversation is, so a repeated request gets
the same answer. A request that does not offer the next scripted tool (a title, a summary, a topic check) is none of
ours and is answered with a word.
"""

import json
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.acceptance.harness.dialects import (
    Json,
    Request,
    ToolUse,
    anthropic_message,
    anthropic_stream,
    chat_message,
    chat_stream,
)

SIDE_ANSWER = "ok"
FINAL_ANSWER = "The tool answered: "


@dataclass(slots=True)
class Model:
    """The script, and what was asked."""

    script: Sequence[ToolUse]
    url: str = ""
    requests: list[Request] = field(default_factory=list[Request])
    unknown: list[str] = field(default_factory=list[str])
    """What was asked for and does not exist here."""

    @property
    def results(self) -> list[str]:
        """The results of the scripted calls as the model read them, from the longest conversation seen."""
        return max((request.results for request in list(self.requests)), key=len, default=list[str]())

    def answer(self, request: Request) -> ToolUse | str:
        """The model's next words, or the call it wants."""
        results = request.results
        if len(results) < len(self.script):
            wanted = self.script[len(results)]
            return wanted if wanted.tool in request.offered else SIDE_ANSWER
        return FINAL_ANSWER + results[-1] if results else SIDE_ANSWER


@contextmanager
def model_server(*script: ToolUse) -> Generator[Model]:
    """Serve a model on a loopback port until the block ends."""
    model = Model(script)

    class Handler(_Handler):
        answering = model

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    model.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


class _Handler(BaseHTTPRequestHandler):
    answering: Model

    def do_POST(self) -> None:
        payload = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0]
        if path.endswith("/messages/count_tokens"):
            self._whole({"input_tokens": 1})
        elif path.endswith("/messages"):
            self._answer(payload, whole=anthropic_message, stream=anthropic_stream)
        elif path.endswith("/chat/completions"):
            self._answer(payload, whole=chat_message, stream=chat_stream)
        else:
            self._nothing()

    def do_GET(self) -> None:
        self._nothing()

    def do_HEAD(self) -> None:
        self._nothing()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a test reads `Model.requests`."""

    def _answer(
        self,
        payload: bytes,
        *,
        whole: Callable[[ToolUse | str, int], Json],
        stream: Callable[[ToolUse | str, int], Iterable[str]],
    ) -> None:
        request = Request.model_validate_json(payload)
        self.answering.requests.append(request)
        answer, position = self.answering.answer(request), len(request.results)
        if not request.stream:
            self._whole(whole(answer, position))
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for block in stream(answer, position):
            self.wfile.write(block.encode())

    def _nothing(self) -> None:
        self.answering.unknown.append(f"{self.command} {self.path}")
        self._whole({"error": {"type": "not_found_error", "message": f"nothing at {self.path}"}}, status=404)

    def _whole(self, body: Json, *, status: int = 200) -> None:
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(payload)
