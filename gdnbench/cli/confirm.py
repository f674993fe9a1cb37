"""Asks before what takes long or cannot be undone."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from gdnbench.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gdnbench.bench.outlook import Outlook

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def confirm_builds(outlook: Outlook, *, yes: bool) -> None:
    """Asks before more kernels are compiled than anybody meant to; a sweep of everything is thousands.

    Raises:
        UsageError: where nobody is there to answer.
        typer.Exit: if the answer is no.
    """
    from gdnbench.bench.outlook import MOST_BUILDS

    if outlook.missing > MOST_BUILDS:
        minutes = max(1, round(outlook.building_s / 60))
        confirm(f"{outlook.missing:,} kernels are to be compiled, for about {minutes} min?", yes=yes)


def confirm(question: str, *, yes: bool) -> None:
    """Goes on if the user says so.

    Args:
        question: what is to happen, and whether.
        yes: whether that was answered by `--yes`.

    Raises:
        UsageError: where nobody is there to answer.
        typer.Exit: if the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(question.removesuffix("?"), "say so with --yes; there is no terminal to ask in")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise typer.Exit(ExitCode.INTERRUPTED)
