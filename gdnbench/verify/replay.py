"""Runs programs of events on an engine, and holds it after each against what sequences must have by then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from gdnbench.catalog.catalog import Catalog, load_catalog
from gdnbench.errors import BuildError, GdnbenchError, tell_raised
from gdnbench.launch.numerics import Numerics, load_numerics
from gdnbench.launch.workspace import is_poison, padding_of
from gdnbench.model.sequences import Call
from gdnbench.model.status import GateResult, Status
from gdnbench.store.journal import BUILD_STEPS, EventChannel, Replayed, StepBegun
from gdnbench.verify.engine import BatchRow, Engine, checkpoints_of, outputs_of, written_slot
from gdnbench.verify.expected import CarriedState, ExpectedRow, FloatReplay, ReplayedValues, TokenBank
from gdnbench.verify.family import Family, Member, extent_of, find_family, slots_each
from gdnbench.verify.gates import differs, roundoff_gate
from gdnbench.verify.programs import EventProgram, EventRow, PoolEvent, shrink, step_of
from gdnbench.workers.device import CpuDevice, CudaDevice, WorkerDevice, is_alive
from gdnbench.workers.task import Task

OTHERS, COPIES, LAUNCHES = "other slots unchanged", "copies exact", "inputs and memory"
CONTINUED = "copies go on exactly"
_MOST_NAMED = 3
SHRINK_S = 60.0  # after which a program that fails is printed as it is by then


@dataclass
class _Sequence:
    """A sequence of a program, as it has to be."""

    slots: tuple[int, ...]  # one, or one for each draft
    begun: int  # which of all sequences it is, or is a copy of; this and `position` tell its next token
    carried: CarriedState  # its state, and what rounding errors may have made of it
    at: int = 0  # which of the slots has its state
    position: int = 0  # how many tokens it has kept
    filled: int = 0  # how many of these stand in its rings
    is_poisoned: bool = False  # its state is NaN, and its outputs are not checked
    history: int = 0  # a hash of the launches that it has been in; a copy begins with that of its source

    @property
    def slot(self) -> int:
        """The slot that has its state."""
        return self.slots[self.at]


@dataclass(frozen=True)
class FailedEvent:
    """The first event of a program that fails, by its place from 0."""

    place: int
    status: Status
    reason: str


class _FailedError(Exception):
    """The status of an event and why it fails, `args`."""


class Replay:
    """Runs programs on the kernels of a family; each begins with the same pool, and its tokens follow from `seed`.

    Tokens are of the ops' first scenario, or of a `profile`. `on_event` is called before each event.
    """

    def __init__(
        self,
        catalog: Catalog,
        family: Family,
        *,
        seed: int,
        slots: int,
        device: str,
        profile: str = "",
        on_event: Callable[[int, PoolEvent], None] = lambda _place, _event: None,
    ) -> None:
        self._catalog, self._family, self._seed = catalog, family, seed
        self._width = slots_each(family)
        if device == "cpu":
            torch.set_num_threads(1)  # operations are small: threads would wait for each other where cores are shared
        self._device: WorkerDevice = CudaDevice() if device == "cuda" else CpuDevice()
        numerics: dict[Call, Numerics] = {
            call: load_numerics(member.layout.op, catalog.op_folders[member.layout.op.name])
            for call, member in family.items()
        }
        self._bank = TokenBank(family, numerics, seed, device, profile)
        self._engine = Engine(catalog, family, self._bank.scalars, slots, device)
        random = torch.Generator(device).manual_seed(seed)
        self._first = [each.normal_(generator=random).clone() for each in self._engine.held]
        self._float = FloatReplay(numerics, self._bank, self._engine.pool, self._engine.rings, self._width)
        self._on_event = on_event
        self.program = EventProgram(())
        self._begin()

    def _begin(self) -> None:
        self._engine.begin()
        for each, first in zip(self._engine.held, self._first, strict=True):
            each.copy_(first)
        self._sequences: dict[int, _Sequence] = {}
        self._begun = self._restored = 0
        self._by_history: dict[tuple[int, int], tuple[int, tuple[torch.Tensor, ...]]] = {}
        self._float.begin(self._seed)
        self.worst: dict[str, GateResult] = {}

    def run(self, program: EventProgram) -> FailedEvent | None:
        """Runs a program; returns its first event that fails, or None. `worst` then has the worst of each gate."""
        self._begin()
        self.program = program
        for place, event in enumerate(program.events):
            self._on_event(place, event)
            try:
                self._apply(event)
            except _FailedError as error:
                return FailedEvent(place, *error.args)
            except BuildError as error:
                return FailedEvent(place, Status.BUILD_FAILED, error.message)
            except GdnbenchError:
                raise
            except Exception as error:
                folders = [self._catalog.entries[each.variant.kernel].folder for each in self._family.values()]
                status = Status.FAILED if is_alive(self._device) else Status.CRASHED
                return FailedEvent(place, status, tell_raised(error, *folders))
        return None

    def _apply(self, event: PoolEvent) -> None:
        live = [self._sequences[row.slot] for row in event.rows if row.slot in self._sequences]
        match event.kind:
            case "free":
                for row in event.rows:
                    self._fill(self._sequences.pop(row.slot, None))
            case "poison":
                for sequence in live:
                    self._fill(sequence)
                    sequence.is_poisoned = True
            case "copy":
                self._copy([row for row in event.rows if row.slot in self._sequences], event)
            case call:
                self._launch(call, event)

    def _fill(self, sequence: _Sequence | None) -> None:
        """Fills a sequence's slots with NaN: nothing may read them once they are free."""
        slots = list(sequence.slots) if sequence else []
        for each in self._engine.held:
            each[slots] = torch.nan

    def _slots_of(self, number: int) -> tuple[int, ...]:
        apart = (len(self._engine.pool) - 1) // self._width
        return tuple(number + place * apart for place in range(self._width))

    def _copy(self, rows: Sequence[EventRow], event: PoolEvent) -> None:
        """By the family's kernel, or as an engine copies by itself."""
        pool, before = self._engine.pool, [each.clone() for each in self._engine.held]
        taken = [BatchRow({}, (self._sequences[row.slot].slot,), to=row.to) for row in rows]
        if taken and "copy" in self._family:
            _, faults = self._engine.launch("copy", taken, self._bank.weights["copy"])
            self._count(f"{self._family['copy'].variant.label} {LAUNCHES}", event, faults, Status.UNSAFE)
        for row, copied in zip(rows, taken, strict=True):
            if "copy" not in self._family:
                pool[row.to] = pool[copied.slots[0]]
            for ring in self._engine.rings.values():
                ring[row.to] = ring[copied.slots[0]]
            source = self._sequences[row.slot]
            self._sequences[row.to] = replace(source, slots=self._slots_of(row.to), at=0)
        pairs = [(row, before[0][copied.slots[0]]) for row, copied in zip(rows, taken, strict=True)]
        differing = [row for row, bits in pairs if differs(pool[row.to], bits).any()]
        wrong = [f"slot {row.to} has other bits than slot {row.slot}" for row in differing]
        self._count(COPIES, event, wrong, Status.WRONG_NUMBERS)
        self._check_others(before, [row.to for row in rows], event)

    def _launch(self, call: Call, event: PoolEvent) -> None:
        member = self._family.get(call)
        # Without rings a kernel can take sequences whose states are all in the pool.
        full = {slot for slot, each in self._sequences.items() if member and each.filled and not member.flush}
        event = replace(event, rows=tuple(row for row in event.rows if row.slot not in full))
        if member is None or not member.defines(event.rows):
            return
        sequences = [self._named(row.slot) for row in event.rows]
        rows = [self._row(member, row, sequence) for row, sequence in zip(event.rows, sequences, strict=True)]
        before = [each.clone() for each in self._engine.held]
        outputs, faults = self._engine.launch(call, rows, self._bank.weights[call])
        self._count(f"{member.variant.label} {LAUNCHES}", event, faults, Status.UNSAFE)
        held = [sequence.carried if sequence else None for sequence in sequences]
        expected = self._float.expect(member, rows, held)
        self._gate(member, event, rows, outputs, expected)
        written: list[int] = []
        for row, sequence, right in zip(rows, sequences, expected, strict=True):
            if sequence:
                written += row.slots if member.layout.has_slot_each else [written_slot(member, row)]
                sequence.at = sequence.slots.index(written_slot(member, row))
                sequence.position += row.kept
                sequence.filled = 0 if sequence.filled >= member.flush else sequence.filled + 1
                sequence.carried = right.carried
        self._compare_copies(member, event, rows, outputs)
        written += self._restore(member, event, rows, outputs, expected)
        self._check_others(before, written, event)

    def _compare_copies(
        self, member: Member, event: PoolEvent, rows: Sequence[BatchRow], outputs: Mapping[str, torch.Tensor]
    ) -> None:
        """Compares a copy's bits with its source's after the same launches, in any slot and batch if so claimed."""
        begun = [sequence.begun for sequence in self._sequences.values()]
        claimed = {"batch", "order"} <= {*self._catalog.entries[member.variant.kernel].kernel.invariant}
        compared, wrong = 0, []
        for row, given, output in zip(event.rows, rows, outputs_of(member, rows, outputs), strict=True):
            sequence = self._sequences.get(row.slot)
            if sequence:
                step = member.variant.label, given.kept, given.parents, 0 if claimed else row.slot
                sequence.history = hash((sequence.history, *step))
            if sequence and not sequence.is_poisoned and begun.count(sequence.begun) > 1:
                bits = output.clone(), self._engine.pool[sequence.slot].clone()
                slot, first = self._by_history.setdefault((sequence.begun, sequence.history), (row.slot, bits))
                compared += first is not bits
                if any(differs(one, other).any() for one, other in zip(first, bits, strict=True)):
                    wrong.append(f"slot {row.slot} has other bits than slot {slot} had after the same launches")
        if compared:
            self._count(f"{member.variant.label} {CONTINUED}", event, wrong, Status.WRONG_NUMBERS)

    def _restore(
        self,
        member: Member,
        event: PoolEvent,
        rows: Sequence[BatchRow],
        outputs: Mapping[str, torch.Tensor],
        expected: Sequence[ExpectedRow],
    ) -> Iterator[int]:
        """Begins sequences with checkpoints, the last ones of others, as the launch left them; yields their slots."""
        kept = checkpoints_of(member, rows, outputs)
        for place, (row, right) in enumerate(zip(event.rows, expected, strict=True)):
            source = self._sequences.get(row.slot)
            if source and row.to and right.restored and not source.is_poisoned:
                self._engine.pool[row.to] = kept[place][-1].to(self._engine.pool.dtype)
                self._restored += 1
                self._sequences[row.to] = _Sequence(
                    self._slots_of(row.to),
                    source.begun,
                    right.restored,
                    position=source.position - row.count % member.every,
                    history=-self._restored,
                )
                yield row.to

    def _named(self, number: int) -> _Sequence | None:
        """The sequence of a number, begun from zeros if there is none; None for padding."""
        if number > 0 and number not in self._sequences:
            slots = self._slots_of(number)
            self._engine.pool[slots[0]] = 0.0
            self._sequences[number] = _Sequence(slots, self._begun, self._float.first)
            self._begun += 1
        return self._sequences.get(number)

    def _row(self, member: Member, row: EventRow, sequence: _Sequence | None) -> BatchRow:
        count = member.tokens(row)
        parents = tuple(number - 1 for number in row.tree or range(count))
        if sequence is None:
            each = member.drafts if member.layout.has_slot_each else 1
            tokens = self._bank.tokens(member, 0, 0, count)
            return BatchRow(tokens, (row.slot,) * each, to=row.slot, parents=parents)
        tokens = self._bank.tokens(member, sequence.begun, sequence.position, count)
        if sequence.is_poisoned:
            tokens = {name: torch.full_like(each, torch.nan) for name, each in tokens.items()}
        slots = sequence.slots if member.layout.has_slot_each else (sequence.slot,)
        to = sequence.slots[(sequence.at + 1) % self._width]
        accepted, filled = sequence.at + 1, sequence.filled
        return BatchRow(tokens, slots, accepted, to, kept=row.count, parents=parents, filled=filled)

    def _gate(
        self,
        member: Member,
        event: PoolEvent,
        rows: Sequence[BatchRow],
        outputs: Mapping[str, torch.Tensor],
        expected: Sequence[ExpectedRow],
    ) -> None:
        """Gates on outputs, states and checkpoints of all rows at once; raises for the first row that one fails."""
        poisoned = {number for number, sequence in self._sequences.items() if sequence.is_poisoned}
        held = [place for place, row in enumerate(event.rows) if row.slot not in poisoned]
        live = [place for place in held if not rows[place].is_padding]
        states = {place: self._engine.pool[written_slot(member, rows[place])][None] for place in live}
        layout, kept = member.layout, dict(enumerate(checkpoints_of(member, rows, outputs)))
        given = dict(enumerate(outputs_of(member, rows, outputs)))
        checked = {place: each.checkpoints for place, each in enumerate(expected) if place in live and each.checkpoints}
        for name, places, found, right in (
            (layout.output, held, given, [each.output for each in expected]),
            (layout.after, live, states, [each.state.alone for each in expected]),
            (layout.declared.checkpoints, [*checked], kept, checked),
        ):
            judge = partial(self._judge, member, event, name, found, right)
            if places:
                self._keep(judge(places), [(event.rows[place].slot, partial(judge, [place])) for place in places])

    def _judge(
        self,
        member: Member,
        event: PoolEvent,
        name: str,
        found: Mapping[int, torch.Tensor],
        right: Sequence[ReplayedValues] | Mapping[int, ReplayedValues],
        places: Sequence[int],
    ) -> GateResult:
        """The gate on the rows at some places of the batch, one below the other, of a tensor by its name."""
        gate = member.layout.gate_on(name)
        actual = torch.cat([found[place] for place in places])
        wanted, size = (torch.cat([getattr(right[place], each) for place in places]) for each in ("right", "size"))
        axes = [str(dim) for dim in member.layout.specs[gate.tensor].dims][-actual.dim() + 1 :]
        result = roundoff_gate(gate, str(event), actual, wanted, size, ["row", *axes])
        return replace(result, gate=f"{member.variant.label} {result.gate}")

    def _keep(self, result: GateResult, alone: Sequence[tuple[int, Callable[[], GateResult]]] = ()) -> None:
        """Keeps the worst of each gate; raises for one that fails, with the first slot that fails `alone`."""
        worst = self.worst.get(result.gate)
        if worst is None or result.worst > worst.worst:
            self.worst[result.gate] = result
        if not result.passed:
            for slot, judge in alone:
                if not (own := judge()).passed:
                    where = f"slot {slot}" if slot > 0 else "padding"
                    said = f"error {own.worst:.3g}, at most {own.limit:g} passes, worst at {own.where}: {own.wrong}"
                    raise _FailedError(own.status, f"{own.gate}, {where}: {said}")
            raise _FailedError(result.status, f"{result.gate}: {result.told}")

    def _count(self, gate: str, event: PoolEvent, wrong: Sequence[str], status: Status) -> None:
        names, given = "; ".join(wrong[:_MOST_NAMED]), status if wrong else Status.OK
        self._keep(GateResult(gate, str(event), float(len(wrong)), 0.0, "", given, told=names))

    def _check_others(self, before: Sequence[torch.Tensor], written: Sequence[int], event: PoolEvent) -> None:
        """No slot but those that the event writes has other bits than before."""
        changed: set[int] = set()
        for now, each in zip(self._engine.held, before, strict=True):
            changed.update(differs(now, each).flatten(1).any(1).nonzero().flatten().tolist())
        owner = {slot: number for number, each in self._sequences.items() for slot in each.slots}
        wrong = [
            f"slot {slot} has changed, which is {f'that of sequence {owner[slot]}' if slot in owner else 'of nobody'}"
            for slot in sorted(changed - set(written))
        ]
        overrun = [int(slot) for each in self._engine.held for slot in (~is_poison(padding_of(each))).any(1).nonzero()]
        wrong += [f"what lies behind slot {slot} has changed" for slot in sorted({*overrun})]
        self._count(OTHERS, event, wrong, Status.WRONG_NUMBERS)


