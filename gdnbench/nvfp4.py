"""Numbers in nvfp4: how they are packed and scaled, draws of them, and the roundoff of their products.

An op's `numerics.py` imports it, so that ops on nvfp4 agree on the format without a file of each other's. It imports
torch, and nothing of gdnbench.

A number is e2m1, ±0, 0.5, 1, 1.5, 2, 3, 4 or 6; two lie in a byte, the first in its lower half. Each 16 of a row share
a scale, e4m3 and never negative (NVIDIA, cuBLAS documentation, "1D block scaling"; OCP Microscaling Formats 1.0 for
e2m1). A scaled number has at most 6 significant bits and lies between 2^-10 and 2688, so that it is exact in fp16 and
in bf16, and a product of two is exact in fp32.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch

BLOCK = 16
"""Numbers that share a scale."""
TILE = (128, 4)
"""Rows and columns of a tile of scales, 512 bytes, in the layout that `torch._scaled_mm` takes."""
FP8 = torch.float8_e4m3fn
VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Of the lower three bits of a code; the fourth is the sign."""
SIGN = 8
LARGEST = VALUES[-1]
SMALLEST_SCALE = 2.0**-9
NAN = 0x7F  # of e4m3, its bits
SMALLEST = SMALLEST_SCALE / 2
"""Of a scaled number: half of the smallest scale."""
DISTINCT_ROWS = 257
"""A prime: what repeats after so many rows repeats with no tile."""

SCENARIOS = ("typical", "all-codes", "cancelling", "like-signs", "small-scales")
"""The kinds of factors that `draw_pair` knows."""
AT_ONCE = 1 << 24
"""Numbers that are unpacked at a time."""
EXACT = 2.0**22
"""Multiples of a unit that sums on tensor cores hold, too, should these keep two bits less than fp32 has."""
Coded = tuple[torch.Tensor, torch.Tensor]
"""Codes [rows, K], uint8, and scales [rows, K / 16], fp32 numbers that may be between two of e4m3."""
Stored = tuple[torch.Tensor, torch.Tensor]
"""Bytes [rows, K / 2] and scales [rows, K / 16], e4m3, row after row."""


def draw_pair(
    rows: int, columns: int, K: int, scenario: str, random: torch.Generator, size: float = 1.0
) -> tuple[Coded, Coded]:
    """Draws two factors whose rows are multiplied with each other, on the CPU.

    Args:
        rows: of the first factor.
        columns: rows of the second factor.
        K: numbers in a row of either, a multiple of 32.
        scenario: `typical`, normal numbers, each 16 scaled by their largest; `all-codes`, every code and scales between
            1/8 and 1; `cancelling`, scales of 1 and second halves of rows that take the first halves' sums off but for
            a few numbers, all exact in fp32; `like-signs`, no negative numbers; `small-scales`, subnormal scales of
            the first factor, an eighth of them 0, and large ones of the second.
        random: the CPU's generator.
        size: that scales of either are multiplied by, a power of 2; in `small-scales` the second's, by its square.

    Returns:
        Codes and scales of the first factor, and of the second.
    """
    sizes, others = (rows, K), (columns, K)
    if scenario == "typical":
        return quantised(sizes, random, size), quantised(others, random, size)
    a, b = (torch.randint(0, 16, each, generator=random, dtype=torch.uint8) for each in (sizes, others))
    sfa, sfb = (_uniform(each, size / 8, size, random) for each in (sizes, others))
    match scenario:
        case "cancelling":
            half = K // 2
            a[:, half:], b[:, half:] = a[:, :half], b[:, :half] ^ SIGN
            a[:, half : half + BLOCK] = torch.randint(0, 16, (rows, BLOCK), generator=random, dtype=torch.uint8)
            sfa, sfb = torch.full_like(sfa, size), torch.full_like(sfb, size)
        case "like-signs":
            a, b = a & (SIGN - 1), b & (SIGN - 1)
            sfa, sfb = sfa / 4, sfb / 4  # so that 16384 of them stay within fp16
        case "small-scales":
            sfa = SMALLEST_SCALE * torch.randint(0, 8, sfa.shape, generator=random)
            sfb = _uniform(others, 64.0 * size**2, 448.0 * size**2, random)
    return (a, sfa), (b, sfb)


