"""Turns a request into cases, rounds and sample counts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from gdnbench.bench.environment import device_of, slug_of
from gdnbench.bench.request import Request
from gdnbench.bench.task import COLD_WARM_UPS
from gdnbench.catalog import Catalog, Entry, find_variant
from gdnbench.errors import MachineError
from gdnbench.model import CPU, Case, Device, Gpu, Role, Variant

# What a cold GPU sample costs beside the kernel, on an H200: L2 flush, blocking kernel, scrubbing, the host.
GPU_SAMPLE_US = 100.0
GPU_ROUND_US = 25_000.0
GPU_STATE_US = 4_000.0  # of NVBench itself, for each round of a case
# torch's timer calls twice to warm up for each call that it times.
CPU_CALLS_PER_SAMPLE = 3
CPU_ROUND_US = 60_000.0
FEWEST_SAMPLES = {"cuda": 40, "cpu": 5}


@dataclass(frozen=True)
class Plan:
    """What a run measures.

    Attributes:
        cases: every case, ordered by shape; the control is the baseline once more.
        baseline: the baseline's label, empty if there is none.
        notes: what was decided on the user's behalf.
    """

    cases: tuple[Case, ...]
    baseline: str
    notes: tuple[str, ...]


def make_plan(catalog: Catalog, request: Request, gpu: Gpu | None) -> Plan:
    """Adds to what was asked for: the baseline, its control, and the floor that is the speed of light.

    A sweep of the floor itself has its points for that; where floors alone are swept, there is no baseline either
    unless one is named, for a floor has no verdict.

    Args:
        catalog: what there is.
        request: what to measure.
        gpu: where; None for the CPU.

    Raises:
        UnknownNameError: for a baseline that does not exist.
        MachineError: for a baseline that the user named and that cannot run here.
    """
    device, slug = device_of(gpu), slug_of(gpu)
    baseline, notes = _choose_baseline(catalog, request, gpu)
    if request.swept and not _needs_baseline(catalog, request, device):
        baseline, notes = None, ()
    roles: dict[Variant, Role] = {}
    if baseline:
        roles[baseline] = Role.BASELINE
    for variant in (*request.variants, *_floor(catalog, request, device)):
        roles.setdefault(variant, Role.FLOOR if catalog.entries[variant.kernel].kernel.floor else Role.KERNEL)
    cases = []
    for shape in request.shapes:
        there = {variant: catalog.at(variant, shape, slug)[1] for variant in roles}
        cases += [Case(there[variant], shape, role) for variant, role in roles.items()]
        if baseline:
            cases.append(Case(there[baseline], shape, Role.CONTROL))
    notes += tuple(_not_tuned(catalog.entries[variant.kernel], slug) for variant in roles)
    return Plan(tuple(cases), baseline.label if baseline else "", tuple(filter(None, notes)))


def round_order(case_ids: Sequence[str], rounds: int, seed: int) -> tuple[tuple[str, ...], ...]:
    """Every case once a round, each round in a shuffled order of its own, so that no case always follows another."""
    generator = random.Random(seed)
    return tuple(tuple(generator.sample(case_ids, len(case_ids))) for _ in range(rounds))


def sample_count(asked: int, warm_us: float, device: Device) -> int:
    """Samples per round: as many as asked for, fewer where a round of a slow kernel would take too long."""
    if device == "cuda":
        affordable = GPU_ROUND_US / (GPU_SAMPLE_US + warm_us)
    else:
        affordable = CPU_ROUND_US / (CPU_CALLS_PER_SAMPLE * max(warm_us, 1.0))
    return min(asked, max(int(affordable), FEWEST_SAMPLES[device]))


def round_cost_s(samples: int, warm_us: float, device: Device) -> float:
    """About how long a round of one case takes, in seconds."""
    if device == "cuda":
        return (GPU_STATE_US + (samples + COLD_WARM_UPS) * (GPU_SAMPLE_US + warm_us)) * 1e-6
    return samples * CPU_CALLS_PER_SAMPLE * warm_us * 1e-6


def longest_round_s(samples: int, device: Device) -> float:
    """How long a round of one case may take, in seconds: `sample_count` keeps it to that, but for very slow kernels."""
    if device == "cuda":
        full_us = (samples + COLD_WARM_UPS) * GPU_SAMPLE_US
        return (GPU_STATE_US + min(full_us, GPU_ROUND_US)) * 1e-6
    return CPU_ROUND_US * 1e-6


def unavailable(entry: Entry, device: Device) -> str:
    """Why a kernel cannot run on a device, empty if it can; what needs no loading to know."""
    need = entry.missing()
    if need:
        return f"it needs the module {need.module}: {need.remedy}"
    return "" if device in entry.kernel.devices else "it needs a GPU"


def _needs_baseline(catalog: Catalog, request: Request, device: Device) -> bool:
    """A sweep compares its own points; a baseline beside them is for kernels that have a time, or was asked for."""
    entries = [catalog.entries[name] for name in request.swept]
    wanted = bool(request.baseline) or not all(entry.kernel.floor for entry in entries)
    return wanted and any(not unavailable(entry, device) for entry in entries)


def _choose_baseline(catalog: Catalog, request: Request, gpu: Gpu | None) -> tuple[Variant | None, tuple[str, ...]]:
    wanted = request.baseline or request.op.baseline
    reason = "it could not be loaded"
    if request.baseline or wanted in catalog.entries:
        _, variant = find_variant(catalog, request.op.name, wanted)
        kernels = [catalog.at(variant, shape, slug_of(gpu))[0] for shape in request.shapes]
        reason = next(filter(None, (unavailable(entry, device_of(gpu)) for entry in kernels)), "")
        if not reason:
            return variant, ()
    if request.baseline:
        raise MachineError(f"the baseline {wanted} cannot run here: {reason}", "choose another with --baseline")
    fallback = request.op.fallback_baseline
    if fallback not in catalog.entries:
        return None, (f"no baseline: {wanted} cannot be had ({reason}), nor can {fallback}",)
    note = f"the baseline {wanted} cannot be had ({reason}); compared with {fallback} instead"
    return find_variant(catalog, request.op.name, fallback)[1], (note,)


def _floor(catalog: Catalog, request: Request, device: Device) -> tuple[Variant, ...]:
    floor = catalog.entries.get(request.op.floor)
    is_point = request.op.floor in request.swept
    return (floor.default,) if floor and device == "cuda" and not is_point else ()


def _not_tuned(entry: Entry, gpu: str) -> str:
    """A word on a dispatcher whose table knows nothing of the GPU; empty where it does, or there is none."""
    if entry.dispatch is None or gpu in {CPU, *entry.dispatch.picks}:
        return ""
    return f"{entry.kernel.name} has no rows for {gpu} and takes those of {entry.dispatch.first_gpu}: not tuned here"
