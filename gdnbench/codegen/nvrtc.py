"""Compiles CUDA kernels with NVRTC: no toolkit, no host compiler, no GPU."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gdnbench.catalog.entry import HEADERS, CatalogEntry
from gdnbench.errors import BuildError, GdnbenchError, MachineError, UsageError
from gdnbench.machine.provenance import package_version
from gdnbench.model.declaration import Params
from gdnbench.model.kernel import CudaKernel, Kernel, launch_of
from gdnbench.model.op import Op
from gdnbench.model.workload import Workload

# NVRTC optimises at -O3 by default. Line tables let profilers map SASS to the source and change no code.
# No fast-math: a kernel that wants __expf writes __expf.
OPTIONS = ("--std=c++17", "--generate-line-info")
STAMPED = "GDNBENCH_PHASES"  # the macro that turns the marks of phases.cuh into clock reads
WAIT = "griddepcontrol.wait"  # the instruction that returns when the launches before have ended
_PACKAGES = ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-cccl")


@dataclass(frozen=True)
class CompiledCode:
    """One compiled kernel."""

    cubin: bytes
    symbol: str  # the kernel's mangled name in the cubin
    dynamic_shared_bytes: int = 0  # shared memory per block that the compiler leaves to the launch
    log: str = ""  # output of ptxas and, where NVRTC ran it, of NVRTC


def fingerprint(*, stamped: int) -> dict[str, Any]:
    """Returns what besides the sources decides the code; loads no compiler."""
    versions = {package: package_version(package) or "absent" for package in _PACKAGES}
    facts = {"options": OPTIONS, "versions": versions, "headers": _headers_hash()}
    return facts | ({"stamped": stamped} if stamped else {})


def _headers_hash() -> str:
    digest = hashlib.sha256()
    for path in sorted(HEADERS.rglob("*.cuh")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def macros(op: Op, params: Params, workload: Workload, *, stamped: int) -> dict[str, str]:
    """Returns a kernel's macros, without run-time axes: one cubin serves all of their sizes."""
    axes = {f"{op.macro_prefix}{axis}": str(size) for axis, size in workload.compile_time.items()}
    marks = {STAMPED: str(int(stamped))} if stamped else {}
    return axes | {name: str(value) for name, value in params.items()} | marks


