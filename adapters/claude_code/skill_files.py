"""Our skills in Claude Code's folder, each copied whole; another's of the same name is never touched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cems.adapters.base import AgentRecord, FileEdit, Wish, read_file

SHIPPED = Path(__file__).parent / "skills"


def skills() -> Iterator[tuple[str, dict[Path, bytes]]]:
    """Each skill we ship: its name, and its files by their path below the skill's folder."""
    for manifest in sorted(SHIPPED.glob("*/SKILL.md")):
        folder = manifest.parent
        files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".pyc"]
        yield folder.name, {path.relative_to(folder): path.read_bytes() for path in files}


def add(folder: Path, wish: Wish, notes: list[str]) -> Iterator[tuple[str, list[FileEdit]]]:
    """Each skill that is in `<folder>/skills` or may be put there, with the edits that takes.

    A file of ours that was edited stays as it is; so does a skill of the same name that is not ours.
    """
    known = wish.known
    for name, shipped in skills():
        target = folder / "skills" / name
        there = {file: read_file(target / file) for file in shipped}
        ours = known is not None and f"skill {name}" in known.entries + known.removed
        if not ours and _occupied(target) and there != shipped:
            notes.append(f"{target} is a skill of someone else's and is left alone; ours of that name is not set up")
            continue
        edits = []
        for file, content in shipped.items():
            before = there[file]
            if before == content:
                continue
            if before is None or (known is not None and known.wrote(target / file, before)):
                edits.append(FileEdit(target / file, before, content, f"the skill /{name}", mode=0o644))
            else:
                notes.append(f"{target / file} was edited and is left as it is")
        yield f"skill {name}", edits


def take_out(folder: Path, record: AgentRecord) -> Iterator[FileEdit]:
    """The removal of every skill file that is as we ship it or as we left it."""
    paths = {folder / "skills" / name / file: content for name, files in skills() for file, content in files.items()}
    root = folder / "skills"
    for path in {*paths, *(known.path for known in record.files if root in known.path.parents)}:
        current = read_file(path)
        if current is not None and (current == paths.get(path) or record.wrote(path, current)):
            yield FileEdit(path, current, None, f"remove the skill /{path.relative_to(root).parts[0]}")


def present(folder: Path) -> Iterator[str]:
    for name, files in skills():
        if all((folder / "skills" / name / file).is_file() for file in files):
            yield f"skill {name}"


def _occupied(folder: Path) -> bool:
    return folder.is_symlink() or folder.exists()
