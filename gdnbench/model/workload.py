"""Workloads: the settings of an op's axes and lists at which kernels are measured."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, total_ordering
from typing import Any

from gdnbench.errors import DeclarationError, ShapeError, UnknownNameError, UsageError
from gdnbench.model.axes import Alias, Axis, AxisList, checked_list, checked_size, parse_list, short_list, write_list
from gdnbench.model.declaration import CAPTURED

_LONGEST_NAME = 80

Sizes = Mapping[str, int | Sequence[int]]
"""Values of axes and lists, by name."""


class Shape:
    """Some axes and lists by name, as a declaration gives them: `Shape(B=32)`. The op completes it to a workload.

    In a suite it may have a name, `Shape("small", B=32)`, which does not change the workload's identity.
    DeclarationError is raised for a name of more than 80 characters, or with characters that cannot be printed.
    """

    def __init__(self, name: str = "", /, **sizes: int | Sequence[int]) -> None:
        if len(name) > _LONGEST_NAME or not name.isprintable():
            raise DeclarationError(f"the workload's name {name[:_LONGEST_NAME]!r} is no short line of text")
        self.name = name
        self.sizes: Sizes = {
            name: size if isinstance(size, int) else tuple(int(each) for each in size) for name, size in sizes.items()
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shape) and self.sizes == other.sizes

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.sizes.items())))

    def __repr__(self) -> str:
        return f"Shape({', '.join(f'{name}={size}' for name, size in self.sizes.items())})"


@dataclass(frozen=True)
class WorkloadSpec:
    """The axes, lists and aliases that describe an op's workloads. Plain data, which a stored run keeps.

    Attributes:
        axes: in the order of every table.
        aliases: names for axes that belong together; an axis is in at most one alias.
        x: the axis or list along which charts run; workloads that differ in it alone are a series. A list counts by its
            sum, and `Workload.line` distinguishes those of one sum. By default the first axis, or the first list of an
            op without axes.
        size: axes and lists whose product, a list's sum being its factor, is the size of a workload; what is tuned for
            one workload stands in for others near it. By default all.
        profiles: names of the distributions of inputs, which `Op.profiles` sets; runs that are older than profiles had
            inputs of the first.
        profile: the profile that is measured by default; the first where it is empty.

    Raises:
        DeclarationError: for a duplicate name, or one that is not an axis or list.
    """

    axes: tuple[Axis, ...] = ()
    lists: tuple[AxisList, ...] = ()
    aliases: tuple[Alias, ...] = ()
    x: str = ""
    size: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    profile: str = ""

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
            raise DeclarationError("an axis is in one alias at most, and x in none")

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

        `name` is its name in a suite. `profile` is the distribution of its inputs, declared or not; empty for the
        first, None for the default. ShapeError is raised for a name that is not an axis or list, or a size outside its
        limits.
        """
        if unknown := [each for each in sizes if each not in self.names]:
            raise ShapeError(f"{', '.join(unknown)}: no such axis", f"there are {', '.join(self.names)}")
        axes = {axis.name: checked_size(axis, sizes.get(axis.name, axis.default)) for axis in self.axes}
        lists = {each.name: checked_list(each, sizes.get(each.name, each.default)) for each in self.lists}
        profile = self.profile if profile is None else profile
        return Workload(self, axes, lists, name, "" if profile in self.profiles[:1] else profile)

    def completed(self, workload: Workload) -> Workload:
        """A workload that was stored when the op had fewer axes, with the defaults of the newer ones.

        A workload with an axis that this op lacks is returned unchanged.
        """
        if workload.spec.names == self.names or not {*workload.spec.names} <= {*self.names}:
            return workload
        return self.workload(workload.sizes, workload.name, workload.profile)

    def stored(self, sizes: Sizes, name: str = "", profile: str = "") -> Workload:
        """A workload that was stored with all of its sizes, and with its profile if that is not the first.

        ShapeError is raised if a size is missing, or as `workload` does.
        """
        if missing := [name for name in self.names if name not in sizes]:
            raise ShapeError(f"{', '.join(missing)}: missing", "every axis and list of the op is stored")
        return self.workload(sizes, name, profile)

    def stored_case(self, document: Mapping[str, Any]) -> Workload:
        """The workload of a case, or of a suite, as `Workload.document` wrote it; ShapeError as `stored`."""
        return self.stored(document["shape"], document.get("workload", ""), document.get("profile", ""))

    def from_cells(self, cells: Mapping[str, str]) -> Workload:
        """The inverse of `Workload.cells`, from cells as text; ignores further cells.

        ShapeError is raised for a cell that is missing or not a size.
        """
        sizes: dict[str, int | tuple[int, ...]] = {}
        for name in self.names:
            text = cells.get(name, "").strip()
            try:
                sizes[name] = parse_list(text) if name in {each.name for each in self.lists} else int(text)
            except (ValueError, UsageError) as error:
                raise ShapeError(f"{name}: {text[:40]!r} is no size", "a size is a whole number") from error
        return self.stored(sizes, profile=cells.get("profile", "").strip() if "profile" not in self.names else "")

    @cached_property
    def case_id(self) -> re.Pattern[str]:
        """The pattern of a label, a slash and a workload's key; lists that are written as a hash do not match.

        The group `profile` is that of the workload; None for the first.
        """
        parts = [rf"{axis.name}(?P<{axis.name}>[0-9]+)" for axis in self.axes]
        parts += [rf"{each.name}(?P<{each.name}>[0-9x+]+)" for each in self.lists]
        return re.compile(rf"(?P<label>.+)/{'_'.join(parts)}(_(?P<profile>[^_/]+))?", re.DOTALL)

    @property
    def x_doc(self) -> str:
        """What the axis or list of charts counts: `batch size`; empty if the op does not say."""
        docs = {axis.name: axis.doc for axis in self.axes} | {each.name: each.doc for each in self.lists}
        return docs[self.x]

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
    def series_title(self) -> str:
        """The column title for the rest of a workload: an alias that covers all of it, else `series`."""
        covered = {axis for alias in self.aliases for axis in alias.axes}
        told = {axis.name for axis in self.axes if not axis.terse} | {each.name for each in self.lists}
        return self.aliases[0].name if len(self.aliases) == 1 and told - covered == {self.x} else "series"

    @property
    def default(self) -> Workload:
        """The workload with every axis and list at its default."""
        return self.workload({})

    def parse(self, text: str) -> tuple[tuple[Sizes, ...], ...]:
        """Parses the values of `--shape`: `B=1,8`, `heads=qk4_v8,qk2_v4`, `lengths=8x1024,6+134`, separated by spaces.

        Returns for each setting the sizes that its values stand for, the setting of `x` last.

        Raises:
            UsageError: for an unknown axis, one set by itself and by an alias, or a value that is not a size.
            UnknownNameError: for a value that does not fit an alias.
        """
        found: dict[str, list[Sizes]] = {}
        for term in re.sub(r"\s*([=,])\s*", r"\1", text).split():
            name, equals, values = term.partition("=")
            if not equals or not all(values.split(",")):
                raise UsageError(f"--shape {text}: {term} sets no axis", f"write it as {self.example}")
            found.setdefault(name, []).extend(self._read(name, value) for value in values.split(","))
        given = [axis for settings in found.values() for axis in settings[0]]
        if twice := sorted({axis for axis in given if given.count(axis) > 1}):
            raise UsageError(f"--shape {text}: {', '.join(twice)} is set in two ways", "leave one of them out")
        return tuple(sorted(map(tuple, found.values()), key=lambda settings: self.x in settings[0]))

    def read(self, text: str, name: str = "") -> Workload:
        """The workload of which `text` is the label or the slug; labels with shortened lists are not accepted.

        Raises:
            UsageError: for a text that is not a label.
            ShapeError: for a size outside its limits.
        """
        endings = [*map(re.escape, self.profiles), rf"{CAPTURED}[^ /]+"]
        profile = next((found[2] for each in endings if (found := re.search(rf"(^|[ -])({each})$", text))), None)
        sizes: dict[str, Any] = {}
        for term in re.split(r"[ -]+", text.removesuffix(profile or "").strip(" -")):
            sizes |= self._read_term(term) if term else {}
        return self.workload(sizes, name, profile)

    def _read_term(self, term: str) -> dict[str, Any]:
        """Parses `B=8`, `B8` or `qk4_v8` as sizes."""
        for alias in self.aliases:
            if found := alias.parse(term):
                return dict(found)
        for name in sorted(self.names, key=len, reverse=True):
            if term.startswith(name):
                return dict(self._read(name, term[len(name) :].lstrip("=")))
        raise UsageError(f"{term} sets no axis", f"write {self.example}")

    def _read(self, name: str, value: str) -> Sizes:
        for alias in self.aliases:
            if alias.name == name:
                return self._alias_value(alias, value)
        if name in {axis.name for axis in self.axes}:
            return {name: _whole_number(name, value)}
        if name in {each.name for each in self.lists}:
            return {name: parse_list(value)}
        known = ", ".join([*self.names, *(each.name for each in self.aliases)])
        raise UsageError(f"--shape: there is no axis {name}", f"there are {known}; write {self.example}")

    @staticmethod
    def _alias_value(alias: Alias, value: str) -> dict[str, int]:
        parsed = alias.parse(value)
        if parsed is None:
            known = f"known: {', '.join(alias.known)}; " if alias.known else ""
            form = re.sub(r"\{(\w+)\}", "N", alias.pattern)
            raise UnknownNameError(f"there is no {alias.name} {value}", f"{known}any {form} is understood")
        return parsed

    @property
    def example(self) -> str:
        """An example for `--shape` in hints: `B=1,8,64`, and a value of an alias where there is one."""
        first = f"{self.names[0]}=1,8,64" if self.axes else f"{self.names[0]}=8x1024,6+134"
        alias = next((each for each in self.aliases if each.known), None)
        return f"{first}, or {alias.name}={alias.known[0]}" if alias else first


