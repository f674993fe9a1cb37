"""Compiles the cases' kernels ahead, in parallel, and describes each build in a row for `builds.csv`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gdnbench.catalog.catalog import Catalog
from gdnbench.codegen.ahead import build_all
from gdnbench.codegen.arch import DEFAULT_ARCHS
from gdnbench.codegen.job import Job
from gdnbench.codegen.launch_limits import request_of
from gdnbench.errors import GdnbenchError
from gdnbench.measuring.observer import Observer
from gdnbench.measuring.protocol import BUILD_STEPS, IMPORT_STEPS, Examined, PreflightVerdicts
from gdnbench.model.case import Case, Variant
from gdnbench.model.code import Build, tell_serialized
from gdnbench.model.gpu import Gpu
from gdnbench.model.kernel import CudaKernel, TritonKernel, launch_of
from gdnbench.model.status import Status
from gdnbench.model.workload import Workload
from gdnbench.store.builds import BuildRow

ARCHS_WITHOUT_GPU = DEFAULT_ARCHS


def archs_of(gpu: Gpu | None) -> tuple[str, ...]:
    """What kernels are compiled for."""
    return (gpu.arch,) if gpu else ARCHS_WITHOUT_GPU


BuildId = tuple[Variant, Workload, str, str]
"""Variant, workload, architecture, and the entry of the launch.

Most sizes of run-time axes share a build, but `warps` and `stages` may depend on them.
"""


@dataclass
class Builds:
    """What the compilers made of the cases' variants.

    Attributes:
        made: what compiled.
        failed: likewise, the compiler's message.
        refused: of what compiled, why CUDA would not launch it.
    """

    made: dict[BuildId, Build] = field(default_factory=dict)
    failed: dict[BuildId, GdnbenchError] = field(default_factory=dict)
    refused: dict[BuildId, str] = field(default_factory=dict)

    def launches_of(self, case: Case, arch: str) -> dict[str, Build]:
        """The build of each of a case's launches for an architecture, by its entry, in order."""
        return {launch: self.made[key] for launch, key in self._keys(case, arch) if key in self.made}

    def of(self, case: Case, arch: str) -> Build | None:
        """The build of a case for an architecture; of several launches the one with the most registers."""
        return max(self.launches_of(case, arch).values(), key=lambda build: build.registers, default=None)

    def failure(self, case: Case, arch: str) -> GdnbenchError | None:
        """Why there is none."""
        return next((self.failed[key] for _, key in self._keys(case, arch) if key in self.failed), None)

    def _keys(self, case: Case, arch: str) -> list[tuple[str, BuildId]]:
        known = {key[3]: None for key in (*self.made, *self.failed)}
        return [(launch, (case.variant, case.workload, arch, launch)) for launch in known]

    def verdicts(self, cases: Sequence[Case], archs: Sequence[str]) -> PreflightVerdicts:
        """The verdict on every case that, for one of these architectures, did not build or would not be launched.

        A case with several forms has one only where none of them can go on.

        Args:
            cases: the cases, those with several forms once in each.
            archs: the architectures.
        """
        good = {case.id for case in cases if self.can_launch(case, archs)}
        return {
            case.id: verdict
            for case in reversed(cases)  # the message is of the first form
            if case.id not in good and (verdict := self.verdict(case, archs))
        }

    def verdict(self, case: Case, archs: Sequence[str]) -> Examined | None:
        """Why a case cannot go on, where it did not build for one of these or CUDA would not launch it; else None."""
        failures = [failure for arch in archs if (failure := self.failure(case, arch))]
        if failures:
            return Examined(case.id, Status.BUILD_FAILED, failures[0].message)
        refused = [(arch, launch, self.refused.get(key)) for arch in archs for launch, key in self._keys(case, arch)]
        return next((Examined(case.id, Status.FAILED, _tell_refused(*each)) for each in refused if each[2]), None)

    def can_launch(self, case: Case, archs: Sequence[str]) -> bool:
        """Whether it compiled for all of these architectures, or needs no compiling, and CUDA would launch it."""
        return self.verdict(case, archs) is None


def _tell_refused(arch: str, launch: str, why: str | None) -> str:
    return f"{launch} on {arch}: {why}"


