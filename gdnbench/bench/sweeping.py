"""What a user asked to be swept, and the sweep that an earlier, stopped process left."""

from __future__ import annotations

import re
import secrets
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gdnbench.bench.environment import device_of, slug_of
from gdnbench.bench.observer import Observer
from gdnbench.bench.opening import begin_session, resume_session
from gdnbench.bench.plan import make_plan, unavailable
from gdnbench.bench.race import COARSE_ROUNDS, check_budget
from gdnbench.bench.request import Request, Settings, find_op, parse_shapes
from gdnbench.bench.resume import settings_of, source_change
from gdnbench.bench.session import Session
from gdnbench.catalog import Catalog, Entry, choose_bases, grid_axes, grid_points, parse_params
from gdnbench.errors import UsageError
from gdnbench.model import Case, Gpu, Params, Variant
from gdnbench.store import RunInfo, list_runs, read_info, readable

_DURATION = re.compile(r"(?:(?P<minutes>\d+(?:\.\d+)?)m)?(?:(?P<seconds>\d+(?:\.\d+)?)s?)?")


def choose_sweep_settings(
    *, budget: str, samples: int, seed: int | None, margin: float, step_limit_s: float
) -> Settings:
    """What the user set; a fresh seed unless one is given.

    Raises:
        UsageError: for a value that cannot be measured with.
    """
    return Settings(
        rounds=COARSE_ROUNDS,
        samples=samples,
        seed=secrets.randbelow(2**31) if seed is None else seed,
        margin=margin,
        step_limit_s=step_limit_s,
        budget_s=parse_duration(budget),
    )


def parse_duration(text: str) -> float:
    """Seconds in `90`, `90s`, `2m` or `1m30s`.

    Raises:
        UsageError: for anything else, and for nothing.
    """
    found = _DURATION.fullmatch(text.strip())
    seconds = 60 * float(found["minutes"] or 0) + float(found["seconds"] or 0) if found else 0.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"--budget {text}: a budget is a time", "write 90s, 2m or 1m30s")
    return seconds


def make_sweep_request(
    catalog: Catalog,
    op: str,
    kernels: Sequence[str],
    params: Sequence[str],
    *,
    axes: str,
    heads: str,
    settings: Settings,
    gpu: Gpu | None,
    baseline: str = "",
    label: str = "",
) -> Request:
    """Spans the grid of every kernel that is meant.

    Args:
        catalog: what there is.
        op: the op's name.
        kernels: names or globs; none for every kernel that has the params.
        params: `BV` or `BV=4,8,16`; none for all that a kernel declares.
        axes: batch sizes, `B=1,8,64`.
        heads: head layouts.
        settings: how to measure; with a budget.
        gpu: where; None for the CPU.
        baseline: what to compare with; by default the first kernel as it is without the sweep.
        label: the user's label.

    Raises:
        UnknownNameError: for an op, kernel or layout that does not exist.
        UsageError: for a param or value that a kernel lacks, an empty grid, or a budget that is too small.
    """
    found = find_op(catalog, op)
    wanted = parse_params(params)
    bases = choose_bases(catalog, op, kernels, wanted)
    points: dict[tuple[str, Params], Variant] = {}  # two presets may lead to the same one
    swept: dict[str, tuple[str, ...]] = {}
    for entry, base in bases:
        tried = grid_axes(catalog, entry, wanted)
        swept[entry.kernel.name] = tuple(tried)
        for point in grid_points(entry, base, tried):
            points.setdefault((point.kernel, point.params), point)
    shapes = parse_shapes(found, axes, heads)
    if settings.budget_s is not None:
        check_budget(settings.budget_s, len(points) * len(shapes), settings.samples, device_of(gpu))
    command = shlex.join(["gdnbench", *sys.argv[1:]])
    baseline = baseline or _own_baseline(bases, gpu)
    return Request(found, tuple(points.values()), shapes, settings, baseline, label, swept, command)


def _own_baseline(bases: Sequence[tuple[Entry, Variant]], gpu: Gpu | None) -> str:
    """The first kernel as it is without the sweep; none where that cannot run, or where floors alone are swept."""
    for entry, base in bases:
        if not entry.kernel.floor:
            return base.label if not unavailable(entry, device_of(gpu)) else ""
    return ""


def open_sweep(catalog: Catalog, request: Request, gpu: Gpu | None, results: Path, observer: Observer) -> Session:
    """Goes on with the latest sweep that was stopped and asks the same, or begins one.

    Raises:
        GdnbenchError: as `begin_session` and `resume_session` do.
    """
    stopped = _find_stopped(catalog, request, gpu, results)
    if stopped is None:
        return begin_session(catalog, request, gpu, results, observer)
    observer.note(f"going on with {stopped.run_id}, which was stopped")
    session = resume_session(catalog, results, stopped.run_id, observer)
    session.settings = request.settings
    return session


def _find_stopped(catalog: Catalog, request: Request, gpu: Gpu | None, results: Path) -> RunInfo | None:
    cases = make_plan(catalog, request, gpu).cases
    infos = readable(list_runs(results, stopped=True)[::-1], read_info)
    return next((info for info in infos if _asks_the_same(info, catalog, request, gpu, cases)), None)


def _asks_the_same(info: RunInfo, catalog: Catalog, request: Request, gpu: Gpu | None, cases: Sequence[Case]) -> bool:
    asked = request.settings
    # Another seed or more time makes no other sweep.
    before = replace(settings_of(info), seed=asked.seed, budget_s=asked.budget_s)
    return (
        not info.complete
        and bool(info.swept)
        and (info.op, info.gpu, info.label) == (request.op.name, slug_of(gpu), request.label)
        and info.cases == [case.to_dict() for case in cases]
        and before == asked
        and not source_change(info, catalog)
    )
