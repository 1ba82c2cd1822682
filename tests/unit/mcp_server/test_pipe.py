"""How messages become lines."""

import json
from typing import Any

import pytest
from mcp_types import JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from bascule.mcp_server._sdk._pipe import line_of

CUT: dict[str, Any] = {"message": "caf\udce9"}
OPAQUE: dict[str, Any] = {"message": object()}


@pytest.mark.parametrize(
    "message",
    [
        JSONRPCResponse(jsonrpc="2.0", id=1, result=CUT),
        JSONRPCNotification(jsonrpc="2.0", method="notifications/progress", params=CUT),
        JSONRPCRequest(jsonrpc="2.0", id=1, method="elicitation/create", params=CUT),
    ],
)
def test_a_lone_surrogate_in_any_message_is_replaced(message: JSONRPCMessage) -> None:
    line = line_of(message)
    assert line is not None
    assert "caf\ufffd" in str(json.loads(line))


def test_an_answer_that_cannot_be_written_is_an_error_and_a_notification_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    line = line_of(JSONRPCResponse(jsonrpc="2.0", id=7, result=OPAQUE))
    assert line is not None
    answer = json.loads(line)
    assert (answer["id"], answer["error"]["code"]) == (7, -32603)
    assert line_of(JSONRPCNotification(jsonrpc="2.0", method="notifications/progress", params=OPAQUE)) is None
    assert len(caplog.records) == 2
