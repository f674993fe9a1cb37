"""A declaration that raises on line 3."""

raise RuntimeError("no [/bold] licence on this machine")
