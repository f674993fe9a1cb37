"""Compiles Triton kernels ahead of time, to the same code that Triton's JIT makes when it is called on a GPU."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, TextIO

from gdnbench.catalog.declaration import load_source
from gdnbench.catalog.entry import CatalogEntry
from gdnbench.codegen.arch import WARP_SIZE, capability
from gdnbench.errors import BuildError, DeclarationError, raised_at
from gdnbench.machine.provenance import package_version
from gdnbench.model.case import arguments_of, call_of, wide_arguments
from gdnbench.model.declaration import FACTS, Params, ParamValue, TensorSpec
from gdnbench.model.kernel import CudaLaunch, TensorMap, TritonKernel, TritonLaunch, launch_of
from gdnbench.model.workload import Workload

# PyTorch's allocations are aligned to 512 bytes and the op's tensors are whole, so the JIT finds every pointer
# divisible by 16 and compiles for it. Without this the loads are narrower, and the code is another.
_DIVISIBLE_BY_16 = [["tt.divisibility", 16]]

OPTIONS = {"num_warps": "warps", "num_stages": "stages"}

# Environment variables with these prefixes change what Triton makes of a source, except those below.
_VARIABLES = ("TRITON_", "PTXAS_", "DISABLE_", "ALLOW_", "LLVM_")
_HARMLESS = (
    "TRITON_CACHE_DIR",
    "TRITON_HOME",
    "TRITON_DUMP_DIR",
    "TRITON_INTERPRET",
    "TRITON_PRINT_AUTOTUNING",
    "CUTE_DSL_DISABLE_FILE_CACHING",
)


def fingerprint(launch: TritonLaunch, kernel: str, params: Params, workload: Workload) -> dict[str, Any]:
    """Returns what besides the sources decides the code, loading no compiler; raises BuildError as `options_of`."""
    return compiler_facts("triton", _VARIABLES, options_of(launch, kernel, params, workload, OPTIONS))


def compiler_facts(package: str, prefixes: tuple[str, ...], options: Mapping[str, int]) -> dict[str, Any]:
    """Returns a compiler's options, its package's version, and the environment variables that it heeds."""
    changed = {
        name: value for name, value in sorted(os.environ.items()) if name.startswith(prefixes) and name not in _HARMLESS
    }
    return {"options": options, "versions": {package: package_version(package) or "absent"}, "environment": changed}


def options_of(
    launch: TritonLaunch | CudaLaunch, kernel: str, params: Params, workload: Workload, named: Mapping[str, str]
) -> dict[str, int]:
    """Returns what functions of a launch, `named` by the compiler's option, return; raises BuildError if one fails."""
    try:
        return {option: int(getattr(launch, name)(workload, params)) for option, name in named.items()}
    except Exception as error:
        names = "` or `".join(named.values())
        reason = f"{type(error).__name__}: {error}"
        raise BuildError(f"`{names}` in variant.py of {kernel} failed: {reason}") from error


def compile_triton(
    entry: CatalogEntry, params: Params, workload: Workload, arch: str, *, launch: str = "", log: TextIO | None = None
) -> Any:
    """Compiles a launch of a kernel, by default the first, to Triton's `CompiledKernel` for a target such as `sm_90`.

    On a GPU of that architecture, `compiled[grid](*arguments(compiled, values))` launches it. `log` receives what ptxas
    prints; Triton's cache, which keeps no log, is then written but not read. The workload's run-time axes matter only
    to the kernel's `warps` or `stages`.

    Raises:
        BuildError: if the source fails to load, the compiler rejects it, or `arch` lacks its instructions.
        UsageError: if `arch` is not a target's name.
    """
    if not isinstance(entry.kernel, TritonKernel):
        raise TypeError(f"{entry.kernel.name} is not a Triton kernel")
    if not entry.kernel.fits(arch):
        whose = f"that GPUs have from {entry.kernel.since} on"
        raise BuildError(f"{entry.kernel.name} has instructions {whose}, and cannot be compiled for {arch}")
    chosen = launch_of(entry.kernel, launch)
    function = load_function(entry, chosen.entry)

    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    if not isinstance(function, triton.runtime.JITFunction):
        kind = type(function).__name__
        hint = "decorate it with @triton.jit alone, and leave TRITON_INTERPRET unset"
        raise BuildError(f"{chosen.entry} in {entry.source} is a {kind}, not a Triton function", hint)
    constants = constants_of(params, workload)
    signature = signature_of(entry, constants, function.arg_names, workload)
    pointers = (place for place, kind in enumerate(signature.values()) if kind.startswith("*"))
    source = ASTSource(
        function,
        signature,
        {name: constants[name] for name, kind in signature.items() if kind == "constexpr"},
        {(place,): _DIVISIBLE_BY_16 for place in pointers},
    )
    options = options_of(chosen, entry.kernel.name, params, workload, OPTIONS)
    target = GPUTarget("cuda", capability(arch), WARP_SIZE)
    try:
        with _ptxas_writes_to(log) if log else contextlib.nullcontext():
            return triton.compile(source, target=target, options=options)
    except BuildError:
        raise
    except Exception as error:
        raise BuildError(explain(entry.source, error)) from error


