"""Kernels at a git revision: a folder of kernels as it was, in the cache; and one kernel at two of them, side by side.

Git hands over stored objects only: no checkout, index, hook, filter, attribute or remote is used or changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from gdnbench.catalog.catalog import Catalog, load_catalog
from gdnbench.catalog.entry import CatalogEntry, label_parts
from gdnbench.catalog.load import REVISION_MARK
from gdnbench.catalog.select import find_broken, find_variant, unknown_kernel
from gdnbench.errors import MachineError, SameSourcesError, UnknownNameError, UnknownRevisionError, UsageError
from gdnbench.model.kernel import TorchKernel
from gdnbench.model.op import Op
from gdnbench.origin import cache_root, cached_folder
from gdnbench.wording import did_you_mean

GIT_PREFIX = "git:"
"""Begins a revision where a kernel's or a run's name is expected, too: `git:HEAD~1`."""

WORKING_TREE = "."
"""Stands for the working tree where a revision is expected."""

_GIT_LIMIT_S = 60.0
MOST_SOURCE_BYTES = 1 << 24  # of a file that people write
_SHORT = 8  # digits of a commit in names
_LONGEST_SUBJECT = 72
_OF_A_HOOK = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"}  # name another repository than the folder's
_NO_REMOTES = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}


@dataclass(frozen=True)
class Revision:
    """A commit of the repository at `top` and how the user named it; `time_s` is in seconds since the epoch."""

    top: Path
    typed: str
    commit: str
    time_s: float
    subject: str

    @property
    def short(self) -> str:
        """The first digits of the commit, by which kernels of it are named; empty for the working tree."""
        return self.commit[:_SHORT]

    def __str__(self) -> str:
        return f"{self.typed}: {self.subject}" if self.subject else self.typed


_WORKING_TREE = Revision(Path(), "the working tree", "", inf, "")


def find_revision(root: Path, typed: str) -> Revision:
    """The revision of the repository that holds a folder.

    Raises UsageError if the folder is in none, UnknownRevisionError if it has no such revision, MachineError without
    git.
    """
    top = _repository_of(root)
    try:
        commit = _object(top, f"{typed}^{{commit}}", problem=f"git has no {typed} in {top}")
    except UsageError as error:
        message = error.message.removesuffix(": fatal: Needed a single revision")
        raise UnknownRevisionError(message, error.hint) from error
    text = _git(top, "cat-file", "commit", commit, problem=f"git cannot read {typed}").decode(errors="replace")
    header, _, message = text.partition("\n\n")
    time_s = next(float(line.split()[-2]) for line in header.splitlines() if line.startswith("committer "))
    subject = "".join(filter(str.isprintable, message.strip().partition("\n")[0]))
    return Revision(top, typed, commit, time_s, subject[:_LONGEST_SUBJECT])


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
    inside = root.resolve().relative_to(revision.top.resolve()).as_posix()
    problem = f"{revision.typed} has no {inside}"
    tree = _object(revision.top, f"{revision.commit}:{'' if inside == '.' else inside}", problem=problem)
    then = _cached(tree, lambda folder: _write_tree(revision, tree, folder))
    return load_catalog(then if each == root else each for each in catalog.roots)


def check_was_there(then: Catalog, name: str, typed: str, folder: Path) -> None:
    """Raises UsageError, with the reason, unless the catalog of a revision has the kernel, which is in `folder` now."""
    if then.owner(name):
        return
    in_folder = (each for each in then.broken if each.folder.name == folder.name)
    if broken := find_broken(then, name) or next(in_folder, None):
        raise UsageError(f"{name} did not load at {typed}: {broken.reason}", "compare with another revision")
    hint = f"it is new since, or renamed: git log --stat -- {folder}"
    raise UnknownNameError(f"{typed} has no kernel {name}", did_you_mean(name, _labels(then), hint, cutoff=0.8))


def _labels(catalog: Catalog) -> list[str]:
    return [variant.label for entry in catalog.entries.values() for variant in entry.variants]


def _repository_of(folder: Path) -> Path:
    top = _git(folder, "rev-parse", "--show-toplevel", problem=f"{folder} is in no git repository with a working tree")
    return Path(os.fsdecode(top).removesuffix("\n"))


def _object(top: Path, name: str, problem: str) -> str:
    return _git(top, "rev-parse", "--verify", "--end-of-options", name, problem=problem).decode().strip()


class _Blob(NamedTuple):
    mode: str
    name: str
    size: int
    path: str


def _write_tree(revision: Revision, tree: str, folder: Path) -> None:
    """Writes the files of a tree but submodules, what is too large for a source, and what leads out of the folder."""
    problem = f"git cannot read {revision.typed}"
    blobs = []
    for line in _git(revision.top, "ls-tree", "-r", "-l", "-z", tree, problem=problem).split(b"\0")[:-1]:
        facts, _, path = line.partition(b"\t")
        mode, kind, name, size = facts.decode().split()
        if kind == "blob" and int(size) <= MOST_SOURCE_BYTES:
            blobs.append(_Blob(mode, name, int(size), os.fsdecode(path)))
    names = "".join(f"{blob.name}\n" for blob in blobs).encode()
    contents, start = _git(revision.top, "cat-file", "--batch", problem=problem, stdin=names), 0
    folder.mkdir()
    for blob in blobs:
        header = f"{blob.name} blob {blob.size}\n".encode()
        if not contents.startswith(header, start):
            raise UsageError(f"git lacks {blob.path} of {revision.typed}", "fetch the whole of the commit first")
        start += len(header)
        _write(folder, blob, contents[start : start + blob.size])
        start += blob.size + 1


def _write(folder: Path, blob: _Blob, content: bytes) -> None:
    path = folder / blob.path
    is_link = blob.mode == "120000"
    leads_to = path.parent / os.fsdecode(content) if is_link else path
    if not Path(os.path.normpath(leads_to)).is_relative_to(folder):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if is_link:
        path.symlink_to(os.fsdecode(content))
    else:
        path.write_bytes(content)


def _cached(name: str, write: Callable[[Path], object]) -> Path:
    folders = cache_root() / "revisions"
    return cached_folder(folders / name, f"kernels of a revision into {folders}", write)


def _git(folder: Path, *arguments: str, problem: str, stdin: bytes = b"") -> bytes:
    environment = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK} | _NO_REMOTES
    command = ["git", "--no-replace-objects", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, timeout=_GIT_LIMIT_S, check=True, env=environment
        )
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode(errors="replace").strip().partition("\n")[0]
        hint = "name a revision as git does: HEAD~1, a branch, a tag, a commit"
        raise UsageError(f"{problem}: {reason}", hint) from error
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
    """A kernel at a revision, or in the working tree, in the catalog of then."""

    revision: Revision
    catalog: Catalog
    entry: CatalogEntry
    label: str

    @property
    def named(self) -> str:
        """Its label beside the other side's: `decode-v4@0a1b2c3d:WARPS=4`, or as it is in the working tree."""
        name, settings = label_parts(self.label)
        return ":".join([f"{name}@{self.revision.short}" if self.revision.short else name, *settings])

    @property
    def op_hash(self) -> str:
        return self.catalog.op_hash(self.entry.op.name)


