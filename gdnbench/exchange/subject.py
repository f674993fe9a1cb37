"""The input of one Solution: a kernel's op at fixed compile-time axes, and the workloads there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.errors import UsageError
from gdnbench.exchange.match import Match
from gdnbench.model.case import Variant
from gdnbench.model.tensor import TensorSpec
from gdnbench.model.workload import Workload


@dataclass(frozen=True)
class ExportedKernel:
    """A variant that becomes a Solution, with its Definition, and the workloads to export, at least one."""

    entry: CatalogEntry
    variant: Variant
    match: Match
    workloads: Sequence[Workload]

    @property
    def title(self) -> str:
        """The kernel with all of its params, for comments: `decode-v4 WARPS=8`."""
        return self.variant.in_full

    @property
    def arguments(self) -> list[str]:
        """The names of inputs and scalars, in the Definition's order."""
        return list(self.match.definition.inputs)

    @property
    def outputs(self) -> list[str]:
        """The names of outputs, in the Definition's order."""
        return list(self.match.definition.outputs)

    @property
    def known(self) -> dict[str, int]:
        """The op's sizes that are constant in the Definition: compile-time axes and others that it fixes."""
        return {**self.workloads[0].compile_time, **self.match.fixed}

    @property
    def unknown(self) -> dict[str, tuple[str, int]]:
        """The axes and derived sizes that inputs have, each with an input and the dimension."""
        op = self.match.op
        names = [*(axis.name for axis in op.workloads.axes if not axis.compile_time), *op.derived]
        places = {name: self.match.place(name) for name in names if name not in self.known}
        return {name: place for name, place in places.items() if place}

    def need_sizes(self, names: Sequence[str]) -> None:
        """Raises UsageError for the first size that no input has."""
        for name in names:
            if name not in self.known and name not in self.unknown:
                raise UsageError(
                    f"{self.variant.label} needs {name}, which no input's sizes tell", "export another kernel"
                )

    def size_text(self, dim: str | int) -> str:
        """Returns a size as text: a number, or the name of a run-time size."""
        if isinstance(dim, int):
            return str(dim)
        if dim in self.known:
            return str(self.known[dim])
        self.need_sizes([dim])
        return dim

    def scratch_dims(self, spec: TensorSpec) -> list[str]:
        """Returns the sizes of scratch memory as texts; they may name params."""
        params = self.variant.params
        return [
            str(params[dim]) if isinstance(dim, str) and dim in params else self.size_text(dim) for dim in spec.dims
        ]
