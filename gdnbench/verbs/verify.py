"""`gdnbench verify`: is it right, and ready to be sent?"""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from gdnbench.origin import RESULTS
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Block, Note, check_rows
from gdnbench.verbs import options
from gdnbench.wording import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gdnbench.errors import ExitCode
    from gdnbench.ready.checks import Readiness


_NOT_READY = ("library", "quick", "shape", "profile", "inputs", "seed", "invariance", "path", "sanitize", "csv")
_NOT_LENGTH = ("suite", "inputs", "quick", "sanitize", "ready", "invariance", "path", "results")
_NOT_QUICK = ("suite", "profile", "inputs", "sanitize")
_NOT_SEQUENCES = ("op", "suite", "inputs", "quick", "invariance", "length", "sanitize", "ready")


def verify(
    ctx: typer.Context,
    kernels: options.KernelsArgument = None,
    kernel: options.KernelsOption = None,
    op: options.OpOrDecodeOption = "",
    library: options.LibraryOption = False,
    gpu: options.GpuOption = "auto",
    shape: options.ShapesOption = None,
    suite: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The workloads of a suite: contest; by default the op's for verifying, or with --ready contest.",
        ),
    ] = "",
    profile: options.ProfileOption = None,
    inputs: options.InputsOption = None,
    seed: Annotated[int | None, typer.Option(help="Of the inputs; fresh by default.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only the first scenario at the smallest workload; no pass for --ready.")
    ] = False,
    invariance: Annotated[
        bool,
        typer.Option("--invariance", help="Also test what a sequence's bits depend on: its batch, place and more."),
    ] = False,
    path: Annotated[
        str, typer.Option(metavar="KERNEL", help="With --invariance: also compare with a call of this for each token.")
    ] = "",
    step_limit: options.StepLimitOption = 30.0,
    fresh: options.FreshOption = False,
    sanitize: Annotated[
        bool,
        typer.Option("--sanitize", help="Also under compute-sanitizer; each of its tools may take 10 step limits."),
    ] = False,
    length: Annotated[
        str,
        typer.Option(
            metavar="TOKENS,…",
            help="Errors along sequences, after so many tokens: 1k,16k,1M; usual: as many as suit the device.",
        ),
    ] = "",
    chart: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --length: draw the errors into a PNG or SVG file.")
    ] = None,
    ready: Annotated[
        bool, typer.Option("--ready", help="Check whether one kernel can be sent to a contest or into a library.")
    ] = False,
    results: options.ResultsOption = RESULTS,
    sequences: Annotated[
        str,
        typer.Option(
            metavar="EVENTS",
            help="Run events over a pool on a family, a kernel each of some ops with states: so many that are drawn, "
            "usual: 500, 100 on a CPU, 12 in an interpreter; or these: 'p3:65 c3>9 d9,0,3'.",
        ),
    ] = "",
    json: options.JsonOption = False,
    csv: options.CsvOption = False,
    quiet: options.QuietOption = False,
) -> None:
    """Hold kernels against a float64 oracle.

    With every kind of inputs, at several batch sizes; outputs are poisoned first and
    inputs checked for changes. On a GPU each kernel is also captured into a CUDA graph
    and replayed. Without a GPU torch kernels run on the CPU, Triton kernels in Triton's
    interpreter, and CUDA kernels in one of PTX, which also finds races, barriers
    misused and accesses out of bounds, by line. Exits with 3 on wrong numbers, and with
    5 if nothing could be verified here.

    --quick tries one scenario at one workload, for between two edits. --sanitize also
    launches each kernel once under compute-sanitizer's tools. --invariance tests what a
    sequence's bits depend on; --path decode-v4 also a prompt against single steps.

    --length 1k,16k,256k follows kernels that carry a state along sequences, and prints
    how far states and outputs are off the recurrence in float64. --sequences usual calls
    a family of kernels as an engine does: prefills, decodes, drafts, slots freed and
    used again; a program that fails is shrunk, and printed to be run again.

    --ready asks whether a kernel can be sent to a contest or into a library: its source,
    builds, numbers and accesses, and a stored run of its code at every workload of a
    suite. Exits with 0 if all pass, else with the code of the gravest failure, or where
    nothing failed with 5 for what cannot be checked here, 8 for what is missing.
    """
    options.check_mode(ctx, "ready", ("results",), _NOT_READY)
    options.check_mode(ctx, "quick", (), _NOT_QUICK)
    options.check_mode(ctx, "invariance", ("path",), ())
    options.check_mode(ctx, "length", ("chart",), _NOT_LENGTH)
    options.check_mode(ctx, "sequences", (), _NOT_SEQUENCES)
    if length:
        from gdnbench.verbs.verify_states import follow_lengths

        raise typer.Exit(follow_lengths(options.terms(kernels, kernel), ctx.params))
    if sequences:
        from gdnbench.verbs.verify_states import check_sequences

        named = options.some_terms(kernels, kernel, "gdnbench verify decode-pool-v1,verify-v2 --sequences usual")
        raise typer.Exit(check_sequences(named, ctx.params))
    if ready:
        name = options.one_term(kernels, kernel, "gdnbench verify decode-v9 --ready")
        raise typer.Exit(_check_ready(name, ctx.params))
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.machine.gpus import list_gpus, select_gpu
    from gdnbench.verbs.progress import watch
    from gdnbench.verbs.verify_tables import print_verdicts
    from gdnbench.verify.preflight import verify_variants

    if sanitize:
        from gdnbench.profile.sanitizer import LIMIT_STEPS, SanitizerCheck, need_sanitizer_on

        sanitizer = need_sanitizer_on(gpu)
    catalog = load_catalog(library=library)
    chosen = select_gpu(gpu, list_gpus())
    names = options.terms(kernels, kernel)
    op = options.op_meant(catalog, op, names, quiet=quiet)
    with watch(quiet=quiet) as observer:
        verdicts = verify_variants(
            catalog,
            op,
            options.joined(names) or "all",
            axes=options.sizes(shape),
            suite=suite,
            profiles=options.joined(profile),
            inputs=inputs,
            seed=seed,
            quick=quick,
            invariance=invariance,
            path=path,
            step_limit_s=step_limit,
            gpu=chosen,
            observer=observer,
            warm=not fresh,
        )
        if sanitize and chosen:
            limit_s = step_limit * LIMIT_STEPS
            verdicts = SanitizerCheck(catalog, sanitizer, chosen, limit_s, observer).add_to(verdicts)
    print_verdicts(verdicts, json=json, csv=csv)
    raise typer.Exit(verdicts.exit_code)


