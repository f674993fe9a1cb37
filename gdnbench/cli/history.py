"""`gdnbench history`: one kernel over stored runs and commits."""

from __future__ import annotations

from typing import Annotated

import typer

from gdnbench.cli.options import (
    AlsoKernels,
    Batches,
    Csv,
    Heads,
    Json,
    Kernel,
    Op,
    Results,
    joined,
    one_term,
    sizes,
)
from gdnbench.places import RESULTS


def history(
    kernels: Kernel = None,
    kernel: AlsoKernels = None,
    op: Op = "decode",
    gpu: Annotated[str, typer.Option(help="A model (h200) or cpu; that of the latest run with the kernel.")] = "",
    shape: Batches = None,
    heads: Heads = None,
    margin: Annotated[float, typer.Option(help="Relative change of the ratio that counts as none.")] = 0.01,
    results: Results = RESULTS,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Follow one kernel over stored runs, and mark where it stepped. Needs no GPU.

    Steps are judged by the ratio to the floor (or the baseline) of the same run,
    which cancels what moves all times of a process together.
    """
    from gdnbench.bench.request import find_op, parse_shapes
    from gdnbench.catalog import load_catalog
    from gdnbench.compare.history import history_of
    from gdnbench.compare.history_choice import check_margin, check_shapes, choose_gpu, choose_label, of_gpu, of_op
    from gdnbench.compare.recorded import load_recorded
    from gdnbench.report.history_output import print_histories

    check_margin(margin)
    name = one_term(kernels, kernel, "gdnbench history decode-v4")
    shapes = parse_shapes(find_op(load_catalog(), op), sizes(shape), joined(heads))
    runs = of_op(load_recorded(results), op)
    label = choose_label(runs, name)
    model = choose_gpu(runs, label, gpu)
    check_shapes(runs, label, model, shapes)
    chosen = of_gpu(runs, model)
    found = [history_of(chosen, label, each, gpu=model, margin=margin) for each in shapes]
    print_histories(found, results, json=json, csv=csv)
