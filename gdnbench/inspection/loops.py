"""The outermost loops of a kernel's machine code, and their instructions.

In a persistent kernel a trip is a tile. If its warps do different work, each role has a loop of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gdnbench.codegen.graph import Loop
from gdnbench.codegen.nvdisasm import SourceLine, read_source_lines
from gdnbench.codegen.sass import family_of, family_order
from gdnbench.inspection.compiled import CompiledKernel
from gdnbench.inspection.outline import Outline, outline_code


@dataclass(frozen=True)
class OutermostLoop:
    """A loop that lies in no other.

    Attributes:
        line: the source line of the branch back, its `for` or `while`; None if unknown.
        trip: its blocks, and the instructions of its shortest and its longest trip.
        within: number of loops in it.
        families: instructions by family, those of inner loops counted once.
    """

    line: SourceLine | None
    trip: Loop
    within: int
    families: Mapping[str, int]

    @property
    def instructions(self) -> int:
        """Number of instructions in its code."""
        return sum(self.families.values())


def loops_of(compiled: CompiledKernel) -> tuple[OutermostLoop, ...]:
    """Returns the outermost loops of a compiled kernel, in address order; raises MachineError if `nvdisasm` fails."""
    lines = read_source_lines(Path(compiled.build.cubin), compiled.build.symbol)
    return outermost_loops(outline_code(compiled.sass, {}, lines))


def outermost_loops(outline: Outline) -> tuple[OutermostLoop, ...]:
    """Returns the outermost loops of an outline."""
    loops = list(outline.loops.values())
    return tuple(
        _loop(outline, loop, sum(other.blocks < loop.blocks for other in loops))
        for loop in loops
        if not any(loop.blocks < other.blocks for other in loops)
    )


def _loop(outline: Outline, loop: Loop, within: int) -> OutermostLoop:
    code = [one for at in sorted(loop.blocks) for one in outline.blocks[at].code]
    counts = Counter(family_of(one.instruction) for one in code)
    families = {name: counts[name] for name in sorted(counts, key=family_order)}
    return OutermostLoop(outline.blocks[loop.latches[0]].code[-1].line, loop, within, families)
