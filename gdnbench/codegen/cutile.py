"""Compiles kernels in cuTile ahead of time, to the cubins of its own compiler, in which their PTX lies; needs no GPU.

A kernel takes a tensor as a pointer, and behind it its sizes and strides, of 4 bytes each. Those that only compile-time
axes decide are constants in the code.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Mapping
from typing import Any

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.codegen.nvrtc import CompiledCode, target_of
from gdnbench.codegen.triton import arguments_taken, compiler_facts, constants_of, load_function, options_of, tensors_of
from gdnbench.errors import BuildError, raised_at
from gdnbench.model.declaration import FACTS, Params, TensorSpec
from gdnbench.model.kernel import CudaLaunch, CutileKernel, launch_of
from gdnbench.model.workload import Workload

PACKAGE = "cuda-tile"
_COMPILER = "nvidia-cuda-tileiras"  # may also be a CUDA toolkit's, in PATH
_VARIABLES = ("CUDA_TILE_", "CUDA_PATH", "CUDA_HOME")  # prefixes of environment variables that change the code
_OPTIONS = {"block": "block"}
_ALIGNED_TO = 16  # as for kernels in CuTe DSL


def fingerprint(launch: CudaLaunch, kernel: str, params: Params, workload: Workload) -> dict[str, Any]:
    """Returns what besides the sources decides the code, loading no compiler; raises BuildError as `options_of`."""
    facts = compiler_facts(PACKAGE, _VARIABLES, options_of(launch, kernel, params, workload, _OPTIONS))
    return {**facts, "tileiras": compiler_facts(_COMPILER, (), {})["versions"]}


def compile_cutile(
    entry: CatalogEntry, params: Params, workload: Workload, arch: str, *, launch: str = ""
) -> tuple[CompiledCode, str]:
    """Compiles a launch of a kernel, by default the first, for a target such as `sm_90`; returns its code and PTX.

    Raises:
        BuildError: if the source fails to load, cuTile rejects it, it takes other arguments than its launch gives, or
            its blocks have other threads than those of its launch.
    """
    assert isinstance(entry.kernel, CutileKernel)
    target, chosen = target_of(entry.kernel, arch), launch_of(entry.kernel, launch)
    threads = options_of(chosen, entry.kernel.name, params, workload, _OPTIONS)["block"]
    load_cutile()
    from cuda.tile import compilation

    function = load_function(entry, chosen.entry)
    signature = compilation.KernelSignature(
        _parameters(entry, chosen, function, workload, constants_of(params, workload)),
        compilation.CallingConvention.cutile_python_v2(),
        symbol=chosen.entry,
    )
    made = io.BytesIO()
    try:
        compilation.export_kernel(function, [signature], made, gpu_code=target, output_format="cubin")
    except Exception as error:
        at = raised_at(error, entry.folder)
        place = f"{at[0]}:{at[1]}" if at else str(entry.source)
        raise BuildError(f"{place}: error: {str(error).strip() or type(error).__name__}") from error
    ptx = ptx_in(made.getvalue())
    required = re.search(r"\.reqntid (\d+)", ptx)
    if required and int(required[1]) != threads:
        said = f"is compiled for blocks of {required[1]} threads, and its launch has {threads}"
        raise BuildError(f"{chosen.entry} {said}", "see `block` of the launch in variant.py")
    return CompiledCode(made.getvalue(), chosen.entry), ptx


def load_cutile() -> None:
    """Imports cuTile; BuildError if it does not load."""
    try:
        import cuda.tile  # noqa: F401
    except ImportError as error:
        raise BuildError(f"needs {PACKAGE}; {CutileKernel.requires[0].remedy} ({error})") from error


def _parameters(
    entry: CatalogEntry, launch: CudaLaunch, function: Any, workload: Workload, constants: Mapping[str, Any]
) -> list[Any]:
    """Returns what the code is for, of each parameter: a tensor's type and sizes, a scalar's type, or a constant."""
    import cuda.tile as ct
    from cuda.tile.compilation import ScalarConstraint

    if not isinstance(function, ct.kernel):
        kind = type(function).__name__
        raise BuildError(f"{launch.entry} in {entry.source} is a {kind}, not a kernel", "decorate it with @ct.kernel")
    declared, taken = arguments_taken(entry, launch, list(function._annotated_function.pysig.parameters), constants)
    tensors = tensors_of(entry)

    def parameter(name: str) -> Any:
        if spec := tensors.get(name):
            return _array(spec, workload, constants)
        if name in entry.op.scalars:
            return ScalarConstraint(ct.float32)
        return ScalarConstraint(ct.int32 if name in entry.op.workloads.names else ct.int64)

    return [*map(parameter, declared), *(constants[name] for name in taken)]


def _array(spec: TensorSpec, workload: Workload, constants: Mapping[str, Any]) -> Any:
    """What the code is for of a tensor that lies dense: its type, and the sizes and strides that constants decide."""
    import cuda.tile as ct
    from cuda.tile.compilation import ArrayConstraint

    sizes = [each if isinstance(each, int) else constants.get(each) for each in spec.dims]
    strides: list[int | None] = [1]
    for size in reversed(sizes[1:]):
        strides.insert(0, strides[0] and size and strides[0] * size)
    kind = FACTS[spec.dtype_at(workload.axes)].torch
    return ArrayConstraint(
        ct.bool_ if kind == "bool" else getattr(ct, kind),
        len(sizes),
        index_dtype=ct.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
        base_addr_divisible_by=_ALIGNED_TO,
        shape_constant=sizes,
        stride_constant=strides,
    )


_PTX = b".nv_debug_ptx_txt"


def ptx_in(cubin: bytes) -> str:
    """Returns the PTX that lies in a cubin for debuggers, without lines of the source; empty if there is none."""
    table, count, named = *struct.unpack_from("<Q", cubin, 40), *struct.unpack_from("<HH", cubin, 60)
    headers = [struct.unpack_from("<IIQQQQ", cubin, table + 64 * each) for each in range(count)]
    for name, _, _, _, offset, size in headers:
        if cubin.startswith(_PTX + b"\0", headers[named][4] + name):
            return cubin[offset : offset + size].decode(errors="replace").replace("\0", "\n")
    return ""
