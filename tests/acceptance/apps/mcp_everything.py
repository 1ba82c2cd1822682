"""Everything that the MCP conformance suite asks a server for, written with Bascule's public names alone.

The suite looks tools, prompts and resources up by fixed names; what they do is described in the suite itself.
"""

import base64
import io
import wave

from bascule import Bascule, Tool, ToolContext, tool
from bascule.errors import ToolError
from bascule.mcp_server import prompt, resource
from bascule.tools import Audio, EmbeddedResource, Image

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)


def silence() -> bytes:
    """A hundredth of a second of nothing, as a WAV file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(8_000)
        sound.writeframes(b"\x80" * 80)
    return file.getvalue()


# Content


@tool
def test_simple_text() -> str:
    """Answer with text."""
    return "This is a simple text response for testing."


@tool
def test_image_content() -> Image:
    """Answer with a picture."""
    return Image(data=PIXEL, media_type="image/png")


@tool
def test_audio_content() -> Audio:
    """Answer with sound."""
    return Audio(data=silence(), media_type="audio/wav")


@tool
def test_embedded_resource() -> EmbeddedResource:
    """Answer with a resource."""
    return EmbeddedResource(uri="test://embedded-resource", data="This is an embedded resource content.")


@tool
def test_multiple_content_types() -> list[str | Image | EmbeddedResource]:
    """Answer with text, a picture and a resource."""
    return [
        "Multiple content types test:",
        Image(data=PIXEL),
        EmbeddedResource(uri="test://mixed-content-resource", data='{"test":"data"}', media_type="application/json"),
    ]


@tool
def test_error_handling() -> str:
    """Fail on purpose."""
    raise ToolError("This tool intentionally returns an error for testing")


# What a tool says while it runs


@tool
async def test_tool_with_logging(context: ToolContext) -> str:
    """Log three times."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.log("info", text)
    return "Logged three times."


@tool
async def test_logging_tool(context: ToolContext) -> str:
    """Log once."""
    await context.log("info", "The logging tool ran.")
    return "Logged once."


@tool
async def test_tool_with_progress(context: ToolContext) -> str:
    """Report progress three times."""
    for done in (0, 50, 100):
        await context.progress(done, 100)
    return "Reported three times."


# Questions to the person behind the client


@tool
async def test_elicitation(message: str, context: ToolContext) -> str:
    """Ask for a user name and an address."""
    answer = await context.ask(
        message,
        {
            "type": "object",
            "properties": {
                "username": {"type": "string", "description": "User's response"},
                "email": {"type": "string", "description": "User's email address"},
            },
            "required": ["username", "email"],
        },
    )
    return f"User response: action={answer.action}, content={answer.content}"


@tool
async def test_elicitation_sep1034_defaults(context: ToolContext) -> str:
    """Ask with a default for every kind of value."""
    answer = await context.ask(
        "Please review the defaults.",
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "default": "John Doe"},
                "age": {"type": "integer", "default": 30},
                "score": {"type": "number", "default": 95.5},
                "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
                "verified": {"type": "boolean", "default": True},
            },
            "required": [],
        },
    )
    return f"Elicitation completed: action={answer.action}, content={answer.content}"


