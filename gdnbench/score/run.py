"""Scores one kernel: builds, checks, measures until the verdict is clear, and takes the first cause of `explain`."""

from __future__ import annotations

import tempfile
import threading
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from gdnbench.analyse.conclude import overall_ratio
from gdnbench.analyse.rounds import Collected
from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.request import device_of, slug_of
from gdnbench.catalog.select import broken_kernel, find_variant, resolve_op
from gdnbench.errors import GdnbenchError
from gdnbench.measure.plan import Plan
from gdnbench.measure.run import Finished, Session
from gdnbench.measure.start import begin_session
from gdnbench.model.gpu import Gpu
from gdnbench.model.measurement import Measurement, Versus
from gdnbench.model.status import Role, Status
from gdnbench.origin import PROFILES
from gdnbench.process.events import NoteMade, Observer, PhaseBegun, PhaseTimes, ignore
from gdnbench.process.warm import WarmParent
from gdnbench.score.plan import (
    CONFIDENCE,
    LOOKS,
    AnyVerdict,
    Code,
    NoVerdict,
    Score,
    ScoreRequest,
    WorkloadScore,
    plan_score,
)
from gdnbench.stats.interval import Comparison, Interval, Verdict
from gdnbench.stats.paired import judge_paired
from gdnbench.verify.preflight import WORKER as VERIFIER
from gdnbench.verify.preflight import verify_variants
from gdnbench.workers.supervision import WaitingWorkers, worker_environment
from gdnbench.workers.task import Phase, Task

if TYPE_CHECKING:
    from gdnbench.diagnose.evidence import Cause, Evidence

_NEEDED_LATER = "gdnbench.diagnose.gather"
"""Imported while the parent only waits for workers."""

_GRAVEST_FIRST = tuple(Status)
"""The order of `Status`: failures before what is only not possible."""


def score_kernel(
    catalog: Catalog, request: ScoreRequest, gpu: Gpu | None, observer: Observer, *, warm: bool = True
) -> Score:
    """Scores a kernel on a GPU, on the CPU if `gpu` is None; `warm` forks workers from a running process."""
    if broken := broken_kernel(catalog, request.kernel):
        op = broken.name.partition("/")[0]
        reason = f"{broken.reason}; {broken.error.hint}"
        return Score(request.kernel, op, slug_of(gpu), request.against, Status.BROKEN, reason)
    phases = PhaseTimes(observer)
    plan = plan_score(catalog, request, gpu)
    environment = worker_environment(gpu)
    parent = WarmParent(environment) if warm else None
    with (
        tempfile.TemporaryDirectory(prefix="gdnbench-score-") as folder,
        WaitingWorkers(Path(folder), environment, parent) as waiting,
    ):
        if gpu and parent and parent.is_up:  # while the run is described
            roots, settings = tuple(map(str, catalog.roots)), plan.request.settings
            task = Task(Phase.WAIT, "cuda", roots, plan.request.op.name, (), settings.seed, settings.step_limit_s)
            waiting.start(VERIFIER, task, 1)
        session = begin_session(catalog, plan, Path(folder), phases)
        session.warm, session.waiting = parent, waiting
        threading.Thread(target=import_module, args=(_NEEDED_LATER,), daemon=True).start()
        finished = session.run()
        score = _judge(plan, session, finished)
        phases(PhaseBegun("explain", 0))
        evidence, cause = _explain(catalog, plan, Path(folder), gpu)
    return replace(
        score, code=_code(finished, evidence), cause=cause if score.ratio else None, seconds=phases.seconds()
    )


