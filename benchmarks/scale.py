"""What the number of memories costs: `python benchmarks/scale.py [--sizes 1000 10000 100000] [--writes 5000] [--bulk N]`.

The store at each size, filled by its own `upsert` with generated memories (see `generated.py`): two searches as recall asks
them, in a scope of 27 % and one of .3 % of all rows, with recall@10 against exact search; size, time, memory. `--writes`:
single writes between the searches. `--bulk`: `cems add --from-jsonl` through a real daemon, beside the embedder alone.
Each measurement is a process of its own. Prints tables and writes `benchmarks/results/scale.json`, part by part.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from at_work import measure_words, measure_writes
from bank import RESULTS, write_result
from bulk import measure_bulk
from generated import DIMENSION, MODEL, NARROW, SHARES, WIDE, Generator, Vectors
from measuring import apart, bare_ms, disk_mib, peak_mib, rss_mib, seconds, summary, timed

from cems.core.policy import RecallPolicy
from cems.core.recall.engine import POOL
from cems.core.scope import SHARED, USER
from cems.core.store import Hit, Store, live_filter, open_store
from cems.core.trust import admitted

Result = dict[str, Any]

_NOW = "2026-11-01T00:00:00.000Z"
_BLOCK = 5_000
_NEAREST = 10
_WARM_UP = 10


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--sizes", type=int, nargs="*", default=[1_000, 10_000, 100_000], help="memories in the store")
    options.add_argument("--questions", type=int, default=200, help="questions in each scope (default: %(default)s)")
    options.add_argument(
        "--writes", type=int, default=0, help="single writes, into the largest of the sizes up to 100,000"
    )
    options.add_argument("--bulk", type=int, default=0, help="lines given to `cems add --from-jsonl`")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--folder", type=Path, help="where the stores are made (default: the temporary folder)")
    chosen = options.parse_args()
    written_to = max((size for size in chosen.sizes if size <= 100_000), default=0)
    for size in chosen.sizes:
        with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
            folder = Path(name)
            result, exact = apart(_fill, folder, size, chosen.seed, chosen.questions)
            result |= apart(_ask, folder, size, chosen.seed, chosen.questions, exact) | {"bare_python_ms": bare_ms()}
            _keep("sizes", {str(size): result})
            if chosen.writes and size == written_to:
                given = (folder, size, chosen.seed, chosen.questions)
                _keep("words", {str(size): apart(measure_words, *given)})
                _keep("writes", {str(size): apart(measure_writes, *given, chosen.writes)})
    if chosen.bulk:
        _keep("bulk", {str(chosen.bulk): measure_bulk(chosen.bulk, chosen.seed)})
    return 0


# -- filling -------------------------------------------------------------------------------------------------------------


async def _fill(folder: Path, size: int, seed: int, questions: int) -> tuple[Result, dict[str, list[list[str]]]]:
    """Fill a store; also gives by scope the ids of the nearest rows to each question, found by comparing with them all."""
    generator = Generator(size, seed)
    asked = generator.questions(questions)[1]
    exact = {scope: _Nearest(asked) for scope in SHARES}
    store, _ = await open_store(folder / "store", MODEL, DIMENSION)
    spent, indexing, findable = 0.0, 0.0, dict.fromkeys(SHARES, 0)
    for block in generator.blocks(_BLOCK):
        for scope, mask in block.findable.items():
            exact[scope].see(
                [row["id"] for row, there in zip(block.rows, mask, strict=True) if there], block.vectors[mask]
            )
            findable[scope] += int(mask.sum())
        spent += await seconds(store.upsert(block.rows, block.vectors))
        # As whoever follows the records does after each batch.
        indexing += await seconds(store.optimize())
    indexing += await seconds(store.optimize(force=True))
    peak = peak_mib()
    await store.rewrite()
    result = {
        "fill_s": round(spent, 1), "optimize_s": round(indexing, 1), "rows_per_s": round(size / (spent + indexing)),
        "disk_mib": disk_mib(folder), "rows_found_in": findable, "filling_peak_rss_mib": peak,
    }  # fmt: skip
    store.close()
    return result, {scope: nearest.ids for scope, nearest in exact.items()}


class _Nearest:
    """The ids of the rows nearest to each question, of all that were seen."""

    def __init__(self, questions: Vectors) -> None:
        self._questions = questions
        self._cosines = np.full((len(questions), 0), 0, dtype=np.float32)
        self.ids: list[list[str]] = [[] for _ in questions]

    def see(self, ids: Sequence[str], vectors: Vectors) -> None:
        cosines = np.hstack([self._cosines, self._questions @ vectors.T])
        best = np.argsort(-cosines, axis=1, kind="stable")[:, :_NEAREST]
        before = self._cosines.shape[1]
        self.ids = [
            [self.ids[row][i] if i < before else ids[i - before] for i in places] for row, places in enumerate(best)
        ]
        self._cosines = np.take_along_axis(cosines, best, axis=1)


# -- asking --------------------------------------------------------------------------------------------------------------


async def _ask(folder: Path, size: int, seed: int, questions: int, exact: dict[str, list[list[str]]]) -> Result:
    terms, vectors = Generator(size, seed).questions(questions)
    began = time.perf_counter()
    store, _ = await open_store(folder / "store", MODEL, DIMENSION)
    result: Result = {"open_s": round(time.perf_counter() - began, 3)}
    for scope in (WIDE, NARROW):
        where = _filter(scope)
        began = time.perf_counter()
        await store.mean_vector(scope)
        mean = time.perf_counter() - began
        for i in range(min(_WARM_UP, questions)):
            await _both(store, terms[i], vectors[i], where)
        times: dict[str, list[float]] = {"vector": [], "text": [], "both": []}
        recalls: list[float] = []
        for i in range(questions):
            took, hits = await timed(store.search_vector(vectors[i], where, POOL))
            times["vector"].append(took)
            times["text"].append((await timed(store.search_text(terms[i], where, POOL)))[0])
            times["both"].append((await timed(_both(store, terms[i], vectors[i], where)))[0])
            recalls.append(_recall(hits, vectors[i], exact[scope][i]))
        result[scope.partition(":")[2]] = {
            "mean_vector_ms": round(mean * 1000, 2), "recall_at_10": round(float(np.mean(recalls)), 4),
            **{name: summary(each) for name, each in times.items()},
        }  # fmt: skip
    store.close()
    return result | {"asking_rss_mib": rss_mib(), "asking_peak_rss_mib": peak_mib()}


async def _both(store: Store, terms: Sequence[str], vector: Vectors, where: str) -> None:
    """Both searches, as `HybridSearcher` asks them."""
    await asyncio.gather(store.search_text(terms, where, POOL), store.search_vector(vector, where, POOL))


def _recall(hits: Sequence[Hit], question: Vectors, nearest: Sequence[str]) -> float:
    """Share of the nearest rows among the first of what was found, in the order of the exact cosine that recall uses."""
    found = {hit.id: float(hit.vector @ question) for hit in hits if hit.vector is not None}
    return len(set(sorted(found, key=lambda each: -found[each])[:_NEAREST]) & set(nearest)) / max(1, len(nearest))


def _filter(scope: str) -> str:
    return live_filter((scope, USER, SHARED), admitted(RecallPolicy()), _NOW)


# -- keeping -------------------------------------------------------------------------------------------------------------


def _keep(part: str, found: Result) -> None:
    """Print a part's result and put it beside what earlier runs measured."""
    print(part, json.dumps(found), flush=True)
    path = RESULTS / "scale.json"
    result: Result = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    result["machine"] = {"python": platform.python_version(), "system": platform.machine(), "cpus": os.cpu_count()}
    result[part] = result.get(part, {}) | found
    write_result("scale", result)


if __name__ == "__main__":
    sys.exit(main())
