"""This machine: its GPUs, the choice among them, their other users, and the description of it all in a run.

Reads only. Imports neither torch nor pynvml until a function needs it.
"""
