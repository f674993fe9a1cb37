"""The float64 replay of the tokens that sequences kept, with the rounding errors that are carried along.

The replay is the oracle of each op, begun from the states that the replay had before. What rounding errors may have
made of a state is carried with it and not begun anew: beside each state are replicas of it, to which every launch adds
its op's `roundoff` and half an ulp of the store, with signs drawn at random. How far they are from the state, by the
root mean square, is what the errors of all launches before have come to; a gate counts it in units of roundoff beside
what the last launch adds. (Parker, Monte Carlo Arithmetic, UCLA CSD-970002, 1997, perturbs in this way.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from gdnbench.launch.numerics import Numerics
from gdnbench.launch.workspace import TORCH_DTYPES, Workspace
from gdnbench.model.declaration import FACTS, RoundoffGate
from gdnbench.model.sequences import Call
from gdnbench.verify.check import ask_numerics
from gdnbench.verify.engine import BatchRow, lay, outputs_of, state_of
from gdnbench.verify.family import Member
from gdnbench.verify.gates import ulp
from gdnbench.verify.tokens import TokenBank

REPLICAS = 3


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
        """From the numbers and their replicas, [1 + REPLICAS, …], and what the last launch may add to errors.

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
    """A state and its replicas, [1 + REPLICAS, …], float64, and about how large errors are at each element."""

    states: torch.Tensor
    errors: torch.Tensor


@dataclass(frozen=True)
class ExpectedRow:
    """What a launch must give for a sequence of its batch, or for padding; `carried` goes to its next launch."""

    output: ReplayedValues
    state: ReplayedValues
    carried: CarriedState


def unit_of(gate: RoundoffGate) -> float:
    """The unit roundoff of a gate's arithmetic."""
    return float(2.0 ** -FACTS[gate.arithmetic].significand_bits)


class FloatReplay:
    """Replays launches in float64; `pool` is one as the kernels have it, and `width` slots belong to a sequence."""

    def __init__(self, numerics: Mapping[Call, Numerics], bank: TokenBank, pool: torch.Tensor, width: int) -> None:
        self._numerics, self._bank, self._width = numerics, bank, width
        self._dtype = pool.dtype
        zeros = pool.new_zeros(1 + REPLICAS, *pool.shape[1:], dtype=torch.float64)
        self.first = CarriedState(zeros, torch.ones_like(zeros[0]))

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
        held = torch.stack([each.states for each in begun], dim=1).flatten(0, 1)
        batch = [self._moved(row, place) for place, row in enumerate([*rows] * (1 + REPLICAS))]
        if layout.states_lie != "rows":
            held, given = held.new_zeros(1 + self._width * len(held), *held.shape[1:]), held
            held[1 :: self._width] = given
        right = self._ask(member, "oracle", batch, held)
        own = self._roundoff(member, batch[: len(rows)], held, right)
        outputs, grown = outputs_of(member, batch, right), outputs_of(member, batch[: len(rows)], own)
        found = []
        for place, each in enumerate(carried):
            copies = range(place, len(batch), len(rows))
            values = torch.stack([outputs[copy] for copy in copies])
            gate, like = layout.gate_on(layout.output), grown[place].clamp(min=torch.finfo(torch.float32).tiny)
            output = ReplayedValues.of(values, grown[place], gate, like, 1)
            if each is None:
                found.append(ExpectedRow(output, output, self.first))
                continue
            after = torch.stack([state_of(member, batch, copy, right) for copy in copies])
            added, gate = state_of(member, batch, place, own), layout.gate_on(layout.after)
            state = ReplayedValues.of(after, added, gate, each.errors, min(2, added.dim()))
            found.append(ExpectedRow(output, state, self._perturbed(after, added * unit_of(gate), state, gate)))
        return found

    def _roundoff(
        self, member: Member, batch: Sequence[BatchRow], held: torch.Tensor, right: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """The roundoff of a launch on the states alone, which are the first ones that are held, in full sizes."""
        in_pool = member.layout.states_lie != "rows"
        narrow = held[: 1 + self._width * len(batch) if in_pool else len(batch)].to(self._given_dtype(member))
        sizes = self._ask(member, "roundoff", batch, narrow)
        copies = 1 + REPLICAS
        lengths = {name: len(each) // copies for name, each in right.items()}
        if member.layout.states_lie == "pool":
            lengths[member.layout.after] = len(narrow)
        return {name: size.double().broadcast_to(lengths[name], *right[name].shape[1:]) for name, size in sizes.items()}

    def _perturbed(
        self, states: torch.Tensor, added: torch.Tensor, state: ReplayedValues, gate: RoundoffGate
    ) -> CarriedState:
        """The states, with an error in each replica, and that of the store."""
        error = added + ulp(states[0].abs(), self._dtype) / 2
        drawn = torch.randint(0, 2, states[1:].shape, generator=self._random, device=states.device)
        before = state.size * unit_of(gate) - added
        return CarriedState(torch.cat([states[:1], states[1:] + (2.0 * drawn - 1.0) * error]), before.hypot(error))

    def _moved(self, row: BatchRow, place: int) -> BatchRow:
        """A row as it is in a pool of so many sequences; padding stays padding."""
        if row.is_padding:
            return row
        slots = range(1 + place * self._width, 1 + (place + 1) * self._width)
        return replace(row, slots=tuple(slots[: len(row.slots)]), accepted=1, to=slots[-1])

    def _given_dtype(self, member: Member) -> torch.dtype:
        spec = member.layout.specs[member.layout.before]
        return TORCH_DTYPES[spec.dtype_at(member.layout.op.named_sizes(member.smallest))]

    def _ask(
        self, member: Member, name: str, batch: Sequence[BatchRow], states: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        op, workload = member.layout.op, member.workload([row.count for row in batch])
        inputs, scalars = lay(member, batch, states, self._bank.weights), self._bank.scalars[member.call]
        workspace = Workspace(op, workload, inputs, scalars, {}, {})
        return ask_numerics(self._numerics[member.call], name, workspace, [spec.name for spec in op.outputs])