def compile_cuda(
    entry: CatalogEntry, params: Params, workload: Workload, arch: str, *, launch: str = "", stamped: int = 0
) -> CompiledCode:
    """Compiles a CUDA kernel for a target such as `sm_90`; `launch` is a launch's entry, by default the first one's.

    Args:
        stamped: what its marks do: nothing; add up the cycles of phases (1), or note each pass (2).

    Raises:
        BuildError: if the compiler rejects the kernel, with its message, the source is not UTF-8, or a launch begins
            early and never waits.
        UsageError: if the compiler does not know the target.
        MachineError: if NVRTC or the CUDA headers are absent.
    """
    from cuda.bindings import nvrtc

    with _compiled(entry, params, workload, target_of(entry.kernel, arch), stamped=stamped) as (program, symbols):
        cubin = _bytes_of(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
        return CompiledCode(cubin, symbols[launch_of(entry.kernel, launch).entry], log=_log_of(program))


def compile_ptx(entry: CatalogEntry, params: Params, workload: Workload, arch: str) -> tuple[str, dict[str, str]]:
    """Compiles launches to PTX with source lines; returns it and mangled names by entry; raises as `compile_cuda`."""
    target = target_of(entry.kernel, arch).replace("sm_", "compute_")
    with _compiled(entry, params, workload, target, stamped=0) as (program, symbols):
        return _ptx_of(program), symbols


@contextmanager
def _compiled(
    entry: CatalogEntry, params: Params, workload: Workload, target: str, *, stamped: int
) -> Iterator[tuple[Any, dict[str, str]]]:
    """Yields NVRTC's program of all launches, so that they share a module's variables, and mangled names by entry."""
    from cuda.bindings import nvrtc

    defined = macros(entry.op, params, workload, stamped=stamped)
    options = [
        f"--gpu-architecture={target}",
        *OPTIONS,
        *(f"--include-path={folder}" for folder in _include_path(entry)),
        *(f"--define-macro={name}={value}" for name, value in defined.items()),
    ]
    assert isinstance(entry.kernel, CudaKernel)
    entries = [launch.entry for launch in entry.kernel.launches]
    try:
        _, program = nvrtc.nvrtcCreateProgram(_text_in(entry.source).encode(), str(entry.source).encode(), 0, [], [])
    except RuntimeError as error:
        raise MachineError(f"NVRTC does not run: {error}", "pip install nvidia-cuda-nvrtc") from error
    try:
        for name in entries:
            nvrtc.nvrtcAddNameExpression(program, name.encode())
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise _explained(entry, target, _log_of(program) or f"NVRTC says {status.name}", defined)
        symbols = {name: nvrtc.nvrtcGetLoweredName(program, name.encode())[1].decode() for name in entries}
        early = [launch.entry for launch in entry.kernel.launches if launch.begins_early]
        ptx = _ptx_of(program) if early else ""
        for name in early:
            if not _waits(ptx, symbols[name]):
                text = f"{entry.source}: {name} begins early and never waits for the launches before it"
                raise BuildError(f"{text}: there is no {WAIT} in it", "see `begins_early` in variant.py")
        yield program, symbols
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _ptx_of(program: Any) -> str:
    from cuda.bindings import nvrtc

    return _bytes_of(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX).decode().rstrip("\0")


def _waits(ptx: str, symbol: str) -> bool:
    """Returns whether a kernel, or a function that is not inlined, waits for the launches before."""
    bodies = re.split(r"(?=\.(?:entry|func)\s)", ptx)
    own = re.compile(rf"\.(?:func|entry\s+{re.escape(symbol)}(?![\w$]))")
    return any(WAIT in body for body in bodies if own.match(body))


def _text_in(source: Path) -> str:
    content = source.read_bytes()
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        said = f"{source}:{line}: byte {content[error.start]:#04x} is not UTF-8"
        raise BuildError(said, "save the file as UTF-8") from error


def target_of(kernel: Kernel, arch: str) -> str:
    """Returns what a kernel is compiled for: the architecture, or its own target; BuildError if that is another's."""
    target = kernel.target if isinstance(kernel, CudaKernel) else ""
    if not kernel.fits(arch):
        whose = f"that {target} alone knows" if target else f"that GPUs have from {kernel.since} on"
        raise BuildError(f"{kernel.name} has instructions {whose}, and cannot be compiled for {arch}")
    return target or arch


def _bytes_of(program: Any, size_of: Callable[[Any], Any], fill: Callable[[Any, bytes], Any]) -> bytes:
    _, size = size_of(program)
    buffer = bytes(size)
    fill(program, buffer)
    return buffer


def _log_of(program: Any) -> str:
    from cuda.bindings import nvrtc

    return _bytes_of(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).decode().strip("\0\n")


def _include_path(entry: CatalogEntry) -> list[str]:
    """The kernel's include path, CUDA's, and libcu++'s and CUB's if installed; MachineError without CUDA's."""
    from cuda.pathfinder import find_nvidia_header_directory

    cuda, cccl = (find_nvidia_header_directory(each) for each in ("cudart", "cccl"))
    if cuda is None:
        raise MachineError("the CUDA headers are not installed", "pip install nvidia-cuda-runtime")
    return [str(each) for each in (*entry.include_path, cuda, cccl) if each]


def _explained(entry: CatalogEntry, target: str, log: str, defined: Mapping[str, str]) -> GdnbenchError:
    if "invalid value for --gpu-architecture" in log:
        from cuda.bindings import nvrtc

        _status, archs = nvrtc.nvrtcGetSupportedArchs()
        known = ", ".join(f"sm_{each}" for each in archs)
        return UsageError(f"this CUDA compiler does not know {target.replace('compute_', 'sm_')}", f"it knows {known}")
    if "__nv_name_map" in log:
        absent = re.search(r'name expression was: "\s*([^"]+?)\s*"', log)
        named = absent[1] if absent else "of its declaration"
        return BuildError(f"{entry.source} defines no kernel {named}", "see `entry` in variant.py")
    remedy = "\nthat header comes with: pip install nvidia-cuda-cccl" if _ABSENT_OF_CCCL.search(log) else ""
    macros_here = ", ".join(f"{name}={value}" for name, value in defined.items()) or "none"
    return BuildError(f"{clean_log(log)}{remedy}\nmacros here: {macros_here}")


_ABSENT_OF_CCCL = re.compile(r'cannot open source file "(nv/target|cuda/|cub/|thrust/)[^"]*"')


def clean_log(text: str) -> str:
    """Returns the compiler's errors alone, with places written as editors and terminals link them: `file:line`."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    noise = re.compile(r"^.*\): warning #|^Remark:|^.*errors? detected in the compilation of")
    errors = [paragraph.rstrip() for paragraph in paragraphs if not noise.match(paragraph)]
    return re.sub(r"^(/.+?)\((\d+)\): ", r"\1:\2: ", "\n".join(errors or paragraphs), flags=re.MULTILINE)
