"""fp32 arithmetic as GPUs have it, in torch on the CPU: fused multiply-adds, special functions, orders of summation.

Everything takes and gives fp32 tensors. What torch does not have is computed in float64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

LOG2_E = 1.442695041
LN_2 = 0.6931471805599453
SMALLEST_NORMAL = 2.0**-126

Dot = Callable[[Tensor, Tensor], Tensor]
"""The sums of products along the last axis, of a multiple of 64 terms; the second factor broadcasts to the first."""


def fma(x: Tensor | float, y: Tensor, z: Tensor) -> Tensor:
    """The fused x y + z, rounded once: the product of two fp32 is exact in float64."""
    wide = x.double() if isinstance(x, Tensor) else x
    return (wide * y.double() + z.double()).float()


@dataclass(frozen=True)
class SpecialFunctions:
    """2^x, log2 x and 1/x with errors as large as the PTX ISA allows: 2 ulp, 2^-22, 1 ulp.

    The error of log2 is absolute in (0.5, 2), relative elsewhere.

    Attributes:
        random: draws each error uniformly between its limits.
        always: instead of a random error: all of it, 1 towards larger results of the gates, -1 towards smaller; 0 for
            random errors.
    """

    random: torch.Generator
    always: int = 0

    def ex2(self, x: Tensor, *, towards: int = 1) -> Tensor:
        """2^x, flushed to zero below the normal numbers; `towards` is the sign by which it changes the result."""
        return self._off(torch.exp2(x.double()), 2.0, towards)

    def rcp(self, x: Tensor, *, towards: int = 1) -> Tensor:
        """1/x."""
        return self._off(1 / x.double(), 1.0, towards)

    def lg2(self, x: Tensor, *, towards: int = 1) -> Tensor:
        """log2 x."""
        exact = torch.log2(x.double())
        scale = torch.where((x > 0.5) & (x < 2), 1.0, exact.abs())
        return (exact + 2.0**-22 * scale * self._error(x, towards)).float()

    def _error(self, like: Tensor, towards: int) -> Tensor:
        if self.always:
            return torch.full(like.shape, float(self.always * towards), dtype=torch.float64)
        return 2 * torch.rand(like.shape, generator=self.random, dtype=torch.float64) - 1

    def _off(self, exact: Tensor, ulps: float, towards: int) -> Tensor:
        _, exponent = torch.frexp(exact)
        ulp = torch.where(exact == 0, 0.0, torch.ldexp(torch.ones_like(exact), exponent - 24))
        found = (exact + ulps * ulp * self._error(exact, towards)).float()
        return torch.where(found < SMALLEST_NORMAL, 0.0, found)


def log1p_polynomial(u: Tensor) -> Tensor:
    """log(1 + u) for u in [0, 1] by the polynomial of `kernels/decode/gdn.cuh`, in its order."""
    constant = torch.full_like
    u2 = u * u
    u4 = u2 * u2
    p01 = fma(-0.49999446, u, constant(u, 0.99999994))
    p23 = fma(-0.24835399, u, constant(u, 0.3331812))
    p45 = fma(-0.13602248, u, constant(u, 0.19076881))
    p67 = fma(-0.029074065, u, constant(u, 0.077516086))
    high = fma(u4, constant(u, 0.0051261024), fma(u2, p67, p45))
    return u * fma(u4, high, fma(u2, p23, p01))


def one_chain(x: Tensor, y: Tensor) -> Tensor:
    """One multiply-add after the other: of all orders the one that loses most."""
    total = x[..., 0] * y[..., 0]
    for place in range(1, x.shape[-1]):
        total = fma(x[..., place], y[..., place], total)
    return total


def four_a_lane(x: Tensor, y: Tensor) -> Tensor:
    """A chain of four in each of the lanes, then a tree over lanes: decode-v1 to v6."""
    x, y = (tensor.reshape(*tensor.shape[:-1], -1, 4) for tensor in (x, y.expand_as(x)))
    total = x[..., 3] * y[..., 3]
    for place in (2, 1, 0):
        total = fma(x[..., place], y[..., place], total)
    return tree(total)


def two_chains(x: Tensor, y: Tensor) -> Tensor:
    """Two chains of four in each of 16 lanes, then a tree over lanes: decode-v8 and v9."""
    quads = (tensor.reshape(*tensor.shape[:-1], -1, 16, 4) for tensor in (x, y.expand_as(x)))
    x, y = (torch.cat(quad.unbind(-3), -1) for quad in quads)  # [..., 16, 4 of each quad]
    chains = []
    for first in (0, 1):
        total = x[..., first] * y[..., first]
        for place in range(first + 2, x.shape[-1], 2):
            total = fma(x[..., place], y[..., place], total)
        chains.append(total)
    return tree(chains[0] + chains[1])


def rounded_tree(x: Tensor, y: Tensor) -> Tensor:
    """Each product rounded, then a tree: Triton's reductions."""
    return tree(x * y)


def shuffled(random: torch.Generator) -> Dot:
    """One sum after the other in an order drawn anew each time, each product rounded first."""

    def dot(x: Tensor, y: Tensor) -> Tensor:
        products = x * y
        order = torch.randperm(products.shape[-1], generator=random).tolist()
        total = products[..., order[0]]
        for place in order[1:]:
            total = total + products[..., place]
        return total

    return dot


def tree(x: Tensor) -> Tensor:
    """The sum of the last axis, halved until one is left."""
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        x = x[..., :half] + x[..., half:]
    return x[..., 0]
