"""The decode step in Triton: program (i, j) updates rows i*BV … of the state of batch entry and value head j."""

import triton
import triton.language as tl

from gdnbench import trace


@triton.jit
def log1p(x):
    # log(1 + x) loses the small x to rounding; the correction x / ((1 + x) - 1) gives it back (Kahan).
    u = 1.0 + x
    return tl.where(u == 1.0, x, tl.log(u) * (x / tl.where(u == 1.0, 1.0, u - 1.0)))


@triton.jit
def softplus(x):
    return tl.maximum(x, 0.0) + log1p(tl.exp(-tl.abs(x)))


@triton.jit
def gdn_decode(
    q, k, v, state, A_log, dt_bias, a, b, scale, output, new_state,
    HQ: tl.constexpr, HV: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    head_of_batch = tl.program_id(1)
    batch = head_of_batch // HV
    head = head_of_batch % HV
    key_head = batch * HQ + head // (HV // HQ)
    rows = tl.program_id(0) * BV + tl.arange(0, BV)
    columns = tl.arange(0, K)

    # The state is the long read, so it goes first: everything below overlaps with it.
    tile = head_of_batch.to(tl.int64) * V * K + rows[:, None] * K + columns[None, :]
    with trace.scope("load_state"):
        s = tl.load(state + tile)
    with trace.scope("load_qkv"):
        k_row = tl.load(k + key_head * K + columns).to(tl.float32)
        q_row = tl.load(q + key_head * K + columns).to(tl.float32)
        v_rows = tl.load(v + head_of_batch * V + rows).to(tl.float32)

    with trace.scope("gates"):
        x = tl.load(a + head_of_batch).to(tl.float32) + tl.load(dt_bias + head)
        g = tl.exp(-tl.exp(tl.load(A_log + head)) * softplus(x))
        beta = 1.0 / (1.0 + tl.exp(-tl.load(b + head_of_batch).to(tl.float32)))

    with trace.scope("update"):
        s = g * s
        retrieved = tl.sum(s * k_row[None, :], axis=1)
        delta = beta * (v_rows - retrieved)
        s = s + delta[:, None] * k_row[None, :]
    with trace.scope("store_state"):
        tl.store(new_state + tile, s)
    with trace.scope("store_output"):
        tl.store(output + head_of_batch * V + rows, (scale * tl.sum(s * q_row[None, :], axis=1)).to(tl.bfloat16))
