"""Differences between two compiled kernels, in their numbers and their code.

The other one may be the same kernel at a git revision. Its folder is exported beside the build cache under the commit's
name, so that its builds are found again; the checkout is not touched.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from gdnbench.catalog.catalog import Catalog, load_catalog
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.select import find_variant
from gdnbench.codegen.cache import cache_folder
from gdnbench.codegen.sass import normalize
from gdnbench.errors import MachineError, UnknownNameError, UsageError
from gdnbench.inspect.compiled import BuildOutcome, CompiledKernel, FailedBuild, Subject, launches_of
from gdnbench.inspect.quantities import QUANTITIES, QuantityValue, mix_order, mix_rows
from gdnbench.model.kernel import TorchKernel

_GIT = "git:"
_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class BuildChange:
    """A number or word that differs between two builds; `key` is its name in JSON, `title` in tables."""

    key: str
    title: str
    before: QuantityValue | str
    after: QuantityValue | str


@dataclass(frozen=True)
class BuildPair:
    """A kernel and its counterpart, for one architecture."""

    before: BuildOutcome
    after: BuildOutcome

    @property
    def built(self) -> tuple[CompiledKernel, CompiledKernel] | tuple[()]:
        """Before and after; empty if one did not build."""
        if isinstance(self.before, FailedBuild) or isinstance(self.after, FailedBuild):
            return ()
        return self.before, self.after

    @property
    def changes(self) -> tuple[BuildChange, ...]:
        """The numbers that differ; empty if one did not build."""
        return _changes(*self.built) if self.built else ()

    def sass_diff(self, context: int = 3) -> list[str]:
        """Returns a unified diff of the code, with registers and addresses normalized; empty if it is the same."""
        if not self.built:
            return []
        one, other = (normalize(compiled.sass) for compiled in self.built)
        before, after = (f"{compiled.subject.title} {compiled.arch}" for compiled in self.built)
        return list(unified_diff(one, other, before, after, lineterm="", n=context))

    @property
    def same(self) -> bool:
        """Whether both built, into the same code with the same numbers."""
        return bool(self.built) and not self.changes and not self.sass_diff()


def is_revision(other: str) -> bool:
    """Whether the argument of `--diff` is a git revision, not a kernel."""
    return other.startswith(_GIT)


def find_counterparts(subjects: Sequence[Subject], catalog: Catalog, op: str, wanted: str) -> tuple[Subject, ...]:
    """Returns each subject's counterpart: of the kernel `wanted`, or for `git:REV` of the same kernel at that revision.

    Raises UnknownNameError for an unknown kernel; UsageError for an unknown revision, or a kernel without such a build.
    """
    if not is_revision(wanted):
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
    entry, variant = catalog.behind(asked, subject.workload)
    if isinstance(entry.kernel, TorchKernel):
        raise UsageError(f"{label} has no build of gdnbench's own", "compare with a CUDA or Triton kernel")
    return _counterpart(launches_of(name, entry, variant, subject.workload), subject)


def _counterpart(launches: Sequence[Subject], subject: Subject) -> Subject:
    """Returns the other kernel's launch of the same entry, else the one in the same position."""
    own = [each.launch for each in launches_of(subject.name, subject.entry, subject.variant, subject.workload)]
    place = own.index(subject.launch)
    found = next((each for each in launches if subject.launch and each.launch == subject.launch), None)
    if found is None and place >= len(launches):
        problem = f"{launches[0].name} has no launch to compare {subject.title} with"
        raise UsageError(problem, f"{launches[0].name} has {len(launches)} and {subject.name} {len(own)}")
    return found or launches[place]


def _changes(before: CompiledKernel, after: CompiledKernel) -> tuple[BuildChange, ...]:
    numbers = [BuildChange(key, one.title, one.read(before), one.read(after)) for key, one in QUANTITIES.items()]
    limits = BuildChange("limited_by", "limited by", before.occupancy.limited_by, after.occupancy.limited_by)
    there, here = mix_rows(before), mix_rows(after)
    names = sorted({*there, *here}, key=mix_order)
    mixed = [BuildChange(name.replace(" ", "_"), name, there.get(name, 0), here.get(name, 0)) for name in names]
    return tuple(change for change in (*numbers, limits, *mixed) if change.before != change.after)


def catalog_at(entry: CatalogEntry, revision: str) -> Catalog:
    """Returns the catalog of a kernel's folder at a revision (`HEAD~1`, a branch, a commit) of its repository.

    An op that is declared elsewhere is taken as it is now. Raises UsageError if the kernel is in no repository, or the
    repository lacks the revision or the folder in it; MachineError without git, or if the folder cannot be written.
    """
    root, op_root = entry.folder.parent.parent, entry.op_folder.parent
    top = Path(_git(root, "rev-parse", "--show-toplevel", problem=f"{root} is in no git repository").strip())
    commit = _git(
        top, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}", problem=f"git has no {revision}"
    ).strip()
    then = _export(top, commit, root.resolve().relative_to(top.resolve()), revision)
    return load_catalog([then] if op_root == root else [op_root, then])


def _export(top: Path, commit: str, inside: Path, revision: str) -> Path:
    """Returns the folder `inside` of the repository as of a commit."""
    kept = cache_folder().parent / "revisions" / commit
    if not (kept / inside).is_dir():
        problem = f"{revision} has no {inside}"
        archive = _git_bytes(top, "archive", "--format=tar", commit, "--", str(inside), problem=problem)
        _unpack(archive, kept, inside)
    return kept / inside


def _unpack(archive: bytes, kept: Path, inside: Path) -> None:
    """Unpacks into a temporary folder and renames it, so that an existing folder is complete."""
    wanted = kept / inside
    try:
        wanted.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".") as aside:
            tree = Path(aside) / "tree"
            with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
                # Since Python 3.11.4; older ones, as on Debian 12, have no argument `filter`.
                if data_filter := getattr(tarfile, "data_filter", None):
                    tar.extraction_filter = data_filter
                tar.extractall(tree)
            if not wanted.is_dir():
                (tree / inside).rename(wanted)
    except (OSError, tarfile.TarError) as error:
        raise MachineError(f"cannot unpack a revision into {kept}: {error}", "set GDNBENCH_CACHE elsewhere") from error


def _git(folder: Path, *arguments: str, problem: str) -> str:
    return _git_bytes(folder, *arguments, problem=problem).decode()


def _git_bytes(folder: Path, *arguments: str, problem: str) -> bytes:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, timeout=_TIMEOUT_S, check=True
        )
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise UsageError(f"{problem}: {reason}", "name a revision as git does, as in --diff git:HEAD~1") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"git does not run: {error}", "--diff git:REV needs git") from error
    return done.stdout
