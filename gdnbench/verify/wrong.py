"""Which elements of a tensor are wrong, told so that a person sees the pattern: a head, a row, every other column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

import torch

from gdnbench.model.gate import WrongElements

MOST_RANGES = 4  # of indices along one axis; more of them are no pattern that a line can show


def tell_wrong(
    failing: torch.Tensor,
    worst: tuple[int, ...],
    got: torch.Tensor | None,
    expected: torch.Tensor | None,
    axes: Sequence[str] = (),
) -> WrongElements | None:
    """What there is to say of a gate that failed; None if no element did.

    Args:
        failing: which elements are wrong, boolean.
        worst: the place of one of them.
        got: the tensor; None where nothing was written.
        expected: what it should be, of the same shape; None where that is not known.
        axes: the names of its axes; by default their numbers.
    """
    count = int(failing.sum())
    if not count:
        return None
    names = [*axes, *(f"axis {number}" for number in range(len(axes), failing.dim()))]
    return WrongElements(
        count=count,
        of=failing.numel(),
        got=None if got is None else float(got[worst]),
        expected=None if expected is None else float(expected[worst]),
        spread=_spread(failing, names),
    )


def _spread(failing: torch.Tensor, names: Sequence[str]) -> str:
    """Axis by axis the indices at which any element is wrong; the axes that say most come first."""
    told, everywhere = [], []
    for axis, (name, size) in enumerate(zip(names, failing.shape, strict=True)):
        others = [other for other in range(failing.dim()) if other != axis]
        hit = (failing.any(dim=others) if others else failing).nonzero().flatten().tolist()
        if size > 1 and len(hit) == size:
            everywhere.append(name)
        elif size > 1:
            told.append(f"{name} {_indices(hit)} of {size}")
    return "; ".join([*told, *([f"every {', '.join(everywhere)}"] if everywhere else [])]) or "its one element"


def _indices(hit: Sequence[int]) -> str:
    """`0-3,7`, or how many where that would be long."""
    ranges = list(_ranges(hit))
    if len(ranges) <= MOST_RANGES:
        return ",".join(ranges)
    if len({after - before for before, after in pairwise(hit)}) == 1:
        return f"{hit[0]},{hit[1]},…,{hit[-1]}"
    return f"at {len(hit)} places from {hit[0]} to {hit[-1]}"


def _ranges(hit: Sequence[int]) -> Iterator[str]:
    for _, group in groupby(enumerate(hit), key=lambda pair: pair[1] - pair[0]):
        run = [index for _, index in group]
        yield str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}"
