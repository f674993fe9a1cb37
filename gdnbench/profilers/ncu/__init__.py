"""Nsight Compute: collects hardware counters of a kernel, reads its reports, and names what people look at."""
