"""`gdnbench compare HEAD~1 HEAD --kernel K`: measures a kernel at two git revisions, interleaved in one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from gdnbench.analyse.comparison import check_regressions, compare_sources
from gdnbench.analyse.ratio import CompareSettings
from gdnbench.analyse.runs import load_run
from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.request import device_of, make_request
from gdnbench.catalog.revision import GIT_PREFIX, WORKING_TREE, RevisionPair, has_revision, pair_revisions
from gdnbench.errors import MachineError, UnknownNameError, UnknownRevisionError, UsageError
from gdnbench.machine.gpus import list_gpus, select_gpu
from gdnbench.measure.plan import make_plan, refuse_impossible
from gdnbench.measure.start import begin_session
from gdnbench.origin import PROFILES
from gdnbench.process.events import NoteMade
from gdnbench.remote.forward import Forwarded, choose_target
from gdnbench.remote.targets import NamedTarget, target_named
from gdnbench.remote.transfer import OriginFolders
from gdnbench.store.find import name_runs
from gdnbench.store.settings import choose_settings
from gdnbench.verbs import options
from gdnbench.verbs.compare_tables import print_outcome
from gdnbench.verbs.progress import watch
from gdnbench.verbs.run import print_finished
from gdnbench.verbs.targets import make_job, run_on


def compare_revisions(params: Mapping[str, Any], judged: CompareSettings) -> int:
    """Measures both, here or on a target, by the verb's parameters, and prints the run as `gdnbench run` does.

    Returns its exit code, or that of `--fail-on`. Raises UsageError unless there are one or two revisions and none is a
    run's name, or as `pair_revisions`; MachineError if the kernel cannot run here.
    """
    results = params["results"]
    before, after = _revisions(params["sources"], results)
    try:
        pair = pair_revisions(load_catalog(), params["kernel"], before, after)
    except UnknownRevisionError as error:
        message = f"{error.message}, nor is there a run of that name in {results}"
        raise UnknownRevisionError(message, error.hint) from error
    named = target_named(params["on"]) if params["on"] else choose_target(params["gpu"])
    code, run = _measure_there(pair, named, params, judged) if named else _measure_here(pair, params, judged)
    if code or not params["fail_on"]:
        return code
    labels = f"label={pair.before},{pair.after}"
    side = compare_sources([load_run(run)], rows="", columns="label", filtered=labels, settings=judged)
    outcome = check_regressions(side.grid.rows, side.columns[-1].ratios, judged.margin)
    print_outcome(outcome, judged.margin)
    return outcome.exit_code(strict=params["strict"])


def _measure_here(pair: RevisionPair, params: Mapping[str, Any], judged: CompareSettings) -> tuple[int, Path]:
    """Measures and prints a run; returns its exit code and folder."""
    gpu = select_gpu(params["gpu"], list_gpus())
    chosen = {name: params[name] for name in ("quick", "rounds", "seed")}
    request = make_request(
        pair.catalog,
        pair.op,
        f"{pair.before},{pair.after}",
        axes=options.sizes(params["shape"]),
        baseline=pair.before,
        label=params["label"],
        settings=choose_settings(device_of(gpu), margin=judged.margin, **chosen),
        suite=params["suite"],
        profiles=options.joined(params["profile"]),
    )
    plan = make_plan(pair.catalog, request, gpu)
    refuse_impossible(pair.catalog, plan)
    plan = replace(plan, notes=(*pair.warnings, *plan.notes))
    with watch(quiet=params["quiet"]) as observer:
        for note in pair.notes:
            observer(NoteMade(note))
        finished = begin_session(pair.catalog, plan, params["results"], observer).run()
    formats = {name: params[name] for name in ("json", "csv")}
    return print_finished(finished, are_clocks_asked=False, **formats), finished.path


def _measure_there(
    pair: RevisionPair, named: NamedTarget, params: Mapping[str, Any], judged: CompareSettings
) -> tuple[int, Path]:
    """Has a target measure both, whose folders of kernels travel; returns the exit code and the folder of the run."""
    with watch(quiet=params["quiet"]) as observer:
        for note in (*pair.notes, *pair.warnings):
            observer(NoteMade(note))
    given = {name: params[name] for name in ("suite", "rounds", "seed", "label", "gpu")}
    given |= {"shape": options.sizes(params["shape"]), "profile": options.joined(params["profile"])}
    words = ["run", f"{pair.before},{pair.after}", f"--op={pair.op}", f"--baseline={pair.before}"]
    words += [
        f"--margin={judged.margin!r}",
        *(f"--{name}={value}" for name, value in given.items() if value not in {"", None}),
    ]
    words += [f"--{name}" for name in ("quick", "json", "csv", "quiet") if params[name]]
    homes = OriginFolders(params["results"], PROFILES)
    job = make_job(named, words, homes, gpu=params["gpu"])
    forwarded = Forwarded(named, job, homes, roots=tuple(pair.catalog.roots))
    code = run_on(named, forwarded, quiet=params["quiet"])
    return code, params["results"] / next(iter(forwarded.runs), "")


def _revisions(sources: Sequence[str], results: Path) -> tuple[str, str]:
    if len(sources) > 2:
        raise UsageError(f"{len(sources)} revisions are too many", "name two, or one and the working tree")
    for typed in sources:
        if not typed.removeprefix(GIT_PREFIX):
            raise UsageError("a revision needs a name", f"as in HEAD~1, or {WORKING_TREE} for the working tree")
        if typed != WORKING_TREE and _names_run(typed, results):
            hint = f"leave --kernel out to compare runs; the revision of that name is {GIT_PREFIX}{typed}"
            raise UsageError(f"{typed} names a run, and --kernel measures git revisions", hint)
    before, after = (*(typed.removeprefix(GIT_PREFIX) for typed in sources), WORKING_TREE)[:2]
    return before, after


def _names_run(text: str, results: Path) -> bool:
    with suppress(UnknownNameError):
        return bool(name_runs(results, text).runs)
    return False


def with_revision_hint(error: UnknownNameError, sources: Sequence[str], results: Path) -> UnknownNameError:
    """The error for a source that is not a run; its hint says so if it is a git revision of a folder of kernels."""
    for text in sources:
        with suppress(MachineError):
            if not _names_run(text, results) and any(has_revision(root, text) for root in default_roots()):
                return UnknownNameError(error.message, f"{text} is a git revision: add --kernel KERNEL to measure it")
    return error
