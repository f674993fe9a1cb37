"""nvfp4 numbers: packing, scales, draws, and the roundoff of their products.

An op's `numerics.py` imports this module, so that ops on nvfp4 share the format. It imports only torch.

A number is e2m1: ±0, 0.5, 1, 1.5, 2, 3, 4 or 6; a byte holds two, the first in its lower half. Each 16 of a row share a
scale, e4m3 and never negative (NVIDIA, cuBLAS documentation, "1D block scaling"; OCP Microscaling Formats 1.0 for
e2m1). A scaled number has at most 6 significant bits and lies between 2^-10 and 2688, so it is exact in fp16 and bf16,
and a product of two is exact in fp32.
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
"""Magnitudes by the lower three bits of a code; the fourth bit is the sign."""
SIGN = 8
LARGEST = VALUES[-1]
SMALLEST_SCALE = 2.0**-9
NAN = 0x7F  # bits of NaN in e4m3
SMALLEST = SMALLEST_SCALE / 2
"""The smallest positive scaled number: half of the smallest scale."""
DISTINCT_ROWS = 257
"""Distinct rows that are drawn: a prime, so that repetitions align with no tile."""

SCENARIOS = ("typical", "all-codes", "cancelling", "like-signs", "small-scales")
"""The scenarios of `draw_pair`."""
AT_ONCE = 1 << 24
"""Numbers unpacked at a time."""
EXACT = 2.0**22
"""Largest sum, in multiples of a unit, that tensor cores hold exactly even with two bits less than fp32."""
Coded = tuple[torch.Tensor, torch.Tensor]
"""Codes [rows, K], uint8, and scales [rows, K / 16], fp32, not yet rounded to e4m3."""
Stored = tuple[torch.Tensor, torch.Tensor]
"""Bytes [rows, K / 2] and scales [rows, K / 16], e4m3, row-major."""


def draw_pair(
    rows: int, columns: int, K: int, scenario: str, random: torch.Generator, size: float = 1.0
) -> tuple[Coded, Coded]:
    """Draws the codes and scales of two factors, whose rows are multiplied with each other, on the CPU.

    Args:
        rows: of the first factor.
        columns: rows of the second factor.
        K: numbers in a row of either, a multiple of 32.
        scenario: `typical`, normal numbers, each 16 scaled by their largest; `all-codes`, every code and scales between
            1/8 and 1; `cancelling`, scales of 1 and second halves of rows that cancel the first halves' sums except for
            a few numbers, all exact in fp32; `like-signs`, no negative numbers; `small-scales`, subnormal scales of the
            first factor, an eighth of them 0, and large ones of the second.
        random: the CPU's generator.
        size: factor of all scales, a power of 2; `small-scales` multiplies the second's scales by its square.
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
            sfa, sfb = sfa / 4, sfb / 4  # so that sums of 16384 terms stay within fp16
        case "small-scales":
            sfa = SMALLEST_SCALE * torch.randint(0, 8, sfa.shape, generator=random)
            sfb = _uniform(others, 64.0 * size**2, 448.0 * size**2, random)
    return (a, sfa), (b, sfb)


