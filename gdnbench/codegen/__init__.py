"""Cubins of CUDA and Triton kernels for any architecture, and what the compiler made of them; needs no GPU.

Importing this package loads no compiler: `build` loads one when it must, `build_all` only in its subprocesses.
"""
