"""Events of a Triton function at a setting of its constants, as far as its source tells: accesses, products, sums."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

from gdnbench.lint.launch_setting import LaunchSetting
from gdnbench.lint.span import Span
from gdnbench.lint.triton_value import TritonValue

AccessKind = Literal["load", "store", "atomic"]


@dataclass(frozen=True)
class MemoryAccess:
    """A load, a store or an atomic operation; `is_conditional` if it is in a branch that may not be taken."""

    node: ast.Call
    kind: AccessKind
    pointer: TritonValue
    masked: bool
    is_conditional: bool


@dataclass(frozen=True)
class MatrixProduct:
    """A `tl.dot`; `says_precision` if `input_precision` or `allow_tf32` is given."""

    node: ast.Call
    left: TritonValue
    right: TritonValue
    says_precision: bool


@dataclass(frozen=True)
class TensorSum:
    """A `tl.sum` of the value `summed`."""

    node: ast.Call
    summed: TritonValue


@dataclass(frozen=True)
class LaneRange:
    """A `tl.arange` of a length that the compiler knows."""

    node: ast.Call
    length: int


TritonEvent = MemoryAccess | MatrixProduct | TensorSum | LaneRange


@dataclass(frozen=True)
class EventsAtSetting:
    """The events of a function at a setting, in source order; none if a `tl.static_assert` refuses it."""

    setting: LaunchSetting
    events: tuple[TritonEvent, ...]


def offset_span(access: MemoryAccess) -> Span | None:
    """Returns bounds of the elements that an access touches, from the tensor's first, or None if unknown."""
    return access.pointer.span if access.pointer.tensor else None
