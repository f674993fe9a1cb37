"""What a user asked to be swept: the grid of every kernel, and a budget of time."""

from __future__ import annotations

import re
import secrets
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.entry import Entry
from gdnbench.catalog.resolve import find_op
from gdnbench.catalog.select import choose_bases, grid_axes, grid_points, parse_params
from gdnbench.errors import UsageError
from gdnbench.measuring.plan import unavailable
from gdnbench.measuring.race import COARSE_ROUNDS, check_budget
from gdnbench.measuring.request import (
    Request,
    Settings,
    captured_asked,
    device_of,
    parse_workloads,
    sizes_of,
    timed_at,
    trim_of,
)
from gdnbench.model.case import Variant
from gdnbench.model.gpu import Gpu
from gdnbench.model.kernel import Device
from gdnbench.model.params import Params
from gdnbench.model.part import Part

_DURATION = re.compile(r"(?:(?P<minutes>\d+(?:\.\d+)?)m)?(?:(?P<seconds>\d+(?:\.\d+)?)s?)?")


def choose_sweep_settings(
    device: Device, *, budget: str, samples: int, seed: int | None, margin: float, step_limit_s: float
) -> Settings:
    """What the user set; a fresh seed unless one is given.

    Args:
        device: what to sweep on.
        budget: of time.
        samples: per round.
        seed: None for a fresh one.
        margin: relative difference that counts as none.
        step_limit_s: seconds that one step of one kernel may take.

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
        trim=trim_of(device),
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
    settings: Settings,
    gpu: Gpu | None,
    baseline: str = "",
    label: str = "",
    part: Part | None = None,
    profiles: str = "",
    inputs: Path | None = None,
) -> Request:
    """Spans the grid of every kernel that is meant.

    Args:
        catalog: what there is.
        op: the op's name.
        kernels: names or globs; none for every kernel that has the params.
        params: `BV` or `BV=4,8,16`; none for all that a kernel declares.
        axes: sizes, `B=1,8,64 heads=qk4_v8`.
        settings: how to measure; with a budget.
        gpu: where; None for the CPU.
        baseline: what to compare with; by default the first kernel as it is without the sweep.
        label: the user's label.
        part: of several parts of the workloads, the one to sweep; None for all.
        profiles: the distributions of inputs, `never,mixed-heads`; empty for the op's default.
        inputs: a file or a folder of captured inputs.

    Raises:
        UnknownNameError: for an op, kernel or alias that does not exist.
        UsageError: for a param or value that a kernel lacks, an empty grid, a budget that is too small, or a part
            without workloads.
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


def _own_baseline(bases: Sequence[tuple[Entry, Variant]], gpu: Gpu | None) -> str:
    """The first kernel as it is without the sweep; none where that cannot run, or where floors alone are swept."""
    for entry, base in bases:
        if not entry.kernel.floor:
            return base.label if not unavailable(entry, gpu) else ""
    return ""
