"""How a call to a Responses server is to travel."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args
from urllib.parse import urlsplit

from bascule.errors import ConfigurationError
from bascule.messages import JsonObject, JsonValue
from bascule.models._request import options_of

__all__ = ["TransportName", "Wish", "check_transport", "read_wish"]

TransportName: TypeAlias = Literal["auto", "websocket", "fetch"]
"""How the calls of a model travel; ``fetch`` is plain HTTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a call asks for.

    Attributes:
        transport: how it travels.
        url: the address of the WebSocket.
        close_on_finish: whether the WebSocket is closed after the answer.
    """

    transport: TransportName
    url: str
    close_on_finish: bool


def read_wish(options: JsonObject | None, provider: str, *, default: TransportName, http_url: str) -> Wish:
    """Read the transport from the options of a call, those of the provider before those of ``openai``.

    Raises:
        ConfigurationError: an option cannot be used.
    """
    given = {**options_of(options, "openai"), **options_of(options, provider)}
    transport = check_transport(given.get("transport") or default)
    nested = given.get("websocket")
    socket = options_of({"websocket": nested}, "websocket") if isinstance(nested, Mapping) else {}
    closes = socket.get("close_on_finish")
    url = socket.get("url")
    return Wish(
        transport=transport,
        url=_socket_url(url if isinstance(url, str) and url else http_url),
        close_on_finish=closes if isinstance(closes, bool) else transport == "websocket",
    )


def check_transport(value: JsonValue) -> TransportName:
    """Return the name of a transport.

    Raises:
        ConfigurationError: there is none of that name.
    """
    if value not in get_args(TransportName):
        raise ConfigurationError(f"The transport {value!r} is not known; known are 'auto', 'websocket' and 'fetch'.")
    return cast("TransportName", value)  # compared with its values just now


def _socket_url(url: str) -> str:
    scheme = urlsplit(url).scheme
    if scheme in ("http", "https"):
        return f"ws{url.removeprefix('http')}"
    if scheme not in ("ws", "wss") or not urlsplit(url).hostname:
        raise ConfigurationError(
            f"The WebSocket address {url.rpartition('@')[2]!r} does not begin with wss:// or ws://."
        )
    return url
