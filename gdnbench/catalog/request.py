"""A request: what was typed becomes kernels, workloads and settings; and the command that repeats a case."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from gdnbench.catalog.catalog import Catalog, find_op
from gdnbench.catalog.select import select_variants
from gdnbench.errors import UsageError
from gdnbench.model.case import Case, Variant, has_short_lists, write_in_full
from gdnbench.model.declaration import is_captured
from gdnbench.model.gpu import CPU, Gpu
from gdnbench.model.kernel import Device
from gdnbench.model.op import DEFAULT_SUITE, Op, Suite
from gdnbench.model.workload import Workload
from gdnbench.origin import command_origin
from gdnbench.store.settings import Settings

if TYPE_CHECKING:
    from gdnbench.catalog.captured import CapturedFile


@dataclass(frozen=True)
class Request:
    """What to measure.

    `baseline` is empty for the op's first that can run here. `swept` has the params that the variants of a sweep try,
    by kernel; `command` is the command line, for the record, and `captured` the files that workloads belong to.
    """

    op: Op
    variants: tuple[Variant, ...]
    workloads: tuple[Workload, ...]
    settings: Settings
    baseline: str = ""
    label: str = ""
    swept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    command: str = ""
    suite: Suite | None = None
    captured: tuple[CapturedFile, ...] = ()


def make_request(
    catalog: Catalog,
    op: str,
    kernels: str,
    *,
    axes: str,
    settings: Settings,
    baseline: str = "",
    label: str = "",
    suite: str = "",
    profiles: str = "",
    inputs: Path | None = None,
) -> Request:
    """Looks up the names on the command line.

    Raises UnknownNameError for an unknown op, kernel, alias, suite or profile, and UsageError for invalid workloads or
    params, workloads beside a suite, or captured inputs that are not the op's.
    """
    declared = find_op(catalog, op)
    variants = select_variants(catalog, op, kernels)
    captured = requested_captures(declared, inputs, axes, suite)
    own = sizes_of(captured) or requested_workloads(declared, axes, suite)
    workloads = timed_at(declared, own, captured, profiles)
    chosen = declared.suite(suite).at(parse_profiles(declared, profiles)) if suite else None
    command = shlex.join(["gdnbench", *sys.argv[1:]])
    return Request(
        declared, variants, workloads, settings, baseline, label, command=command, suite=chosen, captured=captured
    )


def requested_captures(op: Op, inputs: Path | None, axes: str, suite: str = "") -> tuple[CapturedFile, ...]:
    """The files of `--inputs`, or none; `axes` are those that no tensor shows. UsageError as `read_captured`."""
    if inputs is None:
        return ()
    if suite:
        raise UsageError(f"--inputs has its own workloads, and so has --suite {suite}", "leave one of them out")
    settings = op.workloads.parse(axes)
    if any(len(sizes) > 1 for sizes in settings):
        raise UsageError(f"--shape {axes}: captured inputs are of one workload a file", "leave --shape out")
    hidden = dict(chain.from_iterable(sizes[0].items() for sizes in settings))

    from gdnbench.catalog.captured import read_captured  # numpy comes with it

    return read_captured(op, inputs, hidden)


def sizes_of(captured: Iterable[CapturedFile]) -> tuple[Workload, ...]:
    """The workloads of captured inputs in the op's first profile, each once."""
    return tuple(dict.fromkeys(each.workload.at("") for each in captured))


def timed_at(
    op: Op, sizes: Iterable[Workload], captured: Sequence[CapturedFile], profiles: str
) -> tuple[Workload, ...]:
    """The workloads: first captured inputs of a size, then named profiles; UnknownNameError for others."""
    if not captured:
        return in_profiles(sizes, parse_profiles(op, profiles))
    named = parse_profiles(op, profiles) if profiles.strip() else ()
    return tuple(
        workload
        for size in sizes
        for workload in (
            *(each.workload for each in captured if each.workload.at("") == size.at("")),
            *in_profiles([size], named),
        )
    )


def parse_profiles(op: Op, names: str, *, stored: bool = False) -> tuple[str, ...]:
    """Parses `--profile mixed-heads,never`: the op's default if empty, all profiles for `all`.

    Profiles of captured inputs are accepted only if `stored` times are requested, else UsageError is raised. Raises
    UnknownNameError for a profile that the op does not have.
    """
    if names.strip() == "all" and op.profiles:
        return tuple(each.name for each in op.profiles)
    requested = [name.strip() for name in names.split(",") if name.strip()]
    if not stored and (captured := next(filter(is_captured, requested), None)):
        raise UsageError(f"--profile {captured} is of captured inputs", "name their file: --inputs FILE.safetensors")
    named = [name if is_captured(name) else op.profile_named(name) for name in requested]
    return tuple(dict.fromkeys(named)) or (op.profile,)