def _check_ready(name: str, params: Mapping[str, Any]) -> ExitCode:
    """Makes and prints the checks of a kernel, by the verb's parameters; gives the exit code."""
    from gdnbench.catalog.catalog import load_catalog
    from gdnbench.machine.gpus import list_gpus, select_gpu
    from gdnbench.ready.checks import ReadyOptions
    from gdnbench.ready.run import check_kernel
    from gdnbench.verbs.progress import watch

    chosen = select_gpu(params["gpu"], list_gpus())
    with watch(quiet=params["quiet"]) as observer:
        wanted = ReadyOptions(
            suite=params["suite"],
            gpu=chosen,
            gpu_requested=params["gpu"],
            step_limit_s=params["step_limit"],
            results=Path(params["results"]),
            observer=observer,
        )
        readiness = check_kernel(load_catalog(), params["op"], name, wanted)
    answer = Answer(
        text=lambda _: _ready_text(readiness), document=lambda: _ready_document(readiness), next=readiness.next_command
    )
    print_answer(answer, json=params["json"])
    return readiness.exit_code


_SIGNS = {"passed": ("✓", "green"), "failed": ("✗", "bold red"), "unchecked": ("-", "yellow")}
"""By the status of a check: its sign, and its colour."""


def _ready_text(readiness: Readiness) -> list[Block]:
    checks = [
        (
            Text(*_SIGNS[check.status]),
            check.name,
            check.what,
            "" if check.status == "passed" else shlex.join(check.command),
        )
        for check in readiness.checks
    ]
    counts = Counter(check.status.value for check in readiness.checks)
    failures = {"failed": counts["failed"], "not checked": counts["unchecked"]}
    parts = ", ".join(f"{count} {how}" for how, count in failures.items() if count)
    verdict = f"not ready: {sum(failures.values())} of {plural(len(checks), 'check')}: {parts}"
    return [Note(readiness.kernel, "title"), check_rows(checks), "", "ready" if readiness.is_ready else verdict]


def _ready_document(readiness: Readiness) -> dict[str, object]:
    checks = [
        {"name": check.name, "status": check.status.value, "what": check.what, "command": shlex.join(check.command)}
        for check in readiness.checks
    ]
    return {
        "kernel": readiness.kernel,
        "op": readiness.op,
        "suite": readiness.suite,
        "ready": readiness.is_ready,
        "checks": checks,
        "next": shlex.join(readiness.next_command),
    }
