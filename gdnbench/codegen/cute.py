"""Compiles kernels in CuTe DSL ahead of time, to the cubins and PTX that its JIT makes; needs no GPU.

The DSL passes a tensor to a kernel in a descriptor of its own. Here a kernel takes a tensor as a pointer, whose layout
the kernel says itself, so that its parameters are those of a function in CUDA C++ and the same launcher serves both.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from inspect import signature
from typing import Any

from gdnbench.catalog.entry import HEADERS, PHASES, CatalogEntry
from gdnbench.codegen.nvrtc import WAIT, CompiledCode, target_of
from gdnbench.codegen.triton import arguments_taken, compiler_facts, constants_of, load_function, options_of, tensors_of
from gdnbench.errors import BuildError, raised_at
from gdnbench.model.declaration import FACTS, Params
from gdnbench.model.kernel import CudaLaunch, CuteKernel, launch_of
from gdnbench.model.workload import Workload

PACKAGE = "nvidia-cutlass-dsl"
_VARIABLES = ("CUTE_DSL_",)  # prefix of the environment variables that change what the DSL makes of a source
_OPTIONS = {"block": "block", "shared_bytes": "shared_bytes"}
# PyTorch's allocations are aligned to 512 bytes, and the op's tensors are whole; copies of 16 bytes rely on it.
_ALIGNED_TO = 16


def fingerprint(
    launch: CudaLaunch, kernel: str, params: Params, workload: Workload, *, stamped: int = 0
) -> dict[str, Any]:
    """Returns what besides the sources decides the code, loading no compiler; raises BuildError as `options_of`."""
    facts = compiler_facts(PACKAGE, _VARIABLES, options_of(launch, kernel, params, workload, _OPTIONS))
    marks = {"stamped": stamped, "phases": sha256((HEADERS / PHASES[1]).read_bytes()).hexdigest()}
    return facts | (marks if stamped else {})


def compile_cute(
    entry: CatalogEntry, params: Params, workload: Workload, arch: str, *, launch: str = "", stamped: int = 0
) -> tuple[CompiledCode, str]:
    """Compiles a launch of a kernel, by default the first, for a target such as `sm_90`; returns its code and PTX.

    `stamped` is what its marks do, as of `compile_cuda`.

    Raises:
        BuildError: if the source fails to load, the DSL rejects it, it takes other arguments than its launch gives, it
            allocates more shared memory than its launch has, or `arch` lacks its instructions.
    """
    assert isinstance(entry.kernel, CuteKernel)
    target, chosen = target_of(entry.kernel, arch), launch_of(entry.kernel, launch)
    options = options_of(chosen, entry.kernel.name, params, workload, _OPTIONS)
    load_dsl()
    function = load_function(entry, chosen.entry)
    for name, module in sys.modules.items():  # the marks of the source as it was just loaded are among them
        if name.endswith(".gdnbench.phases"):
            module.STAMPED = stamped  # type: ignore[attr-defined]
    if not hasattr(function, "set_name_prefix"):
        kind = type(function).__name__
        raise BuildError(f"{chosen.entry} in {entry.source} is a {kind}, not a kernel", "decorate it with @cute.kernel")
    known = constants_of(params, workload)
    declared, taken = arguments_taken(entry, chosen, list(signature(function).parameters), known)
    constants = {name: known[name] for name in taken}
    # The function's own name stands in the cubin, where the DSL would write out the types of all arguments.
    function.set_name_prefix(chosen.entry, remove_cutlass_symbol=True, keep_mangled_name=False)
    with tempfile.TemporaryDirectory(prefix="gdnbench-cute-") as folder:
        kept = f"--gpu-arch {target} --generate-line-info --keep-ptx --keep-cubin --dump-dir {folder}"
        try:
            compiled = _host()(function, _placeholders(entry, declared, workload), constants, options["block"], kept)
        except Exception as error:
            raise BuildError(_explain(entry, error)) from error
        ptx, cubin = compiled.__ptx__, compiled.__cubin__
    allocated = _allocated_bytes(str(compiled.ir_module))
    if allocated > options["shared_bytes"]:
        said = f"allocates {allocated:,} bytes of shared memory, and its launch has {options['shared_bytes']:,}"
        raise BuildError(f"{chosen.entry} {said}", "see `shared_bytes` of the launch in variant.py")
    if chosen.begins_early and WAIT not in ptx:
        text = f"{entry.source}: {chosen.entry} begins early and never waits for the launches before it"
        raise BuildError(f"{text}: there is no {WAIT} in it", "see `begins_early` in variant.py")
    return CompiledCode(cubin, _symbol(ptx)), ptx


def load_dsl() -> None:
    """Imports the DSL, without its own cache of compiled code, which keeps no PTX; BuildError if it does not load."""
    os.environ.setdefault("CUTE_DSL_DISABLE_FILE_CACHING", "1")
    try:
        import cutlass.cute  # noqa: F401
    except ImportError as error:
        raise BuildError(f"needs {PACKAGE}; {CuteKernel.requires[0].remedy} ({error})") from error


@cache
def _host() -> Callable[..., Any]:
    """Returns a function that compiles a kernel with its launch, which the DSL cannot compile without a function."""
    from cutlass import Constexpr, cute

    # What it compiles is read again from this file: annotations are no texts there.
    def launch(function, arguments, constants, block):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        function(*arguments, **constants).launch(grid=(1, 1, 1), block=(block, 1, 1))

    launch.__annotations__ = {"function": Constexpr, "constants": Constexpr, "block": Constexpr}
    host = cute.jit(launch)

    def compile_launch(function: Any, arguments: list[Any], constants: Any, block: int, options: str) -> Any:
        return cute.compile(host, function, arguments, constants, block, options=options)

    return compile_launch


def _placeholders(entry: CatalogEntry, declared: Sequence[str], workload: Workload) -> list[Any]:
    """Returns values of the types of a launch's arguments: pointers, floats, and whole numbers of 32 or 64 bits."""
    import cutlass
    from cutlass import cute
    from cutlass.cute.runtime import make_ptr

    tensors = tensors_of(entry)

    def placeholder(name: str) -> Any:
        if spec := tensors.get(name):
            kind = getattr(cutlass, FACTS[spec.dtype_at(workload.axes)].cute)
            return make_ptr(kind, 0, cute.AddressSpace.gmem, assumed_align=_ALIGNED_TO)
        if name in entry.op.scalars:
            return cutlass.Float32(0.0)
        return cutlass.Int32(1) if name in entry.op.workloads.names else cutlass.Int64(1)

    return [placeholder(each) for each in declared]


