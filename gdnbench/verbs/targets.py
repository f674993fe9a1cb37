"""`gdnbench targets`: the machines that commands can run on, and how a command of any verb is sent to one."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from gdnbench.codec import convert
from gdnbench.errors import UnknownNameError, UsageError
from gdnbench.functions.reference import names_functions
from gdnbench.model.declaration import EVERY
from gdnbench.origin import PROFILES, RESULTS, command_origin, is_folder
from gdnbench.process.events import NoteMade
from gdnbench.remote.environment import open_host
from gdnbench.remote.forward import Forwarded, JobOutcome, choose_target, requested_models
from gdnbench.remote.host import Host
from gdnbench.remote.job import INPUTS, RemoteJob, forwarded_args, run_id
from gdnbench.remote.targets import NamedTarget, is_text, target_named
from gdnbench.remote.transfer import OriginFolders
from gdnbench.render.console import without_commands
from gdnbench.render.output import print_answer
from gdnbench.render.table import Answer, Column, Note, Table, command
from gdnbench.store.schema import GitDocument
from gdnbench.verbs.options import CsvOption, JsonOption
from gdnbench.verbs.progress import watch


def targets(json: JsonOption = False, csv: CsvOption = False) -> None:
    """List the machines that commands can run on: the targets of `gdnbench.toml`.

    They are the project's and your own. `gdnbench run --on NAME` runs on one of them;
    so does `--gpu MODEL` where no GPU here is of that model and one target has it.
    """
    from gdnbench.remote.targets import HOW_TO_ADD, load_targets

    named = list(load_targets().values())
    none = Note(f"no targets: none is named here or among your own settings; {HOW_TO_ADD}")
    answer = Answer(
        [Table(_COLUMNS, named, notes=() if named else [none])],
        next=command("doctor", "--on", named[0].name) if named else None,
    )
    print_answer(answer, json=json, csv=csv)


_COLUMNS: list[Column[NamedTarget]] = [
    Column("name", lambda named: named.name, "target", fold=True),
    Column("kind", lambda named: named.described.partition(" ")[0], "kind", fold=True),
    Column("host", lambda named: named.described.partition(" ")[2], "host", fold=True),
    Column(
        "gpus", lambda named: list(named.target.gpus), "GPUs", lambda named: ", ".join(named.target.gpus), fold=True
    ),
    Column("python", lambda named: named.target.python),
    Column("workdir", lambda named: named.target.workdir),
    Column("file", lambda named: str(named.file), "file", fold=True),
]


_LOCAL = {"stored": "--import", "ready": "--ready", "chart": "--chart"}
"""By parameter, the options of files of this machine."""
_STAY = {"on", "results", "profiles", "resume", "inputs"}
"""Parameters that this machine understands; what is left of them travels in another form."""


def forward(ctx: Any, words: Sequence[str], on: str) -> int | None:
    """Runs a typed verb where `--on` or the requested GPU says; returns the exit code, or None to run it here."""
    params = ctx.params
    local = next((option for name, option in _LOCAL.items() if params.get(name)), "")
    if local:
        if on:
            raise UsageError(f"{local} does not go with --on: its files are here", "leave --on out")
        return None
    if names_functions([*(params.get("kernels") or ()), *(params.get("kernel") or ()), params.get("baseline") or ""]):
        if on:
            raise UsageError(
                "functions are measured on this machine: their files do not travel",
                "leave --on out, or begin an op with one kernel each: gdnbench new --op NAME; those do",
            )
        return None
    if command_origin() and not on:  # a job runs here, wherever `gdnbench.toml` would send it
        return None
    named = target_named(on) if on else choose_target(params["gpu"])
    if named is None:
        return None
    return run_on(named, _forwarded(named, ctx, words), quiet=bool(params.get("quiet")))


def run_on(named: NamedTarget, forwarded: Forwarded, *, quiet: bool) -> int:
    """Runs a command on a target, shows its progress and prints its output; returns its exit code."""
    with closing(open_host(named)) as host:
        if named.ssh_host:
            host.connect(["true"])  # before the bar, which would write over what ssh may ask
        outcome = _execute(named, forwarded, host, quiet=quiet)
    sys.stdout.write(without_commands(outcome.printed))
    sys.stdout.flush()
    return outcome.code


def _execute(named: NamedTarget, forwarded: Forwarded, host: Host, *, quiet: bool) -> JobOutcome:
    with watch(quiet=quiet) as observer:
        observer(NoteMade(f"on {named.name} ({named.described}){named.command_note}"))
        try:
            return forwarded.execute(host, observer)
        except KeyboardInterrupt:
            if forwarded.leftover:
                observer(NoteMade(forwarded.recovery_hint))
            raise


def _spellings(params: Sequence[Any]) -> dict[str, tuple[str, bool]]:
    """Returns each option's parameter, and whether a value follows, by every way to write it."""
    options = [param for param in params if param.param_type_name == "option"]
    return {
        spelling: (param.name, not (param.is_flag or param.count))
        for param in options
        for spelling in (*param.opts, *param.secondary_opts)
    }


