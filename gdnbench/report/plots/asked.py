"""The shapes that a user asked a chart for."""

from __future__ import annotations

from pathlib import Path

from gdnbench.model import Shape


def asked_shapes(folder: Path, axes: str, heads: str) -> tuple[Shape, ...] | None:
    """Shapes from `--shape` and `--heads`, as `run` takes them; None where neither is given.

    With heads alone, every batch size that the run has at them.

    Raises:
        UsageError: for an axis or a layout that is none.
    """
    if not axes and not heads:
        return None
    from gdnbench.bench.request import find_op, parse_shapes
    from gdnbench.catalog import load_catalog
    from gdnbench.store import read_info

    info = read_info(folder)
    asked = parse_shapes(find_op(load_catalog(), info.op), axes, heads)
    if axes:
        return asked
    layouts = {shape.heads for shape in asked}
    known = dict.fromkeys(Shape(**case["shape"]) for case in info.cases)
    return tuple(shape for shape in known if shape.heads in layouts) or asked
