"""Makes cases of a request, and predicts about how long they take before anything is built."""

from __future__ import annotations

import re
import secrets
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gdnbench.catalog.catalog import Catalog, find_op
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.request import (
    Request,
    device_of,
    parse_workloads,
    requested_captures,
    sizes_of,
    slug_of,
    timed_at,
)
from gdnbench.catalog.select import choose_bases, find_variant, grid_axes, grid_points, parse_params
from gdnbench.codegen.ahead import build_processes, count_builds
from gdnbench.codegen.builds import archs_of, build_jobs
from gdnbench.errors import MachineError, UsageError
from gdnbench.functions.reference import names_functions
from gdnbench.measure.inputs import ROUNDS, SAMPLES, InputsProbe
from gdnbench.measure.schedule import COARSE_ROUNDS, LONGEST_CALL_US, WORKER_START_S, check_budget, longest_round_s
from gdnbench.measure.timing import find_forms, in_every_form
from gdnbench.model.case import Case, Variant
from gdnbench.model.declaration import Params
from gdnbench.model.gpu import CPU, Gpu
from gdnbench.model.kernel import Device, TorchKernel
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.store.settings import READ_BY_NVBENCHS_WORKERS, Settings, trim_of

_ROLES = {"": Role.KERNEL, "ablation": Role.ABLATION}
"""Role of a case by its kernel's `floor`; any other value is a bound (`Role.FLOOR`)."""


@dataclass(frozen=True)
class Plan:
    """What a run measures, by workload; no `gpu` is the CPU, no `baseline` is empty, `notes` are choices made."""

    request: Request
    gpu: Gpu | None
    cases: tuple[Case, ...]
    baseline: str
    notes: tuple[str, ...]


def make_plan(catalog: Catalog, request: Request, gpu: Gpu | None) -> Plan:
    """Adds to the request the baseline, its control, and the floor that is the speed of light.

    A sweep of the floor needs no further floor. A sweep of floors alone has no baseline unless one is named, since a
    floor has no verdict. Raises UnknownNameError for a baseline that does not exist, and MachineError for a baseline
    that the user named and that cannot run here.
    """
    slug = slug_of(gpu)
    baseline, notes = _choose_baseline(catalog, request, gpu)
    if request.swept and not _needs_baseline(catalog, request, gpu):
        baseline, notes = None, ()
    roles = {baseline: Role.BASELINE} if baseline else {}
    floor = catalog.entries.get(request.op.floor)
    floors = (floor.default,) if floor and gpu and request.op.floor not in request.swept else ()
    for variant in (*request.variants, *floors):
        roles.setdefault(variant, _ROLES.get(catalog.entries[variant.kernel].kernel.floor, Role.FLOOR))
    cases = []
    for workload in request.workloads:
        variants = {variant: catalog.at(variant, workload, slug)[1] for variant in roles}
        cases += [Case(variants[variant], workload, role) for variant, role in roles.items()]
        if baseline:
            cases.append(Case(variants[baseline], workload, Role.CONTROL))
    notes += tuple(_not_tuned(catalog.entries[variant.kernel], slug) for variant in roles)
    return Plan(request, gpu, tuple(cases), baseline.label if baseline else "", tuple(filter(None, notes)))


def unavailable(entry: CatalogEntry, gpu: Gpu | None) -> str:
    """Returns why a kernel cannot run on a GPU (None: the CPU), empty if it can, without loading it."""
    if found := entry.unavailable(device_of(gpu)):
        return f"it {found[1]}"
    if gpu is not None and not entry.kernel.fits(gpu.arch):
        return f"its instructions are not those of {gpu.arch}"
    return ""


def refuse_impossible(catalog: Catalog, plan: Plan) -> None:
    """Raises MachineError if nothing of the user's can run here: baseline and floors alone would take minutes."""
    if error := _impossible(catalog, plan):
        raise error


def _impossible(catalog: Catalog, plan: Plan) -> MachineError | None:
    named = {variant.label for variant in plan.request.variants}
    requested = [case for case in plan.cases if case.label in named and case.role is not Role.CONTROL]
    reasons: dict[str, list[str]] = {}
    for case in requested:
        why = _refusal(catalog.entries[case.variant.kernel], case.workload, plan.gpu)
        if not why:
            return None
        reasons.setdefault(why.removeprefix("it "), []).append(_name(case, plan.request))
    text = "; ".join(f"{', '.join(dict.fromkeys(names))}: {why}" for why, names in reasons.items())
    message = f"nothing requested can be measured here: {text}"
    if names_functions([plan.request.command]):
        return MachineError(message, "see `gdnbench doctor`; functions of PyTorch run on the CPU, too")
    return MachineError(message, _instead(catalog, requested, plan.gpu))


