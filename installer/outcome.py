"""How setup went, for a person or a program."""

from __future__ import annotations

from typing import Any

from cems.adapters.agents_skills import AGENTS_SKILLS
from cems.core.cli import console
from cems.core.cli.failures import DONE, FAILED
from cems.installer.plan import AgentPlan, Plan
from cems.installer.prove import Proof


def tell(plan: Plan, failed: list[str], proof: Proof | None, as_json: bool) -> int:
    """Say how it went (`proof` None: not tried); the exit code."""
    problems = [*plan.problems, *failed, *([proof.problem] if proof and proof.problem else [])]
    if as_json:
        console.emit(_document(plan, plan.changes, problems, proof))
        return FAILED if problems else DONE
    for problem in problems:
        console.note(problem)
    if not (plan.changes or problems):
        console.say("everything is in place; nothing was changed")
    if proof and not proof.problem:
        _tell_proof(proof)
    if proof and proof.problem:
        console.note("`cems doctor` looks closer")
    elif plan.agents and not problems:
        agents = [each for each in plan.agents if each.agent is not AGENTS_SKILLS]
        waiting = [(each.agent.title, each.wiring.todo) for each in agents if each.wiring and each.wiring.todo]
        if ready := [each.agent.title for each in agents if not (each.wiring and each.wiring.todo)]:
            console.say(f"{_listed(ready)} will remember from the next session on. `cems --help` shows the commands.")
        for title, todo in waiting:
            console.say(f"{console.bold(title)} remembers nothing yet. {todo}.")
    elif not plan.agents:
        console.say("No agent is connected yet: install one and run `cems setup` again.")
    return FAILED if problems else DONE


def tell_dry_run(plan: Plan, as_json: bool) -> int:
    """Say what would have been done; the exit code."""
    if as_json:
        console.emit(_document(plan, False, plan.problems, None))
    else:
        console.say("nothing was written (--dry-run)" if plan.changes else "there is nothing to do")
    return FAILED if plan.problems else DONE


def _tell_proof(proof: Proof) -> None:
    console.say()
    ways = "as each of them runs it" if len(proof.agents) > 1 else f"as {' '.join(proof.agents)} runs it"
    console.say(f"Proved with a memory made for it and removed again: the installed hook, {ways}, put this")
    console.say(f"in front of a prompt, in {proof.milliseconds:.0f} ms.")
    console.say(console.paragraphs(proof.block.strip(), "  | "))
    console.say()


def _listed(names: list[str]) -> str:
    return " and ".join(([", ".join(names[:-1])] if names[1:] else []) + names[-1:])


def _document(plan: Plan, changed: bool, problems: list[str], proof: Proof | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "changed": changed,
        "agents": {entry.agent.name: _agent(entry) for entry in (*plan.agents, *plan.absent)},
        "programs": [str(path) for path in plan.launchers],
        "command": str(plan.link.link.path) if plan.link.link else None,
        "notes": list(plan.link.notes),
        "proof": None,
        "problems": problems,
    }
    if proof:
        ok, took = not proof.problem, round(proof.milliseconds, 1)
        document["proof"] = {"ok": ok, "ms": took, "block": proof.block, "problem": proof.problem}
    return document


def _agent(plan: AgentPlan) -> dict[str, Any]:
    wiring = plan.wiring
    return {
        "found": plan.detection.found,
        "version": plan.detection.version,
        "config_dir": str(plan.detection.config_dir),
        "files": [{"path": str(edit.path), "what": edit.summary} for edit in plan.edits],
        "entries": list(wiring.entries) if wiring else [],
        "left_out": list(wiring.removed) if wiring else [],
        "notes": list(wiring.notes) if wiring else [],
        "todo": wiring.todo if wiring else "",
        "problem": plan.problem,
        "looked_for": list(plan.detection.looked_for),
    }
