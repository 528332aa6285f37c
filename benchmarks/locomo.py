"""How well recall ranks on LoCoMo: `CEMS_BENCH_DATA=… python benchmarks/locomo.py`.

Protocol: ten conversations, each a scope of its own; questions of categories 1 to 4 with evidence (5, adversarial, is
left out). Turns: each turn is a memory `Speaker: text`, its session and place known; relevant are the evidence turns.
Facts: each extracted observation is a memory; relevant are those made of an evidence turn. Fractional recall at k, lists
of exactly k, macro over questions. Conversations 1 to 5 tuned the weights, 6 to 10 report. Writes results/locomo.json.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bank import Bank, bank, data_file, digest, ndcg, recall_at, reciprocal_rank, scope_of, write_result

from cems.core.memories import Statement
from cems.core.recall.session_context import TURN

_TUNED_ON = 5
_TURN_ID = re.compile(r"D\d+:\d+")

Named = tuple[str, str | None, Statement]


def main() -> int:
    path = data_file("locomo10.json")
    conversations = json.loads(path.read_text(encoding="utf-8"))
    result: dict[str, Any] = {"data": {path.name: digest(path)}}
    for unit, statements in (("turns", _turns), ("facts", _facts)):
        result[unit] = asyncio.run(_measure(conversations, list(statements(conversations))))
        print(unit, json.dumps(result[unit]), flush=True)
    print("written to", write_result("locomo", result))
    return 0


def _turns(conversations: Sequence[Mapping[str, Any]]) -> Iterator[Named]:
    for number, conversation in enumerate(conversations):
        for session, turns in _sessions(conversation["conversation"]):
            for place, turn in enumerate(turns):
                statement = Statement(
                    f"{turn['speaker']}: {turn['text']}", kind=TURN, session=f"{number}/{session}", place=place
                )
                yield f"{number} {turn['dia_id']}", _project(number), statement


def _facts(conversations: Sequence[Mapping[str, Any]]) -> Iterator[Named]:
    for number, conversation in enumerate(conversations):
        for session, _ in _sessions(conversation["conversation"]):
            told = conversation["observation"].get(f"session_{session}_observation", {})
            facts = [fact for of_one in told.values() for fact in of_one]
            for place, (text, evidence) in enumerate(facts):
                # The name is what it was made of: several turns, as the data writes them.
                yield (
                    f"{number} {evidence}",
                    _project(number),
                    Statement(text, session=f"{number}/{session}", place=place),
                )


def _sessions(conversation: Mapping[str, Any]) -> Iterator[tuple[int, list[dict[str, str]]]]:
    number = 1
    while f"session_{number}_date_time" in conversation:
        yield number, conversation.get(f"session_{number}") or []
        number += 1


def _project(number: int) -> str:
    return f"locomo/{number}"


async def _measure(conversations: Sequence[Mapping[str, Any]], statements: Sequence[Named]) -> dict[str, Any]:
    async with bank(statements) as kept:
        halves: dict[str, list[dict[str, float]]] = {"tuned": [], "held": []}
        for number, conversation in enumerate(conversations):
            for question in conversation["qa"]:
                measured = await _ask(kept, number, question)
                if measured is not None:
                    halves["tuned" if number < _TUNED_ON else "held"].append(measured)
        halves["all"] = halves["tuned"] + halves["held"]
        return {
            "model": kept.model,
            "memories": len(statements),
            **{half: _means(measured) for half, measured in halves.items()},
        }


async def _ask(kept: Bank, number: int, question: Mapping[str, Any]) -> dict[str, float] | None:
    wanted = set(_TURN_ID.findall(" ".join(question["evidence"])))
    relevant = {each for each, names in kept.names.items() if any(_made_of(name, number, wanted) for name in names)}
    if question["category"] == 5 or not relevant:
        return None
    began = time.perf_counter()
    found = await kept.ranking(question["question"], scope_of(_project(number)))
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
    return conversation == str(number) and not turns.isdisjoint(_TURN_ID.findall(evidence))


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
