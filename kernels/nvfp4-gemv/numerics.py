"""Inputs of the product in nvfp4, its float64 oracle from unpacked numbers, and the roundoff of an fp32 sum."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gdnbench import Shape

Tensors = dict[str, torch.Tensor]

BLOCK = 16  # numbers that share a scale
FP8 = torch.float8_e4m3fn
VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # of the lower three bits of a code
LARGEST = 6.0
SIGN = 8  # of a code
SMALLEST = 2.0**-10  # of a scaled number: half of the smallest scale
SMALLEST_SCALE = 2.0**-9
DISTINCT_ROWS = 257  # a prime: what repeats after so many rows repeats with no tile
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
        scenario: `typical`, normal numbers, each 16 scaled by their largest; `all-codes`, every code and scales
            between 1/8 and 1; `cancelling`, scales of 1 and second halves of rows that take the first halves' sums off
            but for a few numbers, all exact in fp32; `like-signs`, no negative numbers; `small-scales`, subnormal
            scales of a, an eighth of them 0, and large ones of b.

    Returns:
        The input tensors, by name, and no scalars.
    """
    random = torch.Generator(device="cpu").manual_seed(seed)
    rows, vectors = (min(shape.L * shape.M, DISTINCT_ROWS), shape.K), (shape.L, shape.K)
    if scenario == "typical":
        (a, sfa), (b, sfb) = _quantised(rows, random), _quantised(vectors, random)
    else:
        a, b = (torch.randint(0, 16, sizes, generator=random, dtype=torch.uint8) for sizes in (rows, vectors))
        sfa, sfb = (_uniform(sizes, 0.125, 1.0, random) for sizes in (rows, vectors))
    match scenario:
        case "cancelling":
            half = shape.K // 2
            a[:, half:], b[:, half:] = a[:, :half], b[:, :half] ^ SIGN
            a[:, half : half + BLOCK] = torch.randint(0, 16, (rows[0], BLOCK), generator=random, dtype=torch.uint8)
            sfa, sfb = torch.ones_like(sfa), torch.ones_like(sfb)
        case "like-signs":
            a, b = a & (SIGN - 1), b & (SIGN - 1)
            sfa, sfb = sfa / 4, sfb / 4  # so that 16384 of them stay within fp16
        case "small-scales":
            sfa = SMALLEST_SCALE * torch.randint(0, 8, sfa.shape, generator=random)
            sfb = _uniform(vectors, 64.0, 448.0, random)
    repeated = torch.arange(shape.L * shape.M, device=device) % DISTINCT_ROWS
    sizes = (shape.L, shape.M, -1)
    return {
        "a": _packed(a).to(device)[repeated].view(sizes),
        "sfa": sfa.to(FP8).view(torch.uint8).to(device)[repeated].view(sizes).view(FP8),
        "b": _packed(b).to(device),
        "sfb": sfb.to(FP8).to(device),
    }, {}


def _uniform(sizes: tuple[int, int], least: float, most: float, random: torch.Generator) -> torch.Tensor:
    return torch.empty(sizes[0], sizes[1] // BLOCK).uniform_(least, most, generator=random)


def _quantised(sizes: tuple[int, int], random: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes of normal numbers, and scales by which the largest of each 16 is about 6."""
    drawn = torch.randn(sizes[0], sizes[1] // BLOCK, BLOCK, generator=random)
    scales = (drawn.abs().amax(-1) / LARGEST).to(FP8).float()
    magnitudes = drawn.abs() / scales[..., None]
    between = torch.tensor([(one + other) / 2 for one, other in pairwise(VALUES)])
    codes = torch.bucketize(magnitudes, between) + SIGN * (drawn < 0)
    return codes.to(torch.uint8).view(sizes), scales


def _packed(codes: torch.Tensor) -> torch.Tensor:
    """Two codes a byte, the first in its lower half."""
    return codes[:, ::2] | codes[:, 1::2] << 4


def unpacked(bits: torch.Tensor, scales: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """[rows, K], scaled numbers of packed ones and their scales; exact in fp32."""
    values = torch.tensor([*VALUES, *(-value for value in VALUES)], dtype=dtype, device=bits.device)
    codes = torch.stack([bits & 15, bits >> 4], dim=-1).flatten(1)
    return (values[codes.int()].view(len(bits), -1, BLOCK) * scales.to(dtype)[..., None]).flatten(1)


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
        is_exact = a.abs() @ b.abs() <= EXACT * _unit(a) * _unit(b[None])
        size[matrix, rows] = (a.shape[1] ** 0.5 * largest).masked_fill_(is_exact, 0.0)
    return {"c": size}


def _unit(rows: torch.Tensor) -> torch.Tensor:
    """[rows], the largest power of 2 of which all numbers of a row are whole multiples; 1 for a row of zeros."""
    whole = (rows / SMALLEST).to(torch.int32)
    lowest = (whole & -whole).float().masked_fill_(whole == 0, 1 / SMALLEST)
    return lowest.amin(1) * SMALLEST


def _parts(tensors: Tensors, dtype: torch.dtype) -> Iterator[tuple[int, slice, torch.Tensor, torch.Tensor]]:
    """Some rows of a matrix at a time: its number, which rows, their numbers and those of its vector."""
    matrices, rows, _ = tensors["a"].shape
    step = max(1, AT_ONCE // (2 * tensors["a"].shape[2]))
    for matrix in range(matrices):
        b = unpacked(tensors["b"][matrix, None], tensors["sfb"][matrix, None], dtype)[0]
        for begin in range(0, rows, step):
            part = slice(begin, begin + step)
            yield matrix, part, unpacked(tensors["a"][matrix, part], tensors["sfa"][matrix, part], dtype), b
