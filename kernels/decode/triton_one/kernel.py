"""decode-v9's mathematics in Triton: program i updates rows i*BV … of the states of all heads, one after the other.

With r = S k and s = S q of the old state, the output is scale * (g s + d (q . k)) where d = beta (v - g r). So all sums
are over what is loaded, and none waits for another.
"""

import triton
import triton.language as tl

from gdnbench import trace


@triton.jit
def log1p_unit(u):
    # log(1 + u) for u in [0, 1], to 3e-8: `gdn.cuh` says how. Without a division or a case for small u.
    u2 = u * u
    low = (0.99999994 - 0.49999446 * u) + u2 * (0.3331812 - 0.24835399 * u)
    high = (0.19076881 - 0.13602248 * u) + u2 * (0.077516086 - 0.029074065 * u) + u2 * u2 * 0.0051261024
    return u * (low + u2 * u2 * high)


@triton.jit
def softplus(x):
    return tl.maximum(x, 0.0) + log1p_unit(tl.exp(-tl.abs(x)))


@triton.jit
def gdn_decode_one(
    q, k, v, state, A_log, dt_bias, a, b, scale, output, new_state,
    HQ: tl.constexpr, HV: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    head_of_batch = tl.program_id(0) // (V // BV)
    head = head_of_batch % HV
    key_head = head_of_batch // (HV // HQ)
    rows = tl.program_id(0) * BV + tl.arange(0, BV)  # of all heads of the batch
    columns = tl.arange(0, K)
    tile = rows[:, None].to(tl.int64) * K + columns[None, :]

    with trace.scope("load"):
        s = tl.load(state + tile)
        k_row = tl.load(k + key_head * K + columns).to(tl.float32)
        q_row = tl.load(q + key_head * K + columns).to(tl.float32)
        v_rows = tl.load(v + rows).to(tl.float32)
        x = tl.load(a + head_of_batch).to(tl.float32) + tl.load(dt_bias + head)
        A = tl.load(A_log + head)
        y = tl.load(b + head_of_batch).to(tl.float32)

    with trace.scope("update"):
        r = tl.sum(s * k_row[None, :], axis=1)
        sq = tl.sum(s * q_row[None, :], axis=1)
        # Once a row, as the other sums: a sum over one vector alone is shared out to all warps, and ends at a barrier.
        qk = tl.sum(tl.broadcast_to((q_row * k_row)[None, :], (BV, K)), axis=1)
        g = tl.exp(-tl.exp(A) * softplus(x))
        delta = (v_rows - g * r) / (1.0 + tl.exp(-y))
    with trace.scope("store_state"):
        tl.store(new_state + tile, g * s + delta[:, None] * k_row[None, :])
    with trace.scope("store_output"):
        tl.store(output + rows, (scale * (g * sq + delta * qk)).to(tl.bfloat16))
