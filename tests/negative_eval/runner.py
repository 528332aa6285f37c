"""Runs the committed cases of what must stay out of a result: material that was stored and could be found is looked for
again after something took it away, in a result that must also hold what was to be expected.

A case fails when the forbidden text is there; and, as a vacuous pass, when it could not be found before, or when the
expected text is missing after. `python -m tests.negative_eval.runner` prints a line for each case.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from tests.negative_eval.case import Case, Kind, Surface, load_cases
from tests.negative_eval.surfaces import WITHOUT_INDEX, YESTERDAY, Home, Place, open_home

from cems.core.embedding import BUNDLED, load_embedder


@dataclass(slots=True)
class Verdict:
    """What became of a case. `leaks` and `vacuous` are sentences; both empty is a pass."""

    case: Case
    leaks: list[str] = field(default_factory=list)
    vacuous: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.leaks and not self.vacuous

    def __str__(self) -> str:
        said = "; ".join([*(f"LEAK: {each}" for each in self.leaks), *(f"VACUOUS: {each}" for each in self.vacuous)])
        return f"{self.case.id}: {said or 'ok'}"


class Runner:
    """Runs cases in two homes with real parts. Each case has folders, and so projects, of its own."""

    def __init__(self, here: Home, elsewhere: Home, root: Path) -> None:
        self._here, self._elsewhere, self._root = here, elsewhere, root

    async def run(self, case: Case) -> Verdict:
        """Set the case up, see that what will be forbidden can be found, act, and look again: at once, and when the index
        has followed."""
        verdict = Verdict(case)
        reader = self._place(self._here, case, "reader")
        owner = {
            "other project": lambda: self._place(self._here, case, "owner"),
            "other home": lambda: Place(self._elsewhere, reader.folder, reader.session),
        }.get(case.kind, lambda: reader)()
        ids = {
            name: await (owner if name in case.forbidden else reader).remember(memory)
            for name, memory in case.remember.items()
        }
        before = await owner.read(case.surface, case.query, [ids[name] for name in case.forbidden])
        for text in case.absent:
            if text not in before:
                verdict.vacuous.append(f"{text!r} could not be found before")
        await self._act(case, owner, ids)
        moments = ("at once",) if case.surface in WITHOUT_INDEX else ("at once", "later")
        for moment in moments:
            if moment == "later":
                await self._here.settle()
            after = await reader.read(case.surface, case.query, list(ids.values()))
            verdict.leaks += [f"{text!r} is there {moment}" for text in case.absent if text in after]
            verdict.vacuous += [f"{text!r} is missing {moment}" for text in case.present if text not in after]
        return verdict

    async def _act(self, case: Case, owner: Place, ids: Mapping[str, str]) -> None:
        for name in case.forbidden:
            memory = case.remember[name]
            match case.kind, case.how:
                case _, "nothing":
                    return
                case "forgotten", "by text":
                    await owner.call("forget", {"text": memory.text})
                case "forgotten", "by an agent":
                    await owner.call("forget", {"id": ids[name], "reason": "asked"}, agent=True)
                case "forgotten", _:
                    await owner.call("forget", {"id": ids[name]})
                case "corrected", _:
                    await owner.call("edit", {"id": ids[name], "content": case.correction})
                case "rejected", _:
                    await owner.call("decide", {"id": ids[name], "verdict": "reject"})
                case "expired", _:
                    await owner.call("retract", {"id": ids[name], "at": YESTERDAY})
                case _:
                    # Nothing happens to it: the boundary alone keeps it out.
                    return

    def _place(self, home: Home, case: Case, name: str) -> Place:
        folder = self._root / case.id / name
        folder.mkdir(parents=True, exist_ok=True)
        return Place(home, folder, case.id)


@asynccontextmanager
async def open_runner(root: Path) -> AsyncIterator[Runner]:
    """A runner whose homes lie below `root`, with the bundled model."""
    embedder = load_embedder(BUNDLED)
    async with AsyncExitStack() as stack:
        here = await stack.enter_async_context(open_home(root / "here", embedder))
        elsewhere = await stack.enter_async_context(open_home(root / "elsewhere", embedder))
        yield Runner(here, elsewhere, root / "projects")


async def run_cases(cases: Sequence[Case], root: Path) -> list[Verdict]:
    """The verdict of each case, in order."""
    async with open_runner(root) as runner:
        return [await runner.run(case) for case in cases]


def table(verdicts: Sequence[Verdict]) -> str:
    """Passed of all, by kind and surface."""
    counts: dict[tuple[str, str], list[bool]] = {}
    for verdict in verdicts:
        counts.setdefault((verdict.case.kind, verdict.case.surface), []).append(verdict.passed)
    lines = [f"{'':14}" + "".join(f"{surface:>10}" for surface in get_args(Surface))]
    for kind in get_args(Kind):
        cells = [counts.get((kind, surface), []) for surface in get_args(Surface)]
        lines.append(f"{kind:14}" + "".join(f"{f'{sum(cell)}/{len(cell)}' if cell else '':>10}" for cell in cells))
    return "\n".join(lines)


def main() -> int:
    with tempfile.TemporaryDirectory() as root:
        verdicts = asyncio.run(run_cases(load_cases(), Path(root)))
    failed = [verdict for verdict in verdicts if not verdict.passed]
    sys.stdout.write("\n".join([*map(str, verdicts), "", table(verdicts), ""]))
    sys.stdout.write(f"{len(verdicts) - len(failed)} of {len(verdicts)} cases passed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
