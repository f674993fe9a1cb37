"""Single charts of a stored run, as picture files or in the terminal: one chart a file, one signature."""
