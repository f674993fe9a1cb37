"""Gathers the evidence on a kernel, stored counters and times and the compiler's numbers, and ranks the causes in it.

A cause's share is the share of the kernel's time that it explains, so that causes of all rules can be ranked. With
counters it is a part of the launch's cycles as `CycleBreakdown` divides them. Without, it is a difference of measured
times, or a bound that follows from the code, and the cause's basis says which. Unknown values are NaN, which fails
every comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median_low

from gdnbench.catalog.catalog import Catalog, find_op
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.request import parse_workload
from gdnbench.catalog.select import find_variant
from gdnbench.codegen.arch import DEFAULT_ARCHS
from gdnbench.diagnose.evidence import Cause, Evidence, launched_entries
from gdnbench.diagnose.latency import (
    barriers,
    idle_sms,
    latency,
    launch_bound,
    limited_occupancy,
    many_launches,
    too_few_warps,
    uneven_sms,
)
from gdnbench.diagnose.launch import LaunchTimes, RunTimes, profiled_times, timed_in_run
from gdnbench.diagnose.throughput import (
    bandwidth,
    bank_conflicts,
    compute,
    lowered_clock,
    narrow_loads,
    spilling,
    uncoalesced,
)
from gdnbench.errors import UsageError, collect_left_out
from gdnbench.inspect.compiled import (
    BuildOutcome,
    CompiledKernel,
    FailedBuild,
    Subject,
    build_subjects,
    gpu_size_of,
    launches_of,
)
from gdnbench.machine.gpus import list_gpus, select_gpu
from gdnbench.model.case import CodeState, Variant
from gdnbench.model.gpu import Gpu, gpu_slug
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.process.events import Observer
from gdnbench.profile.ncu.quantities import LaunchProfile, value_of
from gdnbench.profile.ncu.report import read_any
from gdnbench.profile.ncu.store import StoredProfiles, find_profiles
from gdnbench.store.find import readable, runs_beside
from gdnbench.store.info import RunInfo, read_info
from gdnbench.store.latencies import newest_latencies
from gdnbench.store.measurements import read_by_clock
from gdnbench.store.tables import read_launches


@dataclass(frozen=True)
class Question:
    """The kernel to explain, `label` with params after colons, at the workload `axes`, else the op's or file's."""

    label: str
    op: str
    axes: str
    gpu: str  # as `--gpu` takes it; it may be absent, as nothing is launched
    file: Path | None  # a report to read instead of stored profiles
    profiles: Path
    results: Path


def gather(catalog: Catalog, question: Question, observer: Observer) -> Evidence:
    """Gathers the evidence for a question.

    Raises UnknownNameError for an unknown kernel or op; UsageError for several workloads, a file about something else,
    a kernel without any evidence, or a workload that it does not support; ProfilerError for an unreadable report;
    BuildError if the kernel does not build and there is no other evidence.
    """
    op = find_op(catalog, question.op)
    _, named = find_variant(catalog, op.name, question.label)
    workload = parse_workload(op, question.axes, "one is explained")
    gpus = list_gpus()
    slug = _slug(question.gpu, gpus)
    entry, requested = catalog.behind(named, workload, slug or "")
    with collect_left_out() as left_out:
        counters = _counters(question, entry, requested, workload, slug)
    profile = _typical(counters.profiles) if counters else None
    if profile and profile.workload and question.file:
        if question.axes and profile.workload != workload:
            raise UsageError(f"{question.file} is about {profile.workload}, not {workload}", "leave --shape away")
        workload = profile.workload
    slug = gpu_slug(profile.gpu) if profile else slug
    entry, variant = catalog.behind(named, workload, slug or "")
    entry.refuse_unable(named.label, workload, "explain")
    measured = newest_times(question.results, catalog.entries, variant, workload, slug)
    subjects = launches_of(requested.label, entry, variant, workload)
    built = _build(subjects, slug or (measured.gpu if measured else ""), gpus, observer)
    failed = [outcome for outcome in built if isinstance(outcome, FailedBuild)]
    if failed and not (profile or measured):
        raise failed[0].error
    if not (profile or measured or built):
        problem = f"nothing is known of {requested.label} at {workload}: no profile, no run, no build of gdnbench's own"
        raise UsageError(problem, f"on a GPU: gdnbench ncu {requested.label} {' '.join(workload.options)}")
    built_for = (each.gpu_size.name for each in built if isinstance(each, CompiledKernel) and each.gpu_size)
    gpu = slug or (measured.gpu if measured else "") or next(built_for, "")
    with collect_left_out() as unread:
        latencies = newest_latencies(question.profiles, gpu)
    known = Evidence(
        catalog,
        entry,
        variant,
        workload,
        profile_path=counters.path if counters else None,
        measured=measured,
        profile_code=counters.code if counters else CodeState.UNKNOWN,
        warnings=(*left_out, *unread),
        gpu=gpu,
        latencies=latencies,
    )
    if len(subjects) > 1:
        known = replace(known, launch_times=_launch_times(question, known, counters))
        return _with_launches(known, subjects, built, counters)
    return _with_code(replace(known, profile=profile), built[0] if built else None)


def _with_code(known: Evidence, built: BuildOutcome | None) -> Evidence:
    """Adds the build's numbers if there are no counters, and the milestones in any case."""
    code = built if isinstance(built, CompiledKernel) else None
    return replace(known, compiled=None if known.profile else code, milestones=code.milestones if code else None)


