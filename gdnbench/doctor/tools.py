"""The compilers that Triton, torch and, optionally, people use."""

from __future__ import annotations

import os
import re
import shutil
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from gdnbench.doctor.check import Check, Level


def find_c_compiler() -> str | None:
    """The C compiler that Triton would take."""
    return os.environ.get("CC") or _first("gcc", "clang", "cc")


def find_cpp_compiler() -> str | None:
    """The C++ compiler that torch.compile would take."""
    return os.environ.get("CXX") or _first("g++", "clang++", "c++")


def has_python_headers() -> bool:
    """Whether an extension module can be compiled for this Python."""
    return (Path(sysconfig.get_path("include")) / "Python.h").exists()


def check_compilers(c: str | None, cpp: str | None, has_headers: bool, has_gpu: bool) -> Check:
    """Whether torch.compile on the CPU and, for a GPU, Triton's launcher can be built."""
    lacking = [
        finding
        for finding, is_lacking in (
            ("no C compiler: Triton kernels cannot be launched", has_gpu and c is None),
            ("no Python.h: Triton kernels cannot be launched", has_gpu and not has_headers),
            ("no C++ compiler: torch.compile kernels cannot run on the CPU", cpp is None),
        )
        if is_lacking
    ]
    if lacking:
        return Check("compilers", Level.WARN, "; ".join(lacking), "apt install g++ python3-dev")
    present = [Path(compiler).name for compiler in (c, cpp) if compiler]
    return Check("compilers", Level.OK, " and ".join([", ".join(present), *(["Python.h"] if has_headers else [])]))


def check_nvcc(path: str | None, version_text: str) -> Check:
    """The CUDA toolkit's compiler, which gdnbench does without.

    Args:
        path: where nvcc is; None if it is not there.
        version_text: what `nvcc --version` prints.
    """
    if path is None:
        return Check("nvcc", Level.OK, "not found, and not needed: NVRTC builds the kernels")
    release = re.search(r"release ([\d.]+)", version_text)
    return Check("nvcc", Level.OK, f"{release.group(1) if release else path}, not needed: NVRTC builds the kernels")


def output_of(command: Sequence[str], limit_s: float = 20) -> str:
    """What a tool prints on stdout; empty where it cannot run or takes longer than `limit_s` seconds."""
    import subprocess

    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _first(*names: str) -> str | None:
    return next(filter(None, map(shutil.which, names)), None)
