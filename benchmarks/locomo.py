"""How well recall ranks on LoCoMo: `CEMS_BENCH_DATA=… python benchmarks/locomo.py`.

Protocol: ten conversations, each a scope of its own; questions of categories 1 to 4 with evidence (5, adversarial, is
left out). Turns: each turn is a memory `Speaker: text`, its session and place known; relevant are the evidence turns.
Facts: each extracted observation is a memory; relevant are those made of an evidence turn. Fractional recall at k, lists
of exactly k, macro over questions. Conversations 1 to 5 tuned the weights, 6 to 10 report. Writes results/locomo.json.

With --ablate: the turns of conversations 6 to 10, each part of the way left out in turn, into
results/locomo_ablation.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from bank import Bank, Named, bank, data_file, digest, ndcg, recall_at, reciprocal_rank, scope_of, write_result

from cems.core.memories import Statement
from cems.core.recall import session_context
from cems.core.recall.engine import Searcher
from cems.core.recall.session_context import TURN

TUNED_ON = 5
TURN_ID = re.compile(r"D\d+:\d+")
_PARTS = {
    "words of the two before and after": ("overlap_2", "overlap_before"),
    "scores of the turns beside it": ("best_near", "answers", "next"),
    "who speaks, words of time": ("speaker", "time"),
    "the best of its session": ("session_cosine", "session_overlap"),
}
"""What a turn's rank is made of besides its own evidence, by the names of the weights."""


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--ablate", action="store_true", help="what each part of the ranking of turns gives and costs")
    chosen = options.parse_args()
    path = data_file("locomo10.json")
    conversations = json.loads(path.read_text(encoding="utf-8"))
    result: dict[str, Any] = {"data": {path.name: digest(path)}}
    if chosen.ablate:
        result |= asyncio.run(_ablate(conversations))
        print("written to", write_result("locomo_ablation", result))
        return 0
    for unit, statements in (("turns", turns_of), ("facts", facts_of)):
        result[unit] = asyncio.run(_measure(conversations, list(statements(conversations))))
        print(unit, json.dumps(result[unit]), flush=True)
    print("written to", write_result("locomo", result))
    return 0


def turns_of(conversations: Sequence[Mapping[str, Any]]) -> Iterator[Named]:
    for number, conversation in enumerate(conversations):
        for session, said in sessions_of(conversation["conversation"]):
            for place, turn in enumerate(said):
                statement = Statement(
                    f"{turn['speaker']}: {turn['text']}", kind=TURN, session=f"{number}/{session}", place=place
                )
                yield f"{number} {turn['dia_id']}", project_of(number), statement


def facts_of(conversations: Sequence[Mapping[str, Any]]) -> Iterator[Named]:
    for number, conversation in enumerate(conversations):
        for session, _ in sessions_of(conversation["conversation"]):
            told = conversation["observation"].get(f"session_{session}_observation", {})
            noted = [fact for of_one in told.values() for fact in of_one]
            for place, (text, evidence) in enumerate(noted):
                # The name is what it was made of: several turns, as the data writes them.
                yield (
                    f"{number} {evidence}",
                    project_of(number),
                    Statement(text, session=f"{number}/{session}", place=place),
                )


def sessions_of(conversation: Mapping[str, Any]) -> Iterator[tuple[int, list[dict[str, str]]]]:
    number = 1
    while f"session_{number}_date_time" in conversation:
        yield number, conversation.get(f"session_{number}") or []
        number += 1


def project_of(number: int) -> str:
    return f"locomo/{number}"


async def _measure(conversations: Sequence[Mapping[str, Any]], statements: Sequence[Named]) -> dict[str, Any]:
    async with bank(statements) as kept:
        tuned = await _ask_all(kept, list(enumerate(conversations))[:TUNED_ON])
        held = await _ask_all(kept, list(enumerate(conversations))[TUNED_ON:])
        halves = {"tuned": tuned, "held": held, "all": tuned + held}
        return {
            "model": kept.model,
            "memories": len(statements),
            **{half: _means(measured) for half, measured in halves.items()},
        }


async def _ablate(conversations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    held = list(enumerate(conversations))[TUNED_ON:]
    projects = {project_of(number) for number, _ in held}
    ways: dict[str, list[dict[str, float]]] = {}
    async with bank([each for each in turns_of(conversations) if each[1] in projects], compared=False) as kept:
        ways["words only"] = await _ask_all(kept, held, kept.keyword)
        with _without_context():
            ways["each turn alone"] = await _ask_all(kept, held)
        for part, names in _PARTS.items():
            with _without(names):
                ways[f"without {part}"] = await _ask_all(kept, held)
        ways["all"] = await _ask_all(kept, held)
    for way, measured in ways.items():
        print(way, json.dumps(_means(measured)), flush=True)
    return {way: _means(measured) for way, measured in ways.items()}


@contextmanager
def _without(names: Sequence[str]) -> Iterator[None]:
    """Leave parts out of a turn's rank."""
    weights = session_context._TURN
    left = {name: weights.pop(name) for name in names}
    try:
        yield
    finally:
        weights.update(left)


@contextmanager
def _without_context() -> Iterator[None]:
    """Look at no candidate's session: the rank is the score."""
    looked_at, session_context._LOOKED_AT = session_context._LOOKED_AT, 0
    try:
        yield
    finally:
        session_context._LOOKED_AT = looked_at


async def _ask_all(
    kept: Bank, conversations: Sequence[tuple[int, Mapping[str, Any]]], searcher: Searcher | None = None
) -> list[dict[str, float]]:
    asked = [
        await _ask(kept, number, question, searcher)
        for number, conversation in conversations
        for question in conversation["qa"]
    ]
    return [measured for measured in asked if measured is not None]


async def _ask(
    kept: Bank, number: int, question: Mapping[str, Any], searcher: Searcher | None = None
) -> dict[str, float] | None:
    wanted = set(TURN_ID.findall(" ".join(question["evidence"])))
    relevant = {each for each, names in kept.names.items() if any(_made_of(name, number, wanted) for name in names)}
    if question["category"] == 5 or not relevant:
        return None
    began = time.perf_counter()
    found = await kept.ranking(question["question"], scope_of(project_of(number)), searcher)
    seconds = time.perf_counter() - began
    names = [{each.id} for each in found]
    return {
        "recall_5": recall_at(names, relevant, 5),
        "recall_10": recall_at(names, relevant, 10),
        "mrr": reciprocal_rank(names, relevant),
        "ndcg_10": ndcg(names, relevant),
        "seconds": seconds,
    }


def _made_of(name: str, number: int, turns: set[str]) -> bool:
    conversation, _, evidence = name.partition(" ")
    return conversation == str(number) and not turns.isdisjoint(TURN_ID.findall(evidence))


def _means(measured: Sequence[Mapping[str, float]]) -> dict[str, float]:
    means = {
        name: round(statistics.mean(each[name] for each in measured), 4)
        for name in ("recall_5", "recall_10", "mrr", "ndcg_10")
    }
    return {
        "questions": len(measured),
        **means,
        "p50_ms": round(1000 * statistics.median(each["seconds"] for each in measured), 1),
    }


if __name__ == "__main__":
    sys.exit(main())
