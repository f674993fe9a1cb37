"""Prints compiled kernels and their schedules for `gdnbench inspect`."""
