"""A committed case: what is remembered, what takes part of it away, what is asked, what may and what must be in the answer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Kind = Literal["forgotten", "corrected", "rejected", "expired", "other project", "other home"]
Surface = Literal[
    "search", "injection", "mcp", "profile", "list", "get", "mcp get", "why", "recall", "context", "audit", "export"
]
How = Literal["", "by text", "by an agent", "nothing"]
CASES = Path(__file__).with_name("cases.jsonl")


_LIKE_AN_ID = re.compile(r"[0-9a-f.:_TZ-]+", re.ASCII | re.IGNORECASE)


def could_be_in_an_id(text: str) -> bool:
    """Whether an id, a digest or a time of day may hold the text by chance, so that not finding it proves nothing."""
    return bool(_LIKE_AN_ID.fullmatch(text))


class Stored(BaseModel):
    """A memory of the case; `by` an agent it is a candidate."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str
    by: Literal["person", "agent"] = "person"
    category: str = "general"


class Case(BaseModel):
    """`forbidden` names the memories that are taken away; `absent` and `present` are texts of the answer to `query`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    kind: Kind
    surface: Surface
    remember: dict[str, Stored]
    forbidden: tuple[str, ...] = ("old",)
    how: How = ""
    correction: str = ""
    query: str
    absent: tuple[str, ...] = Field(min_length=1)
    present: tuple[str, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _is_meaningful(self) -> Case:
        taken = " ".join(self.remember[name].text for name in self.forbidden)
        kept = " ".join([self.correction, *(m.text for name, m in self.remember.items() if name not in self.forbidden)])
        if not all(text in taken and text not in kept for text in self.absent):
            raise ValueError("absent must be in what is taken away, and nowhere else")
        if not all(text in kept and text not in taken for text in self.present):
            raise ValueError("present must be in what stays, and not in what is taken away")
        if any(text in self.query for text in (*self.absent, *self.present)):
            raise ValueError("the query must not hold what is looked for in its answer")
        if any(could_be_in_an_id(text) for text in (*self.absent, *self.present)):
            raise ValueError("what is looked for must not be found in an id by chance: add a word to it")
        return self


def load_cases(path: Path = CASES) -> list[Case]:
    """The cases of a file, one a line."""
    return [Case.model_validate_json(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
