"""A request for a sweep: the grid of every kernel, and a time budget."""

from __future__ import annotations

import re
import secrets
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from gdnbench.catalog.catalog import Catalog, find_op
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.request import Request, captured_asked, device_of, parse_workloads, sizes_of, timed_at
from gdnbench.catalog.select import choose_bases, grid_axes, grid_points, parse_params
from gdnbench.errors import UsageError
from gdnbench.measure.interim import COARSE_ROUNDS, check_budget
from gdnbench.measure.plan import unavailable
from gdnbench.model.case import Part, Variant
from gdnbench.model.declaration import Params
from gdnbench.model.gpu import Gpu
from gdnbench.model.kernel import Device
from gdnbench.store.settings import Settings, trim_of

_DURATION = re.compile(r"(?:(?P<minutes>\d+(?:\.\d+)?)m)?(?:(?P<seconds>\d+(?:\.\d+)?)s?)?")


def choose_sweep_settings(
    device: Device, *, budget: str, samples: int, seed: int | None, margin: float, step_limit_s: float
) -> Settings:
    """The settings of a sweep, with a fresh seed unless one is given; raises UsageError for an invalid value."""
    return Settings(
        rounds=COARSE_ROUNDS,
        samples=samples,
        seed=secrets.randbelow(2**31) if seed is None else seed,
        margin=margin,
        step_limit_s=step_limit_s,
        budget_s=parse_duration(budget),
        trim=trim_of(device),
    )


def parse_duration(text: str) -> float:
    """Returns the seconds of `90`, `90s`, `2m` or `1m30s`; raises UsageError for anything else."""
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
    settings: Settings,
    gpu: Gpu | None,
    baseline: str = "",
    label: str = "",
    part: Part | None = None,
    profiles: str = "",
    inputs: Path | None = None,
) -> Request:
    """Makes the request for a sweep, with the grid of every kernel.

    Raises UnknownNameError for an unknown op, kernel or alias, and UsageError for a param or value that a kernel lacks,
    an empty grid, a budget that is too small, or a part without workloads.

    Args:
        kernels: names or globs; empty for every kernel that has the params.
        params: `BV` or `BV=4,8,16`; empty for all that a kernel declares.
        axes: sizes, `B=1,8,64 heads=qk4_v8`.
        baseline: by default the first kernel as it is without the sweep.
        part: the part of the workloads to sweep; None for all.
        profiles: distributions of inputs, `never,mixed-heads`; empty for the op's default.
        inputs: a file or a folder of captured inputs.
    """
    found = find_op(catalog, op)
    wanted = parse_params(params)
    bases = choose_bases(catalog, op, kernels, wanted)
    points: dict[tuple[str, Params], Variant] = {}  # two presets may have a point in common
    swept: dict[str, tuple[str, ...]] = {}
    for entry, base in bases:
        tried = grid_axes(catalog, entry, wanted)
        swept[entry.kernel.name] = tuple(tried)
        for point in grid_points(entry, base, tried):
            points.setdefault((point.kernel, point.params), point)
    captured = captured_asked(found, inputs, axes)
    own = sizes_of(captured) or parse_workloads(found, axes)
    workloads = timed_at(found, part.take(own) if part else own, captured, profiles)
    if settings.budget_s is not None:
        check_budget(settings.budget_s, len(points) * len(workloads), settings.samples, device_of(gpu))
    command = shlex.join(["gdnbench", *sys.argv[1:]])
    baseline = baseline or _own_baseline(bases, gpu)
    return Request(
        found,
        tuple(points.values()),
        workloads,
        settings,
        baseline,
        label,
        swept,
        command,
        part=part,
        captured=captured,
    )


def _own_baseline(bases: Sequence[tuple[CatalogEntry, Variant]], gpu: Gpu | None) -> str:
    """The first kernel without the sweep; empty if it cannot run, or if only floors are swept."""
    for entry, base in bases:
        if not entry.kernel.floor:
            return base.label if not unavailable(entry, gpu) else ""
    return ""
