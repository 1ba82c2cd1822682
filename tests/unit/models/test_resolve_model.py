import json
import subprocess
import sys
from pathlib import Path
from typing import cast
from uuid import uuid4

import anyio.to_thread
import pytest

from bascule.errors import ConfigurationError, NameTaken
from bascule.messages import normalize
from bascule.models import (
    EchoModel,
    ModelCall,
    OpenAIChat,
    RulesModel,
    ScriptedModel,
    TextDelta,
    default_model,
    register_provider,
    resolve_model,
)


def test_a_model_object_is_taken_as_it_is() -> None:
    model = ScriptedModel()

    assert resolve_model(model) is model


@pytest.mark.parametrize(
    ("spec", "provider", "model_id", "url"),
    [
        ("openai/gpt-4o-mini", "openai", "gpt-4o-mini", "https://api.openai.com/v1"),
        ("OpenAI:gpt-4o-mini", "openai", "gpt-4o-mini", "https://api.openai.com/v1"),
        ("ollama:llama3.2:3b", "ollama", "llama3.2:3b", "http://127.0.0.1:11434/v1"),
        ("openrouter/meta/llama:free", "openrouter", "meta/llama:free", "https://openrouter.ai/api/v1"),
    ],
)
def test_a_text_is_split_at_the_first_separator(spec: str, provider: str, model_id: str, url: str) -> None:
    model = resolve_model(spec, environ={})

    assert repr(model) == f"OpenAIChat({model_id!r}, provider={provider!r}, base_url={url!r})"


def test_a_base_url_from_the_environment_replaces_the_built_in_one() -> None:
    model = resolve_model("vllm/m", environ={"VLLM_BASE_URL": "http://u:p@gpu:9000/v1/"})

    assert repr(model) == "OpenAIChat('m', provider='vllm', base_url='http://gpu:9000/v1/')"


@pytest.mark.parametrize(("spec", "kind"), [("scripted/echo", EchoModel), ("scripted:rules", RulesModel)])
def test_the_built_in_models_have_names(spec: str, kind: type[object]) -> None:
    assert isinstance(resolve_model(spec), kind)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("script.json", json.dumps(["from a file"])),
        ("script.yaml", "default: error\nturns:\n  - text: from a file\n"),
    ],
)
async def test_a_script_is_read_from_a_file(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")

    model = await anyio.to_thread.run_sync(resolve_model, f"scripted/{path}")
    parts = [part async for part in model.stream(ModelCall(messages=normalize("x")))]

    assert parts[0] == TextDelta("from a file")
    assert model.model_id == "script"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "{", "not JSON"),
        ("a.yaml", "{", "not YAML"),
        ("a.yaml", "text", "neither a list of turns"),
        ("a.yaml", "{turns: [], default: repeat}", "'echo' or 'error'"),
        ("a.yaml", "[{txt: x}]", "unknown key 'txt'"),
    ],
)
def test_a_script_that_cannot_be_read_is_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigurationError, match=message):
        resolve_model(f"scripted/{path}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("gpt-4o", "names no provider"),
        ("", "names no provider"),
        ("openai/", "names no provider"),
        ("acme/m", r"known are .*deepseek"),
        ("scripted/nowhere.yaml", "There is no script 'nowhere.yaml'"),
        (["openai/a", "openai/b"], "list of fallback models is not available"),
        (3, "int is not a model"),
        (None, "NoneType is not a model"),
    ],
)
def test_what_is_no_model_is_refused_with_what_is(spec: object, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        resolve_model(spec)


def test_a_registered_provider_makes_the_model() -> None:
    prefix, model = f"acme{uuid4().hex}", ScriptedModel()
    names: list[str] = []

    def factory(name: str) -> ScriptedModel:
        names.append(name)
        return model

    register_provider(prefix.upper(), factory)
    register_provider(prefix, factory)

    assert resolve_model(f"{prefix}/a/b") is model
    assert names == ["a/b"]
    with pytest.raises(NameTaken):
        register_provider(prefix, lambda _: model)
    register_provider(prefix, lambda _: ScriptedModel(), replace=True)
    assert resolve_model(f"{prefix}/x") is not model


@pytest.mark.parametrize("prefix", ["openai", "scripted", "azure", "openai-responses"])
def test_a_built_in_prefix_is_taken(prefix: str) -> None:
    with pytest.raises(NameTaken):
        register_provider(prefix, lambda _: ScriptedModel())


@pytest.mark.parametrize("prefix", ["", "a/b", "a:b"])
def test_a_prefix_is_a_plain_word(prefix: str) -> None:
    with pytest.raises(ConfigurationError):
        register_provider(prefix, lambda _: ScriptedModel())


@pytest.mark.parametrize(
    ("environ", "provider", "model_id"),
    [
        ({}, "scripted", "rules"),
        ({"OPENAI_API_KEY": " "}, "scripted", "rules"),
        ({"XAI_API_KEY": "k"}, "scripted", "rules"),
        ({"OPENAI_API_KEY": "k"}, "openai", "gpt-4o-mini"),
        ({"GROQ_API_KEY": "k"}, "groq", "llama-3.3-70b-versatile"),
        ({"ANTHROPIC_API_KEY": "k", "GROQ_API_KEY": "k"}, "anthropic", "claude-haiku-4-5"),
        ({"GROQ_API_KEY": "k", "OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, "openai", "gpt-4o-mini"),
        ({"OPENAI_API_KEY": "k", "BASCULE_MODEL": "scripted/echo"}, "scripted", "echo"),
        ({"BASCULE_MODEL": "xai/grok"}, "xai", "grok"),
    ],
)
def test_the_model_of_an_agent_that_names_none(environ: dict[str, str], provider: str, model_id: str) -> None:
    model = default_model(environ)

    assert (model.provider, model.model_id) == (provider, model_id)


@pytest.mark.parametrize("url", ["", "api.test/v1", "ftp://x/v1", "http://", "http://x:port/v1"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"no http\(s\) address"):
        OpenAIChat("m", base_url=url, provider="acme")


@pytest.mark.parametrize("key", ["sk-\u201cquoted", "sk-one\nsk-two"])
def test_a_key_that_cannot_be_sent_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        OpenAIChat("m", api_key=key)

    assert "sk-" not in str(caught.value)


def test_a_key_of_the_environment_is_for_its_own_server_only() -> None:
    model = OpenAIChat("m", base_url="http://elsewhere.test/v1", environ={"OPENAI_API_KEY": "sk-secret"})

    assert "sk-secret" not in repr(cast("object", vars(model)))


def test_importing_the_models_loads_nothing_heavy() -> None:
    code = (
        "import bascule.models, sys; print([m for m in ('httpx', 'yaml', 'pydantic', 'asyncio') if m in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