def quantised(sizes: tuple[int, int], random: torch.Generator, size: float = 1.0) -> Coded:
    """Codes of normal numbers of this standard deviation, and scales by which the largest of each 16 is about 6."""
    drawn = size * torch.randn(sizes[0], sizes[1] // BLOCK, BLOCK, generator=random)
    scales = (drawn.abs().amax(-1) / LARGEST).to(FP8).float()
    magnitudes = drawn.abs() / scales[..., None]
    between = torch.tensor([(one + other) / 2 for one, other in pairwise(VALUES)])
    codes = torch.bucketize(magnitudes, between) + SIGN * (drawn < 0)
    return codes.to(torch.uint8).view(sizes), scales


def _uniform(sizes: tuple[int, int], least: float, most: float, random: torch.Generator) -> torch.Tensor:
    return torch.empty(sizes[0], sizes[1] // BLOCK).uniform_(least, most, generator=random)


def stored(coded: Coded, rows: int, device: str) -> Stored:
    """Codes and scales as they are stored, on a device; rows are repeated where fewer were drawn."""
    codes, scales = coded
    repeated = torch.arange(rows, device=device) % len(codes)
    bits = scales.to(FP8).view(torch.uint8).to(device)[repeated]
    return packed(codes).to(device)[repeated], bits.view(FP8)


def packed(codes: torch.Tensor) -> torch.Tensor:
    """Two codes a byte, the first in its lower half."""
    return codes[:, ::2] | codes[:, 1::2] << 4


def unpacked(bits: torch.Tensor, scales: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """[rows, K], scaled numbers of packed ones and their scales; exact in fp16, bf16 and what is wider."""
    return looked_up(bits, scales, table(dtype, bits.device))


def table(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """[16], the number of each code. It is copied from the host, which no launch that is captured may do."""
    return torch.tensor([*VALUES, *(-value for value in VALUES)], dtype=dtype, device=device)


def looked_up(bits: torch.Tensor, scales: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """As `unpacked`, in the dtype of a `table` that is there already."""
    codes = torch.stack([bits & 15, bits >> 4], dim=-1).flatten(1)
    return (values[codes.int()].view(len(bits), -1, BLOCK) * scales.to(values.dtype)[..., None]).flatten(1)


def folded(rows: torch.Tensor) -> torch.Tensor:
    """[..., 1], the exclusive or of all bytes of each row: what floors that read leave of it."""
    while (size := rows.shape[-1]) > 1:
        half, odd = size // 2, rows[..., size - size % 2 :]
        rows = torch.cat([rows[..., :half] ^ rows[..., half : 2 * half], odd], dim=-1)
    return rows


def unit(rows: torch.Tensor) -> torch.Tensor:
    """[rows], the largest power of 2 of which all scaled numbers of a row are whole multiples; 1 for a row of zeros."""
    whole = (rows / SMALLEST).to(torch.int32)
    lowest = (whole & -whole).float().masked_fill_(whole == 0, 1 / SMALLEST)
    return lowest.amin(1) * SMALLEST


def tiled_rows(rows: int) -> int:
    """Rows of a tensor of scales in tiles: those of whole tiles."""
    return -(-rows // TILE[0]) * TILE[0]


def tiled(scales: torch.Tensor) -> torch.Tensor:
    """Scales in tiles of 128 rows and 4 columns, one tile after the other along a row of tiles.

    The scale of row r and column c of a tile is its byte (r % 32) 16 + (r // 32) 4 + c. What is beyond the last row is
    NaN, so that a kernel that lets it in is found.

    Args:
        scales: [..., rows, columns] in e4m3, columns a multiple of 4; each matrix has tiles of its own.

    Returns:
        [..., rows of whole tiles, columns] in e4m3, whose bytes are in this order.
    """
    *matrices, rows, columns = scales.shape
    whole = torch.full((*matrices, tiled_rows(rows), columns), NAN, dtype=torch.uint8, device=scales.device)
    whole[..., :rows, :] = scales.view(torch.uint8)
    tiles = whole.view(-1, 4, 32, columns // 4, 4).permute(0, 3, 2, 1, 4)
    return tiles.reshape(whole.shape).view(FP8)


def untiled(scales: torch.Tensor, rows: int) -> torch.Tensor:
    """[rows, columns], of which `tiled` made [rows of whole tiles, columns]."""
    columns = scales.shape[1]
    tiles = scales.view(torch.uint8).view(-1, columns // 4, 32, 4, 4).permute(0, 3, 2, 1, 4)
    return tiles.reshape(scales.shape)[:rows].contiguous().view(FP8)


def product(a: Stored, b: Stored) -> torch.Tensor:
    """[rows of a, rows of b] in float64, A times B transposed; its terms are exact."""
    rows = unpacked(*a, torch.float64)
    parts = [rows @ part.T for part in _parts(b, torch.float64)]
    return torch.cat(parts, dim=1)


def product_roundoff(a: Stored, b: Stored) -> tuple[torch.Tensor, torch.Tensor]:
    """The product in fp32, and what it may be off by where its terms are added up in fp32, in unit roundoffs (2^-24).

    Every sum of a part of the terms is rounded, K of them in the worst order, and taken to be no larger than the terms'
    2-norm and the last sum together, which holds for terms of random signs and for terms of like signs. As errors of
    random signs they add up to sqrt(K) times that (Higham and Mary, SIAM J. Sci. Comput. 41, 2019, A2815). Tensor cores
    that cut off 2 units of the sum after each 16 terms err by K / 16 of it at most where signs are alike, which 8 times
    this holds up to K = 16384.

    Where all terms of an element are whole multiples of a power of 2 and the sum of their magnitudes is no more than
    2^22 of it, nothing is rounded, whatever the order.

    Returns:
        The product and its roundoff, both [rows of a, rows of b].
    """
    rows = unpacked(*a, torch.float32)
    terms, squares, magnitudes, whole = rows.shape[1], rows.square(), rows.abs(), EXACT * unit(rows)[:, None]
    products, sizes = [], []
    for part in _parts(b, torch.float32):
        found = rows @ part.T
        size = terms**0.5 * ((squares @ part.square().T).sqrt_() + found.abs())
        is_exact = magnitudes @ part.abs().T <= whole * unit(part)
        products.append(found)
        sizes.append(size.masked_fill_(is_exact, 0.0))
    return torch.cat(products, dim=1), torch.cat(sizes, dim=1)


def _parts(stored_rows: Stored, dtype: torch.dtype) -> Iterator[torch.Tensor]:
    """Numbers of some rows at a time."""
    bits, scales = stored_rows
    step = max(1, AT_ONCE // (2 * bits.shape[1]))
    for begin in range(0, len(bits), step):
        yield unpacked(bits[begin : begin + step], scales[begin : begin + step], dtype)
