"""What `gdnbench report` says when it is done."""

from __future__ import annotations

from rich.text import Text

from gdnbench.report.console import data_console, message_console
from gdnbench.report.html.build import Written


def print_written(written: Written) -> None:
    """The file, its size, and how to open it; what is not in it, as a message."""
    for warning in written.warnings:
        message_console().print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)
    console = data_console()
    console.print(Text(f"{written.path}  ({written.size_bytes / 1e6:.2f} MB)"), soft_wrap=True)
    console.print(Text(f"next: python3 -m webbrowser {written.path.absolute().as_uri()}"), soft_wrap=True)
