"""Draws sequences' tokens, and replays those that they kept in float64, with the rounding errors carried along.

The replay is the oracle of each op, begun from the states that the replay had before. What rounding errors may have
made of a state is carried with it and not begun anew: beside each state are replicas of it, to which every launch adds
its op's `roundoff` and half an ulp of the store, with signs drawn at random. How far they are from the state, by the
root mean square, is what the errors of all launches before have come to; a gate counts it in units of roundoff beside
what the last launch adds. (Parker, Monte Carlo Arithmetic, UCLA CSD-970002, 1997, perturbs in this way.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from gdnbench.errors import DeclarationError
from gdnbench.launch.numerics import Numerics, call_numerics, check_named
from gdnbench.launch.workspace import TORCH_DTYPES, Workspace
from gdnbench.model.declaration import FACTS, RoundoffGate
from gdnbench.model.sequences import Call
from gdnbench.verify.check import ask_numerics
from gdnbench.verify.engine import BatchRow, checkpoints_of, lay, outputs_of, states_of
from gdnbench.verify.family import Family, Member
from gdnbench.verify.gates import ulp

BANK = 128
_BATCH = 16  # sequences of a draw: pools of 64 slots are drawn with them
_APART = 37  # tokens between two of a sequence, and prime to BANK: no token is a sequence's next but one's
_BEGINS = 11  # tokens between the beginnings of two sequences

Tensors = dict[str, torch.Tensor]


class TokenBank:
    """BANK tokens for each layout of tokens; ops whose tokens have the same names and sizes share them.

    Weights of the same name are the same tensor for all ops, the first one's, but of tokens of a `profile`, whose gates
    are drawn for the weights of their own draw. `scalars` are each op's own.
    """

    def __init__(
        self, family: Family, numerics: Mapping[Call, Numerics], seed: int, device: str, profile: str = ""
    ) -> None:
        self.weights: dict[Call, Tensors] = {}
        self.scalars: dict[Call, dict[str, float]] = {}
        self._banks: dict[tuple[object, ...], Tensors] = {}
        self._keys: dict[Call, tuple[object, ...]] = {}
        shared: Tensors = {}
        for call, member in family.items():
            drawn = self._draw(member, numerics[call], seed, device, profile)
            self.weights[call] = {}
            for name in member.layout.weights:
                mine = shared.setdefault(name, drawn[name])
                self.weights[call][name] = drawn[name] if profile else mine
                if (mine.shape, mine.dtype) != (drawn[name].shape, drawn[name].dtype):
                    what = f"{name} of {member.layout.op.name} is {list(drawn[name].shape)} {drawn[name].dtype}"
                    raise DeclarationError(f"{what}, and of another op {list(mine.shape)} {mine.dtype}")
            if member.layout.tokens:
                key = (call, *_key(member)) if profile else _key(member)
                self._banks.setdefault(key, {name: drawn[name] for name in member.layout.tokens})
                self._keys[call] = key

    def _draw(self, member: Member, numerics: Numerics, seed: int, device: str, profile: str) -> Tensors:
        op, layout = member.layout.op, member.layout
        each = member.drafts or member.every or 1
        batch = -(-BANK // each) if profile else _BATCH
        kind = profile if profile and layout.tokens else op.scenarios[0]
        found: list[Tensors] = []
        for number in range(-(-BANK // (each * batch)) if layout.tokens else 1):
            workload = member.workload([each] * batch)
            tensors, scalars = call_numerics(op, numerics, "make_inputs", workload, seed + number, device, kind)
            check_named(op, "make_inputs", tensors, [spec.name for spec in op.inputs])
            self.scalars[member.call] = dict(scalars)
            dims = len(layout.lead)
            found.append({name: tensors[name].flatten(0, dims - 1) for name in layout.tokens})
        joined = {name: torch.cat([drawn[name] for drawn in found])[:BANK] for name in layout.tokens}
        return joined | {name: tensors[name] for name in layout.weights}

    def tokens(self, member: Member, begun: int, position: int, count: int) -> Tensors:
        """A sequence's tokens from a position on, by input: the same whatever came between."""
        places = [(_BEGINS * begun + _APART * (position + number)) % BANK for number in range(count)]
        return {name: drawn[places] for name, drawn in self._banks[self._keys[member.call]].items()}


def _key(member: Member) -> tuple[object, ...]:
    op, lead = member.layout.op, len(member.layout.lead)
    named = op.named_sizes(member.smallest)
    specs = [member.layout.specs[name] for name in member.layout.tokens]
    return tuple((spec.name, spec.sizes(named)[lead:], spec.dtype_at(named)) for spec in specs)


REPLICAS, OF_RINGS = 3, 12  # of a state alone, whose errors are alike along a row; of one beside rings, whose are not


