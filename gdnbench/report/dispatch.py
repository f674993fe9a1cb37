"""The best point of each shape: of one kernel as its declaration takes it, of several as a dispatcher's table."""

from __future__ import annotations

import json

from gdnbench.errors import UsageError
from gdnbench.model import Plateau, Shape, Sweep
from gdnbench.report.dispatch_table import dispatch_table
from gdnbench.report.sweep_view import tell
from gdnbench.store import RunInfo

DEFAULTS = Shape()


def dispatch_text(info: RunInfo, sweep: Sweep) -> str:
    """What was found, to be pasted, with the run that it comes from.

    Where several kernels raced it is TOML, which `dispatch_table` makes, and else Python for the kernel's `variant.py`.
    Floors, that no dispatcher picks, are declared as a kernel is that raced alone.

    Raises:
        UsageError: if no point has a time.
    """
    if not sweep.plateaus:
        raise UsageError(f"no point of {info.run_id} has a time", f"gdnbench show {info.run_id} says why")
    if sweep.finals:
        return dispatch_table(info, sweep)
    kernels = dict.fromkeys(plateau.kernel for plateau in sweep.plateaus)
    return "\n".join(_of_kernel(info, sweep, kernel) for kernel in kernels)


def _of_kernel(info: RunInfo, sweep: Sweep, kernel: str) -> str:
    plateaus = [plateau for plateau in sweep.plateaus if plateau.kernel == kernel]
    name = (info.machine.get("gpu") or {}).get("name", info.gpu)
    lines = [f"    # {kernel} on {name}: {info.run_id}", "    by_shape={"]
    points = {plateau.shape: _params(sweep, plateau) for plateau in plateaus}
    lines += [f"        {_shape(shape)}: {params}," for shape, params in _needed(points).items()]
    lines += ["    },"]
    for one in sweep.one_for_all:
        if one.kernel == kernel:
            shape, worst = one.worst
            params = tell(
                next(point.params for point in sweep.points if point.label == one.label), [*sweep.axes[kernel]]
            )
            lines += [
                f"    # or for every shape {params}: at most {worst:.1%} slower ({shape}), {one.mean:.1%} on average"
            ]
    return "\n".join(lines)


def _needed(points: dict[Shape, str]) -> dict[Shape, str]:
    """Without the shapes that lie between two of the same point: the nearest one stands in for them."""
    shapes = sorted(points, key=lambda shape: (shape.B * shape.HV, shape))
    neighbours = zip([None, *shapes], shapes, [*shapes[1:], None], strict=False)
    return {
        shape: points[shape]
        for before, shape, after in neighbours
        if before is None or after is None or not points[before] == points[shape] == points[after]
    }


def _params(sweep: Sweep, plateau: Plateau) -> str:
    point = sweep.point(plateau, plateau.simplest)
    return "{" + ", ".join(f'"{name}": {json.dumps(value)}' for name, value in point.params.items()) + "}"


def _shape(shape: Shape) -> str:
    axes = {axis: size for axis, size in shape.axes().items() if axis == "B" or size != getattr(DEFAULTS, axis)}
    return f"Shape({', '.join(f'{axis}={size}' for axis, size in axes.items())})"
