"""Finds mistakes in a kernel's source: reads Triton and CUDA files, without a GPU and without running them."""
