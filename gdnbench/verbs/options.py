"""What verbs share: options, what the shell offers for them, how they are read, and the question before a long act."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Context

from gdnbench.errors import ExitCode, GdnbenchError, UsageError
from gdnbench.origin import RESULTS
from gdnbench.wording import first_of, plural

if TYPE_CHECKING:
    from gdnbench.catalog.catalog import Catalog
    from gdnbench.measure.plan import Outlook


Candidates = Callable[[Any, str], Iterable[str]]


def _completer(candidates: Candidates) -> Callable[[Any, str], list[str]]:
    """Makes what Typer calls: those of the candidates that begin so; none where they cannot be found."""

    def complete(ctx: Any, incomplete: str) -> list[str]:
        try:
            return [each for each in dict.fromkeys(candidates(ctx, incomplete)) if each.startswith(incomplete)]
        except Exception:
            return []

    return complete


def _ops(_ctx: Any, _word: str) -> Iterable[str]:
    from gdnbench.catalog.catalog import load_catalog

    return load_catalog().ops


def _targets(_ctx: Any, _word: str) -> Iterable[str]:
    from gdnbench.remote.targets import load_targets

    return load_targets()


def _kernels(ctx: Any, word: str) -> Iterator[str]:
    from gdnbench.catalog.catalog import load_catalog

    catalog = load_catalog()
    before, comma, _ = word.rpartition(",")
    ops = _meant_ops(catalog, ctx.params or {}, before)
    for entry in catalog.entries.values():
        if entry.op.name in ops:
            yield from (before + comma + variant.label for variant in (entry.default, *entry.presets))


def _meant_ops(catalog: Catalog, params: dict[str, Any], before: str) -> tuple[str, ...]:
    """The op that `--op` gives, else those that have all of the kernels named so far; all, where none has."""
    if op := params.get("op"):
        return (op,)
    from gdnbench.catalog.select import ops_having

    named = [*_texts(params.get("kernels")), *_texts(params.get("kernel")), before]
    return ops_having(catalog, named) or tuple(catalog.ops)


def _texts(value: Any) -> list[str]:
    return [str(each) for each in value or ()]


def _runs(ctx: Any, _word: str) -> Iterator[str]:
    from gdnbench.store.find import list_runs

    results = (ctx.params or {}).get("results") or RESULTS
    names = [path.name for path in reversed(list_runs(results))]
    yield from names
    parts = [name.split("-") for name in names]
    yield from ("-".join(each[4:]) for each in parts if len(each) > 4)
    yield from (each[2] for each in parts if len(each) > 2)
    yield from (f"published/{path.parent.name}" for path in sorted(results.glob("published/*/figures.csv")))


def _stopped(ctx: Any, _word: str) -> Iterator[str]:
    from gdnbench.store.find import list_runs, readable
    from gdnbench.store.info import read_info

    results = (ctx.params or {}).get("results") or RESULTS
    infos = readable(list_runs(results, stopped=True)[::-1], read_info)
    yield from (info.run_id for info in infos if not info.complete)


complete_kernels, complete_ops, complete_runs, complete_stopped, complete_targets = map(
    _completer, (_kernels, _ops, _runs, _stopped, _targets)
)
"""Kernels with their presets, behind a comma as well; ops; stored runs and published tables; stopped runs; targets."""


def _names(help: str) -> Any:
    return typer.Argument(metavar="KERNEL", help=help, autocompletion=complete_kernels, show_default=False)


KernelArgument = Annotated[
    list[str] | None, _names("A name, with params after colons: decode-v4, decode-triton:BV=16.")
]
KernelsArgument = Annotated[
    list[str] | None, _names("Names or globs, params after colons: decode-v4 'decode-v1*' decode-triton:BV=16.")
]
ProfiledArgument = Annotated[list[str] | None, _names("Names or globs, params after colons; with --import, files.")]
BudgetOption = Annotated[str, typer.Option(metavar="TIME", help="What measuring may take: 90s, 2m.")]
StepLimitOption = Annotated[
    float,
    typer.Option(help="Seconds that a step of a kernel may take; importing it 3 times that, compiling it 10 times."),
]
FreshOption = Annotated[
    bool, typer.Option("--fresh", help="Start each worker anew, instead of forking it from a process that stays up.")
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
RoundsOption = Annotated[int | None, typer.Option(help="Rounds in all, after burn-ins; 42 by default.")]
SeedOption = Annotated[int | None, typer.Option(help="Of inputs and order; fresh by default.")]
InputsSeedOption = Annotated[int, typer.Option(help="Of the inputs.")]
QuickOption = Annotated[bool, typer.Option("--quick", help="7 rounds of 32 samples, by NVBench: a first look.")]
LabelOption = Annotated[str, typer.Option(help="Becomes part of the run's name.")]
MarginOption = Annotated[float, typer.Option(help="Relative difference that counts as none.")]
SuiteOption = Annotated[
    str, typer.Option(metavar="NAME", help="The workloads of a suite, and their weighted geometric mean: contest.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be built and measured, and about how long; do nothing.")
]
KernelsOption = Annotated[
    list[str] | None,
    typer.Option("--kernel", "-k", metavar="KERNEL,…", help="The same, as an option.", autocompletion=complete_kernels),
]
LibraryOption = Annotated[bool, typer.Option("--library", help="In a project: the bundled kernels, too.")]
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
        "--baseline",
        "--against",
        help="What to compare with; the op's baseline, of a sweep its first kernel as it is, of functions the first.",
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
        help="The op whose kernels are meant; by default that of those named, else the project's, else decode.",
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
OnOption = Annotated[
    str,
    typer.Option(
        metavar="TARGET",
        help="Do it on a target of gdnbench.toml; by default here, or on the one target that has --gpu's model.",
        autocompletion=complete_targets,
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def joined(texts: Sequence[str] | None) -> str:
    """Returns a list that was given as an option, perhaps several times: `a,b` of `-k a -k b`."""
    return ",".join(texts or ())


def sizes(texts: Sequence[str] | None) -> str:
    """Returns sizes that were given as `--shape`, perhaps several times: `B=1 heads=qk4_v8`."""
    return " ".join(texts or ())


def terms(arguments: Sequence[str] | None, options: Sequence[str] | None) -> list[str]:
    """Returns the kernels that were named, as arguments or by `-k`."""
    return [*(arguments or ()), *(options or ())]


def op_meant(catalog: Catalog, op: str, named: Sequence[str], *, quiet: bool = False) -> str:
    """As `resolve_op`, which may raise; a note on stderr says which op is taken where several could be meant."""
    from gdnbench.catalog.select import names_no_kernel, resolve_op
    from gdnbench.render.console import message_console

    resolved = resolve_op(catalog, op, named)
    if not op and names_no_kernel(named) and len(catalog.meant_ops) > 1:
        others = ", ".join(name for name in catalog.meant_ops if name != resolved)
        note = f"note: the kernels of {resolved} are meant; --op names another op: {others}"
        message_console(quiet=quiet).print(note, style="dim", markup=False)
    return resolved


def some_terms(arguments: Sequence[str] | None, options: Sequence[str] | None, example: str) -> list[str]:
    """As `terms`; raises UsageError, with what is right as an `example`, if no kernel was named."""
    named = terms(arguments, options)
    if not named:
        raise UsageError("no kernel was named", f"as in {example}")
    return named


def one_term(arguments: Sequence[str] | None, options: Sequence[str] | None, example: str) -> str:
    """Returns the one kernel that was named; raises UsageError, with a right `example`, for none or several."""
    named = [name for name in terms(arguments, options) if name.strip()]
    if len(named) != 1:
        problem = f"{len(named)} were named: {' '.join(named)}" if named else "none was named"
        raise UsageError(f"one kernel is needed, and {problem}", f"as in {example}")
    return named[0]


def refuse_beside(ctx: Context, name: str, allowed: Collection[str], why: str) -> None:
    """Raises UsageError, with the reason `why`, if an option that is not `allowed` was given with the option `name`."""
    for param, spelling in _typed(ctx):
        if param not in allowed:
            raise UsageError(
                f"--{name} does not go with {spelling}: {why}", f"leave {spelling} out, or start a new run"
            )


def check_mode(ctx: Context, mode: str, own: Collection[str], others: Collection[str] = ()) -> None:
    """Refuses options that a flag, `mode`, does not go with (`others`), or without which it says nothing (`own`)."""
    flag = f"--{mode.replace('_', '-')}"
    for param, spelling in _typed(ctx):
        if ctx.params[mode] and param in others:
            raise UsageError(f"{flag} does not go with {spelling}", f"leave {spelling} out")
        if not ctx.params[mode] and param in own:
            raise UsageError(f"{spelling} is of {flag}", f"add {flag}, or leave {spelling} out")


def _typed(ctx: Context) -> Iterator[tuple[str, str]]:
    for param in ctx.command.params:
        source = param.name and ctx.get_parameter_source(param.name)
        if param.name and source and source.name == "COMMANDLINE":
            yield param.name, max(param.opts, key=len) if param.param_type_name == "option" else f"a {param.name}"


def confirm_builds(outlook: Outlook, *, yes: bool) -> None:
    """Asks before compiling more than MOST_BUILDS kernels, as `confirm` does; a sweep over all params has thousands."""
    from gdnbench.measure.plan import MOST_BUILDS

    if outlook.missing > MOST_BUILDS:
        minutes = max(1, round(outlook.building_s / 60))
        confirm(f"{outlook.missing:,} kernels are to be compiled, for about {minutes} min?", yes=yes)


def confirm(question: str, *, yes: bool) -> None:
    """Returns if the user agrees, or if `yes` was given."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(question.removesuffix("?"), "confirm with --yes; there is no terminal to ask in")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise typer.Exit(ExitCode.INTERRUPTED)