def check_quickly(
    catalog: Catalog, request: ScoreRequest, gpu: Gpu | None, observer: Observer, *, warm: bool = True
) -> Score | None:
    """Checks a kernel that cannot run here on one kind of inputs; returns the score of one that fails, else None."""
    if broken_kernel(catalog, request.kernel):
        return None
    op = resolve_op(catalog, request.op, [request.kernel])
    entry, variant = find_variant(catalog, op, request.kernel)
    if device_of(gpu) in entry.kernel.devices:
        return None
    phases = PhaseTimes(observer)
    verified = verify_variants(
        *(catalog, op, request.kernel),
        axes=request.axes,
        suite=request.suite,
        profiles=request.profiles,
        inputs=request.inputs,
        seed=request.seed,
        quick=True,
        step_limit_s=request.step_limit_s,
        gpu=gpu,
        observer=phases,
        warm=warm,
    )
    (case,) = verified.cases
    verdict = verified.checked[case.id]
    if verdict.status is Status.OK:
        observer(NoteMade(f"{case.label} is right at {case.workload} on the inputs that are timed; others follow"))
    if not verdict.status.is_failure:
        return None
    where = "" if verdict.status is Status.BUILD_FAILED else "in the interpreter: "
    reason, seconds = f"{where}{verdict.reason}", phases.seconds()
    return Score(variant.label, op, slug_of(gpu), request.against, verdict.status, reason, seconds=seconds)


def _judge(plan: Plan, session: Session, finished: Finished) -> Score:
    rows = [row for row in finished.analysis.measurements if row.role is Role.KERNEL]
    has_baseline = all(row.timing for row in finished.analysis.measurements if row.role is Role.BASELINE)
    # A timed baseline may have been found wrong since, or too fast to have done its work.
    ratio = _compare(session, session.collected, has_launch=session.gpu is not None) if has_baseline else None
    kernel = _compare(session, session.clocked.get("cupti", Collected()), has_launch=False)
    verdict, reason = _verdict(plan, session, finished, ratio)
    others = tuple(f"{broken.name} is left out" for broken in session.catalog.broken)
    lost = _lost_claims(session.catalog, plan.request.variants[0].label, plan.baseline)
    own_warnings = [text for text in finished.info.warnings if not (others and text.startswith(others))]
    rounds = {number: sampled for each in session.collected.samples.values() for number, sampled in each.items()}
    return Score(
        kernel=plan.request.variants[0].label,
        op=plan.request.op.name,
        gpu=slug_of(plan.gpu),
        against=plan.baseline,
        verdict=verdict,
        reason=reason,
        ratio=ratio if verdict is (ratio and ratio.verdict) else None,
        kernel_ratio=kernel if verdict is (ratio and ratio.verdict) else None,
        confidence=CONFIDENCE,
        looks=LOOKS,
        workloads=tuple(_of_workload(row, finished) for row in rows),
        processes=len({sampled.process for sampled in rounds.values()}),
        rounds=len(rounds),
        warnings=tuple(dict.fromkeys((*own_warnings, *lost, *(text for row in rows for text in row.warnings)))),
    )


def _lost_claims(catalog: Catalog, label: str, baseline: str) -> tuple[str, ...]:
    """Warns of what the baseline claims to be invariant to, and the kernel does not."""
    kernel, other = catalog.owner(label), catalog.owner(baseline)
    claimed = kernel.kernel.invariant if kernel else ()
    lost = [kind for kind in (other.kernel.invariant if other else ()) if kind not in claimed]
    return (f"{label} does not claim {', '.join(lost)} invariance, which {baseline} claims",) if lost else ()


def _compare(session: Session, collected: Collected, *, has_launch: bool) -> Comparison | None:
    settings = session.settings
    own_sds = session.own_sds
    ratio = overall_ratio(session.cases, collected, session.weights, settings, has_launch=has_launch, own_sds=own_sds)
    return judge_paired(ratio, settings.margin, settings.confidence) if ratio else None


