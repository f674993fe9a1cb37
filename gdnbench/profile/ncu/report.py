"""Reads reports with NVIDIA's native module `ncu_report`, in a subprocess, as it may crash; profiles kernels with ncu.

The subprocess is `python -m gdnbench.profile.ncu.report REPORT PROFILES.csv LINES.json.gz [NCU]`.
"""

from __future__ import annotations

import importlib
import math
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from types import ModuleType
from typing import Any

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.select import select_variants
from gdnbench.doctor.checks import version_numbers
from gdnbench.errors import MachineError, ProfilerError, ReportFormatError, UsageError
from gdnbench.machine.gpus import alone_on
from gdnbench.model.case import Case
from gdnbench.model.gpu import Gpu
from gdnbench.process.command import PYTHON, Completed, describe_exit
from gdnbench.process.events import Observer, PhaseBegun, StepChanged, UnitDone
from gdnbench.process.worker import python_path
from gdnbench.profile import process
from gdnbench.profile.files import check_file, make_folder, read_text, unused_name
from gdnbench.profile.ncu.lines import ProfiledInstruction, instructions_of, lines_path, read_lines, write_lines
from gdnbench.profile.ncu.quantities import GPU_NAME, LaunchProfile, Metric, NcuReport, Value, is_stored
from gdnbench.profile.ncu.store import WHAT_IS_READ, parse_profiles, read_profiles, write_profiles

_STORED = (".csv", ".csv.gz")
_OTHER_MODULE = "another version may read it: pip install -U 'gdnbench[ncu]'"
_LIMIT_S = 120.0  # a report of torch's kernels, 46 MB, takes a few seconds
_MAJOR, _MINOR = (f"device__attribute_compute_capability_{part}" for part in ("major", "minor"))


class _Exit(IntEnum):
    READ = 0
    NO_REPORT = 2
    NO_MODULE = 3


def read_any(path: Path, ncu: Path | None = None, lines: Path | None = None) -> tuple[LaunchProfile, ...]:
    """Reads a report or stored profiles into one profile a launch; raises ReportFormatError, MachineError.

    A report's instructions are written to the file `lines`, if given.
    """
    if path.name.endswith(_STORED):
        profiles = read_profiles(path)
    else:
        check_file(path, WHAT_IS_READ)
        profiles = read_report(path, ncu, lines)
    if not profiles:
        raise ReportFormatError(f"{path} holds no profiled launch", WHAT_IS_READ)
    return profiles


def read_instructions(path: Path, ncu: Path | None = None) -> tuple[ProfiledInstruction, ...]:
    """Reads the instructions of a report, or of stored profiles from the file beside them; raises as `read_any`."""
    if path.name.endswith(_STORED) or lines_path(path).is_file():
        return read_lines(lines_path(path))
    with tempfile.TemporaryDirectory(prefix="gdnbench-ncu-") as folder:
        lines = Path(folder) / "lines.json.gz"
        read_report(path, ncu, lines)
        return read_lines(lines)


def read_report(path: Path, ncu: Path | None = None, lines: Path | None = None) -> tuple[LaunchProfile, ...]:
    """Reads a `.ncu-rep` by the wheel or the newest ncu; as `read_any`, ProfilerError if native code crashes."""
    ncu = ncu or find_ncu()
    with tempfile.TemporaryDirectory(prefix="gdnbench-ncu-") as folder:
        read = Path(folder) / "profiles.csv"
        command = [*PYTHON, "-m", __name__, str(path), str(read), str(lines or ""), *([str(ncu)] if ncu else [])]
        ended = process.run_command(command, limit_s=_LIMIT_S, environment={"PYTHONPATH": python_path()})
        match ended.returncode:
            case _Exit.READ:
                return parse_profiles(read_text(read, WHAT_IS_READ), path)
            case _Exit.NO_REPORT:
                raise ReportFormatError(ended.last_line, WHAT_IS_READ)
            case _Exit.NO_MODULE:
                raise MachineError("nothing here reads ncu's reports", "pip install 'gdnbench[ncu]'")
            case code:
                raise ProfilerError(f"{path} brought NVIDIA's module down ({describe_exit(code)})", _OTHER_MODULE)


