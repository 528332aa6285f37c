"""Set up, let the agent write its files anew, upgrade, take out: what is the person's is as it was, for every agent."""

from __future__ import annotations

import json
import random
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tomlkit
import yaml  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.person import Person

from cems.adapters.hook_groups import HookGroups
from cems.adapters.hook_list import HookList
from cems.adapters.json_edit import JsoncText
from cems.adapters.tool_server import ToolServer
from cems.core.service.adapters import packaged_agents

NAMES = st.sampled_from(["theirs", "mine-2", "a b", "é", "hooks-x", "x.y"])
WORDS = st.sampled_from(["x", "", "// no comment", "# no comment", 'a "b"', "ja, [nein] {x}", "C:\\x", "é 漢"])
SCALARS = WORDS | st.booleans() | st.integers(-(2**40), 2**40)
SERVER = st.fixed_dictionaries(
    {"command": WORDS, "args": st.lists(WORDS, max_size=2)}, optional={"env": st.dictionaries(NAMES, WORDS, max_size=2)}
)
THEIR_HOOK = st.fixed_dictionaries(
    {"type": st.just("command"), "command": st.sampled_from(["theirs --x", "cems-hook y"])}
)
GROUP = st.fixed_dictionaries(
    {"hooks": st.lists(THEIR_HOOK, min_size=1, max_size=2)}, optional={"matcher": st.sampled_from(["Bash", ""])}
)
SETTINGS = st.dictionaries(st.sampled_from(["model", "theme", "env2", "permissions2"]), SCALARS, max_size=3)


def _hooks(*events: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from([*events, "Notification"]), st.lists(GROUP, max_size=2), max_size=3)