def pair_revisions(catalog: Catalog, label: str, before: str, after: str) -> RevisionPair:
    """Makes two kernels of one: as it was at the revision `before`, and at `after`; `.` is the working tree.

    Both are judged by the newer one's op. Raises UsageError if their sources are equal, a revision or the kernel in it
    is unknown, the op's tensors or axes differ, or it is a floor or picks kernels; MachineError without git.
    """
    sides = [_side(catalog, label, typed) for typed in (before, after)]
    older, newer = sorted(sides, key=lambda side: side.revision.time_s)
    warnings = _differing_ops(older, newer)
    _check_differ(older, newer)
    judge = _view(newer, judges=True) if newer.revision.short else newer.entry.root
    roots = [judge if root == newer.entry.root else root for root in newer.catalog.roots]
    return RevisionPair(
        catalog=load_catalog([*roots, _view(older, judges=False)]),
        op=newer.entry.op.name,
        before=sides[0].named,
        after=sides[1].named,
        notes=tuple(f"{side.named} is {side.revision}" for side in sides),
        warnings=warnings,
    )


def _side(catalog: Catalog, label: str, typed: str) -> _Side:
    name, _ = label_parts(label)
    revision, then = _WORKING_TREE, catalog
    if typed != WORKING_TREE:
        revision, then = _catalog_then(catalog, name, typed)
    found = then.owner(name)
    if found is None:
        raise unknown_kernel(then, name, _labels(then))
    entry, _ = find_variant(then, found.op.name, label)
    if entry.kernel.floor or entry.dispatch:
        what = "picks kernels" if entry.dispatch else "is a floor or an ablation"
        raise UsageError(f"{name} {what}: its revisions are not compared", "name a kernel that does the op's work")
    return _Side(revision, then, entry, label)


