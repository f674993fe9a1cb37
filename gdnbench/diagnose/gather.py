"""Brings together what is known of a kernel: stored counters, stored times, and the compiler's numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median_low

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import Entry
from gdnbench.catalog.resolve import find_op
from gdnbench.catalog.select import find_variant
from gdnbench.codegen.arch import DEFAULT_ARCHS
from gdnbench.diagnose.evidence import Evidence
from gdnbench.diagnose.launch_times import LaunchTimes, profiled_times, recorded_times, timed_in_run
from gdnbench.diagnose.run_times import RunTimes
from gdnbench.errors import GdnbenchError, UsageError, collect_left_out
from gdnbench.inspection.compiled import BuildOutcome, CompiledKernel, FailedBuild, build_subjects
from gdnbench.inspection.subject import Subject, gpu_size_of, launches_of
from gdnbench.machine.gpus import list_gpus, select_gpu
from gdnbench.measuring.observer import Observer
from gdnbench.measuring.request import parse_workload
from gdnbench.model.case import Variant
from gdnbench.model.code import CodeState
from gdnbench.model.gpu import Gpu, gpu_slug
from gdnbench.model.kernel import CudaKernel, TritonKernel
from gdnbench.model.measurement import Measurement
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.profilers.ncu.profile import Profile
from gdnbench.profilers.ncu.quantities import value_of
from gdnbench.profilers.ncu.report import read_any
from gdnbench.profilers.ncu.store import find_profiles
from gdnbench.store.find import readable, runs_beside
from gdnbench.store.info import RunInfo, read_info
from gdnbench.store.launches import read_launches
from gdnbench.store.measurements import read_measurements


@dataclass(frozen=True)
class Question:
    """What a user asked to be explained.

    Attributes:
        label: the kernel's label, params after colons.
        op: the op.
        axes: `B=1`; empty for the op's default, or what the file is of.
        gpu: `auto`, or a GPU by whatever `--gpu` takes; a model need not be here, for nothing is launched.
        file: a report to read instead of stored profiles.
        profiles: the folder of stored profiles.
        results: the folder of runs.
    """

    label: str
    op: str
    axes: str
    gpu: str
    file: Path | None
    profiles: Path
    results: Path


def gather(catalog: Catalog, question: Question, observer: Observer) -> Evidence:
    """All that is known to answer a question.

    Raises:
        UnknownNameError: for a kernel or an op that does not exist.
        UsageError: for several workloads, a file about something else, a kernel of which nothing is known, or a
            workload that the kernel cannot do.
        ProfilerError: for a report that cannot be read.
        BuildError: if the kernel does not build, and nothing else is known of it.
    """
    op = find_op(catalog, question.op)
    _, named = find_variant(catalog, op.name, question.label)
    workload = parse_workload(op, question.axes, "one is explained")
    gpus = list_gpus()
    slug = _slug(question.gpu, gpus)
    entry, asked = catalog.behind(named, workload, slug or "")
    if question.file:
        counters = profile_in_file(question.file, entry, asked)
    else:
        counters = newest_profile(question.profiles, entry, asked, workload, slug)
    profile = counters.profile
    if profile and question.file:
        workload = _agreed(profile, workload, question)
    slug = gpu_slug(profile.gpu) if profile else slug
    entry, variant = catalog.behind(named, workload, slug or "")
    entry.refuse_unable(named.label, workload, "explain")
    measured = newest_times(question.results, catalog.entries, variant, workload, slug)
    subjects = launches_of(asked.label, entry, variant, workload)
    built = _build(subjects, slug or (measured.gpu if measured else ""), gpus, observer)
    failed = [outcome for outcome in built if isinstance(outcome, FailedBuild)]
    if failed and not (profile or measured):
        raise failed[0].error
    if not (profile or measured or built):
        raise _nothing(asked, workload)
    known = Evidence(
        catalog,
        entry,
        variant,
        workload,
        profile_path=counters.path,
        measured=measured,
        profile_code=counters.code,
        warnings=counters.warnings,
    )
    if len(subjects) > 1:
        with collect_left_out() as left_out:
            times = _launch_times(question, known, slug, counters)
        known = replace(known, warnings=(*known.warnings, *left_out), launch_times=times)
        return _with_launches(known, subjects, built, counters)
    return _with_code(replace(known, profile=profile), built[0] if built else None)


def _with_code(known: Evidence, built: BuildOutcome | None) -> Evidence:
    """With what the compiler made of it; where counters are there, they tell more than its numbers."""
    code = built if isinstance(built, CompiledKernel) else None
    return replace(known, compiled=None if known.profile else code, milestones=code.milestones if code else None)


def _with_launches(
    known: Evidence,
    subjects: Sequence[Subject],
    built: Sequence[BuildOutcome],
    counters: StoredProfile,
) -> Evidence:
    """With the evidence of each launch; the one that takes the most first, in the order of a call where none is known.

    Args:
        known: of the whole kernel.
        subjects: its launches.
        built: what the compiler made of them; nothing where the GPU's architecture is not known.
        counters: the stored profile.
    """
    outcomes = {outcome.subject.launch: outcome for outcome in built}
    launches = []
    for subject in subjects:
        own = [profile for profile in counters.profiles if profile.function == subject.launch]
        launch = replace(known, entry_name=subject.launch, profile=_typical(own) if own else None, warnings=())
        launches.append(_with_code(launch, outcomes.get(subject.launch)))
    if times := known.launch_times:
        launches.sort(key=lambda launch: -times.times_us[launch.entry_name])
    return replace(known, launches=tuple(launches))


def _launch_times(question: Question, known: Evidence, gpu: str | None, counters: StoredProfile) -> LaunchTimes | None:
    """How long each launch takes: by the named file, else by CUPTI before ncu; by other code only if need be."""
    entries = _entries(known.entry)
    by_ncu = profiled_times(counters.profiles, entries, counters.path, counters.code)
    if question.file and by_ncu:
        return by_ncu
    recorded = recorded_times(question.profiles, known.entry, known.variant, entries, known.workload, gpu)
    found = (timed_in_run(known.measured, entries), recorded, by_ncu)
    return min((times for times in found if times), key=lambda times: times.code is CodeState.CHANGED, default=None)


def _entries(entry: Entry) -> list[str]:
    """The functions in a kernel's source that it launches."""
    kernel = entry.kernel
    if isinstance(kernel, CudaKernel | TritonKernel):
        return [launch.entry for launch in kernel.launches]
    return [kernel.entry]


