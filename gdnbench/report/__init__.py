"""Prints stored results as tables, text, JSON and CSV; nothing here measures.

A feature is one module, `history.py`, or a package: `table.py` prints for people, `text.py` holds its words, `json.py`
the documents and rows of `--json` and `--csv`. All use `console.py` for the streams and fitted tables, `units.py` for
numbers and `phrases.py` for shared words.
"""
