"""Requests and answers of protocol version 1."""

import pytest
from inline_snapshot import snapshot

from bascule.acp._v1 import agent_info, initialize_params, prompt_blocks, session_info, turn_result
from bascule.errors import AcpProtocolVersion, InputError
from bascule.messages import FilePart, Message, TextPart, normalize
from bascule.stream import Usage


def test_what_the_client_can_do_is_said_at_the_beginning() -> None:
    assert initialize_params(fs=True, version="1.2") == snapshot(
        {
            "protocolVersion": 1,
            "clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": False},
            "clientInfo": {"name": "bascule", "title": "Bascule", "version": "1.2"},
        }
    )


@pytest.mark.parametrize("version", [0, 2, None, "v1", [1]])
def test_another_version_is_refused_with_the_agents_name(version: object) -> None:
    with pytest.raises(AcpProtocolVersion, match="'codex'"):
        agent_info({"protocolVersion": version}, agent="codex")


def test_malformed_parts_of_the_first_answer_fall_back() -> None:
    info = agent_info(
        {"protocolVersion": "1", "agentInfo": "x", "authMethods": [{"id": "key"}, 3], "agentCapabilities": None},
        agent="x",
    )
    assert (info.name, info.auth_methods, info.prompt_kinds) == ("", ("key",), frozenset())


def test_modes_and_options_of_a_session_are_read() -> None:
    info = session_info(
        {
            "sessionId": "s",
            "modes": {"currentModeId": "auto", "availableModes": [{"id": "auto"}, {"id": "default"}, "x"]},
            "configOptions": [
                {"id": "m", "category": "model", "options": [{"value": "a"}, {"options": [{"value": "b"}]}]},
                {"id": "other"},
            ],
        }
    )
    assert info is not None
    assert (info.mode, info.modes[:2], info.options) == ("auto", ("auto", "default"), {"model": ("m", ("a", "b"))})
    assert session_info({}) is None
    assert session_info(None) is None


@pytest.mark.parametrize(
    ("result", "reason", "stopped_by", "warned"),
    [
        ({"stopReason": "end_turn"}, "stop", None, False),
        ({"stopReason": "max_tokens"}, "length", None, False),
        ({"stopReason": "max_turn_requests"}, "tool-calls", "max_steps", False),
        ({"stopReason": "refusal"}, "content-filter", None, False),
        ({"stopReason": "cancelled"}, "aborted", None, False),
        ({"stopReason": "bored"}, "other", None, True),
        ({"stopReason": ["x"]}, "other", None, True),
        (None, "other", None, True),
    ],
)
def test_stop_reasons(result: object, reason: str, stopped_by: str | None, warned: bool) -> None:
    found = turn_result(result)
    assert (found.reason, found.stopped_by, bool(found.warnings)) == (reason, stopped_by, warned)


def test_token_counts_are_read_as_far_as_they_are_numbers() -> None:
    usage = {"inputTokens": 5, "outputTokens": 2, "thoughtTokens": "x", "cachedReadTokens": -1}
    assert turn_result({"stopReason": "end_turn", "usage": usage}).usage == Usage(input_tokens=5, output_tokens=2)


def test_earlier_messages_are_set_apart_by_their_role() -> None:
    messages = normalize([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}])
    assert [block.get("text") for block in prompt_blocks(messages, frozenset())] == ["[system]", "Be brief.", "Hi"]


def test_files_are_sent_as_the_agent_takes_them() -> None:
    image = FilePart(media_type="image/png", data="aGk=")
    link = FilePart(media_type="text/plain", url="file:///a.txt", filename="a.txt")
    paper = FilePart(media_type="application/pdf", data="aGk=", filename="p.pdf")
    message = Message(role="user", parts=(TextPart("look"), image, link, paper))
    blocks = prompt_blocks([message], frozenset({"image", "embeddedContext"}))
    assert blocks == snapshot(
        [
            {"type": "text", "text": "look"},
            {"type": "image", "mimeType": "image/png", "data": "aGk="},
            {"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt"},
            {
                "type": "resource",
                "resource": {"uri": "attachment:p.pdf", "mimeType": "application/pdf", "blob": "aGk="},
            },
        ]
    )
    for part in (image, paper):
        with pytest.raises(InputError, match=part.media_type):
            prompt_blocks([Message(role="user", parts=(part,))], frozenset())


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(InputError, match="empty"):
        prompt_blocks(normalize(""), frozenset())