@contextlib.contextmanager
def _ptxas_writes_to(log: TextIO) -> Iterator[None]:
    """Makes Triton run ptxas, whatever its cache has, and print ptxas's output to `log`."""
    from triton import knobs

    with knobs.compilation.scope(), knobs.nvidia.scope(), contextlib.redirect_stdout(log):
        knobs.compilation.always_compile = True
        knobs.nvidia.dump_ptxas_log = True
        yield


def constants_of(params: Params, workload: Workload) -> dict[str, ParamValue]:
    """Returns the constants that a function may take: compile-time axes and every param."""
    return {**workload.compile_time, **params}


def tensors_of(entry: CatalogEntry) -> dict[str, TensorSpec]:
    """Returns the tensors that a launch may take, the op's and the kernel's scratch, by name."""
    return {spec.name: spec for spec in (*entry.op.tensors, *getattr(entry.kernel, "scratch", ()))}


def arguments_taken(
    entry: CatalogEntry, launch: CudaLaunch, names: Sequence[str], constants: Mapping[str, Any]
) -> tuple[list[str], list[str]]:
    """Returns the names that are a launch's arguments, and the constants behind; BuildError if there are others."""
    try:
        passed = arguments_of(entry.op, entry.kernel, launch)
    except DeclarationError as error:
        raise BuildError(error.message, error.hint) from error
    if maps := [each.tensor for each in passed if isinstance(each, TensorMap)]:
        text = f"{launch.entry}: a kernel in CuTe DSL or cuTile is given no map of {maps[0]}"
        raise BuildError(text, "take the tensor")
    declared = [each for each in passed if isinstance(each, str)]
    taken = list(names[len(declared) :])
    if list(names[: len(declared)]) != declared or not set(taken) <= set(constants):
        expected = call_of(entry.op, entry.kernel, launch.entry, (*declared, *constants))
        text = f"{launch.entry} in {entry.source} takes {', '.join(names) or 'nothing'}"
        raise BuildError(f"{text}; expected: {expected}, of which constants may be left out")
    return declared, taken


def signature_of(
    entry: CatalogEntry, constants: Mapping[str, ParamValue], names: list[str], workload: Workload
) -> dict[str, str]:
    """Returns Triton's type of each argument, by name; BuildError for a name that nothing of op or kernel provides."""
    op = entry.op
    types = {axis.name: "i32" for axis in op.workloads.axes if not axis.compile_time}
    types |= dict.fromkeys(wide_arguments(op, entry.kernel), "i64")
    types |= dict.fromkeys(constants, "constexpr")
    types |= dict.fromkeys(op.scalars, "fp32")
    types |= {name: f"*{FACTS[spec.dtype_at(workload.axes)].triton}" for name, spec in tensors_of(entry).items()}
    unknown = [name for name in names if name not in types]
    if unknown:
        every = dict.fromkeys([*(spec.name for spec in op.tensors), *op.scalars, *reversed(types)])
        expected = f"expected, or a part of it: {call_of(op, entry.kernel, '', every)}"
        raise BuildError(f"the Triton function takes {', '.join(unknown)}, which nothing provides; {expected}")
    return {name: types[name] for name in names}


