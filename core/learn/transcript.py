"""Agents' own records of their sessions, read as one list of events whatever the agent. Light.

An agent's adapter may have a reader (`ReadsTranscripts`). It reads a bounded piece at a time from where a cursor stands,
writes nothing, and remembers nothing: the cursor and the keys of what was told are kept by whoever asks, in one change with
what was made of the events.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

EventKind = Literal["person", "assistant", "tool_call", "tool_result"]

LIMIT_BYTES = 4 * 1024 * 1024
"""Of one reading, unless asked otherwise."""
LONGEST_RECORD = 6 * 1024 * 1024
"""Bytes of one line or row. What is longer (images, a dump of a whole request) is passed over, and said."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing said or done in a session.

    `key` is the same wherever the agent copies the event to (a fork, a resumed or compacted session). `at` is seconds since
    1970, None where the agent does not say. `offset` is the byte, or the number of the row, that its record begins at.
    `turn` is the agent's id of the message or turn. `machine`: a subagent, or the agent's program, and no person at it.

    Of tools: `tool` is Claude's name for it, `subject` what it works on (a command line, a path, else the input as JSON), `call`
    joins a result to its call. `text` is a call's input as JSON, and what a result says; both are cut where they are long. `ok`
    and `exit` are None where the agent does not say; `declined`: the person, or a rule of theirs, did not let it run.
    """

    kind: EventKind
    text: str
    key: str
    session: str
    offset: int
    at: float | None = None
    turn: str = ""
    cwd: str = ""
    machine: bool = False
    tool: str = ""
    subject: str = ""
    call: str = ""
    ok: bool | None = None
    exit: int | None = None
    declined: bool = False


@dataclass(frozen=True, slots=True)
class SessionSource:
    """One session's record: a file of its own, or its rows in a database that all sessions share.

    `session` is the id that the agent's hooks say too. `machine`: the record of a subagent. `parent`: its session's id, as far
    as the agent says.
    """

    agent: str
    path: Path
    session: str
    cwd: str = ""
    machine: bool = False
    parent: str = ""

    @property
    def name(self) -> str:
        """What a cursor is kept under."""
        return f"{self.agent} {self.path} {self.session}"


class OpenCall(NamedTuple):
    """A tool call whose result was not read yet."""

    call: str
    tool: str
    subject: str


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a source was read. `offset` is the first byte not read, or the last row read.

    `head` and `tail` are digests of the first and last bytes before the offset (of a row: `tail`, of its id). They, and not
    the file's inode or time, say whether this is still the same text: agents write files anew, with the old lines in front,
    and give the number of a deleted row to the next one. Where they do not match, reading begins again.
    `skipping`: the offset is inside a line that is too long.
    """

    offset: int = 0
    head: str = ""
    tail: str = ""
    skipping: bool = False
    calls: tuple[OpenCall, ...] = ()

    def dump(self) -> str:
        """As JSON, in ASCII."""
        return json.dumps([self.offset, self.head, self.tail, self.skipping, self.calls], separators=(",", ":"))

    @classmethod
    def load(cls, text: str) -> Cursor:
        """From `dump`; from anything else the beginning."""
        try:
            offset, head, tail, skipping, calls = json.loads(text)
            read = [OpenCall(*(str(part) for part in call)) for call in calls]
            if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
                return cls()
        except (ValueError, TypeError, RecursionError):
            return cls()
        return cls(offset, str(head), str(tail), bool(skipping), tuple(read))


class Skipped(NamedTuple):
    """A record that was passed over, and why: `too long` (with its bytes as far as they were read) or `unreadable`."""

    offset: int
    length: int
    reason: Literal["too long", "unreadable"]


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read in one go. `more`: the limit was reached before the end. `again`: the source was not the one that the
    cursor was made for, and was read from its beginning."""

    events: tuple[Event, ...]
    cursor: Cursor
    skipped: tuple[Skipped, ...] = ()
    more: bool = False
    again: bool = False


class TranscriptUnreadable(Exception):
    """A source that cannot be read now: gone, forbidden, locked or broken. A later try may do."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} cannot be read ({reason}); it is tried again later.")
        self.path = path
        self.reason = reason


class ReadsTranscripts(Protocol):
    """An agent's reader."""

    def sessions(self, home: Path, environ: Mapping[str, str], since: float = 0.0) -> Iterable[SessionSource]:
        """The sessions on this machine that changed at `since` (seconds since 1970) or later. Never raises: what cannot be
        read is left out."""

    def read(self, source: SessionSource, cursor: Cursor, limit_bytes: int = LIMIT_BYTES) -> Reading:
        """The next events after `cursor`, from about `limit_bytes` of the source, but at least from one record.

        The last record counts only once it is whole. Raises TranscriptUnreadable.
        """


class HasTranscripts(Protocol):
    """What an adapter may have besides."""

    def transcript_reader(self) -> ReadsTranscripts:
        """The reader of this agent's sessions, imported when it is asked for."""


@dataclass(slots=True)
class Told:
    """Which events were told before, in any session: 8 bytes of each key's digest.

    Two of a million events share one with a probability of 3 in 100 million.
    """

    digests: set[bytes] = field(default_factory=set)

    def new(self, events: Iterable[Event]) -> list[Event]:
        """Those that were not told before, in their order; from now on they were."""
        found = []
        for event in events:
            digest = hashlib.blake2b(event.key.encode("utf-8", "replace"), digest_size=8).digest()
            if digest not in self.digests:
                self.digests.add(digest)
                found.append(event)
        return found


def digest(data: bytes) -> str:
    """Short, for telling texts apart."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()
