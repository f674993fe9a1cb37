"""Kernels at a git revision: a folder of kernels as it was, in the cache; and one kernel at two of them, side by side.

Git hands over stored objects only: no checkout, index, hook, filter, attribute or remote is used or changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from gdnbench.catalog.catalog import Catalog, load_catalog
from gdnbench.catalog.entry import CatalogEntry, label_parts
from gdnbench.catalog.load import REVISION_MARK
from gdnbench.catalog.select import find_broken, find_variant, unknown_kernel
from gdnbench.errors import MachineError, UnknownNameError, UnknownRevisionError, UsageError
from gdnbench.model.kernel import TorchKernel
from gdnbench.model.op import Op
from gdnbench.origin import CACHE_VARIABLE, cache_root
from gdnbench.regular_file import MOST_BYTES, MOST_SOURCE_BYTES
from gdnbench.wording import did_you_mean

WORKING_TREE = "."
"""Stands for the working tree where a revision is expected."""

_GIT_LIMIT_S = 60.0
_SHORT = 10  # digits of a commit in names
_LONGEST_SUBJECT = 72
_OF_A_HOOK = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"}  # name another repository than the folder's
_NO_REMOTES = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
_AS_GIT_DOES = "name a revision as git does: HEAD~1, a branch, a tag, a commit"


@dataclass(frozen=True)
class Revision:
    """A commit and how the user named it; `time_s` is when it was made, in seconds since the epoch."""

    typed: str
    commit: str
    time_s: int
    subject: str

    @property
    def short(self) -> str:
        """The first digits of the commit, by which kernels of it are named."""
        return self.commit[:_SHORT]


def find_revision(root: Path, typed: str) -> Revision:
    """The revision of the repository that holds a folder.

    Raises UsageError if the folder is in none, UnknownRevisionError if it has no such revision, MachineError without
    git.
    """
    top = _repository_of(root)
    words = ("rev-parse", "--verify", "--end-of-options", f"{typed}^{{commit}}")
    try:
        commit = _git(top, *words, problem=f"git has no {typed} in {top}").decode().strip()
    except UsageError as error:
        raise UnknownRevisionError(
            error.message.removesuffix(": fatal: Needed a single revision"), error.hint
        ) from error
    text = _git(top, "cat-file", "commit", commit, problem=f"git cannot read {typed}").decode(errors="replace")
    header, _, message = text.partition("\n\n")
    [committer] = [line for line in header.splitlines() if line.startswith("committer ")]
    subject = "".join(filter(str.isprintable, message.strip().partition("\n")[0]))
    return Revision(typed, commit, int(committer.split()[-2]), subject[:_LONGEST_SUBJECT])


def has_revision(root: Path, typed: str) -> bool:
    """Whether a folder is in a repository with this revision; MachineError without git."""
    try:
        return bool(find_revision(root, typed))
    except UsageError:
        return False


def catalog_at(catalog: Catalog, root: Path, revision: Revision) -> Catalog:
    """The catalog with one of its roots as it was; UsageError if the revision lacks the folder, or as `find_revision`.

    Raises MachineError if the cache cannot be written.
    """
    then = _export(root, revision)
    return load_catalog(then if each == root else each for each in catalog.roots)


def check_was_there(then: Catalog, name: str, typed: str, folder: Path) -> None:
    """Raises UsageError, with the reason, unless the catalog of a revision has the kernel, which is in `folder` now."""
    if then.owner(name):
        return
    in_folder = (each for each in then.broken if each.folder.name == folder.name)
    if broken := find_broken(then, name) or next(in_folder, None):
        raise UsageError(f"{name} did not load at {typed}: {broken.reason}", "compare with another revision")
    known = [variant.label for entry in then.entries.values() for variant in entry.variants]
    hint = did_you_mean(name, known, f"it is new since, or renamed: git log --stat -- {folder}", cutoff=0.8)
    raise UnknownNameError(f"{typed} has no kernel {name}", hint)


def _repository_of(folder: Path) -> Path:
    top = _git(folder, "rev-parse", "--show-toplevel", problem=f"{folder} is in no git repository with a working tree")
    return Path(os.fsdecode(top).removesuffix("\n"))


def _export(root: Path, revision: Revision) -> Path:
    top = _repository_of(root)
    inside = root.resolve().relative_to(top.resolve()).as_posix()
    named = f"{revision.commit}:{'' if inside == '.' else inside}"
    words = ("rev-parse", "--verify", "--end-of-options", named)
    tree = _git(top, *words, problem=f"{revision.typed} has no {inside}").decode().strip()
    return _stored(tree, lambda folder: _write_tree(top, tree, folder, revision.typed))


@dataclass(frozen=True)
class _File:
    """A file in a tree: its mode, its blob, its size in bytes and its path."""

    mode: str
    blob: str
    size: int
    path: PurePosixPath


def _write_tree(top: Path, tree: str, folder: Path, typed: str) -> None:
    """Writes the files of a tree, without those too large for sources; links are kept if they lead to files in it."""
    listed = _git(top, "ls-tree", "-r", "-l", "-z", tree, problem=f"git cannot list {typed}")
    files = [each for each in _files(listed) if each.size <= MOST_SOURCE_BYTES]
    if sum(each.size for each in files) > MOST_BYTES:
        problem = f"the folder of kernels holds more than {MOST_BYTES >> 20} MiB at {typed}"
        raise UsageError(problem, "keep kernels in a folder of their own")
    wanted = "".join(f"{each.blob}\n" for each in files).encode()
    contents = memoryview(_git(top, "cat-file", "--batch", problem=f"git cannot read {typed}", stdin=wanted))
    place = 0
    folder.mkdir()
    for each in files:
        header = f"{each.blob} blob {each.size}\n".encode()
        if contents[place : place + len(header)] != header:
            raise UsageError(f"git lacks {each.path} of {typed}", "git fetch the whole of its commit first")
        content = bytes(contents[place + len(header) : place + len(header) + each.size])
        place += len(header) + each.size + 1
        _write(folder, each, content)


def _files(listed: bytes) -> Iterator[_File]:
    """Yields the blobs of `ls-tree`, which lists submodules, too; UsageError for a path that leaves the tree."""
    for line in filter(None, listed.split(b"\0")):
        facts, _, name = line.partition(b"\t")
        mode, kind, blob, size = facts.decode().split()
        path = PurePosixPath(os.fsdecode(name))
        if path.is_absolute() or not {"..", ".git"}.isdisjoint(path.parts):
            raise UsageError(f"git lists {path}, which leaves its folder", "the repository is damaged")
        if kind == "blob":
            yield _File(mode, blob, int(size), path)


def _write(folder: Path, file: _File, content: bytes) -> None:
    path = folder / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    if file.mode != "120000":
        path.write_bytes(content)
    elif Path(os.path.normpath(path.parent / os.fsdecode(content))).is_relative_to(folder):
        path.symlink_to(os.fsdecode(content))


def _stored(name: str, write: Callable[[Path], None]) -> Path:
    """A folder of the cache, which is complete if it is there: it is written aside and renamed."""
    folder = cache_root() / "revisions" / name
    try:
        if folder.is_dir():
            os.utime(folder)  # the cache removes what was not used for longest
            return folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent, prefix=".") as aside:
            write(Path(aside, "tree"))
            if not folder.is_dir():
                Path(aside, "tree").rename(folder)
    except OSError as error:
        message = f"cannot write kernels of a revision into {folder.parent}: {error.strerror}"
        raise MachineError(message, f"set {CACHE_VARIABLE} to a folder that can be written") from error
    return folder


def _git(folder: Path, *arguments: str, problem: str, stdin: bytes = b"") -> bytes:
    environment = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK} | _NO_REMOTES
    command = ["git", "--no-replace-objects", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, timeout=_GIT_LIMIT_S, check=True, env=environment
        )
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise UsageError(f"{problem}: {reason}", _AS_GIT_DOES) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"git does not run: {error}", "revisions need git: install it") from error
    return done.stdout


@dataclass(frozen=True)
class RevisionPair:
    """One kernel at two revisions, as two kernels of one op: a catalog that has both, and their labels there.

    `notes` say which revisions they are, `warnings` what else differs.
    """

    catalog: Catalog
    op: str
    before: str
    after: str
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class _Side:
    """A kernel at a revision, None for the working tree, in the catalog of then; `root` is its root in the checkout."""

    revision: Revision | None
    root: Path
    catalog: Catalog
    entry: CatalogEntry
    label: str

    @property
    def typed(self) -> str:
        return self.revision.typed if self.revision else "the working tree"

    @property
    def named(self) -> str:
        """Its label beside the other side's: `decode-v4@0a1b2c3d4e:WARPS=4`, or as it is in the working tree."""
        name, settings = label_parts(self.label)
        return ":".join([f"{name}@{self.revision.short}" if self.revision else name, *settings])

    @property
    def note(self) -> str:
        subject = f": {self.revision.subject}" if self.revision else ""
        return f"{self.named} is {self.typed}{subject}"

    @property
    def age(self) -> float:
        """By which the newer side is the larger."""
        return self.revision.time_s if self.revision else float("inf")

    @property
    def op_hash(self) -> str:
        return self.catalog.op_hash(self.entry.op.name)