def _forwarded(named: NamedTarget, ctx: Any, typed: Sequence[str]) -> Forwarded:
    params, verb = ctx.params, ctx.info_name
    results: Path = params.get("results") or RESULTS
    profiles: Path = params.get("profiles") or PROFILES
    resumed: str = params.get("resume") or ""
    unfinished = _unfinished(results, resumed) if resumed else None
    if unfinished is not None:
        results, resumed = unfinished.parent, run_id(unfinished)
    own = ["--resume", resumed] if resumed else []
    inputs: Path | None = params.get("inputs")
    own += [f"--inputs={Path('..', INPUTS, '' if is_folder(inputs) else inputs.name)}"] if inputs else []
    words = [verb, *own, *forwarded_args(typed, _spellings(ctx.command.params), _STAY)]
    homes = OriginFolders(results, profiles)
    job = make_job(named, words, homes, gpu=params["gpu"], resume=resumed, inputs=str(inputs or ""))
    files = _inputs_files(inputs) if inputs else ()
    return Forwarded(named, job, homes, unfinished, files, _kernels_named(params))


def _kernels_named(params: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the kernels that a command names; none where it names none, all, or all of an op."""
    from gdnbench.catalog.catalog import load_catalog

    values = [params.get(name) or () for name in ("kernels", "kernel", "diff")]
    lists = [[each] if isinstance(each, str) else each for each in values]
    named = [name.strip() for each in lists for text in each for name in text.split(",") if name.strip()]
    return () if {EVERY, *load_catalog().ops} & set(named) else tuple(named)


def _inputs_files(inputs: Path) -> list[Path]:
    """Returns the files to send, which the op checks there; raises UsageError if there is none, or it is unreadable."""
    from gdnbench.catalog.captured import captured_files  # numpy comes with it

    files = captured_files(inputs)
    if strange := [file for file in files if not os.access(file, os.R_OK)]:
        raise UsageError(f"--inputs {strange[0]}: there is no such file that can be read", "name a file or a folder")
    if not files:
        raise UsageError(f"--inputs {inputs}: the folder holds no file of safetensors", "name another folder")
    return files


def make_job(
    named: NamedTarget, words: list[str], homes: OriginFolders, *, gpu: str = "auto", resume: str = "", inputs: str = ""
) -> RemoteJob:
    """Makes the job of the words behind `gdnbench`, without what only the target knows; the rest is `RemoteJob`'s."""
    from gdnbench.catalog.catalog import default_roots, own_roots
    from gdnbench.machine.provenance import git_state
    from gdnbench.render.console import data_console, message_console

    if not all(map(is_text, words)):
        raise UsageError("a word of the command is not UTF-8", "rename what it names")
    shown, messages = data_console(), message_console()
    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    return RemoteJob(
        words=words,
        gpu=gpu,
        models=[] if resume else requested_models(named, gpu),
        target=named.name,
        resume=resume,
        results=str(homes.results),
        profiles=str(homes.profiles),
        inputs=inputs,
        project=bool(own_roots()),
        width=shown.width if has_width else None,
        colour=shown.is_terminal and messages.is_terminal and not shown.no_color,
        git=convert(git_state(default_roots()[0]), GitDocument),
    )


def _unfinished(results: Path, wanted: str) -> Path | None:
    """Returns the stopped run's folder, or None: the target may keep it; raises UsageError for a complete run."""
    from gdnbench.store.find import find_newest, name_runs
    from gdnbench.store.info import read_info

    try:
        match = name_runs(results, wanted, stopped=True)
    except UnknownNameError:
        return None
    folder = match.runs[0] if match.is_one else find_newest(match.runs, lambda run: not read_info(run).complete)
    info = read_info(folder)
    if info.complete:
        raise UsageError(f"{info.run_id} is complete: there is nothing to resume", f"gdnbench show {info.run_id}")
    return folder
