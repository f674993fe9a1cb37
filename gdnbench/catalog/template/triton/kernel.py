import triton
import triton.language as tl


@triton.jit
def normalise_rows(x, w, eps, y, N: tl.constexpr, BLOCK: tl.constexpr):  # arguments are bound by their names
    row = tl.program_id(0).to(tl.int64) * N
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        value = tl.load(x + row + columns, mask=columns < N, other=0.0).to(tl.float32)
        squares += value * value
    scale = tl.rsqrt(tl.sum(squares) / N + eps)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        value = tl.load(x + row + columns, mask=columns < N, other=0.0).to(tl.float32)
        weight = tl.load(w + columns, mask=columns < N, other=0.0).to(tl.float32)
        tl.store(y + row + columns, (value * scale * weight).to(tl.bfloat16), mask=columns < N)
