"""Errors against the length of sequences: the request, and what the errors at its marks say about a kernel.

The delta rule erases along each key that it writes, so that an error in the state fades within some hundred tokens even
where no head forgets: the errors of an honest kernel stop growing, and are those of its roundings.
"""

from __future__ import annotations

import re
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd, isfinite
from pathlib import Path

from gdnbench.catalog.catalog import Catalog, find_op
from gdnbench.catalog.request import device_of, parse_profiles, slug_of
from gdnbench.catalog.select import select_variants
from gdnbench.errors import UsageError
from gdnbench.model.case import Case
from gdnbench.model.declaration import FACTS, Dtype, DtypeOf
from gdnbench.model.gpu import Gpu
from gdnbench.model.op import Op
from gdnbench.model.sequences import SequenceLayout
from gdnbench.model.status import LengthMark
from gdnbench.model.workload import Workload
from gdnbench.process.events import NoteMade, Observer
from gdnbench.store.settings import Settings
from gdnbench.verify.preflight import INTERPRETERS, Verification, judge_cases
from gdnbench.workers.task import Phase, Task

WINDOW = 64
"""Tokens before a mark whose errors count; marks are multiples of it."""
KEYS = ("isotropic", "alike")
USUAL = "usual"
_ON_GPU, _ON_CPU, _INTERPRETED = (1024, 4096, 16384, 65536), (1024, 4096), (64, 128)  # the usual marks
_USUAL_PROFILES = ("forgetful", "mixed-heads", "never", "spread")
_INTERPRETED_PROFILES = ("never",)
_MINUTES = 8192, 128  # most tokens that take no minutes without a GPU, and of those in an interpreter
_MOST_MARKS, _LONGEST = 16, 1 << 24
_MOST_TOKENS = 4096  # of a call: what the reference holds of them in float64 stays below a gigabyte
_HEADS = 2  # times those that programs are run at: of four value heads, one never forgets in `mixed-heads`
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20}

GROWTH = 1.5  # of an error from the first mark at or behind `SETTLED` to the last
SETTLED = 4096  # tokens
OVER = 1.5  # times the emulation's error, for the same roundings in another order
ROUNDOFFS = 512
"""Unit roundoffs of its arithmetic that an honest kernel may be off besides that.

Where softplus is log(1 + exp(x)), as in most libraries, and A is near 16, they were up to 200 for heads that forget
within thousands of tokens, and three times as many at one mark as at another.
"""


def parse_marks(text: str) -> tuple[int, ...]:
    """Parses `1k,16k,1M`: k is 1,024 and M 1,048,576 tokens. UsageError for anything but a rising list."""
    found = [re.fullmatch(r"(\d{1,8})([km]?)", each.strip().lower()) for each in text.split(",")]
    marks = tuple(int(each[1]) * _UNITS[each[2]] for each in found if each)
    hint = "as in --length 1k,4k,16k"
    if len(marks) < len(found) or list(marks) != sorted({*marks}) or not 0 < len(marks) <= _MOST_MARKS:
        raise UsageError(f"--length {text}: at most {_MOST_MARKS} rising numbers of tokens", hint)
    wrong = next((mark for mark in marks if not 0 < mark <= _LONGEST or mark % WINDOW), None)
    if wrong is not None:
        raise UsageError(f"--length {wrong}: a multiple of {WINDOW} tokens, at most {_LONGEST:,}", hint)
    return marks


def follow_variants(
    catalog: Catalog,
    op: str,
    kernels: str,
    *,
    length: str,
    axes: str,
    profiles: str,
    seed: int | None,
    step_limit_s: float,
    gpu: Gpu | None,
    observer: Observer,
    warm: bool = False,
) -> Verification:
    """Follows variants along sequences, each in every element type of its state, in worker processes.

    Sequences are of each of `profiles`, by default the usual ones that the op has, and of each of `KEYS`, side by side
    in one batch. `length` is as `parse_marks` takes it, or `usual`: as many tokens as suit the device, few in an
    interpreter. Raises UsageError for an op that does not say what a call takes, and as `verify_variants`.
    """
    of_op = find_op(catalog, op)
    variants = [
        variant
        for variant in select_variants(catalog, op, kernels)
        if not (kernel := catalog.entries[variant.kernel].kernel).is_unchecked and not kernel.floor
    ]
    if not variants:
        raise UsageError(f"{kernels}: floors and ablations compute no state", "name a kernel")
    interprets = gpu is None and any(type(catalog.entries[each.kernel].kernel) in INTERPRETERS for each in variants)
    usual = _ON_GPU if gpu else _INTERPRETED if interprets else _ON_CPU
    marks = usual if length == USUAL else parse_marks(length)
    if gpu is None and marks[-1] > _MINUTES[interprets]:
        where = "in an interpreter" if interprets else "without a GPU"
        observer(NoteMade(f"{marks[-1]:,} tokens take minutes {where}; fewer sequences take less: --profile never"))
    chosen = parse_profiles(of_op, profiles) if profiles else _usual_profiles(of_op, interprets=interprets)
    workloads = _workloads(of_op, axes, len(KEYS) * len(chosen), marks, interprets=interprets)
    settings = Settings(seed=secrets.randbelow(2**31) if seed is None else seed, step_limit_s=step_limit_s)
    cases = tuple(
        Case(catalog.at(variant, workload, slug_of(gpu))[1], workload) for workload in workloads for variant in variants
    )
    task = Task(
        phase=Phase.EXAMINE,
        device=device_of(gpu),
        roots=tuple(str(root) for root in catalog.roots),
        op=op,
        cases=cases,
        seed=settings.seed,
        step_limit_s=settings.step_limit_s,
        marks=marks,
        profiles=chosen,
    )
    with tempfile.TemporaryDirectory(prefix="gdnbench-length-") as folder:
        return judge_cases(catalog, task, gpu, Path(folder), observer, warm=warm)


