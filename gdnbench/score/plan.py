"""Plans a score of one kernel, its rival, the rival as the control, and the floor; and the score with its exit code."""

from __future__ import annotations

import secrets
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from gdnbench.catalog.catalog import Catalog, find_op
from gdnbench.catalog.request import (
    Request,
    device_of,
    parse_profiles,
    parse_workload,
    requested_captures,
    requested_workloads,
    sizes_of,
    timed_at,
)
from gdnbench.catalog.revision import GIT_PREFIX, WORKING_TREE, pair_revisions
from gdnbench.catalog.select import find_variant, resolve_op
from gdnbench.errors import ExitCode, MachineError, UsageError
from gdnbench.measure.plan import Plan, make_plan, unavailable
from gdnbench.model.gpu import Gpu
from gdnbench.model.measurement import Timing
from gdnbench.model.status import Role, Status
from gdnbench.model.workload import Workload
from gdnbench.process.events import NoteMade, Observer
from gdnbench.stats.interval import Comparison, Verdict
from gdnbench.store.settings import GPU_CLOCKS, Settings, confidence_of_look, trim_of

if TYPE_CHECKING:
    from gdnbench.diagnose.evidence import Cause

ROUNDS = 8
"""Rounds of a process: enough for an interval, few enough that a second process follows soon."""
SAMPLES = 32
LOOKS = 4
CONFIDENCE = 0.95


@dataclass(frozen=True)
class ScoreRequest:
    """The score that a user requested; empty fields mean the kernel's op, and the op's own defaults."""

    kernel: str
    op: str = ""
    against: str = ""  # a kernel, or `git:REV` for this one at a commit
    axes: str = ""  # `B=8 heads=qk4_v8`
    suite: str = ""  # instead of one workload
    margin: float = 0.005
    budget_s: float = 6.0
    step_limit_s: float = 10.0
    seed: int | None = None  # of inputs and order; None for a fresh one
    profiles: str = ""  # timed distributions of inputs, `never,mixed-heads`
    inputs: Path | None = None


def with_revision(catalog: Catalog, request: ScoreRequest, observer: Observer) -> tuple[Catalog, ScoreRequest]:
    """Returns a catalog that has the rival `git:REV`, the kernel as it was then, and the request with its name there.

    Other requests are returned as they are. Raises as `pair_revisions`.
    """
    revision = request.against.removeprefix(GIT_PREFIX)
    if revision == request.against:
        return catalog, request
    pair = pair_revisions(catalog, request.kernel, revision, WORKING_TREE)
    for note in (*pair.notes[:1], *pair.warnings):
        observer(NoteMade(note))
    return pair.catalog, replace(request, op=pair.op, against=pair.before)


def plan_score(catalog: Catalog, request: ScoreRequest, gpu: Gpu | None) -> Plan:
    """Returns the plan of a score."""
    named = [request.kernel, request.against] if request.against else [request.kernel]
    op = find_op(catalog, resolve_op(catalog, request.op, named))
    entry, variant = find_variant(catalog, op.name, request.kernel)
    rival = find_variant(catalog, op.name, request.against)[1].label if request.against else ""
    if floor := entry.kernel.floor:
        what = "is an ablation, wrong on purpose" if floor == "ablation" else "is a floor, a bound on what is possible"
        raise UsageError(f"{variant.label} {what}: it has no score", f"gdnbench run {variant.label} times it")
    captured = requested_captures(op, request.inputs, request.axes, request.suite)
    if not (sizes := sizes_of(captured)):
        if request.suite:
            sizes = requested_workloads(op, request.axes, request.suite)
        else:
            sizes = (parse_workload(op, request.axes, "a score is of one, or of a --suite"),)
    if len(captured) > 1:
        raise UsageError(f"--inputs names {len(captured)} files, and a score is of one workload", "name one of them")
    only_checked = bool(unavailable(entry, gpu))
    measured = Request(
        op,
        (variant,),
        timed_at(op, sizes, captured, request.profiles),
        _settings(request, gpu),
        "" if only_checked else request.against,
        command=shlex.join(["gdnbench", *sys.argv[1:]]),
        suite=op.suite(request.suite).at(parse_profiles(op, request.profiles)) if request.suite else None,
        captured=captured,
    )
    try:
        plan = make_plan(catalog, measured, gpu)
    except MachineError as error:
        raise MachineError(error.message, "choose another with --against") from error
    if variant.label in {plan.baseline, rival}:
        raise UsageError(f"{variant.label} would be compared with itself", "name another kernel with --against")
    for case in plan.cases:
        if case.label == variant.label:
            catalog.entries[case.variant.kernel].refuse_unable(case.label, case.workload, "score")
    if not only_checked:
        return plan
    # The kernel is only checked: it cannot run here, and nothing may stand in for it.
    return replace(plan, cases=tuple(case for case in plan.cases if case.role is Role.KERNEL), baseline=rival, notes=())


