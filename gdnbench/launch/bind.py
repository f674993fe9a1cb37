"""Binds a kernel of any language to a workspace, so that a launch needs no argument and allocates nothing."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import cache, partial
from inspect import signature
from math import prod
from pathlib import Path
from typing import Any

import torch

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.codegen.build import Job, build
from gdnbench.codegen.triton import arguments, compile_triton
from gdnbench.errors import DeclarationError
from gdnbench.launch.numerics import load_file
from gdnbench.launch.workspace import Workspace
from gdnbench.model.case import Variant, arguments_of, call_of, check_arguments
from gdnbench.model.declaration import Params, TensorExtent
from gdnbench.model.kernel import MAP_BYTES, CudaKernel, CudaLaunch, TensorMap, TorchKernel, TritonKernel
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload

DEFAULT_SHARED_BYTES = 48 << 10

Launcher = Callable[[], tuple[torch.Tensor, ...]]
"""Launches on the current stream and returns the op's outputs, in the op's order."""

Step = Callable[[], object]
"""One launch."""

Binder = Callable[[Workspace], Launcher]
"""Binds what is loaded to the tensors of a workspace."""


def bind(entry: CatalogEntry, variant: Variant, workspace: Workspace) -> Launcher:
    """Loads a variant and binds it, for one workspace; see `load`."""
    return load(entry, variant, workspace.workload)(workspace)


def load(entry: CatalogEntry, variant: Variant, workload: Workload) -> Binder:
    """Returns a function that binds the variant to workspaces of a workload; it is compiled and loaded once.

    Binding gives the outputs that the kernel updates in place the values it starts from. A CUDA kernel is bound to the
    torch stream that is current then; the others follow the current stream.

    Raises:
        BuildError: if the kernel does not compile.
        DeclarationError: if a torch kernel lacks its entry, or a block requests more shared memory than there is.
    """
    match entry.kernel:
        case CudaKernel():
            binder = _load_cuda(entry, entry.kernel, variant, workload, {})[0]
        case TritonKernel():
            binder = _load_triton(entry, entry.kernel, variant.params, workload)
        case TorchKernel():
            binder = _load_torch(entry, variant.params)
        case other:
            raise DeclarationError(f"{entry.kernel.name}: nothing launches a {type(other).__name__}")
    return _beginning(entry, binder)


def load_stamped(
    entry: CatalogEntry, variant: Variant, workload: Workload, launch: CudaLaunch, marks: int = 1
) -> tuple[Binder, Any]:
    """Loads a CUDA kernel as `load` does, but the marks of one launch do what `compile_cuda`'s `stamped` says.

    Returns what binds all launches, and cuda-core's `ObjectCode` of that launch. Raises as `load`, and DeclarationError
    for a kernel that is not in CUDA C++.
    """
    if not isinstance(entry.kernel, CudaKernel):
        raise DeclarationError(f"{entry.kernel.name} is not a CUDA kernel, and has no marks")
    binder, codes = _load_cuda(entry, entry.kernel, variant, workload, {launch.entry: marks})
    return _beginning(entry, binder), codes[entry.kernel.launches.index(launch)]


def _beginning(entry: CatalogEntry, binder: Binder) -> Binder:
    """Returns a binder that first gives the outputs that are updated in place the values the kernel starts from."""

    def begin_and_bind(workspace: Workspace) -> Launcher:
        workspace.begin(entry.kernel.in_place)
        return binder(workspace)

    return begin_and_bind


def _load_cuda(
    entry: CatalogEntry, kernel: CudaKernel, variant: Variant, workload: Workload, stamped: Mapping[str, int]
) -> tuple[Binder, list[Any]]:
    modules: dict[str, Any] = {}
    loaded = [
        _load_cuda_launch(entry, launch, variant, workload, modules, stamped=stamped.get(launch.entry, 0))
        for launch in kernel.launches
    ]
    steps = [step for step, _ in loaded]

    def bind_steps(workspace: Workspace) -> Launcher:
        named = workspace.by_name(kernel.scratch, variant.params)
        return _in_order([step(named) for step in steps], workspace)

    return bind_steps, [code for _, code in loaded]


def _load_cuda_launch(
    entry: CatalogEntry,
    launch: CudaLaunch,
    variant: Variant,
    workload: Workload,
    modules: dict[str, Any],
    *,
    stamped: int,
) -> tuple[Callable[[Mapping[str, Any]], Step], Any]:
    """Launches whose code is one file share its module and so its variables; `modules` are those loaded, by file."""
    from cuda.core import Device, LaunchConfig, ObjectCode

    device = Device(torch.cuda.current_device())
    device.set_current()
    arch = f"sm_{device.arch}"
    built = build(Job(entry, variant, workload, arch, launch.entry, stamped=stamped, disassembled=False))
    code = modules.get(built.cubin)
    if code is None:
        code = modules[built.cubin] = ObjectCode.from_cubin(Path(built.cubin).read_bytes())
    function = code.get_kernel(built.symbol)
    with suppress(NotImplementedError):  # drivers before CUDA 12.4 do not tell
        check_arguments(entry.op, entry.kernel, launch, [each.size for each in function.arguments_info])
    shared_bytes = launch.shared_bytes(workload, variant.params)
    allow_shared(int(function.handle), shared_bytes, device.device_id)
    config = LaunchConfig(
        grid=three(launch.grid(workload, variant.params)),
        block=(launch.block(workload, variant.params), 1, 1),
        shmem_size=shared_bytes,
    )

    declared = arguments_of(entry.op, entry.kernel, launch)
    is_named = all(isinstance(each, str) for each in declared)
    is_early = launch.begins_early
    bind_step = _bind_cuda if is_named and not is_early else partial(_bind_by_driver, is_early=is_early)

    def bind(named: Mapping[str, Any]) -> Step:
        bound = [
            encode_map(each, named[each.tensor], workload, variant.params)
            if isinstance(each, TensorMap)
            else ctypes.c_int(each.of(named[each.tensor]))
            if isinstance(each, TensorExtent)
            else c_value(entry.op, each, named[each])
            for each in declared
        ]
        return bind_step(config, function, bound)

    return bind, code


def _bind_cuda(config: Any, function: Any, bound: Sequence[Any]) -> Step:
    from cuda.core import launch as enqueue

    stream = _stream(torch.cuda.current_stream().cuda_stream)
    return lambda: enqueue(stream, config, function, *bound)


@cache
def _stream(handle: int) -> Any:
    """Returns cuda-core's stream of a handle, which takes longer to make than a launch is to bind."""
    from cuda.core import Stream

    return Stream.from_handle(handle)


