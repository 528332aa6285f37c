"""Agents with a plugin of ours inside: what the plugin says is read, and answered in the form it knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.person import Person

from cems.adapters.base import Launchers
from cems.adapters.opencode.agent import AGENT as OPENCODE
from cems.adapters.pi.agent import AGENT as PI
from cems.adapters.plugin_agent import SCRIPTS, PluginAgent, plugin_source
from cems.core.events import HookEvent, Verdict

AGENTS = [PI, OPENCODE]


def said(agent: PluginAgent, kind: str, **fields: Any) -> dict[str, Any]:
    return {"cems_agent": agent.name, "hook_event_name": kind, "session_id": "s1", "cwd": "/x", **fields}


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
@pytest.mark.parametrize("script", SCRIPTS)
def test_an_event_is_read_by_its_script_only(agent: PluginAgent, script: str) -> None:
    payload = said(agent, SCRIPTS[script], prompt="hi", turn="t1")
    for name in SCRIPTS:
        event = agent.parse(name, payload)
        assert (event is not None) == (name == script)
        if event:
            assert (event.agent, event.kind, event.session, event.cwd) == (agent.name, SCRIPTS[script], "s1", "/x")
    assert agent.parse(script, {**payload, "session_id": ""}) is None


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_the_golden_answers(agent: PluginAgent) -> None:
    prompt, tool = HookEvent(agent.name, "prompt", "s", "/x"), HookEvent(agent.name, "pre_tool", "s", "/x")
    assert agent.render(prompt, "é\ud800") == b'{"context":"\\u00e9\\ufffd"}'
    assert agent.render(prompt, "") == agent.render(tool, "x") == b""
    assert agent.context_in(agent.render(prompt, "x")) == "x"
    assert agent.render_verdict(tool, Verdict("block", "no")) == b'{"verdict":{"severity":"block","text":"no"}}'
    assert (
        agent.render_verdict(tool, Verdict("warn", "mind")) == agent.render_verdict(prompt, Verdict("block", "")) == b""
    )


def test_pi_asks_the_person_and_opencode_has_the_model_ask() -> None:
    for agent, text in ((PI, "mind"), (OPENCODE, "mind\nOpenCode cannot ask the person here")):
        answer = json.loads(
            agent.render_verdict(HookEvent(agent.name, "pre_tool", "s", "/x"), Verdict("confirm", "mind"))
        )
        assert answer["verdict"]["severity"] == "confirm"
        assert answer["verdict"]["text"].startswith(text)


def test_a_command_of_ours_is_read_as_it_was_typed() -> None:
    typed = '/remember the "fast" path'
    event = PI.parse("cems_user_prompts_submit", said(PI, "prompt", prompt="/remember the fast path\n\n…", typed=typed))
    assert event is not None
    assert event.prompt == typed
    event = PI.parse("cems_user_prompts_submit", said(PI, "prompt", prompt="Review it", typed="/review"))
    assert event is not None
    assert event.prompt == "Review it"


@pytest.mark.parametrize(
    ("text", "prompt"), [('"say hi"', "say hi"), ('"a" and "b"', '"a" and "b"'), ('"', '"'), ("say hi", "say hi")]
)
def test_the_quotes_that_opencode_adds_are_not_the_persons(text: str, prompt: str) -> None:
    event = OPENCODE.parse("cems_user_prompts_submit", said(OPENCODE, "prompt", prompt=text))
    assert event is not None
    assert event.prompt == prompt


@pytest.mark.parametrize(
    ("agent", "name", "given", "tool", "subject"),
    [
        (PI, "bash", {"command": "git push"}, "Bash", "git push"),
        (PI, "mcp__cems__memory_add", {"content": "x"}, "mcp__cems__memory_add", '{"content":"x"}'),
        (OPENCODE, "bash", {"command": "git push", "description": "d"}, "Bash", "git push"),
        (OPENCODE, "edit", {"filePath": "/x/.env"}, "Edit", "/x/.env"),
        (OPENCODE, "cems_memory_add", {"content": "x"}, "mcp__cems__memory_add", '{"content":"x"}'),
    ],
)
def test_tools_have_the_names_that_rules_know(
    agent: PluginAgent, name: str, given: dict[str, Any], tool: str, subject: str
) -> None:
    event = agent.parse("cems_pre_tool_use", said(agent, "pre_tool", tool_name=name, tool_input=given))
    assert event is not None
    assert (event.tool, event.subject) == (tool, subject)


def test_what_no_person_typed_is_a_machines_turn() -> None:
    event = PI.parse("cems_user_prompts_submit", said(PI, "prompt", prompt="x", machine=True))
    assert event is not None
    assert event.machine_turn


def test_the_plugin_names_the_launcher_whatever_its_path(tmp_path: Path) -> None:
    part = tmp_path / "part.js"
    part.write_text('const AGENT = "x";\n')
    hook = tmp_path / 'a "b" \\ ü' / "cems-hook"
    source = plugin_source(part, Launchers(hook, hook)).decode()
    line = next(line for line in source.splitlines() if line.startswith("const HOOK = "))
    assert json.loads(line.removeprefix("const HOOK = ").removesuffix(";")) == str(hook)
    assert source.endswith('const AGENT = "x";\n')


@pytest.fixture
def person(tmp_path: Path) -> Person:
    made = Person(tmp_path)
    (tmp_path / ".pi/agent").mkdir(parents=True)
    (tmp_path / ".config/opencode").mkdir(parents=True)
    return made


def test_setup_writes_plugin_server_and_commands_and_uninstall_takes_them_out(person: Person) -> None:
    pi, opencode = person.root / ".pi/agent", person.root / ".config/opencode"
    (pi / "mcp.json").write_text('{"mcpServers": {"theirs": {"command": "x"}}}')
    (opencode / "opencode.jsonc").write_text('{\n  // mine\n  "model": "m", /* x */\n}\n')
    before = person.tree()
    person.setup()
    mcp = str(person.home.bin / "cems-mcp")
    assert person.read(pi / "mcp.json")["mcpServers"]["cems"] == {
        "command": mcp, "args": [], "exposure": "direct", "description": "The person's memory for coding agents", "timeout": 60,
    }  # fmt: skip
    assert f'"{mcp}"' in (opencode / "opencode.jsonc").read_text()
    assert "// mine" in (opencode / "opencode.jsonc").read_text()
    for plugin in (pi / "extensions/cems.js", opencode / "plugin/cems.js"):
        assert str(person.home.bin / "cems-hook") in plugin.read_text()
    assert (pi / "prompts/remember.md").read_text().splitlines()[4] == "/remember $ARGUMENTS"
    assert (opencode / "command/remember.md").read_text().splitlines()[4] == "/remember $ARGUMENTS"
    assert (person.root / ".agents/skills/recall/SKILL.md").is_file()
    assert not person.plan().changes
    person.uninstall()
    assert person.tree() == before
