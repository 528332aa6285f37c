"""Whether Codex runs our hooks: only those a person has trusted, each by a digest of exactly what it says.

The person gives that in Codex itself; nothing here gives it for them. `hooks.state` in `config.toml` has the digest that
was trusted. What it is compared with is worked out here as Codex 0.171 does it; another version of Codex, or a digest that
differs, and the program itself is asked, in a throwaway folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from cems.adapters.base import Trust
from cems.adapters.document import Document
from cems.adapters.hook_groups import HookGroups

HOW = (
    "It runs hooks only once you have trusted them, and skips them without a word until then: start `codex` once, and when it "
    'says "Hooks need review", look at them and choose "Trust all and continue" (later: type /hooks and press t). '
    "`cems doctor` says whether it is done"
)
_ADVICE = 'start `codex`, type /hooks, look at the hooks of CEMS and press t; or "Trust all and continue" when it asks'
_SWITCHED_ON = "start `codex`, type /hooks and switch the hooks of CEMS on again"
KNOWN_VERSIONS = ("0.171.",)
"""Versions whose digests `digest_of` gives."""
_SECONDS = 5.0
# So that it calls nobody: its list of plugins comes from the network, and a proxy where nothing listens stops the rest.
_QUIET = b"""\
check_for_update_on_startup = false
[analytics]
enabled = false
[features]
plugins = false
apps = false
"""
_NOWHERE = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
# Codex's own time limit and the longest it allows, in seconds.
_IN_A_TURN, _AT_THE_END = (600, 1 << 32), (1, 3)
# Events whose hooks have no matcher, and those that may add context: what else stands in an entry does not count there.
_NO_MATCHER = ("UserPromptSubmit", "Stop", "SessionEnd")
_CONTEXT = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "SubagentStart")


class Place(NamedTuple):
    """A hook in `hooks.json`: its event, the number of its group and its own number in that."""

    event: str
    group: int
    hook: int


def trust(
    events: Document, config: Document, hooks: HookGroups, program: Path | None = None, version: str = ""
) -> Trust:
    """How things stand. Runs Codex, time-limited and away from the person's folders, where the files do not tell."""
    ours = [Place(*place) for place in hooks.places()]
    if not ours:
        return Trust("not needed")
    states = dict(_states(config, events.path))
    given = [states.get(place, {}) for place in ours]
    if any(state.get("enabled") is False for state in given):
        return Trust("untrusted", _SWITCHED_ON)
    if any(not isinstance(state.get("trusted_hash"), str) for state in given):
        return Trust("untrusted", _ADVICE)
    known = version.startswith(KNOWN_VERSIONS) or program is None
    if known and all(
        state["trusted_hash"] == digest_at(events, place) for state, place in zip(given, ours, strict=True)
    ):
        return Trust("trusted")
    told = _asked(program, events.before or b"") if program else {}
    if not told:
        return Trust("modified", _ADVICE) if known else Trust("unknown", "")
    same = all(state["trusted_hash"] == told.get(place) for state, place in zip(given, ours, strict=True))
    return Trust("trusted") if same else Trust("modified", _ADVICE)


def digest_at(events: Document, place: Place) -> str:
    group = events.get("hooks", place.event, place.group)
    return digest_of(place.event, group.get("matcher"), group["hooks"][place.hook])


def digest_of(event: str, matcher: str | None, entry: Mapping[str, Any]) -> str:
    """What Codex 0.171 records when a person trusts this hook."""
    default, most = _AT_THE_END if event == "SessionEnd" else _IN_A_TURN
    hook = {
        "type": "command",
        "command": entry["command"],
        "timeout": min(entry.get("timeout", default), most),
        "async": entry.get("async", False),
    }
    if entry.get("statusMessage") is not None:
        hook["statusMessage"] = entry["statusMessage"]
    if event in _CONTEXT and entry.get("additionalContextLimit") is not None:
        hook["additionalContextLimit"] = entry["additionalContextLimit"]
    said: dict[str, Any] = {"event_name": label(event), "hooks": [hook]}
    if matcher is not None and event not in _NO_MATCHER:
        said["matcher"] = matcher
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def label(event: str) -> str:
    """`UserPromptSubmit` as Codex writes it in a hook's key: `user_prompt_submit`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()


def _states(config: Document, path: Path) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    """What `hooks.state` says of each hook in the file at `path`; the keys are `<path>:user_prompt_submit:0:0`."""
    found = config.get("hooks", "state")
    for key, state in found.items() if isinstance(found, dict) else ():
        parts = key.rsplit(":", 3)
        if len(parts) == 4 and isinstance(state, dict) and _same_file(parts[0], path):
            event = "".join(word.capitalize() for word in parts[1].split("_"))
            if parts[2].isdecimal() and parts[3].isdecimal():
                yield Place(event, int(parts[2]), int(parts[3])), state


def _same_file(one: str, other: Path) -> bool:
    return one == str(other) or os.path.realpath(one) == os.path.realpath(other)


def _asked(program: Path, hooks: bytes) -> dict[Place, str]:
    """The digest of each hook as this Codex works it out; empty when it does not say within some seconds.

    It is given a folder of its own with a copy of `hooks.json` and settings that keep it quiet: it neither writes into the
    person's nor has an account.
    """
    with tempfile.TemporaryDirectory(prefix="cems-codex-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "hooks.json").write_bytes(hooks)
        (folder / "config.toml").write_bytes(_QUIET)
        environ = {"HOME": name, "CODEX_HOME": name, "PATH": os.environ.get("PATH", os.defpath), **_NOWHERE}
        try:
            process = subprocess.Popen(
                [str(program), "app-server"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env=environ,
                start_new_session=True,
            )
        except OSError:
            return {}
        end = threading.Timer(_SECONDS, _end, (process,))
        end.start()
        try:
            return dict(_conversation(process.stdin, process.stdout, name)) if process.stdin and process.stdout else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        finally:
            end.cancel()
            _end(process)
            process.communicate()


def _conversation(to: IO[bytes], answers: IO[bytes], folder: str) -> Iterator[tuple[Place, str]]:
    client = {"name": "cems", "title": "CEMS", "version": "1"}
    for message in (
        {"id": 1, "method": "initialize", "params": {"clientInfo": client}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [folder]}},
    ):
        to.write(json.dumps(message).encode() + b"\n")
    to.flush()
    for line in answers:
        answer = json.loads(line)
        if answer.get("id") != 2:
            continue
        for hook in answer["result"]["data"][0]["hooks"]:
            _, event, group, place = hook["key"].rsplit(":", 3)
            if hook["source"] == "user":
                name = "".join(word.capitalize() for word in event.split("_"))
                yield Place(name, int(group), int(place)), str(hook["currentHash"])
        return


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (OSError, AttributeError):
            process.kill()