def pair_revisions(catalog: Catalog, label: str, before: str, after: str) -> RevisionPair:
    """Makes two kernels of one: as it was at the revision `before`, and at `after`; `.` is the working tree.

    Both are judged by the newer one's op. Raises UsageError if their sources are equal, a revision or the kernel in it
    is unknown, the op's tensors or axes differ, or it is a floor or picks kernels; MachineError without git.
    """
    sides = [_side(catalog, label, typed) for typed in (before, after)]
    older, newer = sorted(sides, key=lambda side: side.age)
    warnings = _differing_ops(older, newer)
    _check_differ(older, newer)
    roots = list(newer.catalog.roots)
    if newer.revision:
        roots[roots.index(newer.entry.root)] = _view(newer, judges=True)
    roots.append(_view(older, judges=False))
    return RevisionPair(
        catalog=load_catalog(roots),
        op=newer.entry.op.name,
        before=sides[0].named,
        after=sides[1].named,
        notes=tuple(side.note for side in sides),
        warnings=warnings,
    )


def _side(catalog: Catalog, label: str, typed: str) -> _Side:
    name, _ = label_parts(label)
    owner = catalog.owner(name)
    revision, root, then = None, owner.root if owner else Path(), catalog
    if typed != WORKING_TREE:
        revision, root, then = _catalog_then(catalog, owner, name, typed)
    found = then.owner(name)
    if found is None:
        raise unknown_kernel(then, name, [variant.label for each in then.entries.values() for variant in each.variants])
    entry, _ = find_variant(then, found.op.name, label)
    if entry.kernel.floor or entry.dispatch:
        what = "picks kernels" if entry.dispatch else "is a floor or an ablation"
        raise UsageError(f"{name} {what}: its revisions are not compared", "name a kernel that does the op's work")
    return _Side(revision, root, then, entry, label)


