"""Numbers in nvfp4 decoded by their bits, not by the package's way, and mistakes that kernels make with them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import torch

E2M1 = {0: 0, 1: 0.5, 2: 1, 3: 1.5, 4: 2, 5: 3, 6: 4, 7: 6}
FACTOR_MISTAKES = (
    "halves of bytes exchanged",
    "the sign is left out",
    "subnormal numbers are zero",
    "subnormal numbers are read as normal ones",
    "e2m1 is read as e1m2",
    "codes are whole numbers",
    "the next block's scale",
    "a scale for each 32",
    "subnormal scales are zero",
    "scales are powers of two",
    "scales are read as e5m2",
)
"""What `scaled` does where it is asked to."""
TERM_MISTAKES = ("no scales", "a scaled number is rounded to e4m3", "the last block is missing")
"""What is done to a whole factor, by `scaled`, too."""


def codes(bits: torch.Tensor, mistake: str = "") -> torch.Tensor:
    """[..., K] of bytes [..., K / 2]."""
    low, high = bits & 15, bits >> 4
    return torch.stack([high, low] if mistake == "halves of bytes exchanged" else [low, high], -1).flatten(-2)


def numbers(of: torch.Tensor, mistake: str = "") -> torch.Tensor:
    """Values of codes, by the bits of e2m1 one by one."""
    sign, exponent, significand = of >> 3, (of >> 1 & 3).double(), (of & 1).double()
    if mistake == "the sign is left out":
        sign = torch.zeros_like(sign)
    subnormal = significand / 2
    if mistake == "subnormal numbers are zero":
        subnormal = torch.zeros_like(subnormal)
    if mistake == "subnormal numbers are read as normal ones":
        subnormal = (1 + significand / 2) / 2
    normal = 2.0 ** (exponent - 1) * (1 + significand / 2)
    if mistake == "e2m1 is read as e1m2":
        normal, subnormal = (of & 7).double() / 2, (of & 7).double() / 2
    if mistake == "codes are whole numbers":
        return torch.where(of >= 8, of.double() - 16, of.double())
    return torch.where(exponent == 0, subnormal, normal) * (1 - 2 * sign.double())


def spread(scales: torch.Tensor, mistake: str = "") -> torch.Tensor:
    """A scale for each number."""
    if mistake == "scales are read as e5m2":
        scales = scales.view(torch.uint8).view(torch.float8_e5m2)
    scales = scales.double()
    if mistake == "the next block's scale":
        scales = scales.roll(-1, dims=-1)
    if mistake == "a scale for each 32":
        scales = scales[..., ::2].repeat_interleave(2, dim=-1)
    if mistake == "subnormal scales are zero":
        scales = torch.where(scales < 2.0**-6, 0.0, scales)
    if mistake == "scales are powers of two":
        scales = torch.where(scales > 0, 2.0 ** torch.floor(torch.log2(scales)), 0.0)
    return scales.repeat_interleave(16, dim=-1)


def scaled(bits: torch.Tensor, scales: torch.Tensor, mistake: str = "") -> torch.Tensor:
    """Scaled numbers [..., K] in float64 of bytes and plain scales."""
    found = numbers(codes(bits, mistake), mistake)
    if mistake != "no scales":
        found = found * spread(scales, mistake)
    if mistake == "a scaled number is rounded to e4m3":
        found = found.float().clamp(-448, 448).to(torch.float8_e4m3fn).double()
    if mistake == "the last block is missing":
        found[..., -16:] = 0.0
    return found


def exact(bits: torch.Tensor, scales: torch.Tensor, k: int) -> Fraction:
    """The k-th scaled number of a row of bytes and of its plain scales."""
    code = int(bits[k // 2]) >> 4 * (k % 2) & 15
    return Fraction(E2M1[code & 7]) * (-1 if code & 8 else 1) * Fraction(float(scales[k // 16]))


def exact_sum(a: tuple[torch.Tensor, torch.Tensor], b: tuple[torch.Tensor, torch.Tensor]) -> Fraction:
    """The sum of products of two rows, each bytes and plain scales; nothing is rounded."""
    return sum((exact(*a, k) * exact(*b, k) for k in range(2 * len(a[0]))), Fraction(0))


def by_tile(scales: torch.Tensor, row: int, block: int) -> float:
    """The scale of a row and a block in tiles [rows, blocks], by cuBLAS' formula for the offset of a byte."""
    tile = row // 128 * (scales.shape[-1] // 4) + block // 4
    return float(scales.flatten()[512 * tile + row % 32 * 16 + row % 128 // 32 * 4 + block % 4])


Total = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""A product [rows, columns] of scaled numbers [rows, K] and [columns, K]."""


def whole(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b.T


def in_steps(dtype: torch.dtype, step: int) -> Total:
    """Products that are rounded after each `step` terms."""

    def total(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        found = torch.zeros(len(a), len(b), dtype=dtype)
        for k in range(0, a.shape[1], step):
            found = (found.double() + a[:, k : k + step] @ b[:, k : k + step].T).to(dtype)
        return found.double()

    return total


NARROW_SUMS = {
    f"{name}, {step} at once": in_steps(dtype, step)
    for name, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16))
    for step in (16, 256)
}


def in_parts(dtype: torch.dtype, parts: int) -> Total:
    """A product whose parts, of so many along K, are rounded before they are added up."""

    def total(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        pairs = zip(a.chunk(parts, 1), b.chunk(parts, 1), strict=True)
        return torch.stack([(one @ other.T).to(dtype).double() for one, other in pairs]).sum(0)

    return total
