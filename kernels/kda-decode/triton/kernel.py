"""The step in Triton: program i updates rows i*BV … of the states of all heads of the batch, where they stand.

With s = S decay of the old state S, r = s k and p = s q, the output is scale * (p + d (q . k)) where d = beta (v - r).
So all sums are over what is loaded, and none waits for another.
"""

import triton
import triton.language as tl

from gdnbench import trace


@triton.jit
def log1p(x):
    # log(1 + x) loses the small x to rounding; the correction x / ((1 + x) - 1) gives it back (Kahan).
    u = 1.0 + x
    return tl.where(u == 1.0, x, tl.log(u) * (x / tl.where(u == 1.0, 1.0, u - 1.0)))


@triton.jit
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def decay_of(x, rate, lower_bound, GATE: tl.constexpr):
    if GATE == 1:
        return tl.exp(lower_bound * sigmoid(rate * x))
    return tl.exp(-rate * (tl.maximum(x, 0.0) + log1p(tl.exp(-tl.abs(x)))))


@triton.jit
def kda_decode(
    mixed_qkv, g, b, A_log, dt_bias, slot, scale, lower_bound, beta_limit, output, new_pool,
    H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, GATE: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    head_of_batch = tl.program_id(0) // (V // BV)
    sequence = head_of_batch // H
    head = head_of_batch % H
    rows = tl.program_id(0) % (V // BV) * BV + tl.arange(0, BV)
    columns = tl.arange(0, K)
    place = tl.load(slot + sequence).to(tl.int64)
    live = place > 0  # padding reads and writes nothing of the pool
    tile = (place * H + head) * V * K + rows[:, None] * K + columns[None, :]
    token = mixed_qkv + sequence.to(tl.int64) * H * (2 * K + V)

    with trace.scope("load"):
        s = tl.load(new_pool + tile, mask=live, other=0.0).to(tl.float32)
        q = tl.load(token + head * K + columns).to(tl.float32)
        k = tl.load(token + (H + head) * K + columns).to(tl.float32)
        v = tl.load(token + 2 * H * K + head * V + rows).to(tl.float32)
        x = tl.load(g + head_of_batch.to(tl.int64) * K + columns).to(tl.float32)
        x += tl.load(dt_bias + head * K + columns)
        rate = tl.exp(tl.load(A_log + head))
        beta = beta_limit * sigmoid(tl.load(b + head_of_batch).to(tl.float32))

    with trace.scope("update"):
        q *= scale / tl.sqrt(tl.sum(q * q, axis=0) + 1e-6)
        k *= 1.0 / tl.sqrt(tl.sum(k * k, axis=0) + 1e-6)
        s *= decay_of(x, rate, lower_bound, GATE)[None, :]
        delta = beta * (v - tl.sum(s * k[None, :], axis=1))
        written = tl.sum(s * q[None, :], axis=1) + delta * tl.sum(q * k, axis=0)
        s += delta[:, None] * k[None, :]
    with trace.scope("store_state"):
        tl.store(new_pool + tile, s.to(new_pool.dtype.element_ty), mask=live)
    with trace.scope("store_output"):
        written = tl.where(live, written, 0.0)
        tl.store(output + head_of_batch.to(tl.int64) * V + rows, written.to(tl.bfloat16))
