"""Verifies a family of kernels by a program of events over a pool, in a worker, which shrinks one that fails."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gdnbench.analyse.exit_code import exit_code_of_statuses
from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.request import device_of, slug_of
from gdnbench.errors import ExitCode, MachineError, UsageError
from gdnbench.model.gpu import CPU, Gpu
from gdnbench.model.status import Status
from gdnbench.process.events import Observer, PhaseBegun, StepChanged, UnitDone
from gdnbench.process.warm import WarmParent
from gdnbench.store.journal import Event, Replayed, StepBegun
from gdnbench.store.settings import Settings
from gdnbench.verify.family import extent_of, find_family, pool_slots, profile_of, typed_slots
from gdnbench.verify.preflight import INTERPRETERS, WORKER
from gdnbench.verify.programs import EventProgram, draw_program, place_in
from gdnbench.workers.supervision import supervise, worker_environment
from gdnbench.workers.task import Phase, Task

USUAL = "usual"
# Events, sequences of a batch, and tokens of a prefill: interpreters take a second for what a GPU does in 10 us.
_ON_GPU, _ON_CPU, _INTERPRETED = (500, 8, 130), (100, 8, 130), (12, 3, 5)


@dataclass(frozen=True)
class SequencesVerdict:
    """What a program of events found."""

    kernels: tuple[str, ...]  # labels of the family's kernels
    shape: str  # their sizes, as they were typed
    profile: str  # of the tokens' gates, if it was typed, else empty
    seed: int  # of the pool, the tokens, the weights, and of a program that is drawn
    device: str
    interpreted: bool
    events: int  # how many the program has that was given or drawn
    replayed: Replayed  # the outcome, with the program, shrunk if it failed

    @property
    def exit_code(self) -> ExitCode:
        """3 for wrong numbers, 5 if a kernel cannot run here, as of a verification."""
        return exit_code_of_statuses([self.replayed.status], [self.replayed.status])


def verify_sequences(
    catalog: Catalog,
    labels: Sequence[str],
    *,
    shape: str,
    sequences: str,
    profile: str,
    seed: int | None,
    step_limit_s: float,
    gpu: Gpu | None,
    observer: Observer,
    warm: bool = False,
) -> SequencesVerdict:
    """Runs a program on the kernels, and shrinks one that fails.

    `sequences` is the program, or how many events the seed draws: a number, or `usual`. Raises UsageError for a wrong
    program, number, profile or shape, and as `find_family`.
    """
    family = find_family(catalog, labels, shape)
    settings = Settings(seed=secrets.randbelow(2**31) if seed is None else seed, step_limit_s=step_limit_s)
    slots = typed_slots(shape) or pool_slots(family)
    entries = [catalog.at(member.variant, member.smallest, slug_of(gpu))[0] for member in family.values()]
    interpreted = gpu is None and any(type(entry.kernel) in INTERPRETERS for entry in entries)
    events, batch, tokens = _INTERPRETED if interpreted else _ON_GPU if gpu else _ON_CPU
    is_drawn = sequences == USUAL or sequences.isdecimal()
    events = events if sequences == USUAL else int(sequences) if is_drawn else 0
    extent = extent_of(family, slots, events=events, batch=batch, tokens=tokens)
    run = draw_program(settings.seed, list(family), extent) if is_drawn else EventProgram.parse(sequences, extent)
    if not run.events:
        raise UsageError("--sequences has no events", f"as in --sequences {USUAL}")
    of_tokens = profile_of(family, profile)
    verdict = SequencesVerdict(
        tuple(member.variant.label for member in family.values()), shape, of_tokens, settings.seed,
        gpu.name if gpu else CPU, interpreted, len(run.events), Replayed(str(run), Status.OK),
    )  # fmt: skip
    for entry, member in zip(entries, family.values(), strict=True):
        may_interpret = gpu is None and type(entry.kernel) in INTERPRETERS and not entry.missing()
        reason = entry.kernel.unsupported_reason(member.smallest)
        unfit = (Status.UNSUPPORTED, reason) if reason else None
        if unfit := unfit or (None if may_interpret else entry.unavailable(device_of(gpu))):
            status, why = unfit
            return replace(verdict, replayed=Replayed(str(run), status, f"{member.variant.label}: {why}"))
    task = Task(
        phase=Phase.REPLAY,
        device=device_of(gpu),
        roots=tuple(str(root) for root in catalog.roots),
        op="",
        cases=(),
        seed=settings.seed,
        step_limit_s=settings.step_limit_s,
        family=verdict.kernels,
        shape=shape,
        program=str(run),
        slots=slots,
        profiles=(of_tokens,) if of_tokens else (),
    )
    environment = worker_environment(gpu, interpret=interpreted)
    observer(PhaseBegun("check", 1))
    replayed = _replay(task, environment, observer, WarmParent(environment) if warm else None)
    observer(UnitDone())
    return replace(verdict, replayed=replayed)


def _replay(task: Task, environment: Mapping[str, str], observer: Observer, warm: WarmParent | None) -> Replayed:
    """Runs the worker; where it dies or hangs, the program up to the event that it was on has failed."""
    found: list[Replayed] = []

    def take(event: Event) -> None:
        match event:
            case StepBegun(step=step):
                observer(StepChanged(step))
            case Replayed():
                found.append(event)

    with tempfile.TemporaryDirectory(prefix="gdnbench-sequences-") as folder:
        outcome = supervise(WORKER, task, Path(folder), "replay", environment, take, warm=warm)
    if outcome.loss:
        events = outcome.case.split()[: place_in(outcome.step) + 1]
        return Replayed(" ".join(events), outcome.loss.status, outcome.loss.reason)
    if not found:
        raise MachineError("a worker ended without a verdict", "see `gdnbench doctor`")
    return found[0]
