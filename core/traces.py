"""Where a text still stands: every file of a folder as raw bytes, and its databases row by row, decoded."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cems.core.needles import Needle, anywhere_in, holds, lines_of, raw_forms
from cems.core.recall.terms import terms

if TYPE_CHECKING:
    from cems.core.paths import Home

_CHUNK = 1 << 20
_SQLITE = b"SQLite format 3\0"
_TABLE = ".lance"
_MOST = 200
"""Places named at most; more would tell nobody anything."""
_UNREADABLE = "cannot be read"


@dataclass(frozen=True, slots=True)
class Trace:
    """One place. `form` says how the text stands there, or that the place cannot be read and so not vouched for."""

    place: str
    form: str


def search_home(home: Home, needles: Collection[Needle]) -> list[Trace]:
    """Everything in CEMS_HOME but the program itself (`env/`): raw bytes, SQLite rows, LanceDB rows of all versions."""
    return search_folder(home.root, needles, leave_out=(home.env,))


def search_folder(root: Path, needles: Collection[Needle], *, leave_out: Sequence[Path] = ()) -> list[Trace]:
    """The same for any folder. The lines of a text that has several are looked for too."""
    sought = (*needles, *lines_of(needles))
    traces: dict[Trace, None] = {}
    files, forms = list(_files(root, leave_out)), raw_forms(sought)
    for path in files:
        traces |= dict.fromkeys(_named_or_raw(path, root, sought, forms))
    for path in files:
        if _starts(path, _SQLITE):
            traces |= dict.fromkeys(search_sqlite(path, sought, str(path.relative_to(root))))
    for table in {parent for path in files for parent in path.parents if parent.suffix == _TABLE}:
        traces |= dict.fromkeys(search_lance(table, sought, str(table.relative_to(root))))
    return sorted(traces, key=lambda each: (each.place, each.form))[:_MOST]


def search_files(folders: Iterable[Path], needles: Collection[Needle]) -> list[Trace]:
    """The files, and those below these folders, that hold one of the texts as bytes, each once; nothing is decoded."""
    forms = raw_forms(needles)
    found = []
    for folder in folders:
        for path in _files(folder, ()):
            try:
                form = next(iter(_forms_in(path, forms)), "")
            except OSError:
                form = _UNREADABLE
            if form:
                found.append(Trace(str(path), form))
    return sorted(found, key=lambda each: each.place)[:_MOST]


def search_sqlite(path: Path, needles: Collection[Needle], name: str = "") -> list[Trace]:
    """Every column of every table, and the words of the text in indexes in which no memory has them any more."""
    name = name or path.name
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)) as connection:
            connection.text_factory = bytes
            return [Trace(f"{name}: {place}", form) for place, form in _in_sqlite(connection, needles)]
    except sqlite3.Error as error:
        return [Trace(name, f"{_UNREADABLE} ({error})")]


def search_lance(table: Path, needles: Collection[Needle], name: str = "") -> list[Trace]:
    """Every string of every row of every version of a LanceDB table."""
    name = name or table.name
    try:
        import lancedb

        opened = lancedb.connect(table.parent).open_table(table.stem)
        found: list[Trace] = []
        for version in (each["version"] for each in opened.list_versions()):
            opened.checkout(version)
            texts = [field.name for field in opened.schema if "string" in str(field.type)]
            for column, values in opened.search().select(texts).limit(None).to_arrow().to_pydict().items():
                if any(_value_holds(value, needles) for value in values):
                    found.append(Trace(f"{name}: {column}, version {version}", "row"))
    except BaseException as error:
        # Its native part answers a damaged file with a panic, which is no Exception.
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return [Trace(name, f"{_UNREADABLE} ({type(error).__name__})")]
    return found


def _files(root: Path, leave_out: Sequence[Path]) -> Iterator[Path]:
    """Regular files below (or the file `root` itself), in no order; links are not followed."""
    if root.is_file():
        yield root
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if Path(folder, name) not in leave_out]
        for file in files:
            path = Path(folder, file)
            try:
                if stat.S_ISREG(path.lstat().st_mode):
                    yield path
            except OSError:
                continue


def _named_or_raw(path: Path, root: Path, needles: Collection[Needle], forms: dict[bytes, str]) -> Iterator[Trace]:
    place = str(path.relative_to(root))
    if holds(place, needles):
        yield Trace(place, "the file's name")
    try:
        for form in _forms_in(path, forms):
            yield Trace(place, form)
    except FileNotFoundError:
        return
    except OSError as error:
        yield Trace(place, f"{_UNREADABLE} ({error.strerror})")


def _forms_in(path: Path, forms: dict[bytes, str]) -> Iterator[str]:
    """The names of the forms that the file holds, each once. The file is read in pieces that overlap."""
    if not forms:
        return
    overlap = max(map(len, forms)) - 1
    wanted, tail = dict(forms), b""
    with path.open("rb") as file:
        while wanted and (chunk := file.read(_CHUNK)):
            window = tail + chunk.lower()
            found = dict.fromkeys(form for data, form in wanted.items() if data in window)
            yield from found
            wanted = {data: form for data, form in wanted.items() if form not in found}
            tail = window[-overlap:] if overlap else b""


def _starts(path: Path, head: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(head)) == head
    except OSError:
        return False


def _in_sqlite(connection: sqlite3.Connection, needles: Collection[Needle]) -> Iterator[tuple[str, str]]:
    tables = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
    names = [(name.decode(), (sql or b"").decode("utf-8", "replace").lower()) for name, sql in tables]
    for name, sql in names:
        if "using fts5" in sql:
            # Its content lies in a table of its own; the index is looked at by words.
            continue
        cursor = connection.execute(f'SELECT * FROM "{name}"')  # noqa: S608
        columns = [column[0] for column in cursor.description]
        found: set[str] = set()
        for row in cursor:
            found |= {
                column
                for column, value in zip(columns, row, strict=True)
                if column not in found and _value_holds(value, needles)
            }
        yield from ((f"{name}.{column}", "row") for column in sorted(found))
    yield from _stale_words(connection, dict(names), needles)


def _stale_words(
    connection: sqlite3.Connection, tables: dict[str, str], needles: Collection[Needle]
) -> Iterator[tuple[str, str]]:
    if "records" not in tables:
        return
    sought = {word for needle in needles for word in terms(needle.text)}
    for (text,) in connection.execute("SELECT terms FROM records"):
        sought -= set(text.decode("utf-8", "replace").split())
    queries = {name: _vocabulary(connection, name) for name, sql in tables.items() if "using fts5" in sql}
    if "scope_terms" in tables:
        queries["scope_terms"] = "SELECT term FROM scope_terms"
    for name, query in queries.items():
        if any(word.decode("utf-8", "replace") in sought for (word,) in connection.execute(query)):
            yield name, "a word of it, which no memory has"


def _vocabulary(connection: sqlite3.Connection, table: str) -> str:
    # A temporary table: the file is open for reading only.
    connection.execute(f"CREATE VIRTUAL TABLE temp.\"words_of_{table}\" USING fts5vocab(main, '{table}', row)")
    return f'SELECT term FROM temp."words_of_{table}"'  # noqa: S608


def _value_holds(value: Any, needles: Collection[Needle]) -> bool:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            value = json.loads(value)
        except ValueError:
            return holds(value, needles)
    return anywhere_in(value, needles)
