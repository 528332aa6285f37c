"""Which past session is a prompt about? `CEMS_BENCH_DATA=… python benchmarks/sessions.py [--data locomo memaware]`.

What is kept are single memories with their session and place; `recall/session_rank.py` orders the sessions by what the
product's search finds among them.

LoCoMo: each conversation a scope of its own, its turns as memories, alone and with the facts noted in each session (the
data's observations); sessions are held on the data's dates. Questions with evidence, of categories 1 to 4 and all of them;
hit@5 and reciprocal rank of the first session that holds evidence. Conversations 1 to 5 tuned the weights, 6 to 10 report.

MemAware: 1,307 chat sessions in one scope, each sentence of the person's turns a memory, the words of a session those of
both sides. Prompts that need an earlier session without asking for it; hit@10 by difficulty, in two halves by their ids.

With --ablate each part is left out in turn. Writes results/sessions.json.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

from bank import Bank, Named, bank, data_file, digest, json_lines, scope_of, write_result
from locomo import TUNED_ON, TURN_ID, facts_of, project_of, sessions_of, turns_of

from cems.core.memories import Statement
from cems.core.policy import RecallPolicy
from cems.core.recall import lookup
from cems.core.recall.candidate import Candidate
from cems.core.recall.engine import Within
from cems.core.recall.question import Question, ask
from cems.core.recall.session_rank import WEIGHTS, SessionWeights, SessionWords, rank_sessions
from cems.core.recall.terms import terms
from cems.core.trust import admitted

_CHATS = "memaware/chats"
_TURN = re.compile(r"^(User|Assistant): ", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_SHORTEST, _LONGEST = 3, 600
"""Characters of a sentence; a longer one was pasted, and the model reads its beginning only."""
_WITHOUT = {
    "words only": SessionWeights(said=0, noted=0, words=1, dated=0),
    "without words": replace(WEIGHTS, words=0),
    "without dates": replace(WEIGHTS, dated=0),
    "best memories only": replace(WEIGHTS, words=0, dated=0),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with all that is needed to rank sessions for it. `groups`: the parts of the report it counts in."""

    question: Question
    candidates: list[Candidate]
    words: SessionWords
    days: Mapping[str, date]
    relevant: frozenset[str]
    groups: tuple[str, ...]
    search_ms: float
    words_ms: float

    def place(self, weights: SessionWeights) -> int:
        """At which place the first relevant session comes; 0 when it is not among them."""
        ranked = rank_sessions(self.candidates, self.words, self.question, self.days, weights)
        return next((place for place, each in enumerate(ranked, 1) if each.session in self.relevant), 0)


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--data", choices=("locomo", "memaware"), nargs="+", default=["locomo", "memaware"])
    options.add_argument("--ablate", action="store_true", help="leave each part out in turn as well")
    chosen = options.parse_args()
    ways = {"all parts": WEIGHTS} | (_WITHOUT if chosen.ablate else {"words only": _WITHOUT["words only"]})
    result: dict[str, Any] = {}
    for name in chosen.data:
        for unit, asked, k in _DATA[name]():
            result[f"{name}, {unit}"] = _report(asked, k, ways)
            print(f"{name}, {unit}", json.dumps(result[f"{name}, {unit}"], indent=1), flush=True)
    result["data"] = {each: digest(data_file(each)) for name in chosen.data for each in _FILES[name]}
    print("written to", write_result("sessions", result))
    return 0


Measured = Iterator[tuple[str, list[Asked], int]]


def _locomo() -> Measured:
    conversations = json.loads(data_file("locomo10.json").read_text("utf-8"))
    said, noted = list(turns_of(conversations)), list(facts_of(conversations))
    for unit, statements in (("turns", said), ("turns and facts", [*said, *noted])):
        yield unit, asyncio.run(_ask_locomo(conversations, statements)), 5


async def _ask_locomo(conversations: Sequence[Mapping[str, Any]], statements: Sequence[Named]) -> list[Asked]:
    asked: list[Asked] = []
    async with bank(statements, compared=False) as kept:
        for number, conversation in enumerate(conversations):
            held = conversation["conversation"]
            days = {f"{number}/{each}": _day(held[f"session_{each}_date_time"]) for each, _ in sessions_of(held)}
            half = "tuned" if number < TUNED_ON else "held"
            for question in conversation["qa"]:
                evidence = TURN_ID.findall(" ".join(question["evidence"]))
                relevant = frozenset(f"{number}/{each[1:].partition(':')[0]}" for each in evidence) & days.keys()
                if relevant:
                    named = (half, "all") if question["category"] != 5 else ()
                    groups = (*named, f"{half}, category 5 too", "all, category 5 too")
                    asked.append(await _asked(kept, question["question"], project_of(number), days, relevant, groups))
    return asked


