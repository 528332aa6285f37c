"""Recall on the coding set: ranking, and what reaches the prompt after gate and budget.

    CEMS_BENCH_DATA=…/bench python benchmarks/coding.py

Protocol: each prompt's scope is its project plus the person's own; superseded memories are left out. nDCG@10 over the
prompts that need a memory; precision and recall over what is injected; the share of prompts that need nothing and get
something. Real parts throughout: journal, LanceDB, the bundled model. Writes benchmarks/results/coding.json.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cems.core.embedding import BUNDLED, load_embedder
from cems.core.indexer import Indexer
from cems.core.journal import Journal, connect
from cems.core.memories import Author, Memories, Statement
from cems.core.policy import RecallPolicy
from cems.core.recall.engine import KeywordSearcher, Searcher, recall
from cems.core.recall.hybrid import HybridSearcher
from cems.core.records import Records
from cems.core.scope import SessionScope, project_scope
from cems.core.tokens import count_tokens

_CATEGORIES = {"convention": "conventions", "preference": "preferences", "decision": "decisions", "command": "commands"}


def main() -> int:
    folder = os.environ.get("CEMS_BENCH_DATA", "")
    memories, prompts = Path(folder) / "coding_memories.jsonl", Path(folder) / "coding_prompts_dev.jsonl"
    if not folder or not memories.is_file():
        print("coding: set CEMS_BENCH_DATA to the folder with coding_memories.jsonl and coding_prompts_dev.jsonl")
        return 2
    result = asyncio.run(_run(_lines(memories), _lines(prompts)))
    result["data"] = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in (memories, prompts)}
    out = Path(__file__).parent / "results" / "coding.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(result, indent=2) + "\n")
    for mode in ("hybrid", "keyword"):
        print(mode, json.dumps(result[mode]))
    return 0


async def _run(memories: Sequence[Mapping[str, Any]], prompts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder, key = Path(name), b"benchmark" * 4
        journal = Journal(folder / "journal.db", Records(key))
        gateway = Memories(journal, key, count_tokens)
        person = Author("person")
        names: dict[str, str] = {}
        for memory in memories:
            if memory.get("superseded_by"):
                continue
            scope = SessionScope(None if memory["project"] == "*" else project_scope(memory["project"]))
            statement = Statement(memory["text"], category=_CATEGORIES.get(memory["type"], memory["type"]))
            outcome = gateway.remember(statement, scope, person)
            names[str(outcome.id)] = memory["id"]
        reader = connect(folder / "journal.db", write=False)
        embedder = load_embedder(BUNDLED)
        indexer = Indexer(folder / "store", reader, embedder)
        await indexer.open()
        following = asyncio.create_task(indexer.run())
        await indexer.settled(300)
        searchers: dict[str, Searcher] = {
            "hybrid": HybridSearcher(reader, indexer, embedder),
            "keyword": KeywordSearcher(reader, "benchmark"),
        }
        result: dict[str, Any] = {"model": embedder.identity, "memories": len(names)}
        for mode, searcher in searchers.items():
            result[mode] = await _measure(searcher, prompts, names)
        following.cancel()
        return result


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
        found = await recall(prompt["text"], SessionScope(project_scope(prompt["project"])), searcher, RecallPolicy())
        seconds.append(time.perf_counter() - began)
        injected = {names[candidate.id] for candidate in found.injected}
        if injected:
            tokens.append(found.tokens)
        if prompt["kind"] != "q":
            counts.update(quiet=1, disturbed=bool(injected))
            continue
        relevant = set(prompt["relevant"])
        gains.append(_ndcg([names[candidate.id] for candidate in found.candidates], relevant))
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


def _ndcg(ranking: Sequence[str], relevant: set[str]) -> float:
    gain = sum(1 / math.log2(place + 2) for place, name in enumerate(ranking[:10]) if name in relevant)
    return gain / sum(1 / math.log2(place + 2) for place in range(min(10, len(relevant))))


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


if __name__ == "__main__":
    sys.exit(main())
