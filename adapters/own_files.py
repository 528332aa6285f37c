"""Files that are all ours, in folders of their own (skills, an agent's plugin): copied whole, another's never touched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cems.adapters.base import AgentRecord, FileEdit, Wish, read_file

SKILLS = Path(__file__).parent / "skills"
"""The skills, as Claude Code reads them; `cems.adapters.agents_skills` puts them in plain words for others."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """`name` is the entry's (`skill recall`), `what` says it to a person (`the skill /recall`); contents by their path
    below `root`. `own_folder`: the folder is ours alone, so that whatever is in it is somebody else's bundle."""

    name: str
    what: str
    root: Path
    files: Mapping[Path, bytes]
    own_folder: bool = True
    mode: int = 0o644


def skill_bundles(shipped: Path, target: Path) -> tuple[Bundle, ...]:
    """The skills in the folder `shipped`, each to go into a folder of its name in `target`."""
    bundles = []
    for manifest in sorted(shipped.glob("*/SKILL.md")):
        folder = manifest.parent
        found = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".pyc"]
        files = {path.relative_to(folder): path.read_bytes() for path in found}
        bundles.append(Bundle(f"skill {folder.name}", f"the skill /{folder.name}", target / folder.name, files))
    return tuple(bundles)


def add(bundles: Sequence[Bundle], wish: Wish, notes: list[str]) -> Iterator[tuple[str, list[FileEdit]]]:
    """Each bundle that is there or may be put there, with the edits that takes.

    A file of ours that was edited stays as it is; so does what has a bundle's name and is not ours.
    """
    known = wish.known
    for bundle in bundles:
        there = {file: read_file(bundle.root / file) for file in bundle.files}
        ours = known is not None and bundle.name in known.entries + known.removed
        if not ours and _occupied(bundle, there) and there != bundle.files:
            place = bundle.root if bundle.own_folder else bundle.root / next(iter(bundle.files))
            notes.append(f"{place} is somebody else's and is left alone; {bundle.what} is not set up")
            continue
        edits = []
        for file, content in bundle.files.items():
            path, before = bundle.root / file, there[file]
            if before == content:
                continue
            if before is None or (known is not None and known.wrote(path, before)):
                edits.append(FileEdit(path, before, content, bundle.what, mode=bundle.mode, ours=True))
            else:
                notes.append(f"{path} was edited and is left as it is")
        yield bundle.name, edits


def take_out(bundles: Sequence[Bundle], record: AgentRecord) -> Iterator[FileEdit]:
    """The removal of every file that is as we ship it or as we left it, those of older versions too."""
    for bundle in bundles:
        shipped = {bundle.root / file: content for file, content in bundle.files.items()}
        left = {file.path for file in record.files if bundle.own_folder and bundle.root in file.path.parents}
        for path in sorted({*shipped, *left}):
            current = read_file(path)
            if current is not None and (current == shipped.get(path) or record.wrote(path, current)):
                yield FileEdit(path, current, None, f"remove {bundle.what}", ours=True)


def present(bundles: Sequence[Bundle]) -> Iterator[str]:
    for bundle in bundles:
        if all((bundle.root / file).is_file() for file in bundle.files):
            yield bundle.name


def _occupied(bundle: Bundle, there: Mapping[Path, bytes | None]) -> bool:
    if bundle.own_folder:
        return bundle.root.is_symlink() or bundle.root.exists()
    return any(content is not None for content in there.values())
