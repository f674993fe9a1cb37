"""Inputs of the grouped product in nvfp4, its float64 oracle from unpacked numbers, and the roundoff of fp32."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import torch

from gdnbench import nvfp4

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gdnbench import Shape

Tensors = dict[str, torch.Tensor]


def make_inputs(shape: Shape, seed: int, device: str, scenario: str) -> tuple[Tensors, dict[str, float]]:
    """Draws the rows of all groups and their second factors, with scales.

    From the 258th on, rows of all of A and of all of B are those before again: they are drawn on the CPU, so that they
    are the same for all devices, and in both layouts of scales.

    Args:
        shape: the workload.
        seed: of every draw.
        device: a torch device.
        scenario: of `gdnbench.nvfp4.draw_pair`, with A as the first factor and B as the second.

    Returns:
        The input tensors, by name, and no scalars.
    """
    random = torch.Generator(device="cpu").manual_seed(seed)
    groups, sizes = len(shape.rows), (sum(shape.rows), len(shape.rows) * shape.N)
    drawn = nvfp4.draw_pair(*(min(rows, nvfp4.DISTINCT_ROWS) for rows in sizes), shape.K, scenario, random)
    (a, sfa), (b, sfb) = (nvfp4.stored(coded, rows, device) for coded, rows in zip(drawn, sizes, strict=True))
    sfb = sfb.view(torch.uint8).view(groups, shape.N, -1).view(nvfp4.FP8)
    if shape.TILED:
        each = [nvfp4.tiled(part).view(torch.uint8) for part in _split(sfa, shape.rows)]
        sfa, sfb = torch.cat(each).view(nvfp4.FP8), nvfp4.tiled(sfb)
    ends = torch.tensor([0, *shape.rows]).cumsum(0).to(device, torch.int32)
    return {"A": a, "sfa": sfa, "B": b.view(groups, shape.N, -1), "sfb": sfb, "ends": ends}, {}


def oracle(tensors: Tensors, scalars: dict[str, float], workload: Shape) -> Tensors:
    """The output in float64."""
    del scalars
    return {"C": torch.cat([nvfp4.product(a, b) for a, b in _pairs(tensors, workload)])}


def roundoff(tensors: Tensors, scalars: dict[str, float], workload: Shape) -> Tensors:
    """What the output may be off by where its terms are added up in fp32: see `gdnbench.nvfp4.product_roundoff`."""
    del scalars
    return {"C": torch.cat([nvfp4.product_roundoff(a, b)[1] for a, b in _pairs(tensors, workload)])}


def _split(rows: torch.Tensor, sizes: tuple[int, ...]) -> list[torch.Tensor]:
    """The rows of each group."""
    ends = torch.tensor([0, *sizes]).cumsum(0).tolist()
    return [rows[begin:end] for begin, end in pairwise(ends)]


def _pairs(tensors: Tensors, workload: Shape) -> Iterator[tuple[nvfp4.Stored, nvfp4.Stored]]:
    """The two factors of each group that has rows, with plain scales."""
    rows, columns = workload.rows, workload.N
    of_scales = tuple(nvfp4.tiled_rows(count) for count in rows) if workload.TILED else rows
    groups = zip(
        _split(tensors["A"], rows), _split(tensors["sfa"], of_scales), tensors["B"], tensors["sfb"], strict=True
    )
    for a, sfa, b, sfb in groups:
        if len(a) and workload.TILED:
            yield (a, nvfp4.untiled(sfa, len(a))), (b, nvfp4.untiled(sfb, columns))
        elif len(a):
            yield (a, sfa), (b, sfb)
