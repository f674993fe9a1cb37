"""Compiles one variant for one architecture, in this process, unless the cache has it."""

from __future__ import annotations

from gdnbench.binary import cache
from gdnbench.binary.arch import capability
from gdnbench.binary.code import Code
from gdnbench.binary.key import build_key
from gdnbench.binary.nvrtc import compile_cuda
from gdnbench.binary.resources import read_resources
from gdnbench.binary.sass import disassemble, widest_load_bits
from gdnbench.binary.triton_aot import compile_triton
from gdnbench.catalog import Entry
from gdnbench.model import Build, Params, Shape, TritonKernel, Variant


def build(entry: Entry, variant: Variant, shape: Shape, arch: str, *, stamped: bool = False) -> Build:
    """The build of a variant, from the cache or a compiler.

    `shared_bytes` counts, beside static shared memory, what Triton asks of the launch: the compiler fixed both. A
    CUDA kernel's dynamic shared memory is the choice of its declaration, and not counted.

    Args:
        entry: the kernel, a `CudaKernel` or a `TritonKernel`.
        variant: its params.
        shape: the head layout; the batch size does not matter.
        arch: the target, `sm_90`. No GPU is needed.
        stamped: for a CUDA kernel, whether its marks read the clock.

    Raises:
        BuildError: if the kernel's source fails to load or the compiler rejects it.
        UsageError: if there is no such target.
        MachineError: if a compiler or `cuobjdump` is absent, or the cache cannot be written.
        TypeError: for a kernel that is not compiled, such as a `TorchKernel`.
    """
    capability(arch)  # refuses what is not a target's name before a compiler does so less clearly
    key = build_key(entry, variant.params, shape, arch, stamped=stamped)
    cached = cache.load_build(key)
    if cached is not None:
        return cached
    built = _describe(_compile(entry, variant.params, shape, arch, stamped), entry.kernel.name, arch)
    cache.store_build(key, built)
    return built


def _compile(entry: Entry, params: Params, shape: Shape, arch: str, stamped: bool) -> Code:
    if not isinstance(entry.kernel, TritonKernel):
        return compile_cuda(entry, params, shape, arch, stamped=stamped)
    compiled = compile_triton(entry, params, shape, arch)
    return Code(compiled.asm["cubin"], compiled.metadata.name, compiled.metadata.shared)


def _describe(code: Code, kernel: str, arch: str) -> Build:
    cubin = cache.store_cubin(code.cubin, kernel, arch)
    resources = read_resources(cubin, code.symbol, arch)
    return Build(
        arch=arch,
        registers=resources.registers,
        shared_bytes=resources.shared_bytes + code.dynamic_shared_bytes,
        spill_bytes=resources.spill_bytes,
        load_bits=widest_load_bits(disassemble(cubin, code.symbol)),
        code_bytes=len(code.cubin),
        cubin=str(cubin),
        symbol=code.symbol,
    )
