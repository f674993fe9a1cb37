"""The fields that files of several profilers have, with what each can be; msgspec checks them."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from gdnbench.model import Case, Params, Role, Shape, Variant

T = TypeVar("T")

_MOST_COUNT = 2**31 - 1

Text = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f]*\Z")]
"""A line without control characters."""

Name = Annotated[str, Meta(pattern=r"^[^\s\x00-\x1f\x7f-\x9f]+\Z")]
"""A word: of a kernel, an op, a param."""

FileName = Annotated[str, Meta(pattern=r"^[^/\\\x00-\x1f\x7f]*\Z")]
"""A name in the same folder, and no way out of it."""

Source = Annotated[str, Meta(pattern=r"^(?:[0-9a-f]{16})?\Z")]
"""Hash of a kernel's sources; empty in files of before there was one."""

Axis = Annotated[int, Meta(ge=1, le=_MOST_COUNT)]
Count = Annotated[int, Meta(ge=0, le=_MOST_COUNT)]

SHORTEST_US, LONGEST_US = 1e-3, 1e9
"""A nanosecond, and a quarter of an hour: what a launch takes lies between."""

Microseconds = Annotated[float, Meta(ge=0, le=LONGEST_US)]
LaunchMicroseconds = Annotated[float, Meta(ge=SHORTEST_US, le=LONGEST_US)]


class Axes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A shape."""

    B: Axis
    HQ: Axis
    HV: Axis
    K: Axis
    V: Axis

    def shape(self) -> Shape:
        """The shape.

        Raises:
            ShapeError: if HV is no multiple of HQ.
        """
        return Shape(**msgspec.structs.asdict(self))


class CaseFields(msgspec.Struct, frozen=True):
    """A case, as `Case.to_dict` gives it."""

    kernel: Name
    label: Name
    preset: Text
    params: dict[Name, int | Text]
    shape: Axes
    role: Role

    def case(self) -> Case:
        """The case.

        Raises:
            ShapeError: if its shape is none.
        """
        variant = Variant(self.kernel, self.label, preset=self.preset, params=Params(self.params))
        return Case(variant, self.shape.shape(), self.role)


def decode(document: str | bytes, kind: type[T]) -> T:
    """A JSON document as a kind of struct.

    Raises:
        ValueError: naming the field that is missing or cannot be what it is.
    """
    try:
        return msgspec.json.decode(document, type=kind)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


class _Schema(msgspec.Struct, frozen=True):
    schema: int


def check_schema(document: str | bytes, known: Literal[1]) -> None:
    """Refuses a document of another version.

    Raises:
        ValueError: if its `schema` is not the known one.
    """
    found = decode(document, _Schema).schema
    if found != known:
        raise ValueError(f"its schema is {found}, and this gdnbench reads {known}")
