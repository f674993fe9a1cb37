"""v9's mathematics: a row of the state lies in a few lanes, all loads come first, and one reduction makes its sums."""

from cutlass import BFloat16, Constexpr, Float32, Int32, Int64, Uint32, cute, range_constexpr

LOG2_E = 1.442695041
# log(1 + u) / u on [0, 1] by its values at nine Chebyshev nodes, lowest power first: within 3e-8.
LOG1P = (
    0.99999994, -0.49999446, 0.3331812, -0.24835399, 0.19076881,
    -0.13602248, 0.077516086, -0.029074065, 0.0051261024,
)  # fmt: skip


def fma(x: Float32, y: Float32, z: Float32) -> Float32:
    return cute.math.fma(x, y, z)


def exp2(x: Float32) -> Float32:
    return cute.math.exp2(x, fastmath=True)


def log1p_unit(u: Float32) -> Float32:
    """log(1 + u) for u in [0, 1], by halves, so that few operations wait for one before."""
    u2 = u * u
    pairs = [fma(u, Float32(LOG1P[i + 1]), Float32(LOG1P[i])) for i in (0, 2, 4, 6)]
    low, high = fma(u2, pairs[1], pairs[0]), fma(u2, pairs[3], pairs[2])
    u4 = u2 * u2
    return u * fma(u4, fma(u4, Float32(LOG1P[8]), high), low)


def gates(A_log: Float32, dt_bias: Float32, a: Float32, b: Float32) -> tuple[Float32, Float32]:
    """The decay exp(-exp(A_log) softplus(a + dt_bias)), and the write gate, sigmoid(b)."""
    x = a + dt_bias
    softplus = cute.arch.fmax(x, Float32(0.0)) + log1p_unit(exp2(-LOG2_E * cute.arch.fmax(x, -x)))
    rate = exp2(LOG2_E * A_log) * softplus
    return exp2(-LOG2_E * rate), cute.arch.rcp_approx(1.0 + exp2(-LOG2_E * b))


def dot(x: cute.Tensor, y: cute.Tensor) -> Float32:
    """The sum of products in two chains of multiply-adds."""
    even, odd = x[0] * y[0], x[1] * y[1]
    for i in range(2, cute.size(x), 2):
        even, odd = fma(x[i], y[i], even), fma(x[i + 1], y[i + 1], odd)
    return even + odd


def widened(narrow: cute.Tensor) -> cute.Tensor:
    """bf16 as floats: the upper halves of words that are zero below."""
    wide = cute.make_rmem_tensor(narrow.layout, Float32)
    pairs, words = cute.recast_tensor(narrow, Uint32), cute.recast_tensor(wide, Uint32)
    for i in range(cute.size(pairs)):
        words[2 * i], words[2 * i + 1] = pairs[i] << 16, pairs[i] & Uint32(0xFFFF0000)
    return wide


def loads_first(batches: Int32) -> None:
    """A branch that is never taken, past which ptxas moves no load: there is always a batch."""
    cute.arch.inline_ptx("{ .reg .pred never; setp.eq.s32 never, {$r0}, 0; @never trap; }", read_only_args=[batches])


@cute.kernel
def gdn_decode_cute(
    q: cute.Pointer, k: cute.Pointer, v: cute.Pointer, state: cute.Pointer, A_log: cute.Pointer,
    dt_bias: cute.Pointer, a: cute.Pointer, b: cute.Pointer, scale: Float32, output: cute.Pointer,
    new_state: cute.Pointer, B: Int32,
    HQ: Constexpr, HV: Constexpr, K: Constexpr, V: Constexpr, LANES: Constexpr, WARPS: Constexpr,
) -> None:  # fmt: skip
    rows = WARPS * 32 // LANES  # of a block, all of one head
    quads = K // 4 // LANES  # that a lane holds of a row; they lie LANES quads apart
    thread, block = cute.arch.thread_idx()[0], cute.arch.block_idx()[0]
    lane, row = thread % LANES, block * rows + thread // LANES
    head_of_batch = block // (V // rows)
    head, key = head_of_batch % HV, head_of_batch // (HV // HQ)

    def own_part(rows_of_k: cute.Pointer, index: Int32 | Int64, count: Int32 | Int64) -> cute.Tensor:
        layout = cute.make_layout((4, quads, LANES, count), stride=(1, 4 * LANES, 4, K))
        return cute.make_tensor(rows_of_k, layout)[None, None, lane, index]

    k_narrow, q_narrow = (cute.make_rmem_tensor((4, quads), BFloat16) for _ in range(2))
    s = cute.make_rmem_tensor((4, quads), Float32)
    cute.autovec_copy(own_part(k, key, B * HQ), k_narrow)
    cute.autovec_copy(own_part(q, key, B * HQ), q_narrow)
    cute.autovec_copy(own_part(state, Int64(row), Int64(B) * HV * V), s)
    of_head = [cute.make_tensor(each, cute.make_layout(HV))[head] for each in (A_log, dt_bias)]
    of_batch = [cute.make_tensor(each, cute.make_layout(B * HV))[head_of_batch] for each in (a, b)]
    v_row = cute.make_tensor(v, cute.make_layout(B * HV * V))[row]
    k_row, q_row = widened(k_narrow), widened(q_narrow)
    qk = dot(q_row, k_row)
    loads_first(B)

    sums = [cute.arch.warp_reduction_sum(each, threads_in_group=LANES) for each in (dot(s, k_row), dot(s, q_row), qk)]
    sk, sq, qk = sums
    decay, write = gates(*of_head, *(each.to(Float32) for each in of_batch))
    delta = write * fma(-decay, sk, v_row.to(Float32))
    for i in range_constexpr(cute.size(s)):
        s[i] = fma(delta, k_row[i], decay * s[i])
    cute.autovec_copy(s, own_part(new_state, Int64(row), Int64(B) * HV * V))
    if lane == 0:
        out = cute.make_tensor(output, cute.make_layout(B * HV * V))
        out[row] = (scale * fma(decay, sq, delta * qk)).to(BFloat16)
