"""Merges the parts of one run, which were measured one by one, perhaps on several machines."""
