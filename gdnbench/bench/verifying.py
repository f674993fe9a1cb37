"""`verify` without measuring: every variant, at every batch size of the op's own list."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gdnbench.bench.environment import device_of, slug_of, worker_environment
from gdnbench.bench.exitcode import gravest
from gdnbench.bench.observer import Observer
from gdnbench.bench.preflight import Judged, Preflight, build_cases
from gdnbench.bench.request import find_op, parse_shapes
from gdnbench.bench.task import Phase, Task
from gdnbench.catalog import Catalog, select_variants
from gdnbench.errors import ExitCode
from gdnbench.model import Case, Gpu, Op, Shape, Status, TritonKernel

INTERPRETED_BATCHES = 2  # the interpreter runs program by program; larger batches are more of the same


@dataclass(frozen=True)
class Verdicts:
    """What verification found.

    Attributes:
        seed: of the inputs; the first kind of inputs uses it, each further kind the next number.
        device: where: a GPU's name, or `cpu`.
        cases: what was verified, in order.
        judged: the findings, by case id.
        interpreted: ids of the cases that ran in Triton's interpreter.
    """

    seed: int
    device: str
    cases: tuple[Case, ...]
    judged: Judged
    interpreted: frozenset[str]

    @property
    def exit_code(self) -> ExitCode:
        """3 for wrong numbers, 6 for a failed build, 8 for other failures, 5 if nothing could be verified here."""
        statuses = {verdict.status for verdict in self.judged.values()}
        return gravest(statuses) or (ExitCode.OK if Status.OK in statuses else ExitCode.ENVIRONMENT)


def verify_variants(
    catalog: Catalog,
    op: str,
    kernels: str,
    *,
    axes: str,
    heads: str,
    seed: int | None,
    step_limit_s: float,
    gpu: Gpu | None,
    observer: Observer,
) -> Verdicts:
    """Verifies variants in worker processes.

    Raises:
        GdnbenchError: for names and shapes that do not exist, or a machine on which nothing works.
    """
    found = find_op(catalog, op)
    shapes = parse_shapes(found, axes or _batches(found), heads)
    variants = select_variants(catalog, op, kernels)
    cases = tuple(Case(catalog.at(variant, shape, slug_of(gpu))[1], shape) for shape in shapes for variant in variants)
    task = Task(
        phase=Phase.EXAMINE,
        device=device_of(gpu),
        roots=tuple(str(root) for root in catalog.roots),
        op=op,
        cases=cases,
        seed=secrets.randbelow(2**31) if seed is None else seed,
        step_limit_s=step_limit_s,
    )
    judged: Judged = {}
    with tempfile.TemporaryDirectory(prefix="gdnbench-verify-") as folder:
        interpreted = _judge(catalog, task, gpu, Path(folder), observer, judged)
    device = gpu.name if gpu else "cpu"
    return Verdicts(task.seed, device, cases, judged, interpreted)


def _judge(
    catalog: Catalog, task: Task, gpu: Gpu | None, folder: Path, observer: Observer, judged: Judged
) -> frozenset[str]:
    environment = worker_environment(gpu)
    if gpu:
        builds = build_cases(catalog, task.cases, (gpu.arch,), observer)
        judged.update(builds.verdicts(task.cases, gpu.arch))
    triton = () if gpu else _to_interpret(catalog, task.cases)
    rest = tuple(case for case in task.cases if case not in triton and case.id not in judged)
    observer.begin("check", len(rest))
    Preflight(folder, environment, observer, lambda _event: None).judge(_with(task, Phase.EXAMINE, rest), judged)
    if triton:
        observer.begin("interpret", len(triton))
        interpreter = Preflight(folder, {**environment, "TRITON_INTERPRET": "1"}, observer, lambda _event: None)
        interpreter.judge(_with(task, Phase.INTERPRET, triton), judged)
    return frozenset(case.id for case in triton)


def _with(task: Task, phase: Phase, cases: Sequence[Case]) -> Task:
    return replace(task, phase=phase, cases=tuple(cases))


def _to_interpret(catalog: Catalog, cases: Sequence[Case]) -> tuple[Case, ...]:
    smallest: list[Shape] = sorted({case.shape for case in cases})[:INTERPRETED_BATCHES]
    return tuple(
        case
        for case in cases
        if case.shape in smallest and isinstance(catalog.entries[case.variant.kernel].kernel, TritonKernel)
    )


def _batches(op: Op) -> str:
    return "B=" + ",".join(str(batch) for batch in op.verify_batches)
