"""What an op's workloads are: axes, lists, aliases for axes that belong together, and one read and written as text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gdnbench.errors import DeclarationError, ShapeError, UnknownNameError, UsageError
from gdnbench.model.declaration import CAPTURED
from gdnbench.model.workload import Sizes, Workload, parse_list

MOST_ELEMENTS = 2**31 - 1  # the largest size of an axis: kernels take sizes as 32-bit integers

_AXIS_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")


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


@dataclass(frozen=True)
class WorkloadSpec:
    """The axes, lists and aliases that describe an op's workloads: plain data, which a stored run keeps."""

    axes: tuple[Axis, ...] = ()  # in the order of every table
    lists: tuple[AxisList, ...] = ()
    aliases: tuple[Alias, ...] = ()  # names for axes that belong together; an axis is in at most one alias
    # The axis or list along which charts run; workloads that differ in it alone are a series. A list counts by its sum,
    # and `Workload.line` distinguishes those of one sum. By default the first axis, or the first list of an op without
    # axes.
    x: str = ""
    # Axes and lists whose product, a list's sum being its factor, is the size of a workload; what is tuned for one
    # workload stands in for others near it. By default all.
    size: tuple[str, ...] = ()
    # Names of the distributions of inputs, which `Op.profiles` sets; runs that are older than profiles had inputs of
    # the first
    profiles: tuple[str, ...] = ()
    profile: str = ""  # the profile that is measured by default; the first where it is empty

    def __post_init__(self) -> None:
        for name in ("axes", "lists", "aliases", "size", "profiles"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        names = [*self.names, *(alias.name for alias in self.aliases)]
        if not self.names:
            raise DeclarationError("an op needs an axis or a list by which its workloads differ")
        if twice := {name for name in names if names.count(name) > 1}:
            raise DeclarationError(f"{', '.join(sorted(twice))}: an axis, list or alias of this name is there twice")
        object.__setattr__(self, "x", self.x or self.names[0])
        object.__setattr__(self, "size", self.size or self.names)
        covered = [axis for alias in self.aliases for axis in alias.axes]
        if unknown := ({self.x, *self.size} - set(self.names)) | (set(covered) - {axis.name for axis in self.axes}):
            raise DeclarationError(f"{', '.join(sorted(unknown))}: no axis or list of this op")
        if self.x in covered or len(set(covered)) != len(covered):
            raise DeclarationError("an axis may be in one alias only, the x axis in none")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all axes, then of all lists."""
        return (*(axis.name for axis in self.axes), *(each.name for each in self.lists))

    @property
    def labels_profile(self) -> bool:
        """Whether labels name the first profile, too, as they do where another is measured by default."""
        return bool(self.profiles) and self.profile not in {"", self.profiles[0]}

    def workload(self, sizes: Sizes, name: str = "", profile: str | None = None) -> Workload:
        """A workload with these sizes, and the defaults for the others.

        `profile` is the distribution of its inputs, declared or not; empty for the first, None for the default.
        ShapeError is raised for an unknown name, or a size outside its limits.
        """
        if unknown := [each for each in sizes if each not in self.names]:
            raise ShapeError(f"{', '.join(unknown)}: no such axis", f"there are {', '.join(self.names)}")
        axes = {axis.name: checked_size(axis, sizes.get(axis.name, axis.default)) for axis in self.axes}
        lists = {each.name: checked_list(each, sizes.get(each.name, each.default)) for each in self.lists}
        profile = self.profile if profile is None else profile
        return Workload(self, axes, lists, name, "" if profile in self.profiles[:1] else profile)

    def completed(self, workload: Workload) -> Workload:
        """A workload stored when the op had fewer axes, with defaults of the newer; unchanged if its are others."""
        if workload.spec.names == self.names or not {*workload.spec.names} <= {*self.names}:
            return workload
        return self.workload(workload.sizes, workload.name, workload.profile)

    def stored(self, sizes: Sizes, name: str = "", profile: str = "") -> Workload:
        """A workload that was stored with all of its sizes, and with its profile if that is not the first."""
        if missing := [name for name in self.names if name not in sizes]:
            raise ShapeError(f"{', '.join(missing)}: missing", "every axis and list of the op is stored")
        return self.workload(sizes, name, profile)

    def stored_case(self, document: Mapping[str, Any]) -> Workload:
        """The workload of a case, or of a suite, as `Workload.document` wrote it; ShapeError as `stored`."""
        return self.stored(document["shape"], document.get("workload", ""), document.get("profile", ""))

    def from_cells(self, cells: Mapping[str, str]) -> Workload:
        """The inverse of `Workload.cells`, from cells as text; ShapeError for one that is missing or not a size."""
        sizes: dict[str, int | tuple[int, ...]] = {}
        for name in self.names:
            text = cells.get(name, "").strip()
            try:
                sizes[name] = parse_list(text) if name in {each.name for each in self.lists} else int(text)
            except (ValueError, UsageError) as error:
                raise ShapeError(f"{name}: {text[:40]!r} is not a size", "a size is a whole number") from error
        return self.stored(sizes, profile=cells.get("profile", "").strip() if "profile" not in self.names else "")

    @property
    def x_doc(self) -> str:
        """What the axis or list of charts counts: `batch size`; empty if the op does not say."""
        declared: tuple[Axis | AxisList, ...] = (*self.axes, *self.lists)
        return next(each.doc for each in declared if each.name == self.x)

    @property
    def x_name(self) -> str:
        """What charts count along their axis: `B`, or `sum of lengths` where it is a list."""
        return self.x if any(axis.name == self.x for axis in self.axes) else f"sum of {self.x}"

    @property
    def x_words(self) -> str:
        """The chart axis in a sentence: `batch size`, or `sum of lengths`."""
        return self.x_doc if self.x_doc and self.x_name == self.x else self.x_name

    @property
    def x_title(self) -> str:
        """The title of the chart axis: `batch size B`."""
        return self.x_name if self.x_words == self.x_name else f"{self.x_words} {self.x_name}"

    @property
    def default(self) -> Workload:
        """The workload with every axis and list at its default."""
        return self.workload({})

    def parse(self, text: str) -> tuple[tuple[Sizes, ...], ...]:
        """Parses the values of `--shape`: `B=1,8`, `heads=qk4_v8,qk2_v4`, `lengths=8x1024,6+134`, separated by spaces.

        Returns for each setting the sizes that its values stand for, the setting of `x` last.
        UsageError is raised for an unknown axis, one set in two ways, or a value that is not a size or fits no alias.
        """
        settings: dict[str, list[Sizes]] = {}
        for term in re.sub(r"\s*([=,])\s*", r"\1", text).split():
            name, equals, values = term.partition("=")
            if not equals or not all(values.split(",")):
                raise UsageError(f"--shape {text}: {term} sets no axis", f"write it as {self.example}")
            settings.setdefault(name, []).extend(self._read(name, value) for value in values.split(","))
        axes = [axis for sizes in settings.values() for axis in sizes[0]]
        if twice := sorted({axis for axis in axes if axes.count(axis) > 1}):
            raise UsageError(f"--shape {text}: {', '.join(twice)} is set in two ways", "leave one of them out")
        return tuple(sorted(map(tuple, settings.values()), key=lambda sizes: self.x in sizes[0]))

    def read(self, text: str, name: str = "") -> Workload:
        """The workload of which `text` is the label or the slug, without shortened lists; UsageError for other text."""
        endings = [*map(re.escape, self.profiles), rf"{CAPTURED}[^ /]+"]
        profile = next((found[2] for each in endings if (found := re.search(rf"(^|[ -])({each})$", text))), None)
        sizes: dict[str, Any] = {}
        for term in re.split(r"[ -]+", text.removesuffix(profile or "").strip(" -")):
            sizes |= self._read_term(term) if term else {}
        return self.workload(sizes, name, profile)

    def _read_term(self, term: str) -> dict[str, Any]:
        for alias in self.aliases:
            if sizes := alias.parse(term):
                return dict(sizes)
        for name in sorted(self.names, key=len, reverse=True):
            if term.startswith(name):
                return dict(self._read(name, term[len(name) :].lstrip("=")))
        raise UsageError(f"{term} sets no axis", f"write {self.example}")

    def _read(self, name: str, value: str) -> Sizes:
        if alias := next((each for each in self.aliases if each.name == name), None):
            return _alias_value(alias, value)
        if name in {axis.name for axis in self.axes}:
            return {name: _whole_number(name, value)}
        if name in {each.name for each in self.lists}:
            return {name: parse_list(value)}
        known = ", ".join([*self.names, *(each.name for each in self.aliases)])
        raise UsageError(f"--shape: there is no axis {name}", f"there are {known}; write {self.example}")

    @property
    def example(self) -> str:
        """An example for `--shape` in hints: `B=1,8,64`, and a value of an alias where there is one."""
        first = f"{self.names[0]}=1,8,64" if self.axes else f"{self.names[0]}=8x1024,6+134"
        alias = next((each for each in self.aliases if each.known), None)
        return f"{first}, or {alias.name}={alias.known[0]}" if alias else first


def _alias_value(alias: Alias, value: str) -> dict[str, int]:
    parsed = alias.parse(value)
    if parsed is None:
        known = f"known: {', '.join(alias.known)}; " if alias.known else ""
        form = re.sub(r"\{(\w+)\}", "N", alias.pattern)
        raise UnknownNameError(f"there is no {alias.name} {value}", f"{known}any {form} is understood")
    return parsed


def _whole_number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        message = f"--shape {name}={text[:40]}: a size is a whole number"
        raise UsageError(message, f"as in --shape {name}=1,8,64") from error


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
