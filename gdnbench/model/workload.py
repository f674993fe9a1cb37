"""Workloads: the settings of an op's axes and lists at which kernels are measured."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, total_ordering
from itertools import groupby
from typing import TYPE_CHECKING, Any

from gdnbench.errors import DeclarationError, UsageError

if TYPE_CHECKING:
    from gdnbench.model.workload_spec import WorkloadSpec


_LONGEST_NAME = 80
_LONGEST_LIST = 40  # characters of a list in a name; a longer one is named by its length, its sum and a hash
_RUN_OF_ALIKE = re.compile(r"(?:(\d+)x)?(\d+)")

Sizes = Mapping[str, int | Sequence[int]]  # values of axes and lists, by name


class Shape:
    """Some axes and lists by name, as a declaration gives them: `Shape(B=32)`. The op completes it to a workload.

    In a suite it may have a name, `Shape("small", B=32)`, which does not change the workload's identity.
    DeclarationError is raised for a name of more than 80 characters, or with characters that cannot be printed.
    """

    def __init__(self, name: str = "", /, **sizes: int | Sequence[int]) -> None:
        if len(name) > _LONGEST_NAME or not name.isprintable():
            raise DeclarationError(f"the workload's name {name[:_LONGEST_NAME]!r} is not a short line of text")
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

    @cached_property
    def _label(self) -> str:
        return " ".join(filter(None, [*self._terms(self.spec.names), self.labelled_profile]))

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
            return f"{self.series} {self.labelled_profile}".strip()
        sizes = self.lists[self.spec.x]
        form = short_list(sizes) if len(set(sizes)) > 1 else "N" if len(sizes) == 1 else f"{len(sizes)}xN"
        return " ".join(filter(None, [self.series, f"{self.spec.x}={form}", self.labelled_profile]))

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
        options: list[str] = []
        for name in self._covering(self.spec.names):
            value = self.aliases.get(name) or self.cells[name]
            usual = default.aliases.get(name) or default.cells[name]
            if value != usual or name == self.spec.x:
                options += ["--shape", f"{name}={value}"]
        return options

    def _count(self, name: str) -> int:
        return self.axes[name] if name in self.axes else sum(self.lists[name])

    def _covering(self, names: Iterable[str]) -> Iterable[str]:
        covering = {axis: alias.name for alias in self.spec.aliases for axis in alias.axes}
        return dict.fromkeys(covering.get(name, name) for name in names)

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


def nearest_workload(known: Iterable[Workload], wanted: Workload) -> Workload:
    """The known workload nearest to the wanted one by size; ValueError if none is known.

    A known workload stands for itself, in any profile. Otherwise distance is the larger size over the smaller. Ties go
    to the workload whose lists are nearest in length, for 8 sequences of 1,024 tokens are not one of 8,192; then to the
    one that differs in the fewest axes, that of charts aside; then to the smaller.
    """

    def distance(each: Workload) -> tuple[bool, float, float, int, Workload]:
        lengths = (sum(map(len, workload.lists.values())) for workload in (each, wanted))
        differing = sum(each.sizes[name] != size for name, size in wanted.sizes.items() if name != wanted.spec.x)
        is_other = each.at("") != wanted.at("")
        return is_other, _times_apart(each.size, wanted.size), _times_apart(*lengths), differing, each

    return min(known, key=distance)


def _times_apart(one: int, other: int) -> float:
    return max(one, other, 1) / max(min(one, other), 1)


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