def quantised(sizes: tuple[int, int], random: torch.Generator, size: float = 1.0) -> Coded:
    """Quantises normal numbers with standard deviation `size`; scales map the largest of each 16 to about 6."""
    drawn = size * torch.randn(sizes[0], sizes[1] // BLOCK, BLOCK, generator=random)
    scales = (drawn.abs().amax(-1) / LARGEST).to(FP8).float()
    magnitudes = drawn.abs() / scales[..., None]
    between = torch.tensor([(one + other) / 2 for one, other in pairwise(VALUES)])
    codes = torch.bucketize(magnitudes, between) + SIGN * (drawn < 0)
    return codes.to(torch.uint8).view(sizes), scales


def _uniform(sizes: tuple[int, int], least: float, most: float, random: torch.Generator) -> torch.Tensor:
    return torch.empty(sizes[0], sizes[1] // BLOCK).uniform_(least, most, generator=random)


def stored(coded: Coded, rows: int, device: str) -> Stored:
    """Packs codes and scales on a device; repeats rows if fewer were drawn."""
    codes, scales = coded
    repeated = torch.arange(rows, device=device) % len(codes)
    bits = scales.to(FP8).view(torch.uint8).to(device)[repeated]
    return packed(codes).to(device)[repeated], bits.view(FP8)


def packed(codes: torch.Tensor) -> torch.Tensor:
    """Packs two codes into a byte, the first into its lower half."""
    return codes[:, ::2] | codes[:, 1::2] << 4


def unpacked(bits: torch.Tensor, scales: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Returns the scaled numbers [rows, K] of packed codes; exact in fp16, bf16 and wider types."""
    return looked_up(bits, scales, table(dtype, bits.device))


def table(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Returns the number of each code, [16]. It is copied from the host, which a captured launch must not do."""
    return torch.tensor([*VALUES, *(-value for value in VALUES)], dtype=dtype, device=device)


def looked_up(bits: torch.Tensor, scales: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Unpacks as `unpacked` does, in the dtype of an existing `table`."""
    codes = torch.stack([bits & 15, bits >> 4], dim=-1).flatten(1)
    return (values[codes.int()].view(len(bits), -1, BLOCK) * scales.to(values.dtype)[..., None]).flatten(1)


def folded(rows: torch.Tensor) -> torch.Tensor:
    """Returns the exclusive or of all bytes of each row, [..., 1], the result of floors that only read."""
    while (size := rows.shape[-1]) > 1:
        half, odd = size // 2, rows[..., size - size % 2 :]
        rows = torch.cat([rows[..., :half] ^ rows[..., half : 2 * half], odd], dim=-1)
    return rows


def unit(rows: torch.Tensor) -> torch.Tensor:
    """Returns the largest power of 2 that divides all scaled numbers of a row, [rows]; 1 for a row of zeros."""
    whole = (rows / SMALLEST).to(torch.int32)
    lowest = (whole & -whole).float().masked_fill_(whole == 0, 1 / SMALLEST)
    return lowest.amin(1) * SMALLEST


def tiled_rows(rows: int) -> int:
    """Rounds a number of rows up to whole tiles."""
    return -(-rows // TILE[0]) * TILE[0]


def tiled(scales: torch.Tensor) -> torch.Tensor:
    """Arranges scales in tiles of 128 rows and 4 columns, one tile after the other along a row of tiles.

    Takes [..., rows, columns], e4m3, columns a multiple of 4; returns [..., rows of whole tiles, columns], tiled per
    matrix. The scale of row r and column c of a tile is its byte (r % 32) 16 + (r // 32) 4 + c. Rows beyond the last
    are NaN, which exposes a kernel that uses them.
    """
    *matrices, rows, columns = scales.shape
    whole = torch.full((*matrices, tiled_rows(rows), columns), NAN, dtype=torch.uint8, device=scales.device)
    whole[..., :rows, :] = scales.view(torch.uint8)
    tiles = whole.view(-1, 4, 32, columns // 4, 4).permute(0, 3, 2, 1, 4)
    return tiles.reshape(whole.shape).view(FP8)


def untiled(scales: torch.Tensor, rows: int) -> torch.Tensor:
    """Inverts `tiled`: returns [rows, columns] of [rows of whole tiles, columns]."""
    columns = scales.shape[1]
    tiles = scales.view(torch.uint8).view(-1, columns // 4, 32, 4, 4).permute(0, 3, 2, 1, 4)
    return tiles.reshape(scales.shape)[:rows].contiguous().view(FP8)


def product(a: Stored, b: Stored) -> torch.Tensor:
    """Returns A times B transposed, [rows of a, rows of b], in float64; its terms are exact."""
    rows = unpacked(*a, torch.float64)
    parts = [rows @ part.T for part in _parts(b, torch.float64)]
    return torch.cat(parts, dim=1)


def product_roundoff(a: Stored, b: Stored) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the product in fp32 and a bound on its error in unit roundoffs (2^-24), both [rows of a, rows of b].

    The bound is for terms added up in fp32. Every partial sum is rounded, K of them in the worst order, and taken to be
    at most the terms' 2-norm plus the last sum, which holds for terms of random signs and of like signs. As errors of
    random signs they add up to sqrt(K) times that (Higham and Mary, SIAM J. Sci. Comput. 41, 2019, A2815). Tensor cores
    that cut off 2 units of the sum after each 16 terms err by at most K / 16 of it where signs are alike; 8 times this
    bound covers that up to K = 16384.

    Where all terms of an element are whole multiples of a power of 2 and their magnitudes sum to at most 2^22 of it, no
    order rounds anything.
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
    bits, scales = stored_rows
    step = max(1, AT_ONCE // (2 * bits.shape[1]))
    for begin in range(0, len(bits), step):
        yield unpacked(bits[begin : begin + step], scales[begin : begin + step], dtype)