def arguments(compiled: Any, values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Returns a launch's arguments in the function's order: tensors and scalars of `values`, and the constants."""
    source = compiled.src
    constants = {source.fn.arg_names[place]: value for (place,), value in source.constants.items()}
    return tuple(constants[name] if name in constants else values[name] for name in source.fn.arg_names)


def explain(source: Path, error: BaseException) -> str:
    """Returns why Triton, which counts lines from the function's first, rejected a kernel: `file:line: error: …`."""
    from triton.compiler.errors import CompilationError

    innermost: BaseException | None = None
    link: BaseException | None = error  # the innermost is in the function called, not at the call
    while link is not None:
        innermost, link = link if isinstance(link, CompilationError) else innermost, link.__cause__
    if innermost is not None:
        return _at_line(source, innermost)
    text = str(error)
    log = text.partition("`ptxas` stderr:\n")[2].partition("\n\nRepro command:")[0] or text
    if errors := [*_PTXAS.finditer(log)]:
        return _by_ptxas(source, errors)
    return f"{source}: error: {log.strip() or type(error).__name__}"


_PTXAS = re.compile(r"^ptxas (?P<file>\S+\.ptx), line (?P<line>\d+); (?P<kind>\w+)\s*: (?P<said>.*)", re.MULTILINE)
_FILE = re.compile(r'\.file\s+(?P<number>\d+)\s+"(?P<name>[^"]+)"')
_LOC = re.compile(r"\.loc\s+(?P<number>\d+)\s+(?P<line>\d+)")


def _by_ptxas(source: Path, errors: Sequence[re.Match[str]]) -> str:
    """Returns what ptxas said, once each, at lines of the source; removes the PTX, which Triton leaves behind."""
    path = Path(errors[0]["file"])
    ptx: list[str] = []
    with contextlib.suppress(OSError, UnicodeDecodeError):
        ptx = path.read_text().splitlines()
        path.unlink()
    files = {found["number"]: found["name"] for line in ptx if (found := _FILE.search(line))}

    def place(line: int) -> str:
        at = next((found for each in reversed(ptx[:line]) if (found := _LOC.search(each))), None)
        return f"{files.get(at['number'], source)}:{at['line']}" if at else str(source)

    lines = dict.fromkeys(f"{place(int(each['line']))}: {each['kind']}: ptxas: {each['said']}" for each in errors)
    return "\n".join(lines)


def _at_line(source: Path, error: BaseException) -> str:
    function = getattr(error, "src", None) or ""
    node = getattr(error, "node", None)
    reason = getattr(error, "error_message", None) or str(error)
    line = getattr(node, "lineno", 0)
    before, found, _after = source.read_text().partition(function)
    if not (function and found and line):
        return f"{source}: error: {error}"
    column = getattr(node, "col_offset", 0)
    excerpt = f"{function.splitlines()[line - 1]}\n{' ' * column}^"
    return f"{source}:{before.count(chr(10)) + line}: error: {reason}\n{excerpt}"


def load_function(entry: CatalogEntry, name: str) -> Any:
    """Returns `name` of a kernel's source, run anew as a module; BuildError, with the line, if it fails or lacks it."""
    source = entry.source
    module_name = f"gdnbench_kernel_{sha256(str(source).encode()).hexdigest()[:12]}"
    if source.suffix != ".py":
        raise BuildError(f"{source} is not a Python file", "see `source` in variant.py")
    try:
        module = load_source(module_name, source, entry.include_path)
    except (Exception, SystemExit) as error:
        at = raised_at(error, source)  # in the source itself, not in what it called
        place = f"{source}:{at[1]}" if at else source
        raise BuildError(f"{place}: {type(error).__name__}: {error}") from error
    if not hasattr(module, name):
        raise BuildError(f"{source} defines no {name}", "see `entry` in variant.py")
    return getattr(module, name)
