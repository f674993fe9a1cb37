"""Finds stored runs by what a user calls them, and the last known time of each kernel in them.

What is named and is not among a user's runs is looked for in the evidence beside them: the runs that pages quote.
A run that cannot be read is left out with a warning.
"""

from __future__ import annotations

import os
import shlex
import stat
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict, TypeVar

from gdnbench.codec import SchemaError, convert_cells
from gdnbench.errors import LeftOutWarning, RunFormatError, UnknownNameError, UnreadableError
from gdnbench.model.gpu import CPU
from gdnbench.model.status import Bound, Role, Timer
from gdnbench.model.workload import Workload
from gdnbench.origin import EVIDENCE, out_option
from gdnbench.store.files import DAMAGED, MEASUREMENTS, PARTIAL, quick_rows, read_document, unreadable
from gdnbench.store.info import INFO, read_info
from gdnbench.store.schema import HighEnd, LowEnd, Microseconds, Name, Positive, TextLine
from gdnbench.wording import nearest_names

if TYPE_CHECKING:
    from gdnbench.model.measurement import Measurement

T = TypeVar("T")

PUBLISHED_FOLDER = "published"
"""Beside the runs: tables of figures that others published, a folder each, which `gdnbench compare` reads."""


@dataclass(frozen=True)
class Named:
    """The folders of the runs that a name may mean, newest first; at least one."""

    runs: tuple[Path, ...]
    is_one: bool  # the first is meant, whatever it holds; else the newest that serves, as for a GPU's or an op's name


def find_run(results: Path, wanted: str = "", *, serves: Callable[[Path], bool] | None = None) -> Path:
    """A stored run's folder; UnknownNameError if there is none.

    `wanted` is empty for the latest; else a folder, a run id, the start of one, the label, or a GPU's or an op's name.
    Of the evidence, all but the latter two. `serves` chooses among several, as `find_newest` takes it: by default the
    latest that compared kernels; without a name, the latest.
    """
    named = name_runs(results, wanted)
    return named.runs[0] if named.is_one else find_newest(named.runs, serves or (compares if wanted else is_whole))


def find_newest(runs: Sequence[Path], serves: Callable[[Path], bool]) -> Path:
    """The first of at least one run that serves; without one, the first that can be read."""
    first = None
    for folder, does in readable(runs, lambda folder: (folder, serves(folder))):
        if does:
            return folder
        first = first or folder
    if first is None:
        serves(runs[0])  # says what is wrong with the newest
    return first or runs[0]


def name_runs(results: Path, wanted: str, *, stopped: bool = False) -> Named:
    """The runs that a name may mean, as `find_run` takes it; with `stopped`, also those whose process was killed."""
    if wanted and _is_run(Path(wanted)):
        return Named((Path(wanted),), is_one=True)

    def named(among: Mapping[str, Path], matches: Iterable[str], *, is_one: bool) -> Named:
        return Named(tuple(among[name] for name in sorted(matches, reverse=True)), is_one)

    runs = _runs(results, stopped=stopped)
    if not wanted and runs:
        return named(runs, runs, is_one=False)
    if wanted and (matches := _called(runs, wanted)):
        return named(runs, matches, is_one=True)
    if matches := [name for name in runs if wanted and f"-{wanted.lower()}-" in f"{name}-"]:
        return named(runs, matches, is_one=False)
    evidence = {} if stopped or not wanted else _runs(results / EVIDENCE, stopped=False)
    bare = Path(wanted).name if Path(wanted).parent in {results, Path(EVIDENCE)} else ""
    # There, an end of an id with its label counts as well.
    ending = [name for name in evidence if _label_in(name) and name.endswith(f"-{wanted}")]
    if matches := _called(evidence, bare or wanted) or ending:
        return named(evidence, matches, is_one=True)
    raise _unknown(results, wanted, runs, evidence)


