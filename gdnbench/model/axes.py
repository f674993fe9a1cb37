"""Axes and lists of sizes, by which the workloads of an op differ, and aliases for axes that belong together."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from gdnbench.errors import DeclarationError, ShapeError, UsageError

MOST_ELEMENTS = 2**31 - 1  # the largest size of an axis: kernels take sizes as 32-bit integers

_AXIS_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_LONGEST_LIST = 40  # characters of a list in a name; a longer one is named by its length, its sum and a hash
_RUN_OF_ALIKE = re.compile(r"(?:(\d+)x)?(\d+)")


@dataclass(frozen=True)
class Axis:
    """A named size of an op, such as `B`, from `least` to `most`."""

    name: str
    default: int
    doc: str = ""
    compile_time: bool = False  # whether kernels are compiled for its value; else it is an argument of every launch
    terse: bool = False  # whether a workload's name leaves it out as long as every terse axis has its default
    least: int = 1
    most: int = MOST_ELEMENTS

    def __post_init__(self) -> None:
        if not _AXIS_NAME.fullmatch(self.name):
            raise DeclarationError(f"axis {self.name!r}: a name is made of letters and digits, as in B")
        if not self.least <= self.default <= self.most:
            raise DeclarationError(f"axis {self.name}: its default {self.default} lies outside its limits")


@dataclass(frozen=True)
class AxisList:
    """A named list of sizes, such as the `lengths` of the sequences in a batch; `least` and `most` limit each size."""

    name: str
    default: tuple[int, ...]
    doc: str = ""
    least: int = 0
    most: int = MOST_ELEMENTS

    def __post_init__(self) -> None:
        object.__setattr__(self, "default", tuple(self.default))
        if not _AXIS_NAME.fullmatch(self.name):
            raise DeclarationError(f"list {self.name!r}: a name is made of letters and digits, as in lengths")
        if not self.default or not all(self.least <= size <= self.most for size in self.default):
            raise DeclarationError(f"list {self.name}: its default {self.default} is empty or outside its limits")


@dataclass(frozen=True)
class Alias:
    """A name for the values of several axes together, `heads=qk4_v8` for `HQ=4 HV=8`, or of one: `state=bf16`."""

    name: str  # the part before the equals sign, `heads`
    pattern: str  # a value's name, with the axes in braces: `qk{HQ}_v{HV}`
    known: tuple[str, ...] = ()  # values that hints list
    words: Mapping[str, int] = field(default_factory=dict, hash=False)  # names of its sizes: `{"bf16": 16}`

    def __post_init__(self) -> None:
        object.__setattr__(self, "known", tuple(self.known or self.words))
        if not self.axes:
            raise DeclarationError(f"alias {self.name}: the pattern {self.pattern!r} names no axis, as qk{{HQ}} does")
        if self.words and (len(self.axes) > 1 or len({*self.words.values()}) < len(self.words)):
            raise DeclarationError(
                f"alias {self.name}: words are for the sizes of one axis, each with a word of its own"
            )
        for value in self.known:
            if self.parse(value) is None:
                raise DeclarationError(f"alias {self.name}: {value} does not fit {self.pattern}")

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes in the pattern."""
        return tuple(re.findall(r"\{(\w+)\}", self.pattern))

    def write(self, axes: Mapping[str, int]) -> str:
        """The name of these values."""
        names = {size: word for word, size in self.words.items()}
        return self.pattern.format(**{name: names.get(axes[name], axes[name]) for name in self.axes})

    def parse(self, text: str) -> dict[str, int] | None:
        """Returns the axes' values, or None if `text` does not fit the pattern."""
        parts = re.split(r"\{\w+\}", self.pattern)
        value = "|".join(map(re.escape, self.words)) or "[0-9]{1,9}"
        match = re.fullmatch(f"({value})".join(map(re.escape, parts)), text)
        if match is None:
            return None
        sizes = (self.words[each] if self.words else int(each) for each in match.groups())
        return dict(zip(self.axes, sizes, strict=True))


def write_list(sizes: Sequence[int]) -> str:
    """Writes `8x1024` for eight times 1024, `28672+4096` for two that differ: the inverse of `parse_list`."""
    runs = ((size, len(list(group))) for size, group in groupby(sizes))
    return "+".join(f"{count}x{size}" if count > 1 else str(size) for size, count in runs)


def short_list(sizes: Sequence[int]) -> str:
    """Writes a list as `write_list` does, or a long one as its length, its sum and a hash: `19n-41870-0c1f2e3d`."""
    text = write_list(sizes)
    if len(text) <= _LONGEST_LIST:
        return text
    return f"{len(sizes)}n-{sum(sizes)}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def parse_list(text: str) -> tuple[int, ...]:
    """The sizes in `8x1024+6`; UsageError for other text."""
    matches = [_RUN_OF_ALIKE.fullmatch(part.strip()) for part in text.split("+")]
    if not all(matches):
        raise UsageError(f"{text[:40]!r} lists no sizes", "write 28672+4096, or 8x1024 for eight alike")
    return tuple(int(each[2]) for each in matches if each for _ in range(int(each[1] or 1)))


def checked_size(axis: Axis, size: int | Sequence[int]) -> int:
    """Returns the size of an axis; ShapeError if it is outside the axis's limits."""
    if not isinstance(size, int):
        raise ShapeError(f"{axis.name}={size}: an axis has one size", f"give {axis.name}={axis.default}, say")
    if size < axis.least:
        few = "an axis has at least one element" if axis.least == 1 else f"at least {axis.least:,}"
        raise ShapeError(f"{axis.name}={size}: {few}", f"give {axis.name} >= {axis.least}")
    if size > axis.most:
        raise ShapeError(f"{axis.name}={size}: an axis has at most {axis.most:,} elements", "give less")
    return size


def checked_list(declared: AxisList, sizes: int | Sequence[int]) -> tuple[int, ...]:
    """Returns the sizes of a list; ShapeError if the list is empty or a size is outside its limits."""
    if isinstance(sizes, int):
        sizes = (sizes,)
    if not sizes:
        raise ShapeError(f"{declared.name} is empty", f"give {declared.name}=8x1024, say")
    for size in sizes:
        if not declared.least <= size <= declared.most:
            limits = f"{declared.least:,} to {declared.most:,}"
            raise ShapeError(f"{declared.name}: {size:,} is outside its limits", f"give sizes of {limits}")
    return tuple(sizes)