def run_of_all(*options: str, results: Path = RESULTS) -> tuple[str, ...]:
    """Returns the command that measures every kernel of an op: of the project's first, where that has several."""
    from gdnbench.catalog.catalog import load_catalog, own_roots
    from gdnbench.render.table import command

    with suppress(GdnbenchError):  # `list` says what is wrong
        ops = load_catalog().meant_ops if own_roots() else ("",)
        if ops:
            return command("run", "--kernel", "all", *(["--op", ops[0]] if ops[1:] else []), *options, results=results)
    return command("list")


_MOST_SHAPES = 24
_FIRST_SHAPES = 6


def print_outlook(outlook: Outlook, argv: Sequence[str], *, json: bool, csv: bool, cards: int = 1) -> None:
    """Prints what would be built and measured on each of `cards` cards, how long, and `argv` without `--dry-run`."""
    from gdnbench.origin import out_option
    from gdnbench.render.output import print_answer
    from gdnbench.render.table import Answer, command, plain_rows

    record = asdict(outlook) | ({"cards": cards} if cards > 1 else {})
    words = [word for word in argv if word != "--dry-run"]
    answer = Answer(
        text=lambda _: [plain_rows(_outlook_rows(outlook, cards), style="bold")],
        document=lambda: record,
        records=lambda: [record],
        next=command("doctor") if outlook.refused else ["gdnbench", *words, *out_option(RESULTS)],
    )
    print_answer(answer, json=json, csv=csv)


