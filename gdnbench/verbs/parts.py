"""A run or sweep in parts on a cluster: one task of its queue for each part, all at once, and one run of them."""

from __future__ import annotations

import secrets
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gdnbench.catalog.catalog import load_catalog
from gdnbench.catalog.resolve import find_op, resolve_op
from gdnbench.errors import ExitCode
from gdnbench.measure.parallel_runs import RunJob, RunOutcome, gdnbench_command, worst_code
from gdnbench.measure.request import workloads_asked
from gdnbench.model.case import Part
from gdnbench.origin import out_option
from gdnbench.remote.job import GivenOption, words_that_travel
from gdnbench.remote.targets import NamedTarget
from gdnbench.render.console import message_console
from gdnbench.store.info import read_info
from gdnbench.verb_table import VERBS
from gdnbench.verbs.cards import run_and_tell
from gdnbench.verbs.options import sizes, terms
from gdnbench.verbs.runs import print_merged

_WHOLE = ("part", "resume", "dry_run", "inputs")
"""Of commands that are not split: of a part, of a run that was begun, of files, or such as measure nothing."""

_OF_ALL = {"on", "part", "seed", "json", "csv", "plot", "emit_dispatch"}
"""Parameters that a part has of its own, or that are of the run that is made of all."""


def count_parts(tasks: int, verb: str, params: Mapping[str, Any]) -> int:
    """Into how many parts a command is split: 1 where it is not.

    Args:
        tasks: of the target's queue, at most.
        verb: the command's.
        params: the verb's, parsed.

    Raises:
        GdnbenchError: for kernels, workloads or a suite that do not exist.
    """
    if not VERBS[verb].splits or any(params.get(name) for name in _WHOLE) or _is_several(params["gpu"]):
        return 1
    catalog = load_catalog()
    names = [*terms(params["kernels"], params["kernel"]), params["baseline"]]
    op = find_op(catalog, resolve_op(catalog, params["op"], names))
    return min(tasks, len(workloads_asked(op, sizes(params["shape"]), params.get("suite") or "")))


def _is_several(gpu: str) -> bool:
    """Whether `--gpu` asks for several cards: those are a run each already."""
    return gpu.strip().lower() == "all" or "," in gpu


def run_parts(
    named: NamedTarget, verb: str, given: Sequence[GivenOption], params: Mapping[str, Any], count: int
) -> ExitCode:
    """Runs the parts of a command on a target at once, merges them, and prints the run; gives its exit code.

    Args:
        named: the target.
        verb: `run` or `sweep`.
        given: the words behind the verb.
        params: the verb's, parsed.
        count: how many parts.
    """
    results: Path = params["results"]
    seed = secrets.randbelow(2**31) if params["seed"] is None else params["seed"]
    typed = words_that_travel(given, _OF_ALL)
    jobs = []
    for number in range(1, count + 1):
        own = ("--on", named.name, "--part", str(Part(number, count)), "--seed", str(seed), "--json")
        jobs.append(RunJob(f"part {number}", gdnbench_command([verb, *own, *typed])))
    console = message_console(quiet=params["quiet"])
    console.print(f"on {named.name} ({named.described}), in {count} parts at once", markup=False)
    outcomes = run_and_tell(jobs, results)
    folders = [each.folder for each in outcomes if each.folder and read_info(each.folder).complete]
    if len(folders) < count:
        _tell_what_is_left(named, outcomes, results)
        return worst_code(outcomes, ExitCode.PARTIAL)
    command = shlex.join(["gdnbench", *sys.argv[1:]])
    return worst_code(outcomes, print_merged(folders, results, command=command, params=params))


def _tell_what_is_left(named: NamedTarget, outcomes: Sequence[RunOutcome], results: Path) -> None:
    """How to finish the parts that are not complete, and to make one run of all then."""
    own = ["--on", named.name, *out_option(results)]
    console = message_console()
    for each in outcomes:
        if each.folder and not read_info(each.folder).complete:
            words = ["gdnbench", "run", "--resume", each.folder.name, *own]
            console.print(f"{each.name}: finish it: {shlex.join(words)}", markup=False, soft_wrap=True)
    runs = [each.folder.name if each.folder else each.name.upper().replace(" ", "") for each in outcomes]
    words = ["gdnbench", "runs", "merge", *runs, *out_option(results)]
    console.print(f"once all parts are complete: {shlex.join(words)}", markup=False, soft_wrap=True)