_ENTRY = re.compile(r"\.visible\s+\.entry\s+([\w$]+)\s*\(")


def _symbol(ptx: str) -> str:
    found = _ENTRY.search(ptx)
    assert found
    return found[1]


# Of the launch's configuration in the code for the host, the third field: dynamic shared memory, as allocated.
_FIELD = re.compile(r"(%\d+) = llvm\.getelementptr %\d+\[0, 2\] : .*array<3 x i32>, i64, ptr")


def _allocated_bytes(module: str) -> int:
    """Returns the shared memory that a kernel allocates, in bytes; 0 where the DSL's code does not tell."""
    field = _FIELD.search(module)
    stored = field and re.search(rf"llvm\.store (%\d+), {field[1]} : i64", module)
    constant = stored and re.search(rf"{stored[1]} = llvm\.mlir\.constant\((\d+) : i64\)", module)
    return int(constant[1]) if constant else 0


_PTXAS = re.compile(r"line \d+; error\s*: (.+)")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def _explain(entry: CatalogEntry, error: Exception) -> str:
    """Returns why the DSL rejected a kernel: `file:line: error: …`."""
    if isinstance(error, AttributeError) and error.name == "launch":
        return f"{entry.source}: error: a kernel is decorated with @cute.kernel"
    at = raised_at(error, entry.folder)
    place = f"{at[0]}:{at[1]}" if at else str(entry.source)
    log = "; ".join(_PTXAS.findall(getattr(error, "ptxas_error", "")))  # which hides in the DSL's account of it
    said = f"ptxas: {log}" if log else _COLOURS.sub("", str(error)).strip().removeprefix("error: ")
    return f"{place}: error: {said or type(error).__name__}"