def _refusal(entry: CatalogEntry, workload: Workload, gpu: Gpu | None) -> str:
    return unavailable(entry, gpu) or entry.kernel.unsupported_reason(workload)


def _instead(catalog: Catalog, refused: Sequence[Case], gpu: Gpu | None) -> str:
    entries = {case.variant.kernel: catalog.entries[case.variant.kernel] for case in refused}
    if not any(unavailable(entry, gpu) for entry in entries.values()):
        able = ((name, entry.able_workload()) for name, entry in entries.items())
        hints = (f"{name} can do {' '.join(workload.options)}" for name, workload in able if workload)
        return next(hints, "`check` in their variant.py says what they can do")
    compiled = next((name for name, entry in entries.items() if not isinstance(entry.kernel, TorchKernel)), "")
    return "see `gdnbench doctor`" + (f"; `gdnbench inspect {compiled}` needs no GPU" if compiled else "")


def _needs_baseline(catalog: Catalog, request: Request, gpu: Gpu | None) -> bool:
    entries = [catalog.entries[name] for name in request.swept]
    wanted = bool(request.baseline) or not all(entry.kernel.floor for entry in entries)
    return wanted and any(not unavailable(entry, gpu) for entry in entries)


def _choose_baseline(catalog: Catalog, request: Request, gpu: Gpu | None) -> tuple[Variant | None, tuple[str, ...]]:
    """The named baseline, or the first of the op's that can run here, and a note on those passed over."""
    passed: list[str] = []
    for wanted in (request.baseline,) if request.baseline else request.op.baselines:
        reason = "it could not be loaded"
        if request.baseline or wanted in catalog.entries:
            _, variant = find_variant(catalog, request.op.name, wanted)
            kernels = ((catalog.at(variant, each, slug_of(gpu))[0], each) for each in request.workloads)
            reason = next(filter(None, (_refusal(entry, each, gpu) for entry, each in kernels)), "")
            if not reason:
                note = f"the baseline {'; '.join(passed)}; compared with {wanted} instead"
                return variant, (note,) if passed else ()
        if request.baseline:
            raise MachineError(f"the baseline {wanted} cannot run here: {reason}", "choose another with --baseline")
        passed.append(f"{wanted} cannot be had ({reason})")
    return None, (f"no baseline: {'; '.join(passed)}",) if passed else ()


def _not_tuned(entry: CatalogEntry, gpu: str) -> str:
    if entry.dispatch is None or gpu in {CPU, *entry.dispatch.picks}:
        return ""
    return f"{entry.kernel.name} has no rows for {gpu} and takes those of {entry.dispatch.first_gpu}: not tuned here"


MOST_BUILDS = 1000
"""Number of kernels to compile above which the user has to confirm, since they take minutes."""
BUILD_S = 0.5
"""Seconds that one core takes for a build: 50 builds, CUDA and Triton, take 13 s on two cores."""


@dataclass(frozen=True)
class Outlook:
    """The work that a plan makes."""

    device: str
    kernels: tuple[str, ...]  # labels of what would be measured, baseline and floor included; a swept kernel's name
    points: int  # for a sweep, combinations of params, over all kernels
    shapes: tuple[str, ...]
    cases: int
    # reasons by label of kernels that cannot be measured here, with the workload if a kernel can do others
    left_out: dict[str, str]
    builds: int  # the cached included
    cached: int
    rounds: int  # after the burn-ins; 0 for a race, which decides by itself
    processes: int
    building_s: float  # approximate time of the missing builds on this many cores
    # upper limit, without checks, if no call is longer than `longest_call_us`, which is None in a race
    measuring_s: float
    longest_call_us: float | None
    refused: str = ""  # why nothing is done; empty if something can be measured

    @property
    def missing(self) -> int:
        """Number of builds that the cache does not have."""
        return self.builds - self.cached


def foresee(catalog: Catalog, plan: Plan) -> Outlook:
    """Predicts the work and the time of a plan."""
    request, gpu = plan.request, plan.gpu
    reasons = {case: _refusal(catalog.entries[case.variant.kernel], case.workload, gpu) for case in plan.cases}
    refused = {case: reason for case, reason in reasons.items() if reason}
    measured = [case for case in plan.cases if case not in refused]
    partly = {case.label for case in measured}
    left_out = {
        f"{case.label} at {case.workload}" if case.label in partly else case.label: reason
        for case, reason in refused.items()
    }
    candidates = [case for case in plan.cases if case.role is not Role.CONTROL]
    forms = find_forms(catalog, candidates, device_of(gpu))
    jobs = build_jobs(catalog, in_every_form(candidates, forms), archs_of(gpu))
    builds, missing = count_builds(list(jobs.values()))
    return Outlook(
        device=slug_of(gpu),
        kernels=tuple(dict.fromkeys(_name(case, request) for case in measured if case.role is not Role.CONTROL)),
        points=len({case.variant for case in plan.cases if case.is_point_of(request.swept)}),
        shapes=tuple(map(str, request.workloads)),
        cases=len(measured),
        left_out=left_out,
        builds=builds,
        cached=builds - missing,
        rounds=0 if request.settings.budget_s else request.settings.rounds,
        processes=request.settings.processes,
        building_s=missing * BUILD_S / build_processes(),
        measuring_s=_measuring_s(plan, len(measured)),
        longest_call_us=None if request.settings.budget_s else LONGEST_CALL_US[device_of(gpu)],
        refused=error.message if (error := _impossible(catalog, plan)) else "",
    )


