"""Reads the file of a pipeline: TOML with the tables `stages.NAME`, `buffers.NAME` and `launch`."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from gdnbench.codec import SchemaError, Text, convert
from gdnbench.errors import MachineError, UsageError
from gdnbench.profilers.phases.analysis import analyse
from gdnbench.profilers.phases.stamps import read_stamps
from gdnbench.project.constraints import constraints_of, order_of
from gdnbench.project.pipeline import Buffer, Launch, PhaseTime, Pipeline, Stage
from gdnbench.regular_file import NotRegularError, TooLargeError, read_regular
from gdnbench.wording import did_you_mean

MOST_BYTES = 1 << 20
MOST_STEPS = 200_000
"""Items times constraints, at most: each change is run on paper too, and all of it takes seconds."""

_FIX = "docs/projecting.md has the format"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,49}")

Time = Annotated[float, Meta(gt=0, le=1e9)]
Slots = Annotated[int, Meta(ge=1, le=1024)]


class _StageTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stage: its time in one of three ways, `time_us`, `cycles`, or `phases` with `phase`, one or several of them."""

    time_us: Time | None = None
    cycles: Time | None = None
    phases: Annotated[Text, Meta(min_length=1, max_length=1000)] | None = None
    phase: Text | Annotated[list[Text], Meta(min_length=1, max_length=32)] | None = None
    phase_items: Annotated[int, Meta(ge=1, le=10**9)] = 1
    workers: Annotated[int, Meta(ge=1, le=1024)] = 1
    takes: Annotated[list[Text], Meta(max_length=32)] = []
    gives: Annotated[list[Text], Meta(max_length=32)] = []


class _BufferTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A buffer, as `Buffer` has it."""

    slots: Slots
    filled: Annotated[int, Meta(ge=0, le=1024)] = 0


class _LaunchTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The blocks, as `Launch` has them."""

    blocks: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 1
    sms: Annotated[int, Meta(ge=1, le=1024)] = 1
    blocks_per_sm: Annotated[int, Meta(ge=1, le=64)] = 1
    overhead_us: Annotated[float, Meta(ge=0, le=1e9)] = 0.0


T = TypeVar("T")


class _Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file. Tables of stages and buffers are converted one by one, so that messages say their names."""

    items: Annotated[int, Meta(ge=1, le=100_000)]
    stages: Annotated[dict[str, dict[str, Any]], Meta(min_length=1, max_length=16)]
    buffers: Annotated[dict[str, dict[str, Any]], Meta(max_length=32)] = {}
    launch: dict[str, Any] = {}
    name: Annotated[Text, Meta(max_length=100)] = ""
    clock_mhz: Annotated[float, Meta(gt=0, le=1e5)] | None = None


def read_pipeline(path: Path) -> Pipeline:
    """The pipeline that a file declares; stored phases are read from where it says, as seen from its folder.

    Raises:
        UsageError: naming file, key and what is wrong; a deadlock as well.
        MachineError: if it cannot be read.
        ReportFormatError: if a stored profile is not there, or none.
        ProfilerError: if a stored profile tells nothing.
    """
    document = _parsed(path)
    declared = _converted(f"{path}", document, _Document)
    stages = {name: _table(path, "stages", name, table, _StageTable) for name, table in declared.stages.items()}
    buffers = {name: _table(path, "buffers", name, table, _BufferTable) for name, table in declared.buffers.items()}
    launch = _converted(f"{path}: launch", declared.launch, _LaunchTable)
    pipeline = Pipeline(
        items=declared.items,
        stages=tuple(_stage(path, name, table, declared.clock_mhz) for name, table in stages.items()),
        buffers=tuple(_buffer(path, name, table) for name, table in buffers.items()),
        launch=Launch(**msgspec.structs.asdict(launch)),
        name=declared.name or path.stem,
    )
    _check_ends(path, pipeline)
    _check_runs(path, pipeline)
    return pipeline


def _parsed(path: Path) -> dict[str, Any]:
    """The file's document."""
    try:
        content = read_regular(path, MOST_BYTES)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: there is no such file", _FIX) from error
    except NotRegularError as error:
        raise UsageError(f"{path} is no file", _FIX) from error
    except TooLargeError as error:
        raise UsageError(f"{path} holds more than {MOST_BYTES >> 20} MiB, which no pipeline does", _FIX) from error
    except OSError as error:
        raise MachineError(f"{path} cannot be read: {error.strerror or error}", "check its name and owner") from error
    except ValueError as error:
        raise UsageError(f"{path} cannot be the name of a file: {error}", _FIX) from error
    try:
        return tomllib.loads(content.decode())
    except RecursionError as error:
        raise UsageError(f"{path}: lists or tables are nested too deeply", _FIX) from error
    except ValueError as error:  # of TOML, of UTF-8, and of an integer with thousands of digits
        raise UsageError(f"{path}: {error}", _FIX) from error


def _table(path: Path, kind: str, name: str, table: Any, schema: type[T]) -> T:
    """One table of a stage or buffer; its name is checked first, for messages say it."""
    at = f"{path}: {kind}.{name}"
    if not _NAME.fullmatch(name):
        raise UsageError(f"{at}: a name has up to 50 letters, digits, `_`, `-` and `.`", _FIX)
    return _converted(at, table, schema)


