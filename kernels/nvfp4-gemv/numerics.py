"""Inputs of the product in nvfp4, its float64 oracle from unpacked numbers, and the roundoff of an fp32 sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from gdnbench.nvfp4 import DISTINCT_ROWS, FP8, draw_pair, stored, unit, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gdnbench import Shape

Tensors = dict[str, torch.Tensor]

AT_ONCE = 1 << 24  # numbers that are unpacked at a time
EXACT = 2.0**24  # multiples of a unit, below which fp32 has all whole ones


def make_inputs(shape: Shape, seed: int, device: str, scenario: str) -> tuple[Tensors, dict[str, float]]:
    """Draws matrices and vectors with their scales.

    From the 258th on, rows of all matrices are those before again: they are drawn on the CPU, so that they are the same
    for all devices.

    Args:
        shape: the workload.
        seed: of every draw.
        device: a torch device.
        scenario: of `gdnbench.nvfp4.draw_pair`, with a as the first factor and b as the second.

    Returns:
        The input tensors, by name, and no scalars.
    """
    random = torch.Generator(device="cpu").manual_seed(seed)
    rows = shape.L * shape.M
    matrices, vectors = draw_pair(min(rows, DISTINCT_ROWS), shape.L, shape.K, scenario, random)
    (a, sfa), (b, sfb) = stored(matrices, rows, device), stored(vectors, shape.L, device)
    sizes = (shape.L, shape.M, -1)
    return {"a": a.view(sizes), "sfa": sfa.view(torch.uint8).view(sizes).view(FP8), "b": b, "sfb": sfb}, {}


def oracle(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """The output in float64."""
    del scalars
    c = torch.empty(tensors["a"].shape[:2], dtype=torch.float64, device=tensors["a"].device)
    for matrix, rows, a, b in _parts(tensors, torch.float64):
        c[matrix, rows] = a @ b
    return {"c": c}


def roundoff(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """What the output may be off by where its terms are added up in fp32, in unit roundoffs (2^-24).

    Every sum of a part of the terms is rounded, K of them in the worst order, and taken to be no larger than the terms'
    2-norm and the last sum together, which holds for terms of random signs and for terms of like signs. As errors of
    random signs they add up to sqrt(K) times that (Higham and Mary, SIAM J. Sci. Comput. 41, 2019, A2815). Where all
    terms of a row are whole multiples of a power of 2 and the sum of their magnitudes is no more than 2^24 of it,
    nothing is rounded, whatever the order.
    """
    del scalars
    size = torch.empty(tensors["a"].shape[:2], device=tensors["a"].device)
    for matrix, rows, a, b in _parts(tensors, torch.float32):
        largest = (a.square() @ b.square()).sqrt() + (a @ b).abs()
        is_exact = a.abs() @ b.abs() <= EXACT * unit(a) * unit(b[None])
        size[matrix, rows] = (a.shape[1] ** 0.5 * largest).masked_fill_(is_exact, 0.0)
    return {"c": size}


def _parts(tensors: Tensors, dtype: torch.dtype) -> Iterator[tuple[int, slice, torch.Tensor, torch.Tensor]]:
    """Some rows of a matrix at a time: its number, which rows, their numbers and those of its vector."""
    matrices, rows, _ = tensors["a"].shape
    step = max(1, AT_ONCE // (2 * tensors["a"].shape[2]))
    for matrix in range(matrices):
        b = unpacked(tensors["b"][matrix, None], tensors["sfb"][matrix, None], dtype)[0]
        for begin in range(0, rows, step):
            part = slice(begin, begin + step)
            yield matrix, part, unpacked(tensors["a"][matrix, part], tensors["sfa"][matrix, part], dtype), b
