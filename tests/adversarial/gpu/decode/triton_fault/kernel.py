"""Wrong: reads a terabyte past the state, and stores what it read."""

import triton
import triton.language as tl


@triton.jit
def fault(state, new_state):
    far = tl.full((), 1 << 40, tl.int64)
    tl.store(new_state + tl.program_id(0), tl.load(state + far))
