"""A day's work through the real hook command: `python benchmarks/day.py`.

200 prompts of 10 interleaved sessions in three projects over 5,000 memories (`day_texts.py`, made from a seed). The real
daemon and launcher, the hook's own deadline, a session-start and a session-end hook for each session. Half of the prompts
need a memory and ask for it in other words; half need nothing, some of which only another project could answer.

Reports latency beside a bare interpreter, who got what, tokens, memories given twice in a session, and hits of another
project's memories, of which one is a failure (exit 1). Writes results/day.json.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from day_texts import PROJECTS, Fact, Prompt, facts, prompts
from latency import HOOK, Place, started

from cems import __version__
from cems.core.paths import Home
from cems.core.service.client import Client, stop_daemon
from cems.core.service.hook_failures import hook_failures
from cems.core.tokens import count_tokens

RESULTS = Path(__file__).resolve().parent / "results" / "day.json"
_BATCH = 250
_PATIENCE = 600.0
_LINE = re.compile(r"^- \[(m_[0-9a-f]+) ", re.MULTILINE)
_SHORT = 10


@dataclass(slots=True)
class Answer:
    """What one hook gave: the short ids in its block, its tokens, and the seconds of the whole process."""

    ids: list[str]
    tokens: int
    seconds: float


@dataclass(slots=True)
class Day:
    """What happened. `prompts` holds each prompt, its answer, and whether its memory was in the session by then;
    `places` at which place a search for the same words finds the memory, for each that needs one (0: not in ten).
    """

    prompts: list[tuple[Prompt, Answer, bool]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    right: int = 0
    starts: list[Answer] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    repeats: int = 0
    wrong_project: int = 0
    rss_mib: float = 0.0
    unanswered: int = 0
    by_words: int = 0


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--seed", type=int, default=7)
    options.add_argument("--memories", type=int, default=5_000)
    options.add_argument("--prompts", type=int, default=200)
    options.add_argument("--sessions", type=int, default=10)
    options.add_argument("--output", type=Path, default=RESULTS)
    chosen = options.parse_args()
    own = chosen.memories // 10
    known, elsewhere = facts(chosen.seed, (chosen.memories - own) // len(PROJECTS), own)
    asked = prompts(chosen.seed, known, elsewhere, count=chosen.prompts, sessions=chosen.sessions)
    root = Path(tempfile.mkdtemp(prefix="cems-day-")).resolve()
    try:
        place = Place(root)
        # The hook as it is installed: with its own deadline.
        del place.environment["CEMS_HOOK_DEADLINE"]
        with started(place):
            day = live(place, known, asked)
    finally:
        stop_daemon(Home(root / ".cems"))
        shutil.rmtree(root, ignore_errors=True)
    result = summary(day, len(known))
    print(json.dumps(result, indent=2))
    configuration = {"cems": __version__, **{name: getattr(chosen, name) for name in ("seed", "prompts", "sessions")}}
    chosen.output.write_text(json.dumps({"configuration": configuration, **result}, indent=2) + "\n", "utf-8")
    print(f"written to {chosen.output}")
    return 1 if day.wrong_project else 0


def live(place: Place, known: Sequence[Fact], asked: Sequence[Prompt]) -> Day:
    """Keep the memories, then go through the day."""
    folders = {project: _repository(place.root / project) for project in PROJECTS}
    ids = _kept(place, folders, known)
    belongs = {short: fact.place for fact in known for short in (ids[_key(fact)],)}
    day = Day()
    last = {prompt.session: number for number, prompt in enumerate(asked)}
    given: dict[int, list[str]] = {}
    for number, prompt in enumerate(asked):
        project = PROJECTS[prompt.session % len(PROJECTS)]
        folder = folders[project]
        if prompt.session not in given:
            start = _hook(place, folder, prompt.session, "cems_session_start", "SessionStart", source="startup")
            day.starts.append(start)
            given[prompt.session] = start.ids
            day.wrong_project += _foreign(start, belongs, project)
        answer = _hook(place, folder, prompt.session, HOOK, "UserPromptSubmit", prompt=prompt.text)
        day.bare.append(place.bare())
        had = given[prompt.session]
        day.repeats += len(set(answer.ids) & set(had))
        day.wrong_project += _foreign(answer, belongs, project)
        had += answer.ids
        wanted = ids[_key(prompt.fact)] if prompt.fact else ""
        day.right += wanted in answer.ids
        day.prompts.append((prompt, answer, wanted in had))
        if last[prompt.session] == number:
            _hook(place, folder, prompt.session, "cems_session_end", "SessionEnd", reason="prompt_input_exit")
    day.places = [
        _place(_client(place, folders[PROJECTS[prompt.session % len(PROJECTS)]]), prompt.text, ids[_key(prompt.fact)])
        for prompt in asked
        if prompt.fact is not None
    ]
    client = _client(place, folders[PROJECTS[0]])
    day.rss_mib = client.call("status", {})["daemon"]["rss_mib"]
    day.unanswered = len(hook_failures(place.home))
    day.by_words = (place.home.logs / "daemon.log").read_text("utf-8").count("words only:")
    return day


def summary(day: Day, memories: int) -> dict[str, Any]:
    """The report. Shares are of all prompts of the kind; ratios are to a bare interpreter started in the same minute."""
    needing = [(prompt, had) for prompt, _, had in day.prompts if prompt.fact is not None]
    quiet = [(prompt, bool(answer.ids)) for prompt, answer, _ in day.prompts if prompt.fact is None]
    injections = [answer for _, answer, _ in day.prompts if answer.ids]
    per_session: Counter[int] = Counter()
    for prompt, answer, _ in day.prompts:
        per_session[prompt.session] += answer.tokens
    hook = [answer.seconds for _, answer, _ in day.prompts]
    return {
        "memories": memories,
        "hook_ratio": {"p50": _ratio(hook, day.bare, 0.5), "p95": _ratio(hook, day.bare, 0.95)},
        "session_start_ratio": {"p50": _ratio([start.seconds for start in day.starts], day.bare, 0.5)},
        "needing": {
            "prompts": len(needing),
            "served": _share([had for _, had in needing]),
            "by_kind": _by_kind([(_asked_how(prompt), had) for prompt, had in needing]),
            "first_in_search": _share([place == 1 for place in day.places]),
            "in_ten_of_search": _share([place > 0 for place in day.places]),
        },
        "quiet": {
            "prompts": len(quiet),
            "disturbed": _share([got for _, got in quiet]),
            "by_kind": _by_kind([(prompt.kind, got) for prompt, got in quiet]),
        },
        "injections": len(injections),
        "precision": round(day.right / max(1, sum(len(each.ids) for each in injections)), 3),
        "memories_per_injection": round(statistics.mean(len(each.ids) for each in injections), 2) if injections else 0,
        "tokens_per_injection": round(statistics.mean(each.tokens for each in injections)) if injections else 0,
        "tokens_per_session_start": round(statistics.mean(start.tokens for start in day.starts)),
        "tokens_of_prompts_per_session": round(statistics.mean(per_session.values())),
        "repeats": day.repeats,
        "wrong_project": day.wrong_project,
        "hooks_without_answer": day.unanswered,
        "answered_by_words_only": day.by_words,
        "daemon_rss_mib": day.rss_mib,
    }


def _kept(place: Place, folders: Mapping[str, Path], known: Sequence[Fact]) -> dict[tuple[str, str], str]:
    """Add all memories as the person, and wait until they can be found by meaning. Returns each one's short id."""
    ids: dict[tuple[str, str], str] = {}
    for project in PROJECTS:
        # The person's own are told in the first project's folder; their scope is named.
        mine = [fact for fact in known if fact.place == project or (not fact.place and project == PROJECTS[0])]
        client = _client(place, folders[project])
        for first in range(0, len(mine), _BATCH):
            batch = mine[first : first + _BATCH]
            items = [
                {"content": fact.text, "category": fact.category, "scope": "project" if fact.place else "user"}
                for fact in batch
            ]
            results = client.call("add_many", {"items": items}, timeout=_PATIENCE)["results"]
            for fact, outcome in zip(batch, results, strict=True):
                assert outcome["status"] == "added", outcome
                ids[_key(fact)] = outcome["id"][:_SHORT]
    assert client.call("settle", {"seconds": _PATIENCE}, timeout=_PATIENCE + 10)["settled"]
    assert len(set(ids.values())) == len(known), "two memories with one short id"
    return ids