def main(arguments: list[str]) -> int:
    """Reads the report and writes its profiles, as `store.write_profiles` does, and the lines, if a file is named."""
    report, target, lines, *ncu = arguments
    reader = load_reader(Path(ncu[0]) if ncu else None)
    if reader is None:
        return _Exit.NO_MODULE
    try:
        profiles, instructions = read_with_module(reader, Path(report), with_lines=bool(lines))
    except ReportFormatError as error:
        print(error.message)
        return _Exit.NO_REPORT
    write_profiles(Path(target), profiles)
    if lines:
        write_lines(Path(lines), instructions)
    return _Exit.READ


def load_reader(ncu: Path | None, installed: Path = Path("/opt/nvidia/nsight-compute")) -> ModuleType | None:
    """The module `ncu_report` of the wheel, else of an ncu in `installed`, which has a folder a version, or None."""
    if module := _import():
        return module
    for folder in _extras(ncu, installed):
        sys.path.append(str(folder))
        if module := _import():
            return module
        sys.path.remove(str(folder))
    return None


def _import() -> ModuleType | None:
    try:
        return importlib.import_module("ncu_report")
    except ImportError:  # missing, or built for another Python
        return None


def _extras(ncu: Path | None, installed: Path) -> list[Path]:
    """Returns the folders that hold ncu's module: beside ncu, then the newest first; newer ones read older reports."""
    near = list(ncu.resolve().parents[:2]) if ncu else []
    versions = sorted(installed.glob("*"), key=lambda path: version_numbers(path.name), reverse=True)
    folders = [top / "extras" / "python" for top in (*near, *versions)]
    return [folder for folder in folders if (folder / "ncu_report.py").is_file()]


def read_with_module(
    reader: ModuleType, path: Path, *, with_lines: bool
) -> tuple[tuple[LaunchProfile, ...], tuple[ProfiledInstruction, ...]]:
    """Reads a report with NVIDIA's module `reader`, in this process; raises ReportFormatError for any other file."""
    try:
        context = reader.load_report(str(path))
        # The module opens any file; one that is not a report has no ranges. A range lives as long as its context, and
        # an action as long as its range, so all of them stay referenced.
        ranges = [context.range_by_idx(i) for i in range(context.num_ranges())]
        actions = [found.action_by_idx(j) for found in ranges for j in range(found.num_actions())]
    except Exception as error:  # the library raises various types for a damaged file
        raise ReportFormatError(f"{path} cannot be read: {error}", WHAT_IS_READ) from error
    if any(action.name() is None for action in actions):
        raise ReportFormatError(f"{path} is cut off", "the file is damaged; profile again")
    launches: Counter[tuple[str, str]] = Counter()
    profiles = tuple(_profile(reader, action, launches) for action in actions)
    first = [action for action, profile in zip(actions, profiles, strict=True) if with_lines and not profile.launch]
    return profiles, tuple(each for action in first for each in instructions_of(action))


def _profile(reader: ModuleType, action: Any, launches: Counter[tuple[str, str]]) -> LaunchProfile:
    named = _range(action)
    function = str(action.name())
    key = (named.label, function)
    launches[key] += 1
    found = {name: action.metric_by_name(name) for name in action.metric_names()}
    return LaunchProfile(
        label=named.label,
        op=named.op,
        workload=named.workload,
        gpu=found[GPU_NAME].as_string() if GPU_NAME in found else "",
        arch=f"sm_{found[_MAJOR].as_uint64()}{found[_MINOR].as_uint64()}" if _MAJOR in found else "",
        function=function,
        launch=launches[key] - 1,
        metrics=dict(_metrics(reader, found, _sections(action))),
        source=named.source,
    )


def _range(action: Any) -> process.NvtxRange:
    state = action.nvtx_state()
    domains = [state.domain_by_id(number) for number in state.domains()] if state else []
    ranges = [text for domain in domains if domain.name() == process.DOMAIN for text in domain.push_pop_ranges()]
    return next(filter(None, map(process.parse_range_name, ranges)), process.NvtxRange())


def _sections(action: Any) -> Mapping[str, str]:
    sections: dict[str, str] = {}
    for section in action.sections() if hasattr(action, "sections") else ():
        for metric in (*section.header_metrics(), *section.body_metrics()):
            sections.setdefault(metric.name(), section.identifier())
    return sections


def _metrics(reader: ModuleType, found: Mapping[str, Any], sections: Mapping[str, str]) -> Iterator[tuple[str, Metric]]:
    for name in sorted(found):
        if is_stored(name) and (value := _value_of(reader, found[name])) is not None:
            yield name, Metric(name, found[name].unit() or "", value, sections.get(name, ""))