def _bind_by_driver(config: Any, function: Any, bound: Sequence[Any], *, is_early: bool) -> Step:
    """Launches without cuda-core, which takes no struct but a map that it made, and wraps arguments at each launch."""
    from cuda.bindings import driver

    values = [ctypes.c_void_p(each) if isinstance(each, int) else each for each in bound]
    addresses = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
    kernel, stream = driver.CUfunction(int(function.handle)), driver.CUstream(torch.cuda.current_stream().cuda_stream)
    at, sizes = ctypes.addressof(addresses), (*config.grid, *config.block, config.shmem_size)
    enqueue = partial(driver.cuLaunchKernel, kernel, *sizes, stream, at, 0)
    if is_early:
        enqueue = partial(driver.cuLaunchKernelEx, early_config(sizes, stream), kernel, at, 0)

    def step(_held: object = (values, addresses)) -> None:
        (status,) = enqueue()
        if status != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"{enqueue.func.__name__} returned {status.name}")

    return step


def early_config(sizes: tuple[int, ...], stream: Any) -> Any:
    """Returns the `CUlaunchConfig` of a launch that may begin early; `sizes` are grid, block, and bytes shared."""
    from cuda.bindings import driver

    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = sizes[:3]
    config.blockDimX, config.blockDimY, config.blockDimZ, config.sharedMemBytes = sizes[3:]
    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    attribute.value.programmaticStreamSerializationAllowed = 1
    config.hStream, config.attrs, config.numAttrs = stream, [attribute], 1
    return config