def _outlook_rows(outlook: Outlook, cards: int) -> list[tuple[str, str]]:
    from gdnbench.render.units import duration

    shapes = ", ".join(outlook.shapes)
    if len(outlook.shapes) > _MOST_SHAPES:
        shapes = f"{len(outlook.shapes)}: {first_of(outlook.shapes, _FIRST_SHAPES)}, which --json names"
    kernels = ", ".join(outlook.kernels) or "none"
    device = outlook.device + (f", on each of {cards} cards at once" if cards > 1 else "")
    rows = [("device", device), ("kernels", kernels), ("workloads", shapes)]
    if outlook.points:
        rows.append(("points", f"{outlook.points:,}"))
    rows.append(("cases", f"{outlook.cases:,}"))
    reasons: dict[str, list[str]] = {}
    for label, why in outlook.left_out.items():
        reasons.setdefault(why, []).append(label)
    for why, labels in reasons.items():
        rows.append(("left out", f"{first_of(labels, 3 if len(labels) > 4 else 4)}: {why}"))
    building = f"{outlook.builds:,}, {outlook.cached:,} of them in the cache"
    if outlook.missing:
        building += f"; about {duration(outlook.building_s)}"
    rows.append(("builds", building))
    if outlook.refused:
        return [*rows, ("refused", outlook.refused)]
    workers = "" if outlook.processes == 1 else f" in {outlook.processes} processes, each with a burn-in"
    rounds = f"{plural(outlook.rounds, 'round')}{workers or ' and a burn-in'}, " if outlook.rounds else ""
    longest_us = outlook.longest_call_us
    slower = f" (more where a call takes over {longest_us:,.0f} µs)" if longest_us else ""
    measuring = f"{rounds}at most {duration(outlook.measuring_s)}{slower}, after all kernels are checked"
    rows.append(("measuring", measuring))
    return rows
