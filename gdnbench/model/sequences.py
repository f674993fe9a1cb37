"""What an op says of the sequences of a batch, and what follows from it for its tensors and the sizes of its calls.

`verify` compares bits by it (`--invariance`), runs programs of events (`--sequences`), and follows errors (`--length`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

from gdnbench.errors import DeclarationError, ShapeError
from gdnbench.model.declaration import RoundoffGate, TensorSpec
from gdnbench.model.workload import Sizes, Workload

if TYPE_CHECKING:
    from gdnbench.model.op import Op

Call = Literal["prefill", "decode", "verify", "copy"]
"""What a launch does to a batch of sequences: takes many tokens of each, one, drafts, or none."""
CALLS: tuple[Call, ...] = get_args(Call)

StatesLie = Literal["pool", "rows", "tokens"]
"""Where a launch leaves states: in slots of the pool, one for each sequence, or one after each of its tokens."""

LARGEST_POWER = 7  # of two: batches of up to so many sequences
OTHERS = 5  # tokens of a sequence that is only there to be another one, or to follow a cut

HOW_TO_SAY = 'say it in its op.py: `sequences=Sequences("B", "decode", state=("pool", "new_pool"), slot="slot")`'


@dataclass(frozen=True)
class Sequences:
    """How a launch of an op takes the sequences of a batch; names are those of its axes and tensors.

    A tensor with the axis of a sequence has a member for each, and where sequences have slots, one with the first axis
    of the state a member for each slot. The tokens are the inputs that begin with the same axes as the output that is
    not the states': one axis, or for `verify` the batch and its drafts. For `prefill`, `ends` of the op tells which
    tokens are whose. All else belongs to the whole batch.
    """

    axis: str  # with a member for each sequence
    call: Call | Literal[""] = ""  # empty: none of these
    state: tuple[str, str] | None = None  # the input that has the states before, and the output that has them after
    slot: str = ""  # the input with the slot of each sequence, or of each of its drafts; empty: a state a sequence
    to: str = ""  # the input with the slot that is written, where it is not the one that is read
    accepted: str = ""  # the input with how many drafts of the last round were accepted, 1 or more
    parent: str = ""  # the input with the parent of each draft, by its place; less than 0: the sequence's own state
    # Inputs, with their outputs, that hold in a sequence's slot what its last tokens have added, until the state is
    # written; the input with how many tokens that are, and the axis with how many when it is written
    rings: Mapping[str, str] = field(default_factory=dict)
    filled: str = ""
    flush: str = ""
    # The output with states on the way, those of a sequence one behind the other; the axis with the tokens between two,
    # and the input with where those of each sequence begin
    checkpoints: str = ""
    every: str = ""
    starts: str = ""
    shape: Mapping[str, int] = field(default_factory=dict)  # axes of programs, where not the default: few heads
    gates: tuple[str, ...] = ()  # inputs of each token that say what it forgets and writes
    grid: int = 1  # tokens at whose multiples a sequence is cut into two calls that must agree

    def check(self, op: Op) -> None:
        """Raises DeclarationError for a name that the op does not have, and for what contradicts itself."""
        inputs, outputs = ({spec.name for spec in specs} for specs in (op.inputs, op.outputs))
        begun, left = self.state or ("", "")
        numbers = (begun, self.slot, self.to, self.accepted, *self.gates, self.parent, *self.rings, self.filled)
        numbers = (*numbers, self.starts)
        problem = ""
        if self.call and self.call not in CALLS:
            problem = f"{self.call!r} is not one of {', '.join(CALLS)}"
        elif self.axis not in {dim for spec in op.tensors for dim in spec.dims}:
            problem = f"{self.axis} is not an axis of a tensor"
        elif not (op.ends or self.axis in op.workloads.names):
            problem = f"{self.axis} is not an axis of workloads"
        elif unknown := [name for name in numbers if name and name not in inputs]:
            problem = f"{unknown[0]} is not an input"
        elif unknown := [
            name for name in (left, *self.rings.values(), self.checkpoints) if name and name not in outputs
        ]:
            problem = f"{unknown[0]} is not an output"
        elif self.slot and not self.state:
            problem = "`slot` is of a pool of states: `state` names it, as an input and an output"
        elif self.call == "prefill" and not op.ends:
            problem = "`ends` of the op says where each sequence of a `prefill` ends"
        elif self.call == "copy" and not self.to:
            problem = "`copy` has an input `to`"
        elif unknown := [
            name for name in (*self.shape, self.flush, self.every) if name and name not in op.workloads.names
        ]:
            problem = f"there is no axis {unknown[0]}"
        elif self.call == "verify" and not {*SequenceLayout(op, self).lead[1:]}.intersection(op.workloads.names):
            problem = "the output of `verify` begins with the batch and an axis of its drafts"
        if problem := problem or self._incomplete():
            raise DeclarationError(f"sequences of {op.name}: {problem}")

    def _incomplete(self) -> str:
        """What is said in part, of what goes together; empty if nothing is."""
        if len({bool(self.slot and self.rings), bool(self.filled), bool(self.flush)}) > 1:
            return "`rings` are of a pool, and have `filled` and `flush`"
        has_part = len({bool(self.checkpoints), bool(self.every), bool(self.starts)}) > 1
        return "`checkpoints` have `every` and `starts`" if has_part else ""


@dataclass(frozen=True)
class SequenceLayout:
    """An op's tensors as they hold sequences."""

    op: Op
    declared: Sequences

    @classmethod
    def of(cls, op: Op) -> SequenceLayout:
        """The layout of an op; DeclarationError with what to write if it does not say how it takes sequences."""
        if op.sequences is None:
            raise DeclarationError(f"{op.name} does not say how it takes sequences", HOW_TO_SAY)
        return cls(op, op.sequences)

    @classmethod
    def for_programs(cls, op: Op) -> SequenceLayout:
        """The layout, for programs of events; DeclarationError, too, for an op that lacks what these need."""
        layout = cls.of(op)
        call, problem = layout.declared.call, ""
        if not call or layout.declared.state is None:
            problem = f"its `sequences` have no {'`state`' if call else '`call`'}"
        elif not (layout.declared.slot or op.ends):
            problem = "`slot` names the input with the slots, or `ends` of the op where each sequence ends"
        elif len(op.outputs) != len(layout.held) + (call != "copy") + bool(layout.declared.checkpoints):
            problem = "besides the states there is one output, of the tokens, or for `copy` none"
        elif call != "copy" and not all(isinstance(gate, RoundoffGate) for gate in op.gates):
            problem = "errors are carried along in roundoffs: its gates are RoundoffGate"
        if problem:
            raise DeclarationError(f"{op.name} takes no part in programs: {problem}", HOW_TO_SAY)
        return layout

    @cached_property
    def specs(self) -> Mapping[str, TensorSpec]:
        """All tensors by name."""
        return {spec.name: spec for spec in self.op.tensors}

    @property
    def call(self) -> Call:
        """What a launch does, of an op that says it."""
        assert self.declared.call
        return self.declared.call

    @property
    def before(self) -> str:
        """The input that has the states before a call; empty without states."""
        return self.declared.state[0] if self.declared.state else ""

    @property
    def after(self) -> str:
        """The output that has the states after it; empty without states."""
        return self.declared.state[1] if self.declared.state else ""

    @cached_property
    def held(self) -> Mapping[str, str]:
        """What a sequence has from call to call: inputs, the states first, with the outputs that have them after."""
        return {self.before: self.after, **self.declared.rings} if self.declared.state else {}

    @property
    def slots(self) -> str | int:
        """The axis of the pool; empty without a pool."""
        return self.specs[self.before].dims[0] if self.declared.slot else ""

    @cached_property
    def output(self) -> str:
        """The output of the tokens; empty for a copy."""
        others = {*self.held.values(), self.declared.checkpoints}
        return next((spec.name for spec in self.op.outputs if spec.name not in others), "")

    @cached_property
    def lead(self) -> tuple[str | int, ...]:
        """The axes along which tokens lie; none for a copy."""
        return self.specs[self.output].dims[: 2 if self.declared.call == "verify" else 1] if self.output else ()

    @property
    def lengths(self) -> str:
        """The list of each sequence's tokens, where they lie one after the other; else empty."""
        return next(iter(self.op.ends), "")

    @property
    def ends(self) -> str:
        """The input with the end of each sequence, where they lie one after the other; else empty."""
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
        said = self.declared
        named = {*self.held, said.slot, said.to, said.accepted, self.ends, said.parent, said.filled, said.starts}
        return [spec.name for spec in self.op.inputs if spec.name not in named]

    @cached_property
    def token_axes(self) -> tuple[str | int, ...]:
        """The axes with a member for each token; of `verify` that of the drafts, and that of their states."""
        if self.declared.call == "verify":
            states = self.specs[self.after].dims[1:2] if self.after and self.states_lie == "tokens" else ()
            return (self.drafts, *states)
        return self.lead if self.declared.call == "prefill" else ()

    @cached_property
    def states_lie(self) -> StatesLie:
        """Where a launch leaves the states."""
        if self.specs[self.before].dims[0] == self.specs[self.after].dims[0]:
            return "pool" if self.declared.slot else "rows"
        return "tokens"

    @cached_property
    def has_slot_each(self) -> bool:
        """Whether a sequence has a slot for each draft."""
        return bool(self.declared.slot) and len(self.specs[self.declared.slot].dims) > 1

    @property
    def has_several_slots(self) -> bool:
        """Whether a sequence has a slot for each draft, or one to read and another to write."""
        return self.has_slot_each or bool(self.declared.to)

    def gate_on(self, name: str) -> RoundoffGate:
        """The gate on an output, the states or that of the tokens."""
        return next(gate for gate in self.op.gates if gate.tensor == name and isinstance(gate, RoundoffGate))

    @property
    def drafts(self) -> str:
        """The axis of the drafts, empty without."""
        return str(self.lead[1]) if self.declared.call == "verify" else ""

    def sizes(self, counts: Sequence[int]) -> Sizes:
        """The sizes of a launch by the number of tokens of each of its sequences."""
        if self.lengths:
            return {self.lengths: tuple(counts)}
        return {self.declared.axis: len(counts), **({self.drafts: counts[0]} if self.drafts else {})}

    def counts(self, workload: Workload) -> tuple[int, ...]:
        """The tokens of each sequence of a workload; 1 each where they have no axis of tokens."""
        if self.lengths:
            return workload.lists[self.lengths]
        return (workload.axes[self.drafts] if self.drafts else 1,) * workload.axes[self.declared.axis]

    def resized(self, workload: Workload, counts: Sequence[int]) -> Workload | None:
        """A workload with sequences of so many tokens, in its profile; None if the op does not define it."""
        with suppress(ShapeError):
            return self.op.workload({**workload.sizes, **self.sizes(counts)}).at(workload.profile)
        return None

    def other_sizes(self, workload: Workload) -> Iterator[Workload]:
        """Yields the workloads of other batches, for which a kernel may choose other params."""
        if self.lengths:
            yield from (each.at(workload.profile) for each in self.op.suite_workloads if each.axes == workload.axes)
            return
        counts = self.counts(workload)[:1]
        yield from filter(None, (self.resized(workload, counts * 2**power) for power in range(LARGEST_POWER + 1)))

    def cut(self, workload: Workload) -> tuple[int, ...]:
        """The tokens of each sequence before a cut in the middle of a chunk, near its half; 0 if it cannot be cut."""
        grid = self.declared.grid
        return tuple(
            (length // 2 // grid * grid + grid // 2 if length > grid else length // 2) if length > 1 else 0
            for length in self.counts(workload)
        )

    def halves(self, workload: Workload) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The tokens of each sequence in two calls, cut at a multiple of the grid; None if they are too few.

        Where sequences have lengths of their own, it is of the first alone, which is made longer if need be.
        """
        grid, lengths = self.declared.grid, self.counts(workload)
        if not self.token_axes or not self.before:
            return None
        if self.lengths:
            lengths = (lengths[0] if lengths[0] > grid else grid + OTHERS,)
        if lengths[0] <= grid:
            return None
        firsts = tuple(max(length // 2 // grid, 1) * grid for length in lengths)
        return firsts, tuple(length - first for length, first in zip(lengths, firsts, strict=True))

    def compared_sizes(self, workload: Workload) -> Iterator[Workload]:
        """Yields the other sizes at which a kernel is launched to compare its bits with those at a workload."""
        if not self.lengths:
            yield from self.other_sizes(workload)
        cut, halves = self.cut(workload), self.halves(workload)
        shorter = tuple(tokens or length for tokens, length in zip(cut, self.counts(workload), strict=True))
        yield from filter(None, (self.resized(workload, counts) for counts in (shorter, *(halves or ()))))


def why_not_compared(op: Op) -> str:
    """Why what bits depend on cannot be tested of an op's sequences; empty if it can."""
    if op.sequences is None:
        return f"{op.name} does not say how its inputs are batched"
    if op.sequences.checkpoints:
        return f"sequences of {op.name} have checkpoints, which are not compared"
    has_several = SequenceLayout(op, op.sequences).has_several_slots
    return f"sequences of {op.name} have several slots each, and can be compared with one" if has_several else ""
