"""Inputs of the product of matrices in nvfp4, its float64 oracle from unpacked numbers, and the roundoff of fp32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from gdnbench import nvfp4

if TYPE_CHECKING:
    from gdnbench import Shape

Tensors = dict[str, torch.Tensor]


def make_inputs(shape: Shape, seed: int, device: str, scenario: str) -> tuple[Tensors, dict[str, float]]:
    """Draws matrices with their scales.

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
    sizes = [shape.L * rows for rows in (shape.M, shape.N)]
    drawn = nvfp4.draw_pair(*(min(rows, nvfp4.DISTINCT_ROWS) for rows in sizes), shape.K, scenario, random)
    tensors = {}
    for coded, rows, names in zip(drawn, sizes, (("A", "sfa"), ("B", "sfb")), strict=True):
        bits, scales = nvfp4.stored(coded, rows, device)
        each = scales.view(torch.uint8).view(shape.L, rows // shape.L, -1).view(nvfp4.FP8)
        tensors[names[0]] = bits.view(shape.L, rows // shape.L, -1)
        tensors[names[1]] = nvfp4.tiled(each) if shape.TILED else each
    return tensors, {}


def oracle(tensors: Tensors, scalars: dict[str, float], workload: Shape) -> Tensors:
    """The output in float64."""
    del scalars
    return {"C": torch.stack([nvfp4.product(a, b) for a, b in _pairs(tensors, workload)])}


def roundoff(tensors: Tensors, scalars: dict[str, float], workload: Shape) -> Tensors:
    """What the output may be off by where its terms are added up in fp32: see `gdnbench.nvfp4.product_roundoff`."""
    del scalars
    return {"C": torch.stack([nvfp4.product_roundoff(a, b)[1] for a, b in _pairs(tensors, workload)])}


def _pairs(tensors: Tensors, workload: Shape) -> list[tuple[nvfp4.Stored, nvfp4.Stored]]:
    """Each pair of matrices with plain scales."""

    def each(matrix: int, name: str, scales: str) -> nvfp4.Stored:
        bits, found = tensors[name][matrix], tensors[scales][matrix]
        return bits, nvfp4.untiled(found, len(bits)) if workload.TILED else found

    return [(each(matrix, "A", "sfa"), each(matrix, "B", "sfb")) for matrix in range(workload.L)]
