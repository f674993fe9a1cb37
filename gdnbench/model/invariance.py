"""What a sequence's bits may not depend on: the kinds of invariance, and where an op's tensors hold its sequences."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from gdnbench.errors import DeclarationError

if TYPE_CHECKING:
    from gdnbench.model.declaration import TensorSpec

Invariance = Literal["batch", "order", "append", "chunking", "split", "rerun"]
"""A kind of invariance. A kernel that has it gives a sequence the same bits, whatever

- `batch`: else is in the batch, and however much;
- `order`: its place in the batch, and its slot in the pool;
- `append`: tokens follow, for the outputs before them;
- `chunking`: part of it was another call's, from whose state this one begins;
- `split`: the kernel's params are, by which long sequences are cut;
- `rerun`: ran before: the same launch once more.
"""

INVARIANCES: tuple[Invariance, ...] = get_args(Invariance)
PATH: Literal["path"] = "path"  # what `--path` compares, which nothing claims: calls of a kernel of single steps
GATE_SUFFIX = " invariance"
"""Behind a claimed kind in the name of its gate: `batch invariance`."""

HOW_TO_BATCH = "let op.py say by which axis: `batching=Batching(sequences=…)`; see docs/verifying.md"

NEED_BATCHING: frozenset[Invariance] = frozenset(INVARIANCES) - {"split", "rerun"}


@dataclass(frozen=True, kw_only=True)
class Batching:
    """How an op's tensors hold the sequences of a batch; names are those of sizes and tensors of the op.

    A tensor with the axis `sequences` has a member for each, one with the axis `slots` a member for each slot of the
    pool, of which `slot` holds every sequence's. All other tensors belong to the whole batch.
    """

    sequences: str = ""  # axis with one member for each sequence
    # Axes along which tokens lie, where they are as long as a sequence's tokens are many: all sequences' tokens, one
    # after the other, if `lengths` names the list of their numbers; else those of each, beside the axis `sequences`
    tokens: tuple[str, ...] = ()
    lengths: str = ""
    slots: str = ""
    slot: str = ""
    state: tuple[str, str] | None = None  # the input that a call begins with, and the output that the next begins with
    gates: tuple[str, ...] = ()  # inputs of each token that say what it forgets and writes
    grid: int = 1  # tokens at whose multiples `chunking` cuts a sequence

    def check(self, inputs: Mapping[str, TensorSpec], outputs: Mapping[str, TensorSpec], sizes: set[str]) -> None:
        """Raises DeclarationError for a name that the op does not have; `sizes` are its axes, lists and derived."""
        dims = {dim for spec in (*inputs.values(), *outputs.values()) for dim in spec.dims}
        names: dict[str, tuple[set[str], Collection[str | int]]] = {
            "axis of a tensor": ({self.sequences, *self.tokens[:1], self.slots}, dims),
            "size": ({*self.tokens, self.lengths}, sizes),
            "input": ({self.slot, *self.gates, *(self.state or ())[:1]}, inputs.keys()),
            "output": ({*(self.state or ())[1:]}, outputs.keys()),
        }
        for what, (used, known) in names.items():
            if unknown := sorted(used.difference(map(str, known), [""])):
                raise DeclarationError(f"batching: {', '.join(unknown)} is no {what} of the op")
        if bool(self.slots) != bool(self.slot):
            raise DeclarationError("batching: `slots` and `slot` go together: the pool's axis, and who has which")


@dataclass(frozen=True)
class InvarianceResult:
    """What one kind of invariance was found to be of a kernel at a workload.

    `differing` of `of` elements that had to have the same bits have others, in the `pair` of launches where most do;
    0 if all `pairs` agree. Nothing was compared if `skipped` says why.
    """

    kind: Invariance | Literal["path"]
    claimed: bool
    pair: str = ""  # `B=1 | B=8`
    pairs: int = 0
    differing: int = 0
    of: int = 0
    first: str = ""  # the first element that differs, `output[0, 0, 3, 5]`, and both values
    # Largest difference, where 1 is what the op's gate lets an element differ from the oracle; None if not computed
    in_gates: float | None = None
    between: str = ""  # what the kernel itself does otherwise in one of the two: `LANES=8 | LANES=16`
    skipped: str = ""

    @property
    def share(self) -> float:
        """The share of compared elements that differ."""
        return self.differing / self.of if self.of else 0.0

    @property
    def reason(self) -> str:
        """Why a claim does not hold, in a line."""
        between = f"; between them: {self.between}" if self.between else ""
        return (
            f"claims {self.kind} invariance, and {self.pair} differ in the bits of {self.differing:,} of {self.of:,} "
            f"elements, the first {self.first}{between}"
        )