def _usual_profiles(op: Op, *, interprets: bool) -> tuple[str, ...]:
    usual = _INTERPRETED_PROFILES if interprets else _USUAL_PROFILES
    return tuple(each.name for each in op.profiles if each.name in usual) or parse_profiles(op, "")


def _workloads(op: Op, axes: str, sequences: int, marks: Sequence[int], *, interprets: bool) -> tuple[Workload, ...]:
    """The calls that take all sequences: one for each element type of the state, unless `axes` says which.

    In an interpreter there is one of each of what an op has alike, one head.
    """
    if not (op.sequences and op.sequences.state and op.sequences.call in {"prefill", "decode", "verify"}):
        raise UsageError(
            f"{op.name} does not say how its calls follow a sequence",
            "give its `sequences` a `call` and `state`, its numerics three functions: docs/verifying.md",
        )
    layout = SequenceLayout(op, op.sequences)
    if layout.has_several_slots:
        raise UsageError(f"sequences of {op.name} have several slots each", "name a kernel of an op with one for each")
    most = max(each for each in range(WINDOW, _MOST_TOKENS + 1, WINDOW) if gcd(*marks) % each == 0)
    settings = op.workloads.parse(axes)
    if any(len(sizes) > 1 for sizes in settings):
        raise UsageError(f"--shape {axes}: sequences are followed in one workload", "give one size of each axis")
    typed = {name: size for sizes in settings for name, size in sizes[0].items()}
    if fixed := {layout.lengths or layout.declared.axis}.intersection(typed):
        raise UsageError(f"--shape {fixed.pop()}: profiles and keys decide the batch", "choose with --profile")
    tokens = min(most, op.workloads.default.axes[layout.drafts]) if layout.drafts else most
    shape = {name: size * (_HEADS if name in op.alike else 1) for name, size in op.sequences.shape.items()}
    own = {**shape, **layout.sizes([tokens] * sequences)}
    few = dict.fromkeys(op.alike, 1) if interprets else {}
    kinds = {each.dtype.axis: each.dtype for each in op.outputs if isinstance(each.dtype, DtypeOf)}
    chosen: list[Mapping[str, int]] = [{}]
    for axis, kind in kinds.items():
        if axis not in typed:
            chosen = [{**each, axis: size} for each in chosen for size in kind.dtypes]
    return tuple(op.workload({**own, **few, **each, **typed}) for each in chosen)


def fault_of(marks: Iterable[LengthMark], arithmetic: Dtype) -> str:
    """What the errors of a kernel at its marks say is wrong, empty if nothing.

    Wrong is: a call that its op's gates refuse; an error above `OVER` times the emulation's and `ROUNDOFFS` unit
    roundoffs of the gates' arithmetic; and one that grows by more than `GROWTH` from the first mark at or behind
    `SETTLED` to the last, where the emulation's does not, and to more than `ROUNDOFFS` of fp32.
    """
    kinds: dict[tuple[str, str], list[LengthMark]] = {}
    for mark in marks:
        kinds.setdefault((mark.profile, mark.keys), []).append(mark)
    return next((fault for each in kinds.values() if (fault := next(_faults(each, arithmetic), ""))), "")


def _faults(marks: Sequence[LengthMark], arithmetic: Dtype) -> Iterator[str]:
    allowance = _roundoffs(arithmetic)
    settled = [mark for mark in marks if mark.tokens >= SETTLED]
    for what, own, emulated in (
        ("state", "state_error", "emulated_state_error"),
        ("output", "output_error", "emulated_output_error"),
    ):
        for mark in marks:
            error, usual = getattr(mark, own), getattr(mark, emulated)
            if not (isfinite(error) and error <= OVER * usual + allowance):
                allowed = f"its roundings alone give {usual:.2g}"
                yield f"{_place(mark)}: error of the {what} {error:.2g}, and {allowed}"
        if len(settled) > 1:
            first, last = settled[0], settled[-1]
            grown = getattr(last, own) / max(getattr(first, own), 1e-300)
            usual = getattr(last, emulated) / max(getattr(first, emulated), 1e-300)
            if grown > GROWTH * max(1.0, usual) and getattr(last, own) > _roundoffs("fp32"):
                numbers = f"{getattr(first, own):.2g} at {first.tokens:,} tokens, {getattr(last, own):.2g}"
                yield f"{_place(last)}: the error of the {what} grows: {numbers}; by its roundings alone {usual:.2f}x"
    for mark in marks:
        if not mark.gate_share <= 1.0:
            yield f"{_place(mark)}: the next call is {mark.gate_share:.3g} times as far off as its gate allows"


def _roundoffs(arithmetic: Dtype) -> float:
    return float(ROUNDOFFS * 2.0 ** -FACTS[arithmetic].significand_bits)


def _place(mark: LengthMark) -> str:
    profile = f"{mark.profile}, " if mark.profile else ""
    return f"{profile}{mark.keys} keys, at {mark.tokens:,} tokens"
