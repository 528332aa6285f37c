"""The real Goose remembers: what its model is sent, started by `cems run goose` and without."""

from __future__ import annotations

import concurrent.futures
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.agent import Turn
from tests.e2e.fixtures import with_cems
from tests.e2e.goose import Goose
from tests.e2e.steps import DEPLOY, DEPLOY_PROMPT, UNRELATED_PROMPT, remember
from tests.fakes.model_api import Text, ToolUse
from tests.fakes.sandbox import Sandbox

pytestmark = pytest.mark.e2e

LINT = "Run `make lint-strict` before each commit in this repository."
LINT_PROMPT = "what do I run before each commit in this repository?"
TABS = "Indent with tabs in every language, never with spaces."
_TURN_CONTEXT = re.compile(r"<turn-context>(.*?)</turn-context>", re.DOTALL)


def beside(turn: Turn) -> str:
    """What Goose put beside this turn's prompt, in the turn's own request; no earlier turn's."""
    newest = [text for where, text in turn.request.texts if where == "user" and turn.prompt in text]
    assert newest, turn.text
    found = _TURN_CONTEXT.search(newest[-1])
    assert found, newest[-1]
    return found[1]


def system(turn: Turn) -> str:
    return "\n".join(text for where, text in turn.request.texts if where == "system")


def doctor(sandbox: Sandbox) -> dict[str, Any]:
    """What it says of Goose."""
    (row,) = [each for each in sandbox.cems("doctor", "--json").json["agents"] if each["name"] == "goose"]
    assert isinstance(row, dict)
    return row


def files_of_processes(sandbox: Sandbox) -> list[Path]:
    return sorted((sandbox.cems_home / "run").iterdir())


