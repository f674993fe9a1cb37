"""Experiments that are written down before they are measured: what is expected, and what a run then says of it."""
