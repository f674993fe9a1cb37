"""Proton, Triton's profiler: where the time goes inside a Triton kernel."""