def in_profiles(workloads: Iterable[Workload], profiles: Sequence[str]) -> tuple[Workload, ...]:
    """Each workload with inputs of each of these profiles."""
    return tuple(workload.at(profile) for workload in workloads for profile in profiles)


def requested_workloads(op: Op, axes: str, suite: str, usual: str = DEFAULT_SUITE) -> tuple[Workload, ...]:
    """The workloads of `--suite` or `--shape`, else of the suite `usual`; UsageError for both options."""
    if suite and axes:
        raise UsageError(f"--suite {suite} has its own workloads", "leave --shape out, or --suite")
    return op.suite(suite).workloads if suite else parse_workloads(op, axes, usual)


def parse_workloads(op: Op, axes: str, suite: str = DEFAULT_SUITE) -> tuple[Workload, ...]:
    """Parses `--shape` (`B=1,8,64 heads=qk4_v8`) into every combination of its sizes; empty is the suite as it is.

    If it sets the x axis of charts, as `B=8` does, other sizes are the op's defaults; if it sets others alone, as
    `heads=qk2_v4` does, they replace the suite's own. A list may be given as labels shorten it,
    `lengths=15n-4124-0c1f2e3d`, if a suite of the op has it. Raises UsageError for an unknown axis or an invalid size,
    UnknownNameError for a name that is not in an alias, and ShapeError for a workload that the op does not define.
    """
    return _changed(op, axes, op.suite(suite).workloads)


def parse_near_default(op: Op, axes: str) -> tuple[Workload, ...]:
    """Parses `--shape` as `parse_workloads`, but from the op's default workload, for verbs that measure no times."""
    return _changed(op, axes, (op.default,))


def parse_workload(op: Op, axes: str, purpose: str) -> Workload:
    """Parses `--shape` into one workload, by default the op's; UsageError, giving `purpose`, for several."""
    workloads = parse_near_default(op, axes)
    if len(workloads) > 1:
        raise UsageError(
            f"{len(workloads)} workloads are given, and {purpose}", f"as in {' '.join(op.default.options)}"
        )
    return workloads[0]


def _changed(op: Op, axes: str, own: tuple[Workload, ...]) -> tuple[Workload, ...]:
    if has_short_lists(axes):
        axes = write_in_full(axes, op.suite_workloads)
    settings = op.workloads.parse(axes)
    if not settings:
        return own
    is_x_set = any(op.workloads.x in sizes[0] for sizes in settings)
    bases = (op.workloads.default,) if is_x_set else own
    changes = [dict(chain.from_iterable(each.items() for each in combination)) for combination in product(*settings)]
    return tuple(dict.fromkeys(op.workload({**each.sizes, **change}) for change in changes for each in bases))


def device_of(gpu: Gpu | None) -> Device:
    """The device of torch: `cuda` if there is a GPU, else `cpu`."""
    return "cuda" if gpu else "cpu"


def slug_of(gpu: Gpu | None) -> str:
    """The device's name in run ids, results and dispatchers' tables: `h200`, or `cpu`."""
    return gpu.slug if gpu else CPU


_NONE: Mapping[str, str] = MappingProxyType({})


def repeat_words(case: Case, seed: int, captured: Mapping[str, str] = _NONE) -> list[str]:
    """The command that verifies a case on the same inputs: `gdnbench verify decode-x --shape B=3 --seed 7`."""
    return ["gdnbench", "verify", case.label, *inputs_words(case.workload, captured), "--seed", str(seed)]


def rerun_words(case: Case, gpu: str, captured: Mapping[str, str] = _NONE) -> list[str]:
    """The command that measures a case again: `gdnbench run --kernel decode-x --shape B=3 --gpu h200`."""
    return ["gdnbench", "run", "--kernel", case.label, *inputs_words(case.workload, captured), "--gpu", gpu]


def inputs_words(workload: Workload, captured: Mapping[str, str]) -> list[str]:
    """Options for a workload and its inputs: `--shape B=3 --profile never`, or the captured file of the profile."""
    spec = workload.spec
    if path := captured.get(workload.profile):
        lists = {each.name for each in spec.lists}  # the file has them in full
        pairs = zip(workload.options[::2], workload.options[1::2], strict=True)
        shown = [word for pair in pairs if pair[1].partition("=")[0] not in lists for word in pair]
        origin = command_origin()
        return ["--inputs", (origin.inputs if origin else "") or path, *shown]
    usual = workload.inputs == (spec.profile or next(iter(spec.profiles), ""))
    return [*workload.options, *([] if usual else ["--profile", workload.inputs])]
