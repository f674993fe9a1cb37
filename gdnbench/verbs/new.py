"""`gdnbench new`: a kernel to begin with."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from gdnbench.render.units import short_path
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

    Copies the other's folder and renames what carries its name: the kernel and its
    function; presets are left out. Params of a preset, or given after colons,
    become the defaults. In a project the copy goes into its folder of kernels, else
    beside the original; where gdnbench is installed, into a folder of
    `GDNBENCH_KERNELS`, or `kernels/` here, which makes this folder a project.
    """
    from gdnbench.catalog.new_kernel import make_kernel
    from gdnbench.render.output import print_written

    made = make_kernel(name, origin, to)
    document = {"name": made.name, "folder": made.folder, "files": made.files}
    files = [short_path(made.folder / name) for name in made.files]
    print_written(files, _next_steps(made), document, made.notes, json=json, quiet=quiet)


def _next_steps(made: NewKernel) -> list[str]:
    steps = [] if made.is_in_catalog else [_export(made.root)]
    return [
        *steps,
        f"edit {short_path(made.source)}, and say its idea in variant.py",
        f"gdnbench verify {made.name}",
        f"gdnbench run --kernel {quote(f'{made.origin},{made.name}')}",
    ]


def _export(root: Path) -> str:
    from gdnbench.catalog.catalog import KERNELS_VARIABLE

    before = f'"${KERNELS_VARIABLE}"{os.pathsep}' if os.environ.get(KERNELS_VARIABLE) else ""
    return f"export {KERNELS_VARIABLE}={before}{quote(str(root))}"
