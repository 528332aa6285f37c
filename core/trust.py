"""Trust: what a memory's word is worth, who decides that, and what each state withholds. Light.

| state | who sets it | where it is read |
|---|---|---|
| candidate | an agent, a tool, an import or a derivation adds | prompt and profile if the policy says so; search |
| trusted | a person adds, says it again, approves | everywhere |
| disputed | a machine writes what contradicts a trusted memory or comes near to a forgotten one; a person doubts | review |
| rejected | a person, in review | nowhere; a machine that says it again is refused |

No caller names a state for what it adds: `initial` follows from who speaks. Later changes are `trust` entries of the
journal: a person's verdicts (`cems.core.review`) and restatements. The gateway appends none of anybody else's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from cems.core.policy import RecallPolicy

Trust = Literal["candidate", "trusted", "disputed", "rejected"]
STATES: tuple[Trust, ...] = get_args(Trust)
SEARCHED: tuple[Trust, ...] = ("trusted", "candidate")
"""What a search may find, unless a person asks for all."""
WITHHELD: tuple[Trust, ...] = ("disputed", "rejected")
"""What reaches no prompt, no profile and no plain search."""


def admitted(policy: RecallPolicy) -> tuple[Trust, ...]:
    """The states that may reach a prompt: `inject = trusted`, or `candidates` (with those)."""
    return ("trusted", "candidate") if policy.inject == "candidates" else ("trusted",)


def initial(*, by_person: bool, doubted: bool = False) -> Trust:
    """The state in which a new memory begins. A person's word is trusted even where it is doubted; they are told."""
    return "trusted" if by_person else "disputed" if doubted else "candidate"
