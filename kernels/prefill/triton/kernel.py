"""The prefill in Triton, in two launches: what a chunk's tokens tell without the state, then the chunks in order.

The names are those of the op's numerics.py. Decays are kept as binary logarithms, of which tl.exp2 is one instruction;
a ratio of decays is always the exponential of a difference that is no more than 0, so that none overflows and no 0 is
multiplied with an infinity, however fast a head forgets.
"""

import triton
import triton.language as tl

CHUNK = tl.constexpr(64)
SPAN = tl.constexpr(128)  # sequences that are looked at at once
LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def log1p(x):
    # log(1 + x) loses the small x to rounding; the correction x / ((1 + x) - 1) gives it back (Kahan).
    u = 1.0 + x
    return tl.where(u == 1.0, x, tl.log(u) * (x / tl.where(u == 1.0, 1.0, u - 1.0)))


@triton.jit
def softplus(x):
    return tl.maximum(x, 0.0) + log1p(tl.exp(-tl.abs(x)))


@triton.jit
def find_chunk(cu_seqlens, N, chunk):
    """The tokens from which to which a chunk goes, where chunks are numbered through all sequences."""
    sequence = 0
    before = 0  # chunks of the sequences before this one
    counted = 0
    for first in range(0, N, SPAN):
        numbers = first + tl.arange(0, SPAN)
        begins = tl.load(cu_seqlens + numbers, mask=numbers < N, other=0)
        ends = tl.load(cu_seqlens + numbers + 1, mask=numbers < N, other=0)
        through = counted + tl.cumsum(((ends - begins + CHUNK - 1) // CHUNK).to(tl.int32), axis=0)
        is_before = (through <= chunk) & (numbers < N)
        sequence += tl.sum(is_before.to(tl.int32))
        before = tl.maximum(before, tl.max(tl.where(is_before, through, 0)))
        counted = tl.max(through)
    begin = tl.load(cu_seqlens + sequence) + (chunk - before).to(tl.int64) * CHUNK
    return begin, tl.minimum(begin + CHUNK, tl.load(cu_seqlens + sequence + 1))


@triton.jit
def invert(coupling, PRODUCTS: tl.constexpr):
    """(I + A)^-1 of a strictly lower triangular A, [CHUNK, CHUNK].

    From the inverses X and Z of two neighbouring diagonal blocks follows that of the block of twice their size: its
    lower left quarter is -Z A X, with that quarter of A. All blocks of a size are taken at once, in products of whole
    matrices that are zero elsewhere. No entry is larger than the inverses' own, which powers of A would be.
    """
    rows = tl.arange(0, CHUNK)
    # Of two indices in the same block of 2 n but in different halves of it, the highest bit that differs is n.
    apart = rows[:, None] ^ rows[None, :]
    inverse = tl.where(apart == 0, 1.0, 0.0) - tl.where(apart == 1, coupling, 0.0)
    for bit in tl.static_range(1, 6):
        quarter = tl.where((apart >> bit) == 1, coupling, 0.0)
        if PRODUCTS == "bf16":
            narrow = inverse.to(tl.bfloat16)
            left = tl.dot(narrow, quarter.to(tl.bfloat16))
            inverse -= tl.dot(left.to(tl.bfloat16), narrow)
        else:
            left = tl.dot(inverse, quarter, input_precision=PRODUCTS)
            inverse -= tl.dot(left, inverse, input_precision=PRODUCTS)
    return inverse


@triton.jit
def prologue(
    q, k, v, A_log, dt_bias, a, b, cu_seqlens, T, N, w, y, qk, decays,
    HQ: tl.constexpr, HV: tl.constexpr, K: tl.constexpr, V: tl.constexpr, PRODUCTS: tl.constexpr,
):  # fmt: skip
    """Program (i, h): what chunk i of value head h gives without the state: W, Y, q·k with its decays, and log2 G."""
    head = tl.program_id(1)
    begin, end = find_chunk(cu_seqlens, N, tl.program_id(0))
    count = (end - begin).to(tl.int32)
    tokens = tl.arange(0, CHUNK)
    is_token = tokens < count

    first_row = begin * HV + head
    a += first_row
    b += first_row
    x = tl.load(a + tokens * HV, mask=is_token, other=0.0).to(tl.float32) + tl.load(dt_bias + head)
    rate = -LOG2_E * tl.exp(tl.load(A_log + head)) * softplus(x)
    since = tl.cumsum(tl.where(is_token, rate, 0.0), axis=0)
    write = tl.load(b + tokens * HV, mask=is_token, other=0.0).to(tl.float32)
    beta = tl.where(is_token, 1.0 / (1.0 + tl.exp(-write)), 0.0)
    tl.store(decays + head * T + begin + tokens, since, mask=is_token)

    mask = is_token[:, None]
    columns = tl.arange(0, K)
    of_k = tokens[:, None] * (HQ * K) + columns[None, :]
    first_of_key_head = (begin * HQ + head // (HV // HQ)) * K
    keys = tl.load(k + first_of_key_head + of_k, mask=mask, other=0.0)
    queries = tl.load(q + first_of_key_head + of_k, mask=mask, other=0.0)
    is_lower = tokens[:, None] >= tokens[None, :]
    ratios = tl.exp2(tl.where(is_lower, since[:, None] - since[None, :], float("-inf")))
    products = tl.dot(queries, tl.trans(keys)) * ratios
    of_qk = tokens[:, None] * (HV * CHUNK) + tokens[None, :]
    tl.store(qk + first_row * CHUNK + of_qk, products.to(tl.bfloat16), mask=mask)

    coupling = tl.dot(keys, tl.trans(keys)) * ratios * beta[:, None]
    inverse = invert(tl.where(tokens[:, None] > tokens[None, :], coupling, 0.0), PRODUCTS)
    # The factors of v and k go to the columns of the inverse, so that v and k are multiplied as they came.
    inverse *= beta[None, :]
    of_y = tokens[:, None] * (HV * K) + columns[None, :]
    y_rows = tl.dot((inverse * tl.exp2(since)[None, :]).to(tl.bfloat16), keys)
    tl.store(y + first_row * K + of_y, y_rows.to(tl.bfloat16), mask=mask)
    of_v = tokens[:, None] * (HV * V) + tl.arange(0, V)[None, :]
    v_rows = tl.load(v + first_row * V + of_v, mask=mask, other=0.0)
    w_rows = tl.dot(inverse.to(tl.bfloat16), v_rows)
    tl.store(w + first_row * V + of_v, w_rows.to(tl.bfloat16), mask=mask)


@triton.jit
def scan(
    q, k, state, cu_seqlens, scale, output, new_state, T, w, y, qk, decays,
    HQ: tl.constexpr, HV: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Program (i, j): rows i*BV … of the state of sequence and value head j, from chunk to chunk."""
    head_of_sequence = tl.program_id(1)
    sequence = head_of_sequence // HV
    head = head_of_sequence % HV
    begin = tl.load(cu_seqlens + sequence)
    length = (tl.load(cu_seqlens + sequence + 1) - begin).to(tl.int32)
    tokens = tl.arange(0, CHUNK)
    columns = tl.arange(0, K)
    rows = tl.program_id(0) * BV + tl.arange(0, BV)

    # The state is kept transposed, [K, BV]: it is then the right factor of Y Sᵀ and q Sᵀ, whose 64 rows, and the 64 or
    # more rows of kᵀ U, are what tensor cores take of the left one.
    tile = rows[None, :] * K + columns[:, None]
    state += head_of_sequence.to(tl.int64) * (V * K)
    new_state += head_of_sequence.to(tl.int64) * (V * K)
    s = tl.load(state + tile)

    of_k = tokens[:, None] * (HQ * K) + columns[None, :]
    of_y = tokens[:, None] * (HV * K) + columns[None, :]
    of_v = tokens[:, None] * (HV * V) + rows[None, :]
    of_qk = tokens[:, None] * (HV * CHUNK) + tokens[None, :]
    q += (begin * HQ + head // (HV // HQ)) * K
    k += (begin * HQ + head // (HV // HQ)) * K
    first_row = begin * HV + head
    y += first_row * K
    w += first_row * V
    qk += first_row * CHUNK
    output += first_row * V
    log_g = decays + head * T + begin
    for first in range(0, length, CHUNK):
        is_token = first + tokens < length
        mask = is_token[:, None]
        y_rows = tl.load(y + of_y, mask=mask, other=0.0)
        w_rows = tl.load(w + of_v, mask=mask, other=0.0)
        keys = tl.load(k + of_k, mask=mask, other=0.0)
        queries = tl.load(q + of_k, mask=mask, other=0.0)
        products = tl.load(qk + of_qk, mask=mask, other=0.0)
        since = tl.load(log_g + first + tokens, mask=is_token, other=0.0)
        whole = tl.load(log_g + tl.minimum(first + CHUNK, length) - 1)

        narrow = s.to(tl.bfloat16)
        u = w_rows.to(tl.float32) - tl.dot(y_rows, narrow)
        read = tl.dot(queries, narrow) * tl.exp2(since)[:, None]
        # After the sequence's end U is 0 and the exponent no more than 0, as everywhere.
        faded = u * tl.exp2(whole - since)[:, None]
        s = tl.dot(tl.trans(keys), faded.to(tl.bfloat16), acc=s * tl.exp2(whole))
        read = tl.dot(products, u.to(tl.bfloat16), acc=read)
        tl.store(output + of_v, (scale * read).to(tl.bfloat16), mask=mask)

        q += CHUNK * HQ * K
        k += CHUNK * HQ * K
        y += CHUNK * HV * K
        w += CHUNK * HV * V
        qk += CHUNK * HV * CHUNK
        output += CHUNK * HV * V
    tl.store(new_state + tile, s)
