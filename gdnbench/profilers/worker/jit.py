"""A kernel through Triton's JIT, which compiles what Proton instruments apart from the plain kernel."""

from __future__ import annotations

from typing import Any

import torch

from gdnbench.binary.python_source import load_function
from gdnbench.binary.triton_aot import compile_triton, constants_of, options
from gdnbench.launch import Workspace
from gdnbench.model import TritonKernel
from gdnbench.profilers.worker.stage import Stage


class Jit:
    """A stage's Triton kernel, called as a user of Triton calls it.

    A build ahead of time is no way to instrument: Triton's cache would take it for the plain kernel, and the reverse.

    Attributes:
        grid: programs per axis.
    """

    def __init__(self, stage: Stage) -> None:
        kernel = stage.entry.kernel
        assert isinstance(kernel, TritonKernel)
        params, shape = stage.case.variant.params, stage.case.shape
        self._stage = stage
        self._function = load_function(stage.entry.source, kernel.entry)
        self.grid = kernel.grid(shape, params)
        self._options = options(kernel, params, shape)
        self._bound = [self._bind(workspace) for workspace in stage.workspaces]

    def compile(self) -> Any:
        """Triton's `CompiledKernel`, instrumented if Proton is at work."""
        return self._function.warmup(*self._bound[0], grid=self.grid, **self._options)

    def launch(self, number: int) -> None:
        """Launches it on the placements in turn."""
        import triton

        # Kernels that make tensor descriptors ask for memory to keep them in.
        triton.set_allocator(lambda nbytes, _alignment, _stream: torch.empty(nbytes, dtype=torch.uint8, device="cuda"))
        self._function[self.grid](*self._bound[number % len(self._bound)], **self._options)

    def makes_our_code(self) -> bool:
        """Whether the JIT's code is that of gdnbench's own build, which all else measures; to ask before Proton is."""
        major, minor = torch.cuda.get_device_capability()
        case = self._stage.case
        built = compile_triton(self._stage.entry, case.variant.params, case.shape, f"sm_{major}{minor}")
        return bool(self.compile().asm["cubin"] == built.asm["cubin"])

    def _bind(self, workspace: Workspace) -> list[Any]:
        constants = constants_of(self._stage.case.variant.params, self._stage.case.shape)
        values = {**constants, **workspace.inputs, **workspace.scalars, **workspace.outputs}
        return [values[name] for name in self._function.arg_names]
