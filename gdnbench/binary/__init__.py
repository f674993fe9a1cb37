"""Cubins of CUDA and Triton kernels for any architecture, and what the compiler made of them; needs no GPU.

Importing this package loads no compiler: `build` loads one when it must, `build_all` only in its subprocesses.
"""

from gdnbench.binary.ahead import build_all, build_processes, count_builds
from gdnbench.binary.build import build
from gdnbench.binary.cache import CACHE_VARIABLE, cache_folder
from gdnbench.binary.job import Job, Result
from gdnbench.binary.resources import Resources, read_resources
from gdnbench.binary.sass import disassemble, widest_load_bits

__all__ = [
    "CACHE_VARIABLE",
    "Job",
    "Resources",
    "Result",
    "build",
    "build_all",
    "build_processes",
    "cache_folder",
    "count_builds",
    "disassemble",
    "read_resources",
    "widest_load_bits",
]