def _hook(place: Place, folder: Path, session: int, script: str, event: str, **more: str) -> Answer:
    """One hook process, given what Claude Code gives it."""
    given = {
        "session_id": f"day-{session}",
        "transcript_path": str(place.root / "transcript.jsonl"),
        "cwd": str(folder),
        "hook_event_name": event,
        **more,
    }
    seconds, output = place.hook(json.dumps(given).encode(), script, folder)
    text = json.loads(output)["hookSpecificOutput"]["additionalContext"] if output else ""
    return Answer(_LINE.findall(text), count_tokens(text), seconds)


def _place(client: Client, words: str, wanted: str) -> int:
    """At which place of ten a search finds a memory; 0 for none."""
    found = client.call("search", {"query": words, "limit": 10})["memories"]
    return next((place for place, memory in enumerate(found, 1) if memory["id"].startswith(wanted)), 0)


def _asked_how(prompt: Prompt) -> str:
    """How a memory is asked for: for the second time, or whose it is and whether its subject is called by its name."""
    fact = prompt.fact
    if prompt.kind == "again" or fact is None:
        return prompt.kind
    return "the person's own" if not fact.place else "named" if fact.named else "in other words"


def _foreign(answer: Answer, belongs: Mapping[str, str], project: str) -> int:
    """How many of the memories in an answer belong to another project."""
    return sum(belongs[each] not in ("", project) for each in answer.ids)


def _client(place: Place, folder: Path) -> Client:
    return Client(place.home, {"client": "cli", "version": __version__, "cwd": str(folder)})


def _key(fact: Fact) -> tuple[str, str]:
    return fact.place, fact.text


def _repository(folder: Path) -> Path:
    folder.mkdir()
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    return folder


def _by_kind(got: Sequence[tuple[str, bool]]) -> dict[str, str]:
    kinds = sorted({kind for kind, _ in got})
    return {kind: f"{sum(g for k, g in got if k == kind)}/{sum(k == kind for k, _ in got)}" for kind in kinds}


def _share(which: Sequence[bool]) -> float:
    return round(statistics.mean(which), 3) if which else 0.0


def _ratio(measured: Sequence[float], bare: Sequence[float], quantile: float) -> float:
    """A quantile of what was measured over the bare interpreter's median."""
    return round(sorted(measured)[int(len(measured) * quantile)] / statistics.median(bare), 2)


if __name__ == "__main__":
    began = time.monotonic()
    status = main()
    print(f"{time.monotonic() - began:.0f} s in all")
    sys.exit(status)
