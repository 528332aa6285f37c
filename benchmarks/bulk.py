"""`cems add --from-jsonl` of many statements through a real daemon, beside the embedder alone on the same texts.

Statements are one or two memories of the development half with a number that nothing else has. The time is from the start
of the command until the store holds everything; the embedder is asked before and after it, in the same process and way.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from latency import SOURCE, Place, started

from cems import __version__
from cems.core.embedding import BUNDLED, load_embedder
from cems.core.service.client import Client

_STATEMENTS = Path(__file__).parent / "data" / "silence_dev.jsonl"
_COMMAND = "import sys; from cems.core.cli.main import run; sys.exit(run())"
_PATIENCE = 600.0


def measure_bulk(count: int, seed: int) -> dict[str, Any]:
    """Texts a second of both, and their ratio."""
    lines = list(statements(count, seed))
    texts = [line["content"] for line in lines]
    before = _embedder_rate(texts[: max(200, count // 10)])
    with tempfile.TemporaryDirectory(prefix="cems-") as name:
        place = Place(Path(name).resolve())
        # A person's file, from a terminal outside any agent.
        place.environment = {**place.environment, "PYTHONPATH": str(SOURCE)}
        del place.environment["CLAUDECODE"]
        file = place.root / "lines.jsonl"
        file.write_text("\n".join(map(json.dumps, lines)) + "\n", "utf-8")
        client = Client(place.home, {"client": "cli", "version": __version__, "cwd": str(place.root / "project")})
        with started(place):
            began = time.perf_counter()
            command = [sys.executable, "-c", _COMMAND, "add", "--from-jsonl", str(file)]
            subprocess.run(command, env=place.environment, cwd=place.root / "project", check=True)
            told = time.perf_counter() - began
            while not client.call("settle", {"seconds": 60}, timeout=_PATIENCE)["settled"]:
                assert time.perf_counter() - began < 100 * count, "the store does not take all lines in"
            stored = time.perf_counter() - began
            status = client.call("status", {}, timeout=60)
        assert status["memories"]["live"] == count
    after = _embedder_rate(texts[: max(200, count // 10)])
    alone = (before + after) / 2
    return {
        "told_s": round(told, 1), "stored_s": round(stored, 1), "texts_per_s": round(count / stored, 1),
        "embedder_texts_per_s": round(alone, 1), "embedder_before": round(before, 1), "embedder_after": round(after, 1),
        "ratio": round(count / stored / alone, 3), "daemon_rss_mib": status["daemon"]["rss_mib"],
    }  # fmt: skip


def statements(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Lines for `cems add --from-jsonl`."""
    lines = map(json.loads, _STATEMENTS.read_text("utf-8").splitlines())
    told = [line["text"] for line in lines if line["kind"] == "memory"]
    rng = np.random.default_rng((seed, 3))
    for number in range(count):
        texts = [told[i] for i in rng.integers(len(told), size=int(rng.integers(1, 3)))]
        yield {
            "content": f"{' '.join(texts)} (ticket {number})",
            "category": ("decisions", "learnings", "context", "preferences")[number % 4],
            "scope": ("project", "user")[number % 5 == 0],
            "tags": [f"area{number % 17}"],
            "valid_from": f"2026-{number % 9 + 1:02d}-01T00:00:00Z",
            "recorded_at": f"2026-{number % 9 + 1:02d}-{number % 27 + 1:02d}T12:00:00Z",
        }


def _embedder_rate(texts: list[str]) -> float:
    """Texts a second of the model alone, as the indexer asks it."""
    embedder = load_embedder(BUNDLED)
    embedder.embed(texts[:16])
    began = time.perf_counter()
    embedder.embed(texts)
    return len(texts) / (time.perf_counter() - began)
