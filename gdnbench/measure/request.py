"""A request: which kernels to measure on which workloads, how, and on which device."""

from __future__ import annotations

import secrets
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING

from gdnbench.catalog.catalog import Catalog, find_op
from gdnbench.catalog.select import select_variants
from gdnbench.errors import UsageError
from gdnbench.model.case import Part, Variant, has_short_lists, write_in_full
from gdnbench.model.declaration import is_captured
from gdnbench.model.gpu import CPU, Gpu
from gdnbench.model.kernel import Device
from gdnbench.model.op import DEFAULT_SUITE, Op, Suite
from gdnbench.model.status import CLOCKS, Clock
from gdnbench.model.workload import Workload
from gdnbench.process.command import LONGEST_LIMIT_S
from gdnbench.stats.estimators import GPU_TRIM, INTERQUARTILE
from gdnbench.store.schema import MOST_ROUNDS, MOST_SEED

MOST_SAMPLES = 1_000_000

if TYPE_CHECKING:
    from gdnbench.catalog.captured import CapturedFile


@dataclass(frozen=True)
class Settings:
    """How to measure. Raises UsageError for an invalid value.

    Attributes:
        rounds: rounds after the burn-in.
        samples: timed launches per round and case, fewer for slow kernels.
        processes: workers that share the rounds, one after the other.
        seed: of inputs and of the order within rounds.
        margin: relative difference below which two kernels are the same.
        confidence: of every interval.
        step_limit_s: seconds that one step of one kernel may take; building may take ten times that.
        plain: NVBench alone on a GPU: one placement of the tensors, no scrubbing, no dithering.
        cold_tlb: on a GPU, time the first launch on a placement, whose address translations no cache holds.
        budget_s: limit of measuring in seconds, for a race or with `looks`; None for a run of fixed rounds.
        looks: number of interim analyses, at most one after each process of `rounds` rounds; 0 for a run of fixed
            rounds. Intervals then have `confidence_of_look`.
        clocks: the clocks to read beside NVBench, on a GPU, each in a worker of its own.
        trim: share of a round's samples that its time leaves out at either end.
    """

    rounds: int = 42
    samples: int = 64
    processes: int = 1
    seed: int = 0
    margin: float = 0.005
    confidence: float = 0.95
    step_limit_s: float = 30.0
    plain: bool = False
    cold_tlb: bool = False
    budget_s: float | None = None
    looks: int = 0
    clocks: tuple[Clock, ...] = ()
    trim: float = GPU_TRIM

    @property
    def clock_rounds(self) -> int:
        """Rounds by each further clock: fewer, since a kernel's own time varies less than that with its launch."""
        return self.rounds if self.looks else max(2, self.processes, -(-self.rounds // 2))

    def __post_init__(self) -> None:
        if self.rounds < 2:
            raise UsageError(f"--rounds {self.rounds}: an interval needs at least 2 rounds", "the default is 42")
        if self.rounds > MOST_ROUNDS:
            raise UsageError(f"--rounds {self.rounds}: at most {MOST_ROUNDS:,} are kept", "the default is 42")
        if not 1 <= self.processes <= self.rounds:
            raise UsageError(
                f"--processes {self.processes}: each process measures one of {self.rounds} rounds at least",
                f"the default on a GPU is {GPU_PROCESSES}",
            )
        if self.plain and self.cold_tlb:
            raise UsageError("--cold-tlb does not go with --plain, which has one placement", "leave one of them out")
        if self.samples < 1:
            raise UsageError(f"--samples {self.samples}: a round needs a sample", "the default is 64")
        if self.samples > MOST_SAMPLES:
            raise UsageError(f"--samples {self.samples}: at most {MOST_SAMPLES:,} are kept", "the default is 64")
        if not 0 <= self.seed <= MOST_SEED:
            raise UsageError(f"--seed {self.seed}: a seed lies between 0 and 2^63 - 1", "leave it out for a fresh one")
        if not 0 <= self.margin < 1:
            raise UsageError(f"--margin {self.margin}: a margin lies between 0 and 1", "0.005 is half a percent")
        if not 0 < self.step_limit_s <= LONGEST_LIMIT_S:
            raise UsageError(
                f"--step-limit {self.step_limit_s:g}: a step takes some time, at most {LONGEST_LIMIT_S:,.0f} s",
                "it is in seconds, as in --step-limit 30",
            )


QUICK = Settings(rounds=7, samples=32)
"""Settings for a first look: seconds instead of minutes, one process, one clock, intervals a few times as wide."""
GPU_PROCESSES = 3
GPU_CLOCKS: tuple[Clock, ...] = ("cupti",)
"""CUPTI's kernel time is read beside NVBench's stream time by default."""
NVBENCH = "nvbench"


def confidence_of_look(confidence: float, looks: int) -> float:
    """The confidence of each interim analysis by which all together have at least the given one (Bonferroni)."""
    return 1.0 - (1.0 - confidence) / looks


@dataclass(frozen=True)
class Request:
    """What to measure.

    Attributes:
        baseline: what to compare with; empty for the op's first that can run here.
        swept: for a sweep, the params that the variants try, by kernel.
        command: the command line, for the record.
        suite: the suite of the workloads, if any.
        part: the part of the workloads that is requested; None for all.
        captured: files of captured inputs that workloads belong to.
    """

    op: Op
    variants: tuple[Variant, ...]
    workloads: tuple[Workload, ...]
    settings: Settings
    baseline: str = ""
    label: str = ""
    swept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    command: str = ""
    suite: Suite | None = None
    part: Part | None = None
    captured: tuple[CapturedFile, ...] = ()


def choose_settings(
    device: Device,
    *,
    quick: bool,
    rounds: int | None,
    samples: int | None,
    processes: int | None,
    seed: int | None,
    margin: float,
    step_limit_s: float,
    plain: bool,
    cold_tlb: bool = False,
    timers: str = "",
) -> Settings:
    """The device's or the quick defaults with the user's settings, and a fresh seed by default; raises UsageError."""
    base = QUICK if quick else Settings()
    if device == "cuda" and not quick:
        base = replace(base, processes=GPU_PROCESSES, clocks=() if plain else GPU_CLOCKS)
    if processes is None:
        processes = min(base.processes, rounds) if rounds else base.processes
    return Settings(
        rounds=base.rounds if rounds is None else rounds,
        samples=base.samples if samples is None else samples,
        processes=processes,
        seed=secrets.randbelow(2**31) if seed is None else seed,
        margin=margin,
        step_limit_s=step_limit_s,
        plain=plain,
        cold_tlb=cold_tlb,
        clocks=parse_clocks(timers) if timers else base.clocks,
        trim=trim_of(device),
    )


def trim_of(device: Device) -> float:
    """Share of a round's samples that its time leaves out at either end."""
    return GPU_TRIM if device == "cuda" else INTERQUARTILE


def parse_clocks(timers: str) -> tuple[Clock, ...]:
    """Parses `--timer nvbench,cupti,graph`, without NVBench, which always runs; raises UsageError if one is unknown."""
    names = {name.strip() for name in timers.split(",")}
    unknown = names - {NVBENCH, *CLOCKS}
    if unknown:
        known = ", ".join((NVBENCH, *CLOCKS))
        raise UsageError(f"--timer {timers}: there is no timer {min(unknown)!r}", f"there are {known}")
    return tuple(clock for clock in CLOCKS if clock in names)


def make_request(
    catalog: Catalog,
    op: str,
    kernels: str,
    *,
    axes: str,
    settings: Settings,
    baseline: str = "",
    label: str = "",
    suite: str = "",
    part: Part | None = None,
    profiles: str = "",
    inputs: Path | None = None,
) -> Request:
    """Looks up the names on the command line.

    Raises UnknownNameError for an unknown op, kernel, alias, suite or profile, and UsageError for invalid workloads or
    params, workloads beside a suite, a part without workloads, or captured inputs that are not the op's.
    """
    found = find_op(catalog, op)
    variants = select_variants(catalog, op, kernels)
    captured = captured_asked(found, inputs, axes, suite)
    own = sizes_of(captured) or workloads_asked(found, axes, suite)
    workloads = timed_at(found, part.take(own) if part else own, captured, profiles)
    chosen = found.suite(suite).at(parse_profiles(found, profiles)) if suite else None
    command = shlex.join(["gdnbench", *sys.argv[1:]])
    return Request(
        found,
        variants,
        workloads,
        settings,
        baseline,
        label,
        command=command,
        suite=chosen,
        part=part,
        captured=captured,
    )


def captured_asked(op: Op, inputs: Path | None, axes: str, suite: str = "") -> tuple[CapturedFile, ...]:
    """The files of `--inputs`, or none if it is not given; `axes` (`--shape`) are those that no tensor shows.

    Raises UsageError beside a suite, for several sizes of an axis, and as `read_captured`.
    """
    if inputs is None:
        return ()
    if suite:
        raise UsageError(f"--inputs has its own workloads, and so has --suite {suite}", "leave one of them out")
    settings = op.workloads.parse(axes)
    if any(len(sizes) > 1 for sizes in settings):
        raise UsageError(f"--shape {axes}: captured inputs are of one workload a file", "leave --shape out")
    given = dict(chain.from_iterable(sizes[0].items() for sizes in settings))

    from gdnbench.catalog.captured import read_captured  # numpy comes with it

    return read_captured(op, inputs, given)


def sizes_of(captured: Iterable[CapturedFile]) -> tuple[Workload, ...]:
    """The workloads of captured inputs in the op's first profile, each once."""
    return tuple(dict.fromkeys(each.workload.at("") for each in captured))


def timed_at(
    op: Op, sizes: Iterable[Workload], captured: Sequence[CapturedFile], profiles: str
) -> tuple[Workload, ...]:
    """The workloads at some sizes: first with the captured inputs of that size, then with the profiles named.

    Raises UnknownNameError for a profile that the op does not have.
    """
    if not captured:
        return in_profiles(sizes, parse_profiles(op, profiles))
    named = parse_profiles(op, profiles) if profiles.strip() else ()
    return tuple(
        workload
        for size in sizes
        for workload in (
            *(each.workload for each in captured if each.workload.at("") == size.at("")),
            *in_profiles([size], named),
        )
    )


def parse_profiles(op: Op, names: str, *, stored: bool = False) -> tuple[str, ...]:
    """Parses `--profile mixed-heads,never`: the op's default if empty, all profiles for `all`.

    Profiles of captured inputs are accepted only if `stored` times are requested, else UsageError is raised. Raises
    UnknownNameError for a profile that the op does not have.
    """
    if names.strip() == "all" and op.profiles:
        return tuple(each.name for each in op.profiles)
    asked = [name.strip() for name in names.split(",") if name.strip()]
    if not stored and (captured := next(filter(is_captured, asked), None)):
        raise UsageError(f"--profile {captured} is of captured inputs", "name their file: --inputs FILE.safetensors")
    named = [name if is_captured(name) else op.profile_named(name) for name in asked]
    return tuple(dict.fromkeys(named)) or (op.profile,)


def in_profiles(workloads: Iterable[Workload], profiles: Sequence[str]) -> tuple[Workload, ...]:
    """Each workload with inputs of each of these profiles."""
    return tuple(workload.at(profile) for workload in workloads for profile in profiles)


def workloads_asked(op: Op, axes: str, suite: str, usual: str = DEFAULT_SUITE) -> tuple[Workload, ...]:
    """The workloads of `--suite` or of `--shape`, or of the suite `usual` if neither is given.

    Raises UnknownNameError for an unknown suite or alias, UsageError for invalid workloads, or both options.
    """
    if suite and axes:
        raise UsageError(f"--suite {suite} has its own workloads", "leave --shape out, or --suite")
    return op.suite(suite).workloads if suite else parse_workloads(op, axes, usual)


def parse_workloads(op: Op, axes: str, suite: str = DEFAULT_SUITE) -> tuple[Workload, ...]:
    """Parses `--shape` (`B=1,8,64 heads=qk4_v8`) into every combination of its sizes; empty is the suite as it is.

    If it sets the x axis of charts, as `B=8` does, other sizes are the op's defaults; if it sets others alone, as
    `heads=qk2_v4` does, they replace the suite's own. A list may be given as labels shorten it,
    `lengths=15n-4124-0c1f2e3d`, if a suite of the op has it. Raises UsageError for an unknown axis or an invalid size,
    UnknownNameError for a name that is not in an alias, and ShapeError for a workload that the op does not define.
    """
    return _changed(op, axes, op.suite(suite).workloads)


def parse_near_default(op: Op, axes: str) -> tuple[Workload, ...]:
    """Parses `--shape` as `parse_workloads`, but from the op's default workload, for verbs that measure no times."""
    return _changed(op, axes, (op.default,))


def parse_workload(op: Op, axes: str, purpose: str) -> Workload:
    """Parses `--shape` into one workload, by default the op's; raises as `parse_workloads`.

    Raises UsageError for several, which gives the `purpose`: `a profile is of one`.
    """
    found = parse_near_default(op, axes)
    if len(found) > 1:
        raise UsageError(f"{len(found)} workloads are given, and {purpose}", f"as in {' '.join(op.default.options)}")
    return found[0]


def _changed(op: Op, axes: str, own: tuple[Workload, ...]) -> tuple[Workload, ...]:
    """Every combination of the sizes in `axes`; other sizes come from `own`, or the defaults."""
    if has_short_lists(axes):
        axes = write_in_full(axes, op.suite_workloads)
    settings = op.workloads.parse(axes)
    if not settings:
        return own
    is_x_set = any(op.workloads.x in sizes[0] for sizes in settings)
    bases = (op.workloads.default,) if is_x_set else own
    changes = [dict(chain.from_iterable(each.items() for each in combination)) for combination in product(*settings)]
    return tuple(dict.fromkeys(op.workload({**each.sizes, **change}) for change in changes for each in bases))


def device_of(gpu: Gpu | None) -> Device:
    """The device of torch: `cuda` if there is a GPU, else `cpu`."""
    return "cuda" if gpu else "cpu"


def slug_of(gpu: Gpu | None) -> str:
    """The device's name in run ids, results and dispatchers' tables: `h200`, or `cpu`."""
    return gpu.slug if gpu else CPU
