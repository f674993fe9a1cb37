"""How a run measures, as its file describes it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gdnbench.errors import RunFormatError, UsageError
from gdnbench.model.kernel import Device
from gdnbench.model.status import CLOCKS, Clock
from gdnbench.process.command import LONGEST_LIMIT_S
from gdnbench.store.schema import MOST_ROUNDS, MOST_SEED

if TYPE_CHECKING:
    from gdnbench.store.info import RunInfo

MOST_SAMPLES = 1_000_000
_DEFAULT_SAMPLES = "the default is 64, on a GPU 32"

GPU_TRIM = 0.05
"""The trim of a GPU's samples, three of 64 at either end: enough for the outliers of an interrupt or a late launch."""

INTERQUARTILE = 0.25
"""The trim of a CPU's samples, which leaves the middle half: other processes disturb these far more often."""


@dataclass(frozen=True)
class Settings:
    """How to measure. Raises UsageError for an invalid value."""

    rounds: int = 42  # after the burn-in
    samples: int = 64  # timed launches per round and case, fewer for slow kernels
    processes: int = 1  # workers that share the rounds, one after the other
    seed: int = 0  # of inputs and of the order within rounds
    margin: float = 0.005  # relative difference below which two kernels are the same
    confidence: float = 0.95
    step_limit_s: float = 30.0  # seconds that one step of one kernel may take; building may take ten times that
    plain: bool = False  # NVBench alone on a GPU: one placement of the tensors, no scrubbing, no dithering
    cold_tlb: bool = False  # of older runs: samples are first launches on a placement, untranslated
    budget_s: float | None = None  # limit of measuring in seconds, for a race or with `looks`
    looks: int = 0  # number of interim analyses, at most one after each process; see `confidence_of_look`
    clocks: tuple[Clock, ...] = ()  # the clocks to read beside NVBench, on a GPU, each in a worker of its own
    until_clear: bool = False  # whether processes after the first measure only the cases that are close
    trim: float = GPU_TRIM  # share of a round's samples that its time leaves out at either end

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
        if self.samples < 1:
            raise UsageError(f"--samples {self.samples}: a round needs a sample", _DEFAULT_SAMPLES)
        if self.samples > MOST_SAMPLES:
            raise UsageError(f"--samples {self.samples}: at most {MOST_SAMPLES:,} are kept", _DEFAULT_SAMPLES)
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
GPU_SAMPLES = 32
"""Samples of a round on a GPU by default, one of each placement; twice as many narrow an interval by a sixth."""
GPU_CLOCKS: tuple[Clock, ...] = ("cupti",)  # CUPTI's kernel time is read beside NVBench's stream time by default
READ_BY_NVBENCHS_WORKERS: tuple[Clock, ...] = ("cupti",)
NVBENCH = "nvbench"


def confidence_of_look(confidence: float, looks: int) -> float:
    """The confidence of each interim analysis by which all together have at least the given one (Bonferroni)."""
    return 1.0 - (1.0 - confidence) / looks


def choose_settings(
    device: Device,
    *,
    quick: bool = False,
    rounds: int | None = None,
    samples: int | None = None,
    processes: int | None = None,
    seed: int | None = None,
    margin: float = Settings.margin,
    step_limit_s: float = Settings.step_limit_s,
    plain: bool = False,
    timers: str = "",
) -> Settings:
    """The device's or the quick defaults with the user's settings, and a fresh seed by default; raises UsageError."""
    base = QUICK if quick else Settings()
    if device == "cuda" and not quick:
        until_clear = rounds is None and processes is None
        clocks = () if plain else GPU_CLOCKS
        base = replace(base, samples=GPU_SAMPLES, processes=GPU_PROCESSES, clocks=clocks, until_clear=until_clear)
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
        clocks=parse_clocks(timers) if timers else base.clocks,
        until_clear=base.until_clear,
        trim=trim_of(device),
    )


def trim_of(device: Device) -> float:
    """Share of a round's samples that its time leaves out at either end."""
    return GPU_TRIM if device == "cuda" else INTERQUARTILE


def parse_clocks(timers: str) -> tuple[Clock, ...]:
    """Parses `--timer nvbench,cupti`, without NVBench, which always runs; raises UsageError if one is unknown."""
    names = {name.strip() for name in timers.split(",")}
    unknown = names - {NVBENCH, *CLOCKS}
    if unknown:
        choices = ", ".join((NVBENCH, *CLOCKS))
        raise UsageError(f"--timer {timers}: there is no timer {min(unknown)!r}", f"there are {choices}")
    return tuple(clock for clock in CLOCKS if clock in names)


def settings_of(info: RunInfo) -> Settings:
    """The settings of a run; raises RunFormatError if this gdnbench does not know one of them."""
    try:
        return Settings(**{**info.settings, "clocks": tuple(info.settings.get("clocks", ()))})
    except TypeError as error:
        raise RunFormatError(f"the settings of {info.run_id} are not known here: {error}", "start a new run") from error
