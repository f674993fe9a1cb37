"""Kernels that gdnbench launches on its own behalf, between those that it measures."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, Stream, launch

OURS = "gdnbench_"
"""Begins the name of each of them, so that a record of what the GPU did tells them from others."""


class OwnKernel:
    """One of them, on the stream that is current when it is made."""

    def __init__(self, name: str, source: str, *, blocks: int = 1, threads: int = 32) -> None:
        """Compiles it.

        Args:
            name: of the `extern "C"` function, without `OURS`.
            source: CUDA C++ in which it is.
            blocks: of the grid.
            threads: per block.
        """
        device = Device(torch.cuda.current_device())
        device.set_current()
        self._kernel = _compile(source, device.arch).get_kernel(OURS + name)
        self._stream = Stream.from_handle(torch.cuda.current_stream().cuda_stream)
        self._config = LaunchConfig(grid=(blocks, 1, 1), block=(threads, 1, 1))

    def launch(self, *arguments: Any) -> None:
        """Enqueues it.

        Args:
            arguments: addresses as int, all else as ctypes of the parameters' types.
        """
        launch(self._stream, self._config, self._kernel, *arguments)


@cache
def _compile(source: str, arch: str) -> Any:
    """The code of a source, which may hold several of them: each is compiled once."""
    return Program(source, "c++", ProgramOptions(arch=f"sm_{arch}")).compile("cubin")
