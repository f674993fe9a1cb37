"""Arithmetic in bf16 and conversions to fp8, for Triton's interpreter; see `interpreted`."""

import torch
import triton
import triton.language as tl

N = 256


@triton.jit
def computed(x, y, z, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(z + i, a + b)
    tl.store(z + N + i, a * b - 1.0)
    tl.store(z + 2 * N + i, tl.where(a < b, -a, tl.abs(b)))
    tl.store(z + 3 * N + i, (a >= b).to(tl.bfloat16))
    tl.store(z + 4 * N + i, tl.zeros([N], tl.bfloat16) + tl.sum(a, axis=0))
    tl.store(z + 5 * N + i, tl.cumsum(b, axis=0))
    tl.store(z + 6 * N + i, tl.fma(a, b, a))


@triton.jit
def converted(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i).to(y.dtype.element_ty))


def computed_in_bf16():
    """What the interpreter gives in bf16, and torch; seven rows each, of which the last may differ by an ulp."""
    x, y = torch.randn((2, N), generator=torch.Generator().manual_seed(1)).bfloat16()
    z = torch.zeros((7, N), dtype=torch.bfloat16)
    computed[(1,)](x, y, z, N=N)
    a, b = x.float(), y.float()
    less, sums = torch.where(x < y, -x, y.abs()), a.sum().expand(N)
    rows = [a + b, (x * y).float() - 1, less.float(), (x >= y).float(), sums, b.cumsum(0), a * b + a]
    return z.float().tolist(), torch.stack(rows).bfloat16().float().tolist()


def converted_to(name):
    """What the interpreter makes of fp32, and torch, by the name of an fp8 of torch's; numbers and a NaN at the end."""
    dtype = getattr(torch, name)
    most = torch.finfo(dtype).max
    draw = torch.randn(N, generator=torch.Generator().manual_seed(2)) * torch.logspace(-8, 2, N)
    draw[:8] = torch.tensor([torch.inf, -torch.inf, 1e30, most * 1.2, 2**-9, 1.5 * 2**-10, 0.0634765625, torch.nan])
    y = torch.zeros(N, dtype=torch.uint8).view(dtype)
    converted[(1,)](draw, y, N=N)
    return y.float().nan_to_num(-1).tolist(), draw.clamp(-most, most).to(dtype).float().nan_to_num(-1).tolist()
