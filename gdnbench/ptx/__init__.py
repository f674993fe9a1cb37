"""Interprets PTX without a GPU: computes what a CUDA kernel computes and finds what it does wrong.

It runs all threads of many blocks at once with NumPy, and reports what a GPU does not: accesses out of bounds, reads of
uninitialised memory, races, and the sectors of memory that a warp's access touches.
"""
