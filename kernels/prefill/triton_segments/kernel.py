"""The prefill in Triton, in four launches: the chunks alone, the segments' transitions, their states, the segments.

A segment is some chunks of one sequence. With the names of the op's numerics.py, a chunk takes the state S to
S (G_C I - Yᵀ K~) + Wᵀ K~, where K~ are its keys times G_C / G_j. So a segment takes S to S M + B: B, [V, K], is what it
makes of a state of zeros, and row r of M, [K, K], what it makes of row r of the identity if nothing is written, W = 0.
M is kept as G I + R, G the decay of the whole segment: R takes bf16 as the products within a chunk do, while G S stays
in fp32, and where nothing decays or is written the state passes through unchanged.

Decays are kept as binary logarithms, of which tl.exp2 is one instruction; a ratio of decays is always the exponential
of a difference that is no more than 0, so that none overflows and no 0 is multiplied with an infinity, however fast a
head forgets. `prologue`, and a chunk of `scan`, are prefill-triton's: a kernel is compiled, cached and linted from one
file.
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
def segment_tokens(CHUNKS, SEGMENTS: tl.constexpr):
    """The tokens of a segment that is not its sequence's last: of those there are no more than SEGMENTS in all."""
    return (CHUNKS.to(tl.int32) + SEGMENTS - 1) // SEGMENTS * CHUNK


@triton.jit
def count_pieces(cu_seqlens, numbers, sequences, tokens, NO_LAST: tl.constexpr):
    """Of how many pieces of so many tokens these sequences consist, 0 for numbers from `sequences` on.

    Without the last piece of each, which may be shorter, if NO_LAST.
    """
    begins = tl.load(cu_seqlens + numbers, mask=numbers < sequences, other=0)
    ends = tl.load(cu_seqlens + numbers + 1, mask=numbers < sequences, other=0)
    pieces = ((ends - begins).to(tl.int32) + tokens - 1) // tokens
    if NO_LAST:
        pieces = tl.maximum(pieces - 1, 0)
    return pieces


@triton.jit
def find_piece(cu_seqlens, N, piece, tokens, NO_LAST: tl.constexpr):
    """The sequence of a piece and its number there, where pieces are numbered through all sequences; N if none is."""
    sequence = 0
    before = 0  # pieces of the sequences before this one
    counted = 0
    for first in range(0, N, SPAN):
        numbers = first + tl.arange(0, SPAN)
        through = counted + tl.cumsum(count_pieces(cu_seqlens, numbers, N, tokens, NO_LAST), axis=0)
        is_before = (through <= piece) & (numbers < N)
        sequence += tl.sum(is_before.to(tl.int32))
        before = tl.maximum(before, tl.max(tl.where(is_before, through, 0)))
        counted = tl.max(through)
    return sequence, piece - before


