"""Remembering the lines of a JSON lines file, in batches that are taken whole or not at all."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from cems.core.cli import asking, console, options
from cems.core.cli.failures import DONE, FAILED, REFUSED, USAGE, CommandError

Document = dict[str, Any]
Line = tuple[int, Document]

_BATCH = 100
_SECONDS_A_BATCH = 300.0
_MOST_TOLD = 20
_TEXTS = ("content", "category", "title", "kind", "scope")
_TIMES = ("valid_from", "valid_to", "recorded_at")
_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys((*_TEXTS, *_TIMES), (str,)),
    "tags": (list,),
    "pin": (bool,),
    "confidence": (int, float),
}


class Progress(Protocol):
    """Told how many lines are done."""

    def __call__(self, done: int, /) -> None: ...


def add_lines(path: Path, *, defaults: Document, as_json: bool) -> int:
    """Remember each line of `path`, with `defaults` for what a line does not say; returns the exit code.

    The whole file is checked before the first line is sent. Raises CommandError with the line's number.
    """
    lines, ignored = _checked(_numbered(path), defaults)
    if ignored:
        console.note(f"not known and left out: {', '.join(sorted(ignored))}")
    results: list[Document] = []
    with _progress(len(lines), shown=not as_json) as progress:
        for start in range(0, len(lines), _BATCH):
            batch = lines[start : start + _BATCH]
            results += _sent(batch, done=start)
            progress(len(results))
    counts = {status: sum(result.get("status") == status for result in results) for status in _STATUSES}
    if as_json:
        console.emit({"results": results, **counts})
    else:
        _tell(results, counts)
    return FAILED if counts["unusable"] else REFUSED if counts["refused"] else DONE


_STATUSES = {
    "added": "remembered",
    "duplicate": "already known",
    "candidate": "kept as candidates",
    "refused": "refused",
    "unusable": "not usable",
}


def _numbered(path: Path) -> list[tuple[int, str]]:
    try:
        text = options.piped_text() if str(path) == "-" else path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}", exit_code=USAGE) from None
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not UTF-8 at byte {error.start}; nothing was remembered") from None
    # Not splitlines(): it also splits at characters that JSON allows inside a string.
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _checked(lines: list[tuple[int, str]], defaults: Document) -> tuple[list[Line], set[str]]:
    checked: list[Line] = []
    ignored: set[str] = set()
    for number, text in lines:
        try:
            item = _item(text)
        except ValueError as error:
            raise CommandError(
                f"line {number}: {error}; nothing was remembered",
                code="bad_line",
                next_step="mend the line and run it again",
            ) from None
        ignored |= item.keys() - _TYPES.keys()
        checked.append((number, {**defaults, **{key: item[key] for key in item.keys() & _TYPES.keys()}}))
    return checked, ignored


def _item(text: str) -> Document:
    """One line as an item for `add`. Raises ValueError with what is wrong with it."""
    try:
        item = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("not a JSON object on one line") from None
    if not isinstance(item, dict):
        raise ValueError("not a JSON object")
    item = {key: value for key, value in item.items() if value is not None}
    for key, types in _TYPES.items():
        # A bool is an int to Python, and no confidence.
        if key in item and (not isinstance(item[key], types) or (key == "confidence" and isinstance(item[key], bool))):
            raise ValueError(f"`{key}` must be {' or '.join(kind.__name__ for kind in types)}")
    if not str(item.get("content", "")).strip():
        raise ValueError("`content` is missing or empty")
    if not all(isinstance(tag, str) for tag in item.get("tags", [])):
        raise ValueError("`tags` must be a list of texts")
    if item.get("scope", "user") not in ("project", "user"):
        raise ValueError("`scope` must be project or user")
    for key in _TIMES:
        if key in item:
            try:
                item[key] = options.instant(item[key], f"`{key}`")
            except CommandError as error:
                raise ValueError(error.message) from None
    if "valid_from" in item and "valid_to" in item and _moment(item["valid_from"]) >= _moment(item["valid_to"]):
        raise ValueError("`valid_to` must lie after `valid_from`")
    return item


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _sent(batch: list[Line], *, done: int) -> list[Document]:
    first, last = batch[0][0], batch[-1][0]
    try:
        answer = asking.ask("add_many", {"items": [item for _, item in batch]}, timeout=_SECONDS_A_BATCH)
    except CommandError as error:
        kept = f"; the {console.plural(done, 'line')} before are remembered" if done else ""
        message = f"lines {first} to {last} were not remembered: {error.message}{kept}"
        raise CommandError(message, exit_code=error.exit_code, code=error.code, next_step=error.next_step) from None
    return [{"line": number, **result} for (number, _), result in zip(batch, answer["results"], strict=True)]


def _tell(results: list[Document], counts: dict[str, int]) -> None:
    told = [f"{console.plural(count, 'line')} {_STATUSES[status]}" for status, count in counts.items() if count]
    console.say(", ".join(told) or "the file holds no lines")
    redacted = sum(int(result.get("redacted") or 0) for result in results)
    if redacted:
        parts = console.plural(redacted, "secret or private part", "secrets or private parts")
        console.say(f"{parts} cut out before anything was written")
    refused = [result for result in results if result.get("status") in ("refused", "unusable")]
    for result in refused[:_MOST_TOLD]:
        reason = console.one_line(str(result.get("reason") or "no reason given"), 300)
        console.note(f"line {result['line']} {_STATUSES[result['status']]}: {reason}")
    if len(refused) > _MOST_TOLD:
        console.note(f"and {len(refused) - _MOST_TOLD} more; --json lists them all")


@contextmanager
def _progress(total: int, *, shown: bool) -> Iterator[Progress]:
    """A bar on standard error when a person watches and there is more than one batch to wait for."""
    if not shown or total <= _BATCH or not console.is_terminal(sys.stderr):
        yield _nowhere
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("remembering", total=total)
        yield lambda done: bar.update(task, completed=done)


def _nowhere(_done: int) -> None:
    """Progress that nobody watches."""
