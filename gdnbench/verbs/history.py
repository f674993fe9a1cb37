"""`gdnbench history`: follows one kernel over stored runs and commits."""

from __future__ import annotations

from typing import Annotated

import typer

from gdnbench.origin import RESULTS
from gdnbench.verbs.options import (
    CsvOption,
    JsonOption,
    KernelArgument,
    KernelsOption,
    OpOption,
    ProfileOption,
    ResultsOption,
    ShapesOption,
    joined,
    one_term,
    sizes,
)


def history(
    kernels: KernelArgument = None,
    kernel: KernelsOption = None,
    op: OpOption = "",
    gpu: Annotated[
        str, typer.Option(help="A GPU model (h200) or cpu; by default that of the latest run with the kernel.")
    ] = "",
    shape: ShapesOption = None,
    profile: ProfileOption = None,
    margin: Annotated[float, typer.Option(help="Relative change of the time that counts as none.")] = 0.01,
    results: ResultsOption = RESULTS,
    every: Annotated[
        bool, typer.Option("--all", help="Rows for all runs, not the newest 30 alone, as --json and --csv have.")
    ] = False,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Follow one kernel over stored runs, and mark where it stepped. Needs no GPU.

    A step is what the kernel's time moved by since the run before of the same method,
    less the launch that unchanged cases tell. Beside it stands the ratio to the floor
    (or the baseline) of the same run.
    """
    from gdnbench.analyse.history import (
        check_margin,
        check_workloads,
        choose_gpu,
        choose_label,
        choose_op,
        history_of,
        of_gpu,
        of_op,
        other_gpus,
        usual_workloads,
        with_axes_of,
    )
    from gdnbench.analyse.runs import load_stored_runs
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.catalog.resolve import find_op
    from gdnbench.measure.request import in_profiles, parse_profiles, parse_workloads
    from gdnbench.render.console import message_console
    from gdnbench.report.history import SHOWN, print_histories
    from gdnbench.wording import plural

    check_margin(margin)
    name = one_term(kernels, kernel, "gdnbench history decode-v4")
    catalog = load_catalog()
    if op:
        find_op(catalog, op)
    stored = load_stored_runs(results)
    label = choose_label(of_op(stored, op) if op else stored, name)
    op = op or choose_op(stored, label)
    found_op = find_op(catalog, op)
    asked = in_profiles(parse_workloads(found_op, sizes(shape)), parse_profiles(found_op, joined(profile), stored=True))
    runs = with_axes_of(of_op(stored, op), found_op)
    model = choose_gpu(runs, label, gpu)
    workloads = asked if shape or profile else usual_workloads(runs, label, model, found_op)
    check_workloads(runs, label, model, workloads)
    chosen = of_gpu(runs, model)
    newest = None if every or json or csv else SHOWN
    found = [history_of(chosen, label, each, gpu=model, margin=margin, newest=newest) for each in workloads]
    print_histories(found, results, json=json, csv=csv)
    others = other_gpus(runs, label, model)
    if gpu in ("", "auto") and others:
        told = ", ".join(f"{name} ({plural(count, 'run')})" for name, count in others.items())
        message_console().print(f"also timed on {told}: --gpu {next(iter(others))}", markup=False)
