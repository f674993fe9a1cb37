"""Prints the targets that commands can run on, as a table or as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdnbench.report.console import data_console, plain_table, print_csv, print_json, print_next


def print_targets(targets: Sequence[dict[str, Any]], *, json: bool, csv: bool) -> None:
    """Prints targets: `name`, `kind`, `host`, `gpus`, `python`, `workdir`, and the `file` that has them."""
    if json:
        print_json(targets)
        return
    if csv:
        print_csv(targets)
        return
    console = data_console()
    if not targets:
        console.print("no targets: no gdnbench.toml here or among your own settings names one")
        print_next(console, ["gdnbench", "targets", "init", "lab", "--ssh", "HOST", "--gpu", "h200"])
        return
    table = plain_table()
    for heading in ("target", "kind", "host", "GPUs", "file"):
        table.add_column(heading, overflow="fold")
    for each in targets:
        table.add_row(each["name"], each["kind"], each["host"], ", ".join(each["gpus"]), each["file"])
    console.print(table)
    print_next(console, ["gdnbench", "targets", "check", targets[0]["name"]])
