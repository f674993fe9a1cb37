"""The command line: registers the verbs and turns errors into messages and exit codes."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gdnbench import __version__
from gdnbench.cli.cache import cache
from gdnbench.cli.calibrate import calibrate
from gdnbench.cli.compare import compare
from gdnbench.cli.doctor import doctor
from gdnbench.cli.explain import explain
from gdnbench.cli.export import export
from gdnbench.cli.history import history
from gdnbench.cli.import_files import import_files
from gdnbench.cli.inspect import inspect
from gdnbench.cli.lint import lint
from gdnbench.cli.list import list_kernels
from gdnbench.cli.ncu import ncu
from gdnbench.cli.new import new
from gdnbench.cli.nsys import nsys
from gdnbench.cli.outcome import exit_code_of, prepare_streams
from gdnbench.cli.phases import phases
from gdnbench.cli.plot import plot
from gdnbench.cli.proton import proton
from gdnbench.cli.report import report
from gdnbench.cli.run import run
from gdnbench.cli.runs import runs
from gdnbench.cli.show import show
from gdnbench.cli.sweep import sweep
from gdnbench.cli.verb import MARKUP, listed_group, listed_verb
from gdnbench.cli.verify import verify
from gdnbench.errors import ExitCode

_EXIT_CODES = "  \n".join(f"{code.value}: {code.meaning}" for code in ExitCode)

VERBS = (
    listed_verb(list_kernels, "list"),
    listed_verb(new),
    listed_verb(lint),
    listed_verb(doctor),
    listed_verb(calibrate),
    listed_verb(verify),
    listed_verb(run),
    listed_verb(sweep),
    listed_verb(inspect),
    listed_verb(ncu),
    listed_verb(explain),
    listed_verb(phases),
    listed_verb(proton),
    listed_verb(nsys),
    listed_verb(show),
    listed_verb(report),
    listed_verb(compare),
    listed_verb(history),
    listed_verb(plot),
    listed_verb(export),
    listed_verb(import_files, "import"),
    listed_group(runs),
    listed_group(cache),
)


class _Verbs(TyperGroup):
    """The verbs, in the order of `--help`."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": VERBS})


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
    prepare_streams()
    return exit_code_of(app)
