"""decode-triton with its choices as params. With the defaults its machine code is decode-triton's at BV=8, WARPS=8."""

import triton
import triton.language as tl


@triton.jit
def log1p(x):
    # log(1 + x) loses the small x to rounding; the correction x / ((1 + x) - 1) gives it back (Kahan).
    u = 1.0 + x
    return tl.where(u == 1.0, x, tl.log(u) * (x / tl.where(u == 1.0, 1.0, u - 1.0)))


@triton.jit
def softplus(x):
    return tl.maximum(x, 0.0) + log1p(tl.exp(-tl.abs(x)))


@triton.jit
def across(x, TILE: tl.constexpr):
    # A vector over K, to be multiplied with the tile.
    return x[:, None] if TILE == "kv" else x[None, :]


@triton.jit
def along(x, TILE: tl.constexpr):
    # A vector over rows of V, to be multiplied with the tile.
    return x[None, :] if TILE == "kv" else x[:, None]


@triton.jit
def over_k(x, TILE: tl.constexpr):
    return tl.sum(x, axis=0 if TILE == "kv" else 1)


@triton.jit
def gdn_decode_rungs(
    q, k, v, state, A_log, dt_bias, a, b, scale, output, new_state,
    HQ: tl.constexpr, HV: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
    BV: tl.constexpr, BK: tl.constexpr, TILE: tl.constexpr, EVICT: tl.constexpr, LATE: tl.constexpr,
):  # fmt: skip
    LOADED: tl.constexpr = "evict_first" if EVICT == "load" else ""
    STORED: tl.constexpr = "evict_first" if EVICT == "store" else ""
    KEPT: tl.constexpr = "evict_last" if EVICT == "keys" else ""
    head_of_batch = tl.program_id(1)
    batch = head_of_batch // HV
    head = head_of_batch % HV
    key_head = batch * HQ + head // (HV // HQ)
    rows = tl.program_id(0) * BV + tl.arange(0, BV)
    columns = tl.arange(0, BK)
    tile = head_of_batch.to(tl.int64) * V * K + along(rows * K, TILE) + across(columns, TILE)

    if BK == K:
        s = tl.load(state + tile, eviction_policy=LOADED)
        k_row = tl.load(k + key_head * K + columns, eviction_policy=KEPT)
        if not LATE:
            k_row = k_row.to(tl.float32)
        q_row = tl.load(q + key_head * K + columns, eviction_policy=KEPT)
        if not LATE:
            q_row = q_row.to(tl.float32)
    v_rows = tl.load(v + head_of_batch * V + rows).to(tl.float32)

    x = tl.load(a + head_of_batch).to(tl.float32) + tl.load(dt_bias + head)
    g = tl.exp(-tl.exp(tl.load(A_log + head)) * softplus(x))
    beta = 1.0 / (1.0 + tl.exp(-tl.load(b + head_of_batch).to(tl.float32)))

    if BK == K:
        k_row, q_row = k_row.to(tl.float32), q_row.to(tl.float32)
        s = g * s
        delta = beta * (v_rows - over_k(s * across(k_row, TILE), TILE))
        s = s + along(delta, TILE) * across(k_row, TILE)
        tl.store(new_state + tile, s, eviction_policy=STORED)
        read = over_k(s * across(q_row, TILE), TILE)
    else:  # two passes, each of which loads the state
        retrieved = tl.zeros([BV], tl.float32)
        for first in tl.static_range(0, K, BK):
            s = tl.load(state + tile + first, eviction_policy=LOADED)
            k_part = tl.load(k + key_head * K + columns + first, eviction_policy=KEPT).to(tl.float32)
            retrieved += over_k(g * s * across(k_part, TILE), TILE)
        delta = beta * (v_rows - retrieved)
        read = tl.zeros([BV], tl.float32)
        for first in tl.static_range(0, K, BK):
            s = tl.load(state + tile + first, eviction_policy=LOADED)
            k_part = tl.load(k + key_head * K + columns + first, eviction_policy=KEPT).to(tl.float32)
            q_part = tl.load(q + key_head * K + columns + first, eviction_policy=KEPT).to(tl.float32)
            s = g * s + along(delta, TILE) * across(k_part, TILE)
            tl.store(new_state + tile + first, s, eviction_policy=STORED)
            read += over_k(s * across(q_part, TILE), TILE)
    tl.store(output + head_of_batch * V + rows, (scale * read).to(tl.bfloat16))
