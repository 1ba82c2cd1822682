"""Permissions, environment, presets, and what an agent is made from."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.acp import PRESETS, AcpAgent, PermissionOption, PermissionPolicy, PermissionRequest, acp_tool, find_preset
from bascule.acp._environment import agent_environment
from bascule.acp._permissions import choose_option, options_of
from bascule.errors import ConfigurationError, NameInvalid, NotFound, SettingInvalid

ALWAYS = PermissionOption("p", "Always allow", "allow_always")
ONCE = PermissionOption("q", "Allow", "allow_once")
NO = PermissionOption("r", "Reject", "reject_once")
NEVER = PermissionOption("s", "Never", "reject_always")


@pytest.mark.requirement("C03")
@given(st.permutations([ALWAYS, ONCE, NO, NEVER]))
def test_an_option_is_chosen_by_its_kind_in_any_order(options: Sequence[PermissionOption]) -> None:
    assert choose_option(options, allow=True) is ONCE
    assert choose_option(options, allow=True, always=True) is ONCE
    assert choose_option(options, allow=False) is NO


def test_permission_for_good_is_given_only_on_request() -> None:
    assert choose_option([ALWAYS, NO], allow=True) is None
    assert choose_option([ALWAYS, NO], allow=True, always=True) is ALWAYS
    assert choose_option([ALWAYS, NEVER], allow=False) is NEVER
    assert choose_option([ALWAYS], allow=False) is None


def test_of_several_options_of_one_kind_the_one_without_side_effects_is_chosen() -> None:
    switching = PermissionOption("proceed_auto", "Allow once and switch to auto mode", "allow_once")
    assert choose_option([switching, ONCE], allow=True) is ONCE


def test_malformed_options_are_left_out() -> None:
    assert options_of([{"optionId": "a"}, {"name": "x"}, 3, {"optionId": 4}]) == (PermissionOption("a", "a", ""),)
    assert options_of(None) == ()


def request(kind: str) -> PermissionRequest:
    return PermissionRequest(
        tool_call_id="c", tool_name="t", kind=kind, args={}, paths=(), options=(), run_id="r", cwd="/", raw={}
    )


def test_a_policy_decides_by_the_kind_of_the_call() -> None:
    policy = PermissionPolicy(default="deny", kinds={"read": "allow"})
    assert [policy.decide(request(kind)) for kind in ("read", "edit", "")] == ["allow", "deny", "deny"]


def test_permissions_that_do_not_exist_are_refused() -> None:
    with pytest.raises(SettingInvalid, match="'maybe'"):
        AcpAgent("codex", permissions="maybe")  # type: ignore[arg-type]  # the point of the test  # pyright: ignore[reportArgumentType]
    with pytest.raises(SettingInvalid, match="'maybe'"):
        PermissionPolicy(kinds={"read": "maybe"})  # type: ignore[dict-item]  # the point of the test  # pyright: ignore[reportArgumentType]


def test_the_environment_is_inherited_without_our_own_secrets() -> None:
    ours = {"PATH": "/bin", "HOME": "/h", "X": "1", "BASCULE_STORAGE": "postgresql://u:p@h/d", "BASCULE_LOG": "debug"}
    found = agent_environment(ours, policy="inherit", env={"Y": "2"}, preset_env={"Y": "0", "Z": "3"})
    assert found == {"PATH": "/bin", "HOME": "/h", "X": "1", "BASCULE_LOG": "debug", "Y": "2", "Z": "3"}


def test_an_allow_list_inherits_what_matches_and_what_every_program_needs() -> None:
    ours = {"PATH": "/bin", "AWS_REGION": "x", "SECRET": "s", "LC_ALL": "C"}
    assert agent_environment(ours, policy=["AWS_*"], env=None) == {"PATH": "/bin", "AWS_REGION": "x", "LC_ALL": "C"}


def test_a_variable_that_an_agent_must_not_see_can_still_be_set() -> None:
    ours = {"CLAUDECODE": "1", "PATH": "/bin"}
    drop = find_preset("claude-code").drop_env
    assert "CLAUDECODE" not in agent_environment(ours, policy="inherit", env=None, drop=drop)
    assert agent_environment(ours, policy="inherit", env={"CLAUDECODE": "1"}, drop=drop)["CLAUDECODE"] == "1"


def test_every_preset_can_be_made_and_says_how_to_install_it() -> None:
    for name, preset in PRESETS.items():
        agent = AcpAgent(name)
        assert (agent.id, agent.name, agent.config.command) == (name, preset.title, tuple(preset.command))
        assert preset.install
    assert find_preset("claude") is find_preset("claude_code") is PRESETS["claude-code"]


def test_an_unknown_preset_names_the_known_ones() -> None:
    with pytest.raises(NotFound, match="claude-code, codex, gemini, opencode"):
        AcpAgent("nope")


def test_a_command_is_split_as_a_shell_would_and_replaces_only_the_launch_line() -> None:
    agent = AcpAgent("codex", command="my-codex --flag 'a b'", args=["--more"])
    assert agent.config.command == ("my-codex", "--flag", "a b", "--more")
    assert agent.config.mode == "read-only"
    assert AcpAgent(command=["/opt/some agent/bin"]).id == "bin"


def test_an_agent_needs_a_preset_or_a_command_and_a_good_name() -> None:
    with pytest.raises(ConfigurationError, match="preset"):
        AcpAgent()
    with pytest.raises(ConfigurationError, match="empty"):
        AcpAgent(command="")
    with pytest.raises(NameInvalid):
        AcpAgent("codex", id="my agent")


def test_the_tool_takes_a_task_and_is_named_after_the_agent() -> None:
    tool = acp_tool("claude-code")
    assert (tool.id, tool.input_schema["required"]) == ("claude_code", ["task"])
    assert acp_tool("codex", name="coder", description="Codes.").description == "Codes."
