"""An interpreter of PTX: what a CUDA kernel computes, and what it does wrong, without a GPU.

It runs all threads of many blocks at once with NumPy, and sees what a GPU does not tell: accesses beside a tensor,
reads of memory that nobody wrote, races, and how many sectors of memory a warp's access touches.
"""
