import triton
import triton.language as tl


@triton.jit
def rows(x, w, y, M, N: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * 16 + tl.arange(0, 16)
    column = tl.arange(0, N)
    sums = tl.zeros([16, N], dtype=tl.float32)
    for first in range(0, N, BK):
        inner = first + tl.arange(0, BK)
        part = tl.load(x + row[:, None] * N + inner[None, :], mask=row[:, None] < M, other=0.0)
        weights = tl.load(w + inner[:, None] * N + column[None, :])
        sums += tl.dot(part, weights.to(tl.bfloat16))
    tl.store(y + row[:, None] * N + column[None, :], sums, mask=row[:, None] < M)
