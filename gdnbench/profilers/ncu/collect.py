"""Runs ncu around a worker that launches one kernel, and keeps what it found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gdnbench.bench.alone import alone_on
from gdnbench.bench.observer import Observer
from gdnbench.model import Gpu
from gdnbench.profilers.assignment import Assignment
from gdnbench.profilers.ncu.failures import failure_of
from gdnbench.profilers.ncu.profile import Profile
from gdnbench.profilers.ncu.reading import read_any
from gdnbench.profilers.ncu.store import write_profiles
from gdnbench.profilers.place import folder_of, fresh_stem
from gdnbench.profilers.process import run_worker
from gdnbench.profilers.ranges import DOMAIN, PROFILED


@dataclass(frozen=True)
class Report:
    """A report and what is in it.

    Attributes:
        path: the file that was written or read.
        profiles: one for each launch, in order.
    """

    path: Path
    profiles: tuple[Profile, ...]


@dataclass(frozen=True)
class Collector:
    """Where and with what to profile.

    Attributes:
        gpu: the GPU.
        ncu: where ncu is.
        profiles: the folder that holds profiles.
        limit_s: seconds that one kernel may take.
        observer: told of every step.
    """

    gpu: Gpu
    ncu: Path
    profiles: Path
    limit_s: float
    observer: Observer

    def collect(self, assignments: Sequence[Assignment]) -> tuple[Report, ...]:
        """Profiles kernels in turn; no other gdnbench process has the GPU in the meantime.

        Raises:
            ProfilerError: if ncu or a worker fails; reports finished by then stay.
            MachineError: if the folder cannot be written.
        """
        with alone_on(self.gpu, self.observer):
            self.observer.begin("profile", len(assignments))
            return tuple(self._collect(assignment) for assignment in assignments)

    def _collect(self, assignment: Assignment) -> Report:
        case = assignment.case
        self.observer.step(f"{case.label} {case.shape}")
        folder = folder_of(self.profiles, "ncu", case.label)
        stem = fresh_stem(folder, case, self.gpu.slug, ".ncu-rep")
        path = folder / f"{stem}.ncu-rep"
        ended = run_worker(assignment, self.gpu, limit_s=self.limit_s, wrapper=ncu_command(self.ncu, path))
        if ended.returncode or not path.is_file():
            raise failure_of(ended)
        profiles = tuple(_labelled(profile, assignment) for profile in read_any(path, self.ncu))
        write_profiles(folder / f"{stem}.csv", profiles)
        self.observer.advance()
        return Report(path, profiles)


def ncu_command(ncu: Path, report: Path) -> Sequence[str]:
    """Ncu's command line, which the worker's follows.

    Every section, with the source; of the launches in the worker's own range and no other. Clocks stay as they are,
    for `gdnbench run` measures at those, too; caches are flushed before every replay, as they are cold there.
    """
    collected = ("--set", "full", "--import-source", "yes")
    controls = ("--clock-control", "none", "--cache-control", "all")
    watched = ("--nvtx", "--nvtx-include", f"{DOMAIN}@{PROFILED}")
    return (str(ncu), *collected, *controls, *watched, "--export", str(report))


def load_report(path: Path, ncu: Path | None) -> Report:
    """A report, or profiles that were stored, from a file.

    Raises:
        ReportFormatError: if it is neither.
        MachineError: if nothing on this machine reads reports.
    """
    return Report(path, read_any(path, ncu))


def _labelled(profile: Profile, assignment: Assignment) -> Profile:
    """A profile with what was asked for, which some versions of ncu's module do not tell."""
    case = assignment.case
    return replace(profile, label=case.label, op=assignment.op, shape=case.shape, source=assignment.source)
