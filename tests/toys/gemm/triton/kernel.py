import triton
import triton.language as tl


@triton.jit
def tile(A, B, C, M, N: tl.constexpr, Kd: tl.constexpr, BM: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * 16 + tl.arange(0, 16)
    inner = tl.arange(0, Kd)
    a = tl.load(A + rows[:, None] * Kd + inner[None, :], mask=rows[:, None] < M, other=0.0)
    b = tl.load(B + columns[:, None] * Kd + inner[None, :], mask=columns[:, None] < N, other=0.0)
    c = tl.dot(a.to(tl.float32), tl.trans(b.to(tl.float32)), input_precision="ieee")
    tl.store(
        C + rows[:, None] * N + columns[None, :], c.to(tl.bfloat16), mask=(rows[:, None] < M) & (columns[None, :] < N)
    )