def _converted(at: str, table: Any, schema: type[T]) -> T:
    try:
        return convert(table, schema)
    except SchemaError as error:
        raise UsageError(f"{at}: {error}", _FIX) from error


def _stage(path: Path, name: str, table: _StageTable, clock_mhz: float | None) -> Stage:
    at = f"{path}: stages.{name}"
    given = [key for key in ("time_us", "cycles", "phases") if getattr(table, key) is not None]
    if len(given) != 1:
        told = f"{' and '.join(given)} are two times" if given else "it has no time"
        raise UsageError(f"{at}: {told}", "give one of time_us, cycles, or phases with phase")
    if (table.phase is None) != (table.phases is None):
        lacks = "phase" if table.phase is None else "phases"
        raise UsageError(f"{at}: {lacks} is missing", 'as in phases = "FILE.npz" with phase = "load"')
    if table.phase_items != 1 and table.phases is None:
        raise UsageError(f"{at}.phase_items: there is no phase to divide", "leave it out, or give phases and phase")
    measured = None
    if table.time_us is not None:
        time_us = table.time_us
    elif table.cycles is not None:
        if clock_mhz is None:
            raise UsageError(f"{at}.cycles: at which clock?", "give clock_mhz, above the tables")
        time_us = table.cycles / clock_mhz
    else:
        time_us, measured = _phase_time(path, at, table)
    for key in ("takes", "gives"):
        names = getattr(table, key)
        if len(set(names)) < len(names):
            raise UsageError(f"{at}.{key}: a buffer is there twice", "name each once")
    return Stage(name, time_us, table.workers, tuple(table.takes), tuple(table.gives), measured)


def _phase_time(path: Path, at: str, table: _StageTable) -> tuple[float, PhaseTime]:
    """The mean time of an item in phases of a stored profile, summed, and what it was measured on."""
    assert table.phases is not None
    assert table.phase is not None
    stamps = read_stamps(path.parent / table.phases)
    profile = analyse(stamps)
    rows = {row.name: row for row in profile.breakdown.rows() if row.name in profile.breakdown.phases}
    names = [table.phase] if isinstance(table.phase, str) else table.phase
    for name in names:
        if name not in rows:
            told = f"it has {', '.join(rows)}" if rows else "no warp passed any"
            raise UsageError(f"{at}.phase: {table.phases} has no phase {name}", did_you_mean(name, rows, told))
    if len(set(names)) < len(names):
        raise UsageError(f"{at}.phase: a phase is there twice", "name each once")
    average = sum(rows[name].average for name in names)
    told = " and ".join(names)
    if average <= 0:
        raise UsageError(
            f"{at}.phase: {told} took {average:.3f} µs on average: its marks crossed",
            "add the phase beside it, or give time_us",
        )
    about = stamps.about
    measured = PhaseTime(
        kernel=f"{about.title} {about.workload}",
        gpu=about.gpu,
        phase=told,
        items=table.phase_items,
        overhead=profile.overhead.share,
        file=table.phases,
    )
    return average / table.phase_items, measured


def _buffer(path: Path, name: str, table: _BufferTable) -> Buffer:
    at = f"{path}: buffers.{name}"
    if table.filled > table.slots:
        raise UsageError(
            f"{at}.filled: {table.filled} of {table.slots} slots are filled", f"give it {table.filled} slots or more"
        )
    return Buffer(name, table.slots, table.filled)


def _check_ends(path: Path, pipeline: Pipeline) -> None:
    """Each buffer that a stage names is there, one stage fills it, and some stage takes from it."""
    names = [buffer.name for buffer in pipeline.buffers]
    for stage in pipeline.stages:
        for key, used in (("takes", stage.takes), ("gives", stage.gives)):
            for name in used:
                if name not in names:
                    hint = did_you_mean(name, names, f"add the table [buffers.{name}] with its slots")
                    raise UsageError(f"{path}: stages.{stage.name}.{key}: there is no buffer {name}", hint)
    for name in names:
        givers = [stage.name for stage in pipeline.stages if name in stage.gives]
        if len(givers) != 1:
            told = f"{' and '.join(givers)} give to it" if givers else "no stage gives to it"
            raise UsageError(f"{path}: buffers.{name}: {told}", f'one stage has gives = ["{name}"]')
        if not pipeline.takers(name):
            raise UsageError(f"{path}: buffers.{name}: no stage takes from it", f'some stage has takes = ["{name}"]')


def _check_runs(path: Path, pipeline: Pipeline) -> None:
    """The pipeline moves, and can be run on paper in seconds."""
    constraints = constraints_of(pipeline)
    try:
        order_of(pipeline, constraints)
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", error.hint) from error
    if pipeline.items * len(constraints) > MOST_STEPS:
        raise UsageError(
            f"{path}: items: {pipeline.items} items through {len(constraints)} constraints are too many",
            f"give at most {MOST_STEPS // len(constraints)}: the steady state is the same",
        )
