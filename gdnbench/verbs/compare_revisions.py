"""`gdnbench compare HEAD~1 HEAD --kernel K`: measures a kernel at two git revisions, interleaved in one run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gdnbench.analyse.comparison import RegressionCheck, check_regressions, compare_sources
from gdnbench.analyse.ratio import CompareSettings
from gdnbench.analyse.runs import load_run
from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.request import device_of, make_request
from gdnbench.catalog.revision import WORKING_TREE, RevisionPair, has_revision, pair_revisions
from gdnbench.errors import ExitCode, MachineError, UnknownNameError, UnknownRevisionError, UsageError
from gdnbench.machine.gpus import list_gpus, select_gpu
from gdnbench.measure.plan import make_plan, refuse_impossible
from gdnbench.measure.start import begin_session
from gdnbench.process.events import NoteMade
from gdnbench.store.find import name_runs
from gdnbench.store.settings import choose_settings
from gdnbench.verbs.compare_tables import print_outcome
from gdnbench.verbs.progress import watch
from gdnbench.verbs.run import print_finished

if TYPE_CHECKING:
    from gdnbench.measure.run import Finished


@dataclass(frozen=True)
class RevisionRequest:
    """What to measure of a kernel at which revisions; empty fields are as for `gdnbench run`."""

    kernel: str
    revisions: Sequence[str]  # one is compared with the working tree
    margin: float
    gpu: str = "auto"
    axes: str = ""
    suite: str = ""
    profiles: str = ""
    rounds: int | None = None
    quick: bool = False
    seed: int | None = None
    label: str = ""
    is_gate: bool = False  # whether a slower one is a failure
    strict: bool = False


def compare_revisions(request: RevisionRequest, results: Path, *, json: bool, csv: bool, quiet: bool) -> ExitCode:
    """Measures both, prints the run as `gdnbench run` does, and returns its exit code, or that of the gate.

    Raises UsageError unless there are one or two revisions and none is a run's name, or as `pair_revisions`;
    MachineError if the kernel cannot run here.
    """
    before, after = _revisions(request, results)
    try:
        pair = pair_revisions(load_catalog(), request.kernel, before, after)
    except UnknownRevisionError as error:
        message = f"{error.message}, nor is there a run of that name in {results}"
        raise UnknownRevisionError(message, error.hint) from error
    gpu = select_gpu(request.gpu, list_gpus())
    settings = choose_settings(
        device_of(gpu), quick=request.quick, rounds=request.rounds, seed=request.seed, margin=request.margin
    )
    measured = make_request(
        pair.catalog,
        pair.op,
        f"{pair.before},{pair.after}",
        axes=request.axes,
        baseline=pair.before,
        label=request.label,
        settings=settings,
        suite=request.suite,
        profiles=request.profiles,
    )
    plan = make_plan(pair.catalog, measured, gpu)
    refuse_impossible(pair.catalog, plan)
    plan = replace(plan, notes=(*pair.warnings, *plan.notes))
    with watch(quiet=quiet) as observer:
        for note in pair.notes:
            observer(NoteMade(note))
        finished = begin_session(pair.catalog, plan, results, observer).run()
    code = print_finished(finished, are_clocks_asked=False, json=json, csv=csv)
    if code or not request.is_gate:
        return code
    outcome = _judge(finished, pair, request.margin)
    print_outcome(outcome, request.margin)
    return outcome.exit_code(strict=request.strict)


def _revisions(request: RevisionRequest, results: Path) -> tuple[str, str]:
    if len(request.revisions) > 2:
        raise UsageError(f"{len(request.revisions)} revisions are too many", "name two, or one and the working tree")
    for typed in request.revisions:
        if not typed:
            raise UsageError("a revision needs a name", f"as in HEAD~1, or {WORKING_TREE} for the working tree")
        if typed != WORKING_TREE and _names_run(typed, results):
            message = f"{typed} names a run, and --kernel measures git revisions"
            hint = f"leave --kernel out to compare runs; a branch of that name is refs/heads/{typed}"
            raise UsageError(message, hint)
    before, after = (*request.revisions, WORKING_TREE)[:2]
    return before, after


def _names_run(text: str, results: Path) -> bool:
    with suppress(UnknownNameError):
        return bool(name_runs(results, text).runs)
    return False


def _judge(finished: Finished, pair: RevisionPair, margin: float) -> RegressionCheck:
    side = compare_sources(
        [load_run(finished.path)],
        rows="",
        columns="label",
        filtered=f"label={pair.before},{pair.after}",
        settings=CompareSettings(margin=margin),
    )
    return check_regressions(side.grid.rows, side.columns[-1].ratios, margin)


def with_revision_hint(error: UnknownNameError, sources: Sequence[str], results: Path) -> UnknownNameError:
    """The error for a source that is no run; its hint says so if it is a git revision of a folder of kernels."""
    for text in sources:
        with suppress(MachineError):
            if not _names_run(text, results) and any(has_revision(root, text) for root in default_roots()):
                return UnknownNameError(error.message, f"{text} is a git revision: add --kernel KERNEL to measure it")
    return error
