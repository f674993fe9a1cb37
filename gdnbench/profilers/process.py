"""The worker process of a profiler: its task, how it is run, and the NVTX ranges by which its launches are found."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from gdnbench.catalog.catalog import axes_of, op_named
from gdnbench.errors import GdnbenchError, ProfilerError, ProfilerTimedOutError
from gdnbench.measuring.workers import worker_environment
from gdnbench.model.case import Case
from gdnbench.model.gpu import Gpu
from gdnbench.model.workload import Workload
from gdnbench.process.command import PYTHON, Completed, run_tool

DOMAIN = "gdnbench"
PROFILED = "profiled"  # the start/end range that a profiler filters by

_RANGE_NAME = re.compile(r"(\S+) (\S+) (.+?)(?: source=([0-9a-f]{16}))?")


class Instrumentation(StrEnum):
    """What the worker adds to the launches that it makes."""

    LAUNCH = "launch"  # NVTX ranges around each, for a profiler that watches from outside
    PHASES = "phases"  # clock stamps in a CUDA kernel, which it stores
    PROTON = "proton"  # Proton's records in a Triton kernel, whose trace it stores
    NOTHING = "nothing"  # one launch on memory that no earlier one has touched, for compute-sanitizer


@dataclass(frozen=True)
class ProfileTask:
    """One worker's task.

    Attributes:
        instrumentation: what it adds to the launches.
        roots: the catalog's folders.
        op: the op's name.
        case: the kernel, its params and the workload.
        seed: of the inputs.
        launches: how often to launch what is profiled.
        result: path of the file that the worker writes; empty if it writes none.
        source: hash of the kernel's sources, which the profile records.
        entry: of a kernel with several launches, the one to look into; empty for a kernel of one.
    """

    instrumentation: Instrumentation
    roots: tuple[str, ...]
    op: str
    case: Case
    seed: int
    launches: int
    result: str = ""
    source: str = ""
    entry: str = ""

    def write(self, path: Path) -> None:
        """Writes the task as JSON, for a worker to read."""
        path.write_text(json.dumps({**vars(self), "case": self.case.to_dict()}, indent=1))

    @classmethod
    def read(cls, path: Path) -> ProfileTask:
        """The inverse of `write`."""
        document = json.loads(path.read_text())
        document["instrumentation"] = Instrumentation(document["instrumentation"])
        document["roots"] = tuple(document["roots"])
        document["case"] = Case.from_dict(document["case"], axes_of(document["op"]))
        return cls(**document)


def run_worker(
    task: ProfileTask,
    gpu: Gpu,
    *,
    limit_s: float,
    wrapper: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Completed:
    """Runs a worker on a GPU, to its end.

    Args:
        task: what it is to do.
        gpu: where.
        limit_s: seconds after which it is killed, with all that it started.
        wrapper: a profiler's command line, which the worker's follows.
        environment: variables on top of those that workers get.

    Raises:
        ProfilerTimedOutError: if it does not end in time.
        ProfilerError: if the profiler cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="gdnbench-profile-") as folder:
        path = Path(folder) / "task.json"
        task.write(path)
        return run_command(
            # Python itself: a profiler follows no launcher's children.
            [*wrapper, *PYTHON, "-m", "gdnbench.profilers.worker", str(path)],
            limit_s=limit_s,
            environment={**worker_environment(gpu), **(environment or {})},
        )


def run_command(command: Sequence[str], *, limit_s: float, environment: Mapping[str, str] | None = None) -> Completed:
    """Runs a profiler, or a worker by itself; what both streams print is one text.

    Raises:
        ProfilerTimedOutError: if it does not end within `limit_s` seconds.
        ProfilerError: if it cannot be started.
    """
    try:
        return run_tool(command, limit_s=limit_s, environment=environment, merge=True)
    except TimeoutError as error:
        raise ProfilerTimedOutError(
            f"{Path(command[0]).name} did not end within {limit_s:.0f} s", "give it longer with --limit"
        ) from error
    except OSError as error:
        raise ProfilerError(f"{command[0]} does not start: {error}", "see `gdnbench doctor`") from error


def check_left(ended: Completed, path: Path, failure: str, hint: str) -> None:
    """Makes sure that a process left what it was run for.

    Args:
        ended: how it ended.
        path: the file that it was to leave.
        failure: what to say if it failed or left nothing; the last line that it printed follows.
        hint: what to do then.

    Raises:
        ProfilerError: if so.
    """
    if ended.returncode or not path.is_file():
        said = ended.last_line or f"its worker ended with {ended.returncode}"
        raise ProfilerError(f"{failure}: {said}", hint)


class NvtxRange(NamedTuple):
    """What the name of a range says of the launch in it; its fields are empty for a launch that gdnbench did not make.

    Attributes:
        op: the op.
        label: the kernel's label.
        workload: one setting of the op's axes.
        source: hash of the kernel's sources; empty in reports that were made before gdnbench recorded it.
    """

    op: str = ""
    label: str = ""
    workload: Workload | None = None
    source: str = ""


def range_name(op: str, case: Case, source: str = "") -> str:
    """The name of the range around a launch: op, kernel, workload, and the hash of the kernel's sources if known."""
    return f"{op} {case.label} {_workload_text(case.workload)}" + (f" source={source}" if source else "")


def _workload_text(workload: Workload) -> str:
    """Its label; where it has lists, every axis and list in full."""
    if not workload.lists:
        return str(workload)
    return " ".join(f"{name}={cell}" for name, cell in workload.cells.items())


def parse_range_name(text: str) -> NvtxRange | None:
    """The inverse of `range_name`; None for a range of another name."""
    match = _RANGE_NAME.fullmatch(text.strip())
    if match is None:
        return None
    op, label, written, source = match.groups()
    try:
        declared = op_named(op)
        workload = declared.checked(declared.workloads.read(written))
    except GdnbenchError:
        return None
    return NvtxRange(op, label, workload, source or "") if _workload_text(workload) == written else None
