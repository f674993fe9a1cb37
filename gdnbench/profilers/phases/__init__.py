"""The phases inside a CUDA kernel, from clock reads that its marks compile to: see `include/gdnbench/phases.cuh`."""
