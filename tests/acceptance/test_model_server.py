"""The scripted model itself: what real agents are driven with has to be right first."""

import json
import urllib.request
from typing import Any

from tests.acceptance.harness.dialects import Json, ToolUse
from tests.acceptance.model_server import FINAL_ANSWER, SIDE_ANSWER, model_server

ADD = ToolUse("add", {"a": 2, "b": 3})
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(url: str, body: Json) -> str:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with DIRECT.open(request, timeout=5) as answer:
        return str(answer.read().decode())


def events(stream: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


def test_messages_ask_for_the_scripted_tool_then_repeat_its_result() -> None:
    tools = [{"name": "add"}]
    with model_server(ADD) as model:
        first = json.loads(
            ask(f"{model.url}/v1/messages", {"tools": tools, "messages": [{"role": "user", "content": "?"}]})
        )
        result = {
            "type": "tool_result",
            "tool_use_id": first["content"][0]["id"],
            "content": [{"type": "text", "text": "5"}],
        }
        body = {"tools": tools, "messages": [{"role": "user", "content": [result]}]}
        second = json.loads(ask(f"{model.url}/v1/messages", body))
        assert model.results == ["5"]
    assert (first["content"][0]["name"], first["content"][0]["input"]) == ("add", {"a": 2, "b": 3})
    assert (first["stop_reason"], second["stop_reason"]) == ("tool_use", "end_turn")
    assert second["content"] == [{"type": "text", "text": f"{FINAL_ANSWER}5"}]


def test_streamed_messages_say_the_same_as_whole_ones() -> None:
    body = {"stream": True, "tools": [{"name": "add"}], "messages": []}
    with model_server(ADD) as model:
        streamed = events(ask(f"{model.url}/v1/messages?beta=true", body))
    assert [event["type"] for event in streamed] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert streamed[1]["content_block"]["name"] == "add"
    assert json.loads(streamed[2]["delta"]["partial_json"]) == {"a": 2, "b": 3}


def test_chat_completions_ask_for_the_scripted_tool_then_repeat_its_result() -> None:
    tools = [{"type": "function", "function": {"name": "add"}}]
    with model_server(ADD) as model:
        streamed = events(ask(f"{model.url}/v1/chat/completions", {"stream": True, "tools": tools, "messages": []}))
        body = {"tools": tools, "messages": [{"role": "tool", "tool_call_id": "call_0", "content": "5"}]}
        second = json.loads(ask(f"{model.url}/v1/chat/completions", body))
    call = streamed[0]["choices"][0]["delta"]["tool_calls"][0]["function"]
    assert call == {"name": "add", "arguments": '{"a": 2, "b": 3}'}
    assert streamed[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert second["choices"][0]["message"]["content"] == f"{FINAL_ANSWER}5"


def test_a_side_request_is_answered_and_moves_nothing() -> None:
    with model_server(ADD) as model:
        answer = json.loads(ask(f"{model.url}/v1/messages", {"messages": [{"role": "user", "content": "Title?"}]}))
        assert answer["content"] == [{"type": "text", "text": SIDE_ANSWER}]
        assert model.results == []
