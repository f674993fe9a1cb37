"""Is this machine fit to measure on? Every rule is a function of plain data; only `diagnose` looks around."""

from gdnbench.doctor.check import Check, Level
from gdnbench.doctor.examine import diagnose

__all__ = ["Check", "Level", "diagnose"]
