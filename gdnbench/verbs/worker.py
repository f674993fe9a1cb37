"""`gdnbench worker`: does a job that another machine sent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer


def worker(
    job: Annotated[Path, typer.Argument(metavar="JOB.json", help="The job's file.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="The folder that its command runs in and writes to.")],
    events: Annotated[int, typer.Option(min=1, help="The descriptor to tell what happens on; stdout by default.")] = 1,
    unattended: Annotated[
        bool, typer.Option("--unattended", help="Do not listen on stdin: nobody is there to stop it but by a signal.")
    ] = False,
) -> None:
    """Do a job that another machine sent, and tell of it in lines of JSON.

    A line `stop` on stdin, or its end, is Ctrl-C to the job's command: what is
    finished is kept. The exit code is the command's. `gdnbench run --on TARGET`
    starts this by itself.
    """
    from gdnbench.remote.worker import work

    told = os.dup(events)
    if events == 1:
        os.dup2(2, 1)  # what a library prints is no event
    raise typer.Exit(work(job, out, told, None if unattended else 0))
