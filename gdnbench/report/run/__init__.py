"""Prints a stored run: its tables, its suite, and its further clocks."""
