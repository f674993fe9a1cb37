"""The build cache as a table and as a document."""

from __future__ import annotations

from dataclasses import asdict

from rich.table import Table

from gdnbench.binary.eviction import CacheUse
from gdnbench.report.console import data_console, print_csv, print_json, print_next


def print_cache(use: CacheUse, *, json: bool, csv: bool) -> None:
    """Prints what the cache holds."""
    document = {**asdict(use), "folder": str(use.folder), "total_bytes": use.total_bytes}
    if json:
        print_json(document)
    elif csv:
        print_csv([document])
    else:
        console = data_console()
        console.print(str(use.folder), markup=False, soft_wrap=True)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
        table.add_column("what")
        table.add_column("count", justify="right")
        table.add_column("size", justify="right", no_wrap=True)
        table.add_row("compiled kernels", str(use.builds), _megabytes(use.build_bytes))
        table.add_row("git revisions", str(use.revisions), _megabytes(use.revision_bytes))
        table.add_row("in all", "", f"{_megabytes(use.total_bytes)} of {_megabytes(use.limit_bytes)}")
        console.print(table)
        print_next(console, ["gdnbench", "cache", "clean", "--older", "30d"])


def print_freed(freed_bytes: int) -> None:
    """Prints how much room cleaning made."""
    data_console().print(f"freed {_megabytes(freed_bytes)}", markup=False)


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
