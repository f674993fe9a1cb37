"""Kernels in CUDA C++, compiled to PTX by NVRTC and run by the interpreter."""

from functools import cache

import numpy as np
from cuda.bindings import nvrtc
from cuda.pathfinder import find_nvidia_header_directory

from gdnbench.ptx.launch import run_program
from gdnbench.ptx.program import LaunchGrid
from gdnbench.ptx.reader import read_program
from gdnbench.ptx.segments import MappedTensor, Tensor


@cache
def compiled(source, arch="compute_90"):
    """The PTX of a source that is called kernel.cu."""
    options = [f"--gpu-architecture={arch}", "-std=c++17", "-lineinfo"]
    options.append(f"-I{find_nvidia_header_directory('cudart')}")
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = b" " * size
        nvrtc.nvrtcGetProgramLog(program, log)
        raise AssertionError(log.decode())
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = b" " * size
    nvrtc.nvrtcGetPTX(program, text)
    return text.decode()


def run(
    source, *values, entry="k", blocks=(1, 1, 1), threads=32, shared=0, unwritten=(), lanes=1 << 15, limit=20_000,
    arch="compute_90",
):  # fmt: skip
    """FaultLog and traffic of a launch; arrays are tensors called a, b, c, …, and change in place."""
    program = read_program(compiled(source, arch), entry)
    arguments = [_argument(value, chr(ord("a") + n), n not in unwritten) for n, value in enumerate(values)]
    return run_program(program, LaunchGrid(blocks, threads, shared), arguments, lanes_at_once=lanes, limit=limit)


def _argument(value, name, is_written):
    if isinstance(value, Tensor | MappedTensor):
        return value
    if isinstance(value, np.ndarray):
        return Tensor(f"`{name}`", value.reshape(-1).view(np.uint8), is_written)
    if isinstance(value, np.integer):
        return value.tobytes()
    return (np.float32 if isinstance(value, float) else np.int32)(value).tobytes()


def findings(source, *values, **launch):
    """As (kind of fault, line of kernel.cu, text), with the lines that a header was called from."""
    found, _ = run(source, *values, **launch)
    return [(each.fault.name, _outermost(each.at).line, each.text) for each in found]


def _outermost(at):
    while at.inlined_at is not None:
        at = at.inlined_at
    return at
