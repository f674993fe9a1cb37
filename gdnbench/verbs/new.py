"""`gdnbench new`: a kernel to begin with."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from gdnbench.verbs.options import JsonOption, QuietOption

if TYPE_CHECKING:
    from gdnbench.catalog.new_kernel import NewKernel


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the new kernel: its op, a dash, more: decode-mine.")],
    origin: Annotated[
        str, typer.Option("--from", metavar="KERNEL", help="What to copy: decode-v4, decode-v4b, decode-v4:WARPS=4.")
    ] = "",
    to: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder of kernels to put it in, as `kernels/` is.")
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a new kernel out of another, ready to verify and run.

    Copies the other's folder and renames what carries its name: the kernel, its
    presets, its function. Params of a preset, or given after colons, become the
    defaults. The copy goes beside the original, or where you may write: a folder
    of `GDNBENCH_KERNELS`, or `kernels/` here.
    """
    from gdnbench.catalog.new_kernel import make_kernel
    from gdnbench.render.console import message_console, print_json

    made = make_kernel(name, origin, to)
    console = message_console(quiet=quiet)
    for note in made.notes:
        console.print(f"note: {note}", markup=False)
    if json:
        print_json({"name": made.name, "folder": made.folder, "files": made.files})
    else:
        _print(made)


def _print(made: NewKernel) -> None:
    from gdnbench.render.console import data_console

    console = data_console()
    lines = [_shown(made.folder / name) for name in made.files]
    for line in [*lines, "", *(f"next: {step}" for step in _next_steps(made))]:
        console.print(line, markup=False, soft_wrap=True)  # whole lines, to be copied


def _next_steps(made: NewKernel) -> list[str]:
    steps = [] if made.is_in_catalog else [_export(made.root)]
    return [
        *steps,
        f"edit {_shown(made.source)}, and say its idea in variant.py",
        f"gdnbench verify {made.name}",
        f"gdnbench run --kernel {quote(f'{made.origin},{made.name}')}",
    ]


def _export(root: Path) -> str:
    """The line that makes the catalog look there too."""
    from gdnbench.catalog.catalog import KERNELS_VARIABLE

    before = f'"${KERNELS_VARIABLE}"{os.pathsep}' if os.environ.get(KERNELS_VARIABLE) else ""
    return f"export {KERNELS_VARIABLE}={before}{quote(str(root))}"


def _shown(path: Path) -> str:
    """As short as it can be said from here."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
