"""A named set of workloads, each with a weight."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from gdnbench.errors import DeclarationError
from gdnbench.model.name import check_name
from gdnbench.model.shape import Shape


@dataclass(frozen=True)
class Suite:
    """Workloads that are measured together and summed up in one number.

    Attributes:
        name: what `--suite` calls it, `contest`.
        weights: of each workload in the weighted geometric mean; only their ratios matter.

    Raises:
        DeclarationError: if there is no workload, or a weight is not positive and finite.
    """

    name: str
    weights: Mapping[Shape, float]

    def __post_init__(self) -> None:
        check_name(self.name)
        if not self.weights:
            raise DeclarationError(f"the suite {self.name} has no workloads")
        for shape, weight in self.weights.items():
            if not isinstance(shape, Shape) or not 0 < weight < math.inf:
                raise DeclarationError(f"the suite {self.name}: {shape!r}: {weight!r} is no workload with its weight")

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The workloads, in the order declared."""
        return tuple(self.weights)