def _called(runs: Collection[str], wanted: str) -> list[str]:
    by_label = [name for name in runs if _label_in(name) == wanted]  # `main` is not the start of `main-again`
    return [name for name in runs if name == wanted] or by_label or [name for name in runs if name.startswith(wanted)]


def list_runs(results: Path, *, stopped: bool = False) -> list[Path]:
    """Every stored run's folder, oldest first; with `stopped`, also those whose process was killed."""
    return [path for _, path in sorted(_runs(results, stopped=stopped).items())]


def runs_beside(results: Path) -> list[Path]:
    """Every stored run's folder, newest first; none where the folder of runs cannot be read."""
    try:
        return list_runs(results)[::-1]
    except UnreadableError as error:
        warnings.warn(error.message, LeftOutWarning, stacklevel=2)
        return []


def readable(folders: Iterable[Path], read: Callable[[Path], T]) -> Iterator[T]:
    """What is read of some runs' folders, without those that cannot be read: each is left out with a warning."""
    for folder in folders:
        try:
            yield read(folder)
        except RunFormatError as error:
            warnings.warn(f"{folder.name} is left out: {error.message}", LeftOutWarning, stacklevel=2)


def is_whole(folder: Path) -> bool:
    """Returns True; RunFormatError for a run that cannot be read."""
    read_info(folder)
    _rows_of(folder)
    return True


def has_times(folder: Path) -> bool:
    """Whether any case of a run has a time: one of `gdnbench step` has none of single launches."""
    return any(row.timing for row in _rows_of(folder))


def compares(folder: Path) -> bool:
    """Whether kernels were timed in a run to be compared: in a sweep it is params, in an ablation a kernel's parts."""
    info = read_info(folder)
    if info.swept or not info.on_gpu:
        return False
    return any(row.timing and row.role is Role.KERNEL for row in _rows_of(folder))


def _rows_of(folder: Path) -> list[Measurement]:
    from gdnbench.store.measurements import read_measurements  # imported here: `list` needs a run's times alone

    return read_measurements(folder)


def _is_run(folder: Path) -> bool:
    """Whether there is a run in a folder; one that hides whether there is counts."""
    try:
        return stat.S_ISREG(os.stat(f"{folder}/{INFO}").st_mode)  # noqa: PTH116 - a third of the time, for every run
    except PermissionError:
        return True
    except (OSError, ValueError):  # a name that is too long, or no name
        return False


def _runs(results: Path, *, stopped: bool) -> dict[str, Path]:
    try:
        with os.scandir(results) as entries:
            paths = [Path(entry.path) for entry in entries]
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise unreadable(results, error) from error
    found = {}
    for path in paths:
        partial = PARTIAL.fullmatch(path.name)
        if partial and stopped and _is_run(path):
            found[partial["run_id"]] = path
        elif not path.name.startswith(".") and _is_run(path):
            found[path.name] = path
    return found


def _label_in(run_id: str) -> str:
    return "-".join(run_id.split("-")[4:])


def _unknown(results: Path, wanted: str, runs: Collection[str], evidence: Collection[str]) -> UnknownNameError:
    stopped = _runs(results, stopped=True).keys() - set(runs)
    meant = max((name for name in stopped if name.startswith(wanted)), default="") if wanted or not runs else ""
    if meant:
        argv = ["gdnbench", "run", "--resume", meant, *out_option(results)]
        return UnknownNameError(f"{meant} was stopped before it was written", f"finish it: {shlex.join(argv)}")
    if Path(wanted).parent.name == PUBLISHED_FOLDER:
        command = shlex.join(["gdnbench", "compare", "RUN", wanted, *out_option(results)])
        message = f"{wanted} is a table of published figures, not a run"
        return UnknownNameError(message, f"compare a run with it: {command}")
    near = nearest_names(wanted, [*runs, *evidence], most=3, cutoff=0.3) or sorted(runs)[-3:]
    if not near:
        is_quoted = bool(_runs(results / EVIDENCE, stopped=False))
        quoted = f"; or read those that pages quote: --out {results / EVIDENCE}" if is_quoted else ""
        return UnknownNameError(f"no runs in {results}", f"measure one: gdnbench run --kernel all{quoted}")
    return UnknownNameError(f"no run {wanted} in {results}", f"there are {', '.join(near)}")


