"""What a chart shows: some kernels of one stored run at some shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

from gdnbench.compare.figure import Figure, Source
from gdnbench.compare.measured import load_run
from gdnbench.errors import UnknownNameError
from gdnbench.model import Case, Role, Shape, Variant
from gdnbench.store import RunInfo, read_info

FASTEST = 5


@dataclass(frozen=True, kw_only=True)
class View:
    """Some kernels of a run at some shapes.

    Attributes:
        folder: the run's folder.
        info: what the run was.
        source: its figures.
        labels: the kernels to show, as the run has them.
        shapes: the workloads to show, of those that the run has.
    """

    folder: Path
    info: RunInfo
    source: Source
    labels: tuple[str, ...]
    shapes: tuple[Shape, ...]

    @property
    def title(self) -> str:
        """The device and the run."""
        gpu = (self.info.machine.get("gpu") or {}).get("name", self.info.gpu)
        return f"{gpu}, {self.info.run_id}"

    @property
    def is_gpu(self) -> bool:
        """Whether times are a GPU's."""
        return self.info.on_gpu

    def at(self, shape: Shape) -> list[Figure]:
        """The chosen kernels that have a time at a shape, fastest first."""
        return sorted(self.timed(shape, self.labels), key=lambda figure: figure.time_us)

    def timed(self, shape: Shape, labels: Sequence[str] | None = None) -> list[Figure]:
        """Every kernel that has a time at a shape."""
        return [
            each
            for each in self.source.figures
            if each.shape == shape and math.isfinite(each.time_us) and (labels is None or each.label in labels)
        ]


def open_view(
    folder: Path, kernels: str = "", shapes: Sequence[Shape] | None = None, *, every: bool = False, empty: bool = True
) -> View:
    """Reads a run and chooses what to show of it.

    Args:
        folder: the run's folder.
        kernels: names and globs separated by commas; by default the baseline, the floors and the fastest.
        shapes: the workloads asked for; None for what the chart shows by default.
        every: whether that default is every shape of the first shape's heads, rather than the first shape.
        empty: whether the default holds the empty floor.

    Raises:
        RunFormatError: if the run cannot be read.
        UnknownNameError: for a kernel or a shape that the run has no time of.
    """
    info, source = read_info(folder), load_run(folder)
    known = list(dict.fromkeys(each.shape for each in source.figures if math.isfinite(each.time_us)))
    if not known:
        raise UnknownNameError(f"{info.run_id} has no times to draw", f"gdnbench show {info.run_id} says why")
    chosen = _shapes(info, known, shapes, every=every)
    timed = [each for each in source.figures if each.shape in chosen and math.isfinite(each.time_us)]
    labels = _named(info, timed, kernels) if kernels else _default_labels(timed, empty=empty)
    return View(folder=folder, info=info, source=source, labels=labels, shapes=chosen)


def case_id(figure: Figure) -> str:
    """What `rounds.csv` and `samples.parquet` call a figure's case."""
    return Case(Variant(figure.kernel, figure.label), figure.shape).id


def _shapes(info: RunInfo, known: Sequence[Shape], wanted: Sequence[Shape] | None, *, every: bool) -> tuple[Shape, ...]:
    if wanted is None:
        return tuple(shape for shape in known if shape.heads == known[0].heads) if every else (known[0],)
    for shape in wanted:
        if shape not in known:
            there = ", ".join(map(str, known))
            raise UnknownNameError(f"{info.run_id} has no times at {shape}", f"there are {there}")
    return tuple(wanted)


def _named(info: RunInfo, timed: Sequence[Figure], kernels: str) -> tuple[str, ...]:
    labels = list(dict.fromkeys(each.label for each in timed))
    chosen: dict[str, None] = {}
    for term in filter(None, (term.strip() for term in kernels.split(","))):
        matches = [label for label in labels if term == "all" or fnmatchcase(label, term)]
        if not matches:
            near = get_close_matches(term, labels, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(labels[:12])}"
            raise UnknownNameError(f"{info.run_id} has no times of {term}", hint)
        chosen.update(dict.fromkeys(matches))
    if not chosen:
        raise UnknownNameError("no kernel was named", "leave --kernel out for the fastest few")
    return tuple(chosen)


def _default_labels(timed: Sequence[Figure], *, empty: bool) -> tuple[str, ...]:
    """The baseline, the floors, and the fastest by the geometric mean of what all shapes say of them."""
    bounds = [each for each in timed if each.role in (Role.BASELINE, Role.FLOOR)]
    left_out = {each.label for each in bounds if each.role is Role.FLOOR and not each.nbytes and not empty}
    chosen = [each.label for each in bounds]
    logs: dict[str, list[float]] = {}
    for each in timed:
        if each.label not in chosen:
            logs.setdefault(each.label, []).append(math.log(each.time_us))
    most = max(map(len, logs.values()), default=0)
    whole = [label for label, times in logs.items() if len(times) == most]
    fastest = sorted(whole, key=lambda label: sum(logs[label]))[:FASTEST]
    return tuple(dict.fromkeys(label for label in [*chosen, *fastest] if label not in left_out))
