"""Compiles the cases' kernels ahead of time, in parallel, and describes each build in a row of `builds.csv`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gdnbench.catalog.catalog import Catalog
from gdnbench.codegen.ahead import build_all
from gdnbench.codegen.arch import DEFAULT_ARCHS, request_of
from gdnbench.codegen.build import Job
from gdnbench.errors import GdnbenchError
from gdnbench.model.case import Case, Variant
from gdnbench.model.gpu import Build, Gpu, format_serialized
from gdnbench.model.kernel import CudaKernel, TritonKernel, launch_of
from gdnbench.model.status import Status
from gdnbench.model.workload import Workload
from gdnbench.process.events import Observer, PhaseBegun, UnitDone
from gdnbench.store.journal import BUILD_STEPS, IMPORT_STEPS, Examined, PreflightVerdicts
from gdnbench.store.tables import BuildRow

ARCHS_WITHOUT_GPU = DEFAULT_ARCHS


def archs_of(gpu: Gpu | None) -> tuple[str, ...]:
    """Returns the architectures to compile for."""
    return (gpu.arch,) if gpu else ARCHS_WITHOUT_GPU


BuildId = tuple[Variant, Workload, str, str]
"""Variant, workload, architecture, and entry of the launch.

Most sizes of run-time axes share a build, but `warps` and `stages` may depend on them.
"""


@dataclass
class Builds:
    """Results of compiling the cases' variants; `refused` are builds in `made` that CUDA would not launch, with why."""

    made: dict[BuildId, Build] = field(default_factory=dict)
    failed: dict[BuildId, GdnbenchError] = field(default_factory=dict)
    refused: dict[BuildId, str] = field(default_factory=dict)

    def launches_of(self, case: Case, arch: str) -> dict[str, Build]:
        """The builds of a case's launches for an architecture, by entry, in order."""
        return {launch: self.made[key] for launch, key in self._keys(case, arch) if key in self.made}

    def of(self, case: Case, arch: str) -> Build | None:
        """The case's build for an architecture, or None; of several launches the one with the most registers."""
        return max(self.launches_of(case, arch).values(), key=lambda build: build.registers, default=None)

    def serialized_warnings(self, cases: Sequence[Case], arch: str) -> dict[str, str]:
        """Warnings by case id where ptxas serializes warpgroup products; of several launches they name which."""
        warnings = {}
        for case in cases:
            launches = self.launches_of(case, arch)
            serialized = [
                format_serialized(build.serialized_because, launch if len(launches) > 1 else "")
                for launch, build in launches.items()
                if build.serialized_because
            ]
            if serialized:
                warnings[case.id] = ", and ".join(serialized)
        return warnings

    def failure(self, case: Case, arch: str) -> GdnbenchError | None:
        """Returns why the case has no build for an architecture, or None if nothing failed."""
        return next((self.failed[key] for _, key in self._keys(case, arch) if key in self.failed), None)

    def _keys(self, case: Case, arch: str) -> list[tuple[str, BuildId]]:
        launches = dict.fromkeys(launch for _, _, _, launch in (*self.made, *self.failed))
        return [(launch, (case.variant, case.workload, arch, launch)) for launch in launches]

    def verdicts(self, cases: Sequence[Case], archs: Sequence[str]) -> PreflightVerdicts:
        """Failed cases by id: not built, or not to be launched, for one of these architectures, in all forms."""
        good = {case.id for case in cases if self.can_launch(case, archs)}
        return {
            case.id: verdict
            for case in reversed(cases)  # so that the message is the first form's
            if case.id not in good and (verdict := self.verdict(case, archs))
        }

    def verdict(self, case: Case, archs: Sequence[str]) -> Examined | None:
        """Returns why a case failed to build for one of these architectures or cannot be launched, or None."""
        failures = [failure for arch in archs if (failure := self.failure(case, arch))]
        if failures:
            return Examined(case.id, Status.BUILD_FAILED, failures[0].message)
        refused = [
            f"{launch} on {arch}: {self.refused[key]}"
            for arch in archs
            for launch, key in self._keys(case, arch)
            if key in self.refused
        ]
        return Examined(case.id, Status.FAILED, refused[0]) if refused else None

    def can_launch(self, case: Case, archs: Sequence[str]) -> bool:
        """Whether the case has no failed build for these architectures and CUDA would launch it."""
        return self.verdict(case, archs) is None


def build_jobs(
    catalog: Catalog, cases: Sequence[Case], archs: Sequence[str], *, disassembled: bool = True
) -> dict[BuildId, Job]:
    """The compile jobs of each CUDA and Triton variant at each workload; equal ones are built once."""
    jobs = {}
    for case in cases:
        entry = catalog.entries[case.variant.kernel]
        if entry.kernel.unsupported_reason(case.workload):  # `unable` says why; a failed build says less
            continue
        if isinstance(entry.kernel, CudaKernel | TritonKernel) and entry.missing() is None:
            # Leave out the targets that lack its instructions; if all do, build for each, so that each error is shown.
            for arch in [arch for arch in archs if entry.kernel.fits(arch)] or archs:
                for launch in entry.kernel.launches:
                    job = Job(entry, case.variant, case.workload, arch, launch.entry, disassembled=disassembled)
                    jobs[case.variant, case.workload, arch, launch.entry] = job
    return jobs


