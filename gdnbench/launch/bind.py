"""Binds a kernel of any language to a workspace, so that a launch needs no argument and allocates nothing."""

from __future__ import annotations

from collections.abc import Callable

import torch

from gdnbench.binary import build
from gdnbench.binary.triton_aot import arguments, compile_triton
from gdnbench.catalog import Entry
from gdnbench.errors import DeclarationError
from gdnbench.launch.numerics import load_file
from gdnbench.launch.workspace import Workspace
from gdnbench.model import CudaKernel, Params, TorchKernel, TritonKernel, Variant

DEFAULT_SHARED_BYTES = 48 << 10

Launcher = Callable[[], tuple[torch.Tensor, ...]]
"""Launches on the current stream and returns the op's outputs, in the op's order."""


def bind(entry: Entry, variant: Variant, workspace: Workspace) -> Launcher:
    """A function that launches the variant on the workspace's tensors.

    A CUDA kernel is bound to the torch stream that is current now; the others follow the current stream.

    Raises:
        BuildError: if the kernel does not compile.
        DeclarationError: if a torch kernel lacks its entry.
    """
    match entry.kernel:
        case CudaKernel():
            return _bind_cuda(entry, entry.kernel, variant, workspace)
        case TritonKernel():
            return _bind_triton(entry, entry.kernel, variant.params, workspace)
        case TorchKernel():
            return _bind_torch(entry, variant.params, workspace)
        case other:
            raise DeclarationError(f"{entry.kernel.name}: nothing launches a {type(other).__name__}")


def _bind_cuda(entry: Entry, kernel: CudaKernel, variant: Variant, workspace: Workspace) -> Launcher:
    import ctypes
    from pathlib import Path

    from cuda.core import Device, LaunchConfig, ObjectCode, Stream, launch

    device = Device(torch.cuda.current_device())
    device.set_current()
    built = build(entry, variant, workspace.shape, f"sm_{device.arch}")
    function = ObjectCode.from_cubin(Path(built.cubin).read_bytes()).get_kernel(built.symbol)
    shape, params = workspace.shape, variant.params
    shared_bytes = kernel.shared_bytes(shape, params)
    _allow_shared(int(function.handle), shared_bytes, device.device_id)
    config = LaunchConfig(
        grid=_three(kernel.grid(shape, params)),
        block=(kernel.block(shape, params), 1, 1),
        shmem_size=shared_bytes,
    )
    stream = Stream.from_handle(torch.cuda.current_stream().cuda_stream)
    bound = (
        *(workspace.inputs[spec.name].data_ptr() for spec in workspace.op.inputs),
        *(ctypes.c_float(workspace.scalars[name]) for name in workspace.op.scalars),
        *(tensor.data_ptr() for tensor in workspace.output_tensors),
        ctypes.c_int(shape.B),
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


def _bind_triton(entry: Entry, kernel: TritonKernel, params: Params, workspace: Workspace) -> Launcher:
    major, minor = torch.cuda.get_device_capability()
    compiled = compile_triton(entry, params, workspace.shape, f"sm_{major}{minor}")
    launch = compiled[_three(kernel.grid(workspace.shape, params))]
    values = {**workspace.inputs, **workspace.scalars, **workspace.outputs}
    bound = arguments(compiled, values)
    outputs = workspace.output_tensors

    def run() -> tuple[torch.Tensor, ...]:
        launch(*bound)
        return outputs

    return run


def _bind_torch(entry: Entry, params: Params, workspace: Workspace) -> Launcher:
    module = load_file(entry.source)
    function = getattr(module, entry.kernel.entry, None)
    if not callable(function):
        raise DeclarationError(f"{entry.source} must define {entry.kernel.entry}(tensors, shape, params)")
    run: Launcher = function(workspace.namespace, workspace.shape, params)
    return run


def _three(grid: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*grid, 1, 1)[:3]
    return x, y, z