@dataclass(frozen=True)
class LastTime:
    """A kernel's time in the newest run that has one. Over runs only `kernel_us` and `over_copy` compare."""

    run_id: str
    gpu: str
    kernel: str  # what ran: for a dispatcher, the kernel that it picked
    time_us: float  # stream time by NVBench, which holds what a launch costs on that host; microseconds
    low_us: float
    high_us: float
    over_copy: float | None  # over that of the copying floor; None without one, or where FLOPs are the bound
    kernel_us: float | None  # kernel time by CUPTI, microseconds; None if the run has none
    sources: dict[str, str]  # hashes, by the kernel's name


class _Info(TypedDict):
    run_id: Name
    gpu: Name
    op: Name
    sources: dict[Name, TextLine]


_Times = dict[str, tuple[str, float, float, float, float | None, float | None]]
"""The times of a run's kernels by label: the fields of `LastTime` from `kernel` to `kernel_us`."""


class _Cells(TypedDict):
    kernel: Name
    label: Name
    role: Role
    timer: Timer
    time_us: Microseconds
    time_lo_us: LowEnd
    time_hi_us: HighEnd
    bound: NotRequired[Bound]
    sol: NotRequired[Positive]


def last_times(
    results: Path, workloads: Mapping[str, Workload], labels: Mapping[str, Collection[str]]
) -> dict[str, LastTime]:
    """By label, the times of kernels, each of the newest run that has one; workloads and labels are by op.

    A run that cannot be read is left out with a warning.
    """
    found: dict[str, LastTime] = {}
    missing = {op: set(names) for op, names in labels.items() if names}
    for folder, info in readable(runs_beside(results), lambda folder: (folder, read_document(folder / INFO, _Info))):
        if not any(missing.values()):
            break
        if not missing.get(info["op"]) or info["gpu"] == CPU:
            continue
        for times in readable([folder], partial(_read_times, workload=workloads[info["op"]])):
            for label in missing[info["op"]] & times.keys():
                found[label] = LastTime(info["run_id"], info["gpu"], *times[label], info["sources"])
                missing[info["op"]].remove(label)
    return {label: found[label] for names in labels.values() for label in names if label in found}


def _read_times(folder: Path, workload: Workload) -> _Times:
    path = folder / MEASUREMENTS
    usual = workload.spec.default.cells | {"profile": next(iter(workload.spec.profiles), "")}  # of older runs
    wanted = {
        name: (str(cell), str(usual[name])) for name, cell in (workload.cells | {"profile": workload.inputs}).items()
    }
    found: dict[str, dict[str, _Cells]] = {"nvbench": {}, "cupti": {}}
    for line, cells in quick_rows(path):
        timed = cells.get("time_us") and cells.get("timer") in found and cells.get("role") != Role.CONTROL
        if timed and all(cells.get(name, default) == cell for name, (cell, default) in wanted.items()):
            try:
                row = convert_cells(cells, _Cells)
            except SchemaError as error:
                raise RunFormatError(f"{path} line {line}, {error}", DAMAGED) from error
            found[row["timer"]][row["label"]] = row
    times: _Times = {}
    for label, row in found["nvbench"].items():
        over_copy = 1 / row["sol"] if "sol" in row and row.get("bound") != "flops" else None
        own = (row["kernel"], row["time_us"], row["time_lo_us"], row["time_hi_us"])
        times[label] = (*own, over_copy, found["cupti"][label]["time_us"] if label in found["cupti"] else None)
    return times
