"""Our part of Claude Code's configuration: hooks and allow rules in `settings.json`, a tool server in
`.claude.json`, skills in `skills/`. Reads, and returns edits; `cems.adapters.base.Agent` says what each
function means.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cems.adapters.base import (
    AgentRecord,
    ConfigUnreadable,
    FileEdit,
    Launchers,
    Machine,
    WiredState,
    Wiring,
    Wish,
    read_file,
)
from cems.adapters.claude_code import skill_files
from cems.adapters.claude_code.detect import at_folder, config_dir, state_file
from cems.adapters.json_edit import JsonText, NotJson

# Event, script, Claude's time limit in seconds. The hook's own deadline (1 s) lies well inside. Only events
# that do something: each wired one costs a process, and a tool event would cost one for every tool call.
HOOKS = (
    ("SessionStart", "cems_session_start", 10),
    ("UserPromptSubmit", "cems_user_prompts_submit", 10),
    ("Stop", "cems_stop", 5),
    ("SessionEnd", "cems_session_end", 5),
    ("PreCompact", "cems_pre_compact", 5),
)

# Without an allow rule Claude refuses a tool in `-p` and asks each time otherwise. Reading is harmless;
# what an agent adds is a candidate, labelled unverified. Changing and forgetting are not in the list: there
# Claude asks.
MANIFEST: dict[str, Any] = json.loads((Path(__file__).parent / "mcp.json").read_bytes())
SERVER: str = MANIFEST["name"]
RULES: tuple[str, ...] = tuple(MANIFEST["allow"])


def hook_command(launchers: Launchers, script: str) -> str:
    """The command line Claude gives its shell; always the same bytes, since equal commands run only once."""
    return f"{shlex.quote(str(launchers.hook))} {script}"


def wire(machine: Machine, launchers: Launchers, wish: Wish) -> Wiring:
    files = _Files(machine, launchers)
    before, known = set(files.present()), wish.known
    # Our hooks without a record: the record was lost, and what is there is ours again.
    owned = before if known is None and any(name.startswith("hook ") for name in before) else set()
    owned |= {name for name in before if not name.startswith("allow ")}
    owned |= before & set(known.entries if known else ())
    gone = set((known.entries + known.removed) if known and not wish.repair else ())
    removed: list[str] = []
    notes: list[str] = []
    for name in files.wanted(wish.permissions):
        if name in before:
            continue
        if name in gone:
            removed.append(name)
        else:
            files.add(name)
            owned.add(name)
    settings = files.settings.edit(_summary(owned - before))
    state = files.state.edit(f"the tool server `{SERVER}`")
    edits = [edit for edit in (settings, state) if edit]
    for name, of_skill in skill_files.add(files.folder, wish, notes):
        if name in gone and name not in set(skill_files.present(files.folder)):
            removed.append(name)
            continue
        owned.add(name)
        edits += of_skill
    if files.foreign_server():
        notes.append(
            f"{files.state.path} already has a tool server named `{SERVER}` that runs something else. "
            "It is left alone and ours is not added; rename or remove it and run `cems setup` again"
        )
    if removed:
        notes.append(f"taken out by you and left out: {', '.join(removed)}; `cems setup --repair` brings it back")
    notes += _switched_off(files)
    return Wiring(files.folder, tuple(edits), tuple(sorted(owned)), tuple(removed), tuple(notes))


def _summary(added: set[str]) -> str:
    """What is new in `settings.json`, for the plan that a person reads."""
    events = [event for event, _, _ in HOOKS if f"hook {event}" in added]
    tools = [rule.rpartition("__")[2] for rule in RULES if f"allow {rule}" in added]
    parts = [f"hooks for {', '.join(events)}"] if events else []
    if tools:
        parts.append(f"{', '.join(tools)} allowed unasked (--no-permissions leaves that out)")
    return "; ".join(parts)


def unwire(machine: Machine, launchers: Launchers, record: AgentRecord) -> tuple[FileEdit, ...]:
    files = _Files(at_folder(machine, record.config_dir), launchers)
    files.remove(record)
    edits = []
    for document in (files.settings, files.state):
        known = record.file(document.path)
        edit = document.edit("take out what CEMS put there")
        if edit and known and not known.original and document.text.get() == {}:
            edit = FileEdit(document.path, document.before, None, "remove the file CEMS made")
        if edit:
            edits.append(edit)
    return (*edits, *skill_files.take_out(files.folder, record))


def wired(machine: Machine, launchers: Launchers, record: AgentRecord) -> WiredState:
    files = _Files(at_folder(machine, record.config_dir), launchers)
    problems = _switched_off(files)
    if files.foreign_server():
        problems.append(f"the tool server `{SERVER}` in {files.state.path} runs something else")
    problems += [f"{files.settings.path} runs {gone}, which is not there" for gone in files.dead_hooks()]
    return WiredState((*files.present(), *skill_files.present(files.folder)), tuple(problems))


def _switched_off(files: _Files) -> list[str]:
    if files.settings.text.get(("disableAllHooks",)) is True:
        return [f"`disableAllHooks` is true in {files.settings.path}: no hook runs until you change it"]
    return []


class _Document:
    """A file being edited: its text so far, and which containers the edits had to make."""

    def __init__(self, path: Path, lock: Path | None = None) -> None:
        """Raises ConfigUnreadable unless the file is absent, blank (nothing set yet) or a JSON object."""
        self.path, self.lock = path, lock
        self.before = read_file(path)
        self.containers: list[str] = []
        try:
            self.text = JsonText.parse(self.before) if self.before and self.before.strip() else JsonText("{}\n")
            self.text.require((), dict)
        except NotJson as problem:
            raise ConfigUnreadable(path, problem.line, problem.reason) from None
        self._start = bytes(self.text)

    def hold(self, *steps: str, kind: type[dict[str, Any]] | type[list[Any]]) -> None:
        """Make the container at `steps` unless it is there; ConfigUnreadable when something else is."""
        try:
            self.text.require(steps, kind)
        except NotJson as problem:
            raise ConfigUnreadable(self.path, problem.line, problem.reason) from None
        if self.text.get(steps) is None:
            self.text = self.text.with_member(steps[:-1], steps[-1], kind())
            self.containers.append("".join(f"/{step}" for step in steps))

    def list_at(self, *steps: str | int) -> list[Any]:
        found = self.text.get(steps)
        return found if isinstance(found, list) else []

    def remove(self, *steps: str | int) -> None:
        self.text = self.text.without(steps)

    def edit(self, summary: str) -> FileEdit | None:
        after = bytes(self.text)
        if after == self._start:
            return None
        return FileEdit(self.path, self.before, after, summary, tuple(self.containers), lock=self.lock)


class _Files:
    """The two files, and each entry of ours in them by the name the record keeps it under."""

    def __init__(self, machine: Machine, launchers: Launchers) -> None:
        self.launchers = launchers
        self.folder = config_dir(machine)
        self.settings = _Document(self.folder / "settings.json")
        state = state_file(machine, self.folder)
        self.state = _Document(state, lock=state.with_name(state.name + ".lock"))

    def wanted(self, permissions: bool) -> list[str]:
        tools = [] if self.foreign_server() else [f"tools {SERVER}"]
        rules = [f"allow {rule}" for rule in RULES] if tools and permissions else []
        return [f"hook {event}" for event, _, _ in HOOKS] + tools + rules

    def present(self) -> Iterator[str]:
        """Names of the entries that are there, in whatever form the agent or the person has left them."""
        for event, _, _ in HOOKS:
            if next(self._our_hooks(event), None):
                yield f"hook {event}"
        if self._is_ours(self._server()):
            yield f"tools {SERVER}"
        rules = self.settings.list_at("permissions", "allow")
        for rule in RULES:
            if any(found in rules for found in (rule, f"mcp__{SERVER}", f"mcp__{SERVER}__*")):
                yield f"allow {rule}"

    def add(self, name: str) -> None:
        kind, _, what = name.partition(" ")
        if kind == "hook":
            event, script, seconds = next(hook for hook in HOOKS if hook[0] == what)
            self.settings.hold("hooks", kind=dict)
            self.settings.hold("hooks", event, kind=list)
            hook = {"type": "command", "command": hook_command(self.launchers, script), "timeout": seconds}
            self.settings.text = self.settings.text.with_item(("hooks", event), {"hooks": [hook]})
        elif kind == "allow":
            self.settings.hold("permissions", kind=dict)
            self.settings.hold("permissions", "allow", kind=list)
            self.settings.text = self.settings.text.with_item(("permissions", "allow"), what)
        else:
            self.state.hold("mcpServers", kind=dict)
            entry = {**MANIFEST["server"], "command": str(self.launchers.mcp)}
            self.state.text = self.state.text.with_member(("mcpServers",), SERVER, entry)

    def remove(self, record: AgentRecord) -> None:
        """Take out every entry of ours, then the containers that were made for them and are empty now."""
        emptied = {"/hooks", "/permissions", "/permissions/allow", "/mcpServers"}
        for event, _, _ in HOOKS:
            for group, hook in sorted(self._our_hooks(event), reverse=True):
                self.settings.remove("hooks", event, group, "hooks", hook)
                if not self.settings.list_at("hooks", event, group, "hooks"):
                    self.settings.remove("hooks", event, group)
                emptied.add(f"/hooks/{event}")
        if self._is_ours(self._server()):
            self.state.remove("mcpServers", SERVER)
        rules = self.settings.list_at("permissions", "allow")
        ours = {f"allow {rule}" for rule in RULES} & set(record.entries)
        for index in reversed(range(len(rules))):
            if isinstance(rules[index], str) and f"allow {rules[index]}" in ours:
                self.settings.remove("permissions", "allow", index)
        for document in (self.settings, self.state):
            known = record.file(document.path)
            for pointer in sorted(known.containers if known else emptied, key=len, reverse=True):
                steps = tuple(pointer.split("/")[1:])
                if bytes(document.text) != document.before and document.text.get(steps) in ({}, []):
                    document.remove(*steps)

    def foreign_server(self) -> bool:
        return self._server() is not None and not self._is_ours(self._server())

    def dead_hooks(self) -> Iterator[str]:
        """Launchers that hooks name and that no longer exist: what a removed folder leaves behind."""
        hooks = self.settings.text.get(("hooks",))
        lists = [found for found in hooks.values() if isinstance(found, list)] if isinstance(hooks, dict) else []
        groups = [group for found in lists for group in found if isinstance(group, dict)]
        found = [hook for group in groups if isinstance(group.get("hooks"), list) for hook in group["hooks"]]
        for program in sorted({_program(hook.get("command")) for hook in found if isinstance(hook, dict)}):
            if Path(program).name == "cems-hook" and not Path(program).exists():
                yield program

    def _server(self) -> Any:
        return self.state.text.get(("mcpServers", SERVER))

    def _is_ours(self, server: Any) -> bool:
        return isinstance(server, dict) and server.get("command") == str(self.launchers.mcp)

    def _our_hooks(self, event: str) -> Iterator[tuple[int, int]]:
        """Group and place of each hook of this event that runs our launcher."""
        for at, group in enumerate(self.settings.list_at("hooks", event)):
            hooks = group.get("hooks") if isinstance(group, dict) else None
            for place, hook in enumerate(hooks if isinstance(hooks, list) else []):
                if isinstance(hook, dict) and _program(hook.get("command")) == str(self.launchers.hook):
                    yield at, place


def _program(command: Any) -> str:
    """The program a hook's command line runs, "" when it is no command line."""
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return ""
    return words[0] if words else ""
