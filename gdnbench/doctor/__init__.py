"""Checks whether this machine can measure. Every rule is a function of plain data; only `run` reads the machine."""