def _name(case: Case, request: Request) -> str:
    return case.variant.kernel if case.is_point_of(request.swept) else case.label


def _measuring_s(plan: Plan, cases: int) -> float:
    settings = plan.request.settings
    if settings.budget_s:
        return settings.budget_s
    clocks, device = len(settings.clocks), device_of(plan.gpu)
    apart = len(set(settings.clocks) - set(READ_BY_NVBENCHS_WORKERS))
    starts = (1 + apart) * settings.processes
    rounds = starts + settings.rounds + clocks * settings.clock_rounds
    starts_s = starts * WORKER_START_S if plan.gpu else 0.0
    measuring_s = rounds * cases * longest_round_s(settings.samples, device) + starts_s
    probe = InputsProbe(plan.request.op, plan.cases if plan.gpu else ())
    if not probe.cases:
        return measuring_s
    return measuring_s + ROUNDS * len(probe.cases) * longest_round_s(SAMPLES, device)


_DURATION = re.compile(r"(?:(?P<minutes>\d+(?:\.\d+)?)m)?(?:(?P<seconds>\d+(?:\.\d+)?)s?)?")


def choose_sweep_settings(
    device: Device, *, budget: str, samples: int, seed: int | None, margin: float, step_limit_s: float
) -> Settings:
    """The settings of a sweep, with a fresh seed unless one is given; raises UsageError for an invalid value."""
    return Settings(
        rounds=COARSE_ROUNDS,
        samples=samples,
        seed=secrets.randbelow(2**31) if seed is None else seed,
        margin=margin,
        step_limit_s=step_limit_s,
        budget_s=parse_duration(budget),
        trim=trim_of(device),
    )


def parse_duration(text: str) -> float:
    """Returns the seconds of `90`, `90s`, `2m` or `1m30s`; raises UsageError for anything else."""
    match = _DURATION.fullmatch(text.strip())
    seconds = 60 * float(match["minutes"] or 0) + float(match["seconds"] or 0) if match else 0.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"--budget {text}: a budget is a time", "write 90s, 2m or 1m30s")
    return seconds


def make_sweep_request(
    catalog: Catalog,
    op: str,
    kernels: Sequence[str],
    params: Sequence[str],
    *,
    axes: str,
    settings: Settings,
    gpu: Gpu | None,
    baseline: str = "",
    label: str = "",
    profiles: str = "",
    inputs: Path | None = None,
) -> Request:
    """Makes the request for a sweep, with the grid of every kernel.

    `kernels` are names or globs, or empty for every kernel that has the `params`: `BV`, `BV=4,8,16`, or empty for all
    that a kernel declares. Without a baseline the first kernel is it, as it is without the sweep. Raises
    UnknownNameError for an unknown op, kernel or alias, and UsageError for a param or value that a kernel lacks, an
    empty grid, or a budget that is too small.
    """
    declared = find_op(catalog, op)
    wanted = parse_params(params)
    bases = choose_bases(catalog, op, kernels, wanted)
    points: dict[tuple[str, Params], Variant] = {}  # two presets may have a point in common
    swept: dict[str, tuple[str, ...]] = {}
    for entry, base in bases:
        tried = grid_axes(catalog, entry, wanted)
        swept[entry.kernel.name] = tuple(tried)
        for point in grid_points(entry, base, tried):
            points.setdefault((point.kernel, point.params), point)
    captured = requested_captures(declared, inputs, axes)
    own = sizes_of(captured) or parse_workloads(declared, axes)
    workloads = timed_at(declared, own, captured, profiles)
    if settings.budget_s is not None:
        check_budget(settings.budget_s, len(points) * len(workloads), settings.samples, device_of(gpu))
    command = shlex.join(["gdnbench", *sys.argv[1:]])
    if not baseline:  # floors have none
        first = next(((entry, base.label) for entry, base in bases if not entry.kernel.floor), None)
        baseline = first[1] if first and not unavailable(first[0], gpu) else ""
    variants = tuple(points.values())
    return Request(declared, variants, workloads, settings, baseline, label, swept, command, captured=captured)
