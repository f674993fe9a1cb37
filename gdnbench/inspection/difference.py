"""What changed from one kernel to another: in its numbers, and in its code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff

from gdnbench.binary.normal import normal_lines
from gdnbench.catalog import Catalog, find_variant
from gdnbench.errors import UnknownNameError, UsageError
from gdnbench.inspection.anatomy import Anatomy
from gdnbench.inspection.examine import Failure, Finding
from gdnbench.inspection.quantities import QUANTITIES, Number, mix_order, mix_rows
from gdnbench.inspection.revision import catalog_at
from gdnbench.inspection.subject import Subject
from gdnbench.model import TorchKernel

_GIT = "git:"


@dataclass(frozen=True)
class Change:
    """One thing that is not as it was.

    Attributes:
        key: its name in JSON.
        title: its name in tables.
        before: its value there.
        after: its value here.
    """

    key: str
    title: str
    before: Number | str
    after: Number | str


@dataclass(frozen=True)
class Pair:
    """A kernel and what it is compared with, for one architecture."""

    before: Finding
    after: Finding

    @property
    def built(self) -> tuple[Anatomy, Anatomy] | tuple[()]:
        """Before and after; nothing where one did not build."""
        if isinstance(self.before, Failure) or isinstance(self.after, Failure):
            return ()
        return self.before, self.after

    @property
    def changes(self) -> tuple[Change, ...]:
        """What differs; nothing where one did not build."""
        return _changes(*self.built) if self.built else ()

    def sass_diff(self, context: int = 3) -> list[str]:
        """A unified diff of the code, registers and addresses made alike; empty where it is the same."""
        if not self.built:
            return []
        one, other = (normal_lines(anatomy.sass) for anatomy in self.built)
        before, after = (f"{anatomy.subject.name} {anatomy.arch}" for anatomy in self.built)
        return list(unified_diff(one, other, before, after, lineterm="", n=context))

    @property
    def same(self) -> bool:
        """Whether both built, into the same code with the same numbers."""
        return bool(self.built) and not self.changes and not self.sass_diff()


def others(subjects: Sequence[Subject], catalog: Catalog, op: str, wanted: str) -> tuple[Subject, ...]:
    """What each subject is compared with.

    Args:
        subjects: the kernels at hand.
        catalog: what there is.
        op: the op whose kernels are meant.
        wanted: another kernel's label, or `git:REV` for the same kernel at that revision.

    Raises:
        UnknownNameError: for a kernel that does not exist, here or there.
        UsageError: for a revision that does not, or a kernel without a build of its own.
    """
    if not wanted.startswith(_GIT):
        return tuple(_find(catalog, op, wanted, subject, wanted) for subject in subjects)
    revision = wanted.removeprefix(_GIT)
    if not revision:
        raise UsageError("--diff git: names no revision", "as in --diff git:HEAD~1")
    folders = {subject.entry.folder.parent: subject.entry for subject in subjects}
    then = {folder: catalog_at(entry, revision) for folder, entry in folders.items()}
    for subject in subjects:
        _check_was_there(subject, then[subject.entry.folder.parent], revision)
    return tuple(
        _find(then[subject.entry.folder.parent], op, subject.variant.label, subject, wanted) for subject in subjects
    )


def _check_was_there(subject: Subject, then: Catalog, revision: str) -> None:
    kernel, folder = subject.entry.kernel.name, subject.entry.folder.name
    if kernel in then.entries:
        return
    reason = next((broken.reason for broken in then.broken if broken.folder.name == folder), "")
    if reason:
        raise UsageError(f"{kernel} did not load at {revision}: {reason}", "compare with another revision")
    hint = f"it is new since: compare it with another kernel, or commit it; git log {subject.entry.folder}"
    raise UnknownNameError(f"{revision} has no kernel {kernel}", hint)


def _find(catalog: Catalog, op: str, label: str, subject: Subject, name: str) -> Subject:
    _, asked = find_variant(catalog, op, label)
    entry, variant = catalog.behind(asked, subject.shape)
    if isinstance(entry.kernel, TorchKernel):
        raise UsageError(f"{label} has no build of gdnbench's own", "compare with a CUDA or Triton kernel")
    return Subject(name, entry, variant, subject.shape)


def _changes(before: Anatomy, after: Anatomy) -> tuple[Change, ...]:
    numbers = [Change(key, one.title, one.read(before), one.read(after)) for key, one in QUANTITIES.items()]
    limits = Change("limited_by", "limited by", before.occupancy.limited_by, after.occupancy.limited_by)
    there, here = mix_rows(before), mix_rows(after)
    names = sorted({*there, *here}, key=mix_order)
    mixed = [Change(name.replace(" ", "_"), name, there.get(name, 0), here.get(name, 0)) for name in names]
    return tuple(change for change in (*numbers, limits, *mixed) if change.before != change.after)
