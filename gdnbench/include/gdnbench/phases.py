"""Marks that tell `gdnbench proton` where inside a kernel in CuTe DSL time goes, as `phases.cuh` those in CUDA C++.

    clock = PhaseClock("load", "update", "store")   # first in the kernel: each warp's clock starts
    clock.mark("load", x, y)                        # ends a phase once the values x and y have arrived
    clock.mark("store")                             # ends a phase once what stands before has been issued
    clock.end()                                     # last in the kernel

The header says what a mark measures, and what a record is. In a build that is timed no mark leaves code.
"""

from __future__ import annotations

from copy import copy
from typing import Any

from cutlass import Constexpr, Int32, Int64, Uint32, cute, extract_mlir_values, new_from_mlir_values, range_constexpr
from cutlass._mlir import ir
from cutlass._mlir.dialects import llvm

STAMPED = 0
"""What marks do, which the builder sets: nothing; add up the cycles of phases (1), or note each pass (2)."""

_ROOM, _HEAD = 1024, 4  # words of a warp's passes; words of a record before those of its phases
_BEGIN_NS, _BEGIN, _LAST, _COUNT, _CYCLES = range(5)  # a clock's words; the phases' cycles are the last


class PhaseClock:
    """A warp's clock, of which lane 0 leaves a record; `names` are the phases, in the order of the report."""

    def __init__(self, *names: str) -> None:
        self._names, self._stamped = names, STAMPED
        if not self._stamped:
            return
        _define(names, self._stamped)
        thread = cute.arch.thread_idx()[0]
        self._words = cute.make_rmem_tensor(_CYCLES + len(names), Uint32)
        self._words.fill(0)
        block, grid, threads = cute.arch.block_idx(), cute.arch.grid_dim(), cute.arch.block_dim()[0]
        warps = (threads + 31) // 32
        number = (block[0] + grid[0] * (block[1] + grid[1] * block[2])) * warps + thread // 32
        self._lane, self._number = thread % 32, Int64(number)
        self._words[_BEGIN_NS] = _read("globaltimer_lo")
        self._words[_BEGIN] = self._words[_LAST] = self._cycles()

    def __extract_mlir_values__(self) -> list[ir.Value]:
        """What goes through a loop or a branch of the kernel."""
        return extract_mlir_values(self._held()) if self._stamped else []

    def __new_from_mlir_values__(self, values: list[ir.Value]) -> PhaseClock:
        """The same clock with other values."""
        clock = copy(self)
        if self._stamped:
            clock._words, clock._lane, clock._number = new_from_mlir_values(self._held(), values)
        return clock

    def _held(self) -> tuple[Any, ...]:
        return self._words, self._lane, self._number

    def mark(self, name: str, *values: Any) -> None:
        """Ends a phase, once the values, which are numbers, have arrived; ValueError for an unknown phase."""
        if name not in self._names:
            raise ValueError(f"there is no phase {name}, there are {', '.join(self._names)}")
        if self._stamped:
            self._pass(self._names.index(name), *values)

    def end(self) -> None:
        """Leaves the record."""
        if self._stamped:
            first, count = (_CYCLES, len(self._names)) if self._stamped == 1 else (_COUNT, 1)
            _leave(*self._held(), first, count)

    def _cycles(self, *values: Any) -> Uint32:
        for value in values:
            _await(value)
        return _read("clock")

    def _pass(self, phase: int, *values: Any) -> None:
        now = self._cycles(*values)
        if self._stamped == 1:
            self._words[_CYCLES + phase] = self._words[_CYCLES + phase] + now - self._words[_LAST]
            self._words[_LAST] = now
        else:
            _note(*self._held(), Uint32(phase << 26), now)


def _define(names: tuple[str, ...], stamped: int) -> None:
    """Defines the variables of the module by which the host finds the phases, and gives a place for records."""
    function = ir.InsertionPoint.current.block.owner
    while "nvvm.reqntid" not in function.attributes:
        function = function.parent
    text = ", ".join(names) + "\0"
    word, external = ir.IntegerType.get_signless(64), ir.Attribute.parse("#llvm.linkage<external>")
    array = ir.Type.parse(f"!llvm.array<{len(text)} x i8>")
    with ir.InsertionPoint.at_block_begin(function.parent.regions[0].blocks[0]), ir.Location.unknown():
        llvm.GlobalOp(array, "gdnbench_phase_names", external, value=ir.StringAttr.get(text), addr_space=1)
        for name in ("gdnbench_phase_records", "gdnbench_phase_passes")[:stamped]:
            llvm.GlobalOp(word, name, external, value=ir.IntegerAttr.get(word, 0), addr_space=1)


def _read(register: str) -> Uint32:
    """Reads a register of the SM, where it stands: nothing that touches memory crosses it."""
    text = f"mov.u32 $0, %{register};"
    return Uint32(llvm.inline_asm(Uint32.mlir_type, [], text, "=r,~{memory}", has_side_effects=True))


def _await(value: Any) -> None:
    """A branch that needs the value, before which no compiler may read the clock. One value in 2^32 sleeps a moment."""
    text = "{ .reg .pred never; setp.eq.u32 never, {$r0}, 0x7fedcba9; @never nanosleep.u32 0; }"
    bits = value if value.width == 32 else value.to(Uint32)
    cute.arch.inline_ptx(text, read_only_args=[bits.bitcast(Uint32)])


def _place(name: str, at: Int64) -> cute.Tensor:
    """Words from word `at` of what a variable of the module points to."""
    address = cute.arch.inline_ptx(f"ld.global.u64 {{$w0}}, [{name}];", write_only_types=[Int64])
    pointer = cute.make_ptr(Uint32, address + 4 * at, cute.AddressSpace.gmem, assumed_align=4)
    return cute.make_tensor(pointer, cute.make_layout(_ROOM))


@cute.jit
def _note(words: cute.Tensor, lane: Int32, number: Int64, phase: Uint32, now: Uint32) -> None:
    if lane == 0 and words[_COUNT] < _ROOM:
        passes = _place("gdnbench_phase_passes", number * _ROOM + words[_COUNT])
        passes[0] = phase | (now - words[_BEGIN])
    words[_COUNT] = words[_COUNT] + 1


@cute.jit
def _leave(words: cute.Tensor, lane: Int32, number: Int64, first: Constexpr, count: Constexpr) -> None:
    """Leaves a record: the head, and behind it `count` of the clock's words."""
    end_ns, end = _read("globaltimer_lo"), _read("clock")
    if lane == 0:
        record = _place("gdnbench_phase_records", number * (_HEAD + count))
        record[0] = words[_BEGIN_NS]
        record[1] = end_ns
        record[2] = _read("smid")
        record[3] = end - words[_BEGIN]
        for each in range_constexpr(count):
            record[_HEAD + each] = words[first + each]
