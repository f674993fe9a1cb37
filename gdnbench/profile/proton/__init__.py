"""Proton, Triton's profiler: times the scopes inside a Triton kernel."""
