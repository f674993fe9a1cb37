"""What a run or a sweep would do, and about how long it would take, before anything is built or measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gdnbench.bench.environment import archs_of, device_of, slug_of
from gdnbench.bench.plan import Plan, longest_round_s, make_plan, unavailable
from gdnbench.bench.preflight import build_jobs
from gdnbench.bench.request import Request
from gdnbench.binary import build_processes, count_builds
from gdnbench.catalog import Catalog
from gdnbench.model import Case, Gpu, Role

MOST_BUILDS = 1000
"""More than so many kernels to compile are not begun without a question: they take minutes."""

BUILD_S = 0.5
"""Of one core: 50 builds, CUDA and Triton, take 13 s on two."""


@dataclass(frozen=True)
class Outlook:
    """What there is to do.

    Attributes:
        device: the GPU's short name, or `cpu`.
        kernels: labels of what would be measured, the baseline and the floor among it; a swept kernel's name.
        points: for a sweep, combinations of params, over all kernels.
        shapes: the workloads.
        cases: what is measured in each round: every kernel or point at every shape, and the baseline once more.
        left_out: labels of kernels that cannot be measured on this device, with why.
        builds: what there is to compile, the cached included.
        cached: how many of them the build cache has.
        rounds: of all cases, after the burn-in; 0 for a race, which decides by itself.
        building_s: about how long the missing builds take, in seconds, by a build's usual time on this many cores.
        measuring_s: how long measuring takes at most, in seconds, without starting workers and checking.
    """

    device: str
    kernels: tuple[str, ...]
    points: int
    shapes: tuple[str, ...]
    cases: int
    left_out: dict[str, str]
    builds: int
    cached: int
    rounds: int
    building_s: float
    measuring_s: float

    @property
    def missing(self) -> int:
        """Builds that the cache does not have."""
        return self.builds - self.cached


def foresee(catalog: Catalog, request: Request, gpu: Gpu | None) -> Outlook:
    """Plans without beginning.

    Raises:
        GdnbenchError: as a run of the request does when it is planned.
    """
    plan = make_plan(catalog, request, gpu)
    left_out = _left_out(catalog, plan.cases, gpu)
    measured = [case for case in plan.cases if case.label not in left_out]
    jobs = build_jobs(catalog, [case for case in plan.cases if case.role is not Role.CONTROL], archs_of(gpu))
    builds, missing = count_builds(list(jobs.values()))
    return Outlook(
        device=slug_of(gpu),
        kernels=tuple(dict.fromkeys(_name(case, request) for case in measured if case.role is not Role.CONTROL)),
        points=len({case.variant for case in plan.cases if case.is_point_of(request.swept)}),
        shapes=tuple(map(str, request.shapes)),
        cases=len(measured),
        left_out=left_out,
        builds=builds,
        cached=builds - missing,
        rounds=0 if request.settings.budget_s else request.settings.rounds,
        building_s=missing * BUILD_S / build_processes(),
        measuring_s=_measuring_s(request, plan, len(measured), gpu),
    )


def _name(case: Case, request: Request) -> str:
    return case.variant.kernel if case.is_point_of(request.swept) else case.label


def _left_out(catalog: Catalog, cases: Sequence[Case], gpu: Gpu | None) -> dict[str, str]:
    found = {case.label: unavailable(catalog.entries[case.variant.kernel], device_of(gpu)) for case in cases}
    return {label: why for label, why in found.items() if why}


def _measuring_s(request: Request, plan: Plan, cases: int, gpu: Gpu | None) -> float:
    settings = request.settings
    if settings.budget_s:
        return settings.budget_s
    clocks = 1 + len(settings.clocks)
    return clocks * (1 + settings.rounds) * cases * longest_round_s(settings.samples, device_of(gpu))
