"""What this machine is: its GPUs, which one to use, who else is using it, and how to describe it in a run.

Reads only. Imports neither torch nor pynvml until a function needs it.
"""
