"""What a Triton function does at a setting of its constants, as far as its source tells: accesses, products, sums."""

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
    """A load, a store or an atomic operation.

    Attributes:
        node: the call.
        kind: what it is.
        pointer: through which.
        masked: whether it has a mask.
        is_conditional: whether it stands in a branch that need not be taken.
    """

    node: ast.Call
    kind: AccessKind
    pointer: TritonValue
    masked: bool
    is_conditional: bool


@dataclass(frozen=True)
class MatrixProduct:
    """A `tl.dot`.

    Attributes:
        node: the call.
        left: its first operand.
        right: its second one.
        says_precision: whether `input_precision` or `allow_tf32` is given.
    """

    node: ast.Call
    left: TritonValue
    right: TritonValue
    says_precision: bool


@dataclass(frozen=True)
class TensorSum:
    """A `tl.sum`.

    Attributes:
        node: the call.
        summed: what is summed.
    """

    node: ast.Call
    summed: TritonValue


@dataclass(frozen=True)
class LaneRange:
    """A `tl.arange` of which the compiler knows how long it is.

    Attributes:
        node: the call.
        length: its end less its start.
    """

    node: ast.Call
    length: int


TritonEvent = MemoryAccess | MatrixProduct | TensorSum | LaneRange


@dataclass(frozen=True)
class EventsAtSetting:
    """What a function does at a setting; nothing where a `tl.static_assert` refuses it.

    Attributes:
        setting: the setting.
        events: in the order of the source.
    """

    setting: LaunchSetting
    events: tuple[TritonEvent, ...]


def offset_span(access: MemoryAccess) -> Span | None:
    """Bounds of the elements that an access touches, from the tensor's first; None where they are not known."""
    return access.pointer.span if access.pointer.tensor else None
