"""Verifies a kernel's numbers against the float64 oracle, in workers that examine or interpret it."""