def _slug(gpu: str, gpus: Sequence[Gpu]) -> str | None:
    """The GPU's short name; None for any, where none is here."""
    word = gpu.strip().lower()
    if word == "cpu":
        raise UsageError("--gpu cpu: what is explained runs on a GPU", "name one, as in --gpu h200")
    if word == "auto" or word.isdecimal() or word.startswith("gpu-"):
        chosen = select_gpu(gpu, gpus)
        return chosen.slug if chosen else None
    return gpu_slug(gpu)


def _agreed(profile: Profile, workload: Workload, question: Question) -> Workload:
    """The workload that a file is about; what the user gives tells it where the file does not."""
    asked = bool(question.axes)
    if profile.workload is None:
        return workload
    if asked and profile.workload != workload:
        raise UsageError(f"{question.file} is about {profile.workload}, not {workload}", "leave --shape away")
    return profile.workload


def _build(subjects: Sequence[Subject], gpu: str, gpus: Sequence[Gpu], observer: Observer) -> tuple[BuildOutcome, ...]:
    """What the compiler makes of launches for a GPU; nothing where that GPU's architecture is not known."""
    archs = [one.arch for one in gpus if one.slug == gpu] or [
        arch for arch in DEFAULT_ARCHS if gpu in {"", getattr(gpu_size_of(arch, ()), "name", None)}
    ]
    if not (subjects and archs):
        return ()
    return build_subjects(subjects, archs[:1], lambda arch: gpu_size_of(arch, gpus), observer)


def _nothing(asked: Variant, workload: Workload) -> GdnbenchError:
    problem = f"nothing is known of {asked.label} at {workload}: no profile, no run, and no build of gdnbench's own"
    return UsageError(problem, f"on a GPU: gdnbench ncu {asked.label} {' '.join(workload.options)}")


@dataclass(frozen=True)
class StoredProfile:
    """The profile of a kernel, or none.

    Attributes:
        profile: the typical launch; None where nothing is stored.
        path: where it stands; None likewise.
        code: whether it is of the kernel's code as it is now.
        warnings: files that could not be read, and were passed over.
        profiles: every launch of the kernel in the file.
    """

    profile: Profile | None = None
    path: Path | None = None
    code: CodeState = CodeState.UNKNOWN
    warnings: tuple[str, ...] = ()
    profiles: tuple[Profile, ...] = ()


