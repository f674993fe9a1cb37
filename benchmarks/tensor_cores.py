"""How far off are products in nvfp4 on a B200, by a model of its tensor cores? The figures of docs/blackwell.md.

pip install mmasim; python -m benchmarks.tensor_cores

MMA-Sim, of others, has the bits that `tcgen05.mma` makes of its operands: terms are cut off beside the largest one, and
sums are rounded towards zero. Here it adds up all K terms of some elements, in bf16, as kernels have it that widen, 16
terms at a time, and in e2m1 with scales, 64 at a time; the rest of an op is fp32. The op's gate judges what that is
before it is rounded to fp16, which would hide it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch.nn.functional import silu

from gdnbench import nvfp4
from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.launch.numerics import call_numerics, load_numerics
from gdnbench.model.declaration import RoundoffGate
from gdnbench.model.workload import Shape
from gdnbench.verify.gates import roundoff_error

SIZES = {"nvfp4-gemm": {"M": 8, "N": 16, "K": 16384}, "nvfp4-dual-gemm": {"M": 8, "N": 16, "K": 7168}}
SEED, ARCH = 1, "Blackwell"

Product = Callable[[nvfp4.Stored, nvfp4.Stored], torch.Tensor]
"""The product [rows, columns] in fp32 of bytes and plain scales, [rows, K / 2] and [columns, K / 2]."""


def main() -> None:
    """Prints a Markdown table: an op and a kind of inputs, and the largest errors, of which the gate allows 8."""
    model = import_module("mmasim.nv_ptx")  # which needs a compiler, and builds what it needs
    wide = model.TCGen05MMA(ARCH, "m128n16k16.kind::f16.f32.bf16.bf16")
    narrow = model.TCGen05MMABlockScale(ARCH, "m128n16k64.kind::mxf4nvf4.block16.f32.e2m1.e2m1.ue4m3")
    ways: dict[str, Product] = {"bf16": partial(in_bf16, wide), "nvfp4": partial(in_nvfp4, narrow)}
    print(f"| | inputs | {' | '.join(ways)} |\n|---|---|{'---|' * len(ways)}")
    catalog = load_catalog(default_roots())
    for name, sizes in SIZES.items():
        op = catalog.ops[name]
        numerics, workload = load_numerics(op, catalog.op_folders[name]), op.workload(Shape(**sizes))
        for scenario in op.scenarios:
            t, scalars = numerics.make_inputs(workload, SEED, "cpu", scenario)
            expected, size = (
                call_numerics(op, numerics, each, t, scalars, workload)["C"] for each in ("oracle", "roundoff")
            )
            found = [result(t, product).view(expected.shape) for product in ways.values()]
            errors = [float(roundoff_error(RoundoffGate("C"), each, expected, size).max()) for each in found]
            print(f"| `{name}`, K={workload.K} | {scenario} | {' | '.join(f'{each:.3g}' for each in errors)} |")


def result(t: dict[str, torch.Tensor], product: Product) -> torch.Tensor:
    """C in fp32, of either op's inputs."""
    if "B" in t:
        return product((t["A"][0], t["sfa"][0]), (t["B"][0], t["sfb"][0]))
    x, y = (product((t["A"], t["sfa"]), (t[f"B{each}"], t[f"sfb{each}"])) for each in "12")
    return silu(x) * y


def in_bf16(tensor_core: Any, a: nvfp4.Stored, b: nvfp4.Stored) -> torch.Tensor:
    """The product of numbers that are widened exactly."""
    rows, columns = (nvfp4.unpacked(*each, torch.bfloat16) for each in (a, b))
    product: torch.Tensor = tensor_core.dpa(*_by_element(rows, columns), torch.zeros(len(rows), len(columns)))
    return product


def in_nvfp4(tensor_core: Any, a: nvfp4.Stored, b: nvfp4.Stored) -> torch.Tensor:
    """The product of numbers as they are stored, with their scales."""
    sums = torch.zeros(len(a[0]), len(b[0]))
    product: torch.Tensor = tensor_core.dpa(*_by_element(a[0], b[0]), sums, *_by_element(a[1], b[1]))
    return product


def _by_element(rows: torch.Tensor, columns: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Each row and each column for each element of their product, [rows, columns, K]."""
    each = len(rows), len(columns), -1
    return rows[:, None].expand(each).contiguous(), columns[None].expand(each).contiguous()


if __name__ == "__main__":
    main()
