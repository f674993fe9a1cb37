"""What becomes one Solution: a kernel's op at fixed compile-time axes, and the workloads there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gdnbench.catalog.entry import Entry
from gdnbench.errors import UsageError
from gdnbench.exchange.match import Match
from gdnbench.model.case import Variant
from gdnbench.model.tensor import TensorSpec
from gdnbench.model.workload import Workload


@dataclass(frozen=True)
class ExportedKernel:
    """A variant that becomes a Solution.

    Attributes:
        entry: the kernel.
        variant: its params.
        match: the Definition, and how its axes are the op's.
        workloads: what is exported; at least one.
    """

    entry: Entry
    variant: Variant
    match: Match
    workloads: Sequence[Workload]

    @property
    def title(self) -> str:
        """`decode-v4 WARPS=8`: the kernel with all of its params, for comments."""
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
        """The op's sizes that do not vary within the Definition: compile-time axes and whatever else it fixes."""
        return {**self.workloads[0].compile_time, **self.match.fixed}

    @property
    def unknown(self) -> dict[str, tuple[str, int]]:
        """The axes and derived sizes that inputs tell, each with an input and the place among its sizes."""
        op = self.match.op
        names = [*(axis.name for axis in op.workloads.axes if not axis.compile_time), *op.derived]
        places = {name: self.match.place(name) for name in names if name not in self.known}
        return {name: place for name, place in places.items() if place}

    def need_sizes(self, names: Sequence[str]) -> None:
        """Refuses sizes that no input tells.

        Raises:
            UsageError: for the first of them.
        """
        for name in names:
            if name not in self.known and name not in self.unknown:
                raise UsageError(
                    f"{self.variant.label} needs {name}, which no input's sizes tell", "export another kernel"
                )

    def size_text(self, dim: str | int) -> str:
        """A size as text: a number, or the name of what is known at run time."""
        if isinstance(dim, int):
            return str(dim)
        if dim in self.known:
            return str(self.known[dim])
        self.need_sizes([dim])
        return dim

    def scratch_dims(self, spec: TensorSpec) -> list[str]:
        """The sizes of scratch memory as texts; they may name params."""
        params = self.variant.params
        return [
            str(params[dim]) if isinstance(dim, str) and dim in params else self.size_text(dim) for dim in spec.dims
        ]