def _memaware() -> Measured:
    sessions = json_lines(data_file("memaware_sessions.jsonl"))
    prompts = json_lines(data_file("memaware_dev.jsonl"))
    yield "the person's sentences", asyncio.run(_ask_memaware(sessions, prompts)), 10


async def _ask_memaware(sessions: Sequence[Mapping[str, str]], prompts: Sequence[Mapping[str, Any]]) -> list[Asked]:
    asked: list[Asked] = []
    words = {each["session_id"]: Counter(terms(each["text"])) for each in sessions}
    lengths = {session: sum(counts.values()) for session, counts in words.items()}
    async with bank(_sentences(sessions), compared=False) as kept:
        for prompt in prompts:
            half = "tuned" if hashlib.sha256(prompt["question_id"].encode()).digest()[-1] % 2 == 0 else "held"
            relevant = frozenset(prompt["answer_session_ids"]) & words.keys()
            groups = ("all", half, prompt["difficulty"], f"{half}, {prompt['difficulty']}")
            counted = SessionWords(_counts(prompt["question"], words), lengths)
            asked.append(await _asked(kept, prompt["question"], _CHATS, {}, relevant, groups, counted))
    return asked


def _sentences(sessions: Sequence[Mapping[str, str]]) -> Iterator[Named]:
    for each in sessions:
        parts = _TURN.split(each["text"])[1:]
        said = [part for who, part in zip(parts[::2], parts[1::2], strict=True) if who == "User"]
        sentences = [text.strip() for part in said for text in _SENTENCE_END.split(part)]
        for place, text in enumerate(text[:_LONGEST] for text in sentences if len(text) >= _SHORTEST):
            name = f"{each['session_id']} {place}"
            yield name, _CHATS, Statement(text, session=each["session_id"], place=place)


def _counts(prompt: str, words: Mapping[str, Counter[str]]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    for term in sorted(set(ask(prompt).terms)):
        for session, found in words.items():
            if term in found:
                counts[term][session] = found[term]
    return counts


async def _asked(
    kept: Bank,
    text: str,
    project: str,
    days: Mapping[str, date],
    relevant: frozenset[str],
    groups: tuple[str, ...],
    words: SessionWords | None = None,
) -> Asked:
    question, scopes = ask(text), scope_of(project).readable
    began = time.perf_counter()
    found = await kept.hybrid.search(question, Within(scopes, admitted(RecallPolicy())))
    searched = time.perf_counter()
    counted = words or _words_kept(kept, question, scopes)
    done = time.perf_counter()
    return Asked(
        question, found.candidates, counted, days, relevant, groups, (searched - began) * 1000, (done - searched) * 1000
    )


def _words_kept(kept: Bank, question: Question, scopes: Sequence[str]) -> SessionWords:
    """Sessions as documents, made of what is kept of them."""
    return SessionWords(
        lookup.session_term_counts(kept.reader, question.terms, scopes), lookup.session_lengths(kept.reader, scopes)
    )


def _day(text: str) -> date:
    """LoCoMo's `1:56 pm on 8 May, 2023`."""
    return datetime.strptime(text.partition(" on ")[2], "%d %B, %Y").date()


def _report(asked: Sequence[Asked], k: int, ways: Mapping[str, SessionWeights]) -> dict[str, Any]:
    report: dict[str, Any] = {}
    for way, weights in ways.items():
        began = time.perf_counter()
        places = [each.place(weights) for each in asked]
        ranking_ms = (time.perf_counter() - began) * 1000 / len(asked)
        groups = sorted({group for each in asked for group in each.groups})
        report[way] = {
            group: _measures([p for p, a in zip(places, asked, strict=True) if group in a.groups], k)
            for group in groups
        }
        report[way]["ranking_ms"] = round(ranking_ms, 2)
    report["search_p50_ms"] = round(statistics.median(each.search_ms for each in asked), 1)
    report["words_p50_ms"] = round(statistics.median(each.words_ms for each in asked), 1)
    return report


def _measures(places: Sequence[int], k: int) -> dict[str, float]:
    return {
        "questions": len(places),
        f"hit_{k}": round(statistics.mean(0 < place <= k for place in places), 4),
        "mrr": round(statistics.mean(1 / place if place else 0.0 for place in places), 4),
    }


_DATA: dict[str, Callable[[], Measured]] = {"locomo": _locomo, "memaware": _memaware}
_FILES = {"locomo": ("locomo10.json",), "memaware": ("memaware_sessions.jsonl", "memaware_dev.jsonl")}

if __name__ == "__main__":
    sys.exit(main())
