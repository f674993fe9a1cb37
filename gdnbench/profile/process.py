"""The worker process of a profiler: its task, how it is run, and the NVTX ranges that identify its launches."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from gdnbench.catalog.catalog import Catalog, find_op, op_named
from gdnbench.catalog.request import parse_profiles, parse_workload
from gdnbench.catalog.select import find_variant
from gdnbench.errors import GdnbenchError, MachineError, ProfilerError, ProfilerTimedOutError, UsageError
from gdnbench.machine.gpus import list_gpus, select_gpu
from gdnbench.model.case import Case
from gdnbench.model.gpu import Gpu
from gdnbench.model.workload import Workload
from gdnbench.process.command import PYTHON, Completed, run_tool
from gdnbench.workers.supervision import worker_environment

DOMAIN = "gdnbench"
PROFILED = "profiled"  # the start/end range by which a profiler filters

_RANGE_NAME = re.compile(r"(\S+) (\S+) (.+?)(?: source=((?:2:)?[0-9a-f]{16}))?")


class Instrumentation(StrEnum):
    """What the worker adds to its launches."""

    LAUNCH = "launch"  # NVTX ranges around each, for an external profiler
    PHASES = "phases"  # clock stamps in a CUDA kernel, stored by the worker
    PROTON = "proton"  # Proton's records in a Triton kernel; the worker stores the trace
    NOTHING = "nothing"  # one launch on fresh memory, for compute-sanitizer


@dataclass(frozen=True)
class ProfileTask:
    """One worker's task."""

    instrumentation: Instrumentation
    roots: tuple[str, ...]
    op: str
    case: Case
    seed: int
    launches: int
    result: str = ""  # path of the file that the worker writes; empty if it writes none
    source: str = ""
    entry: str = ""  # the launch to profile of a kernel with several; empty for a kernel of one

    def write(self, path: Path) -> None:
        """Writes the task as JSON for a worker."""
        path.write_text(json.dumps({**vars(self), "case": self.case.to_dict()}, indent=1))

    @classmethod
    def read(cls, path: Path) -> ProfileTask:
        """Reads what `write` wrote."""
        document = json.loads(path.read_text())
        document["instrumentation"] = Instrumentation(document["instrumentation"])
        document["roots"] = tuple(document["roots"])
        document["case"] = Case.from_dict(document["case"], op_named(document["op"]).workloads)
        return cls(**document)