def _with(strategy: st.SearchStrategy[dict[str, Any]], **parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A document of `strategy` that may have `parts` besides, in any order."""
    more = st.fixed_dictionaries({}, optional=dict(parts))
    return st.tuples(strategy, more, st.randoms(use_true_random=False)).map(_shuffled)


def _shuffled(drawn: tuple[dict[str, Any], dict[str, Any], random.Random]) -> dict[str, Any]:
    items = list({**drawn[0], **drawn[1]}.items())
    drawn[2].shuffle(items)
    return dict(items)


def _json(document: Any, chance: random.Random) -> str:
    indent = chance.choice([None, 1, 2, 4, "\t"])
    return json.dumps(document, indent=indent, ensure_ascii=chance.random() < 0.5)


def _jsonc(document: Any, chance: random.Random) -> str:
    lines = json.dumps(document, indent=2, ensure_ascii=False).split("\n")
    return "\n".join(line + chance.choice(["", "", " // c", " /* } */"]) for line in lines)


def _toml(document: Any, chance: random.Random) -> str:
    return chance.choice(["", "# mine\n", "\n"]) + tomlkit.dumps(document)


def _yaml(document: Any, chance: random.Random) -> str:
    text = (
        yaml.safe_dump(document, sort_keys=False, allow_unicode=True, indent=chance.choice([2, 4])) if document else ""
    )
    return chance.choice(["", "# mine\n", "---\n"]) + text


@dataclass(frozen=True)
class Format:
    write: Callable[[Any, random.Random], str]
    read: Callable[[str], Any]
    rewrite: Callable[[Any], str]


JSON = Format(_json, json.loads, lambda document: json.dumps(document, indent=2))
JSONC = Format(_jsonc, lambda text: JsoncText(text).get(), lambda document: json.dumps(document, indent=4))
TOML = Format(_toml, tomllib.loads, tomlkit.dumps)
YAML = Format(_yaml, lambda text: yaml.safe_load(text) or {}, lambda document: yaml.safe_dump(document))

Files = dict[str, tuple[Format, st.SearchStrategy[Any]]]
SERVERS = st.dictionaries(NAMES, SERVER, max_size=2)
AGENTS: dict[str, Files] = {
    "claude-code": {
        ".claude/settings.json": (
            JSON,
            _with(
                SETTINGS,
                hooks=_hooks("Stop", "UserPromptSubmit", "PreToolUse"),
                permissions=st.fixed_dictionaries({"allow": st.lists(WORDS, max_size=2)}),
            ),
        ),
        ".claude.json": (JSON, _with(SETTINGS, mcpServers=SERVERS)),
    },
    "codex": {
        ".codex/config.toml": (TOML, _with(SETTINGS, mcp_servers=SERVERS)),
        ".codex/hooks.json": (JSON, _with(st.just({}), hooks=_hooks("Stop", "UserPromptSubmit"))),
    },
    "copilot": {".copilot/mcp-config.json": (JSON, _with(st.just({}), mcpServers=SERVERS))},
    "cursor": {
        ".cursor/hooks.json": (
            JSONC,
            st.dictionaries(
                st.sampled_from(["stop", "beforeSubmitPrompt", "afterFileEdit"]),
                st.lists(THEIR_HOOK, max_size=2),
                max_size=2,
            ).map(lambda hooks: {"version": 1, "hooks": hooks}),
        ),
        ".cursor/mcp.json": (JSONC, _with(st.just({}), mcpServers=SERVERS)),
    },
    "gemini": {
        ".gemini/settings.json": (JSONC, _with(SETTINGS, hooks=_hooks("BeforeAgent", "AfterAgent"), mcpServers=SERVERS))
    },
    "goose": {
        ".config/goose/config.yaml": (
            YAML,
            _with(SETTINGS, extensions=SERVERS, plugins=st.dictionaries(NAMES, st.just({"enabled": True}), max_size=2)),
        )
    },
    "opencode": {".config/opencode/opencode.json": (JSONC, _with(SETTINGS, mcp=SERVERS))},
    "pi": {".pi/agent/mcp.json": (JSON, _with(st.just({}), mcpServers=SERVERS))},
}


@st.composite
def homes(draw: st.DrawFn, files: Files) -> tuple[dict[str, bytes], bool]:
    """The files' contents, some of them absent or blank; and whether the agent writes them anew."""
    made: dict[str, bytes] = {}
    for name, (kind, documents) in files.items():
        state = draw(st.sampled_from(["there", "there", "there", "absent", "blank"]))
        if state == "absent" and made:
            continue
        text = "" if state != "there" else kind.write(draw(documents), draw(st.randoms(use_true_random=False)))
        text += draw(st.sampled_from(["", "\n"]))
        if draw(st.booleans()):
            text = text.replace("\n", "\r\n")
        made[name] = (draw(st.sampled_from(["", "", "\ufeff"])) + text).encode() if state == "there" else text.encode()
    return made, draw(st.booleans())


@contextmanager
def _older_version() -> Iterator[None]:
    """What is set up in here is what a version with other time limits would have written."""
    with pytest.MonkeyPatch.context() as patch:
        for part in (HookGroups, HookList, ToolServer):
            desired = part.desired

            def older(self: Any, name: str, desired: Any = desired) -> Any:
                return _aged(desired(self, name))

            patch.setattr(part, "desired", older)
        yield


def _aged(entry: Any) -> Any:
    if isinstance(entry, dict):
        return {key: value + 1 if key in ("timeout", "timeoutSec") else _aged(value) for key, value in entry.items()}
    return [_aged(each) for each in entry] if isinstance(entry, list) else entry


@contextmanager
def _person(files: dict[str, bytes]) -> Iterator[Person]:
    with tempfile.TemporaryDirectory() as root:
        for name, content in files.items():
            (Path(root) / name).parent.mkdir(parents=True, exist_ok=True)
            (Path(root) / name).write_bytes(content)
        yield Person(Path(root))


def test_all_agents_with_files_of_the_persons_are_here() -> None:
    assert set(AGENTS) == set(packaged_agents())


@pytest.mark.parametrize("agent", AGENTS)
def test_what_is_the_persons_is_as_it_was(agent: str) -> None:
    files = AGENTS[agent]

    @settings(max_examples=8, deadline=None)
    @given(homes(files))
    def check(drawn: tuple[dict[str, bytes], bool]) -> None:
        contents, rewritten = drawn
        with _person(contents) as person:
            before = person.tree(without=(".cems",))
            with _older_version():
                person.setup()
            assert [each for each in person.plan().agents if each.edits], "an older version's entries look like ours"
            plan = person.setup()
            assert [each.problem for each in plan.agents if each.agent.name == agent] == [""]
            assert not person.plan().changes
            if rewritten:
                # In the layout of the agent, between two versions of us.
                for name, (kind, _) in files.items():
                    path = person.root / name
                    if path.exists():
                        path.write_text(kind.rewrite(kind.read(path.read_text("utf-8-sig"))), "utf-8")
                assert not [each for each in person.plan().agents if each.edits]
            person.uninstall()
            if not rewritten:
                assert person.tree(without=(".cems",)) == before
                return
            for name, (kind, _) in files.items():
                was = contents.get(name, b"").decode("utf-8-sig").strip()
                path = person.root / name
                now = path.read_text("utf-8-sig").strip() if path.exists() else ""
                assert (kind.read(now) if now else {}) == (kind.read(was) if was else {})

    check()
