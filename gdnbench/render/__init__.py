"""Prints tables: columns described once, and a writer for each form; no verb is known here.

`table.py` describes what a verb prints, and writes it for a terminal, `units.py` its values; `output.py` chooses the
form, and `view.py` the columns. `digest.py` serves language models.
"""
