"""The command line: registers the verbs and turns errors into messages and exit codes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gdnbench import __version__
from gdnbench.cli.compare import compare
from gdnbench.cli.doctor import doctor
from gdnbench.cli.explain import explain
from gdnbench.cli.history import history
from gdnbench.cli.inspect import inspect
from gdnbench.cli.list import list_kernels
from gdnbench.cli.ncu import ncu
from gdnbench.cli.new import new
from gdnbench.cli.nsys import nsys
from gdnbench.cli.phases import phases
from gdnbench.cli.plot import plot
from gdnbench.cli.proton import proton
from gdnbench.cli.report import report
from gdnbench.cli.run import run
from gdnbench.cli.show import show
from gdnbench.cli.sweep import sweep
from gdnbench.cli.verify import verify
from gdnbench.errors import ExitCode, GdnbenchError

_EXIT_CODES = "  \n".join(f"{code.value}: {code.meaning}" for code in ExitCode)

app = typer.Typer(
    name="gdnbench",
    help="Benchmark and profile Gated Delta Net GPU kernels that run for microseconds.",
    epilog=f"Exit codes  \n{_EXIT_CODES}",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("list")(list_kernels)
app.command()(new)
app.command()(doctor)
app.command()(verify)
app.command()(run)
app.command()(sweep)
app.command()(inspect)
app.command()(ncu)
app.command()(explain)
app.command()(phases)
app.command()(proton)
app.command()(nsys)
app.command()(show)
app.command()(report)
app.command()(compare)
app.command()(history)
app.command()(plot)


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
    """Runs the command line; every expected failure ends in one message, a hint and an exit code."""
    from gdnbench.report.console import message_console

    try:
        app()
    except GdnbenchError as error:
        console = message_console()
        console.print(f"[bold red]error:[/] {_escape(error.message)}")
        if error.hint:
            console.print(f"[cyan]hint:[/]  {_escape(error.hint)}")
        return error.exit_code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader, `head` perhaps, has seen enough.
        sys.stderr.close()
        return ExitCode.OK
    return ExitCode.OK


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)
