"""The grids that the catalog's kernels would have at a shape, by their declarations alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from gdnbench.catalog import Entry
from gdnbench.diagnose.evidence import Evidence
from gdnbench.errors import BuildError
from gdnbench.inspection.subject import Subject
from gdnbench.model import CodeState, Shape, TorchKernel, Variant


@dataclass(frozen=True)
class Layout:
    """A kernel's grid at a shape.

    Attributes:
        label: the kernel's label.
        language: what it is written in.
        blocks: of the grid.
        threads: per block.
    """

    label: str
    language: str
    blocks: int
    threads: int

    @property
    def total(self) -> int:
        """Threads of the whole grid."""
        return self.blocks * self.threads


def layout_of(entry: Entry, variant: Variant, shape: Shape) -> Layout | None:
    """A variant's grid; None where its declaration tells none or fails at the shape."""
    if isinstance(entry.kernel, TorchKernel):
        return None
    subject = Subject(variant.label, entry, variant, shape)
    try:
        return Layout(variant.label, entry.kernel.language, prod(subject.grid()), subject.threads(None))
    except BuildError:
        return None


def own_layout(evidence: Evidence) -> Layout | None:
    """The explained kernel's grid: as profiled, else as declared; a profile of other code does not count."""
    declared = layout_of(evidence.entry, evidence.variant, evidence.shape)
    launch = evidence.launch
    if launch and not (declared and evidence.profile_code is CodeState.CHANGED):
        return Layout(evidence.label, evidence.entry.kernel.language, launch.blocks, launch.threads)
    return declared


def others(evidence: Evidence) -> Iterator[Layout]:
    """The grids of the op's other kernels and presets, in catalog order, less what is nobody's kernel."""
    shape = evidence.shape
    for entry in evidence.catalog.of_op(evidence.entry.op.name):
        for variant in (entry.default, *entry.presets) if not (entry.kernel.floor or entry.dispatch) else ():
            found = layout_of(entry, entry.at(variant, shape), shape)
            if found and variant.label != evidence.label:
                yield found


def by_param(evidence: Evidence) -> Iterator[tuple[str, Layout]]:
    """The grids that this kernel has with one param at another value, beside the param's name."""
    entry, variant = evidence.entry, evidence.variant
    for name, param in entry.kernel.params.items():
        for value in param.choices:
            if value != variant.params[name]:
                found = layout_of(entry, entry.with_params(variant, {name: value}), evidence.shape)
                if found:
                    yield name, found
