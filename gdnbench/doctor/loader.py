"""Loads the heavy libraries and says how each did. Run as a script in a process of its own; never imported.

Writes one JSON line a library as soon as it is known, so that a crash or a hang in one hides nothing of those
before it. The only argument is the UUID of the GPU to try out; none if it is empty.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from typing import Any

Facts = dict[str, Any]


def load_libcuda() -> Facts:
    """The driver's own library, without which nothing that talks to a GPU loads."""
    ctypes.CDLL("libcuda.so.1")
    return {}


def load_torch() -> Facts:
    """Torch, what it is built for, and each GPU it sees."""
    import torch

    seen = range(torch.cuda.device_count() if torch.cuda.is_available() else 0)
    return {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "gpus": [describe_gpu(torch.cuda.get_device_properties(index)) for index in seen],
        "gpu_problem": attempt(lambda: use_gpu(sys.argv[1])) if sys.argv[1] else "",
    }


def describe_gpu(properties: Any) -> Facts:
    """What torch knows of a GPU and NVML does not."""
    return {
        "name": properties.name,
        "uuid": f"GPU-{str(properties.uuid).removeprefix('GPU-')}",
        "l2_bytes": properties.L2_cache_size,
    }


def use_gpu(uuid: str) -> None:
    """Computes something on the GPU: only that shows that torch, the driver and the GPU fit together."""
    import torch

    torch.cuda.init()  # type: ignore[no-untyped-call]  # says why, where is_available() says no
    seen = [describe_gpu(torch.cuda.get_device_properties(i))["uuid"] for i in range(torch.cuda.device_count())]
    if uuid not in seen and len(seen) != 1:  # a slice of a GPU (MIG) is the only one seen, under a UUID of its own
        raise RuntimeError("torch sees other GPUs, but not this one")
    index = seen.index(uuid) if uuid in seen else 0
    torch.ones(32, device=f"cuda:{index}").sum().item()


def load_triton() -> Facts:
    """Triton and its compiler."""
    import triton

    return {"version": triton.__version__}


def load_nvrtc() -> Facts:
    """NVRTC, by way of cuda-core: builds an empty kernel, for which no GPU is needed."""
    from cuda.core import Program, ProgramOptions

    Program('extern "C" __global__ void empty() {}', "c++", ProgramOptions(arch="sm_90")).compile("cubin")
    return {}


def load_nvbench() -> Facts:
    """NVBench's extension module, which cuda.bench loads at the first use of one of its names."""
    import cuda.bench

    assert cuda.bench.State
    return {}


def attempt(action: Callable[[], object]) -> str:
    """What went wrong, as one line; empty if nothing did."""
    try:
        action()
    except Exception as error:
        return " ".join(f"{type(error).__name__}: {error}".split())
    return ""


def report(library: str, load: Callable[[], Facts]) -> None:
    """Loads one library and writes its line."""
    facts: Facts = {}
    problem = attempt(lambda: facts.update(load()))
    print(json.dumps({"library": library, "problem": problem, **facts}), flush=True)


if __name__ == "__main__":
    report("libcuda", load_libcuda)
    report("torch", load_torch)
    report("triton", load_triton)
    report("nvrtc", load_nvrtc)
    report("nvbench", load_nvbench)
