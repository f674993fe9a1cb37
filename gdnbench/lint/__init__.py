"""Mistakes that a kernel's source shows: read from Triton and CUDA files, without a GPU and without running them."""