def _settings(request: ScoreRequest, gpu: Gpu | None) -> Settings:
    device = device_of(gpu)
    return Settings(
        rounds=ROUNDS,
        samples=SAMPLES,
        seed=secrets.randbelow(2**31) if request.seed is None else request.seed,
        margin=request.margin,
        confidence=confidence_of_look(CONFIDENCE, LOOKS),
        step_limit_s=request.step_limit_s,
        budget_s=request.budget_s,
        looks=LOOKS,
        clocks=GPU_CLOCKS if device == "cuda" else (),
        trim=trim_of(device),
    )


class NoVerdict(StrEnum):
    """Why a kernel that is right has no verdict, for a reason other than its own."""

    NOT_TIMED = "not-timed"  # the kernel cannot run on this machine, and an interpreter finds it right
    NOT_HERE = "not-here"  # the kernel cannot run on this machine
    NO_BASELINE = "no-baseline"  # the rival has no time
    STOPPED = "stopped"  # by Ctrl-C, before the verdict


_OF_VERDICTS = {
    Verdict.FASTER: ExitCode.OK,
    Verdict.SLOWER: ExitCode.REGRESSION,
    Verdict.SAME: ExitCode.SAME,
    Verdict.UNCLEAR: ExitCode.NOISY,
    NoVerdict.NOT_TIMED: ExitCode.NOT_TIMED,
    NoVerdict.NOT_HERE: ExitCode.ENVIRONMENT,
    NoVerdict.NO_BASELINE: ExitCode.PARTIAL,
    NoVerdict.STOPPED: ExitCode.INTERRUPTED,
}

AnyVerdict = Verdict | NoVerdict | Status
"""The comparison; else why the kernel has no time: its status, or another obstacle."""


@dataclass(frozen=True)
class WorkloadScore:
    """A kernel at one workload, by the run's timer and by CUPTI (`kernel`), and the baseline's time over its own."""

    workload: Workload
    status: Status
    reason: str = ""
    timing: Timing | None = None
    kernel: Timing | None = None
    speedup: Comparison | None = None


@dataclass(frozen=True)
class Code:
    """A kernel's compiled code: registers and local memory per thread, static shared memory per block; None if unknown.

    `dependent_loads` counts trips to global memory in a row, each begun after the previous one has ended.
    """

    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None
    dependent_loads: int | None = None


@dataclass(frozen=True)
class Score:
    """One kernel against another."""

    kernel: str
    op: str
    gpu: str  # short name, or `cpu`
    against: str
    verdict: AnyVerdict  # or why there is none
    reason: str = ""  # text for whoever mends it
    ratio: Comparison | None = None  # baseline's time over the kernel's, the weighted geometric mean over the workloads
    kernel_ratio: Comparison | None = None  # by CUPTI
    confidence: float = 0.95  # of the verdict and of both intervals, over all looks
    looks: int = 0  # most interim analyses, for which the intervals are corrected
    workloads: tuple[WorkloadScore, ...] = ()
    code: Code = Code()
    cause: Cause | None = None
    processes: int = 0
    rounds: int = 0  # in all processes
    seconds: Mapping[str, float] = field(default_factory=dict)  # by phase, and `all`
    warnings: tuple[str, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """0 for a kernel that is right and faster, and for no other."""
        if isinstance(self.verdict, Status):
            return self.verdict.exit_code or ExitCode.PARTIAL
        return _OF_VERDICTS[self.verdict]


@dataclass(frozen=True)
class Turn:
    """One version of a kernel: its number from 1, its score, and when that began, in local time."""

    number: int
    time: datetime
    score: Score
