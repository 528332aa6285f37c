"""Does recall stay silent when nothing matters, and speak when something does? `python benchmarks/silence.py`.

Data: `data/silence_dev.jsonl` and `silence_test.jsonl`, ours: people of many trades, each with memories of a project and
of the person, prompts that need a memory and prompts that need none. The halves share no person. The test half is only
for reporting: it was committed before anything was fitted on the other, and its digest is checked.

Protocol: each person has a home of their own, with their memories and, in larger scopes, fill: the other people's project
memories of the same half as far as they go, beyond that made-up ones (`filling.py`). The session begins with its block, so
that what it gave of the person's own is not given again. What reaches the prompt after gate and budget is counted. Writes
results/silence_<half>.json; the curve in it has one point per threshold of the gate.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bank import Bank, Named, bank, digest, json_lines, scope_of, write_result
from filling import fillings

from cems.core.memories import Statement
from cems.core.policy import RecallPolicy
from cems.core.recall import lookup
from cems.core.recall.candidate import Explanation
from cems.core.recall.engine import Searcher, recall
from cems.core.recall.profile import profile
from cems.core.scope import USER

DATA = Path(__file__).parent / "data"
TEST_DIGEST = "f1a829058f039618"
SIZES = (22, 50, 200, 500, 5_000)
_PROJECT = "silence/project"
_SEED = 7
_CONTEXT_LIMIT = 9_500
_THRESHOLDS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

Line = Mapping[str, Any]
Mode = Literal["hybrid", "keyword"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt of the data and what recall made of it. `names`: what the data calls each candidate, by id. `session`: the
    names of what the session's own block holds.
    """

    prompt: Line
    found: Explanation
    names: Mapping[str, str]
    session: frozenset[str]

    @property
    def needs(self) -> bool:
        return bool(self.prompt["kind"] == "needs")

    @property
    def relevant(self) -> set[str]:
        return set(self.prompt.get("relevant", ()))

    @property
    def injected(self) -> list[str]:
        return [self.names[each.id] for each in self.found.injected]

    def above(self, threshold: float) -> list[str]:
        """What would be injected at another threshold, budget and repeats aside."""
        passed = [each for each in self.found.candidates if each.probability >= threshold and not self._given(each.id)]
        passed.sort(key=lambda each: -each.probability)
        return [self.names[each.id] for each in passed[: RecallPolicy().max_memories]]

    def _given(self, memory: str) -> bool:
        return any(each.id == memory and each.decision == "already shown" for each in self.found.candidates)


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--half", choices=("dev", "test"), default="dev")
    options.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="memories a person reads")
    options.add_argument("--keyword", action="store_true", help="by words alone, as where there is no model")
    chosen = options.parse_args()
    lines = load(chosen.half)
    mode: Mode = "keyword" if chosen.keyword else "hybrid"
    result: dict[str, Any] = {"data": {f"silence_{chosen.half}.jsonl": digest(path_of(chosen.half))}, "sizes": {}}
    for size in chosen.sizes:
        asked = asyncio.run(ask_all(lines, size, mode))[mode]
        result["sizes"][str(size)] = summary = summarised(asked)
        print(size, json.dumps({name: value for name, value in summary.items() if name != "curve"}), flush=True)
    name = f"silence_{chosen.half}" + ("_keyword" if chosen.keyword else "")
    print("written to", write_result(name, result))
    return 0


def path_of(half: str) -> Path:
    return DATA / f"silence_{half}.jsonl"


def load(half: str) -> list[dict[str, Any]]:
    """The lines of a half. Exits when the test half is not the one that was committed before the fit."""
    if half == "test" and digest(path_of(half)) != TEST_DIGEST:
        raise SystemExit(f"{path_of(half).name} is not the file that was committed before the gate was fitted")
    return json_lines(path_of(half))


async def ask_all(lines: Sequence[Line], size: int, *modes: Mode) -> dict[Mode, list[Asked]]:
    """All prompts of a half, each in its person's home of `size` memories, by each of these modes."""
    asked: dict[Mode, list[Asked]] = {mode: [] for mode in modes}
    async for person, kept in _homes(lines, size):
        for mode in modes:
            searcher = kept.keyword if mode == "keyword" else kept.hybrid
            asked[mode] += [await _ask(line, kept, searcher) for line in lines if _is_prompt_of(line, person)]
    return asked


