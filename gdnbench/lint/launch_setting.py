"""A launch of a kernel at one workload with its constants, at which a source is evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gdnbench.codegen.launch_limits import LaunchRequest
from gdnbench.model.params import Params
from gdnbench.model.workload import Workload


@dataclass(frozen=True)
class TensorFacts:
    """A tensor at a workload: Triton's name of its dtype, and its number of elements."""

    dtype: str
    elements: int


@dataclass(frozen=True)
class LaunchSetting:
    """A launch of a kernel at a workload, with its constants; values are None, 0 or empty if unknown.

    Attributes:
        at: the workload and the constants in words, `B=64 qk4_v8 with BV=16`.
        constants: the values of `tl.constexpr` arguments and of macros, by name.
        sizes: run-time axes and derived sizes by name, with Triton's types.
        scalars: names of fp32 arguments.
        grid: programs or blocks along x, y and z.
        threads: of a block of a CUDA kernel.
        archs: target architectures; none if the kernel does not support the workload.
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
    """Returns ` at B=64 qk4_v8 with BV=16`, the end of a sentence, or "" without a workload and constants."""
    if not setting.at:
        return ""
    return f" {setting.at}" if setting.at.startswith("with ") else f" at {setting.at}"
