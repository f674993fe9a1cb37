"""Which of the heavy libraries load, asked of a process of their own: this one stays light, and survives a crash."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gdnbench.model import Gpu

LIBRARIES = ("libcuda", "torch", "triton", "nvrtc", "nvbench")
_LIMIT_S = 120  # the first import of a CUDA build of torch from a network disk takes most of a minute
_LOADER = Path(__file__).with_name("loader.py")


@dataclass(frozen=True)
class TorchGpu:
    """A GPU as torch sees it; `l2_bytes` is what NVML does not know."""

    name: str
    uuid: str
    l2_bytes: int


@dataclass(frozen=True)
class Loaded:
    """How loading a library went.

    Attributes:
        problem: what went wrong, as one line; empty if it loaded.
        version: its own `__version__`; empty where not asked.
        cuda: for torch, the CUDA it is built for; None for a CPU build.
        gpus: for torch, the GPUs it sees.
        gpu_problem: for torch, what went wrong in computing on the chosen GPU.
    """

    problem: str = ""
    version: str = ""
    cuda: str | None = None
    gpus: tuple[TorchGpu, ...] = ()
    gpu_problem: str = ""

    @property
    def is_missing(self) -> bool:
        """Whether it is not there at all, rather than broken."""
        return self.problem.startswith("ModuleNotFoundError")


def load_libraries(gpu: Gpu | None, limit_s: float = _LIMIT_S) -> dict[str, Loaded]:
    """Loads each of `LIBRARIES` in one process and says how it went.

    Args:
        gpu: the GPU to try out through torch; None tries none.
        limit_s: how long all of it may take, in seconds; what has not loaded by then counts as hanging.
    """
    output, end = _run_loader(gpu.uuid if gpu else "", limit_s)
    found = parse_loader_output(output)
    return {library: found.get(library, Loaded(problem=end)) for library in LIBRARIES}


def parse_loader_output(output: str) -> dict[str, Loaded]:
    """Reads the loader's JSON lines, passing over whatever the libraries themselves have printed."""
    found = {}
    for line in output.splitlines():
        if line.startswith('{"library": '):
            facts: dict[str, Any] = json.loads(line)
            gpus = tuple(TorchGpu(**gpu) for gpu in facts.pop("gpus", ()))
            library = facts.pop("library")
            found[library] = Loaded(gpus=gpus, **facts)
    return found


def _run_loader(uuid: str, limit_s: float) -> tuple[str, str]:
    """The loader's output, and what to say of a library that it did not get to."""
    import subprocess

    # -P: this folder's own modules must not stand in for installed ones of the same name.
    command = [sys.executable, "-P", str(_LOADER), uuid]
    environment = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}  # as NVML counts
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b"").decode(errors="replace"), f"it, or one before it, did not load in {limit_s:.0f} s"
    return done.stdout.decode(errors="replace"), f"loading it, or one before it, ended the process ({done.returncode})"
