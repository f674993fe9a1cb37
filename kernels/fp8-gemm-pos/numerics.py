"""Inputs of the product in fp8, its float64 oracle, and the roundoff of what tensor cores make of fp8."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gdnbench import Shape

Tensors = dict[str, torch.Tensor]

FP8 = torch.float8_e4m3fn
LARGEST = 448.0  # of e4m3
SMALLEST = 2.0**-9  # of e4m3, a subnormal
DISTINCT_ROWS = 4099  # a prime: what repeats after so many rows repeats with no tile and no image
BLOCK = 1 << 25  # elements of C that are worked out at a time
WHOLE = 1024  # columns, of which sums of products of 6 are below 2^13
OUTLIER = 60.0  # times as large as the other channels
INSTRUCTION = 32  # products that a tensor core adds to a sum at once
KEPT_BITS = 13  # behind the leading one, of each of these terms and of the sum
CUT = 2.0 ** (24 - KEPT_BITS)  # in unit roundoffs of fp32
ROUNDED_AFTER = 4.0  # the product of the scales, that with the sum, the addition; and one to spare


def make_inputs(shape: Shape, seed: int, device: str, scenario: str) -> tuple[Tensors, dict[str, float]]:
    """Draws patches, weights, scales and a table.

    From the 4099th on, A's rows are those before again: they are drawn on the CPU, so that they are the same for all
    devices, and 4099 is a prime, so that a row, its place in a tile and its row of the table come together once.

    Args:
        shape: the workload.
        seed: of every draw.
        device: a torch device.
        scenario: `typical`, normal numbers quantised by their largest; `cancelling`, whole numbers, 0 in
            all but 1024 columns, whose sums tensor cores do not round, and a table that takes nearly all of them off;
            `outliers`, one channel of A 60 times as large as the others; `large`, numbers between 128 and 448 of either
            sign, whose sums no fp16 holds; `subnormal`, numbers below e4m3's normal ones.

    Returns:
        The input tensors, by name, and no scalars.
    """
    random = torch.Generator(device="cpu").manual_seed(seed)
    rows, columns = (min(shape.M, DISTINCT_ROWS), shape.K), (shape.N, shape.K)
    table = 0.5 * torch.randn(shape.P, shape.N, generator=random)
    match scenario:
        case "cancelling":
            a, scale_a = torch.randint(1, 4, rows, generator=random).float(), 2.0**-5
            b, scale_b = torch.randint(2, 5, columns, generator=random).float(), 2.0**-3
            a[:, torch.randperm(shape.K, generator=random)[WHOLE:]] = 0.0
            table = scale_a * scale_b * _taken_off(shape, random)
        case "large":
            a, scale_a = _signed(torch.empty(rows).uniform_(128.0, LARGEST, generator=random), random), 3e-4
            b, scale_b = _signed(torch.empty(columns).uniform_(128.0, LARGEST, generator=random), random), 2e-3
        case "subnormal":
            a, scale_a = SMALLEST * torch.randint(-3, 4, rows, generator=random), 300.0
            b, scale_b = SMALLEST * torch.randint(-3, 4, columns, generator=random), 50.0
        case _:
            a, b = (torch.randn(size, generator=random) for size in (rows, columns))
            if scenario == "outliers":
                a[:, shape.K // 3] *= OUTLIER
            scale_a, scale_b = (float(each.abs().max()) / LARGEST for each in (a, b))
            a, b, scale_b = a / scale_a, b / scale_b, scale_b * shape.K**-0.5
    repeated = torch.arange(shape.M, device=device) % DISTINCT_ROWS
    return {
        "A": a.to(FP8).to(device).view(torch.uint8)[repeated].view(FP8),
        "B": b.to(FP8).to(device),
        "scale_a": torch.tensor([scale_a], device=device),
        "scale_b": torch.tensor([scale_b], device=device),
        "table": table.bfloat16().to(device),
    }, {}


def _signed(sizes: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    return sizes * (2 * torch.randint(0, 2, sizes.shape, generator=random) - 1)


def _taken_off(shape: Shape, random: torch.Generator) -> torch.Tensor:
    """[P, N], negative, about the sum of products of mean 6, in whole units in the last place of bf16."""
    usual = 6.0 * min(shape.K, WHOLE)
    unit = 2.0 ** (math.floor(math.log2(usual)) - 7)
    return -unit * (round(usual / unit) + torch.randint(-2, 3, (shape.P, shape.N), generator=random))


def oracle(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """The output in float64, in which the product is exact: of 2^-18 to 2^18 K, it has fewer than 53 bits."""
    del scalars
    columns = tensors["B"].double().T
    scale = tensors["scale_a"].double() * tensors["scale_b"].double()
    C = torch.empty(len(tensors["A"]), len(tensors["B"]), dtype=torch.float64, device=tensors["A"].device)
    for rows in _blocks(*C.shape):
        C[rows] = scale * (tensors["A"][rows].double() @ columns) + _table(tensors, rows).double()
    return {"C": C}


def roundoff(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """What the output may be off by, in unit roundoffs of fp32 (2^-24), where tensor cores add up the products.

    Hopper's add 32 products of fp8 to a sum at once: all are shifted to the largest one's exponent and cut off behind
    13 more bits, and so is the sum (DeepSeek-AI, DeepSeek-V3 Technical Report, arXiv 2412.19437, 2024, section 3.5.2;
    Xie, Wang, Yang and Yang, MMA-Sim, arXiv 2511.10909, 2025). So each of K / 32 instructions errs by up to 2^-13 of
    the largest of its terms. No product exceeds their 2-norm; the sums before the last one are taken to be no larger
    than that and the last one together, which holds for terms of random signs and for terms of like signs. As errors
    of random signs these add up to sqrt(K / 32) times that (Higham and Mary, SIAM J. Sci. Comput. 41, 2019, A2815).
    An fp32 sum of K terms, rounded in any order, is within it for K below 2^17, for sqrt(K) sum |a b| <= K |a b|_2.

    Nothing is cut off or rounded where all products of a row and a column are whole multiples of a power of 2 and the
    sum of their magnitudes is no more than 2^13 of it, in whatever order they add up. Then only what comes after the
    sum counts, which is fp32's own: one rounding each for the scales' product, that with the sum, and the addition.

    What it does not hold is a long sum of terms of like signs that is not exact: cutting off errs towards zero each
    time. No scenario has that.
    """
    del scalars
    b = tensors["B"].float()
    terms = b.shape[1]
    scale = tensors["scale_a"] * tensors["scale_b"]
    found = torch.empty(len(tensors["A"]), len(b), device=b.device)
    for rows in _blocks(*found.shape):
        a = tensors["A"][rows].float()
        product = (a @ b.T).abs_()
        norm = (a.square() @ b.square().T).sqrt_()
        is_exact = a.abs() @ b.abs().T <= 2.0**KEPT_BITS * _unit(a) * _unit(b).T
        cut = (norm.add_(product)).mul_(CUT * math.sqrt(terms / INSTRUCTION)).masked_fill_(is_exact, 0.0)
        found[rows] = scale * cut.add_(product, alpha=ROUNDED_AFTER) + _table(tensors, rows).float().abs()
    return {"C": found}


def _unit(rows: torch.Tensor) -> torch.Tensor:
    """[rows, 1], the largest power of 2 of which all elements of a row of e4m3 are whole multiples."""
    whole = (rows / SMALLEST).to(torch.int32)
    lowest = (whole & -whole).float().masked_fill_(whole == 0, torch.inf)
    return lowest.amin(1, keepdim=True).clamp_(max=LARGEST / SMALLEST) * SMALLEST


def _blocks(rows: int, columns: int) -> Iterator[slice]:
    step = max(1, BLOCK // columns)
    for begin in range(0, rows, step):
        yield slice(begin, min(begin + step, rows))


def _table(tensors: Tensors, rows: slice) -> torch.Tensor:
    """The row of the table for each of these rows."""
    table = tensors["table"]
    return table[torch.arange(rows.start, rows.stop, device=table.device) % len(table)]