def build_cases(
    catalog: Catalog,
    cases: Sequence[Case],
    archs: Sequence[str],
    step_limit_s: float,
    observer: Observer,
    *,
    disassembled: bool = True,
) -> Builds:
    """Compiles every CUDA and Triton case for every architecture, in parallel processes.

    An ordinary step may take `step_limit_s` seconds, importing a source three times, compiling ten times that.
    `disassembled` code is searched for the widest load. Raises MachineError if the cache cannot be written, or a
    compiler is absent.
    """
    jobs = build_jobs(catalog, cases, archs, disassembled=disassembled)
    observer(PhaseBegun("build", len(jobs)))
    results = build_all(
        list(jobs.values()),
        timeout_s=BUILD_STEPS * step_limit_s,
        import_s=IMPORT_STEPS * step_limit_s,
        on_result=lambda _job, _result: observer(UnitDone()),
    )
    builds = Builds()
    for key, job in jobs.items():
        result = results[job]
        if isinstance(result, Build):
            builds.made[key] = result
            if why := _refusal(job, result):
                builds.refused[key] = why
        else:
            builds.failed[key] = result
    return builds


def _refusal(job: Job, build: Build) -> str:
    try:
        request = request_of(launch_of(job.entry.kernel, job.launch), job.workload, job.variant.params)
    except Exception:  # a declaration may raise anything; the worker that binds it reports it
        return ""
    return request.compiled_to(build).refusal(job.arch)


def build_rows(
    catalog: Catalog, cases: Sequence[Case], archs: Sequence[str], builds: Builds, interpreted: PreflightVerdicts
) -> list[BuildRow]:
    """A row per attempted build, series of workloads and launch, with the interpreter's verdict.

    A variant that compiles to different code at other workloads of a series has a row for each, whose label names the
    workload.
    """
    distinct: dict[tuple[Variant, str, str, str], dict[Build | str, Case]] = {}
    for case in cases:
        for arch in archs:
            for launch, result in _results(builds, case, arch).items():
                alike = distinct.setdefault((case.variant, case.workload.series, arch, launch), {})
                alike.setdefault(result, case)
    verdicts = {(case.variant, case.workload.series): interpreted[case.id] for case in cases if case.id in interpreted}
    names = Counter(variant.label for variant in {case.variant for case in cases})
    rows = []
    for (variant, series, arch, launch), cases_by_result in distinct.items():
        label = _full_label(variant) if names[variant.label] > 1 or variant.is_picked else variant.label
        kernel = catalog.entries[variant.kernel].kernel
        for result, case in cases_by_result.items():
            at = f" at {case.workload.x_term}" if len(cases_by_result) > 1 else ""
            row = _row(case, label + at, kernel.language, arch, result, verdicts.get((variant, series)))
            rows.append(replace(row, launch=launch))
    return rows


def _results(builds: Builds, case: Case, arch: str) -> dict[str, Build | str]:
    """The build of each launch, by entry if there are several, or the failure."""
    failure = builds.failure(case, arch)
    if failure:
        return {"": failure.message}
    made = builds.launches_of(case, arch)
    return {launch if len(made) > 1 else "": build for launch, build in made.items()}


def _full_label(variant: Variant) -> str:
    """The label with params, for a name with several builds: a dispatcher, or defaults that depend on the workload."""
    if variant.is_picked:
        return f"{variant.label}: {variant.in_full}"
    return ":".join((variant.label, *(f"{name}={value}" for name, value in variant.params.items())))


def _row(case: Case, label: str, language: str, arch: str, result: Build | str, verdict: Examined | None) -> BuildRow:
    build = result if isinstance(result, Build) else None
    said = (
        "passed"
        if verdict and verdict.status is Status.OK
        else f"{verdict.status}: {verdict.reason}"
        if verdict
        else ""
    )
    return BuildRow(
        kernel=case.variant.kernel,
        label=label,
        language=language,
        series=case.workload.series,
        arch=arch,
        registers=build.registers if build else -1,
        shared_bytes=build.shared_bytes if build else -1,
        spill_bytes=build.spill_bytes if build else -1,
        load_bits=build.load_bits if build else -1,
        code_bytes=build.code_bytes if build else -1,
        status="ok" if build else Status.BUILD_FAILED.value,
        reason=result if isinstance(result, str) else "",
        interpreter=said,
        serialized_because=build.serialized_because if build else "",
    )
