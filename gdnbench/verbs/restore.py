"""`gdnbench ledger restore`: the sources that an entry of the ledger kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gdnbench.origin import LEDGER
from gdnbench.verbs.options import JsonOption, LedgerOption


def restore(
    entry: Annotated[str, typer.Argument(metavar="ID", help="The entry whose sources are wanted.")],
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="The new folder; restored-ID here by default.")
    ] = None,
    opened: Annotated[
        bool, typer.Option("--opened", help="As they were when it was opened, not as they were measured last.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="In place: over the files of the kernel's own folder as they are now.")
    ] = False,
    ledger: LedgerOption = LEDGER,
    json: JsonOption = False,
) -> None:
    """Write the sources of an entry back, into a new folder or over the kernel's own.

    As they were measured last, else as they were when it was opened. The new folder
    is one of kernels, as `GDNBENCH_KERNELS` takes it, with the headers beside the
    kernel. With --force the files of the kernel's own folder are written over what
    is there now: each one that changes is named, and files that the entry does not
    have, and headers that other kernels share, are left. Needs no GPU and no git.
    """
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.errors import UsageError
    from gdnbench.ledger.file import find_entry, read_ledger
    from gdnbench.ledger.restore import kept_sources, restore_beside, restore_in_place
    from gdnbench.render.output import print_written
    from gdnbench.render.units import short_path

    if force and to:
        raise UsageError("--force writes in place, and --to into another folder", "leave one of them out")
    found = find_entry(read_ledger(ledger), entry, ledger)
    catalog, files = load_catalog(), kept_sources(found, opened=opened)
    kernel, op = found.opened.kernel, found.opened.op
    if force:
        restored = restore_in_place(files, catalog.entries.get(kernel), kernel)
    else:
        op_folder = catalog.op_folders[op].name if op in catalog.op_folders else op
        restored = restore_beside(files, to or Path(f"restored-{found.opened.id}"), op_folder)
    document = {"entry": found.opened.id, "kernel": kernel, "folder": restored.folder, "files": restored.files}
    written = [short_path(restored.folder / name) for name in restored.files] or ["every file is as it was"]
    steps = [f"gdnbench verify {kernel}" if force else f"gdnbench ledger {found.opened.id}"]
    print_written(written, steps, document, restored.notes, json=json, quiet=False)
