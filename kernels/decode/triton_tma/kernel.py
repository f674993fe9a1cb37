"""The decode step in Triton with TMA: program (i, j) updates TILES tiles of BV rows of the state of head j."""

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
def gdn_decode_tma(
    q, k, v, state, A_log, dt_bias, a, b, scale, output, new_state,
    HQ: tl.constexpr, HV: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
    BV: tl.constexpr, TILES: tl.constexpr, WARPS: tl.constexpr, STAGES: tl.constexpr, WS: tl.constexpr,
):  # fmt: skip
    tl.static_assert(V % (TILES * BV) == 0, "TILES * BV must divide V")
    tl.static_assert(not WS or WARPS % 4 == 0, "with WS, WARPS must be a multiple of 4")
    head_of_batch = tl.program_id(1)
    batch = head_of_batch // HV
    head = head_of_batch % HV
    key_head = batch * HQ + head // (HV // HQ)
    columns = tl.arange(0, K)

    # All heads of the batch are one matrix, whose row head_of_batch * V + i is row i of a head's state.
    all_rows = tl.num_programs(1) * V
    source = tl.make_tensor_descriptor(state, [all_rows, K], [K, 1], [BV, K])
    if not WS:
        target = tl.make_tensor_descriptor(new_state, [all_rows, K], [K, 1], [BV, K])

    with trace.scope("load_qkv"):
        k_row = tl.load(k + key_head * K + columns).to(tl.float32)
        q_row = tl.load(q + key_head * K + columns).to(tl.float32)
    with trace.scope("gates"):
        x = tl.load(a + head_of_batch).to(tl.float32) + tl.load(dt_bias + head)
        g = tl.exp(-tl.exp(tl.load(A_log + head)) * softplus(x))
        beta = 1.0 / (1.0 + tl.exp(-tl.load(b + head_of_batch).to(tl.float32)))

    first = head_of_batch * V + tl.program_id(0) * (TILES * BV)
    # num_stages is given here, too: without it Triton pipelines only loads that feed a matrix product.
    for tile in tl.range(0, TILES, num_stages=STAGES, warp_specialize=WS):
        begin = first + tile * BV
        rows = begin + tl.arange(0, BV)
        with trace.scope("load_state"):
            s = source.load([begin, 0])
        with trace.scope("update"):
            s = g * s
            retrieved = tl.sum(s * k_row[None, :], axis=1)
            delta = beta * (tl.load(v + rows).to(tl.float32) - retrieved)
            s = s + delta[:, None] * k_row[None, :]
        with trace.scope("store_state"):
            # Triton 3.7.1 fails to partition a loop that stores through a descriptor among warps.
            if WS:
                tl.store(new_state + rows[:, None].to(tl.int64) * K + columns[None, :], s)
            else:
                target.store([begin, 0], s)
        with trace.scope("store_output"):
            tl.store(output + rows, (scale * tl.sum(s * q_row[None, :], axis=1)).to(tl.bfloat16))
