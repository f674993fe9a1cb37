"""The prefill in Triton, in two launches: what a chunk's tokens tell without the state, then the chunks in order.

The names are those of the op's numerics.py. Decays are kept as binary logarithms, of which tl.exp2 is one instruction.
A token's share of a ratio of decays is always the exponential of a number that is no more than 0, so that none
overflows and no 0 is multiplied with an infinity, however fast a channel forgets.
"""

from pathlib import Path

import triton
import triton.language as tl

from gdnbench.launch import load_file

CHUNK = tl.constexpr(64)
LOG2_E = tl.constexpr(1.4426950408889634)

scalar = load_file(Path(__file__).parents[2] / "prefill" / "triton" / "kernel.py")
find_chunk, invert, softplus = scalar.find_chunk, scalar.invert, scalar.softplus


@triton.jit
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def log_decay(x, rate, lower_bound, GATE: tl.constexpr):
    """log2 of what a channel keeps."""
    if GATE == 1:
        return LOG2_E * lower_bound * sigmoid(rate * x)
    return -LOG2_E * rate * softplus(x)


@triton.jit
def normalised(rows, scale):
    return rows * (scale / tl.sqrt(tl.sum(rows * rows, axis=1) + 1e-6))[:, None]


@triton.jit
def prologue(
    q, k, v, g, b, A_log, dt_bias, cu_seqlens, scale, lower_bound, N, w, y, queries, faded, products, whole,
    H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, GATE: tl.constexpr, PRODUCTS: tl.constexpr,
):  # fmt: skip
    """Program (i, h): what chunk i of head h gives without the state: W, Y, P, and decayed queries and keys."""
    chunk, head = tl.program_id(0), tl.program_id(1)
    begin, end = find_chunk(cu_seqlens, N, chunk)
    count = (end - begin).to(tl.int32)
    tokens = tl.arange(0, CHUNK)
    is_token = tokens < count
    mask = is_token[:, None]
    columns = tl.arange(0, K)
    first_row = begin * H + head
    of_k = first_row * K + tokens[:, None] * (H * K) + columns[None, :]

    x = tl.load(g + of_k, mask=mask, other=0.0).to(tl.float32) + tl.load(dt_bias + head * K + columns)[None, :]
    decay = log_decay(x, tl.exp(tl.load(A_log + head)), lower_bound, GATE)
    since = tl.cumsum(tl.where(mask, decay, 0.0), axis=0)
    last = tl.sum(tl.where(tokens[:, None] == CHUNK - 1, since, 0.0), axis=0)
    tl.store(whole + (chunk.to(tl.int64) * H + head) * K + columns, tl.exp2(last))
    write = tl.load(b + first_row + tokens * H, mask=is_token, other=0.0).to(tl.float32)
    beta = tl.where(is_token, sigmoid(write), 0.0)
    key = normalised(tl.load(k + of_k, mask=mask, other=0.0).to(tl.float32), 1.0)
    query = normalised(tl.load(q + of_k, mask=mask, other=0.0).to(tl.float32), scale)
    tl.store(queries + of_k, (query * tl.exp2(since)).to(tl.bfloat16), mask=mask)
    tl.store(faded + of_k, (key * tl.exp2(last[None, :] - since)).to(tl.bfloat16), mask=mask)

    # Of two tokens in the same block of 2 n but in different halves of it, the highest bit that differs is n. What one
    # keeps of the other is split at the end of the block's first half.
    apart = tokens[:, None] ^ tokens[None, :]
    is_lower = tokens[:, None] > tokens[None, :]
    coupling = tl.zeros((CHUNK, CHUNK), tl.float32)
    product = tl.where(apart == 0, tl.sum(query * key, axis=1)[:, None], 0.0)
    for bit in range(6):
        split = (tokens & -(2 << bit)) + (1 << bit) - 1
        middle = tl.gather(since, tl.broadcast_to(split[:, None], (CHUNK, K)), axis=0)
        is_later = (tokens >> bit) & 1
        part = tl.exp2(tl.where(is_later[:, None] == 1, since - middle, middle - since))
        keys = (key * part).to(tl.bfloat16)
        is_pair = ((apart >> bit) == 1) & is_lower
        coupling = tl.where(is_pair, tl.dot(keys, tl.trans(keys)), coupling)
        product = tl.where(is_pair, tl.dot((query * part).to(tl.bfloat16), tl.trans(keys)), product)
    of_products = first_row * CHUNK + tokens[:, None] * (H * CHUNK) + tokens[None, :]
    tl.store(products + of_products, product.to(tl.bfloat16), mask=mask)

    solved = (invert(coupling * beta[:, None], PRODUCTS) * beta[None, :]).to(tl.bfloat16)
    y_rows = tl.dot(solved, (key * tl.exp2(since)).to(tl.bfloat16))
    tl.store(y + of_k, y_rows.to(tl.bfloat16), mask=mask)
    of_v = first_row * V + tokens[:, None] * (H * V) + tl.arange(0, V)[None, :]
    w_rows = tl.dot(solved, tl.load(v + of_v, mask=mask, other=0.0))
    tl.store(w + of_v, w_rows.to(tl.bfloat16), mask=mask)


@triton.jit
def scan(
    state, cu_seqlens, output, new_state, w, y, queries, faded, products, whole,
    H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Program (i, n H + h): rows i BV … of the state of head h and sequence n, chunk after chunk; S as [K, V]."""
    sequence, head = tl.program_id(1) // H, tl.program_id(1) % H
    begin = tl.load(cu_seqlens + sequence)
    length = (tl.load(cu_seqlens + sequence + 1) - begin).to(tl.int32)
    chunks = 0  # of the sequences before this one
    for before in range(0, sequence):
        tokens_before = tl.load(cu_seqlens + before + 1) - tl.load(cu_seqlens + before)
        chunks += ((tokens_before + CHUNK - 1) // CHUNK).to(tl.int32)
    rows = tl.program_id(0) * BV + tl.arange(0, BV)
    columns, tokens = tl.arange(0, K), tl.arange(0, CHUNK)
    tile = tl.program_id(1).to(tl.int64) * V * K + rows[None, :] * K + columns[:, None]
    s = tl.load(state + tile)

    first_row = begin * H + head
    of_k = first_row * K + tokens[:, None] * (H * K) + columns[None, :]
    of_v = first_row * V + tokens[:, None] * (H * V) + rows[None, :]
    of_products = first_row * CHUNK + tokens[:, None] * (H * CHUNK) + tokens[None, :]
    of_whole = (chunks.to(tl.int64) * H + head) * K + columns
    for first in range(0, length, CHUNK):
        mask = (first + tokens < length)[:, None]
        narrow = s.to(tl.bfloat16)
        u = tl.load(w + of_v, mask=mask, other=0.0).to(tl.float32)
        u -= tl.dot(tl.load(y + of_k, mask=mask, other=0.0), narrow)
        read = tl.dot(tl.load(queries + of_k, mask=mask, other=0.0), narrow)
        written = u.to(tl.bfloat16)
        read = tl.dot(tl.load(products + of_products, mask=mask, other=0.0), written, acc=read)
        tl.store(output + of_v, read.to(tl.bfloat16), mask=mask)
        keys = tl.load(faded + of_k, mask=mask, other=0.0)
        s = tl.dot(tl.trans(keys), written, acc=s * tl.load(whole + of_whole)[:, None])

        of_k += CHUNK * H * K
        of_v += CHUNK * H * V
        of_products += CHUNK * H * CHUNK
        of_whole += H * K
    tl.store(new_state + tile, s)