async def _homes(lines: Sequence[Line], size: int) -> AsyncIterator[tuple[str, Bank]]:
    """Each person, with a bank that holds what they read."""
    people = [line["person"] for line in lines if line["kind"] == "person"]
    memories = [line for line in lines if line["kind"] == "memory"]
    own = {person: [_named(each) for each in memories if each["person"] == person] for person in people}
    others = {
        person: [_named(each) for each in memories if each["person"] != person and each["scope"] == "project"]
        for person in people
    }
    if size <= min(len(own[person]) + len(others[person]) for person in people):
        for person in people:
            # Spread over all the others, so that a small scope does not hold one neighbour's project only.
            wanted = max(0, size - len(own[person]))
            fill = [others[person][i * len(others[person]) // wanted] for i in range(wanted)]
            async with bank([*own[person], *fill]) as kept:
                yield person, kept
        return
    texts = fillings(_SEED, size - max(map(len, own.values())))
    fill = [(f"filling {i}", _PROJECT, Statement(text)) for i, text in enumerate(texts)]
    async with bank(fill, compared=False) as kept:
        for person in people:
            ids = await kept.add(own[person])
            yield person, kept
            await kept.remove(ids, _PROJECT)


def _named(line: Line) -> Named:
    statement = Statement(line["text"], category=line["category"], recorded_at=line["created"])
    return line["id"], None if line["scope"] == "user" else _PROJECT, statement


def _is_prompt_of(line: Line, person: str) -> bool:
    return bool(line["person"] == person and line["kind"] in ("needs", "quiet"))


async def _ask(prompt: Line, kept: Bank, searcher: Searcher) -> Asked:
    scope = scope_of(_PROJECT)
    names = {each: min(called) for each, called in kept.names.items()}
    _, given = profile(kept.reader, scope, RecallPolicy(), max_units=_CONTEXT_LIMIT)
    # Only the person's own is taken as given: what the block holds of a project depends on how much else there is.
    shown = [each for each in given if _is_users(kept, each)]
    found = await recall(prompt["text"], scope, searcher, RecallPolicy(), already_shown=shown)
    return Asked(prompt, found, names, frozenset(names[each] for each in given))


def _is_users(kept: Bank, memory: str) -> bool:
    return any(row["scope"] == USER for row in lookup.rows_by_id(kept.reader, [memory]).values())


def summarised(asked: Sequence[Asked]) -> dict[str, Any]:
    """The rates of a size, by kind of prompt too, and the curve over thresholds."""
    tokens = [each.found.tokens for each in asked if each.injected]
    kinds: dict[str, Counter[str]] = {}
    for each in asked:
        kind = f"{each.prompt['kind']}: {each.prompt.get('why') or each.prompt.get('style') or ''}"
        right = bool(set(each.injected) & each.relevant) if each.needs else not each.injected
        kinds.setdefault(kind, Counter()).update(all=1, right=right)
    return {
        "prompts": len(asked),
        **rates([(each, each.injected) for each in asked]),
        "with_session_block": round(
            statistics.mean(bool((set(each.injected) | each.session) & each.relevant) for each in asked if each.needs),
            3,
        ),
        "right": {name: f"{counts['right']}/{counts['all']}" for name, counts in sorted(kinds.items())},
        "tokens_per_injection": round(statistics.mean(tokens)) if tokens else 0,
        "curve": [
            {"threshold": threshold, **rates([(each, each.above(threshold)) for each in asked])}
            for threshold in _THRESHOLDS
        ],
    }


def rates(injected: Sequence[tuple[Asked, Sequence[str]]]) -> dict[str, float]:
    """`disturbed`: share of the prompts that need nothing and get something. `served`: share of those that need something
    and get it. `precision`: share of what is injected that is right.
    """
    given = sum(len(names) for _, names in injected)
    right = sum(len(set(names) & each.relevant) for each, names in injected)
    return {
        "disturbed": round(statistics.mean(bool(names) for each, names in injected if not each.needs), 3),
        "served": round(statistics.mean(bool(set(names) & each.relevant) for each, names in injected if each.needs), 3),
        "precision": round(right / given, 3) if given else 1.0,
    }


if __name__ == "__main__":
    sys.exit(main())