def _with_launches(
    known: Evidence, subjects: Sequence[Subject], built: Sequence[BuildOutcome], counters: StoredProfiles | None
) -> Evidence:
    """Adds the evidence of each launch, the longest first; in call order if no times are known."""
    outcomes = {outcome.subject.launch: outcome for outcome in built}
    launches = []
    for subject in subjects:
        own = [profile for profile in counters.profiles if profile.function == subject.launch] if counters else []
        launch = replace(known, entry_name=subject.launch, profile=_typical(own) if own else None, warnings=())
        launches.append(_with_code(launch, outcomes.get(subject.launch)))
    if times := known.launch_times:
        launches.sort(key=lambda launch: -times.times_us[launch.entry_name])
    return replace(known, launches=tuple(launches))


def _launch_times(question: Question, known: Evidence, counters: StoredProfiles | None) -> LaunchTimes | None:
    """Returns the time of each launch: from the named file, else by CUPTI before ncu; of other code only if need be."""
    entries = launched_entries(known.entry)
    by_ncu = profiled_times(counters, entries) if counters else None
    if question.file and by_ncu:
        return by_ncu
    found = (timed_in_run(known.measured, entries), by_ncu)
    return min((times for times in found if times), key=lambda times: times.code is CodeState.CHANGED, default=None)


def _slug(gpu: str, gpus: Sequence[Gpu]) -> str | None:
    """Returns the GPU's short name, or None (any GPU) for `auto` on a machine without one."""
    word = gpu.strip().lower()
    if word == "cpu":
        raise UsageError("--gpu cpu: what is explained runs on a GPU", "name one, as in --gpu h200")
    if word == "auto" or word.isdecimal() or word.startswith("gpu-"):
        chosen = select_gpu(gpu, gpus)
        return chosen.slug if chosen else None
    return gpu_slug(gpu)


def _build(subjects: Sequence[Subject], gpu: str, gpus: Sequence[Gpu], observer: Observer) -> tuple[BuildOutcome, ...]:
    """Builds launches for a GPU; returns nothing if that GPU's architecture is unknown."""
    archs = [one.arch for one in gpus if one.slug == gpu] or [
        arch for arch in DEFAULT_ARCHS if gpu in {"", getattr(gpu_size_of(arch, ()), "name", None)}
    ]
    if not (subjects and archs):
        return ()
    return build_subjects(subjects, archs[:1], lambda arch: gpu_size_of(arch, gpus), observer)


def _counters(
    question: Question, entry: CatalogEntry, requested: Variant, workload: Workload, gpu: str | None
) -> StoredProfiles | None:
    """The kernel's launches in the named file (UsageError if none), else in the newest profile, of any code."""
    path = question.file
    if path is None:
        return find_profiles(question.profiles, requested.label, workload, source=entry.known_source(), gpu=gpu)
    profiles = read_any(path)
    own = [profile for profile in profiles if profile.label == requested.label] or [
        profile
        for profile in profiles
        if not profile.label and any(each in profile.function for each in launched_entries(entry))
    ]
    if not own:
        names = ", ".join(dict.fromkeys(profile.name for profile in profiles))
        raise UsageError(f"{path} holds no launch of {requested.label}", f"it holds {names}")
    return StoredProfiles(path, tuple(own), entry.code_state(_typical(own).source))


def _typical(profiles: Sequence[LaunchProfile]) -> LaunchProfile:
    """Returns the launch of median duration, of the function that takes most of the time."""
    totals: dict[str, float] = {}
    for profile in profiles:
        totals[profile.function] = totals.get(profile.function, 0.0) + _duration(profile)
    main = max(totals, key=lambda function: totals[function])
    launches = [profile for profile in profiles if profile.function == main]
    typical = median_low(map(_duration, launches))
    return next(profile for profile in launches if _duration(profile) == typical)


def _duration(profile: LaunchProfile) -> float:
    value = value_of(profile, "duration_us")
    return 0.0 if value is None or math.isnan(value) else value


