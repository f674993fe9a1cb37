"""A launch of a kernel at one workload and with its constants: at what a source is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gdnbench.codegen.launch_limits import LaunchRequest
from gdnbench.model.params import Params
from gdnbench.model.workload import Workload


@dataclass(frozen=True)
class TensorFacts:
    """A tensor at a workload.

    Attributes:
        dtype: of an element, as Triton calls it.
        elements: how many.
    """

    dtype: str
    elements: int


@dataclass(frozen=True)
class LaunchSetting:
    """A launch of a kernel at a workload, with its constants.

    Attributes:
        label: the kernel's.
        at: the workload and the constants in words, `B=64 qk4_v8 with BV=16`; empty where neither is known.
        tensors: by name.
        constants: the values of `tl.constexpr` arguments and of macros, by name.
        sizes: run-time axes and derived sizes by name, with Triton's types.
        scalars: fp32 arguments by name.
        grid: programs or blocks along x, y and z; None where it is not known.
        threads: of a block of a CUDA kernel; 0 where it is not known.
        request: the launch as it is declared; None where it is not known.
        workload: the workload; None where it is not known.
        params: the kernel's params; None where they are not known.
        archs: what it is launched on, as far as that is known; none where the kernel cannot do the workload.
    """

    label: str
    at: str = ""
    tensors: Mapping[str, TensorFacts] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    scalars: tuple[str, ...] = ()
    grid: tuple[int, ...] | None = None
    threads: int = 0
    request: LaunchRequest | None = None
    workload: Workload | None = None
    params: Params | None = None
    archs: tuple[str, ...] = ()


def at_words(setting: LaunchSetting) -> str:
    """` at B=64 qk4_v8 with BV=16`, to follow a sentence; empty where there is nothing to say."""
    if not setting.at:
        return ""
    return f" {setting.at}" if setting.at.startswith("with ") else f" at {setting.at}"
