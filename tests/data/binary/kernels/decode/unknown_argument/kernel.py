import triton
import triton.language as tl


@triton.jit
def kernel(state, new_state, HQ: tl.constexpr, BLOCK: tl.constexpr):
    tl.store(new_state, tl.load(state + BLOCK))
