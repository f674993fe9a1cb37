"""The verbs that other programs start: `gdnbench mcp` by a language model's client, `worker` by a remote gdnbench."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer


def mcp(
    project: Annotated[
        Path,
        typer.Option(
            "--project", metavar="FOLDER", help="The project's folder, with results/ and profiles/.", readable=False
        ),
    ] = Path(),
) -> None:
    """Serve the verbs as tools of the Model Context Protocol, for a language model.

    A client starts it and speaks with it on stdin and stdout; nothing else is
    printed there. Each call of a tool is a command in a process of its own, in the
    project's folder. No tool writes a source, and no parameter names a file outside
    the folders of runs, profiles and kernels. Calls that measure wait for each
    other; one that is cancelled keeps what is finished.
    """
    import signal
    import sys
    from contextlib import chdir

    from gdnbench.errors import MachineError, UsageError
    from gdnbench.origin import is_folder

    try:
        import anyio
        import mcp as _protocol  # noqa: F401 - before anything that needs it
    except ModuleNotFoundError as error:
        raise MachineError(f"the module {error.name} is not installed", "pip install 'gdnbench[mcp]'") from error
    from gdnbench.mcp.server import ToolsServer
    from gdnbench.verbs.base import parameters_of

    if not is_folder(project):
        raise UsageError(f"{project} is not a folder", "give the folder that has results/ in it, or start it there")
    if sys.stdin.isatty():
        print("gdnbench mcp: a client starts this and speaks with it on stdin; Ctrl-C ends it", file=sys.stderr)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # commands inherit it where a shell had it ignored
    with chdir(project):
        anyio.run(ToolsServer(parameters_of).serve)


def worker(
    job: Annotated[Path, typer.Argument(metavar="JOB.json", help="The job's file.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="The folder that its command runs in and writes to.")],
) -> None:
    """Do a job that another machine sent, and report it in lines of JSON.

    A line `stop` on stdin, or its end, is Ctrl-C to the job's command: what is
    finished is kept. The exit code is the command's. `gdnbench run --on TARGET`
    starts this by itself.
    """
    from gdnbench.remote.job import work

    events = os.dup(1)
    os.dup2(2, 1)  # what a library prints is not an event
    raise typer.Exit(work(job, out, events, 0))
