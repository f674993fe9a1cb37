"""The ways to launch one kernel, whose costs `gdnbench step --launches` measures."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class LaunchWay(StrEnum):
    """A way to launch an empty kernel."""

    TRITON = "triton"
    TORCH = "torch"
    CUDA_CORE = "cuda-core"
    DRIVER = "cuda-bindings"
    C_LOOP = "c-loop"
    C_LOOP_EX = "c-loop-ex"
    GRAPH = "graph"


MEANING = {
    LaunchWay.TRITON: "Triton's launcher, of a kernel that is compiled already",
    LaunchWay.TORCH: "a torch operation on one number (fill_): the runtime, through torch; it has arguments of its own",
    LaunchWay.CUDA_CORE: "cuda.core.launch from Python",
    LaunchWay.DRIVER: "cuLaunchKernel from Python, by cuda.bindings, its arguments prepared beforehand",
    LaunchWay.C_LOOP: "cuLaunchKernel from a C loop",
    LaunchWay.C_LOOP_EX: "cuLaunchKernelEx from a C loop, with the attribute of programmatic dependent launch",
    LaunchWay.GRAPH: "the replay of a CUDA graph of all launches",
}

ARGUMENTS = (10, 30)
LAUNCHES = 200
"""Number of launches in a sample."""


@dataclass(frozen=True)
class LaunchCase:
    """A way, and the empty kernel's number of arguments; 0 if it is not gdnbench's own kernel."""

    way: LaunchWay
    arguments: int

    @property
    def id(self) -> str:
        """Id, unique within a run."""
        return f"{self.way}/{self.arguments}"

    @classmethod
    def parse(cls, text: str) -> LaunchCase:
        """The inverse of `id`."""
        way, _, arguments = text.partition("/")
        return cls(LaunchWay(way), int(arguments))


def launch_cases() -> tuple[LaunchCase, ...]:
    """All cases of the measurement."""
    return tuple(
        LaunchCase(way, count) for way in LaunchWay for count in ((0,) if way is LaunchWay.TORCH else ARGUMENTS)
    )
