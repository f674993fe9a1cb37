"""Nsight Compute: collects a kernel's hardware counters, reads ncu's reports and computes quantities."""