def encode_map(declared: TensorMap, tensor: torch.Tensor, workload: Workload, params: Params) -> Any:
    """Returns a map of a contiguous tensor on a GPU, 128 bytes in ctypes; DeclarationError if it cannot be made.

    The driver is called by ctypes: it takes maps at multiples of 64 bytes alone, where cuda-bindings does not put them.
    """
    from cuda.bindings import driver

    sizes, box = declared.sizes_and_box(workload, params, tensor.shape, tensor.itemsize)
    tensor, axes, element = tensor.view(sizes), len(sizes), tensor.itemsize
    room = ctypes.create_string_buffer(2 * MAP_BYTES)
    encoded = (ctypes.c_ubyte * MAP_BYTES).from_buffer(room, -ctypes.addressof(room) % MAP_BYTES)
    encode = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled
    status = encode(
        encoded,
        # Elements of any type, as only their size counts for copies.
        int(getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_UINT{8 * element}")),
        axes,
        ctypes.c_void_p(tensor.data_ptr()),
        (ctypes.c_uint64 * axes)(*reversed(tensor.shape)),  # the axis that lies side by side is the first
        (ctypes.c_uint64 * axes)(*(stride * element for stride in reversed(tensor.stride()[:-1]))),
        (ctypes.c_uint32 * axes)(*reversed(box)),
        (ctypes.c_uint32 * axes)(*[1] * axes),  # every element
        int(driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE),
        (0, 32, 64, 128).index(declared.swizzle),
        (0, 64, 128, 256).index(declared.promotion(workload, params)),
        int(driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
    )
    if status:
        text = f"no map of {list(tensor.shape)} in boxes of {list(box)} ({driver.CUresult(status).name})"
        raise DeclarationError(f"TensorMap of {declared.tensor}: {text}")
    return encoded


def c_value(op: Op, name: str, value: Any) -> Any:
    """Returns a tensor's address, a scalar as float, an axis as int, a derived size or a stride as long long."""
    if isinstance(value, torch.Tensor):
        return value.data_ptr()
    if name in op.scalars:
        return ctypes.c_float(value)
    return ctypes.c_int(value) if name in op.workloads.names else ctypes.c_longlong(value)


def _in_order(steps: Sequence[Step], workspace: Workspace) -> Launcher:
    """Returns a launcher that holds the workspace, too: steps of a CUDA kernel know their tensors by address alone."""
    outputs, (first, *others) = workspace.output_tensors, steps

    def run_one(_held: Workspace = workspace) -> tuple[torch.Tensor, ...]:
        first()
        return outputs

    def run_all(_held: Workspace = workspace) -> tuple[torch.Tensor, ...]:
        for step in steps:
            step()
        return outputs

    return run_all if others else run_one


def allow_shared(kernel: int, nbytes: int, device: int) -> None:
    """Raises a `CUkernel`'s limit of 48 KiB of dynamic shared memory; DeclarationError if the GPU has less."""
    from cuda.bindings import driver

    if nbytes <= DEFAULT_SHARED_BYTES:
        return
    limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    (status,) = driver.cuKernelSetAttribute(limit, nbytes, driver.CUkernel(kernel), driver.CUdevice(device))
    if status != driver.CUresult.CUDA_SUCCESS:
        raise DeclarationError(f"the GPU does not give a block {nbytes} bytes of shared memory ({status.name})")


def _load_triton(entry: CatalogEntry, kernel: TritonKernel, params: Params, workload: Workload) -> Binder:
    major, minor = torch.cuda.get_device_capability()
    arch = f"sm_{major}{minor}"
    compiled = [
        (compile_triton(entry, params, workload, arch, launch=launch.entry), launch.grid(workload, params))
        for launch in kernel.launches
    ]

    def bind_steps(workspace: Workspace) -> Launcher:
        named = workspace.by_name(kernel.scratch, params)
        return _in_order([_bind_triton(code, blocks, named) for code, blocks in compiled], workspace)

    return bind_steps


def bind_compiled(compiled: Any, blocks: tuple[int, ...], workspace: Workspace) -> Launcher:
    """Binds Triton's `CompiledKernel`, made ahead of time or by its JIT, to a workspace; loads it if it is not yet."""
    return _in_order([_bind_triton(compiled, blocks, workspace.by_name())], workspace)


def _bind_triton(compiled: Any, blocks: tuple[int, ...], named: Mapping[str, Any]) -> Step:
    grid = three(blocks)
    return partial(_with_scratch(compiled[grid], compiled, grid, "cuda"), *arguments(compiled, named))


def _with_scratch(
    launch: Callable[..., None], compiled: Any, grid: tuple[int, int, int], device: str
) -> Callable[..., None]:
    """Returns the launch with the global memory in which a kernel keeps the tensor descriptors that it makes.

    Triton asks its allocator at every launch. Here that always gets the one buffer, so that a timed launch allocates
    nothing; and in a context of its own, for the allocator is a context variable that other libraries set, too.
    """
    nbytes = prod(grid) * compiled.metadata.num_ctas * compiled.metadata.global_scratch_size
    if not nbytes:
        return launch
    import triton

    # torch aligns to more than the 128 bytes of a descriptor. Zeros, since initcheck does not see that one is written.
    scratch = torch.zeros(nbytes, dtype=torch.uint8, device=device)
    context = copy_context()
    context.run(triton.set_allocator, lambda _nbytes, _alignment, _stream: scratch)
    return partial(context.run, launch)


def _load_torch(entry: CatalogEntry, params: Params) -> Binder:
    module = load_file(entry.source)
    function = getattr(module, entry.kernel.entry, None)
    if not callable(function):
        raise DeclarationError(f"{entry.source} must define {entry.kernel.entry}(tensors, workload, params)")
    name, source = entry.kernel.entry, entry.source.name
    if not _takes(function, 3):
        text = f"{name}{signature(function)} in {source}; expected: {name}(tensors, workload, params)"
        names = [*(spec.name for spec in entry.op.tensors), *entry.op.scalars]
        raise DeclarationError(f"{text}, where tensors has {call_of(entry.op, entry.kernel, '', names)}")
    bind_to: Callable[..., Launcher] = function

    def bind(workspace: Workspace) -> Launcher:
        launcher = bind_to(workspace.namespace, workspace.workload, params)
        if not callable(launcher) or not _takes(launcher, 0):
            kind = f"a function of {signature(launcher)}" if callable(launcher) else f"a {type(launcher).__name__}"
            outputs = call_of(entry.op, entry.kernel, "", workspace.outputs)
            raise DeclarationError(f"{name}() in {source} gives {kind}; expected: a function () that returns {outputs}")
        return launcher

    return bind


def _takes(function: Callable[..., object], count: int) -> bool:
    try:
        parameters = signature(function)
    except (TypeError, ValueError):
        return True
    with suppress(TypeError):
        return parameters.bind(*range(count)) is not None
    return False


def three(grid: tuple[int, ...]) -> tuple[int, int, int]:
    """Returns a grid of fewer axes in three."""
    x, y, z = (*grid, 1, 1)[:3]
    return x, y, z