def _value_of(reader: ModuleType, metric: Any) -> Value | None:
    if not metric.has_value():
        return None
    if metric.kind() == reader.IMetric.ValueKind_STRING:
        return str(metric.as_string())
    value = metric.as_double()
    return float(value) if value is not None else math.nan


_OTHER_REPORT = "read a report of another machine: gdnbench ncu --import FILE.ncu-rep"
_SUFFIXES = (".ncu-rep", ".csv", ".csv.gz")

ReportSource = Case | Path


@dataclass(frozen=True)
class NcuRequest:
    """How to look up kernels by name, and how to profile them."""

    catalog: Catalog
    op: str  # the kernels' op; may be empty if only files are named
    axes: str
    inputs: str  # their profile, as `--profile` takes it; may be empty
    gpu: str
    ncu: Path | None  # path of ncu; None to search for it
    profiles: Path
    repeat: int
    seed: int
    limit_s: float


def named_kernels(names: Sequence[str], *, stored: bool) -> list[str]:
    """Returns the names that are not files: see `find_sources`."""
    return [name for name in names if name and not (stored or name.endswith(_SUFFIXES))]


def find_sources(request: NcuRequest, names: Sequence[str], *, stored: bool) -> tuple[ReportSource, ...]:
    """Resolves names: one with a report's suffix is a file, any other a kernel; with `stored` all are files.

    Raises UnknownNameError for an unknown kernel, op or layout; UsageError for several workloads; GpuNotFoundError
    without the requested GPU; MachineError for a kernel whose module this Python lacks.
    """
    kernels = named_kernels(names, stored=stored)
    sources: dict[ReportSource, None] = {}
    for name in names:
        sources.update(dict.fromkeys(_cases(request, name)) if name in kernels else {Path(name): None})
    return tuple(sources)


def find_pair(
    request: NcuRequest, names: Sequence[str], other: str, *, stored: bool
) -> tuple[ReportSource, ReportSource]:
    """Returns the two sources to compare; raises UsageError if a side is not exactly one, and as `find_sources`."""
    sides = find_sources(request, names, stored=stored), find_sources(request, [other], stored=False)
    for side in sides:
        if len(side) != 1:
            names_of_side = " ".join(names) if side is sides[0] else other
            raise UsageError(
                f"{names_of_side}: {len(side)} were named, and --diff compares one with one", "name each in full"
            )
    return sides[0][0], sides[1][0]


def open_sources(request: NcuRequest, sources: Sequence[ReportSource], observer: Observer) -> tuple[NcuReport, ...]:
    """Reads the files, then profiles the kernels; a report each, in order. MachineError without a GPU or ncu."""
    found = {source: NcuReport(source, read_any(source, request.ncu)) for source in sources if isinstance(source, Path)}
    cases = [source for source in sources if isinstance(source, Case)]
    collected = iter(_profile_cases(request, cases, observer) if cases else ())
    return tuple(found[source] if isinstance(source, Path) else next(collected) for source in sources)


def _cases(request: NcuRequest, name: str) -> tuple[Case, ...]:
    labels = [variant.label for variant in select_variants(request.catalog, request.op, name)]
    where = {"axes": request.axes, "profile": request.inputs, "gpu": request.gpu}
    return tuple(process.choose_case(request.catalog, request.op, one, **where) for one in labels)


def _profile_cases(request: NcuRequest, cases: Sequence[Case], observer: Observer) -> tuple[NcuReport, ...]:
    gpu, ncu = process.choose_gpu(request.gpu, "profiling", _OTHER_REPORT), need_ncu(request.ncu)
    with alone_on(gpu, observer):
        observer(PhaseBegun("profile", len(cases)))
        return tuple(_profile_case(request, case, gpu, ncu, observer) for case in cases)


