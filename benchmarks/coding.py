"""Recall on the coding set: ranking, and what reaches the prompt after gate and budget.

    CEMS_BENCH_DATA=…/bench python benchmarks/coding.py

Protocol: each prompt's scope is its project plus the person's own; superseded memories are left out. nDCG@10 over the
prompts that need a memory; precision and recall over what is injected; the share of prompts that need nothing and get
something. With the superseded ones kept beside what replaced them: how often the newer stands first. Real parts
throughout: journal, LanceDB, the bundled model. Writes benchmarks/results/coding.json.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bank import Named, bank, data_file, digest, json_lines, ndcg, scope_of, write_result

from cems.core.memories import Statement
from cems.core.policy import RecallPolicy
from cems.core.recall.engine import Searcher, recall

_CATEGORIES = {"convention": "conventions", "preference": "preferences", "decision": "decisions", "command": "commands"}


def main() -> int:
    paths = data_file("coding_memories.jsonl"), data_file("coding_prompts_dev.jsonl")
    result = asyncio.run(_run(*map(json_lines, paths)))
    result["data"] = {path.name: digest(path) for path in paths}
    for mode in ("hybrid", "keyword"):
        print(mode, json.dumps(result[mode]))
    print("newer first", result["newer_first"])
    print("written to", write_result("coding", result))
    return 0


def statements_of(memories: Iterable[Mapping[str, Any]], *, superseded: bool = False) -> list[Named]:
    """The memories of the set, each recorded when the set says, those that others superseded only where wanted."""
    return [
        (
            memory["id"],
            None if memory["project"] == "*" else memory["project"],
            Statement(
                memory["text"],
                category=_CATEGORIES.get(memory["type"], memory["type"]),
                recorded_at=memory["created"],
            ),
        )
        for memory in memories
        if superseded or not memory.get("superseded_by")
    ]


async def _run(memories: Sequence[Mapping[str, Any]], prompts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    async with bank(statements_of(memories)) as kept:
        names = {each: min(called) for each, called in kept.names.items()}
        return {
            "model": kept.model,
            "memories": len(names),
            "newer_first": await _newer_first(memories, prompts),
            "hybrid": await _measure(kept.hybrid, prompts, names),
            "keyword": await _measure(kept.keyword, prompts, names),
        }


async def _newer_first(memories: Sequence[Mapping[str, Any]], prompts: Sequence[Mapping[str, Any]]) -> str:
    """Of the prompts that an old and a new memory answer, how many have the new one first."""
    asked = [prompt for prompt in prompts if prompt.get("stale") and "project" in prompt]
    right = 0
    async with bank(statements_of(memories, superseded=True), compared=False) as kept:
        for prompt in asked:
            found = await kept.ranking(prompt["text"], scope_of(prompt["project"]))
            names = [min(kept.names[candidate.id]) for candidate in found]
            first = next((name for name in names if name in (*prompt["relevant"], *prompt["stale"])), "")
            right += first in prompt["relevant"]
    return f"{right}/{len(asked)}"


async def _measure(
    searcher: Searcher, prompts: Sequence[Mapping[str, Any]], names: Mapping[str, str]
) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    gains: list[float] = []
    seconds: list[float] = []
    tokens: list[int] = []
    for prompt in prompts:
        if "project" not in prompt:
            continue
        began = time.perf_counter()
        found = await recall(prompt["text"], scope_of(prompt["project"]), searcher, RecallPolicy())
        seconds.append(time.perf_counter() - began)
        injected = {names[candidate.id] for candidate in found.injected}
        if injected:
            tokens.append(found.tokens)
        if prompt["kind"] != "q":
            counts.update(quiet=1, disturbed=bool(injected))
            continue
        relevant = set(prompt["relevant"])
        gains.append(ndcg([{names[candidate.id]} for candidate in found.candidates], relevant))
        counts.update(injected=len(injected), right=len(injected & relevant), relevant=len(relevant))
        counts.update(needy=1, served=bool(injected & relevant))
    return {
        "ndcg_10": round(statistics.mean(gains), 4),
        "precision": round(counts["right"] / max(1, counts["injected"]), 3),
        "recall": round(counts["right"] / counts["relevant"], 3),
        "prompts_served": f"{counts['served']}/{counts['needy']}",
        "quiet_prompts_disturbed": f"{counts['disturbed']}/{counts['quiet']}",
        "tokens_per_injection": round(statistics.mean(tokens)) if tokens else 0,
        "p50_ms": round(statistics.median(seconds) * 1000, 1),
    }


if __name__ == "__main__":
    sys.exit(main())
