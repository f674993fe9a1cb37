"""What gdnbench prints: tables, text, JSON and CSV of stored results; nothing here measures.

A feature is one module, `history.py`. One that is too long for that is a package: `table.py` is printed for people,
`text.py` holds its words, `json.py` its documents and rows for `--json` and `--csv`. All of them use `console.py` for
the streams and for tables that fit a terminal, `units.py` for numbers and `phrases.py` for shared words.
"""
