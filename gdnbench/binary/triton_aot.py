"""Compiles Triton kernels ahead of time, to the same code that Triton's JIT makes when it is called on a GPU."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from gdnbench.binary.arch import capability
from gdnbench.binary.python_source import load_function
from gdnbench.binary.triton_errors import explain
from gdnbench.binary.versions import versions
from gdnbench.catalog import Entry
from gdnbench.errors import BuildError
from gdnbench.model import Op, Params, ParamValue, Shape, TritonKernel

_WARP_SIZE = 32

# PyTorch's allocations are aligned to 512 bytes and the op's tensors are whole, so the JIT finds every pointer
# divisible by 16 and compiles for it. Without this the loads are narrower, and the code is another.
_DIVISIBLE_BY_16 = [["tt.divisibility", 16]]

# Environment variables with these beginnings change what Triton makes of a source, except those below.
_VARIABLES = ("TRITON_", "PTXAS_", "DISABLE_", "ALLOW_", "LLVM_")
_HARMLESS = ("TRITON_CACHE_DIR", "TRITON_HOME", "TRITON_DUMP_DIR", "TRITON_INTERPRET", "TRITON_PRINT_AUTOTUNING")


def fingerprint(kernel: TritonKernel, params: Params, shape: Shape) -> dict[str, Any]:
    """What besides the sources decides the code; loads no compiler.

    Raises:
        BuildError: if the kernel's `warps` or `stages` fails.
    """
    changed = {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(_VARIABLES) and name not in _HARMLESS
    }
    return {"options": options(kernel, params, shape), "versions": versions(("triton",)), "environment": changed}


def options(kernel: TritonKernel, params: Params, shape: Shape) -> dict[str, int]:
    """Triton's compile options.

    Raises:
        BuildError: if the kernel's `warps` or `stages` fails.
    """
    try:
        return {"num_warps": kernel.warps(shape, params), "num_stages": kernel.stages(shape, params)}
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise BuildError(f"`warps` or `stages` in variant.py of {kernel.name} failed: {reason}") from error


def compile_triton(entry: Entry, params: Params, shape: Shape, arch: str) -> Any:
    """Compiles a Triton kernel.

    Args:
        entry: the kernel, a `TritonKernel`.
        params: every param's value.
        shape: its head layout counts; its batch size only where `warps` or `stages` depend on it.
        arch: the target, `sm_90`; to launch the result, the architecture of the GPU at hand.

    Returns:
        Triton's `CompiledKernel`. On a GPU, `compiled[grid](*arguments(compiled, values))` launches it.

    Raises:
        BuildError: if the source fails to load or the compiler rejects it.
        UsageError: if `arch` is not a target's name.
    """
    if not isinstance(entry.kernel, TritonKernel):
        raise TypeError(f"{entry.kernel.name} is not a Triton kernel")
    function = load_function(entry.source, entry.kernel.entry)

    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    if not isinstance(function, triton.runtime.JITFunction):
        kind = type(function).__name__
        hint = "decorate it with @triton.jit alone, and leave TRITON_INTERPRET unset"
        raise BuildError(f"{entry.kernel.entry} in {entry.source} is a {kind}, not a Triton function", hint)
    constants = constants_of(params, shape)
    signature = signature_of(entry.op, constants, function.arg_names)
    pointers = (place for place, kind in enumerate(signature.values()) if kind.startswith("*"))
    source = ASTSource(
        function,
        signature,
        {name: constants[name] for name, kind in signature.items() if kind == "constexpr"},
        {(place,): _DIVISIBLE_BY_16 for place in pointers},
    )
    target = GPUTarget("cuda", capability(arch), _WARP_SIZE)
    try:
        return triton.compile(source, target=target, options=options(entry.kernel, params, shape))
    except BuildError:
        raise
    except Exception as error:
        raise BuildError(explain(entry.source, error)) from error


def constants_of(params: Params, shape: Shape) -> dict[str, ParamValue]:
    """The constants that a function may take: the head layout and every param."""
    axes = {axis: size for axis, size in shape.axes().items() if axis != "B"}
    return {**axes, **params}


def signature_of(op: Op, constants: Mapping[str, ParamValue], names: list[str]) -> dict[str, str]:
    """Triton's type of each argument, from its name.

    Raises:
        BuildError: if a name is neither a tensor or scalar of the op nor a constant.
    """
    types = dict.fromkeys(constants, "constexpr")
    types |= dict.fromkeys(op.scalars, "fp32")
    types |= {tensor.name: f"*{tensor.dtype}" for tensor in (*op.inputs, *op.outputs)}
    unknown = [name for name in names if name not in types]
    if unknown:
        known = f"it may take {', '.join(types)}"
        raise BuildError(f"the Triton function takes {', '.join(unknown)}, which nothing provides", known)
    return {name: types[name] for name in names}


def arguments(compiled: Any, values: Mapping[str, Any]) -> tuple[Any, ...]:
    """The argument list of a launch, in the function's order.

    Args:
        compiled: what `compile_triton` returned.
        values: tensors and scalars by name. Triton's launcher also wants the constants, which `compiled` knows.
    """
    source = compiled.src
    constants = {source.fn.arg_names[place]: value for (place,), value in source.constants.items()}
    return tuple(constants[name] if name in constants else values[name] for name in source.fn.arg_names)
