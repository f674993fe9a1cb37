"""The kernel that is to be sent, and by what it is checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gdnbench.catalog.catalog import Catalog
from gdnbench.inspection.quantities import Rule
from gdnbench.measuring.observer import Observer
from gdnbench.model.gpu import Gpu
from gdnbench.model.op import DEFAULT_SUITE, Op, Suite

CONTEST_SUITE = "contest"


@dataclass(frozen=True, kw_only=True)
class Terms:
    """By what a kernel is checked.

    Attributes:
        archs: the architectures to build for, as `--arch` gives them; empty for those that fit the kernel.
        rules: what no build may do.
        suite: the suite's name; empty for the op's contest, or its default suite where it has none.
        gpu: the GPU to check on; None where there is none.
        gpu_asked: as `--gpu` asked for it.
        step_limit_s: seconds that a step of the kernel may take.
        results: the folder of runs.
        observer: told of every step.
    """

    archs: str
    rules: tuple[Rule, ...]
    suite: str
    gpu: Gpu | None
    gpu_asked: str
    step_limit_s: float
    results: Path
    observer: Observer


@dataclass(frozen=True)
class Candidate:
    """A kernel that loaded.

    Attributes:
        catalog: what there is.
        op: the kernel's op.
        label: what the user calls the kernel, with params.
        suite: the suite that it is to be measured by.
        terms: by what it is checked.
    """

    catalog: Catalog
    op: Op
    label: str
    suite: Suite
    terms: Terms


def choose_suite(op: Op, wanted: str) -> Suite:
    """The suite of a name; by default the contest's, where the op has one.

    Raises:
        UnknownNameError: if there is none of that name.
    """
    return op.suite(wanted or (CONTEST_SUITE if CONTEST_SUITE in op.suites else DEFAULT_SUITE))