def _catalog_then(
    catalog: Catalog, owner: CatalogEntry | None, name: str, typed: str
) -> tuple[Revision, Path, Catalog]:
    """The revision, the kernel's root and the catalog of then; a kernel that is gone is looked for in every root."""
    roots = [owner.root] if owner else [root for root in catalog.roots[::-1] if has_revision(root, typed)]
    found = []
    for root in roots or catalog.roots[-1:]:
        revision = find_revision(root, typed)
        found.append((revision, root, catalog_at(catalog, root, revision)))
    revision, root, then = next((each for each in found if each[2].owner(name)), found[0])
    if owner and _repository_of(owner.folder) != _repository_of(root):
        message = f"{owner.folder} is a repository of its own, perhaps a submodule, which lacks its op and headers"
        raise UsageError(message, f"keep it in the repository of {root}, or compare two stored runs")
    check_was_there(then, name, typed, owner.folder if owner else root)
    return revision, root, then


def _differing_ops(older: _Side, newer: _Side) -> tuple[str, ...]:
    """Warns if gates or inputs differ; raises UsageError if tensors or axes do."""
    op = newer.entry.op.name
    if older.op_hash == newer.op_hash:
        return ()
    one, other = _contract(older.entry.op), _contract(newer.entry.op)
    if changed := [name for name in one if one[name] != other[name]]:
        message = f"{op} has other {' and '.join(changed)} at {newer.typed} than at {older.typed}"
        raise UsageError(f"{message}: no kernel can do both", "compare revisions of one contract, or two stored runs")
    return (f"what {op} says of inputs and gates differs: both are held to that of {newer.typed}",)


def _contract(op: Op) -> dict[str, Any]:
    """What a kernel is written for."""
    spec = op.workloads
    return {
        "axes": [(axis.name, axis.compile_time) for axis in spec.axes] + [each.name for each in spec.lists],
        "inputs": op.inputs,
        "outputs": op.outputs,
        "scalars": op.scalars,
        "derived sizes": tuple(op.derived),
        "macros": op.macro_prefix,
    }


def _check_differ(older: _Side, newer: _Side) -> None:
    """Raises UsageError if sources are equal; a kernel in Python may also load those that lie directly in its op."""
    source, is_python = newer.entry.source_hash(), isinstance(newer.entry.kernel, TorchKernel)
    if older.entry.source_hash() != source or (is_python and older.op_hash != newer.op_hash):
        return
    message = f"{older.label} has the same sources ({source}) at {older.typed} and at {newer.typed}"
    folder = newer.root / newer.entry.folder.relative_to(newer.entry.root)
    raise UsageError(f"{message}: there is nothing to compare", f"what changed it: git log --oneline -- {folder}")


def _view(side: _Side, *, judges: bool) -> Path:
    """A copy of the side's folder of kernels in which it alone is declared, under its name of a revision.

    The side that judges keeps its op's declaration and floor.
    """
    entry, root = side.entry, side.entry.root
    kept = {entry.folder / "variant.py"}
    if judges:
        floor = side.catalog.entries.get(entry.op.floor)
        kept |= {entry.op_folder / "op.py", *([floor.folder / "variant.py"] if floor else [])}

    def left_out(folder: str, names: list[str]) -> list[str]:
        place = Path(folder)
        declares = {"op.py": place.parent == root, "variant.py": place.parent.parent == root}
        return [name for name in names if declares.get(name) and place / name not in kept]

    def write(folder: Path) -> None:
        shutil.copytree(root, folder, symlinks=True, ignore=left_out)
        (folder / REVISION_MARK).write_text(revision)
        own = folder / entry.folder.parent.name
        if own.name != entry.op.name and not judges:  # without op.py, a folder is of the op that it is named after
            own.rename(folder / entry.op.name)

    revision = side.revision.short if side.revision else ""
    about = "\0".join([root.name, revision, *sorted(str(path.relative_to(root.parent)) for path in kept)])
    return _stored(f"{revision}-{sha256(about.encode()).hexdigest()[:16]}", write)
