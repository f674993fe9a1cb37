"""Worker processes: their tasks and supervision, and the parts of their side that verifying and timing share."""
