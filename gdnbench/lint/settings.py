"""Where and at what a kernel is read: places in its sources; settings, which are workloads, constants, launches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.codegen.arch import request_of
from gdnbench.errors import GdnbenchError
from gdnbench.model.case import STRIDE, Variant
from gdnbench.model.declaration import FACTS, Params
from gdnbench.model.kernel import TritonKernel, TritonLaunch
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload


@dataclass(frozen=True, order=True)
class SourcePlace:
    """A place in a source; line and column, in characters, from 1."""

    path: Path
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


@dataclass(frozen=True)
class TensorFacts:
    """A tensor at a workload: Triton's name of its dtype, and its number of elements."""

    dtype: str
    elements: int


@dataclass(frozen=True)
class LaunchSetting:
    """A launch of a kernel at a workload, with its constants; values are None, 0 or empty if unknown."""

    label: str
    at: str = ""  # the workload and the constants in words, `B=64 qk4_v8 with BV=16`
    tensors: Mapping[str, TensorFacts] = field(default_factory=dict)
    # The values of `tl.constexpr` arguments, by name
    constants: Mapping[str, Any] = field(default_factory=dict)
    # Run-time axes and derived sizes by name, with Triton's types
    sizes: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    grid: tuple[int, ...] | None = None

    @property
    def at_words(self) -> str:
        """` at B=64 qk4_v8 with BV=16`, the end of a sentence, or "" without a workload."""
        return f" at {self.at}" if self.at else ""


MOST_WORKLOADS = 16
"""The largest and the smallest of the suites' workloads, and some between."""


def read_workloads(op: Op) -> tuple[Workload, ...]:
    """Returns the workloads of all suites, the largest first; at most `MOST_WORKLOADS`."""
    names = dict.fromkeys(("default", "verify", *op.suites))
    every = dict.fromkeys(workload for name in names for workload in op.suite(name).workloads)
    ranked = sorted(every, key=op.tensor_bytes, reverse=True)
    if len(ranked) <= MOST_WORKLOADS:
        return tuple(ranked)
    last = len(ranked) - 1
    return tuple(ranked[round(place * last / (MOST_WORKLOADS - 1))] for place in range(MOST_WORKLOADS))


def settings_of(entry: CatalogEntry, variant: Variant, launch: TritonLaunch) -> Iterator[LaunchSetting]:
    """Yields the variant at each workload; then, at the largest one and the default one, each choice of each param.

    Settings at which the declaration's grid fails or is empty are left out: the kernel does not support them.
    """
    workloads = read_workloads(entry.op)
    for workload in workloads:
        params = entry.at(variant, workload).params
        yield from _setting(entry, variant, launch, workload, params, {})
    for workload in dict.fromkeys((workloads[0], entry.op.default)):
        own = entry.at(variant, workload).params
        for name, param in entry.kernel.params.items():
            for choice in param.choices:
                if choice != own[name]:
                    changed = Params({**own, name: choice})
                    yield from _setting(entry, variant, launch, workload, changed, {name: choice})


def _setting(
    entry: CatalogEntry,
    variant: Variant,
    launch: TritonLaunch,
    workload: Workload,
    params: Params,
    changed: dict[str, object],
) -> Iterator[LaunchSetting]:
    op, kernel = entry.op, entry.kernel
    try:
        request = request_of(launch, workload, params)
    except Exception:
        return
    if prod(request.grid) < 1:
        return
    named = op.named_sizes(workload)
    scratch = kernel.scratch if isinstance(kernel, TritonKernel) else ()
    try:
        tensors = {
            tensor.name: TensorFacts(FACTS[tensor.dtype_at(sizes)].triton, prod(tensor.sizes(sizes)))
            for tensor, sizes in [
                *((each, named) for each in op.tensors),
                *((each, {**named, **{n: v for n, v in params.items() if isinstance(v, int)}}) for each in scratch),
            ]
        }
    except (GdnbenchError, KeyError):
        return
    choice = ", ".join(f"{name}={value}" for name, value in changed.items())
    yield LaunchSetting(
        label=variant.label,
        at=f"{workload} with {choice}" if choice else str(workload),
        tensors=tensors,
        constants={**workload.compile_time, **params},
        sizes={
            **{axis.name: (workload.axes[axis.name], "i32") for axis in op.workloads.axes if not axis.compile_time},
            **{name: (of(workload), "i64") for name, of in op.derived.items()},
            **{
                f"{spec.name}{STRIDE}": (prod(spec.sizes(named)[1:]), "i64")
                for spec in op.tensors
                if spec.name in kernel.strided
            },
        },
        grid=request.grid,
    )
