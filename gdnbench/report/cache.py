"""Prints the contents of the build cache, and the space that cleaning freed."""

from __future__ import annotations

from dataclasses import asdict

from gdnbench.codegen.cache import CacheUse
from gdnbench.report.console import data_console, plain_table, print_csv, print_json, print_next
from gdnbench.report.units import megabytes


def print_cache(use: CacheUse, *, json: bool, csv: bool) -> None:
    """Prints the number and size of compiled kernels and exported git revisions."""
    document = {**asdict(use), "folder": str(use.folder), "total_bytes": use.total_bytes}
    if json:
        print_json(document)
    elif csv:
        print_csv([document])
    else:
        console = data_console()
        console.print(str(use.folder), markup=False, soft_wrap=True)
        table = plain_table(header=False)
        table.add_column("what")
        table.add_column("count", justify="right")
        table.add_column("size", justify="right", no_wrap=True)
        table.add_row("compiled kernels", str(use.builds), megabytes(use.build_bytes))
        table.add_row("git revisions", str(use.revisions), megabytes(use.revision_bytes))
        table.add_row("total", "", f"{megabytes(use.total_bytes)} of {megabytes(use.limit_bytes)}")
        console.print(table)
        print_next(console, ["gdnbench", "cache", "clean", "--older", "30d"])


def print_freed(freed_bytes: int) -> None:
    """Prints the bytes that cleaning freed."""
    data_console().print(f"freed {megabytes(freed_bytes)}", markup=False)
