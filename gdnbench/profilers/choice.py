"""What a user named to be profiled: one kernel at one shape, on a GPU."""

from __future__ import annotations

from gdnbench.bench.request import find_op, parse_shapes
from gdnbench.catalog import Catalog, find_variant
from gdnbench.errors import MachineError, UsageError
from gdnbench.machine import list_gpus, select_gpu
from gdnbench.model import Case, Gpu
from gdnbench.profilers.assignment import Assignment, Errand


def choose_case(catalog: Catalog, op: str, label: str, *, axes: str, heads: str, gpu: str = "auto") -> Case:
    """The kernel of a label at the one shape asked for, with its params for that shape; of a dispatcher what it picks.

    Args:
        catalog: what there is.
        op: the op whose kernels are meant.
        label: a kernel or a preset, params after colons.
        axes: the shape, as `--shape` takes it.
        heads: the head layout, as `--heads` takes it.
        gpu: as `--gpu` takes it.

    Raises:
        UnknownNameError: if there is no such kernel, op or layout.
        UsageError: for several shapes.
        GpuNotFoundError: if the GPU asked for is not here.
        MachineError: if the kernel needs a module that this Python lacks.
    """
    shapes = parse_shapes(find_op(catalog, op), axes, heads)
    if len(shapes) > 1:
        raise UsageError(f"{len(shapes)} shapes were named, and a profile is of one", "as in --shape B=8")
    _, asked = find_variant(catalog, op, label)
    chosen = select_gpu(gpu, list_gpus())
    entry, variant = catalog.behind(asked, shapes[0], chosen.slug if chosen else "")
    if need := entry.missing():
        raise MachineError(f"{variant.label} needs the module {need.module}", need.remedy)
    return Case(variant, shapes[0])


def choose_gpu(wanted: str, purpose: str, instead: str = "") -> Gpu:
    """The GPU to profile on.

    Args:
        wanted: as `--gpu` takes it.
        purpose: what needs it, as the error says: `a timeline`.
        instead: what works without a GPU, for the error's hint.

    Raises:
        GpuNotFoundError: if the GPU asked for is not here.
        MachineError: if there is none at all.
    """
    gpu = select_gpu(wanted, list_gpus())
    if gpu is None:
        raise MachineError(f"{purpose} needs a GPU, and there is none here", instead or "see `gdnbench doctor`")
    return gpu


def prepare(catalog: Catalog, case: Case, errand: Errand, *, seed: int, launches: int, result: str = "") -> Assignment:
    """The worker's assignment for a case.

    What a dispatcher picked goes by its own name here, so that the sources are those of the kernel alone.
    """
    entry = catalog.entries[case.variant.kernel]
    roots = tuple(str(root) for root in catalog.roots)
    return Assignment(errand, roots, entry.op.name, case, seed, launches, result, entry.known_source())
