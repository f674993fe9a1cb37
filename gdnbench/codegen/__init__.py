"""Compiles CUDA and Triton kernels to cubins of any architecture and reads what the compiler made; needs no GPU.

Importing this package loads no compiler: `build` loads one when it must, `build_all` only in its subprocesses.
"""
