"""A pipeline on paper: how long stages with buffers between them take over a loop of items, and what would help."""
