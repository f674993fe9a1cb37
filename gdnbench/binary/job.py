"""One thing to build, and how it ends."""

from __future__ import annotations

from dataclasses import dataclass, field

from gdnbench.binary.key import build_key
from gdnbench.catalog import Entry
from gdnbench.errors import GdnbenchError
from gdnbench.model import Build, CudaKernel, Shape, TritonKernel, Variant

Result = Build | GdnbenchError


@dataclass(frozen=True)
class Job:
    """A variant to build for an architecture.

    Attributes:
        entry: the kernel.
        variant: its params.
        shape: the head layout; the batch size does not matter.
        arch: the target, `sm_90`.
        stamped: for a CUDA kernel, whether its marks read the clock, as `gdnbench phases` needs.

    Raises:
        TypeError: for a kernel that is not compiled, such as a `TorchKernel`.
    """

    entry: Entry = field(hash=False)  # holds dicts; the variant tells kernels apart
    variant: Variant
    shape: Shape
    arch: str
    stamped: bool = False

    def __post_init__(self) -> None:
        kernel = self.entry.kernel
        if not isinstance(kernel, CudaKernel | TritonKernel):
            raise TypeError(f"{kernel.name} is a {type(kernel).__name__}, which has no cubin")

    @property
    def key(self) -> str:
        """What the cache calls its build; jobs of equal key are one build.

        Raises:
            BuildError: if the kernel's `warps` or `stages` fails.
        """
        return build_key(self.entry, self.variant.params, self.shape, self.arch, stamped=self.stamped)

    def __str__(self) -> str:
        marks = " with its phases stamped" if self.stamped else ""
        return f"{self.variant.label} at {self.shape.heads} for {self.arch}{marks}"
