"""What a sequence's bits may not depend on: the kinds of invariance, and what one was found to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

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

NEED_SEQUENCES: frozenset[Invariance] = frozenset(INVARIANCES) - {"split", "rerun"}


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
    by_tensor: str = ""  # how many differ in each: `output 12 of 1,024; new_state 0 of 16,384`
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
