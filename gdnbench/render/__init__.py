"""Prints tables: columns described once, and a writer for each form; no verb is known here.

`table.py` describes what a verb prints, `codec.py` its values, `output.py` chooses the form: `text.py` for a terminal,
`data.py` for CSV, JSON and Markdown. `html.py` and `digest.py` serve the report and language models.
"""
