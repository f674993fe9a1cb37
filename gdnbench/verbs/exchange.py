"""`gdnbench exchange`: kernels as files of the FlashInfer contest, and kernels of such files."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gdnbench.render.output import print_written
from gdnbench.verbs import options
from gdnbench.verbs.base import Verb, make_group
from gdnbench.verbs.options import complete_ops

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gdnbench.model.op import Op
    from gdnbench.model.workload import Workload


exchange = make_group("exchange", "Write kernels as files of flashinfer-bench; make kernels of such files.")


@exchange.command(cls=Verb)
def export(
    to: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the data set; it need not exist.")],
    kernels: options.KernelsArgument = None,
    kernel: options.KernelsOption = None,
    op: options.OpOrDecodeOption = "",
    shape: options.ShapesOption = None,
    suite: Annotated[str, typer.Option(metavar="NAME", help="The workloads of a suite: contest.")] = "",
    definition: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A Definition of others, whose names and order of arguments count."),
    ] = None,
    binding: Annotated[
        Literal["tvm-ffi", "torch"], typer.Option(help="By which Python calls kernels in CUDA C++.")
    ] = "tvm-ffi",
    author: Annotated[str, typer.Option(help="Of the Solutions.")] = "gdnbench",
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Write kernels, their op and workloads as files of flashinfer-bench.

    The op becomes a Definition for each setting of its compile-time axes, a kernel
    with its params fixed a Solution, a suite a file of workloads.
    """
    from gdnbench.catalog.catalog import find_op, load_catalog
    from gdnbench.exchange.export import export as write
    from gdnbench.exchange.schema import parse_definition, read_text
    from gdnbench.verbs.progress import watch

    catalog, named = load_catalog(), options.terms(kernels, kernel)
    chosen = options.op_meant(catalog, op, named, quiet=quiet)
    with watch(quiet=quiet) as observer:
        data = write(
            catalog,
            chosen,
            ",".join(named),
            _weights(find_op(catalog, chosen), options.sizes(shape), suite),
            to.expanduser(),
            parse_definition(read_text(definition), str(definition)) if definition else None,
            binding,
            author,
            observer,
        )
    print_written(
        [str(data.to / name) for name in data.files],
        [f"flashinfer-bench run --local {quote(str(data.to))}"],
        {"folder": data.to, "files": data.files, "notes": data.notes},
        data.notes,
        json=json,
        quiet=quiet,
    )


def _weights(op: Op, shape: str, suite: str) -> Mapping[Workload, float]:
    """The workloads: those of the suite, of the sizes, or of the suite `default`."""
    from itertools import product

    from gdnbench.errors import UsageError
    from gdnbench.model.op import DEFAULT_SUITE

    if shape and suite:
        raise UsageError("--shape and --suite both name workloads", "give one of them")
    if shape:
        settings = product(*op.workloads.parse(shape))
        return {op.workload({name: size for each in chosen for name, size in each.items()}): 1.0 for chosen in settings}
    return op.suite(suite or DEFAULT_SUITE).weights


@exchange.command("import", cls=Verb)
def import_files(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Solutions and their Definition, or the folder of a data set.")
    ],
    to: Annotated[Path, typer.Option(metavar="DIR", help="The folder of kernels to write to, as `kernels/` is.")],
    op: Annotated[str, typer.Option(help="The op whose kernels they become.", autocompletion=complete_ops)],
    name: Annotated[str, typer.Option(help="The kernel's name, for a single Solution.")] = "",
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Make kernels of flashinfer-bench's Solutions; none of their code is run.

    Each becomes a kernel of an op that is here, which verifies and runs beside
    others, if the tensors of its Definition are the op's.
    """
    from gdnbench.exchange.importing import import_files as read

    imported = read(files, to, op, name)
    document = {"kernels": imported.kernels, "folders": imported.folders}
    print_written(list(map(str, imported.folders)), imported.next_steps, document, (), json=json, quiet=quiet)
