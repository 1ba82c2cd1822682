"""Real servers on loopback."""

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import uvicorn

Serve = Callable[..., str]


@contextmanager
def _served(app: Any, **options: Any) -> Generator[str]:  # Any: an ASGI app, and what uvicorn takes
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, lifespan="off", **options))
    ready = threading.Event()
    startup = server.startup

    async def started(sockets: Any = None) -> None:
        await startup(sockets)
        ready.set()

    server.startup = started  # type: ignore[method-assign]
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert ready.wait(10)
        port: int = server.servers[0].sockets[0].getsockname()[1]
        yield f"{'https' if options else 'http'}://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve an ASGI app on loopback; returns its base URL."""
    with ExitStack() as stack:

        def start(app: Any, **options: Any) -> str:
            return stack.enter_context(_served(app, **options))

        yield start
