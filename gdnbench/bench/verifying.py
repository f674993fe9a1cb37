"""`verify` without measuring: every variant, at every batch size of the op's own list."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

from gdnbench.bench.environment import ARCHS_WITHOUT_GPU, device_of, slug_of, worker_environment
from gdnbench.bench.events import Examined
from gdnbench.bench.exitcode import exit_code_of_statuses
from gdnbench.bench.observer import Observer
from gdnbench.bench.preflight import Judged, Preflight, build_cases
from gdnbench.bench.request import Settings, find_op, parse_shapes
from gdnbench.bench.side_by_side import run_side_by_side
from gdnbench.bench.task import Phase, Task
from gdnbench.catalog import Catalog, select_variants
from gdnbench.errors import ExitCode
from gdnbench.model import CPU, Case, CudaKernel, Gpu, Kernel, Op, Shape, Status, TritonKernel

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
        compiled: ids of the cases that this machine can compile, and no more: CUDA kernels without a GPU.
    """

    seed: int
    device: str
    cases: tuple[Case, ...]
    judged: Judged
    interpreted: frozenset[str]
    compiled: frozenset[str] = frozenset()

    @property
    def exit_code(self) -> ExitCode:
        """3 for wrong numbers, 6 for a failed build, 8 for other failures, 5 if nothing could be verified here."""
        statuses = [verdict.status for verdict in self.judged.values()]
        return exit_code_of_statuses(statuses, statuses)


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

    Without a GPU, Triton kernels run in Triton's interpreter, by default at the smallest batch sizes alone, and CUDA
    kernels are compiled for Hopper and Blackwell.

    Raises:
        UsageError: for a seed or a limit that cannot be used.
        GdnbenchError: for names and shapes that do not exist, or a machine on which nothing works.
    """
    found = find_op(catalog, op)
    settings = Settings(seed=secrets.randbelow(2**31) if seed is None else seed, step_limit_s=step_limit_s)
    shapes = parse_shapes(found, axes or _batches(found), heads)
    variants = select_variants(catalog, op, kernels)
    cases = tuple(Case(catalog.at(variant, shape, slug_of(gpu))[1], shape) for shape in shapes for variant in variants)
    if gpu is None and not axes:
        smallest = _smallest_batches(shapes)
        cases = tuple(case for case in cases if case.shape in smallest or not _is(TritonKernel, case, catalog))
    task = Task(
        phase=Phase.EXAMINE,
        device=device_of(gpu),
        roots=tuple(str(root) for root in catalog.roots),
        op=op,
        cases=cases,
        seed=settings.seed,
        step_limit_s=settings.step_limit_s,
    )
    with tempfile.TemporaryDirectory(prefix="gdnbench-verify-") as folder:
        if gpu:
            return _verify_on_gpu(catalog, task, gpu, Path(folder), observer)
        return _verify_without_gpu(catalog, task, Path(folder), observer)


def _verify_on_gpu(catalog: Catalog, task: Task, gpu: Gpu, folder: Path, observer: Observer) -> Verdicts:
    builds = build_cases(catalog, task.cases, (gpu.arch,), task.step_limit_s, observer)
    judged = builds.verdicts(task.cases, (gpu.arch,))
    rest = tuple(case for case in task.cases if case.id not in judged)
    observer.begin("check", len(rest))
    preflight = Preflight(folder, worker_environment(gpu), observer, _ignore)
    preflight.judge(replace(task, cases=rest), judged)
    return Verdicts(task.seed, gpu.name, task.cases, judged, frozenset())


def _verify_without_gpu(catalog: Catalog, task: Task, folder: Path, observer: Observer) -> Verdicts:
    """Compiling, checking and interpreting; the latter two at once, each in a worker of its own."""
    judged = _compile(catalog, task, observer)
    compiled = frozenset(case.id for case in task.cases if judged.get(case.id, _OK).status is Status.UNSUPPORTED)
    rest = [case for case in task.cases if case.id not in judged]
    triton = tuple(case for case in rest if _is(TritonKernel, case, catalog))
    others = tuple(case for case in rest if case not in triton)
    observer.begin("check", len(rest))

    def check(stop: Event) -> None:
        preflight = Preflight(folder, worker_environment(None), observer, _ignore, stop=stop)
        preflight.judge(replace(task, cases=others), judged)

    def interpret(stop: Event) -> None:
        preflight = Preflight(folder, worker_environment(None, interpret=True), observer, _ignore, stop=stop)
        preflight.judge(replace(task, phase=Phase.INTERPRET, cases=triton), judged)

    run_side_by_side(*([check] if others else []), *([interpret] if triton else []))
    return Verdicts(task.seed, CPU, task.cases, judged, frozenset(case.id for case in triton), compiled)


def _compile(catalog: Catalog, task: Task, observer: Observer) -> Judged:
    """The verdicts on all that does not compile, and on CUDA kernels, of which that is all that can be said here."""
    judged = build_cases(catalog, task.cases, ARCHS_WITHOUT_GPU, task.step_limit_s, observer).verdicts(
        task.cases, ARCHS_WITHOUT_GPU
    )
    for case in task.cases:
        if case.id in judged:
            observer.examined(case, judged[case.id])
        elif _is(CudaKernel, case, catalog) and not catalog.entries[case.variant.kernel].missing():
            judged[case.id] = Examined(case.id, Status.UNSUPPORTED, _COMPILES)
    return judged


_COMPILES = f"compiles for {' and '.join(ARCHS_WITHOUT_GPU)}; its numbers need a GPU"
_OK = Examined("", Status.OK)


def _ignore(_event: object) -> None:
    pass


def _is(kind: type[Kernel], case: Case, catalog: Catalog) -> bool:
    return isinstance(catalog.entries[case.variant.kernel].kernel, kind)


def _smallest_batches(shapes: Sequence[Shape]) -> set[Shape]:
    """The smallest batch sizes of each head layout."""
    layouts = {shape.heads for shape in shapes}
    return {
        shape
        for heads in layouts
        for shape in sorted(shape for shape in shapes if shape.heads == heads)[:INTERPRETED_BATCHES]
    }


def _batches(op: Op) -> str:
    return "B=" + ",".join(str(batch) for batch in op.verify_batches)
