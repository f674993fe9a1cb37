"""The grouped product in eager torch, fp32: both factors unpacked by a table, some rows of B at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from gdnbench import nvfp4

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

AT_ONCE = 1 << 26  # numbers that are unpacked at a time, so that these stay small beside a GPU's memory


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, ...]]:
    del params
    t, values = tensors, nvfp4.table(torch.float32, tensors.A.device)
    step = max(1, AT_ONCE // shape.K)
    parts = [slice(first, first + step) for first in range(0, shape.N, step)]

    def plain(scales, rows):
        return nvfp4.untiled(scales, rows) if shape.TILED else scales

    groups = []  # of those that have rows: their number, rows, and rows of scales
    row = of_scales = 0
    for group, rows in enumerate(shape.rows):
        scales = nvfp4.tiled_rows(rows) if shape.TILED else rows
        if rows:
            groups.append((group, slice(row, row + rows), slice(of_scales, of_scales + scales)))
        row, of_scales = row + rows, of_scales + scales

    def run():
        for group, rows, scales in groups:
            sfb = plain(t.sfb[group], shape.N)
            a = nvfp4.looked_up(t.A[rows], plain(t.sfa[scales], rows.stop - rows.start), values)
            for part in parts:
                t.C[rows, part] = a @ nvfp4.looked_up(t.B[group, part], sfb[part], values).T
        return (t.C,)

    return run
