"""A stored run: its tables, the suite that it sums up to, and its further clocks."""
