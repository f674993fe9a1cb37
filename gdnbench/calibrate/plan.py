"""Plans a calibration: one kernel under several names, and with chains of dependent additions planted in it.

A chain costs another share of the time at each workload and on each GPU. A pilot, a short run with a ladder of chains,
therefore chooses the chains for the wanted slowdowns.
"""

from __future__ import annotations

import secrets
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gdnbench.analyse.analysis import Analysis
from gdnbench.catalog.catalog import Catalog, default_roots, find_op, load_catalog
from gdnbench.catalog.request import Request, parse_workloads
from gdnbench.errors import MachineError, UsageError
from gdnbench.measure.plan import Plan, foresee, make_plan
from gdnbench.model.case import Case
from gdnbench.model.declaration import ParamValue
from gdnbench.model.gpu import Gpu
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload
from gdnbench.store.settings import Settings, choose_settings

PLANTED_ROOT = Path(__file__).resolve().parent / "planted"
"""Catalog root of the planted kernel, which no other verb loads."""
OP = "decode"
KERNEL = "decode-planted"
EQUAL = 4
"""Number of further names of the kernel."""
TARGETS = (0.003, 0.007, 0.01, 0.02)
"""Slowdowns to plant, as shares of the time: below the margin, just above it, and well above."""
LADDER = (8, 16, 32, 64, 128, 256, 512)
"""Chains of the pilot. On an H200, 84 additions cost 4 % at B=1; at large batches other warps hide most of them."""
PILOT = Settings(rounds=21, samples=64, processes=1)
FEWEST_RUNS = 2
DEFAULT_RUNS = 6
DEFAULT_WORKLOADS = "B=1,8,64"

Chains = Mapping[Workload, Mapping[int, float]]
"""The chains to plant at each workload, each with its wanted slowdown."""


@dataclass(frozen=True)
class CalibrationSubject:
    """What is calibrated, and how: a catalog of the bundled kernels and the planted one, and each run's settings."""

    catalog: Catalog
    op: Op
    gpu: Gpu
    workloads: tuple[Workload, ...]
    settings: Settings
    runs: int

    @property
    def longest_s(self) -> float:
        """Upper limit of the measuring time in seconds, without building and checking."""
        chains = {workload: dict.fromkeys(LADDER[: len(TARGETS)], 0.0) for workload in self.workloads}
        a_run = foresee(self.catalog, run_plan(self, chains, 1)).measuring_s
        return foresee(self.catalog, pilot_plan(self)).measuring_s + self.runs * a_run

    @property
    def cases(self) -> int:
        """Number of cases of a run."""
        beside = 3  # the baseline, its control and the copying floor
        return len(self.workloads) * (EQUAL + len(TARGETS) + beside)


def choose_subject(gpu: Gpu, *, axes: str, runs: int, processes: int | None, rounds: int | None) -> CalibrationSubject:
    """Makes the subject that the user asked for; runs are as `gdnbench run` makes them, by NVBench alone.

    Raises UsageError for numbers of runs, processes or rounds that are too small.
    """
    if runs < FEWEST_RUNS:
        raise UsageError(f"--runs {runs}: runs are held against one another", f"the default is {DEFAULT_RUNS}")
    settings = choose_settings(
        "cuda",
        quick=False,
        rounds=rounds,
        samples=None,
        processes=processes,
        seed=None,
        margin=Settings().margin,
        step_limit_s=Settings().step_limit_s,
        plain=False,
        timers="nvbench",
    )
    if settings.rounds < 2 * settings.processes:
        told = f"--rounds {settings.rounds}: each of {settings.processes} processes needs 2 to tell its noise"
        raise UsageError(told, "give more rounds, or fewer processes")
    catalog = load_catalog([default_roots()[0], PLANTED_ROOT])
    op = find_op(catalog, OP)
    return CalibrationSubject(catalog, op, gpu, parse_workloads(op, axes or DEFAULT_WORKLOADS), settings, runs)


def pilot_plan(subject: CalibrationSubject) -> Plan:
    """Plans one run of the ladder of chains at every workload."""
    chains = {workload: dict.fromkeys(LADDER, 0.0) for workload in subject.workloads}
    return _plan(subject, chains, equal=0, settings=PILOT, label="pilot")


def run_plan(subject: CalibrationSubject, chains: Chains, number: int, *, equal: int = EQUAL, alike: int = 1) -> Plan:
    """Plans run `number` (from 1): the kernel under other names, and slowed down, compared with the kernel itself.

    The kernel has `equal` further names, and each slowed-down one `alike` names, its own included.
    """
    return _plan(subject, chains, equal=equal, alike=alike, settings=subject.settings, label=f"run-{number}")


def _plan(
    subject: CalibrationSubject, chains: Chains, *, equal: int, settings: Settings, label: str, alike: int = 1
) -> Plan:
    entry = subject.catalog.entries[KERNEL]
    planted = sorted({chain for lengths in chains.values() for chain in lengths})
    params: list[dict[str, ParamValue]] = [{"COPY": number} for number in range(1, equal + 1)]
    for length in planted:
        params.append({"CHAIN": length})
        params += [{"CHAIN": length, "COPY": number} for number in range(1, alike)]
    variants = tuple(entry.with_params(entry.default, each) for each in params)
    request = Request(
        subject.op,
        variants,
        subject.workloads,
        replace(settings, seed=secrets.randbelow(2**31)),
        baseline=KERNEL,
        label=label,
        command=shlex.join(["gdnbench", *sys.argv[1:]]),
    )
    plan = make_plan(subject.catalog, request, subject.gpu)
    return replace(plan, cases=tuple(case for case in plan.cases if chain_of(case) in {0, *chains[case.workload]}))


def chain_of(case: Case) -> int:
    """Number of additions planted in the case; 0 in the kernel itself, its equals and the floor."""
    return int(case.variant.params.get("CHAIN", 0))


def choose_chains(pilot: Analysis) -> Chains:
    """The chains for the wanted slowdowns, interpolated linearly between those of the pilot.

    A slowdown that the pilot's longest chain does not reach gets that chain. Raises MachineError if a chain has no
    time.
    """
    found: dict[Workload, dict[int, float]] = {}
    for row in pilot.measurements:
        if chain_of(row.case):
            if row.versus is None:
                why = row.reason or "the kernel that it is compared with has none"
                raise MachineError(f"{row.case.label} {row.case.workload} has no time: {why}", "see `gdnbench doctor`")
            found.setdefault(row.case.workload, {})[chain_of(row.case)] = 1.0 / row.versus.speedup - 1.0
    return {workload: _chains_for(costs) for workload, costs in found.items()}


def _chains_for(costs: Mapping[int, float]) -> dict[int, float]:
    """A distinct chain for each wanted slowdown, from the slowdowns (`costs`) of the ladder's chains."""
    lengths = sorted(costs)
    # A longer chain costs no less; other readings of the pilot are noise.
    rising = np.maximum.accumulate([0.0, *(costs[length] for length in lengths)])
    between = np.interp(TARGETS, rising, [0, *lengths])
    return _distinct([round(float(length)) for length in between])


def _distinct(lengths: Sequence[int]) -> dict[int, float]:
    chosen: dict[int, float] = {}
    last = 0
    for target, length in zip(TARGETS, lengths, strict=True):
        last = max(length, last + 1)
        chosen[last] = target
    return chosen
