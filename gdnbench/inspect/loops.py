"""The outermost loops of a kernel's machine code: what a trip takes, and of which source line each is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gdnbench.codegen.cubin import read_source_lines
from gdnbench.codegen.graph import Loop, find_loops, read_blocks
from gdnbench.codegen.sass import family_of, family_order
from gdnbench.codegen.schedule import read_schedule
from gdnbench.inspect.compiled import CompiledKernel
from gdnbench.ptx.program import SourceLine

Frames = Mapping[int, Sequence[SourceLine]]  # by address; the innermost line first, then its callers'


@dataclass(frozen=True)
class OutermostLoop:
    """A loop that lies in no other; its trip is a tile in a persistent kernel, where each role may have its own."""

    line: SourceLine | None  # the source line of the branch back, its `for` or `while`; None if unknown
    trip: Loop  # its blocks, and the instructions of its shortest and its longest trip
    within: int  # number of loops in it
    families: Mapping[str, int]  # instructions by family, those of inner loops counted once

    @property
    def instructions(self) -> int:
        """Number of instructions in its code."""
        return sum(self.families.values())


def loops_of(compiled: CompiledKernel) -> tuple[OutermostLoop, ...]:
    """Returns the outermost loops of a compiled kernel, in address order; raises MachineError if `nvdisasm` fails."""
    return outermost_loops(compiled.sass, read_source_lines(Path(compiled.build.cubin), compiled.build.symbol))


def outermost_loops(sass: str, frames: Frames) -> tuple[OutermostLoop, ...]:
    """Returns the outermost loops of `sass`, the output of `cuobjdump -sass` with encodings.

    `frames` has source lines by address. Raises MachineError if encodings are missing.
    """
    code = [one.instruction for one in read_schedule(sass).code]
    blocks = read_blocks(code)
    loops, lines = find_loops(blocks), _lines_of(frames)
    found = []
    for loop in loops:
        if any(loop.blocks < other.blocks for other in loops):
            continue
        counts = Counter(family_of(code[place]) for at in sorted(loop.blocks) for place in blocks[at].places)
        families = {name: counts[name] for name in sorted(counts, key=family_order)}
        back = code[blocks[loop.latches[0]].places[-1]]
        within = sum(other.blocks < loop.blocks for other in loops)
        found.append(OutermostLoop(lines.get(int(back.address, 16)), loop, within, families))
    return tuple(found)


def _lines_of(frames: Frames) -> dict[int, SourceLine]:
    """Returns by address the innermost line in the file that has the most distinct lines, else the innermost of all.

    That file's lines distinguish most instructions: of a kernel that only calls a header's function, the header; of one
    that loads through a helper, the file with the calls of the helper.
    """
    innermost = {address: {line.file: line for line in reversed(one)} for address, one in frames.items()}
    distinct = {line for lines in innermost.values() for line in lines.values()}
    counts = Counter(sorted(line.file for line in distinct))  # sorted, so that ties are deterministic
    main = counts.most_common(1)[0][0] if counts else ""
    return {address: innermost[address].get(main, one[0]) for address, one in frames.items()}
