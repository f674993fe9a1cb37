"""Tries in a worker which of the heavy libraries load: this process stays light, and survives a crash.

The worker is `python -m gdnbench.doctor.loading UUID FD`, with the UUID of the GPU to try, or empty. It sends a message
for each library as soon as it is known, so that a crash or hang does not hide the ones before.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from gdnbench.model.gpu import Gpu
from gdnbench.process.channel import Channel
from gdnbench.process.worker import Worker, die_with_parent

LIBRARIES = ("libcuda", "torch", "triton", "nvrtc", "nvbench")
LOADER = "gdnbench.doctor.loading"
"""The module that the worker runs."""

_LIMIT_S = 120.0  # the first import of a CUDA build of torch from a network disk takes most of a minute


@dataclass(frozen=True)
class TorchGpu:
    """A GPU as torch sees it, with its L2 size, which NVML does not know."""

    name: str
    uuid: str
    l2_bytes: int


@dataclass(frozen=True)
class LoadResult:
    """Result of loading a library.

    `problem` is one line, empty if it loaded; `version` is its own `__version__`, empty if not read. For torch, `cuda`
    is the CUDA it is built for, None for a CPU build, `gpus` the GPUs it sees, `gpu_problem` a failure to compute on
    the chosen one.
    """

    problem: str = ""
    version: str = ""
    cuda: str | None = None
    gpus: tuple[TorchGpu, ...] = ()
    gpu_problem: str = ""

    @property
    def is_missing(self) -> bool:
        """Whether the library is missing, rather than broken."""
        return self.problem.startswith("ModuleNotFoundError")


@dataclass(frozen=True)
class LibraryLoaded:
    """A worker's message: it has tried to load a library."""

    library: str
    result: LoadResult


def load_libraries(gpu: Gpu | None, limit_s: float = _LIMIT_S) -> dict[str, LoadResult]:
    """Loads `LIBRARIES` in one process, computes on `gpu` through torch; after `limit_s` the rest count as hanging."""
    environment = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}  # as NVML counts
    found: dict[str, LoadResult] = {}
    deadline = time.monotonic() + limit_s
    with (
        tempfile.TemporaryFile() as log,
        Worker(LOADER, [gpu.uuid if gpu else ""], [LibraryLoaded], log, environment) as worker,
    ):
        try:
            while loaded := worker.receive(deadline):
                found[loaded.library] = loaded.result
            worker.end()
            end = f"loading it, or one before it, ended the process ({worker.describe_end()})"
        except TimeoutError:
            end = f"it, or one before it, did not load in {limit_s:.0f} s"
    return {library: found.get(library, LoadResult(problem=end)) for library in LIBRARIES}


def main(arguments: list[str]) -> None:
    """Loads every library and sends each result."""
    die_with_parent()
    uuid, descriptor = arguments
    channel = Channel[LibraryLoaded](int(descriptor))
    loads: dict[str, Callable[[], LoadResult]] = {
        "libcuda": _load_libcuda,
        "torch": lambda: _load_torch(uuid),
        "triton": _load_triton,
        "nvrtc": _load_nvrtc,
        "nvbench": _load_nvbench,
    }
    for library in LIBRARIES:
        channel.send(LibraryLoaded(library, _attempt(loads[library])))


def _attempt(load: Callable[[], LoadResult]) -> LoadResult:
    try:
        return load()
    except Exception as error:
        return LoadResult(problem=_one_line(error))


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _load_libcuda() -> LoadResult:
    import ctypes

    ctypes.CDLL("libcuda.so.1")
    return LoadResult()


def _load_torch(uuid: str) -> LoadResult:
    import torch

    gpus = _seen_gpus() if torch.cuda.is_available() else ()
    result = LoadResult(version=torch.__version__, cuda=torch.version.cuda, gpus=gpus)
    try:
        if uuid:
            use_gpu(uuid)
    except Exception as error:
        return replace(result, gpu_problem=_one_line(error))
    return result


def _seen_gpus() -> tuple[TorchGpu, ...]:
    import torch

    every = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    return tuple(
        TorchGpu(each.name, f"GPU-{str(each.uuid).removeprefix('GPU-')}", each.L2_cache_size) for each in every
    )


def use_gpu(uuid: str) -> None:
    """Computes on the GPU, which shows that torch, driver and GPU fit; RuntimeError if torch sees none."""
    import torch

    torch.cuda.init()  # type: ignore[no-untyped-call]  # says why, where is_available() says no
    seen = [gpu.uuid for gpu in _seen_gpus()]
    if uuid not in seen and len(seen) != 1:  # a slice of a GPU (MIG) is the only one seen, under its own UUID
        raise RuntimeError("torch sees other GPUs, but not this one")
    index = seen.index(uuid) if uuid in seen else 0
    torch.ones(32, device=f"cuda:{index}").sum().item()


def _load_triton() -> LoadResult:
    import triton

    return LoadResult(version=triton.__version__)


def _load_nvrtc() -> LoadResult:
    """Builds as kernels are built, with lines, and has what was built read."""
    from cuda.core import Program, ProgramOptions

    from gdnbench.codegen.cubin import run_cuobjdump

    options = ProgramOptions(arch="sm_90", lineinfo=True)
    built = Program('extern "C" __global__ void empty() {}', "c++", options).compile("cubin")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(built.code)
        run_cuobjdump(Path(file.name), "-res-usage", "-elf")
    return LoadResult()


def _load_nvbench() -> LoadResult:
    """Loads NVBench's extension module, which cuda.bench does at the first use of one of its names."""
    import cuda.bench

    assert cuda.bench.State
    return LoadResult()


if __name__ == "__main__":
    main(sys.argv[1:])
