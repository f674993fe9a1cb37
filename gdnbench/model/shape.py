"""The axes of one workload."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from gdnbench.errors import ShapeError

MOST_ELEMENTS = 2**31 - 1
"""Of an axis: kernels take sizes as 32-bit integers."""


@dataclass(frozen=True, order=True)
class Shape:
    """One workload of an op.

    Attributes:
        B: batch size, sequences decoded at once.
        HQ: query and key heads.
        HV: value heads; value head h reads query/key head `h // (HV // HQ)`.
        K: size of a query or key head.
        V: size of a value head.

    Raises:
        ShapeError: if an axis is below 1, or HV is no multiple of HQ.
    """

    B: int = 1
    HQ: int = 4
    HV: int = 8
    K: int = 128
    V: int = 128

    def __post_init__(self) -> None:
        for axis, size in self.axes().items():
            if size < 1:
                raise ShapeError(f"{axis}={size}: an axis has at least one element", f"give {axis} >= 1")
            if size > MOST_ELEMENTS:
                raise ShapeError(f"{axis}={size}: an axis has at most {MOST_ELEMENTS:,} elements", "give less")
        if self.HV % self.HQ:
            raise ShapeError(
                f"HV={self.HV} is no multiple of HQ={self.HQ}: value heads share query heads evenly",
                "give heads such as qk4_v8 or qk16_v32",
            )

    def axes(self) -> dict[str, int]:
        """The axes by name, in declaration order."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def heads(self) -> str:
        """The head layout's name, `qk4_v8`."""
        return f"qk{self.HQ}_v{self.HV}"

    @property
    def heads_pair(self) -> tuple[int, int]:
        """(HQ, HV)."""
        return self.HQ, self.HV

    def __str__(self) -> str:
        sizes = "" if (self.K, self.V) == (128, 128) else f" K={self.K} V={self.V}"
        return f"B={self.B} {self.heads}{sizes}"


def nearest_shape(known: Iterable[Shape], wanted: Shape) -> Shape:
    """The shape that stands in for one that is not known: the nearest by the number of heads in the batch, B * HV.

    Distance is the larger number over the smaller. Of equally near ones it is one of the same head layout, then the
    smaller; a shape that is known stands for itself.

    Raises:
        ValueError: if none is known.
    """
    heads = wanted.B * wanted.HV
    return min(
        known,
        key=lambda each: (
            _times_apart(each.B * each.HV, heads),
            (each.HQ, each.HV, each.K, each.V) != (wanted.HQ, wanted.HV, wanted.K, wanted.V),
            each,
        ),
    )


def _times_apart(one: int, other: int) -> float:
    """Grows as the distance of logarithms does, and does not round a tie apart."""
    return max(one, other) / min(one, other)
