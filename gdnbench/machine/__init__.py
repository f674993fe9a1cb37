"""What this machine is: its GPUs, which one to use, who else is using it, and how to describe it in a run.

Reads only. Imports neither torch nor pynvml until a function needs it.
"""

from gdnbench.machine.lock import gpu_lock
from gdnbench.machine.nvml import list_gpus
from gdnbench.machine.provenance import describe_machine, git_state
from gdnbench.machine.select import select_gpu
from gdnbench.machine.state import GpuProcess, GpuState, read_state

__all__ = [
    "GpuProcess",
    "GpuState",
    "describe_machine",
    "git_state",
    "gpu_lock",
    "list_gpus",
    "read_state",
    "select_gpu",
]
