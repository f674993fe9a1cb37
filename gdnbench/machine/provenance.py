"""Describes what a run's numbers depend on, for its run.json."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gdnbench.asked import command_origin
from gdnbench.machine.state import GpuState, read_state
from gdnbench.model.gpu import Gpu
from gdnbench.process.command import run_tool

PACKAGES = (
    "torch",
    "triton",
    "cuda-bench",
    "cuda-core",
    "cuda-bindings",
    "cupti-python",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-runtime",
    "nvidia-cuda-cccl",
    "fla-core",
    "flashinfer-python",
    "numpy",
)
_VARIABLES = re.compile(r"(TRITON|CUDA|NVIDIA|TORCH|PYTORCH)_")
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_GIT_LIMIT_S = 10


def describe_machine(gpu: Gpu | None) -> dict[str, Any]:
    """Describes this machine as JSON: `host`, `gpu` (None on the CPU), `versions` and `environment`.

    A run requested from another machine also has `target`, this machine's name there.
    """
    elsewhere = command_origin()
    return {
        **({"target": elsewhere.target} if elsewhere and elsewhere.target else {}),
        "host": _describe_host(),
        "gpu": None if gpu is None else describe_gpu(gpu, read_state(gpu)),
        "versions": library_versions(),
        "environment": relevant_variables(os.environ),
    }


def describe_gpu(gpu: Gpu, state: GpuState) -> dict[str, Any]:
    """The GPU and those of its settings that change its speed, without what changes by the second."""
    return {
        "index": gpu.index,
        "name": gpu.name,
        "uuid": gpu.uuid,
        "capability": list(gpu.capability),
        "sms": gpu.sms,
        "l2_bytes": gpu.l2_bytes,
        "memory_bytes": gpu.memory_bytes,
        "memory_mhz": state.memory_mhz,
        "sm_max_mhz": state.sm_max_mhz,
        "power_limit_w": state.power_limit_w,
        "ecc": state.ecc,
        "mig": state.mig,
        "persistence": state.persistence,
        "compute_mode": state.compute_mode,
        "driver": state.driver_version,
        "cuda_driver": state.cuda_driver_version,
    }


def relevant_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Every `TRITON_*`, `CUDA_*`, `NVIDIA_*`, `TORCH_*` and `PYTORCH_*` variable, sorted.

    Runs are published, so the value of one named like a secret (`NVIDIA_API_KEY`) is withheld.
    """
    names = sorted(name for name in environ if _VARIABLES.match(name))
    return {name: "(withheld)" if _SECRET.search(name) else environ[name] for name in names}


@cache
def package_version(package: str) -> str | None:
    """Returns an installed package's version, read without importing it, or None if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def git_state(folder: Path) -> dict[str, Any]:
    """The checkout around a folder: `commit`, `branch` and `dirty`; None where git does not say.

    A file that git does not track makes the checkout dirty: it may be a kernel. For a run requested from another
    machine, it is the checkout there, from which its sources were sent.
    """
    if (elsewhere := command_origin()) and elsewhere.git:
        return dict(elsewhere.git)
    changes = _git(folder, "status", "--porcelain")
    return {
        "commit": _git(folder, "rev-parse", "--verify", "HEAD"),
        "branch": _git(folder, "symbolic-ref", "--short", "HEAD"),
        "dirty": None if changes is None else bool(changes),
    }


def _git(folder: Path, *arguments: str) -> str | None:
    """Runs git; returns None if it fails, is missing or hangs. Takes no lock that another git might want."""
    try:
        done = run_tool(["git", "--no-optional-locks", "-C", str(folder), *arguments], limit_s=_GIT_LIMIT_S)
    except OSError:
        return None
    return done.output.strip() if done.returncode == 0 else None


def library_versions() -> dict[str, str | None]:
    """The versions of Python and of what makes, launches or times kernels; None if not installed."""
    import platform

    return {"python": platform.python_version(), **{package: package_version(package) for package in PACKAGES}}


def host_name() -> str:
    """The host's own name."""
    import platform

    return platform.node()


def _describe_host() -> dict[str, Any]:
    import platform

    return {
        "hostname": host_name(),
        "os": platform.platform(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
    }


def _cpu_model() -> str:
    """The processor's name; its architecture where the kernel gives no name, as on Arm."""
    import platform

    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8", errors="replace") if cpuinfo.exists() else ""
    named = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return named.group(1) if named else platform.machine()
