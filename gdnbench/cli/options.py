"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from gdnbench.cli.complete import complete_kernels, complete_runs
from gdnbench.errors import UsageError

_ONE = "A name, with params after colons: decode-v4, decode-triton:BV=16."
_MANY = "Names or globs, params after colons: decode-v4 'decode-v1*' decode-triton:BV=16."

Kernel = Annotated[
    list[str] | None, typer.Argument(metavar="KERNEL", help=_ONE, autocompletion=complete_kernels, show_default=False)
]
StepLimit = Annotated[
    float,
    typer.Option(help="Seconds that a step of a kernel may take; importing it 3 times that, compiling it 10 times."),
]
Suite = Annotated[
    str, typer.Option(metavar="NAME", help="The workloads of a suite, and their weighted geometric mean: contest.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be built and measured, and about how long; do nothing.")
]
Kernels = Annotated[
    list[str] | None,
    typer.Argument(metavar="KERNEL", help=_MANY, autocompletion=complete_kernels, show_default=False),
]
AlsoKernels = Annotated[
    list[str] | None,
    typer.Option("--kernel", "-k", metavar="KERNEL,…", help="The same, as an option.", autocompletion=complete_kernels),
]
Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A run's id, its start or label, a folder, or a GPU's name (h200).",
        autocompletion=complete_runs,
        show_default=False,
    ),
]
Baseline = Annotated[
    str,
    typer.Option(
        help="What to compare with; the op's baseline, of a sweep its first kernel as it is.",
        autocompletion=complete_kernels,
    ),
]
Op = Annotated[str, typer.Option(help="The op whose kernels are meant.")]
Gpu = Annotated[str, typer.Option(help="auto, cpu, an index, a model (h200, b200) or a GPU-… UUID.")]
Batches = Annotated[list[str] | None, typer.Option("--shape", metavar="B=N,N…", help="Batch sizes.")]
Heads = Annotated[list[str] | None, typer.Option(metavar="qkN_vM,…", help="Head layouts; the op's first by default.")]
Results = Annotated[Path, typer.Option("--out", readable=False, help="The folder that holds runs.")]
Profiles = Annotated[Path, typer.Option("--profiles", readable=False, help="The folder that holds profiles.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes.")]


def joined(texts: Sequence[str] | None) -> str:
    """A list that was given as an option, perhaps several times: `a,b` of `-k a -k b`."""
    return ",".join(texts or ())


def sizes(texts: Sequence[str] | None) -> str:
    """Batch sizes that were given as `--shape`, perhaps several times: `B=1,2` of `--shape B=1 --shape B=2`."""
    first, *more = texts or [""]
    return ",".join([first, *(text.removeprefix(f"{first.partition('=')[0]}=") for text in more)])


def terms(arguments: Sequence[str] | None, options: Sequence[str] | None) -> list[str]:
    """The kernels that were named, as arguments or by `-k`."""
    return [*(arguments or ()), *(options or ())]


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
    named = terms(arguments, options)
    if len(named) != 1:
        told = f"{len(named)} were named: {' '.join(named)}" if named else "none was named"
        raise UsageError(f"one kernel is needed, and {told}", f"as in {example}")
    return named[0]