def run_worker(
    task: ProfileTask,
    gpu: Gpu,
    *,
    limit_s: float,
    wrapper: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Completed:
    """Runs a worker behind the profiler `wrapper`; ProfilerTimedOutError after `limit_s`, which kills it."""
    with tempfile.TemporaryDirectory(prefix="gdnbench-profile-") as folder:
        path = Path(folder) / "task.json"
        task.write(path)
        return run_command(
            # Starts Python itself: a profiler does not follow a launcher's children.
            [*wrapper, *PYTHON, "-m", "gdnbench.profile.worker", str(path)],
            limit_s=limit_s,
            # A worker that is killed removes none of its temporary files. ncu finds other ncus by a file in TMPDIR.
            environment={**worker_environment(gpu), **({} if wrapper else {"TMPDIR": folder}), **(environment or {})},
        )


def run_command(command: Sequence[str], *, limit_s: float, environment: Mapping[str, str] | None = None) -> Completed:
    """Runs a profiler, or a worker by itself, merging stdout and stderr; raises as `run_worker`."""
    try:
        return run_tool(command, limit_s=limit_s, environment=environment, merge=True)
    except TimeoutError as error:
        raise ProfilerTimedOutError(
            f"{Path(command[0]).name} did not end within {limit_s:.0f} s", "give it longer with --limit"
        ) from error
    except OSError as error:
        raise ProfilerError(f"{command[0]} does not start: {error}", "see `gdnbench doctor`") from error


def newest_installed(program: str, root: Path, *patterns: str) -> Path | None:
    """Returns a program on the PATH, else the newest, by its path's numbers, of a glob pattern below `root`."""
    if on_path := shutil.which(program):
        return Path(on_path)
    found = [path for pattern in patterns for path in root.glob(pattern)]
    return max(found, key=lambda path: [int(number) for number in re.findall(r"\d+", str(path))], default=None)


def check_left(ended: Completed, path: Path, failure: str, hint: str) -> None:
    """Raises ProfilerError, `failure` and the last line, if a process failed or did not leave the file `path`."""
    if ended.returncode or not path.is_file():
        said = ended.last_line or f"its worker ended with {ended.returncode}"
        raise ProfilerError(f"{failure}: {said}", hint)


class NvtxRange(NamedTuple):
    """The launch that a range's name describes; fields are empty for launches that gdnbench did not make."""

    op: str = ""
    label: str = ""
    workload: Workload | None = None
    source: str = ""


def range_name(op: str, case: Case, source: str = "") -> str:
    """Returns the name of a launch's range: op, kernel, workload, and the hash of the kernel's sources if known."""
    return f"{op} {case.label} {_workload_text(case.workload)}" + (f" source={source}" if source else "")


def _workload_text(workload: Workload) -> str:
    if not workload.lists:
        return str(workload) if not workload.profile else f"{workload.at('')} profile={workload.profile}"
    return " ".join(f"{name}={cell}" for name, cell in workload.cells.items())


def parse_range_name(text: str) -> NvtxRange | None:
    """Parses what `range_name` wrote, or returns None for a range of another name."""
    match = _RANGE_NAME.fullmatch(text.strip())
    if match is None:
        return None
    op, label, written, source = match.groups()
    try:
        declared = op_named(op)
        sizes, _, profile = written.partition(" profile=")
        workload = declared.checked(declared.workloads.read(sizes))
        if profile:
            workload = workload.at(declared.profile_named(profile))
    except GdnbenchError:
        return None
    return NvtxRange(op, label, workload, source or "") if _workload_text(workload) == written else None


def choose_case(catalog: Catalog, op: str, label: str, *, axes: str, profile: str = "", gpu: str = "auto") -> Case:
    """Returns a kernel at one workload, with its params there; for a dispatcher, the kernel that it picks.

    `label` is a kernel or a preset, with params after colons; `axes` are as `--shape` takes them, empty for the op's
    default workload, and `profile` as `--profile` does, empty for the op's first. Raises UnknownNameError for an
    unknown kernel, op, layout or profile; UsageError for several workloads or profiles; GpuNotFoundError without the
    requested GPU; MachineError if the kernel needs a module that this Python lacks.
    """
    declared = find_op(catalog, op)
    workload, inputs = parse_workload(declared, axes, "a profile is of one"), parse_profiles(declared, profile)
    if len(inputs) > 1:
        raise UsageError(
            f"{len(inputs)} profiles of inputs are given, and a kernel is profiled on one", "name one of them"
        )
    workload = workload.at(inputs[0])
    _, named = find_variant(catalog, op, label)
    chosen = select_gpu(gpu, list_gpus())
    entry, variant = catalog.behind(named, workload, chosen.slug if chosen else "")
    if need := entry.missing():
        raise MachineError(f"{variant.label} needs the module {need.module}", need.remedy)
    return Case(variant, workload)


def choose_gpu(wanted: str, purpose: str, instead: str = "") -> Gpu:
    """Returns the GPU to profile on; `wanted` is as `--gpu` takes it.

    Raises GpuNotFoundError without the requested GPU; MachineError without any, with `purpose` (`a trace`) as the
    subject of its message and `instead` as its hint.
    """
    gpu = select_gpu(wanted, list_gpus())
    if gpu is None:
        raise MachineError(f"{purpose} needs a GPU, and there is none here", instead or "see `gdnbench doctor`")
    return gpu


def make_assignment(
    catalog: Catalog, case: Case, errand: Instrumentation, *, seed: int, launches: int, result: str = ""
) -> ProfileTask:
    """The worker's task; a kernel that a dispatcher picked has its own name, for the hash of its own sources."""
    entry = catalog.entries[case.variant.kernel]
    roots = tuple(str(root) for root in catalog.roots)
    return ProfileTask(errand, roots, entry.op.name, case, seed, launches, result, entry.known_source())
