"""Reads compiled kernels: their numbers, the differences between two of them, and rules that bound the numbers.

Needs no GPU; the parent process loads no compiler.
"""
