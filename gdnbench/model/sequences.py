"""What an op says so that programs of events over a pool of states can call it: see `gdnbench.verify.programs`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

from gdnbench.errors import DeclarationError
from gdnbench.model.declaration import RoundoffGate, TensorSpec
from gdnbench.model.workload import Sizes

if TYPE_CHECKING:
    from gdnbench.model.op import Op

Call = Literal["prefill", "decode", "verify", "copy"]
"""What a launch does to a batch of sequences: takes many tokens of each, one, drafts, or none."""
CALLS: tuple[Call, ...] = get_args(Call)

StatesLie = Literal["pool", "rows", "tokens"]
"""Where a launch leaves states: in slots of the pool, one for each sequence, or one after each of its tokens."""


@dataclass(frozen=True)
class SequenceRole:
    """How a launch of an op takes the sequences of a batch: what `verify --sequences` needs to call it.

    All else follows from the op's tensors. The tokens are the inputs that begin with the same axes as the output that
    is not the states': one axis, or for `verify` the batch and its drafts. Other inputs are a model's weights.
    """

    call: Call
    state: tuple[str, str]  # the input that has the states before, and the output that has them afterwards
    slot: str = ""  # the input with the slot of each sequence, or of each of its drafts; empty: a state a sequence
    to: str = ""  # the input with the slot that is written, where it is not the one that is read
    accepted: str = ""  # the input with how many drafts of the last round were accepted, 1 or more
    shape: Sizes = field(default_factory=dict)  # sizes that programs are run at, where not the default: small heads

    def check(self, op: Op) -> None:
        """Raises DeclarationError if it does not fit the op's tensors."""
        inputs, outputs = ({spec.name for spec in specs} for specs in (op.inputs, op.outputs))
        problem = ""
        if self.call not in CALLS:
            problem = f"{self.call!r} is none of {', '.join(CALLS)}"
        elif unknown := [
            name for name in (self.state[0], self.slot, self.to, self.accepted) if name and name not in inputs
        ]:
            problem = f"{unknown[0]} is no input"
        elif self.state[1] not in outputs:
            problem = f"{self.state[1]} is no output"
        elif len(outputs) != 1 + (self.call != "copy"):
            problem = "beside the states there is one output, of the tokens, or for `copy` none"
        elif not (self.slot or op.ends):
            problem = "`slot` names the input with the slots, or `ends` of the op where each sequence ends"
        elif self.call != "copy" and not all(isinstance(gate, RoundoffGate) for gate in op.gates):
            problem = "errors are carried along in roundoffs: its gates are RoundoffGate"
        elif self.call == "copy" and not self.to:
            problem = "`copy` has an input `to`"
        elif unknown := [name for name in self.shape if name not in op.workloads.names]:
            problem = f"there is no axis {unknown[0]}"
        if problem:
            raise DeclarationError(f"sequences of {op.name}: {problem}")


@dataclass(frozen=True)
class SequenceLayout:
    """An op's tensors as its role lays them."""

    op: Op
    role: SequenceRole

    @classmethod
    def of(cls, op: Op) -> SequenceLayout:
        """The layout of an op; DeclarationError with what to write if it does not say how it takes sequences."""
        if op.sequences is None:
            raise DeclarationError(
                f"{op.name} does not say how it takes sequences",
                'write `sequences=SequenceRole("decode", state=("pool", "new_pool"), slot="slot")` in its op.py',
            )
        return cls(op, op.sequences)

    @cached_property
    def specs(self) -> Mapping[str, TensorSpec]:
        """All tensors by name."""
        return {spec.name: spec for spec in self.op.tensors}

    @cached_property
    def output(self) -> str:
        """The output of the tokens; empty for a copy."""
        return next((spec.name for spec in self.op.outputs if spec.name != self.role.state[1]), "")

    @cached_property
    def lead(self) -> tuple[str | int, ...]:
        """The axes along which tokens lie; none for a copy."""
        return self.specs[self.output].dims[: 2 if self.role.call == "verify" else 1] if self.output else ()

    @property
    def ends(self) -> str:
        """The input that tells where each sequence ends, where they lie one after the other; else empty."""
        return next(iter(self.op.ends.values()), "")

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """The inputs that hold tokens."""
        return tuple(name for name in self._free if self.lead and self.specs[name].dims[: len(self.lead)] == self.lead)

    @cached_property
    def weights(self) -> tuple[str, ...]:
        """The inputs that are the same for all tokens."""
        return tuple(name for name in self._free if name not in self.tokens)

    @cached_property
    def _free(self) -> Collection[str]:
        named = {self.role.state[0], self.role.slot, self.role.to, self.role.accepted, self.ends}
        return [spec.name for spec in self.op.inputs if spec.name not in named]

    @cached_property
    def states_lie(self) -> StatesLie:
        """Where a launch leaves the states."""
        before, after = (self.specs[name].dims[0] for name in self.role.state)
        if before == after:
            return "pool" if self.role.slot else "rows"
        return "tokens"

    @cached_property
    def has_slot_each(self) -> bool:
        """Whether a sequence has a slot for each draft."""
        return bool(self.role.slot) and len(self.specs[self.role.slot].dims) > 1

    @property
    def output_gate(self) -> RoundoffGate:
        """The gate on the output of the tokens."""
        return self._gate_on(self.output)

    @property
    def state_gate(self) -> RoundoffGate:
        """The gate on the states."""
        return self._gate_on(self.role.state[1])

    def _gate_on(self, name: str) -> RoundoffGate:
        return next(gate for gate in self.op.gates if gate.tensor == name and isinstance(gate, RoundoffGate))

    @property
    def drafts(self) -> str:
        """The axis of the drafts, empty without."""
        return str(self.lead[1]) if self.role.call == "verify" else ""

    def sizes(self, counts: Sequence[int]) -> Sizes:
        """The sizes of a launch by the number of tokens of each of its sequences."""
        if self.op.ends:
            return {next(iter(self.op.ends)): tuple(counts)}
        batch = str(self.specs[self.role.slot].dims[0])
        return {batch: len(counts), **({self.drafts: counts[0]} if self.drafts else {})}
