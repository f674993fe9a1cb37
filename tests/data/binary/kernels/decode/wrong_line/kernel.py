import triton
import triton.language as tl

# The error is on line 9.


@triton.jit
def helper(x):
    return x.nothing()


@triton.jit
def kernel(state, new_state):
    tl.store(new_state, helper(tl.load(state)))
