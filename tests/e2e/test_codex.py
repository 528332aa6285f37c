"""The real Codex remembers: what its model is sent, with CEMS installed and its hooks trusted as a person trusts them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.agent import Turn
from tests.e2e.codex import Codex
from tests.e2e.fixtures import with_cems
from tests.e2e.steps import DEPLOY, DEPLOY_PROMPT, UNRELATED_PROMPT, memories, remember, snapshot
from tests.fakes.model_api import Text, ToolUse

pytestmark = pytest.mark.e2e

SANDBOXED = ("-c", 'sandbox_mode="workspace-write"')
"""A run in which Codex would ask before what destroys. With full access to the machine it asks before nothing."""

PREFERENCE = "Answer in British English and keep commit messages in the imperative."


@pytest.fixture
def trusting(codex: Codex) -> Codex:
    """Codex with CEMS set up, and its hooks trusted."""
    codex.approve()
    return codex


def given(turn: Turn) -> list[str]:
    """What the hooks put in front of the model in this turn and those before it, in order."""
    return [text for where, text in turn.request.texts if where == "developer" and "<cems-" in text]


def line_of(turn: Turn, text: str) -> str:
    lines = [line for block in given(turn) for line in block.splitlines() if text in line]
    assert len(lines) == 1, f"not given once: {text}\n{turn.text}"
    return lines[0]


def doctor(codex: Codex, cwd: Path) -> dict[str, Any]:
    """What `cems doctor` says of Codex."""
    answer = codex.sandbox.cems("doctor", "--json", cwd=cwd).json
    (found,) = (agent for agent in answer["agents"] if agent["name"] == "codex")
    return dict(found)


def test_canary_codex_passes_on_what_a_hook_prints(bare_codex: Codex) -> None:
    """Without CEMS. Red here means that this version of Codex takes hook output in another way."""
    answer = {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "bird é 漢"}}
    printed = bare_codex.file("answer.json")
    printed.write_text(json.dumps(answer))
    hook = {"type": "command", "command": f"cat {printed}"}
    bare_codex.write_json(".codex/hooks.json", {"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}})
    project = bare_codex.sandbox.project("canary")
    assert "bird" not in bare_codex.ask("hello", cwd=project).text, "a hook ran that nobody has trusted"
    bare_codex.approve()
    turn = bare_codex.ask("hello", cwd=project)
    assert ("developer", "bird é 漢") in turn.request.texts, turn.text


def test_until_the_person_trusts_the_hooks_nothing_arrives_and_doctor_says_what_to_do(codex: Codex) -> None:
    project = codex.sandbox.project("shop")
    remember(codex.sandbox, DEPLOY, project)
    assert given(codex.ask(DEPLOY_PROMPT, cwd=project)) == []
    before = doctor(codex, project)
    assert (before["trusted"], before["ok"]) == ("untrusted", False)
    assert "/hooks" in str(before["todo"])

    codex.approve()
    turn = codex.ask(DEPLOY_PROMPT, cwd=project)
    assert len(given(turn)) == 1
    assert "trusted" in line_of(turn, DEPLOY)
    after = doctor(codex, project)
    assert (after["trusted"], after["ok"], after["version"]) == ("trusted", True, "0.171.0")
    assert after["last_hook"]
    assert after["last_injection"]


def test_an_unrelated_prompt_goes_out_with_nothing_of_ours(trusting: Codex) -> None:
    project = trusting.sandbox.project("shop")
    remember(trusting.sandbox, DEPLOY, project)
    first = trusting.ask(UNRELATED_PROMPT, cwd=project)
    assert given(first) == []
    assert "make ship" not in first.text
    # The control: the memory was there to be found in this very session.
    again = trusting.ask(DEPLOY_PROMPT, cwd=project, resume=first.session)
    assert DEPLOY in line_of(again, DEPLOY)
    # It comes right behind the prompt it is for.
    texts = [text for _, text in again.request.texts]
    assert DEPLOY in texts[texts.index(DEPLOY_PROMPT) + 1]


def test_a_session_is_given_its_profile_and_each_memory_once_however_often_it_is_resumed(trusting: Codex) -> None:
    project = trusting.sandbox.project("shop")
    remember(trusting.sandbox, PREFERENCE, project, "--category", "preferences", "--scope", "user")
    remember(trusting.sandbox, DEPLOY, project)
    first = trusting.ask(DEPLOY_PROMPT, cwd=project)
    assert [PREFERENCE in block for block in given(first)] == [True, False]
    texts = [text for _, text in first.request.texts]
    assert next(at for at, text in enumerate(texts) if PREFERENCE in text) < texts.index(DEPLOY_PROMPT)
    again = trusting.ask("and how do I deploy to production from a branch?", cwd=project, resume=first.session)
    assert (again.text.count(PREFERENCE), again.text.count(DEPLOY)) == (1, 1)


def test_a_typed_remember_is_the_persons_in_every_form_that_codex_lets_through(trusting: Codex) -> None:
    project = trusting.sandbox.project("shop")
    turn = trusting.ask(f"$remember {DEPLOY}", cwd=project)
    assert "CEMS stored this" in turn.text
    # The skill of that name goes along: Codex has found it where all agents look.
    assert any(where == "user" and text.startswith("<skill>") for where, text in turn.request.texts), turn.text
    trusting.ask("/remember The staging cluster is called blue-otter.", cwd=project)
    stored = {each["content"]: each for each in memories(trusting.sandbox, project)}
    assert set(stored) == {DEPLOY, "The staging cluster is called blue-otter."}
    assert {(each["trust"], each["source"]["actor"]) for each in stored.values()} == {("trusted", "person")}
    assert "trusted" in line_of(trusting.ask(DEPLOY_PROMPT, cwd=project), DEPLOY)


def test_the_tools_are_offered_and_run_where_codex_asks_nobody(trusting: Codex) -> None:
    project = trusting.sandbox.project("shop")
    script = [
        ToolUse("mcp__cems__memory_add", {"content": DEPLOY}),
        ToolUse("mcp__cems__memory_search", {"query": "deploy to production"}),
    ]
    trusting.model.script(*script, Text("Noted."))
    turn = trusting.ask("note down how we deploy", cwd=project, options=SANDBOXED)
    assert turn.answer == "Noted."
    assert {name for name in turn.request.tools if name.startswith("mcp__cems__memory_")} >= {
        f"mcp__cems__memory_{name}" for name in ("add", "search", "get", "history", "timeline", "update", "forget")
    }
    (stored,) = memories(trusting.sandbox, project)
    assert (stored["content"], stored["trust"], stored["source"]["actor"]) == (DEPLOY, "candidate", "agent")
    assert stored["source"]["agent"] == "codex"
    added, found = turn.requests[-1].tool_results[-2:]
    assert stored["id"][:8] in added
    assert "make ship" in found
    # To forget destroys: without a person to ask, Codex refuses it.
    trusting.model.script(ToolUse("mcp__cems__memory_forget", {"id": stored["id"], "reason": "x"}), Text("Sorry."))
    refused = trusting.ask("forget it", cwd=project, options=SANDBOXED)
    assert "requires approval" in refused.requests[-1].tool_results[-1]
    assert len(memories(trusting.sandbox, project)) == 1
    assert "unverified" in line_of(trusting.ask(DEPLOY_PROMPT, cwd=project), DEPLOY)


def test_a_gate_rule_stops_a_command_and_tells_the_model_why(trusting: Codex) -> None:
    project = trusting.sandbox.project("shop")
    trusting.sandbox.cems("rule", "add", "Bash: git push --force* — never", cwd=project).ok()
    trusting.model.script(
        ToolUse("exec_command", {"cmd": "git push --force || touch ran"}),
        ToolUse("exec_command", {"cmd": "touch control"}),
        Text("It is not allowed."),
    )
    turn = trusting.ask("push it", cwd=project)
    assert "forbids this call" in turn.requests[1].tool_results[-1]
    assert (project / "control").exists(), "no command ran at all"
    assert not (project / "ran").exists()


def test_a_rule_that_wants_to_be_asked_waits_for_the_persons_yes(trusting: Codex) -> None:
    """Codex lets a tool run where a hook answers `ask`; so the call is refused, and the model asks."""
    project = trusting.sandbox.project("shop")
    trusting.sandbox.cems("rule", "add", "Bash: git push --force* — ask first", cwd=project).ok()
    push = ToolUse("exec_command", {"cmd": "git push --force || touch ran"})
    trusting.model.script(push, Text("May I push with --force?"))
    turn = trusting.ask("push it", cwd=project)
    assert "cannot ask the person here" in turn.requests[1].tool_results[-1]
    assert not (project / "ran").exists()
    trusting.model.script(push, Text("Pushed."))
    trusting.ask("yes", cwd=project, resume=turn.session)
    assert (project / "ran").exists()


def test_a_rule_that_warns_lets_the_command_run(trusting: Codex) -> None:
    project = trusting.sandbox.project("shop")
    trusting.sandbox.cems("rule", "add", "[warn] Bash: touch * — files are made with make", cwd=project).ok()
    trusting.model.script(ToolUse("exec_command", {"cmd": "touch made"}), Text("Done."))
    turn = trusting.ask("make the file", cwd=project)
    assert (project / "made").exists()
    assert "files are made with make" in turn.requests[-1].text


def test_a_rule_on_a_file_holds_for_a_patch_in_the_shell(trusting: Codex) -> None:
    project = trusting.sandbox.project("shop")
    trusting.sandbox.cems("rule", "add", "Edit: secrets/** — never", cwd=project).ok()
    patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch\nEOF\n"
    trusting.model.script(
        ToolUse("exec_command", {"cmd": patch.format("secrets/key.txt")}),
        ToolUse("exec_command", {"cmd": patch.format("notes.txt")}),
        Text("Done."),
    )
    trusting.ask("patch it", cwd=project)
    assert (project / "notes.txt").exists()
    assert not (project / "secrets").exists()


def test_a_subagent_is_given_nothing_and_takes_nothing_away(trusting: Codex) -> None:
    project = trusting.sandbox.project("shop")
    remember(trusting.sandbox, DEPLOY, project)
    spawn = ToolUse("multi_agent_v1__spawn_agent", {"message": DEPLOY_PROMPT, "agent_type": "default"})
    # Whichever of the two asks first, the other has time to ask before Codex leaves.
    pause = ToolUse("exec_command", {"cmd": "sleep 5", "yield_time_ms": 10_000})
    trusting.model.script(spawn, pause, pause, Text("Started."))
    turn = trusting.ask(UNRELATED_PROMPT, cwd=project)
    of_subagent = [each for each in turn.requests if UNRELATED_PROMPT not in each.text]
    assert all(DEPLOY not in each.text for each in turn.requests)
    assert of_subagent, "no subagent ran"
    assert DEPLOY in line_of(trusting.ask(DEPLOY_PROMPT, cwd=project, resume=turn.session), DEPLOY)


def test_after_uninstall_codex_is_as_it_was(bare_codex: Codex) -> None:
    codex, sandbox = bare_codex, bare_codex.sandbox
    project = sandbox.project("shop")
    foreign = {"type": "command", "command": "true"}
    codex.write_json(".codex/hooks.json", {"hooks": {"UserPromptSubmit": [{"hooks": [foreign]}]}})
    before = codex.ask(DEPLOY_PROMPT, cwd=project).request
    files = snapshot(sandbox.home)

    sandbox.cems("setup", "--yes").ok()
    remember(sandbox, DEPLOY, project)
    sandbox.cems("uninstall", "--yes").ok()
    assert snapshot(sandbox.home) == files

    # Codex writes into the same files meanwhile: what the person trusts.
    with_cems(codex)
    assert DEPLOY in line_of(codex.ask(DEPLOY_PROMPT, cwd=project), DEPLOY)
    sandbox.cems("setup", "--yes", "--no-prove").ok()
    assert doctor(codex, project)["trusted"] == "trusted"
    sandbox.cems("uninstall", "--yes").ok()
    after = codex.ask(DEPLOY_PROMPT, cwd=project)
    assert given(after) == []
    assert set(after.request.tools) == set(before.tools)
    assert codex.file(".codex/hooks.json").read_bytes() == files[".codex/hooks.json"][1]
    config = codex.file(".codex/config.toml").read_text()
    assert config.startswith(files[".codex/config.toml"][1].decode())
    assert "mcp_servers" not in tomllib.loads(config)
