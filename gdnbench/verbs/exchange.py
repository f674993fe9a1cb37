"""`gdnbench exchange`: kernels as files of the FlashInfer contest, and kernels of such files."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gdnbench.origin import RESULTS
from gdnbench.render.output import print_written
from gdnbench.verbs.base import Verb, make_group
from gdnbench.verbs.options import (
    JsonOption,
    KernelsArgument,
    KernelsOption,
    OpOption,
    OpOrDecodeOption,
    QuietOption,
    ResultsOption,
    ShapesOption,
    op_meant,
    sizes,
    terms,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gdnbench.model.op import Op
    from gdnbench.model.workload import Workload
    from gdnbench.store.info import RunInfo


exchange = make_group(
    "exchange", "Write kernels as files of flashinfer-bench; make kernels of such files.", alone=False
)


@exchange.command(cls=Verb)
def export(
    to: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the data set; it need not exist.")],
    kernels: KernelsArgument = None,
    kernel: KernelsOption = None,
    op: OpOrDecodeOption = "",
    shape: ShapesOption = None,
    suite: Annotated[str, typer.Option(metavar="NAME", help="The workloads of a suite: contest.")] = "",
    run: Annotated[str, typer.Option("--run", metavar="RUN", help="Also the cases of a stored run, as traces.")] = "",
    definition: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A Definition of others, whose names and order of arguments count."),
    ] = None,
    binding: Annotated[
        Literal["tvm-ffi", "torch"], typer.Option(help="By which Python calls kernels in CUDA C++.")
    ] = "tvm-ffi",
    inputs: Annotated[
        Literal["random", "drawn"],
        typer.Option(help="Left to the reader at random, or stored as the op draws them, with safetensors."),
    ] = "random",
    author: Annotated[str, typer.Option(help="Of the Solutions.")] = "gdnbench",
    results: ResultsOption = RESULTS,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write kernels, their op, workloads and runs as files of flashinfer-bench.

    The op becomes a Definition for each setting of its compile-time axes, a kernel
    with its params fixed a Solution, a suite a file of workloads, and a run's cases
    traces, with our intervals in `correctness.extra`.
    """
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.errors import UsageError
    from gdnbench.exchange.definition import read_definition
    from gdnbench.exchange.export import ExportRequest
    from gdnbench.exchange.export import export as write
    from gdnbench.store.find import find_run
    from gdnbench.store.info import read_info

    catalog, named = load_catalog(), terms(kernels, kernel)
    folder = find_run(results, run) if run else None
    info = read_info(folder) if folder else None
    chosen = info.op if info and not (op or named) else op_meant(catalog, op, named, quiet=quiet)
    if chosen not in catalog.ops:
        raise UsageError(f"there is no op {chosen}", f"there are {', '.join(catalog.ops)}")
    if info and info.op != chosen:
        raise UsageError(f"{info.run_id} is a run of {info.op}, not of {chosen}", "name one of its runs")
    request = ExportRequest(
        op=chosen,
        kernels=",".join(named),
        weights=_weights(catalog.ops[chosen], sizes(shape), suite, info),
        to=to.expanduser(),
        definition=read_definition(definition) if definition else None,
        run=folder,
        author=author,
        binding=binding,
        store_inputs=inputs == "drawn",
    )
    written = write(catalog, request)
    print_written(
        [str(request.to / name) for name in written.files],
        [f"flashinfer-bench run --local {quote(str(request.to))}"],
        {"folder": request.to, "files": written.files, "notes": written.notes},
        written.notes,
        json=json,
        quiet=quiet,
    )


def _weights(op: Op, shape: str, suite: str, info: RunInfo | None) -> Mapping[Workload, float]:
    """The workloads: those of the suite, of the sizes, of the run, or of the suite `default`."""
    from itertools import product

    from gdnbench.errors import UsageError
    from gdnbench.model.op import DEFAULT_SUITE
    from gdnbench.store.info import suite_of

    if shape and suite:
        raise UsageError("--shape and --suite both name workloads", "give one of them")
    if shape:
        settings = product(*op.workloads.parse(shape))
        return {op.workload({name: size for each in chosen for name, size in each.items()}): 1.0 for chosen in settings}
    if info and not suite:
        stored = suite_of(info)
        weights = stored.weights if stored else {info.workloads.stored_case(case): 1.0 for case in info.cases}
        return {op.workload(workload.sizes): weight for workload, weight in weights.items()}
    return op.suite(suite or DEFAULT_SUITE).weights


@exchange.command("import", cls=Verb)
def import_files(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Definitions, Solutions, workloads, traces, or the folder of a data set."),
    ],
    to: Annotated[Path, typer.Option(metavar="DIR", help="The folder of kernels to write to, as `kernels/` is.")],
    op: OpOption = "",
    name: Annotated[str, typer.Option(help="The kernel's name, for a single Solution.")] = "",
    results: ResultsOption = RESULTS,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make ops and kernels of files of flashinfer-bench; none of their code is run.

    A Definition becomes an op, its lines of workloads a suite of it, a Solution a
    kernel that verifies and runs beside others. With `--op` Solutions become kernels
    of an op that is here. Latencies in traces become published figures, which
    `compare` and `report` set beside runs and never mix with them.
    """
    from gdnbench.exchange.importing import ImportRequest
    from gdnbench.exchange.importing import import_files as read

    imported = read(ImportRequest(files=files, to=to, op=op, name=name, results=results))
    document = {
        "ops": imported.ops,
        "kernels": imported.kernels,
        "published": imported.published,
        "folders": imported.folders,
        "notes": imported.notes,
    }
    folders = list(map(str, imported.folders))
    print_written(folders, imported.next_steps, document, imported.notes, json=json, quiet=quiet)