def _catalog_then(catalog: Catalog, name: str, typed: str) -> tuple[Revision, Catalog]:
    """The revision and the catalog of then; a kernel that is gone is looked for in every root."""
    owner = catalog.owner(name)
    roots = [owner.root] if owner else [root for root in catalog.roots[::-1] if has_revision(root, typed)]
    revisions = {root: find_revision(root, typed) for root in roots or catalog.roots[-1:]}
    found = [(revision, catalog_at(catalog, root, revision)) for root, revision in revisions.items()]
    revision, then = next((each for each in found if each[1].owner(name)), found[0])
    if owner and _repository_of(owner.folder) != revision.top:
        message = f"{owner.folder} is a repository of its own, perhaps a submodule, which lacks its op and headers"
        raise UsageError(message, f"keep it in the repository of {owner.root}, or compare two stored runs")
    check_was_there(then, name, typed, owner.folder if owner else revision.top)
    return revision, then


_CONTRACT: Mapping[str, Callable[[Op], Any]] = {
    "axes": lambda op: [(axis.name, axis.compile_time) for axis in op.workloads.axes],
    "lists": lambda op: [each.name for each in op.workloads.lists],
    "inputs": lambda op: op.inputs,
    "outputs": lambda op: op.outputs,
    "scalars": lambda op: op.scalars,
    "derived sizes": lambda op: list(op.derived),
    "macros": lambda op: op.macro_prefix,
}
"""What a kernel is written for."""


def _differing_ops(older: _Side, newer: _Side) -> tuple[str, ...]:
    """Warns if gates or inputs differ; raises UsageError if what kernels are written for does."""
    one, other = older.entry.op, newer.entry.op
    if changed := [name for name, read in _CONTRACT.items() if read(one) != read(other)]:
        where = f"at {newer.revision.typed} than at {older.revision.typed}"
        message = f"{other.name} has other {' and '.join(changed)} {where}"
        raise UsageError(f"{message}: no kernel can do both", "compare revisions of one contract, or two stored runs")
    if older.op_hash == newer.op_hash:
        return ()
    return (f"what {other.name} says of inputs and gates differs: both are held to that of {newer.revision.typed}",)


def _check_differ(older: _Side, newer: _Side) -> None:
    """Raises SameSourcesError if sources are equal; a kernel in Python may also load its op's."""
    entry, source = newer.entry, newer.entry.source_hash()
    calls_op = isinstance(entry.kernel, TorchKernel) and older.op_hash != newer.op_hash
    if older.entry.source_hash() == source and not calls_op:
        where = f"at {older.revision.typed} and at {newer.revision.typed}"
        hint = f"what changed it: git log --oneline -- '*/{entry.folder.parent.name}/{entry.folder.name}/*'"
        raise SameSourcesError(f"{older.label} has the same sources {where} ({source}): nothing to compare", hint)


def _view(side: _Side, *, judges: bool) -> Path:
    """A copy of the side's root in which it alone is declared, under its name of a revision.

    The side that judges keeps its op's declaration and floor.
    """
    entry, root = side.entry, side.entry.root
    shown = {entry.folder / "variant.py"}
    if judges:
        floor = side.catalog.entries.get(entry.op.floor)
        shown |= {entry.op_folder / "op.py", *([floor.folder / "variant.py"] if floor else [])}

    def left_out(folder: str, names: list[str]) -> list[str]:
        place = Path(folder)
        declares = {"op.py": place.parent == root, "variant.py": place.parent.parent == root}
        return [name for name in names if declares.get(name) and place / name not in shown]

    def write(folder: Path) -> None:
        shutil.copytree(root, folder, symlinks=True, ignore=left_out)
        (folder / REVISION_MARK).write_text(side.revision.short)
        own = folder / entry.folder.parent.name
        if own.name != entry.op.name and not judges:  # without op.py, a folder is of the op that it is named after
            own.rename(folder / entry.op.name)

    paths = sorted(os.path.relpath(path, root) for path in shown)
    about = "\0".join([REVISION_MARK, side.revision.short, root.name, *paths])
    return _cached(f"{side.revision.short}-{sha256(about.encode()).hexdigest()[:16]}", write)