def replay_and_shrink(replay: Replay, given: EventProgram) -> Replayed:
    """Runs a program, and shrinks one that fails, for at most `SHRINK_S`; not if nothing can run again."""
    failed = replay.run(given)
    if failed is None:
        return Replayed(str(given), Status.OK, gates=tuple(replay.worst.values()))

    def first_failing(program: EventProgram) -> int | None:
        again = replay.run(program)
        return again.place if again else None

    until = time.monotonic() + SHRINK_S
    cut = EventProgram(given.events[: failed.place + 1])
    if failed.status in {Status.BUILD_FAILED, Status.CRASHED}:
        return Replayed(str(cut), failed.status, failed.reason, tuple(replay.worst.values()))
    shrunk = shrink(cut, first_failing, lambda: time.monotonic() > until)
    again = replay.run(shrunk)
    gates = tuple(replay.worst.values())
    if again is None:
        reason = f"{failed.reason}; it failed once, and not when it was run again"
        return Replayed(str(cut), failed.status, reason, gates)
    return Replayed(str(shrunk), again.status, again.reason, gates)


def replay_task(task: Task, channel: EventChannel) -> None:
    """Runs the task's program, which the step of each event names, and sends what came of it."""
    catalog = load_catalog(Path(root) for root in task.roots)
    family = find_family(catalog, task.family, task.shape)
    limit_s = task.step_limit_s * BUILD_STEPS

    def begin(place: int, event: PoolEvent) -> None:
        channel.send(StepBegun(str(replay.program), step_of(place, event), limit_s))

    profile = "".join(task.profiles)
    replay = Replay(
        catalog, family, seed=task.seed, slots=task.slots, device=task.device, profile=profile, on_event=begin
    )
    channel.send(replay_and_shrink(replay, EventProgram.parse(task.program, extent_of(family, task.slots))))