@dataclass(frozen=True)
class ReplayedValues:
    """Float64 numbers, and how far rounding errors may take them, in units of the gate's arithmetic."""

    right: torch.Tensor
    size: torch.Tensor

    @property
    def alone(self) -> ReplayedValues:
        """With an axis before the others."""
        return ReplayedValues(self.right[None], self.size[None])

    @classmethod
    def of(
        cls, copies: torch.Tensor, own: torch.Tensor, gate: RoundoffGate, like: torch.Tensor, axes: int
    ) -> ReplayedValues:
        """From the numbers and their replicas, [1 + replicas, …], and what the last launch may add to errors.

        They are taken to be as large as an element's replicas are apart, and no smaller than by `like`, which says how
        errors are shared out along the last `axes`: few replicas may agree by chance at an element of many.
        """
        last = tuple(range(-axes, 0))
        shared = torch.maximum(like, like.square().mean(dim=last, keepdim=True).sqrt())
        apart = copies[1:] - copies[0]
        ratio = (apart / shared).square().mean(dim=(0, *last), keepdim=True)[0].sqrt()
        carried = torch.maximum(ratio * shared, apart.square().mean(dim=0).sqrt())
        return cls(copies[0], own + carried / unit_of(gate))


@dataclass(frozen=True)
class CarriedState:
    """A state and its replicas, [1 + replicas, …], float64, and about how large errors are at each element.

    `rings` are those of its slot, and their replicas.
    """

    states: torch.Tensor
    errors: torch.Tensor
    rings: Mapping[str, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class ExpectedRow:
    """What a launch must give for a sequence of its batch, or for padding; `carried` goes to its next launch.

    `restored` is what a sequence carries that goes on from the last of `checkpoints` [checkpoints, …]; None without.
    """

    output: ReplayedValues
    state: ReplayedValues
    carried: CarriedState
    checkpoints: ReplayedValues | None = None
    restored: CarriedState | None = None


@dataclass(frozen=True)
class _Answer:
    """What the oracle gives for `rows` sequences of a batch, behind which their replicas are, and their roundoff."""

    member: Member
    batch: Sequence[BatchRow]
    rows: int
    right: Mapping[str, torch.Tensor]
    own: Mapping[str, torch.Tensor]

    def of(
        self, place: int, pick: Callable[[Member, Sequence[BatchRow], Mapping[str, torch.Tensor]], list[torch.Tensor]]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What `pick` takes for a row: its numbers and their replicas, [1 + replicas, …], and its roundoff."""
        values = pick(self.member, self.batch, self.right)[place :: self.rows]
        return torch.stack(values), pick(self.member, self.batch[: self.rows], self.own)[place]


def unit_of(gate: RoundoffGate) -> float:
    """The unit roundoff of a gate's arithmetic."""
    return float(2.0 ** -FACTS[gate.arithmetic].significand_bits)


class FloatReplay:
    """Replays launches in float64; pool and rings are as the kernels have them; `width` slots belong to a sequence."""

    def __init__(
        self,
        numerics: Mapping[Call, Numerics],
        bank: TokenBank,
        pool: torch.Tensor,
        rings: Mapping[str, torch.Tensor],
        width: int,
    ) -> None:
        self._numerics, self._bank, self._width = numerics, bank, width
        self._dtype, self._of_rings = pool.dtype, {name: each.dtype for name, each in rings.items()}
        self._copies = 1 + (OF_RINGS if rings else REPLICAS)
        zeros, *empty = (
            each.new_zeros(self._copies, *each.shape[1:], dtype=torch.float64) for each in (pool, *rings.values())
        )
        self.first = CarriedState(zeros, torch.ones_like(zeros[0]), dict(zip(rings, empty, strict=True)))

    def begin(self, seed: int) -> None:
        """Begins a program: the signs of errors are drawn by the seed."""
        self._random = torch.Generator(self.first.errors.device).manual_seed(seed)

    def expect(
        self, member: Member, rows: Sequence[BatchRow], carried: Sequence[CarriedState | None]
    ) -> list[ExpectedRow]:
        """What a launch must give, by what its rows carry; none for padding.

        The oracle is called once for all states and replicas, as for a batch of so many sequences in a pool of its own.
        """
        layout, begun = member.layout, [each or self.first for each in carried]
        batch = [self._moved(row, place) for place, row in enumerate([*rows] * self._copies)]
        held = {layout.before: self._side_by_side(member, [each.states for each in begun])}
        held |= {
            name: self._side_by_side(member, [each.rings[name] for each in begun]) for name in layout.declared.rings
        }
        right = self._ask(member, "oracle", batch, held)
        answer = _Answer(member, batch, len(rows), right, self._roundoff(member, batch[: len(rows)], held, right))
        return [self._row(answer, place, each) for place, each in enumerate(carried)]

    def _row(self, answer: _Answer, place: int, carried: CarriedState | None) -> ExpectedRow:
        layout, flush = answer.member.layout, answer.member.flush
        values, grown = answer.of(place, outputs_of)
        gate, like = layout.gate_on(layout.output), grown.clamp(min=torch.finfo(torch.float32).tiny)
        output = ReplayedValues.of(values, grown, gate, like, 1)
        if carried is None:
            return ExpectedRow(output, output, self.first)
        after, added = answer.of(place, states_of)
        gate = layout.gate_on(layout.after)
        state = ReplayedValues.of(after, added, gate, carried.errors, min(2, added.dim()))
        is_stored = answer.batch[place].filled >= flush
        left = self._perturbed(after, added, state, gate) if is_stored else replace(carried, states=after)
        rings = {name: self._perturbed_ring(answer, place, name) for name in layout.declared.rings}
        row = ExpectedRow(output, state, replace(left, rings=rings or self.first.rings))
        if not answer.batch[place].count >= (answer.member.every or math.inf):
            return row
        kept, added = answer.of(place, checkpoints_of)
        gate = layout.gate_on(layout.declared.checkpoints)
        states = ReplayedValues.of(kept, added, gate, carried.errors, min(2, added.dim() - 1))
        last = ReplayedValues(states.right[-1], states.size[-1])
        return replace(row, checkpoints=states, restored=self._perturbed(kept[:, -1], added[-1], last, gate))

    def _side_by_side(self, member: Member, carried: Sequence[torch.Tensor]) -> torch.Tensor:
        """All of what sequences carry, and their replicas, as an op takes it: one a sequence, or in a pool."""
        held = torch.stack([*carried], dim=1).flatten(0, 1)
        if member.layout.states_lie == "rows":
            return held
        pool = held.new_zeros(1 + self._width * len(held), *held.shape[1:])
        pool[1 :: self._width] = held
        return pool

    def _roundoff(
        self,
        member: Member,
        batch: Sequence[BatchRow],
        held: Mapping[str, torch.Tensor],
        right: Mapping[str, torch.Tensor],
    ) -> dict[str, torch.Tensor]:
        """The roundoff of a launch on the states alone, which are the first ones that are held, in full sizes."""
        in_pool = member.layout.states_lie != "rows"
        few = 1 + self._width * len(batch) if in_pool else len(batch)
        op = member.layout.op
        named = op.named_sizes(member.smallest)
        given = {spec.name: TORCH_DTYPES[spec.dtype_at(named)] for spec in op.inputs}
        sizes = self._ask(member, "roundoff", batch, {name: each[:few].to(given[name]) for name, each in held.items()})
        lengths = {name: len(each) // self._copies for name, each in right.items()}
        if member.layout.states_lie == "pool":
            lengths |= dict.fromkeys(member.layout.held.values(), few)
        return {name: size.double().broadcast_to(lengths[name], *right[name].shape[1:]) for name, size in sizes.items()}

    def _perturbed(
        self, states: torch.Tensor, added: torch.Tensor, state: ReplayedValues, gate: RoundoffGate
    ) -> CarriedState:
        """The states, with an error in each replica, that of the launch, in roundoffs, and of the store; no rings."""
        added = added * unit_of(gate)
        error = added + ulp(states[0].abs(), self._dtype) / 2
        before = state.size * unit_of(gate) - added
        return CarriedState(self._astray(states, error), before.hypot(error), self.first.rings)

    def _perturbed_ring(self, answer: _Answer, place: int, name: str) -> torch.Tensor:
        """A ring of a row and its replicas, with an error in each of these where the launch wrote."""
        layout = answer.member.layout
        wrote = layout.declared.rings[name]
        values, added = answer.of(place, lambda _, batch, found: [found[wrote][row.slots[0]] for row in batch])
        error = added * unit_of(layout.gate_on(wrote)) + ulp(values[0].abs(), self._of_rings[name]) / 2
        return self._astray(values, torch.where(added > 0, error, 0.0))

    def _astray(self, values: torch.Tensor, error: torch.Tensor) -> torch.Tensor:
        drawn = torch.randint(0, 2, values[1:].shape, generator=self._random, device=values.device)
        return torch.cat([values[:1], values[1:] + (2.0 * drawn - 1.0) * error])

    def _moved(self, row: BatchRow, place: int) -> BatchRow:
        """A row as it is in a pool of so many sequences; padding stays padding."""
        if row.is_padding:
            return row
        slots = range(1 + place * self._width, 1 + (place + 1) * self._width)
        return replace(row, slots=tuple(slots[: len(row.slots)]), accepted=1, to=slots[-1])

    def _ask(
        self, member: Member, name: str, batch: Sequence[BatchRow], held: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        op, workload = member.layout.op, member.workload([row.count for row in batch])
        inputs = lay(member, batch, dict(held), self._bank.weights[member.call])
        workspace = Workspace(op, workload, inputs, self._bank.scalars[member.call], {}, {})
        return ask_numerics(self._numerics[member.call], name, workspace, [spec.name for spec in op.outputs])
