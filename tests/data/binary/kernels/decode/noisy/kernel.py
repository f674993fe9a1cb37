import os
import sys

import triton
import triton.language as tl

print('{"build": "not a reply"}')
os.write(1, b"nor is this\n")
assert sys.stdin.read() == "", "a job was within reach"


@triton.jit
def kernel(state, new_state):
    tl.store(new_state, tl.load(state))
