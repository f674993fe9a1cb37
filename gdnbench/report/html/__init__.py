"""Runs as one HTML file that needs nothing else: tables, charts and where the numbers come from."""

from gdnbench.report.html.build import Written, check_output, write_report

__all__ = ["Written", "check_output", "write_report"]
