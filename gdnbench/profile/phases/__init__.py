"""Times the phases of a CUDA kernel by clock reads that its marks compile to: see `include/gdnbench/phases.cuh`."""
