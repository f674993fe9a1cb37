"""`gdnbench new`: a kernel to begin with, or an op."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from gdnbench.errors import UsageError
from gdnbench.render.units import short_path
from gdnbench.verbs.options import JsonOption, QuietOption

if TYPE_CHECKING:
    from gdnbench.catalog.new import NewKernel, NewOp


def new(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Of the new kernel: its op, a dash, more: decode-mine.", show_default=False
        ),
    ] = "",
    origin: Annotated[
        str, typer.Option("--from", metavar="KERNEL", help="What to copy: decode-v4, decode-v4b, decode-v4:WARPS=4.")
    ] = "",
    op: Annotated[
        str, typer.Option(metavar="NAME", help="Instead of a kernel make an op of this name, with three kernels.")
    ] = "",
    to: Annotated[
        Path | None,
        typer.Option("--to", "--out", metavar="DIR", help="The folder of kernels to put it in, as `kernels/` is."),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a new kernel out of another, or a new op, ready to verify and run.

    Copies the other's folder and renames what carries its name: the kernel and its
    function; presets and claims are left out. Params of a preset, or given after
    colons, become the defaults. In a project the copy goes into its folder of
    kernels, in gdnbench's own checkout beside the original; elsewhere into a folder
    of `GDNBENCH_KERNELS`, or `kernels/` here, which makes this folder a project.

    With --op it writes an op: its contract, its oracle, and a kernel each in torch,
    Triton and CUDA C++, into `kernels/NAME` here. Whatever the name, they compute
    rows over their root mean square; change them into what you need.
    """
    if bool(name) == bool(op):
        problem = "NAME is a kernel's, and --op makes an op" if name else "neither a kernel's NAME nor --op is given"
        raise UsageError(problem, "as in gdnbench new decode-mine --from decode-v4, or gdnbench new --op rms-norm")
    if op and origin:
        raise UsageError("--op does not go with --from: an op is not copied", "leave --from out")
    from gdnbench.catalog.new import make_kernel, make_op
    from gdnbench.render.output import print_written

    made = make_op(op, to) if op else make_kernel(name, origin, to)
    document = {"name": made.name, "folder": made.folder, "files": made.files}
    files = [short_path(made.folder / name) for name in made.files]
    steps = [*_export(made.root), *_next_steps(made)]
    print_written(files, steps, document, getattr(made, "notes", ()), json=json, quiet=quiet)


def _next_steps(made: NewKernel | NewOp) -> list[str]:
    from gdnbench.catalog.new import NewOp

    if isinstance(made, NewOp):
        return [
            f"gdnbench verify --op {made.name}",
            f"edit {short_path(made.folder)}: op.py, then numerics.py, then the kernels",
            f"gdnbench run --op {made.name}",
        ]
    return [
        f"edit {short_path(made.source)}, and say its idea in variant.py",
        f"gdnbench verify {made.name}",
        f"gdnbench run --kernel {quote(f'{made.origin},{made.name}')}",
    ]


def _export(root: Path) -> list[str]:
    from gdnbench.catalog.catalog import KERNELS_VARIABLE, default_roots

    if root in default_roots():
        return []
    before = f'"${KERNELS_VARIABLE}"{os.pathsep}' if os.environ.get(KERNELS_VARIABLE) else ""
    return [f"export {KERNELS_VARIABLE}={before}{quote(str(root))}"]
