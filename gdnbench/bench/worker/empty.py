"""Empty kernels of gdnbench's own: to shift the launch queue, and to mark places in a record of what the GPU did."""

from __future__ import annotations

from gdnbench.bench.worker.own import OURS, OwnKernel


class EmptyKernel(OwnKernel):
    """A kernel that does nothing, on the stream current when it is made; `name` is what a record calls it."""

    def __init__(self, name: str) -> None:
        super().__init__(name, f'extern "C" __global__ void {OURS}{name}() {{}}')