def _verdict(plan: Plan, session: Session, finished: Finished, ratio: Comparison | None) -> tuple[AnyVerdict, str]:
    """Returns the verdict, or the reason why there is no comparison.

    The kernel's own failure precedes all others, except an interrupt: Ctrl-C also reaches the workers, so apparent
    failures may be interruptions.
    """
    if finished.interrupted:
        return NoVerdict.STOPPED, "stopped before there was a verdict"
    rows = finished.analysis.measurements
    kernel = [row for row in rows if row.role is Role.KERNEL]
    failed = [row for row in kernel if row.status.is_failure and row.status is not Status.NOT_RUN]
    if failed:
        worst = min(failed, key=lambda row: _GRAVEST_FIRST.index(row.status))
        return worst.status, f"at {worst.case.workload}: {worst.reason}" if len(kernel) > 1 else worst.reason
    for verdict in session.interpreted.values():
        if verdict.status.is_failure:
            return verdict.status, f"in the interpreter: {verdict.reason}"
    if ratio:
        return ratio.verdict, ""
    for row in kernel:
        if row.status in {Status.MISSING, Status.UNSUPPORTED}:
            is_right = any(verdict.status is Status.OK for verdict in session.interpreted.values())
            reasons = [row.reason, *_instead_of_verdict(plan, session)]
            return NoVerdict.NOT_TIMED if is_right else NoVerdict.NOT_HERE, "; ".join(reasons)
    baseline = next((row for row in rows if row.role is Role.BASELINE and not row.timing), None)
    notes = "; ".join(plan.notes)
    reason = f"{baseline.case.label} has no time: {baseline.status}: {baseline.reason}" if baseline else notes
    return NoVerdict.NO_BASELINE, reason or "there is nothing to compare with; name a kernel with --against"


def _instead_of_verdict(plan: Plan, session: Session) -> list[str]:
    """Describes, for a kernel that cannot run here, the interpreter's result and the missing comparison."""
    interpreted = list(session.interpreted.values())
    is_right = any(verdict.status is Status.OK for verdict in interpreted)
    unchecked = [] if is_right else interpreted[:1]
    results = [f"an interpreter cannot check it either: {verdict.reason}" for verdict in unchecked]
    return [*results, f"not compared with {plan.baseline}"] if plan.baseline else results


def _interval(versus: Versus) -> Interval:
    return Interval(versus.speedup, versus.low, versus.high)


def _of_workload(row: Measurement, finished: Finished) -> WorkloadScore:
    kernel = next((each for each in finished.analysis.clocks if each.case.id == row.case.id and each.timing), None)
    versus = row.versus
    return WorkloadScore(
        workload=row.case.workload,
        status=row.status,
        reason=row.reason,
        timing=row.timing,
        kernel=kernel.timing if kernel else None,
        speedup=Comparison(_interval(versus), Verdict(versus.verdict)) if versus else None,
    )


def _explain(catalog: Catalog, plan: Plan, results: Path, gpu: Gpu | None) -> tuple[Evidence | None, Cause | None]:
    """Returns the input of `explain` and the first cause, None where there are none, as for a torch kernel."""
    from gdnbench.diagnose.gather import Question, gather, rank

    label, axes = plan.request.variants[0].label, " ".join(plan.request.workloads[0].options[1::2])
    model = gpu.slug if gpu else "auto"
    try:
        asked = Question(label, plan.request.op.name, axes, model, None, PROFILES, results)
        evidence = gather(catalog, asked, ignore)
    except GdnbenchError:
        return None, None
    return evidence, next(iter(rank(evidence)), None)


def _code(finished: Finished, evidence: Evidence | None) -> Code:
    row = next(row for row in finished.analysis.measurements if row.role is Role.KERNEL)
    compiled = evidence.compiled if evidence else None
    source = compiled.build if row.registers < 0 and compiled else row
    counts = (source.registers, source.spill_bytes, source.shared_bytes)
    registers, spill_bytes, shared_bytes = (count if count >= 0 else None for count in counts)
    return Code(registers, spill_bytes, shared_bytes, (evidence.dependent_loads or None) if evidence else None)
