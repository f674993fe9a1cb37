"""Compiles one variant for one architecture, in this process, unless the cache has it, and reads ptxas's log.

Only that log tells that Hopper's warpgroup products are serialized. Where ptxas cannot keep the products of a function
in flight (`wgmma.mma_async`), it waits for each before the next, and the machine code is that of a source which waits
for each itself.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.codegen import cache, cute, cutile, nvrtc, triton
from gdnbench.codegen.arch import capability
from gdnbench.codegen.cubin import disassemble, read_resources
from gdnbench.codegen.cute import compile_cute
from gdnbench.codegen.cutile import compile_cutile
from gdnbench.codegen.nvrtc import CompiledCode, compile_cuda
from gdnbench.codegen.sass import widest_load_bits
from gdnbench.codegen.triton import compile_triton
from gdnbench.errors import BuildError, MachineError
from gdnbench.model.case import Variant
from gdnbench.model.declaration import Params
from gdnbench.model.gpu import UNREAD, Build
from gdnbench.model.kernel import CudaKernel, CudaLaunch, CuteKernel, CutileKernel, Kernel, TritonKernel, launch_of
from gdnbench.model.workload import Workload

# Each reason has a code of its own, C7510 and further, and all are worded alike. They differ in `in` or `for` alone.
_SERIALIZED = re.compile(r"wgmma\.mma_async instructions are serialized due to (.+?) (?:in|for) the function '([^']+)'")


def serialized_because(log: str, symbol: str) -> str:
    """Why ptxas, by its `log`, serializes the warpgroup products of a kernel (its mangled name), or an empty text."""
    reasons = (" ".join(reason.split()) for reason, function in _SERIALIZED.findall(log) if function == symbol)
    return ", ".join(dict.fromkeys(reasons))


_SCHEMA = 6  # raise it when what is stored, or how it is read from a cubin, changes


@dataclass(frozen=True)
class Job:
    """A variant to build for an architecture; raises TypeError if its kernel is not compiled, as a `TorchKernel`."""

    entry: CatalogEntry = field(hash=False)  # holds dicts; the variant tells kernels apart
    variant: Variant
    workload: Workload  # its run-time axes matter only to the kernel's `warps` or `stages`
    arch: str
    launch: str = ""  # the entry of the launch; empty for the kernel's first
    # Of a CUDA kernel, what its marks do, for `gdnbench proton`: nothing, add up phases (1), or note each pass (2)
    stamped: int = 0
    disassembled: bool = True  # whether the widest load is read from its code; not needed to see whether it compiles

    def __post_init__(self) -> None:
        kernel = self.entry.kernel
        if not isinstance(kernel, CudaKernel | TritonKernel):
            raise TypeError(f"{kernel.name} is a {type(kernel).__name__}, which has no cubin")

    @property
    def key(self) -> str:
        """The cache's key, shared by jobs of one build; raises BuildError if the kernel's `warps` or `stages` fails."""
        return build_key(
            self.entry, self.variant.params, self.workload, self.arch, launch=self.launch, stamped=self.stamped
        )

    def __str__(self) -> str:
        marks = " with its phases stamped" if self.stamped else ""
        of = f", {self.launch}" if self.launch else ""
        return f"{self.variant.label}{of} at {self.workload.series or self.workload} for {self.arch}{marks}"


def build(job: Job) -> Build:
    """Returns the build of a job, from the cache or a compiler; needs no GPU.

    `shared_bytes` counts, besides static shared memory, what Triton requests at launch: the compiler fixed both. A CUDA
    kernel's dynamic shared memory is the choice of its declaration, and not counted.

    Raises:
        BuildError: if the kernel's source fails to load or the compiler rejects it.
        UsageError: if there is no such target.
        MachineError: if a compiler or `cuobjdump` is absent, or the cache cannot be written.
    """
    capability(job.arch)  # rejects a wrong target with a clearer message than a compiler's
    built = cached = cache.load_build(job.key)
    if built is None:
        built = _describe(_compile(job), job.entry.kernel.name, job.arch)
    if job.disassembled and built.load_bits == UNREAD:
        built = replace(built, load_bits=widest_load_bits(disassemble(Path(built.cubin), built.symbol)))
    if cached is None:
        cache.store_build(job.key, built)
    elif built != cached:
        with suppress(MachineError):  # a read-only cache costs time, and nothing else
            cache.store_build(job.key, built)
    return built


# Compilers that give a launch's code and its PTX.
_WITH_PTX: Mapping[type[Kernel], Any] = {CuteKernel: compile_cute, CutileKernel: compile_cutile}


def _compile(job: Job) -> CompiledCode:
    what = job.entry, job.variant.params, job.workload, job.arch
    if compile_both := _WITH_PTX.get(type(job.entry.kernel)):
        more = {"stamped": job.stamped} if isinstance(job.entry.kernel, CuteKernel) else {}
        code: CompiledCode = compile_both(*what, launch=job.launch, **more)[0]
        return code
    if isinstance(job.entry.kernel, CudaKernel):
        return compile_cuda(*what, launch=job.launch, stamped=job.stamped)
    log = io.StringIO()
    compiled = compile_triton(*what, launch=job.launch, log=log)
    return CompiledCode(compiled.asm["cubin"], compiled.metadata.name, compiled.metadata.shared, log.getvalue())


def compile_ptx(entry: CatalogEntry, params: Params, workload: Workload, arch: str) -> dict[str, tuple[str, str]]:
    """Compiles each launch to PTX with source lines; returns it and its mangled name there, by entry.

    BuildError is raised as `build` raises it.
    """
    compile_both = _WITH_PTX.get(type(entry.kernel))
    if not compile_both or not isinstance(entry.kernel, CudaKernel):
        text, symbols = nvrtc.compile_ptx(entry, params, workload, arch)
        return {name: (text, symbol) for name, symbol in symbols.items()}
    made = {
        each.entry: compile_both(entry, params, workload, arch, launch=each.entry) for each in entry.kernel.launches
    }
    return {name: (text, code.symbol) for name, (code, text) in made.items()}


def _describe(code: CompiledCode, kernel: str, arch: str) -> Build:
    cubin = cache.store_cubin(code.cubin, kernel, arch)
    resources = read_resources(cubin, code.symbol, arch)
    return Build(
        arch=arch,
        registers=resources.registers,
        shared_bytes=resources.shared_bytes + code.dynamic_shared_bytes,
        spill_bytes=resources.spill_bytes,
        load_bits=UNREAD,
        code_bytes=len(code.cubin),
        cubin=str(cubin),
        symbol=code.symbol,
        serialized_because=serialized_because(code.log, code.symbol),
        required_threads=resources.required_threads,
        most_threads=resources.most_threads,
        cluster=resources.cluster,
    )


def build_key(
    entry: CatalogEntry, params: Params, workload: Workload, arch: str, *, launch: str = "", stamped: int = 0
) -> str:
    """Returns a shortened SHA-256 of what decides the code; workloads that differ in run-time axes alone share it.

    It loads no compiler, so the parent process can call it. Raises BuildError if the kernel's `warps` or `stages` fails
    or a file in its folder cannot be read, and TypeError for a kernel that is not compiled, such as a `TorchKernel`.
    """
    match kernel := entry.kernel:
        case CuteKernel():
            compiler = cute.fingerprint(launch_of(kernel, launch), kernel.name, params, workload, stamped=stamped)
        case CutileKernel():
            compiler = cutile.fingerprint(launch_of(kernel, launch), kernel.name, params, workload)
        case CudaKernel():
            compiler = nvrtc.fingerprint(stamped=stamped)
        case TritonKernel():
            compiler = triton.fingerprint(launch_of(kernel, launch), kernel.name, params, workload)
        case _:
            raise TypeError(f"{kernel.name} is a {type(kernel).__name__}, which has no cubin")
    try:
        source_hash = entry.source_hash()
    except OSError as error:
        raise BuildError(f"{entry.folder}: a file in it cannot be read: {error.strerror or error}") from error
    launched = launch_of(kernel, launch)
    is_early = isinstance(launched, CudaLaunch) and launched.begins_early  # which a build checks
    facts = {
        "schema": _SCHEMA,
        "source": str(entry.source),  # line tables name it, so a copy elsewhere is another build
        "source_hash": source_hash,
        "arguments": [*((spec.name, spec.dtype_at(workload.axes)) for spec in entry.op.tensors), *entry.op.scalars],
        "params": dict(params),
        "axes": {f"{entry.op.macro_prefix}{axis}": size for axis, size in workload.compile_time.items()},
        "launch": launched.entry,
        "arch": arch,
        "compiler": compiler,
        **({"begins_early": True} if is_early else {}),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]
