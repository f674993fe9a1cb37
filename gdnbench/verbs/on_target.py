"""Sends a command of any verb that needs a GPU to a target, and prints what comes back."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from gdnbench.codec import convert
from gdnbench.errors import UnknownNameError, UsageError
from gdnbench.model.declaration import EVERY
from gdnbench.origin import PROFILES, RESULTS, is_folder
from gdnbench.remote.arrival import Homes
from gdnbench.remote.engine import JobOutcome
from gdnbench.remote.environment import open_host
from gdnbench.remote.events import is_a_job
from gdnbench.remote.forward import Forwarded, choose_target, models_asked
from gdnbench.remote.host import Host
from gdnbench.remote.job import INPUTS, GivenOption, RemoteJob, read_options, run_id, words_that_travel
from gdnbench.remote.targets import NamedTarget, SlurmTarget, is_text, target_named
from gdnbench.render.console import without_commands
from gdnbench.store.schema import GitDocument
from gdnbench.verbs.progress import watch

_LOCAL = {"stored": "--import", "ready": "--ready"}
"""By parameter, the options that read files of this machine."""
_STAY = {"on", "results", "profiles", "plot", "resume", "inputs"}
"""Parameters that this machine understands; what is left of them travels in another form."""


def forward(ctx: Any, words: Sequence[str], on: str) -> int | None:
    """Runs a verb on the target that `--on` names, or that has the GPU asked for; gives the exit code.

    Args:
        ctx: the verb's, parsed.
        words: behind the verb, as they were typed.
        on: the target's name; empty to choose by `--gpu`.

    Returns:
        The exit code; None if the verb is to run here.

    Raises:
        GdnbenchError: if there is no such target, or the command cannot be run there.
    """
    params = ctx.params
    local = next((option for name, option in _LOCAL.items() if params.get(name)), "")
    if local:
        if on:
            raise UsageError(f"{local} does not go with --on: it reads files here", "leave --on out")
        return None
    if is_a_job() and not on:
        return None
    named = target_named(on) if on else choose_target(params["gpu"])
    if named is None:
        return None
    given = list(read_options(words, _spellings(ctx.command.params)))
    if isinstance(named.target, SlurmTarget) and named.target.tasks > 1:
        from gdnbench.verbs.parts import count_parts, run_parts  # numpy comes with it

        parts = count_parts(named.target.tasks, ctx.info_name, params)
        if parts > 1:
            return run_parts(named, ctx.info_name, given, params, parts)
    return run_on(named, _forwarded(named, ctx, given), quiet=bool(params.get("quiet")))


def run_on(named: NamedTarget, forwarded: Forwarded, *, quiet: bool) -> int:
    """Runs a command on a target, shows its progress and prints its answer; gives its exit code.

    Raises:
        GdnbenchError: if it cannot be run there.
        KeyboardInterrupt: if the user does not wait for it to stop.
    """
    with closing(open_host(named)) as host:
        if named.ssh_host:
            host.connect(["true"])  # before the bar, which would write over what ssh may ask
        outcome = _execute(named, forwarded, host, quiet=quiet)
    sys.stdout.write(without_commands(outcome.printed))
    sys.stdout.flush()
    return outcome.code


def _execute(named: NamedTarget, forwarded: Forwarded, host: Host, *, quiet: bool) -> JobOutcome:
    with watch(quiet=quiet) as observer:
        observer.note(f"on {named.name} ({named.described}){named.told_command}")
        try:
            return forwarded.execute(host, observer)
        except KeyboardInterrupt:
            if forwarded.kept:
                observer.note(forwarded.way_out)
            raise


def _spellings(params: Sequence[Any]) -> dict[str, tuple[str, bool]]:
    """Each option's parameter, and whether a value follows, by every way to write it."""
    options = [param for param in params if param.param_type_name == "option"]
    return {
        spelling: (param.name, not (param.is_flag or param.count))
        for param in options
        for spelling in (*param.opts, *param.secondary_opts)
    }


