"""Inputs of the gated product in nvfp4, its float64 oracle from unpacked numbers, and the roundoff of fp32."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from gdnbench import nvfp4

if TYPE_CHECKING:
    from gdnbench import Shape

Tensors = dict[str, torch.Tensor]

SILU = 8.0  # roundoffs of exp, the sum, the quotient and the product that silu takes, and as many to spare


def make_inputs(shape: Shape, seed: int, device: str, scenario: str) -> tuple[Tensors, dict[str, float]]:
    """Draws matrices with their scales, so small that sums of K terms are mostly of single digits.

    From the 258th on, rows of a matrix are those before again: they are drawn on the CPU, so that they are the same
    for all devices, and in both layouts of scales. B1 and B2 are drawn as the rows of one matrix.

    Args:
        shape: the workload.
        seed: of every draw.
        device: a torch device.
        scenario: of `gdnbench.nvfp4.draw_pair`, with A as the first factor, and B1 and B2 as the second.

    Returns:
        The input tensors, by name, and no scalars.
    """
    random = torch.Generator(device="cpu").manual_seed(seed)
    size = 2.0 ** -round(math.log2(shape.K) / 4)  # of the square root of that of a sum, or about it
    rows, columns = (min(each, nvfp4.DISTINCT_ROWS) for each in (shape.M, shape.N))
    a, (codes, scales) = nvfp4.draw_pair(rows, 2 * columns, shape.K, scenario, random, size)
    tensors = {}
    for number, coded, count in (
        ("", a, shape.M),
        ("1", (codes[:columns], scales[:columns]), shape.N),
        ("2", (codes[columns:], scales[columns:]), shape.N),
    ):
        bits, found = nvfp4.stored(coded, count, device)
        tensors[f"B{number}" if number else "A"] = bits
        tensors[f"sfb{number}" if number else "sfa"] = nvfp4.tiled(found) if shape.TILED else found
    return tensors, {}


def oracle(tensors: Tensors, scalars: dict[str, float], workload: Shape) -> Tensors:
    """The output in float64."""
    del scalars
    a, b1, b2 = _plain(tensors, workload)
    x = nvfp4.product(a, b1)
    return {"C": x * torch.sigmoid(x) * nvfp4.product(a, b2)}


def roundoff(tensors: Tensors, scalars: dict[str, float], workload: Shape) -> Tensors:
    """What the output may be off by where all is fp32, in unit roundoffs (2^-24).

    Sums as in `gdnbench.nvfp4.product_roundoff`. silu's slope is sigmoid(x) (1 + x (1 - sigmoid(x))); the argument of
    its exponential is rounded, which is worth abs(x) (1 - sigmoid(x)) roundoffs of it. To first order.
    """
    del scalars
    a, b1, b2 = _plain(tensors, workload)
    x, x_off = nvfp4.product_roundoff(a, b1)
    y, y_off = nvfp4.product_roundoff(a, b2)
    sigmoid, against = torch.sigmoid(x), torch.sigmoid(-x)
    silu = x * sigmoid
    silu_off = (sigmoid * (1 + x * against)).abs() * x_off + silu.abs() * (SILU + x.abs() * against)
    return {"C": silu.abs() * y_off + y.abs() * silu_off + (silu * y).abs()}


def _plain(tensors: Tensors, workload: Shape) -> list[nvfp4.Stored]:
    """A, B1 and B2 with plain scales."""
    return [
        (tensors[name], nvfp4.untiled(tensors[scales], len(tensors[name])) if workload.TILED else tensors[scales])
        for name, scales in (("A", "sfa"), ("B1", "sfb1"), ("B2", "sfb2"))
    ]
