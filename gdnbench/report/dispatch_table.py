"""The best kernel of each shape, as a dispatcher's table takes it."""

from __future__ import annotations

import json

from gdnbench.model import Place, Point, Shape, Sweep
from gdnbench.store import RunInfo


def dispatch_table(info: RunInfo, sweep: Sweep) -> str:
    """TOML for `dispatch.toml`: a table for each head layout, with the run that it comes from.

    A comment names the kernels that tie with the one of the row, or may.
    """
    layouts: dict[str, list[Shape]] = {}
    for shape in sorted({point.shape for point in sweep.finals}):
        layouts.setdefault(shape.heads, []).append(shape)
    return "\n\n".join(_layout(info, sweep, heads, shapes) for heads, shapes in layouts.items())


def _layout(info: RunInfo, sweep: Sweep, heads: str, shapes: list[Shape]) -> str:
    lines = [f"[{info.gpu}.{heads}]", f"source = {json.dumps(info.run_id)}"]
    for shape in shapes:
        best, *others = sweep.final(shape)
        lines.append(f"B{shape.B} = {_row(best)}{_remark(others)}")
    return "\n".join(lines)


def _row(best: Point) -> str:
    cells = {"kernel": best.kernel, **best.params}
    return "{ " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in cells.items()) + " }"


def _remark(others: list[Point]) -> str:
    words = {Place.TIED: "ties", Place.UNCLEAR: "may tie"}
    told = [f"{other.kernel} {words[other.place]}" for other in others if other.place in words]
    return f"  # {', '.join(told)}" if told else ""
