"""Text and clocks that break programs: through the command line's operation, the MCP tools and the prompt hook."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.daemon_nursery import cli
from tests.fakes.real_parts import Place, run
from tests.unit.test_cli_stand_in import standing_in

from cems.core.recall.render import utf16_units
from cems.core.service.caller import Caller
from cems.core.service.operations import OperationFailed

FAMILY = "👩\u200d👩\u200d👧\u200d👦"
QUESTION = "how do we name the release branches of the shop"
FACT = "Release branches of the shop are named after birds"
HAZARDS = {
    "emoji": f"{FACT} {FAMILY} 🏳️\u200d🌈 e\u0301",
    "right to left": f"{FACT}: שלום עולם, مرحبا بالعالم",
    "direction marks": f"{FACT} \u202eevil\u202c \u2066x\u2069",
    "CJK": f"{FACT}：发布分支以鸟命名。リリースブランチは鳥の名前",
    "NUL": f"{FACT}\x00 always\x07\x1b[31m",
    "lone surrogates": f"{FACT} \ud83d and \udc69",
    "separators": f"{FACT}\u2028one\u2029two\x85three\x0cfour",
    "stacked accents": f"{FACT} Z{chr(0x0301) * 300}algo",
    "noncharacters": f"{FACT} \ufffe\uffff\U0010ffff",
}


def person(place: Place) -> Caller:
    return place.caller()


def tools(place: Place) -> Caller:
    return place.caller(client="mcp", agent="claude-code", tty=False)


def is_text(value: Any) -> bool:
    """Whether every program can read it: whole characters, no NUL."""
    text = json.dumps(value, ensure_ascii=False)
    return "\x00" not in text and "\\u0000" not in text and text.encode("utf-8").decode("utf-8") == text


@pytest.mark.parametrize("name", HAZARDS)
@pytest.mark.parametrize("caller", [person, tools])
def test_it_is_kept_found_shown_and_injected_as_whole_text(place: Place, name: str, caller: Any) -> None:
    async def work() -> None:
        for number in range(4):
            place.add(f"Something else, number {number}.")
        added = await place.call("add", {"content": HAZARDS[name], "title": "", "tags": ["birds\ud800"]}, caller(place))
        assert added["status"] in ("added", "candidate"), added
        memory = (await place.call("show", {"id": added["id"]}, caller(place)))["memory"]
        assert is_text(memory)
        assert memory["content"].startswith(FACT)
        found = await place.call("search", {"query": f"{QUESTION} {HAZARDS[name]}"}, caller(place))
        assert found["memories"][0]["id"] == added["id"]
        assert is_text(found)
        block = await place.prompt(f"{QUESTION}\ud83d?")
        assert FACT in block
        assert is_text(block)
        assert "\x1b" not in block
        assert not {"\u202e", "\u2066"} & set(block)
        # The same in other bytes is the same value: refused once forgotten.
        await place.call("forget", {"id": added["id"]}, person(place))
        again = await place.call("add", {"content": HAZARDS[name].upper() + "\u200b"}, caller(place))
        assert again["status"] == "refused"
        assert place.journal.verify() == []

    run(work())


def test_two_facts_in_chinese_are_two_values_and_each_is_found(place: Place) -> None:
    async def work() -> None:
        first = (await place.call("add", {"content": "生产数据库在北京"}))["id"]
        second = (await place.call("add", {"content": "测试数据库在上海"}))["id"]
        assert first != second
        await place.call("forget", {"id": first})
        assert (await place.call("add", {"content": "生产数据库在北京"}))["status"] == "refused"
        assert (await place.call("add", {"content": "测试数据库在上海"}))["status"] == "duplicate"
        found = await place.call("search", {"query": "测试数据库"})
        assert [each["id"] for each in found["memories"]] == [second]

    run(work())


@pytest.mark.parametrize("offset", range(len(FAMILY)))
def test_an_emoji_at_the_edge_of_what_is_shown_is_whole_or_absent(place: Place, offset: int) -> None:
    async def work() -> None:
        await place.call("add", {"content": f"{FACT} {'x' * offset}{FAMILY * 1_000}"})
        block = await place.prompt(QUESTION)
        assert is_text(block)
        assert utf16_units(block) <= 9_500
        shown = block.partition(FACT)[2].partition(" … (cut")[0]
        assert re.fullmatch(f" x{{{offset}}}({FAMILY})+", shown)

    run(work())


@pytest.mark.parametrize("caller", [person, tools])
def test_a_megabyte_is_refused_with_a_sentence(place: Place, caller: Any) -> None:
    async def work() -> None:
        answer = await place.call("add", {"content": "é" * 1_000_000}, caller(place))
        assert answer["status"] == "refused"
        assert "at most 32,000 characters" in answer["reason"]
        assert "1,000,000" in answer["reason"]
        memory = place.add(FACT)
        edited = await place.call("edit", {"id": memory, "content": "x" * 1_000_000}, caller(place))
        assert edited["status"] == "refused"
        assert place.row(memory)["state"] == "live"
        # The refusal is journaled, the megabyte is not.
        size = place.journal.connection.execute("SELECT MAX(LENGTH(body)) FROM payloads").fetchone()[0]
        assert size < 10_000
        # A prompt of a megabyte is looked at all the same.
        assert is_text(await place.prompt(QUESTION + " " + "x " * 500_000))

    run(work())


def test_the_command_line_refuses_a_megabyte_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with standing_in(tmp_path, monkeypatch) as daemon:
        daemon.answers["add"] = {
            "id": None,
            "status": "refused",
            "reason": "a memory has at most 32,000 characters",
            "redacted": 0,
        }
        done = cli(daemon.home, "add", "word " * 20_000, folder=tmp_path)
        assert done.returncode == 4
        assert len(done.stderr.splitlines()) == 1
        assert "at most 32,000 characters" in done.stderr


@pytest.mark.parametrize("back", [timedelta(hours=1), timedelta(days=400)])
def test_a_clock_set_back_keeps_the_order_of_what_was_said(
    place: Place, monkeypatch: pytest.MonkeyPatch, back: timedelta
) -> None:
    async def work() -> None:
        first = (await place.call("add", {"content": FACT}))["id"]
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now - back.total_seconds())
        edited = (await place.call("edit", {"id": first, "content": f"{FACT} and fish"}))["id"]
        await place.call("pin", {"id": edited, "pinned": True})
        later = (await place.call("add", {"content": "Logs go to Loki."}))["id"]
        await place.call("forget", {"id": later})
        assert (await place.call("add", {"content": "Logs go to Loki."}))["status"] == "refused"
        clocks = [row[0] for row in place.journal.connection.execute("SELECT clock FROM chain ORDER BY seq")]
        assert clocks == sorted(clocks)
        old, new = place.row(first), place.row(edited)
        assert (old["state"], new["state"], new["pinned"]) == ("closed", "live", True)
        assert old["recorded_at"] <= old["expired_at"]
        assert old["recorded_at"] <= new["recorded_at"]
        assert f"{FACT} and fish" in await place.prompt(QUESTION)
        place.journal.refold()
        assert (place.row(first)["state"], place.row(edited)["state"], place.row(later)["state"]) == (
            "closed", "live", "hidden",
        )  # fmt: skip
        assert place.journal.verify() == []

    run(work())


def test_instants_with_any_offset_are_one_instant_and_impossible_ones_a_sentence(place: Place) -> None:
    async def work() -> None:
        soon = datetime.now(UTC) + timedelta(hours=3)
        # In Tokyo's time it looks like later today, and it is the same instant.
        texts = [soon.isoformat(), soon.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")]
        for number, text in enumerate(texts):
            memory = (await place.call("add", {"content": f"{FACT} {number}", "valid_to": text}))["id"]
            assert place.row(memory)["valid_to"].endswith("Z")
            assert place.row(memory)["valid_to"][:19] == soon.isoformat()[:19]
        for text in ("yesterday", "2026-02-30T00:00:00Z", "99999-01-01T00:00:00Z", "\ud83d", ""):
            with pytest.raises(OperationFailed) as wrong:
                await place.call("add", {"content": f"{FACT} {text!r}", "valid_to": text})
            assert wrong.value.exit_status == 2
            assert "valid_to" in str(wrong.value)

    run(work())
