"""The command line: registers the verbs and turns errors into messages and exit codes."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gdnbench import __version__
from gdnbench.cli.compare import compare
from gdnbench.cli.doctor import calibrate, doctor
from gdnbench.cli.exchange import export, import_files
from gdnbench.cli.explain import explain
from gdnbench.cli.history import history
from gdnbench.cli.inspect import inspect
from gdnbench.cli.ledger import ledger, try_
from gdnbench.cli.lint import lint
from gdnbench.cli.list import list_kernels
from gdnbench.cli.mcp import mcp
from gdnbench.cli.merge import merge
from gdnbench.cli.moved import check_moved
from gdnbench.cli.ncu import ncu, nsys
from gdnbench.cli.new import new
from gdnbench.cli.outcome import ended_by_none, exit_code_of, prepare_streams
from gdnbench.cli.proton import phases, proton
from gdnbench.cli.report import report
from gdnbench.cli.run import run
from gdnbench.cli.runs import cache, runs
from gdnbench.cli.score import score
from gdnbench.cli.show import contest, plot, show
from gdnbench.cli.step import step
from gdnbench.cli.sweep import sweep
from gdnbench.cli.targets import targets
from gdnbench.cli.verb import MARKUP, GpuVerb, listed_group, listed_verb
from gdnbench.cli.verify import ready, verify
from gdnbench.cli.watch import watch
from gdnbench.cli.worker import worker
from gdnbench.errors import ExitCode
from gdnbench.process.command import termination_as_interrupt

_EXIT_CODES = "  \n".join(f"{code.value}: {code.meaning}" for code in ExitCode)

VERBS = (
    listed_verb(list_kernels, "list"),
    listed_verb(new),
    listed_verb(lint),
    listed_verb(doctor, cls=GpuVerb),
    listed_verb(calibrate, cls=GpuVerb),
    listed_verb(verify, cls=GpuVerb),
    listed_verb(run, cls=GpuVerb),
    listed_verb(sweep, cls=GpuVerb),
    listed_verb(score),
    listed_verb(watch),
    listed_verb(try_, "try"),
    listed_verb(ledger),
    listed_verb(step, cls=GpuVerb),
    listed_verb(inspect),
    listed_verb(ncu, cls=GpuVerb),
    listed_verb(explain),
    listed_verb(phases, cls=GpuVerb),
    listed_verb(proton, cls=GpuVerb),
    listed_verb(nsys),
    listed_verb(show),
    listed_verb(merge),
    listed_verb(report),
    listed_verb(compare),
    listed_verb(history),
    listed_verb(plot),
    listed_verb(ready),
    listed_verb(contest),
    listed_verb(export),
    listed_verb(import_files, "import"),
    listed_verb(mcp),
    listed_group(runs),
    listed_group(cache),
    listed_group(targets),
)
_FOR_MACHINES = (listed_verb(worker, hidden=True),)


class _Verbs(TyperGroup):
    """The verbs, in the order of `--help`."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": (*VERBS, *_FOR_MACHINES)})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb that was typed; raises UnknownNameError for one that was removed or renamed."""
        check_moved(args[0])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Runs the verb that was named."""
        with ended_by_none():
            return super().invoke(ctx)


app = typer.Typer(
    name="gdnbench",
    cls=_Verbs,
    help="Benchmark and profile Gated Delta Net GPU kernels that run for microseconds.",
    epilog=f"Exit codes  \n{_EXIT_CODES}",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=MARKUP,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"gdnbench {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> int:
    """Runs the command line; every failure ends in one message, a hint and an exit code."""
    if "GDNBENCH_EVENTS" in os.environ:  # who started us follows what we do
        from gdnbench.elsewhere.events import take_events

        take_events()
    prepare_streams()
    with termination_as_interrupt():
        code = exit_code_of(app)
    exec("")  # where an interrupt left an earlier one, as dataclasses run it, Python would die of SIGINT after all
    return code
