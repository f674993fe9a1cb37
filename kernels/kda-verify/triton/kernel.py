"""Draft tokens in Triton: program i walks rows i*BV … of the states of all heads of the batch over all tokens.

With s = S decay of the state S before the token, r = s k and p = s q, the output is scale * (p + d (q . k)) where
d = beta (v - r), so that one token waits for the last one's sums alone.
"""

import triton
import triton.language as tl


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
def kda_verify(
    mixed_qkv, g, b, A_log, dt_bias, pool, slot, scale, lower_bound, beta_limit, output, states,
    T: tl.constexpr, KEEP: tl.constexpr, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, GATE: tl.constexpr,
    BV: tl.constexpr,
):  # fmt: skip
    LAST: tl.constexpr = 0
    EACH: tl.constexpr = 1
    KEPT: tl.constexpr = T if KEEP == EACH else 1
    head_of_batch = tl.program_id(0) // (V // BV)
    sequence = (head_of_batch // H).to(tl.int64)
    head = head_of_batch % H
    rows = tl.program_id(0) % (V // BV) * BV + tl.arange(0, BV)
    columns = tl.arange(0, K)
    place = tl.load(slot + sequence).to(tl.int64)
    live = place > 0
    tile = rows[:, None] * K + columns[None, :]
    s = tl.load(pool + (place * H + head) * V * K + tile, mask=live, other=0.0).to(tl.float32)
    bias = tl.load(dt_bias + head * K + columns)
    rate = tl.exp(tl.load(A_log + head))

    for t in tl.static_range(T):
        token = sequence * T + t
        own = mixed_qkv + token * H * (2 * K + V)
        q = tl.load(own + head * K + columns).to(tl.float32)
        k = tl.load(own + (H + head) * K + columns).to(tl.float32)
        v = tl.load(own + 2 * H * K + head * V + rows).to(tl.float32)
        x = tl.load(g + (token * H + head) * K + columns).to(tl.float32) + bias
        beta = beta_limit * sigmoid(tl.load(b + token * H + head).to(tl.float32))
        q *= scale / tl.sqrt(tl.sum(q * q, axis=0) + 1e-6)
        k *= 1.0 / tl.sqrt(tl.sum(k * k, axis=0) + 1e-6)
        s *= decay_of(x, rate, lower_bound, GATE)[None, :]
        delta = beta * (v - tl.sum(s * k[None, :], axis=1))
        written = tl.sum(s * q[None, :], axis=1) + delta * tl.sum(q * k, axis=0)
        s += delta[:, None] * k[None, :]
        if KEEP == EACH or (KEEP == LAST and t == T - 1):
            kept = sequence * KEPT + (t if KEEP == EACH else 0)
            to = states + (kept * H + head) * V * K + tile
            tl.store(to, tl.where(live, s, 0.0).to(states.dtype.element_ty))
        written = tl.where(live, written, 0.0)
        tl.store(output + (token * H + head) * V + rows, written.to(tl.bfloat16))