def newest_times(
    results: Path, entries: Mapping[str, CatalogEntry], variant: Variant, workload: Workload, gpu: str | None
) -> RunTimes | None:
    """Returns the times of the newest run that timed a kernel's current code at a workload on a GPU, else of any code.

    A run with other params of the same label does not count. `entries`, the catalog's kernels, tell floors and current
    code; `gpu` is the GPU's short name, or None for any.
    """
    newest: RunTimes | None = None

    def measured_in(folder: Path) -> RunTimes | None:
        info = read_info(folder)
        if not info.on_gpu or gpu not in {None, info.gpu}:
            return None
        if newest and _code_of(variant, info, entries) is not CodeState.CURRENT:
            return None
        complete = workload.spec.completed
        by_clock = {
            clock: [row for row in rows if complete(row.case.workload) == workload]
            for clock, rows in read_by_clock(folder).items()
        }
        found = _measured(info, by_clock.get(None, []), entries, variant)
        if found is None:
            return None
        own = {row.case.id for row in by_clock[None] if row.case.label == variant.label}
        functions_us = {row.function: row.time_us for row in read_launches(folder) if row.case in own}
        kernel_us = [
            row.timing.time_us
            for row in by_clock.get("cupti", [])
            if row.timing and row.case.label == variant.label and row.role != Role.CONTROL
        ]
        return replace(found, functions_us=functions_us, folder=folder, kernel_us=next(iter(kernel_us), None))

    for found in readable(runs_beside(results), measured_in):
        if found and found.code is CodeState.CURRENT:
            return found
        newest = newest or found
    return newest


def _measured(
    info: RunInfo, rows: Sequence[Measurement], entries: Mapping[str, CatalogEntry], variant: Variant
) -> RunTimes | None:
    timed = {row.case.label: row for row in rows if row.timing and row.role != Role.CONTROL}
    own = timed.get(variant.label)
    if own is None or own.timing is None or own.case.variant.params != variant.params:
        return None
    here = {label: entries.get(row.case.variant.kernel) for label, row in timed.items()}
    kinds = {label: entry.kernel.floor for label, entry in here.items() if entry}
    times_us = {label: row.timing.time_us for label, row in timed.items() if row.timing}
    codes = {label: _code_of(row.case.variant, info, entries) for label, row in timed.items()}
    copies = [label for label, kind in kinds.items() if kind == "copy"]
    copy = min(copies, key=lambda label: times_us[label], default="")
    return RunTimes(
        run_id=info.run_id,
        gpu=info.gpu,
        time_us=own.timing.time_us,
        times_us=times_us,
        empty=next((label for label, kind in kinds.items() if kind == "empty"), ""),
        copy=copy,
        copy_bytes=timed[copy].nbytes if copy else 0,
        flops_us=own.timing.sol * own.timing.time_us if own.timing.bound == "flops" else None,
        launches=own.launches,
        sm_mhz=None if math.isnan(own.timing.sm_mhz) else own.timing.sm_mhz,
        code=codes[variant.label],
        changed=tuple(label for label, code in codes.items() if code is CodeState.CHANGED),
    )


def _code_of(variant: Variant, info: RunInfo, entries: Mapping[str, CatalogEntry]) -> CodeState:
    """Returns whether a run timed a variant's current code; for a dispatcher's pick, also its table's."""
    names = {variant.kernel, variant.label} & entries.keys()
    return CodeState.together(entries[name].code_state(info.sources.get(name, "")) for name in names)


CauseRule = Callable[[Evidence], Cause | None]

LEAST_SHARE = 0.05
"""Smaller shares of the time are not reported: ncu's counters differ by some per cent from launch to launch."""

MOST_FINDINGS = 3
"""A fourth cause is rarely the next thing to try."""

RULES: tuple[CauseRule, ...] = (
    too_few_warps, many_launches, latency, idle_sms, uneven_sms, limited_occupancy, bandwidth, compute, launch_bound,
    spilling, uncoalesced, bank_conflicts, barriers, narrow_loads, lowered_clock,
)  # fmt: skip
"""Every rule; on a tie of shares, the earlier one ranks first."""


def rank(evidence: Evidence) -> tuple[Cause, ...]:
    """Returns the causes that explain most of the kernel's time, the largest first."""
    alone = many_launches(evidence)
    if alone and alone.share >= LEAST_SHARE:  # the counters are of one launch only
        return (alone,)
    found = [finding for rule in RULES if (finding := rule(evidence)) and finding.share >= LEAST_SHARE]
    return tuple(sorted(found, key=lambda finding: -finding.share)[:MOST_FINDINGS])
