"""Tables, JSON and CSV from stored results; nothing here measures."""
