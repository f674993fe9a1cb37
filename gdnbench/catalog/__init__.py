"""Finds `kernels/` and loads its declarations; imports no torch."""
