"""Selects what to profile: one kernel at one workload, and the GPU."""

from __future__ import annotations

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.resolve import find_op
from gdnbench.catalog.select import find_variant
from gdnbench.errors import MachineError
from gdnbench.machine.gpus import list_gpus, select_gpu
from gdnbench.measuring.request import parse_workload
from gdnbench.model.case import Case
from gdnbench.model.gpu import Gpu
from gdnbench.profilers.process import Instrumentation, ProfileTask


def choose_case(catalog: Catalog, op: str, label: str, *, axes: str, gpu: str = "auto") -> Case:
    """Returns a kernel at one workload, with its params there; for a dispatcher, the kernel that it picks.

    `label` is a kernel or a preset, with params after colons; `axes` are as `--shape` takes them, empty for the op's
    default workload. Raises UnknownNameError for an unknown kernel, op or layout; UsageError for several workloads;
    GpuNotFoundError without the requested GPU; MachineError if the kernel needs a module that this Python lacks.
    """
    workload = parse_workload(find_op(catalog, op), axes, "a profile is of one")
    _, asked = find_variant(catalog, op, label)
    chosen = select_gpu(gpu, list_gpus())
    entry, variant = catalog.behind(asked, workload, chosen.slug if chosen else "")
    if need := entry.missing():
        raise MachineError(f"{variant.label} needs the module {need.module}", need.remedy)
    return Case(variant, workload)


def choose_gpu(wanted: str, purpose: str, instead: str = "") -> Gpu:
    """Returns the GPU to profile on; `wanted` is as `--gpu` takes it.

    Raises GpuNotFoundError without the requested GPU; MachineError without any, with `purpose` (`a timeline`) as the
    subject of its message and `instead` as its hint.
    """
    gpu = select_gpu(wanted, list_gpus())
    if gpu is None:
        raise MachineError(f"{purpose} needs a GPU, and there is none here", instead or "see `gdnbench doctor`")
    return gpu


def make_assignment(
    catalog: Catalog, case: Case, errand: Instrumentation, *, seed: int, launches: int, result: str = ""
) -> ProfileTask:
    """Returns the worker's task for a case.

    A kernel that a dispatcher picked has its own name here, so that the hash is of its own sources.
    """
    entry = catalog.entries[case.variant.kernel]
    roots = tuple(str(root) for root in catalog.roots)
    return ProfileTask(errand, roots, entry.op.name, case, seed, launches, result, entry.known_source())
