"""A sweep's points as pictures need them: the params that matter, and the best that each of their values allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gdnbench.model import Params, ParamValue, Point

Cell = tuple[ParamValue, ...]


def varied(axes: Mapping[str, Sequence[Any]]) -> dict[str, list[ParamValue]]:
    """The params that were tried at more than one value."""
    return {name: list(values) for name, values in axes.items() if len(values) > 1}


def leading_params(shapes: Sequence[Sequence[Point]], axes: Mapping[str, Sequence[ParamValue]]) -> tuple[str, str]:
    """The two params that matter most, in the order declared: their worst value costs most with the best of all others.

    Args:
        shapes: a kernel's points by shape; all count, so that its charts have the same axes.
        axes: at least two params, with the values tried.
    """

    def cost(name: str) -> float:
        return sum(
            max((point.slower_by for point in best_at(points, [name]).values()), default=0.0) for points in shapes
        )

    first, second = sorted(sorted(axes, key=cost, reverse=True)[:2], key=list(axes).index)
    return first, second


def best_at(points: Sequence[Point], names: Sequence[str]) -> dict[Cell, Point]:
    """For each combination of values of some params, the fastest point that has it."""
    found: dict[Cell, Point] = {}
    for point in sorted(points, key=lambda point: point.slower_by, reverse=True):
        found[tuple(point.params[name] for name in names)] = point
    return found


def tell(params: Params, names: Sequence[str]) -> str:
    """`BV=8 WARPS=4`."""
    return " ".join(f"{name}={params[name]}" for name in names)