@triton.jit
def count_transitions(cu_seqlens, sequences, tokens):
    """The segments of so many sequences, the first ones, without the last segment of each."""
    counted = 0
    for first in range(0, sequences, SPAN):
        numbers = first + tl.arange(0, SPAN)
        counted += tl.sum(count_pieces(cu_seqlens, numbers, sequences, tokens, True))
    return counted


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
    sequence, chunk = find_piece(cu_seqlens, N, tl.program_id(0), CHUNK, False)
    begin = tl.load(cu_seqlens + sequence) + chunk.to(tl.int64) * CHUNK
    count = tl.minimum(tl.load(cu_seqlens + sequence + 1) - begin, CHUNK).to(tl.int32)
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
def transitions(
    k, cu_seqlens, CHUNKS, T, N, w, y, decays, kept, turned, added,
    HQ: tl.constexpr, HV: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BT: tl.constexpr,
    SEGMENTS: tl.constexpr,
):  # fmt: skip
    """Program (i, h, j): rows i*BT … of B and, below it, M of segment j and value head h; last segments do not count.

    As in the other launches, states are kept transposed, [K, BT]: a state is then the right factor of Y Sᵀ, whose 64
    rows, and the 64 or more rows of kᵀ U, are what tensor cores take of the left one.
    """
    head = tl.program_id(1)
    segment = tl.program_id(2)
    size = segment_tokens(CHUNKS, SEGMENTS)
    sequence, place = find_piece(cu_seqlens, N, segment, size, True)
    # A grid is never empty: where no sequence has two segments, its programs leave B = 0 and M = I, which none reads.
    length = tl.where(sequence == N, 0, size)
    begin = tl.load(cu_seqlens + sequence) + place.to(tl.int64) * size
    tokens = tl.arange(0, CHUNK)
    columns = tl.arange(0, K)
    first_row = tl.program_id(0) * BT
    rows = first_row + tl.arange(0, BT)
    is_unit = columns[:, None] == rows[None, :] - V
    s = tl.where(is_unit, 1.0, 0.0)
    log_kept = 0.0

    of_k = tokens[:, None] * (HQ * K) + columns[None, :]
    of_y = tokens[:, None] * (HV * K) + columns[None, :]
    of_v = tokens[:, None] * (HV * V) + rows[None, :]
    is_value = (rows < V)[None, :]
    k += (begin * HQ + head // (HV // HQ)) * K
    first_of_head = begin * HV + head
    y += first_of_head * K
    w += first_of_head * V
    log_g = decays + head * T + begin
    for first in range(0, length, CHUNK):
        y_rows = tl.load(y + of_y)
        w_rows = tl.load(w + of_v, mask=is_value, other=0.0)
        keys = tl.load(k + of_k)
        since = tl.load(log_g + first + tokens)
        whole = tl.load(log_g + first + CHUNK - 1)

        u = w_rows.to(tl.float32) - tl.dot(y_rows, s.to(tl.bfloat16))
        faded = u * tl.exp2(whole - since)[:, None]
        s = tl.dot(tl.trans(keys), faded.to(tl.bfloat16), acc=s * tl.exp2(whole))
        log_kept += whole

        k += CHUNK * HQ * K
        y += CHUNK * HV * K
        w += CHUNK * HV * V

    of_segment = segment.to(tl.int64) * HV + head
    if first_row < V:
        tl.store(added + of_segment * (K * V) + columns[:, None] * V + rows[None, :], s)
    else:
        r = s - tl.where(is_unit, tl.exp2(log_kept), 0.0)
        tl.store(turned + of_segment * (K * K) + columns[:, None] * K + rows[None, :] - V, r.to(tl.bfloat16))
        if first_row == V:
            tl.store(kept + of_segment, tl.exp2(log_kept))


@triton.jit
def compose(
    state, cu_seqlens, new_state, CHUNKS, kept, turned, added, begun,
    HV: tl.constexpr, K: tl.constexpr, V: tl.constexpr, COMPOSE_BV: tl.constexpr,
    SEGMENTS: tl.constexpr,
):  # fmt: skip
    """Program (i, j): rows i*COMPOSE_BV … of the state of sequence and value head j after each segment but the last.

    A sequence without tokens has no segment that could write its new state, which is done here.
    """
    head_of_sequence = tl.program_id(1)
    sequence = head_of_sequence // HV
    head = head_of_sequence % HV
    size = segment_tokens(CHUNKS, SEGMENTS)
    length = (tl.load(cu_seqlens + sequence + 1) - tl.load(cu_seqlens + sequence)).to(tl.int32)
    columns = tl.arange(0, K)
    rows = tl.program_id(0) * COMPOSE_BV + tl.arange(0, COMPOSE_BV)
    of_state = head_of_sequence.to(tl.int64) * (V * K) + rows[None, :] * K + columns[:, None]
    s = tl.load(state + of_state)
    if length == 0:
        tl.store(new_state + of_state, s)

    of_segment = count_transitions(cu_seqlens, sequence, size).to(tl.int64) * HV + head
    kept += of_segment
    turned += of_segment * (K * K) + columns[:, None] * K + columns[None, :]
    added += of_segment * (K * V) + columns[:, None] * V + rows[None, :]
    begun += of_segment * (K * V) + columns[:, None] * V + rows[None, :]
    for _ in range(size, length, size):
        r = tl.load(turned)
        b = tl.load(added)
        g = tl.load(kept)
        s = tl.dot(r, s.to(tl.bfloat16), acc=g * s + b)
        tl.store(begun, s)

        kept += HV
        turned += HV * K * K
        added += HV * K * V
        begun += HV * K * V


@triton.jit
def scan(
    q, k, state, cu_seqlens, scale, output, new_state, CHUNKS, T, N, w, y, qk, decays, begun,
    HQ: tl.constexpr, HV: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr,
    SEGMENTS: tl.constexpr,
):  # fmt: skip
    """Program (i, h, j): rows i*BV … of the state of segment j and value head h, from chunk to chunk."""
    head = tl.program_id(1)
    size = segment_tokens(CHUNKS, SEGMENTS)
    sequence, place = find_piece(cu_seqlens, N, tl.program_id(2), size, False)
    begin = tl.load(cu_seqlens + sequence) + place.to(tl.int64) * size
    left = (tl.load(cu_seqlens + sequence + 1) - begin).to(tl.int32)  # tokens of the sequence
    length = tl.minimum(left, size)
    tokens = tl.arange(0, CHUNK)
    columns = tl.arange(0, K)
    rows = tl.program_id(0) * BV + tl.arange(0, BV)

    tile = (sequence.to(tl.int64) * HV + head) * (V * K) + rows[None, :] * K + columns[:, None]
    ended = count_transitions(cu_seqlens, sequence, size) + place - 1
    of_begun = (ended.to(tl.int64) * HV + head) * (K * V) + columns[:, None] * V + rows[None, :]
    s = tl.load(state + tile) if place == 0 else tl.load(begun + of_begun)

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
    if left <= size:
        tl.store(new_state + tile, s)
