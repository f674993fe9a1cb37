"""What a user asked to be measured."""

from __future__ import annotations

import secrets
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from gdnbench.catalog import Catalog, select_variants
from gdnbench.errors import UnknownNameError, UsageError
from gdnbench.model import CLOCKS, Clock, Op, Shape, Suite, Variant
from gdnbench.store.schema import MOST_ROUNDS


@dataclass(frozen=True)
class Settings:
    """How to measure.

    Attributes:
        rounds: rounds after the burn-in.
        samples: timed launches per round and case, fewer for slow kernels.
        seed: of inputs and of the order within rounds.
        margin: relative difference below which two kernels are the same.
        confidence: of every interval.
        step_limit_s: seconds that one step of one kernel may take; building may take ten times that.
        plain: NVBench alone on a GPU: one placement of the tensors, no scrubbing, no dithering.
        budget_s: for a race, the seconds that measuring may take; None for a run of so many rounds.
        clocks: the clocks to read beside NVBench, on a GPU, each in a worker of its own.

    Raises:
        UsageError: for a value that cannot be measured with.
    """

    rounds: int = 41
    samples: int = 100
    seed: int = 0
    margin: float = 0.005
    confidence: float = 0.95
    step_limit_s: float = 30.0
    plain: bool = False
    budget_s: float | None = None
    clocks: tuple[Clock, ...] = ()

    def __post_init__(self) -> None:
        if self.rounds < 2:
            raise UsageError(f"--rounds {self.rounds}: an interval needs at least 2 rounds", "the default is 41")
        if self.rounds > MOST_ROUNDS:
            raise UsageError(f"--rounds {self.rounds}: at most {MOST_ROUNDS:,} are kept", "the default is 41")
        if self.samples < 1:
            raise UsageError(f"--samples {self.samples}: a round needs a sample", "the default is 100")
        if not 0 <= self.margin < 1:
            raise UsageError(f"--margin {self.margin}: a margin lies between 0 and 1", "0.005 is half a percent")
        if not 0 < self.step_limit_s < float("inf"):
            raise UsageError(f"--step-limit {self.step_limit_s:g}: a step takes some time", "the default is 30 s")


QUICK = Settings(rounds=7, samples=50)
"""For a first look: seconds instead of minutes, and intervals a few times as wide."""

NVBENCH = "nvbench"


@dataclass(frozen=True)
class Request:
    """What to measure.

    Attributes:
        op: the op.
        variants: what was named on the command line.
        shapes: the workloads.
        settings: how to measure.
        baseline: what to compare with; empty for the op's own, or what stands in for it here.
        label: the user's label for the run.
        swept: for a sweep, the params that the variants try, by kernel.
        command: the command line, for the record.
        suite: the suite that the workloads are of, if they are of one.
    """

    op: Op
    variants: tuple[Variant, ...]
    shapes: tuple[Shape, ...]
    settings: Settings
    baseline: str = ""
    label: str = ""
    swept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    command: str = ""
    suite: Suite | None = None


def choose_settings(
    *,
    quick: bool,
    rounds: int | None,
    samples: int | None,
    seed: int | None,
    margin: float,
    step_limit_s: float,
    plain: bool,
    clocks: tuple[Clock, ...] = (),
) -> Settings:
    """The defaults, or the quick ones, with what the user set; a fresh seed unless one is given.

    Raises:
        UsageError: for a value that cannot be measured with.
    """
    base = QUICK if quick else Settings()
    return Settings(
        rounds=base.rounds if rounds is None else rounds,
        samples=base.samples if samples is None else samples,
        seed=secrets.randbelow(2**31) if seed is None else seed,
        margin=margin,
        step_limit_s=step_limit_s,
        plain=plain,
        clocks=clocks,
    )


def parse_clocks(timers: str) -> tuple[Clock, ...]:
    """The clocks of `--timer nvbench,cupti,graph`; NVBench is read in any case and is none of them.

    Raises:
        UsageError: for a name that is no timer.
    """
    names = {name.strip() for name in timers.split(",")}
    unknown = names - {NVBENCH, *CLOCKS}
    if unknown:
        known = ", ".join((NVBENCH, *CLOCKS))
        raise UsageError(f"--timer {timers}: there is no timer {min(unknown)!r}", f"there are {known}")
    return tuple(clock for clock in CLOCKS if clock in names)


def make_request(
    catalog: Catalog,
    op: str,
    kernels: str,
    *,
    axes: str,
    heads: str,
    settings: Settings,
    baseline: str = "",
    label: str = "",
    suite: str = "",
) -> Request:
    """Looks up what the user named.

    Raises:
        UnknownNameError: for an op, kernel, layout or suite that does not exist.
        UsageError: for shapes or params that make no sense, or shapes beside a suite.
    """
    found = find_op(catalog, op)
    variants = select_variants(catalog, op, kernels)
    if suite and (axes or heads):
        raise UsageError(f"--suite {suite} has its own workloads", "leave --shape and --heads out, or --suite")
    chosen = found.suite(suite) if suite else None
    shapes = chosen.shapes if chosen else parse_shapes(found, axes, heads)
    command = shlex.join(["gdnbench", *sys.argv[1:]])
    return Request(found, variants, shapes, settings, baseline, label, command=command, suite=chosen)


def find_op(catalog: Catalog, name: str) -> Op:
    """The op of a name.

    Raises:
        UnknownNameError: if there is none.
    """
    if name not in catalog.ops:
        raise UnknownNameError(f"there is no op {name}", f"there are {', '.join(catalog.ops) or 'none'}")
    return catalog.ops[name]


def parse_shapes(op: Op, axes: str, heads: str) -> tuple[Shape, ...]:
    """Shapes from `--shape` and `--heads`: every batch size at every head layout.

    Args:
        op: the op, which knows the layouts.
        axes: `B=1,8,64`.
        heads: `qk4_v8,qk16_v32`; any other `qkN_vM` is taken by its numbers.

    Raises:
        UsageError: for an axis that is no axis or a size that is no number.
        ShapeError: for a shape that the op does not define.
    """
    sizes = _parse_axes(axes)
    layouts = [_parse_heads(op, name.strip()) for name in heads.split(",")] if heads else [op.default_shape.heads_pair]
    batches = sizes.get("B", [op.default_shape.B])
    shapes = [Shape(B=batch, HQ=hq, HV=hv) for hq, hv in layouts for batch in batches]
    return tuple(dict.fromkeys(shapes))


def _parse_axes(text: str) -> dict[str, list[int]]:
    name, equals, sizes = text.partition("=")
    if not text:
        return {}
    if not equals or name.strip() != "B":
        raise UsageError(f"--shape {text}: give batch sizes as B=1,8,64", "head layouts go into --heads qk4_v8")
    try:
        return {"B": [int(size) for size in sizes.split(",")]}
    except ValueError as error:
        raise UsageError(f"--shape {text}: a size is a whole number", "as in --shape B=1,8,64") from error


def _parse_heads(op: Op, name: str) -> tuple[int, int]:
    if name in op.head_layouts:
        return op.head_layouts[name]
    query, _, value = name.removeprefix("qk").partition("_v")
    if not (name.startswith("qk") and query.isdecimal() and value.isdecimal()):
        known = ", ".join(op.head_layouts)
        raise UnknownNameError(f"there is no head layout {name}", f"known: {known}; any qkN_vM is understood")
    return int(query), int(value)
