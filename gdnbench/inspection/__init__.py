"""What the compiler made of a kernel: its numbers, what changed between two of them, and rules that they must keep.

Needs no GPU; the parent process loads no compiler.
"""