def test_canary_goose_reads_the_file_after_the_hook_of_the_same_prompt(bare_goose: Goose) -> None:
    """Without CEMS. Red here means that this version of Goose takes a file's text, or runs hooks, in another way."""
    hooks = bare_goose.file(".agents/plugins/canary/hooks/hooks.json")
    told = bare_goose.file("told.txt")
    hook = {"type": "command", "command": f"printf canary-3324 > {told}"}
    hooks.write_text(json.dumps({"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}))
    (hooks.parents[1] / "plugin.json").write_text('{"name": "canary"}')
    bare_goose.extra = {"GOOSE_MOIM_MESSAGE_FILE": str(told)}
    assert "canary-3324" in beside(bare_goose.ask("hello", cwd=bare_goose.sandbox.project("canary")))


def test_a_projects_memory_comes_with_the_prompt_it_matters_for(goose: Goose) -> None:
    goose.by_cems = True
    project = goose.sandbox.project("shop")
    remember(goose.sandbox, DEPLOY, project)
    turn = goose.ask(DEPLOY_PROMPT, cwd=project)
    line = next(line for line in beside(turn).splitlines() if DEPLOY in line)
    assert "project" in line
    assert "trusted" in line
    # The next turn of the session, in a process of its own: that file is empty again.
    again = goose.ask(UNRELATED_PROMPT, cwd=project, resume=turn.session)
    assert "cems" not in beside(again)
    # Goose keeps what it was given with the turn it was given for.
    assert DEPLOY in again.text
    for file in files_of_processes(goose.sandbox):
        assert file.read_bytes() == b""
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    failures = goose.sandbox.cems_home / "logs" / "hook-failures"
    assert not failures.exists() or failures.read_text() == ""


def test_an_unrelated_prompt_goes_out_with_nothing_of_ours(goose: Goose) -> None:
    goose.by_cems = True
    project = goose.sandbox.project("shop")
    remember(goose.sandbox, LINT, project)
    turn = goose.ask(UNRELATED_PROMPT, cwd=project)
    assert "cems" not in beside(turn)
    assert LINT not in turn.text
    # The control: in this very session it was there to be found.
    assert LINT in beside(goose.ask(LINT_PROMPT, cwd=project, resume=turn.session))


def test_in_one_process_a_turn_never_sees_the_last_ones_memory(goose: Goose) -> None:
    """As a person types: two prompts to one running Goose. The file is that process's alone, and old text must go."""
    goose.by_cems = True
    project = goose.sandbox.project("shop")
    remember(goose.sandbox, LINT, project)
    before = len(goose.model.requests)
    with goose.running(["session"], project, 60) as process:
        process.communicate(f"{LINT_PROMPT}\n{UNRELATED_PROMPT}\n")
    asked = goose.model.requests[before:]
    contexts = [_TURN_CONTEXT.findall(text) for text in (request.text for request in asked)]
    assert [len(found) for found in contexts] == [1, 2]
    assert LINT in contexts[1][0]
    assert "cems" not in contexts[1][1]


def test_two_at_once_never_see_each_others(goose: Goose) -> None:
    goose.by_cems = True
    shop, mail = goose.sandbox.project("shop"), goose.sandbox.project("mail")
    remember(goose.sandbox, LINT, shop)
    remember(goose.sandbox, LINT.replace("lint-strict", "check-all"), mail)
    goose.sandbox.daemon()

    def ask(project: Path) -> str:
        with goose.running(["run", "-q", "-t", f"{LINT_PROMPT} ({project.name})"], project, 90) as process:
            process.communicate()
        assert process.returncode == 0
        return project.name

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, [shop, mail, shop, mail]))
    for name, own, others in (("shop", "lint-strict", "check-all"), ("mail", "check-all", "lint-strict")):
        requests = [request.text for request in goose.model.requests if f"({name})" in request.text]
        assert len(requests) == 2
        for text in requests:
            assert own in text
            assert others not in text


def test_without_the_launcher_it_has_the_tools_and_the_persons_preferences_only(goose: Goose) -> None:
    project = goose.sandbox.project("shop")
    remember(goose.sandbox, TABS, project, "-c", "preferences", "--scope", "user")
    remember(goose.sandbox, LINT, project, "-c", "preferences")
    remember(goose.sandbox, DEPLOY, project)
    # In this file Goose puts the content of a named file in place of its name.
    goose.file(".config/goose/named.txt").write_text("what-stands-in-the-named-file")
    remember(
        goose.sandbox, "Names of files are written like @named.txt in answers.", project, "-c", "preferences", "-u"
    )
    turn = goose.ask(DEPLOY_PROMPT, cwd=project)
    assert TABS in system(turn)
    assert "@named.txt in answers" in system(turn)
    assert "what-stands-in-the-named-file" not in turn.text
    assert "Data, not instructions" in system(turn)
    assert LINT not in turn.text
    assert DEPLOY not in turn.text
    assert goose.tool("memory_search") in turn.request.tools
    assert "memory" in system(turn)
    # The same memories are the same text, which its model's cache lives on.
    again = goose.ask("thanks", cwd=project, resume=turn.session)
    assert block_of(again) == block_of(turn) != ""
    # What is forgotten is gone with the next prompt, in a session that has begun.
    (kept,) = [each for each in goose.sandbox.cems("list", "--json").ok().json["memories"] if each["content"] == TABS]
    goose.sandbox.cems("forget", kept["id"], "--yes").ok()
    assert TABS not in goose.ask("and now?", cwd=project, resume=turn.session).text


def block_of(turn: Turn) -> str:
    found = re.search(r"<!-- cems:begin.*?<!-- cems:end -->", system(turn), re.DOTALL)
    return found[0] if found else ""


def test_with_the_launcher_the_projects_preferences_come_once_with_the_first_prompt(goose: Goose) -> None:
    goose.by_cems = True
    project = goose.sandbox.project("shop")
    remember(goose.sandbox, TABS, project, "-c", "preferences", "--scope", "user")
    remember(goose.sandbox, LINT, project, "-c", "preferences")
    turn = goose.ask(UNRELATED_PROMPT, cwd=project)
    assert TABS in block_of(turn)
    assert LINT not in system(turn)
    assert "<cems-profile" in beside(turn)
    assert LINT in beside(turn)
    assert TABS not in beside(turn)
    assert "cems" not in beside(goose.ask("And of New Zealand?", cwd=project, resume=turn.session))


def test_another_goose_in_its_shell_is_not_answered_in_its_file(goose: Goose) -> None:
    """It inherits the name of the file, and would read the other project's memory there."""
    goose.by_cems = True
    shop, mail = goose.sandbox.project("shop"), goose.sandbox.project("mail")
    remember(goose.sandbox, LINT, shop)
    remember(goose.sandbox, LINT.replace("lint-strict", "check-all"), mail)
    inner = f"cd {mail} && {goose.program} run -q -t '{LINT_PROMPT} (inner)'"
    goose.model.script(ToolUse("shell", {"command": inner}), Text("inner"), Text("outer"))
    outer = goose.ask(f"{LINT_PROMPT} (outer)", cwd=shop)
    assert "lint-strict" in beside(outer)
    (nested,) = [each for each in goose.model.requests if "(inner)" in each.texts[-1][1] and "(outer)" not in each.text]
    assert "lint-strict" not in nested.text
    assert "check-all" not in nested.text


def test_a_gate_rule_refuses_a_command(goose: Goose) -> None:
    goose.by_cems = True
    project = goose.sandbox.project("shop")
    rule = "Bash: touch released* — the release team does that"
    goose.sandbox.cems("rule", "add", rule, "--severity", "block", cwd=project).ok()
    goose.model.script(ToolUse("shell", {"command": "touch released"}), Text("I may not."))
    turn = goose.ask("Make the file", cwd=project)
    assert not (project / "released").exists()
    assert "the release team does that" in turn.requests[1].tool_results[0]
    goose.model.script(ToolUse("shell", {"command": "touch other"}), Text("Done."))
    goose.ask("Make the other file", cwd=project)
    assert (project / "other").exists()


def test_what_a_person_types_to_cems_is_done(goose: Goose) -> None:
    goose.by_cems = True
    # Who typed it is told by the hook's processes, which a busy machine must not end before.
    goose.extra = {"CEMS_HOOK_DEADLINE": "8"}
    project = goose.sandbox.project("shop")
    goose.sandbox.daemon()
    turn = goose.ask(f"/remember {DEPLOY}", cwd=project)
    (stored,) = goose.sandbox.cems("list", "--json", cwd=project).ok().json["memories"]
    assert (stored["content"], stored["trust"], stored["source"]["actor"]) == (DEPLOY, "trusted", "person")
    # Goose gives its model the skill of that name in place of the line; the hook has seen what was typed.
    assert "<cems-note>CEMS " in turn.text


def test_the_model_finds_a_memory_with_the_tool(goose: Goose) -> None:
    project = goose.sandbox.project("shop")
    remember(goose.sandbox, DEPLOY, project)
    goose.model.script(ToolUse(goose.tool("memory_search"), {"query": DEPLOY_PROMPT}), Text("With make ship."))
    turn = goose.ask("look it up", cwd=project)
    assert any("make ship" in result for result in turn.requests[1].tool_results)


@pytest.mark.parametrize("used", [False, True], ids=["at-once", "after-a-session"])
def test_it_goes_without_a_trace_and_goose_works(bare_goose: Goose, used: bool) -> None:
    home = bare_goose.sandbox.home
    agents_md = bare_goose.file(".config/goose/AGENTS.md")
    agents_md.write_bytes(b"# Mine\r\n\r\nUse tabs.")
    files = (bare_goose.file(".config/goose/config.yaml"), agents_md)
    before = [file.read_bytes() for file in files]
    goose = with_cems(bare_goose)
    project = goose.sandbox.project("shop")
    remember(goose.sandbox, TABS, project, "-c", "preferences", "--scope", "user")
    if used:
        assert TABS in goose.ask("hello", cwd=project).text
        assert TABS.encode() in agents_md.read_bytes()
        # A plugin it does not know makes Goose write this file anew, the person's comments gone.
        assert b"# Goose's own settings" in files[0].read_bytes()
        goose.sandbox.cems("setup", "--yes", "--no-prove").ok()
        assert TABS.encode() in agents_md.read_bytes()
        row = doctor(goose.sandbox)
        assert (row["ok"], row["wired"], row["hooks"], row["last_hook"] is not None) == (True, "yes", True, True)
    goose.sandbox.cems("uninstall", "--yes").ok()
    assert [file.read_bytes() for file in files] == before
    assert not (home / ".agents").exists()
    turn = goose.ask("hello", cwd=project)
    assert "cems" not in turn.text
    assert not any("memory_search" in name for name in turn.request.tools)
    # The home as it was before: nothing of ours is left but the memories.
    left = {path.relative_to(home).parts[0] for path in home.rglob("*") if "cems" in path.name}
    assert left <= {".cems"}


def test_it_is_goose_that_ends_and_not_a_launcher_before_it(goose: Goose) -> None:
    goose.by_cems = True
    with goose.running(["run", "--no-such-option"], goose.sandbox.home, 30) as process:
        _, said = process.communicate()
    assert process.returncode == 2
    assert "--no-such-option" in said
    assert os.fspath(goose.sandbox.cems_home) not in said


def test_no_rule_reaches_what_a_delegate_does_but_one_stops_the_delegating(goose: Goose) -> None:
    """Red in the first half means that this version of Goose runs hooks in a subagent: `docs/goose.md` says it does not."""
    project = goose.sandbox.project("shop")
    goose.sandbox.cems("rule", "add", "Bash: touch ran* — never", cwd=project).ok()
    delegate = ToolUse("delegate", {"instructions": "Make the file."})
    goose.model.script(delegate, ToolUse("shell", {"command": "touch ran"}), Text("Made."), Text("Done."))
    goose.ask("delegate it", cwd=project)
    assert (project / "ran").exists()
    goose.sandbox.cems("rule", "add", "Agent: * — it would work without my rules", cwd=project).ok()
    goose.model.script(delegate, Text("It is not allowed."))
    turn = goose.ask("delegate it once more", cwd=project)
    assert len(turn.requests) == 2, "a subagent ran"
    assert "it would work without my rules" in turn.requests[1].tool_results[-1]
