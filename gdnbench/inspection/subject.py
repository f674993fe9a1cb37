"""What to inspect: a variant at a shape, before any compiler has seen it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gdnbench.binary import Job
from gdnbench.catalog import Catalog, Entry, select_variants
from gdnbench.errors import BuildError, UsageError
from gdnbench.model import CudaKernel, Shape, TorchKernel, TritonKernel, Variant


@dataclass(frozen=True)
class Subject:
    """A kernel of ours at one shape.

    Attributes:
        name: what it is called: its label, or where it comes from.
        entry: the kernel.
        variant: its params at the shape.
        shape: the workload; the batch size decides the grid, and the params of some kernels.
    """

    name: str
    entry: Entry
    variant: Variant
    shape: Shape

    def job(self, arch: str) -> Job:
        """The build that shows it."""
        return Job(self.entry, self.variant, self.shape, arch)

    def grid(self) -> tuple[int, ...]:
        """Blocks along x, y and z, as far as the declaration gives them.

        Raises:
            BuildError: if the declaration's `grid` fails.
        """
        kernel = self.entry.kernel
        assert isinstance(kernel, CudaKernel | TritonKernel)
        try:
            return tuple(kernel.grid(self.shape, self.variant.params))
        except Exception as error:
            raise _declaration_failed(self, "grid", error) from error

    def threads(self, required: int | None) -> int:
        """Threads per block.

        Args:
            required: what the compiler fixed; None if it left the choice to the declaration.

        Raises:
            BuildError: if the declaration's `block` or `warps` fails.
        """
        kernel, params = self.entry.kernel, self.variant.params
        try:
            if isinstance(kernel, CudaKernel):
                return kernel.block(self.shape, params)
            assert isinstance(kernel, TritonKernel)
            return required or 32 * kernel.warps(self.shape, params)
        except Exception as error:
            raise _declaration_failed(self, "block", error) from error

    def dynamic_shared_bytes(self) -> int:
        """Dynamic shared memory per block that the declaration asks for, in bytes; none for Triton, which decides.

        Raises:
            BuildError: if the declaration's `shared_bytes` fails.
        """
        kernel = self.entry.kernel
        try:
            return kernel.shared_bytes(self.shape, self.variant.params) if isinstance(kernel, CudaKernel) else 0
        except Exception as error:
            raise _declaration_failed(self, "shared_bytes", error) from error


def _declaration_failed(subject: Subject, name: str, error: Exception) -> BuildError:
    reason = f"{type(error).__name__}: {error}"
    return BuildError(f"`{name}` in variant.py of {subject.entry.kernel.name} failed: {reason}")


def choose_subjects(
    catalog: Catalog, op: str, names: Sequence[str], shapes: Sequence[Shape]
) -> tuple[tuple[Subject, ...], tuple[str, ...]]:
    """What a user named, at every shape, and notes on what is left out.

    Raises:
        UnknownNameError: for a kernel that does not exist.
        UsageError: if none of the kernels has a build of its own.
    """
    variants = select_variants(catalog, op, ",".join(names) or "all")
    found: dict[tuple[Variant, Shape], Entry] = {}  # what a dispatcher picks may be named beside it
    for shape in shapes:
        for asked in variants:
            entry, variant = catalog.behind(asked, shape)
            found[variant, shape] = entry
    foreign = dict.fromkeys(
        variant.label for (variant, _), entry in found.items() if isinstance(entry.kernel, TorchKernel)
    )
    subjects = tuple(
        Subject(variant.label, entry, variant, shape)
        for (variant, shape), entry in found.items()
        if not isinstance(entry.kernel, TorchKernel)
    )
    said = f"{', '.join(foreign)}: reached through Python, no build of gdnbench's own to inspect"
    if not subjects:
        raise UsageError(said, "name a CUDA or Triton kernel; `gdnbench list` shows them")
    return subjects, (said,) if foreign and names else ()
