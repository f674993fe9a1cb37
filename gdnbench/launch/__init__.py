"""Turns a variant at a workload into a function without arguments; imports torch, so only workers import this."""

from gdnbench.launch.bind import Binder, Launcher, bind, load, load_stamped
from gdnbench.launch.numerics import Numerics, load_file, load_numerics
from gdnbench.launch.workspace import TORCH_DTYPES, Workspace

__all__ = [
    "TORCH_DTYPES", "Binder", "Launcher", "Numerics", "Workspace", "bind", "load", "load_file", "load_numerics",
    "load_stamped",
]  # fmt: skip
