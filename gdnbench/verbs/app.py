"""The command line: registers the verbs and turns errors into messages and exit codes."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gdnbench import __version__
from gdnbench.errors import ExitCode
from gdnbench.process.command import termination_as_interrupt
from gdnbench.verb_table import VERBS
from gdnbench.verbs.base import MARKUP, Listed, ReadLightly
from gdnbench.verbs.outcome import ended_by_none, prepare_streams, run_to_exit_code

_EXIT_CODES = "  \n".join(f"{code.value}: {code.meaning}" for code in ExitCode)


class _Verbs(ReadLightly, TyperGroup):
    """The verbs, in the order of `--help`."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": [Listed(row) for row in VERBS.values()]})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb that was typed, of one word or two."""
        if (two := " ".join(args[:2])) in self.commands:
            return two, self.commands[two], args[2:]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Runs the verb that was named."""
        with ended_by_none():
            return super().invoke(ctx)


app = typer.Typer(
    name="gdnbench",
    cls=_Verbs,
    help="Check, measure and explain GPU kernels that run for microseconds, Gated Delta Net first.",
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
        from gdnbench.process.events import take_events

        take_events()
    prepare_streams()
    with termination_as_interrupt():
        code = run_to_exit_code(app)
    exec("")  # where an interrupt left an earlier one, as dataclasses run it, Python would die of SIGINT after all
    return code
