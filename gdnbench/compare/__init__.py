"""Sets stored numbers side by side and says what their differences mean; measures nothing."""

from gdnbench.compare.figure import Figure, Kind, Source
from gdnbench.compare.measured import load_run

__all__ = ["Figure", "Kind", "Source", "load_run"]
