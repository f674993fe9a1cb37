"""Wrong: raises when it is imported."""

raise RuntimeError("no table for this machine")