def _profile_case(request: NcuRequest, case: Case, gpu: Gpu, ncu: Path, observer: Observer) -> NcuReport:
    observer(StepChanged(f"{case.label} {case.workload}"))
    folder = make_folder(request.profiles, "ncu", case.label)
    stem = unused_name(folder, case, gpu.slug, ".ncu-rep")
    path = folder / f"{stem}.ncu-rep"
    task = process.make_assignment(
        request.catalog, case, process.Instrumentation.LAUNCH, seed=request.seed, launches=request.repeat
    )
    ended = process.run_worker(task, gpu, limit_s=request.limit_s, wrapper=ncu_command(ncu, path))
    if ended.returncode or not path.is_file():
        raise failure_of(ended)
    # Some versions of ncu's module do not read the case from the NVTX range.
    known: dict[str, Any] = {"label": case.label, "op": task.op, "workload": case.workload, "source": task.source}
    profiles = tuple(replace(profile, **known) for profile in read_any(path, ncu, lines_path(path)))
    write_profiles(folder / f"{stem}.csv", profiles)
    observer(UnitDone())
    return NcuReport(path, profiles)


_SAID = re.compile(r"^==(?:ERROR|WARNING)==\s*(.+)", re.MULTILINE)

# The first match counts: ncu adds "No kernels were profiled" to most other messages.
_MEANINGS: tuple[tuple[str, str, str], ...] = (
    (
        r"ERR_NVGPUCTRPERM|does not have permission",
        "the driver does not let this user read the GPU's counters (ERR_NVGPUCTRPERM)",
        "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/nvidia-profiling.conf, "
        "then reboot; in a container, start it with --cap-add=SYS_ADMIN",
    ),
    (
        r"driver resource was unavailable|other tool \(like DCGM\)",
        "another program holds the GPU's counters: DCGM, or another profiler",
        "pause it: dcgmi profile --pause, and afterwards dcgmi profile --resume; or end the other profiler",
    ),
    (
        r"[Pp]rofiling is not supported on|[Uu]nsupported (GPU|chip|device)|driver is not compatible",
        "this ncu cannot profile this GPU with this driver",
        "install the newest (https://developer.nvidia.com/nsight-compute) and name it with --ncu PATH; "
        "`ncu --list-chips` shows what one knows",
    ),
)


def find_ncu(root: Path = Path("/")) -> Path | None:
    """Finds Nsight Compute on the PATH, else the newest of the toolkit's and its own installer's below `root`."""
    return process.newest_installed("ncu", root, "usr/local/cuda*/bin/ncu", "opt/nvidia/nsight-compute/*/ncu")


def need_ncu(given: Path | None) -> Path:
    """Returns the path of ncu, as given or found; raises MachineError if there is none."""
    if given is None:
        if found := find_ncu():
            return found
        raise MachineError(
            "ncu is neither on the PATH nor under /usr/local/cuda* and /opt/nvidia",
            "install it (https://developer.nvidia.com/nsight-compute), or say where it is with --ncu PATH, "
            "or read a report of another machine: gdnbench ncu --import FILE.ncu-rep",
        )
    program = shutil.which(given)
    if program is None:
        raise MachineError(f"--ncu {given}: there is no such program", "give the path of ncu itself")
    return Path(program)


def ncu_command(ncu: Path, report: Path) -> Sequence[str]:
    """The command line before the worker's: all sections and source, in its NVTX range, clocks not locked."""
    collected = ("--set", "full", "--import-source", "yes")
    controls = ("--clock-control", "none", "--cache-control", "all")
    watched = ("--nvtx", "--nvtx-include", f"{process.DOMAIN}@{process.PROFILED}")
    return (str(ncu), *collected, *controls, *watched, "--export", str(report))


def failure_of(ended: Completed) -> ProfilerError | MachineError:
    """Returns the error for an ncu run that failed or left no report."""
    said = " ".join(_SAID.findall(ended.output))
    for pattern, message, hint in _MEANINGS:
        if re.search(pattern, said):
            return ProfilerError(message, hint)
    if "Unable to write to file" in said:
        return MachineError(f"ncu cannot write its report: {said}", "choose another folder with --profiles")
    if "application returned an error code" in said:
        lines = [line for line in ended.output.splitlines() if line.strip() and not line.startswith("==")]
        last = lines[-1].strip() if lines else "it said nothing"
        return ProfilerError(f"the kernel did not run: {last}", "see `gdnbench verify`")
    if "No kernels were profiled" in said:
        return ProfilerError(
            "ncu saw no launch of the kernel", "does it launch in another process? see `gdnbench verify`"
        )
    return ProfilerError(
        f"ncu ended with {ended.returncode}: {said or ended.last_line or 'it said nothing'}", "see `gdnbench doctor`"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
