"""The kernel to be sent, and the terms of its checks."""

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
    """The terms by which a kernel is checked.

    `archs` are as `--arch` gives them, empty for those that fit the kernel; `rules` say what no build may do. An empty
    `suite` is the op's contest, or its default suite if it has none; `gpu_asked` is the value of `--gpu`.
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
    """A kernel that loaded, by the user's label with params, and the suite that measures it."""

    catalog: Catalog
    op: Op
    label: str
    suite: Suite
    terms: Terms


def choose_suite(op: Op, wanted: str) -> Suite:
    """Returns the suite of a name, by default the contest's if the op has one; raises UnknownNameError."""
    return op.suite(wanted or (CONTEST_SUITE if CONTEST_SUITE in op.suites else DEFAULT_SUITE))