def tell_serialized_products(builds: Builds, cases: Sequence[Case], arch: str) -> dict[str, str]:
    """A word on each case whose warpgroup products ptxas serializes, and in which of several launches, by its id."""
    told = {}
    for case in cases:
        launches = builds.launches_of(case, arch)
        found = [
            tell_serialized(build.serialized_because, launch if len(launches) > 1 else "")
            for launch, build in launches.items()
            if build.serialized_because
        ]
        if found:
            told[case.id] = ", and ".join(found)
    return told


def build_jobs(
    catalog: Catalog, cases: Sequence[Case], archs: Sequence[str], *, disassembled: bool = True
) -> dict[BuildId, Job]:
    """What there is to compile: each CUDA and Triton variant at each workload; those that are alike are built once."""
    jobs = {}
    for case in cases:
        entry = catalog.entries[case.variant.kernel]
        if entry.kernel.unable(case.workload):  # a build that fails would say less of why
            continue
        if isinstance(entry.kernel, CudaKernel | TritonKernel) and entry.missing() is None:
            # Where one of several has not its instructions, the others stand for all; where none has, each tells why.
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

    Args:
        catalog: the kernels.
        cases: what to compile.
        archs: for which architectures.
        step_limit_s: seconds that an ordinary step may take; importing a source may take three times that, and
            compiling it ten times.
        observer: told of every build.
        disassembled: whether the code is read for the widest load.

    Raises:
        MachineError: if the cache cannot be written, or a compiler is absent.
    """
    jobs = build_jobs(catalog, cases, archs, disassembled=disassembled)
    observer.begin("build", len(jobs))
    results = build_all(
        list(jobs.values()),
        timeout_s=BUILD_STEPS * step_limit_s,
        import_s=IMPORT_STEPS * step_limit_s,
        on_result=lambda _job, _result: observer.advance(),
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
    """Why CUDA would not launch a build at its workload; empty where it would."""
    try:
        request = request_of(launch_of(job.entry.kernel, job.launch), job.workload, job.variant.params)
    except Exception:  # what a declaration raises is not known; the worker that binds it tells of it
        return ""
    return request.compiled_to(build).refusal(job.arch)


def build_rows(
    catalog: Catalog, cases: Sequence[Case], archs: Sequence[str], builds: Builds, interpreted: PreflightVerdicts
) -> list[BuildRow]:
    """Every build that was tried, once per series of workloads and launch, with the interpreter's verdict beside it.

    A variant that is compiled otherwise at other workloads of it has a row for each, and its label says where; of a
    kernel with several launches each has its own.
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
    for (variant, series, arch, launch), found in distinct.items():
        label = _full_label(variant) if names[variant.label] > 1 or variant.is_picked else variant.label
        kernel = catalog.entries[variant.kernel].kernel
        for result, case in found.items():
            at = f" at {case.workload.x_term}" if len(found) > 1 else ""
            row = _row(case, label + at, kernel.language, arch, result, verdicts.get((variant, series)))
            rows.append(replace(row, launch=launch))
    return rows


def _results(builds: Builds, case: Case, arch: str) -> dict[str, Build | str]:
    """The build of each launch, by its entry where there are several, or why there is none."""
    failure = builds.failure(case, arch)
    if failure:
        return {"": failure.message}
    made = builds.launches_of(case, arch)
    return {launch if len(made) > 1 else "": build for launch, build in made.items()}


def _full_label(variant: Variant) -> str:
    """For a kernel whose defaults change with the workload, or a dispatcher: its name stands for several builds."""
    if variant.is_picked:
        return f"{variant.label}: {variant.in_full}"
    return ":".join((variant.label, *(f"{name}={value}" for name, value in variant.params.items())))


def _row(case: Case, label: str, language: str, arch: str, result: Build | str, verdict: Examined | None) -> BuildRow:
    build = result if isinstance(result, Build) else None
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
        interpreter=_interpreter_says(verdict),
        serialized_because=build.serialized_because if build else "",
    )


def _interpreter_says(verdict: Examined | None) -> str:
    if verdict is None:
        return ""
    return "passed" if verdict.status is Status.OK else f"{verdict.status}: {verdict.reason}"