def profile_in_file(path: Path, entry: Entry, asked: Variant) -> StoredProfile:
    """The typical launch of a kernel in a file that the user named.

    Raises:
        UsageError: if it holds none.
        ProfilerError: if it cannot be read.
    """
    profiles = read_any(path)
    own = [profile for profile in profiles if profile.label == asked.label]
    own = own or [
        profile
        for profile in profiles
        if not profile.label and any(each in profile.function for each in _entries(entry))
    ]
    if not own:
        names = ", ".join(dict.fromkeys(profile.name for profile in profiles))
        raise UsageError(f"{path} holds no launch of {asked.label}", f"it holds {names}")
    profile = _typical(own)
    return StoredProfile(profile, path, entry.code_state(profile.source), profiles=tuple(own))


def newest_profile(profiles: Path, entry: Entry, asked: Variant, workload: Workload, gpu: str | None) -> StoredProfile:
    """The typical launch of the newest stored profile: of the code as it is now, else of whatever code.

    Args:
        profiles: the folder of stored profiles.
        entry: the kernel.
        asked: its params.
        workload: one setting of the op's axes.
        gpu: the GPU's short name; any GPU if not given.
    """
    with collect_left_out() as left_out:
        found = find_profiles(profiles, asked.label, workload, source=entry.known_source(), gpu=gpu)
    if found is None:
        return StoredProfile(warnings=tuple(left_out))
    return StoredProfile(_typical(found.profiles), found.path, found.code, tuple(left_out), found.profiles)


def _typical(profiles: Sequence[Profile]) -> Profile:
    """Of the function that takes most of the time, the launch of median duration."""
    totals: dict[str, float] = {}
    for profile in profiles:
        totals[profile.function] = totals.get(profile.function, 0.0) + _duration(profile)
    main = max(totals, key=lambda function: totals[function])
    launches = [profile for profile in profiles if profile.function == main]
    typical = median_low(map(_duration, launches))
    return next(profile for profile in launches if _duration(profile) == typical)


def _duration(profile: Profile) -> float:
    value = value_of(profile, "duration_us")
    return 0.0 if value is None or math.isnan(value) else value


def newest_times(
    results: Path, entries: Mapping[str, Entry], variant: Variant, workload: Workload, gpu: str | None
) -> RunTimes | None:
    """What the newest run says that timed a kernel's code at a workload on a GPU; of other code where none did.

    Args:
        results: where runs are.
        entries: the catalog's kernels, which tell what a floor is and what their code is now.
        variant: the kernel; a run with other params of the same label is not of it.
        workload: one setting of the op's axes.
        gpu: the GPU's short name; any GPU if not given.
    """
    newest: RunTimes | None = None

    def measured_in(folder: Path) -> RunTimes | None:
        info = read_info(folder)
        if not info.on_gpu or gpu not in {None, info.gpu}:
            return None
        if newest and _code_of(variant, info, entries) is not CodeState.CURRENT:
            return None
        complete = workload.spec.completed
        rows = [row for row in read_measurements(folder) if complete(row.case.workload) == workload]
        found = _measured(info, rows, entries, variant)
        own = {row.case.id for row in rows if row.case.label == variant.label}
        functions_us = {row.function: row.time_us for row in read_launches(folder) if row.case in own}
        return replace(found, functions_us=functions_us, folder=folder) if found else None

    for found in readable(runs_beside(results), measured_in):
        if found and found.code is CodeState.CURRENT:
            return found
        newest = newest or found
    return newest


def _measured(
    info: RunInfo, rows: Sequence[Measurement], entries: Mapping[str, Entry], variant: Variant
) -> RunTimes | None:
    timed = {row.case.label: row for row in rows if row.timing and row.role != Role.CONTROL}
    own = timed.get(variant.label)
    if own is None or own.timing is None or own.case.variant.params != variant.params:
        return None
    kinds = {
        label: entries[row.case.variant.kernel].kernel.floor for label, row in timed.items() if _is_here(row, entries)
    }
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


def _code_of(variant: Variant, info: RunInfo, entries: Mapping[str, Entry]) -> CodeState:
    """Whether a run timed a variant's code as it is now; what a dispatcher picked is of its table, too."""
    names = {variant.kernel, variant.label} & entries.keys()
    return CodeState.together(entries[name].code_state(info.sources.get(name, "")) for name in names)


def _is_here(row: Measurement, entries: Mapping[str, Entry]) -> bool:
    return row.case.variant.kernel in entries
