"""Empty kernels of gdnbench's own: to shift the launch queue, and to mark places in a record of what the GPU did."""

from __future__ import annotations

import torch
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, Stream, launch

OURS = "gdnbench_"
"""Begins the name of every kernel that gdnbench launches on its own behalf."""


class EmptyKernel:
    """A kernel that does nothing, on the stream current when it is made; `name` is what a record calls it."""

    def __init__(self, name: str) -> None:
        device = Device(torch.cuda.current_device())
        device.set_current()
        source = f'extern "C" __global__ void {OURS}{name}() {{}}'
        code = Program(source, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin")
        self._kernel = code.get_kernel(f"{OURS}{name}")
        self._stream = Stream.from_handle(torch.cuda.current_stream().cuda_stream)
        self._config = LaunchConfig(grid=(1, 1, 1), block=(32, 1, 1))

    def launch(self) -> None:
        """Enqueues it."""
        launch(self._stream, self._config, self._kernel)
