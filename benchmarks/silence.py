"""Does recall stay silent when nothing matters, and speak when something does? `python benchmarks/silence.py`.

Data: `data/silence_dev.jsonl` and `silence_test.jsonl`, ours: people of many trades, each with memories of a project and
of the person, prompts that need a memory and prompts that need none. The halves share no person. The test half is only
for reporting: it was committed before anything was fitted on the other, and its digest is checked.

Protocol: each person has a home of their own, with their memories and, in larger scopes, the other people's project
memories of the same half as fill. What reaches the prompt after gate and budget is counted. Writes
results/silence_<half>.json; the curve in it has one point per threshold of the gate.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bank import bank, digest, json_lines, scope_of, write_result

from cems.core.memories import Statement
from cems.core.policy import RecallPolicy
from cems.core.recall.candidate import Explanation
from cems.core.recall.engine import recall

DATA = Path(__file__).parent / "data"
TEST_DIGEST = "f1a829058f039618"
_PROJECT = "silence/project"
_THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

Asked = tuple[Mapping[str, Any], list[tuple[str, float]], list[str], int]
"""A prompt, the candidates' names and probabilities, the names of what was injected, and the tokens of the block."""


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--half", choices=("dev", "test"), default="dev")
    options.add_argument("--sizes", type=int, nargs="+", default=[22, 50, 200], help="memories a person reads")
    chosen = options.parse_args()
    path = DATA / f"silence_{chosen.half}.jsonl"
    if chosen.half == "test" and digest(path) != TEST_DIGEST:
        print(f"{path.name} is not the file that was committed before the gate was fitted")
        return 1
    lines = json_lines(path)
    result: dict[str, Any] = {"data": {path.name: digest(path)}, "sizes": {}}
    for size in chosen.sizes:
        asked = asyncio.run(_ask_all(lines, size))
        result["sizes"][str(size)] = _summary(asked)
        print(size, json.dumps({name: value for name, value in _summary(asked).items() if name != "curve"}), flush=True)
    print("written to", write_result(f"silence_{chosen.half}", result))
    return 0


async def _ask_all(lines: Sequence[Mapping[str, Any]], size: int) -> list[Asked]:
    people = [line["person"] for line in lines if line["kind"] == "person"]
    memories = [line for line in lines if line["kind"] == "memory"]
    asked: list[Asked] = []
    for person in people:
        own = [each for each in memories if each["person"] == person]
        others = [each for each in memories if each["person"] != person and each["scope"] == "project"]
        # Spread over all the others, so that a small scope does not hold one neighbour's project only.
        wanted = max(0, min(size - len(own), len(others)))
        fill = [others[i * len(others) // wanted] for i in range(wanted)]
        statements = [
            (
                each["id"],
                None if each["scope"] == "user" else _PROJECT,
                Statement(each["text"], category=each["category"], recorded_at=each["created"]),
            )
            for each in (*own, *fill)
        ]
        async with bank(statements) as kept:
            for prompt in lines:
                if prompt["person"] == person and prompt["kind"] in ("needs", "quiet"):
                    found = await recall(prompt["text"], scope_of(_PROJECT), kept.hybrid, RecallPolicy())
                    asked.append(_asked(prompt, found, kept.names))
    return asked


def _asked(prompt: Mapping[str, Any], found: Explanation, names: Mapping[str, set[str]]) -> Asked:
    candidates = [(min(names[each.id]), each.probability) for each in found.candidates]
    return prompt, candidates, [min(names[each.id]) for each in found.injected], found.tokens


def _summary(asked: Sequence[Asked]) -> dict[str, Any]:
    injected = [(prompt, names) for prompt, _, names, _ in asked]
    tokens = [count for *_, names, count in asked if names]
    by_reason: dict[str, Counter[str]] = {}
    for prompt, names in injected:
        kind = prompt.get("why") or prompt.get("style") or ""
        wrong = not set(names) & set(prompt.get("relevant", ()))
        right = not names if prompt["kind"] == "quiet" else not wrong
        by_reason.setdefault(f"{prompt['kind']}: {kind}", Counter()).update(all=1, right=right)
    return {
        "prompts": len(asked),
        **_rates(injected),
        "right": {name: f"{counts['right']}/{counts['all']}" for name, counts in sorted(by_reason.items())},
        "tokens_per_injection": round(statistics.mean(tokens)) if tokens else 0,
        "curve": [
            {"threshold": threshold, **_rates([(prompt, _above(found, threshold)) for prompt, found, *_ in asked])}
            for threshold in _THRESHOLDS
        ],
    }


def _above(found: Sequence[tuple[str, float]], threshold: float) -> list[str]:
    passed = sorted((each for each in found if each[1] >= threshold), key=lambda each: -each[1])
    return [name for name, _ in passed[: RecallPolicy().max_memories]]


def _rates(injected: Sequence[tuple[Mapping[str, Any], Sequence[str]]]) -> dict[str, float]:
    """`disturbed`: share of the prompts that need nothing and get something. `served`: share of those that need something
    and get it. `precision`: share of what is injected that is right.
    """
    quiet = [bool(names) for prompt, names in injected if prompt["kind"] == "quiet"]
    served = [bool(set(names) & set(prompt["relevant"])) for prompt, names in injected if prompt["kind"] == "needs"]
    given = sum(len(names) for _, names in injected)
    right = sum(len(set(names) & set(prompt.get("relevant", ()))) for prompt, names in injected)
    return {
        "disturbed": round(statistics.mean(quiet), 3),
        "served": round(statistics.mean(served), 3),
        "precision": round(right / given, 3) if given else 1.0,
    }


if __name__ == "__main__":
    sys.exit(main())
