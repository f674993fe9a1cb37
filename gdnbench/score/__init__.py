"""Scores one kernel against another in seconds: whether it is right, whether it is faster, by how much, and why not."""
