"""The journal's tables, and the steps from each older schema to today's.

The chain is append-only by triggers. The payloads lie apart: purge may erase one (with its salt, so that nothing can be
guessed back from the commitment), and the chain still verifies.
"""

from __future__ import annotations

import sqlite3

_V1 = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE chain (
    seq INTEGER PRIMARY KEY,
    op_id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    entity TEXT NOT NULL,
    clock TEXT NOT NULL,
    device TEXT NOT NULL,
    device_seq INTEGER NOT NULL,
    actor TEXT NOT NULL,
    agent TEXT NOT NULL,
    session TEXT NOT NULL,
    commitment BLOB NOT NULL,
    hash BLOB NOT NULL,
    UNIQUE (device, device_seq)
);
CREATE INDEX chain_entity ON chain (entity);
CREATE TABLE payloads (op_id TEXT PRIMARY KEY, salt BLOB, body TEXT);
CREATE TRIGGER chain_no_update BEFORE UPDATE ON chain BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER chain_no_delete BEFORE DELETE ON chain BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
"""

# 2: an erased payload keeps its row, so that a purge can be told from a loss.
_V2 = """
ALTER TABLE payloads ADD COLUMN erased_at TEXT;
CREATE TRIGGER payload_no_delete BEFORE DELETE ON payloads BEGIN
    SELECT RAISE(ABORT, 'a payload is erased, not deleted');
END;
CREATE TRIGGER payload_only_erased BEFORE UPDATE ON payloads
WHEN NEW.body IS NOT NULL OR NEW.salt IS NOT NULL OR NEW.erased_at IS NULL
BEGIN SELECT RAISE(ABORT, 'a payload is erased, not changed'); END;
"""

# 3: the last entry is written down apart from the chain, so that entries cut off its end are missed; and the way around
# the other triggers, `INSERT OR REPLACE`, is closed.
_V3 = """
CREATE TRIGGER chain_no_replace BEFORE INSERT ON chain
WHEN EXISTS (SELECT 1 FROM chain WHERE seq = NEW.seq OR op_id = NEW.op_id)
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER payload_no_replace BEFORE INSERT ON payloads
WHEN EXISTS (SELECT 1 FROM payloads WHERE op_id = NEW.op_id)
BEGIN SELECT RAISE(ABORT, 'a payload is erased, not changed'); END;
INSERT OR REPLACE INTO meta SELECT 'head', seq || ' ' || lower(hex(hash)) FROM chain ORDER BY seq DESC LIMIT 1;
"""

# 4: what forgotten values mean, so that other words for one are recognised. Apart from the records: these cannot be folded.
_V4 = """
CREATE TABLE tombstone_vectors (value_key TEXT PRIMARY KEY, model TEXT NOT NULL, vector BLOB NOT NULL);
"""

MIGRATIONS: tuple[str, ...] = (_V1, _V2, _V3, _V4)
SCHEMA_VERSION = len(MIGRATIONS)


class JournalTooNew(Exception):
    """The journal was written by a newer CEMS than this one."""


def migrate(connection: sqlite3.Connection) -> int:
    """Bring the open database to today's schema, each step in its own transaction; returns the version it had."""
    found = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if found > SCHEMA_VERSION:
        raise JournalTooNew(
            f"the journal has schema {found}, this CEMS knows {SCHEMA_VERSION}; upgrade CEMS (run its ./install.sh again)"
        )
    for version in range(found, SCHEMA_VERSION):
        connection.executescript(f"BEGIN IMMEDIATE;{MIGRATIONS[version]}PRAGMA user_version={version + 1};COMMIT;")
    return found