@total_ordering
@dataclass(frozen=True, eq=False, repr=False)
class Workload:
    """One setting of an op's axes and lists. Its sizes are read as `workload.B`; made by `WorkloadSpec.workload`.

    `name` is its name in a suite, if any; workloads that differ in the name alone are equal. `profile` is the
    distribution of its inputs; empty for the first or only one of its op.
    """

    spec: WorkloadSpec
    axes: Mapping[str, int]
    lists: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    name: str = ""
    profile: str = ""

    def __getattr__(self, name: str) -> Any:
        # Called for an axis or a list, which are not fields. Pickling asks for dunders before fields are set.
        if not name.startswith("_"):
            if name in self.axes:
                return self.axes[name]
            if name in self.lists:
                return self.lists[name]
        raise AttributeError(f"a workload of this op has no {name}")

    @cached_property
    def _identity(self) -> tuple[int | tuple[int, ...] | str, ...]:
        return (*self.axes.values(), *self.lists.values(), self.profile)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Workload):
            return NotImplemented
        return self._identity == other._identity and self.spec.names == other.spec.names

    def __lt__(self, other: Workload) -> bool:
        return self._identity < other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        """The label in tables: `B=8 qk4_v8`, with the profile behind it where labels name it."""
        return self._label

    @property
    def inputs(self) -> str:
        """The name of its profile; empty if its op has no profiles."""
        return self.profile or next(iter(self.spec.profiles), "")

    @property
    def labelled_profile(self) -> str:
        """The profile as labels have it: empty for the first, unless another is measured by default."""
        return self.inputs if self.spec.labels_profile else self.profile

    def at(self, profile: str) -> Workload:
        """The same sizes with inputs of another profile; empty for the first."""
        return replace(self, profile="" if profile in self.spec.profiles[:1] else profile)

    @property
    def document(self) -> dict[str, Any]:
        """A JSON document, without an empty name or profile."""
        return {**self.place, **({"workload": self.name} if self.name else {})}

    @property
    def place(self) -> dict[str, Any]:
        """The workload's identity as a JSON document: `{"shape": …, "profile": "never"}`."""
        return {"shape": self.sizes, **({"profile": self.profile} if self.profile else {})}

    @property
    def titled(self) -> str:
        """The label, behind the name that a suite gives the workload: `small: B=8 qk4_v8`."""
        return f"{self.name}: {self}" if self.name else str(self)

    @cached_property
    def _label(self) -> str:
        return " ".join(filter(None, [*self._terms(self.spec.names), self.labelled_profile]))

    @cached_property
    def series(self) -> str:
        """The label without the chart axis and the profile, `qk4_v8`: names the sizes that code is compiled for."""
        return " ".join(self._terms(name for name in self.spec.names if name != self.spec.x))

    @cached_property
    def line(self) -> str:
        """The line of a chart that the workload is on: its series, `qk4_v8`, and the form of a list along x.

        Lists of equal sizes are one line for each length: `qk4_v8 lengths=N`, `qk4_v8 lengths=8xN`. A list of different
        sizes has a line of its own.
        """
        if self.spec.x not in self.lists:
            return self.series_inputs
        sizes = self.lists[self.spec.x]
        form = short_list(sizes) if len(set(sizes)) > 1 else "N" if len(sizes) == 1 else f"{len(sizes)}xN"
        return " ".join(filter(None, [self.series, f"{self.spec.x}={form}", self.labelled_profile]))

    @property
    def series_inputs(self) -> str:
        """The series with the profile as labels have it: `qk4_v8 never`."""
        return f"{self.series} {self.labelled_profile}".strip()

    @cached_property
    def key(self) -> str:
        """Every size and a profile but the first, as a permanent file name: `B8_HQ4_HV8_K128_V128`."""
        parts = [f"{name}{size}" for name, size in self.axes.items()]
        parts += [f"{name}{short_list(sizes)}" for name, sizes in self.lists.items()]
        return "_".join([*parts, *filter(None, [self.profile])])

    @property
    def slug(self) -> str:
        """The label as part of a file name: `B8-qk4_v8`."""
        return label_slug(self._label)

    @property
    def x_slug(self) -> str:
        """`x_term` as part of a file name: `B8`."""
        return label_slug(self.x_term)

    @property
    def line_slug(self) -> str:
        """`line` as part of a file name; empty if the op has one line."""
        return label_slug(self.line)

    @property
    def x(self) -> int:
        """The position along the chart axis, which is logarithmic: at least 1."""
        return max(1, self._count(self.spec.x))

    @property
    def x_term(self) -> str:
        """The chart axis with its value: `B=8`."""
        return next(iter(self._terms([self.spec.x])))

    @property
    def x_value(self) -> str:
        """The value on the chart axis as it is typed: `8`, or `8x1024`."""
        return self.x_term.partition("=")[2]

    @cached_property
    def size(self) -> int:
        """The size by which the nearest workload is found; see `WorkloadSpec`."""
        return math.prod(self._count(name) for name in self.spec.size)

    @property
    def sizes(self) -> dict[str, int | tuple[int, ...]]:
        """Every axis and list, by name."""
        return {**self.axes, **self.lists}

    @property
    def cells(self) -> dict[str, int | str]:
        """Every axis and list as one cell of a table: lists as text, `6+134`; and a profile that is not the first."""
        lists = {name: write_list(sizes) for name, sizes in self.lists.items()}
        return {**self.axes, **lists, **({"profile": self.profile} if self.profile else {})}

    @property
    def compile_time(self) -> dict[str, int]:
        """The axes that kernels are compiled for."""
        return {axis.name: self.axes[axis.name] for axis in self.spec.axes if axis.compile_time}

    @property
    def aliases(self) -> dict[str, str]:
        """The value of each alias: `{"heads": "qk4_v8"}`."""
        return {alias.name: alias.write(self.axes) for alias in self.spec.aliases}

    @property
    def options(self) -> list[str]:
        """The options that select this workload, without defaults but for x: `--shape B=8 --shape heads=qk16_v32`."""
        default = self.spec.default
        words: list[str] = []
        for name in self._covering(self.spec.names):
            value = self.aliases.get(name) or self.cells[name]
            usual = default.aliases.get(name) or default.cells[name]
            if value != usual or name == self.spec.x:
                words += ["--shape", f"{name}={value}"]
        return words

    def _count(self, name: str) -> int:
        return self.axes[name] if name in self.axes else sum(self.lists[name])

    def _covering(self, names: Iterable[str]) -> Iterator[str]:
        """The axes and lists, with an alias in the place of the first axis that it covers."""
        told: set[str] = set()
        for name in names:
            alias = next((each for each in self.spec.aliases if name in each.axes), None)
            covering = alias.name if alias else name
            if covering not in told:
                told.add(covering)
                yield covering

    def _terms(self, names: Iterable[str]) -> Iterator[str]:
        """The terms of the label; terse axes are left out while all of them have their defaults."""
        terse = {axis.name for axis in self.spec.axes if axis.terse}
        if all(self.axes[axis.name] == axis.default for axis in self.spec.axes if axis.terse):
            names = [name for name in names if name not in terse]
        for name in self._covering(names):
            if name in self.lists:
                yield f"{name}={short_list(self.lists[name])}"
            else:
                yield self.aliases.get(name) or f"{name}={self.axes[name]}"


def label_slug(label: str) -> str:
    """A label, or a part of one, as part of a file name: `B=8 qk4_v8` is `B8-qk4_v8`."""
    return label.replace("=", "").replace(" ", "-")


def _whole_number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise UsageError(
            f"--shape {name}={text[:40]}: a size is a whole number", f"as in --shape {name}=1,8,64"
        ) from error