@tool
async def test_elicitation_sep1330_enums(context: ToolContext) -> str:
    """Ask with every kind of choice."""
    titled = [
        {"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(("First", "Second", "Third"), 1)
    ]
    answer = await context.ask(
        "Please choose.",
        {
            "type": "object",
            "properties": {
                "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
                "titledSingle": {"type": "string", "oneOf": titled},
                "legacyEnum": {
                    "type": "string",
                    "enum": ["opt1", "opt2", "opt3"],
                    "enumNames": ["Option One", "Option Two", "Option Three"],
                },
                "untitledMulti": {
                    "type": "array",
                    "items": {"type": "string", "enum": ["option1", "option2", "option3"]},
                },
                "titledMulti": {"type": "array", "items": {"anyOf": titled}},
            },
            "required": [],
        },
    )
    return f"Elicitation completed: action={answer.action}, content={answer.content}"


@tool
async def test_streaming_elicitation(context: ToolContext) -> str:
    """Report progress, then ask."""
    await context.progress(1, 2)
    answer = await context.ask(
        "Go on?", {"type": "object", "properties": {"go": {"type": "boolean"}}, "required": ["go"]}
    )
    return f"Went on: {answer.action}"


@tool
async def test_input_required_result_elicitation(context: ToolContext) -> str:
    """Ask for a name and greet."""
    answer = await context.ask(
        "What is your name?", {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    )
    return f"Hello, {(answer.content or {}).get('name', 'stranger')}!"


# Schemas


async def accept(arguments: object, context: ToolContext) -> str:
    """Answer whatever the arguments are."""
    return f"Accepted: {arguments}"


ADDRESS = {
    "$anchor": "addressDef",
    "type": "object",
    "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
}
json_schema_2020_12_tool = Tool(
    "json_schema_2020_12_tool",
    description="Its schema uses what draft 2020-12 offers.",
    input_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": ADDRESS},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
    execute=accept,
)
test_header_argument = Tool(
    "test_header_argument",
    description="One argument is repeated in a header of the request.",
    input_schema={
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    },
    execute=accept,
)


# Tools that are never a task


@tool
def greet(name: str) -> str:
    """Answer at once."""
    return f"Hello, {name}!"


# Prompts


@prompt
def test_simple_prompt() -> str:
    """One message."""
    return "This is a simple prompt for testing."


@prompt(complete={"arg1": lambda typed: [value for value in ("paris", "park", "party") if value.startswith(typed)]})
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """One message with two arguments in it."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@prompt(name="test_prompt_with_embedded_resource")
def prompt_with_embedded_resource(resourceUri: str) -> list[object]:  # noqa: N803  # the suite's spelling
    """A resource and a message about it."""
    return [
        EmbeddedResource(uri=resourceUri, data="Embedded resource content for testing."),
        "Please process the embedded resource above.",
    ]


@prompt
def test_prompt_with_image() -> list[object]:
    """A picture and a message about it."""
    return [Image(data=PIXEL), "Please analyze the image above."]


@prompt
async def test_input_required_result_prompt(context: ToolContext) -> str:
    """Ask first."""
    answer = await context.ask(
        "What context should the prompt use?",
        {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]},
    )
    return f"The context: {(answer.content or {}).get('context', 'none')}"


# Resources


@resource("test://static-text", media_type="text/plain")
def static_text() -> str:
    """Text that stays as it is."""
    return "This is the content of the static text resource."


@resource("test://static-binary", media_type="image/png")
def static_binary() -> bytes:
    """Bytes that stay as they are."""
    return PIXEL


@resource("test://template/{id}/data", media_type="application/json")
def template_data(id: str) -> dict[str, object]:
    """Data under an id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


@resource("test://watched-resource", media_type="text/plain")
def watched_resource() -> str:
    """Text that clients may watch."""
    return "Nothing has changed yet."


app = Bascule(
    "everything",
    tools=[
        test_simple_text,
        test_image_content,
        test_audio_content,
        test_embedded_resource,
        test_multiple_content_types,
        test_error_handling,
        test_tool_with_logging,
        test_logging_tool,
        test_tool_with_progress,
        test_elicitation,
        test_elicitation_sep1034_defaults,
        test_elicitation_sep1330_enums,
        test_streaming_elicitation,
        test_input_required_result_elicitation,
        json_schema_2020_12_tool,
        test_header_argument,
        greet,
    ],
    prompts=[
        test_simple_prompt,
        test_prompt_with_arguments,
        prompt_with_embedded_resource,
        test_prompt_with_image,
        test_input_required_result_prompt,
    ],
    resources=[static_text, static_binary, template_data, watched_resource],
)
