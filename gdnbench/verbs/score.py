"""`gdnbench score`: is it right, is it faster, by how much, in seconds?"""

from __future__ import annotations

from typing import Annotated

import typer

from gdnbench.verbs import options
from gdnbench.verbs.complete import complete_kernels


def score(
    ctx: typer.Context,
    kernels: options.KernelArgument = None,
    kernel: options.KernelsOption = None,
    against: Annotated[
        str,
        typer.Option(
            metavar="KERNEL",
            help="What to compare with: a kernel, or git:REV for itself at a commit; the op's baseline.",
            autocompletion=complete_kernels,
        ),
    ] = "",
    op: options.OpOption = "",
    gpu: options.GpuOption = "auto",
    shape: options.ShapesOption = None,
    suite: options.SuiteOption = "",
    margin: options.MarginOption = 0.005,
    budget: options.BudgetOption = "6s",
    seed: options.SeedOption = None,
    profile: options.ProfileOption = None,
    inputs: options.InputsOption = None,
    step_limit: options.StepLimitOption = 10.0,
    fresh: options.FreshOption = False,
    watch: Annotated[bool, typer.Option("--watch", help="Score it each time that its sources are saved.")] = False,
    turns: Annotated[
        int, typer.Option(min=0, metavar="N", help="With --watch: stop after so many scores; 0 for none.")
    ] = 0,
    json: options.JsonOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Build, check and measure one kernel against one other until the verdict is clear.

    For the loop of editing and trying: seconds, where a run takes a minute. It is
    checked before it is timed, measured in one process after the other, and stopped
    once the verdict is clear or will not become so. Nothing is stored. The exit code
    is the verdict: 0 faster, 1 slower, 9 the same, 4 not clear, 10 right but not
    timed, as without a GPU; else why there is none, as with run. `--json` is under 4 KB.

    With --watch, one line for each save of the sources, or with --json a document. A
    save in the middle of a score begins it anew. Ctrl-C stops, and lists all turns.
    """
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.machine.gpus import list_gpus, select_gpu
    from gdnbench.measure.plan import parse_duration
    from gdnbench.score.plan import ScoreRequest, with_revision
    from gdnbench.score.run import score_kernel
    from gdnbench.verbs.progress import watch as progress
    from gdnbench.verbs.score_lines import print_score

    options.check_mode(ctx, "watch", ("turns",))
    name = options.one_term(kernels, kernel, "gdnbench score decode-v9 --against decode-v8")
    request = ScoreRequest(
        kernel=name,
        op=op,
        against=against,
        axes=options.sizes(shape),
        suite=suite,
        margin=margin,
        budget_s=parse_duration(budget),
        step_limit_s=step_limit,
        seed=seed,
        profiles=options.joined(profile),
        inputs=inputs,
    )
    found = select_gpu(gpu, list_gpus())
    if watch:
        from gdnbench.verbs.watch import score_on_save

        score_on_save(request, found, turns, warm=not fresh, json=json, quiet=quiet)
        return
    with progress(quiet=quiet or json) as observer:
        revised = with_revision(load_catalog(), request, observer)
        scored = score_kernel(*revised, found, observer, warm=not fresh)
    print_score(scored, json=json)
    raise typer.Exit(scored.exit_code)
