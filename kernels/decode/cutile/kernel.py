"""The decode step in cuTile: block (i, j) updates rows i*ROWS … of the state of batch entry and value head j."""

import cuda.tile as ct

F32 = ct.float32


@ct.function
def log1p(x):
    # log(1 + x) loses the small x to rounding; the correction x / ((1 + x) - 1) gives it back (Kahan).
    u = 1.0 + x
    return ct.where(u == 1.0, x, ct.log(u) * (x / ct.where(u == 1.0, 1.0, u - 1.0)))


@ct.function
def softplus(x):
    return ct.maximum(x, 0.0) + log1p(ct.exp(-ct.abs(x)))


@ct.function
def load(array, index, shape, out):
    """A tile in fp32, in another shape, by plain loads: a row is too short for bulk copies to pay."""
    return ct.reshape(ct.astype(ct.load(array, index, shape, allow_tma=False, check_bounds=False), F32), out)


@ct.kernel
def gdn_decode_cutile(
    q, k, v, state, A_log, dt_bias, a, b, scale, output, new_state, B,
    HQ: ct.Constant[int], HV: ct.Constant[int], K: ct.Constant[int], ROWS: ct.Constant[int],
):  # fmt: skip
    part, entry = ct.bid(0), ct.bid(1)
    batch, head = entry // HV, entry % HV
    key_head = head // (HV // HQ)

    # The state is the long read, so it goes first: everything below overlaps with it.
    s = load(state, (batch, head, part, 0), (1, 1, ROWS, K), (ROWS, K))
    k_row = load(k, (batch, 0, key_head, 0), (1, 1, 1, K), (1, K))
    q_row = load(q, (batch, 0, key_head, 0), (1, 1, 1, K), (1, K))
    v_rows = load(v, (batch, 0, head, part), (1, 1, 1, ROWS), (ROWS, 1))

    x = load(a, (batch, 0, head), (1, 1, 1), (1, 1)) + load(dt_bias, (head,), (1,), (1, 1))
    g = ct.exp(-ct.exp(load(A_log, (head,), (1,), (1, 1))) * softplus(x))
    beta = 1.0 / (1.0 + ct.exp(-load(b, (batch, 0, head), (1, 1, 1), (1, 1))))

    s = g * s
    retrieved = ct.sum(s * k_row, 1, keepdims=True)
    s = s + beta * (v_rows - retrieved) * k_row
    ct.store(new_state, (batch, head, part, 0), ct.reshape(s, (1, 1, ROWS, K)), allow_tma=False, check_bounds=False)
    row = ct.astype(scale * ct.sum(s * q_row, 1), ct.bfloat16)
    ct.store(output, (batch, 0, head, part), ct.reshape(row, (1, 1, 1, ROWS)), allow_tma=False, check_bounds=False)
