"""Binds a kernel of any language to a workspace, so that a launch needs no argument and allocates nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from math import prod
from typing import Any

import torch

from gdnbench.binary import build
from gdnbench.binary.triton_aot import arguments, compile_triton
from gdnbench.catalog import Entry
from gdnbench.errors import DeclarationError
from gdnbench.launch.numerics import load_file
from gdnbench.launch.workspace import Workspace
from gdnbench.model import CudaKernel, Params, Shape, TorchKernel, TritonKernel, Variant

DEFAULT_SHARED_BYTES = 48 << 10

Launcher = Callable[[], tuple[torch.Tensor, ...]]
"""Launches on the current stream and returns the op's outputs, in the op's order."""

Binder = Callable[[Workspace], Launcher]
"""Binds what is loaded to the tensors of a workspace."""


def bind(entry: Entry, variant: Variant, workspace: Workspace) -> Launcher:
    """Loads a variant and binds it, for one workspace; see `load`."""
    return load(entry, variant, workspace.shape)(workspace)


def load(entry: Entry, variant: Variant, shape: Shape) -> Binder:
    """A function that binds the variant to workspaces of a shape; what is compiled is compiled and loaded once.

    Binding gives the outputs that the kernel updates in place the values it starts from. A CUDA kernel is bound to the
    torch stream that is current then; the others follow the current stream.

    Raises:
        BuildError: if the kernel does not compile.
        DeclarationError: if a torch kernel lacks its entry, or a block asks for more shared memory than there is.
    """
    return _beginning(entry, _load(entry, variant, shape))


def load_stamped(entry: Entry, variant: Variant, shape: Shape) -> tuple[Binder, Any]:
    """A CUDA kernel whose marks read the clock, as `load` loads it, and its code: cuda-core's `ObjectCode`.

    Raises:
        BuildError: if the kernel does not compile.
        DeclarationError: if it is not in CUDA C++, or a block asks for more shared memory than there is.
    """
    if not isinstance(entry.kernel, CudaKernel):
        raise DeclarationError(f"{entry.kernel.name} is no CUDA kernel, and has no marks")
    binder, code = _load_cuda(entry, entry.kernel, variant, shape, stamped=True)
    return _beginning(entry, binder), code


def _beginning(entry: Entry, binder: Binder) -> Binder:
    """A binder that first gives the outputs that the kernel updates in place the values it starts from."""

    def begin_and_bind(workspace: Workspace) -> Launcher:
        workspace.begin(entry.kernel.in_place)
        return binder(workspace)

    return begin_and_bind


def _load(entry: Entry, variant: Variant, shape: Shape) -> Binder:
    match entry.kernel:
        case CudaKernel():
            return _load_cuda(entry, entry.kernel, variant, shape)[0]
        case TritonKernel():
            return _load_triton(entry, entry.kernel, variant.params, shape)
        case TorchKernel():
            return _load_torch(entry, variant.params)
        case other:
            raise DeclarationError(f"{entry.kernel.name}: nothing launches a {type(other).__name__}")


def _load_cuda(
    entry: Entry, kernel: CudaKernel, variant: Variant, shape: Shape, *, stamped: bool = False
) -> tuple[Binder, Any]:
    from pathlib import Path

    from cuda.core import Device, LaunchConfig, ObjectCode

    device = Device(torch.cuda.current_device())
    device.set_current()
    built = build(entry, variant, shape, f"sm_{device.arch}", stamped=stamped)
    code = ObjectCode.from_cubin(Path(built.cubin).read_bytes())
    function = code.get_kernel(built.symbol)
    shared_bytes = kernel.shared_bytes(shape, variant.params)
    _allow_shared(int(function.handle), shared_bytes, device.device_id)
    config = LaunchConfig(
        grid=_three(kernel.grid(shape, variant.params)),
        block=(kernel.block(shape, variant.params), 1, 1),
        shmem_size=shared_bytes,
    )
    return partial(_bind_cuda, config, function), code


def _bind_cuda(config: Any, function: Any, workspace: Workspace) -> Launcher:
    import ctypes

    from cuda.core import Stream, launch

    stream = Stream.from_handle(torch.cuda.current_stream().cuda_stream)
    bound = (
        *(workspace.inputs[spec.name].data_ptr() for spec in workspace.op.inputs),
        *(ctypes.c_float(workspace.scalars[name]) for name in workspace.op.scalars),
        *(tensor.data_ptr() for tensor in workspace.output_tensors),
        ctypes.c_int(workspace.shape.B),
    )
    outputs = workspace.output_tensors

    def run() -> tuple[torch.Tensor, ...]:
        launch(stream, config, function, *bound)
        return outputs

    return run


def _allow_shared(kernel: int, nbytes: int, device: int) -> None:
    """Raises the kernel's limit of dynamic shared memory, which is 48 KiB unless asked for."""
    from cuda.bindings import driver

    if nbytes <= DEFAULT_SHARED_BYTES:
        return
    limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    (status,) = driver.cuKernelSetAttribute(limit, nbytes, driver.CUkernel(kernel), driver.CUdevice(device))
    if status != driver.CUresult.CUDA_SUCCESS:
        raise DeclarationError(f"the GPU does not give a block {nbytes} bytes of shared memory ({status.name})")


def _load_triton(entry: Entry, kernel: TritonKernel, params: Params, shape: Shape) -> Binder:
    major, minor = torch.cuda.get_device_capability()
    compiled = compile_triton(entry, params, shape, f"sm_{major}{minor}")
    return partial(bind_compiled, compiled, kernel.grid(shape, params))


def bind_compiled(compiled: Any, blocks: tuple[int, ...], workspace: Workspace) -> Launcher:
    """Binds what Triton compiled, ahead of time or by its JIT, to a workspace; it is loaded if it is not yet.

    Args:
        compiled: Triton's `CompiledKernel`.
        blocks: programs per axis.
        workspace: the tensors.
    """
    grid = _three(blocks)
    launch = _with_scratch(compiled[grid], compiled, grid, "cuda")
    bound = arguments(compiled, {**workspace.inputs, **workspace.scalars, **workspace.outputs})
    outputs = workspace.output_tensors

    def run() -> tuple[torch.Tensor, ...]:
        launch(*bound)
        return outputs

    return run


def _with_scratch(
    launch: Callable[..., None], compiled: Any, grid: tuple[int, int, int], device: str
) -> Callable[..., None]:
    """The launch, with the global memory in which a kernel keeps the tensor descriptors that it makes.

    Triton asks its allocator at every launch. Here that always gets the one buffer, so that a timed launch allocates
    nothing; and in a context of its own, for the allocator is a context variable that other libraries set, too.
    """
    nbytes = prod(grid) * compiled.metadata.num_ctas * compiled.metadata.global_scratch_size
    if not nbytes:
        return launch
    import triton

    scratch = torch.empty(nbytes, dtype=torch.uint8, device=device)  # torch aligns to more than a descriptor's 128
    context = copy_context()
    context.run(triton.set_allocator, lambda _nbytes, _alignment, _stream: scratch)
    return partial(context.run, launch)


def _load_torch(entry: Entry, params: Params) -> Binder:
    module = load_file(entry.source)
    function = getattr(module, entry.kernel.entry, None)
    if not callable(function):
        raise DeclarationError(f"{entry.source} must define {entry.kernel.entry}(tensors, shape, params)")
    bind_to: Callable[..., Launcher] = function
    return lambda workspace: bind_to(workspace.namespace, workspace.shape, params)


def _three(grid: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*grid, 1, 1)[:3]
    return x, y, z