def _forwarded(named: NamedTarget, ctx: Any, given: Sequence[GivenOption]) -> Forwarded:
    params, verb = ctx.params, ctx.info_name
    results: Path = params.get("results") or RESULTS
    profiles: Path = params.get("profiles") or PROFILES
    plot: Path | None = params.get("plot")
    resumed: str = params.get("resume") or ""
    unfinished = _unfinished(results, resumed) if resumed else None
    if unfinished is not None:
        results, resumed = unfinished.parent, run_id(unfinished)
    own = [f"--plot={plot.name}"] if plot else []
    own += ["--resume", resumed] if resumed else []
    inputs: Path | None = params.get("inputs")
    own += [f"--inputs={Path('..', INPUTS, '' if is_folder(inputs) else inputs.name)}"] if inputs else []
    words = [verb, *own, *words_that_travel(given, _STAY)]
    homes = Homes(results, profiles, {plot.name: plot} if plot else {})
    job = make_job(named, words, homes, gpu=params["gpu"], resume=resumed, inputs=str(inputs or ""))
    files = _inputs_files(inputs) if inputs else ()
    return Forwarded(named, job, homes, unfinished, files, _kernels_named(params))


def _kernels_named(params: Mapping[str, Any]) -> tuple[str, ...]:
    """The kernels that a command names; none where it names none, all, or all of an op."""
    from gdnbench.catalog.catalog import load_catalog

    given = [params.get(name) or () for name in ("kernels", "kernel", "diff")]
    lists = [[each] if isinstance(each, str) else each for each in given]
    named = [name.strip() for each in lists for text in each for name in text.split(",") if name.strip()]
    return () if {EVERY, *load_catalog().ops} & set(named) else tuple(named)


def _inputs_files(inputs: Path) -> list[Path]:
    """The files that travel: they are checked there, against the op.

    Raises:
        UsageError: if one cannot be read, or there is none.
    """
    from gdnbench.measure.captured import captured_files  # numpy comes with it

    files = captured_files(inputs)
    if strange := [file for file in files if not os.access(file, os.R_OK)]:
        raise UsageError(f"--inputs {strange[0]}: there is no such file that can be read", "name a file or a folder")
    if not files:
        raise UsageError(f"--inputs {inputs}: the folder holds no file of safetensors", "name another folder")
    return files


def make_job(
    named: NamedTarget, words: list[str], homes: Homes, *, gpu: str = "auto", resume: str = "", inputs: str = ""
) -> RemoteJob:
    """A command for a target, without what only the target knows.

    Args:
        named: the target.
        words: behind `gdnbench`, the verb first.
        homes: where what it writes belongs here.
        gpu: as `--gpu` takes it.
        resume: the stopped run that it goes on with.
        inputs: what captured inputs are called here.
    """
    from gdnbench.catalog.catalog import default_roots
    from gdnbench.machine.provenance import git_state
    from gdnbench.render.console import data_console, message_console

    if not all(map(is_text, words)):
        raise UsageError("a word of the command is not UTF-8", "rename what it names")
    shown, messages = data_console(), message_console()
    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    return RemoteJob(
        words=words,
        gpu=gpu,
        models=[] if resume else models_asked(named, gpu),
        target=named.name,
        resume=resume,
        results=str(homes.results),
        profiles=str(homes.profiles),
        inputs=inputs,
        width=shown.width if has_width else None,
        colour=shown.is_terminal and messages.is_terminal and not shown.no_color,
        git=convert(git_state(default_roots()[0]), GitDocument),
    )


def _unfinished(results: Path, wanted: str) -> Path | None:
    """The stopped run's folder here; None if there is none, for the target may keep it.

    Raises:
        UsageError: if it is whole.
    """
    from gdnbench.store.find import find_newest, name_runs
    from gdnbench.store.info import read_info

    try:
        found = name_runs(results, wanted, stopped=True)
    except UnknownNameError:
        return None
    folder = found.runs[0] if found.is_one else find_newest(found.runs, lambda run: not read_info(run).complete)
    info = read_info(folder)
    if info.complete:
        raise UsageError(f"{info.run_id} is complete: there is nothing to resume", f"gdnbench show {info.run_id}")
    return folder
