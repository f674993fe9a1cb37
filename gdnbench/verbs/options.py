"""What verbs share: options, how they are read, and the question before a long or final act."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Context

from gdnbench.errors import ExitCode, UsageError
from gdnbench.verbs.complete import complete_kernels, complete_ops, complete_runs

if TYPE_CHECKING:
    from gdnbench.catalog.catalog import Catalog
    from gdnbench.measure.plan import Outlook


_ONE = "A name, with params after colons: decode-v4, decode-triton:BV=16."
_MANY = "Names or globs, params after colons: decode-v4 'decode-v1*' decode-triton:BV=16."

KernelArgument = Annotated[
    list[str] | None, typer.Argument(metavar="KERNEL", help=_ONE, autocompletion=complete_kernels, show_default=False)
]
StepLimitOption = Annotated[
    float,
    typer.Option(help="Seconds that a step of a kernel may take; importing it 3 times that, compiling it 10 times."),
]


def _check_limit(limit_s: float) -> float:
    from gdnbench.process.command import LONGEST_LIMIT_S

    if not 0 < limit_s <= LONGEST_LIMIT_S:
        raise UsageError(
            f"--limit {limit_s:g}: more than no time, at most {LONGEST_LIMIT_S:,.0f} s",
            "it is in seconds, as in --limit 60",
        )
    return limit_s


KernelLimitOption = Annotated[float, typer.Option(help="Seconds that one kernel may take.", callback=_check_limit)]
MarginOption = Annotated[float, typer.Option(help="Relative difference that counts as none.")]
SuiteOption = Annotated[
    str, typer.Option(metavar="NAME", help="The workloads of a suite, and their weighted geometric mean: contest.")
]
PartOption = Annotated[
    str,
    typer.Option(metavar="I/N", help="One of N parts of the workloads: 2/4; `gdnbench runs merge` joins them."),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be built and measured, and about how long; do nothing.")
]
KernelsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="KERNEL", help=_MANY, autocompletion=complete_kernels, show_default=False),
]
KernelsOption = Annotated[
    list[str] | None,
    typer.Option("--kernel", "-k", metavar="KERNEL,…", help="The same, as an option.", autocompletion=complete_kernels),
]
RunsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUN",
        help="A run's id, its start or label, a folder, or a GPU's name (h200).",
        autocompletion=complete_runs,
        show_default=False,
    ),
]
BaselineOption = Annotated[
    str,
    typer.Option(
        help="What to compare with; the op's baseline, of a sweep its first kernel as it is.",
        autocompletion=complete_kernels,
    ),
]
OpOption = Annotated[
    str,
    typer.Option(help="The op whose kernels are meant; by default that of those named.", autocompletion=complete_ops),
]
OpOrDecodeOption = Annotated[
    str,
    typer.Option(
        help="The op whose kernels are meant; by default that of those named, and decode where none is.",
        autocompletion=complete_ops,
    ),
]
CardsOption = Annotated[
    str, typer.Option(help="auto, cpu, an index, a model (h200, b200), a GPU-… UUID; all cards at once: all, or 0,2.")
]
GpuOption = Annotated[str, typer.Option(help="auto, cpu, an index, a model (h200, b200) or a GPU-… UUID.")]
ProfileOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PROFILE,…", help="Distributions of the inputs, as `list --op` names them; all: each of them."
    ),
]
InputsOption = Annotated[
    Path | None,
    typer.Option(
        "--inputs",
        metavar="FILE",
        readable=False,
        help="Captured inputs of a model, FILE.safetensors or a folder of them; their shapes tell the workload.",
        show_default=False,
    ),
]
ShapesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--shape", metavar="AXIS=N,N…", help="Sizes by axis, list or alias: B=1,8 heads=qk4_v8 lengths=8x1024."
    ),
]
ResultsOption = Annotated[Path, typer.Option("--out", readable=False, help="The folder that holds runs.")]
ProfilesOption = Annotated[Path, typer.Option("--profiles", readable=False, help="The folder that holds profiles.")]
LedgerOption = Annotated[Path, typer.Option("--ledger", readable=False, help="The file of the ledger.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def joined(texts: Sequence[str] | None) -> str:
    """A list that was given as an option, perhaps several times: `a,b` of `-k a -k b`."""
    return ",".join(texts or ())


def sizes(texts: Sequence[str] | None) -> str:
    """Sizes that were given as `--shape`, perhaps several times: `B=1 heads=qk4_v8`."""
    return " ".join(texts or ())


def terms(arguments: Sequence[str] | None, options: Sequence[str] | None) -> list[str]:
    """The kernels that were named, as arguments or by `-k`."""
    return [*(arguments or ()), *(options or ())]


def op_meant(catalog: Catalog, op: str, named: Sequence[str], *, quiet: bool = False) -> str:
    """As `resolve_op`; where nothing says which of several ops is meant, a note on stderr says which is taken.

    Raises:
        UnknownNameError: as `resolve_op`.
        UsageError: as `resolve_op`.
    """
    from gdnbench.catalog.resolve import names_no_kernel, resolve_op
    from gdnbench.render.console import message_console

    found = resolve_op(catalog, op, named)
    if not op and names_no_kernel(named) and len(catalog.ops) > 1:
        others = ", ".join(name for name in catalog.ops if name != found)
        note = f"note: the kernels of {found} are meant; --op names another op: {others}"
        message_console(quiet=quiet).print(note, style="dim", markup=False)
    return found


def some_terms(arguments: Sequence[str] | None, options: Sequence[str] | None, example: str) -> list[str]:
    """As `terms`, where there is nothing that none could mean.

    Raises:
        UsageError: if none was named.
    """
    named = terms(arguments, options)
    if not named:
        raise UsageError("no kernel was named", f"as in {example}")
    return named


def one_term(arguments: Sequence[str] | None, options: Sequence[str] | None, example: str) -> str:
    """The one kernel that was named.

    Args:
        arguments: as arguments.
        options: by `-k`.
        example: what is right, for the error's hint.

    Raises:
        UsageError: if it is not one.
    """
    named = [name for name in terms(arguments, options) if name.strip()]
    if len(named) != 1:
        told = f"{len(named)} were named: {' '.join(named)}" if named else "none was named"
        raise UsageError(f"one kernel is needed, and {told}", f"as in {example}")
    return named[0]


def refuse_beside(ctx: Context, name: str, allowed: Collection[str], why: str) -> None:
    """Refuses options that contradict another one.

    Args:
        ctx: the command's.
        name: the parameter of that other option.
        allowed: the parameters that may be given with it.
        why: the reason for refusing others.

    Raises:
        UsageError: for the first parameter that is not allowed.
    """
    for param, told in _typed(ctx):
        if param not in allowed:
            raise UsageError(f"--{name} does not go with {told}: {why}", f"leave {told} out, or start a new run")


def check_mode(ctx: Context, mode: str, own: Collection[str], others: Collection[str] = ()) -> None:
    """Refuses options that a flag and its absence do not share.

    Args:
        ctx: the command's.
        mode: the parameter of the flag, which is also its spelling.
        own: the parameters that mean something with the flag alone.
        others: those that mean something without it alone.

    Raises:
        UsageError: for the first parameter that does not fit.
    """
    for param, told in _typed(ctx):
        if ctx.params[mode] and param in others:
            raise UsageError(f"--{mode} does not go with {told}", f"leave {told} out")
        if not ctx.params[mode] and param in own:
            raise UsageError(f"{told} is of --{mode}", f"add --{mode}, or leave {told} out")


def _typed(ctx: Context) -> Iterator[tuple[str, str]]:
    """The parameters that were typed, and how each is spelt."""
    for param in ctx.command.params:
        given = param.name and ctx.get_parameter_source(param.name)
        if param.name and given and given.name == "COMMANDLINE":
            yield param.name, max(param.opts, key=len) if param.param_type_name == "option" else f"a {param.name}"


def confirm_builds(outlook: Outlook, *, yes: bool) -> None:
    """Asks before compiling more than MOST_BUILDS kernels; a sweep over all params has thousands.

    Raises:
        UsageError: without a terminal to ask in.
        typer.Exit: if the answer is no.
    """
    from gdnbench.measure.plan import MOST_BUILDS

    if outlook.missing > MOST_BUILDS:
        minutes = max(1, round(outlook.building_s / 60))
        confirm(f"{outlook.missing:,} kernels are to be compiled, for about {minutes} min?", yes=yes)


def confirm(question: str, *, yes: bool) -> None:
    """Returns if the user agrees.

    Args:
        question: what is about to happen, as a question.
        yes: whether `--yes` was given, which is an answer.

    Raises:
        UsageError: without a terminal to ask in.
        typer.Exit: if the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(question.removesuffix("?"), "confirm with --yes; there is no terminal to ask in")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise typer.Exit(ExitCode.INTERRUPTED)
