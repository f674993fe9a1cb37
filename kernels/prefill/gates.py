"""The gates of every token in one launch, for libraries that take them ready-made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK = 1024
WARPS = 4


@triton.jit
def log1p(x):
    # log(1 + x) loses the small x to rounding; the correction x / ((1 + x) - 1) gives it back (Kahan).
    u = 1.0 + x
    return tl.where(u == 1.0, x, tl.log(u) * (x / tl.where(u == 1.0, 1.0, u - 1.0)))


@triton.jit
def softplus(x):
    return tl.maximum(x, 0.0) + log1p(tl.exp(-tl.abs(x)))


@triton.jit
def gdn_gates(
    A_log, dt_bias, a, b, decay, beta, gates, HV: tl.constexpr, IS_LOG: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_gate = index < gates
    head = index % HV
    x = tl.load(a + index, mask=is_gate, other=0.0).to(tl.float32) + tl.load(dt_bias + head)
    log_decay = -tl.exp(tl.load(A_log + head)) * softplus(x)
    tl.store(decay + index, log_decay if IS_LOG else tl.exp(log_decay), mask=is_gate)
    y = tl.load(b + index, mask=is_gate, other=0.0).to(tl.float32)
    tl.store(beta + index, 1.0 / (1.0 + tl.exp(-y)), mask=is_gate)


def bind_gates(tensors, *, is_log: bool) -> tuple[Callable[[], object], torch.Tensor, torch.Tensor]:
    """What launches the gates of all tokens, and the fp32 [T, HV] that it writes.

    Args:
        tensors: A_log and dt_bias, fp32 [HV]; a and b, bf16 [T, HV].
        is_log: whether the decay is exp(A_log) softplus(a + dt_bias), negated, or exp of that.

    Returns:
        The launch on the current stream; the decay; beta = sigmoid(b).
    """
    t = tensors
    decay, beta = (torch.empty(t.a.shape, dtype=torch.float32, device=t.a.device) for _ in range(2))
    gates = t.a.numel()
    launch = gdn_gates[(triton.cdiv(gates, BLOCK),)]

    def run() -> object:
        return launch(
            t.A_log, t.dt_bias, t.a, t.b, decay, beta, gates,
            HV=t.a.shape[1], IS_LOG=is_log, BLOCK=BLOCK, num_warps=WARPS,
        )  # fmt: skip

    return run, decay, beta
