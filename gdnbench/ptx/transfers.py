"""Loads, stores, atomics and asynchronous copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gdnbench.ptx.arithmetic import compute
from gdnbench.ptx.findings import Fault
from gdnbench.ptx.machine import Machine
from gdnbench.ptx.numbers import BITS, DTYPES, Array
from gdnbench.ptx.ordering import IntArray
from gdnbench.ptx.program import NO_LINE, WIDTHS, Operand, PtxInstruction, unknown
from gdnbench.ptx.segments import SHARED_WINDOW, Access
from gdnbench.ptx.tensor_maps import copy_boxes
from gdnbench.ptx.waiting import arrive_after_copies, check_shown

_SPACES = ("global", "shared", "local", "const", "param")
LEAST_BULK_BYTES = 16


def _space(instruction: PtxInstruction) -> str:
    """Returns the space that a load, store or atomic names, or `generic` if it names none."""
    for word in instruction.modifiers:
        stem = word.split("__")[0]
        if stem in _SPACES:
            return "global" if stem == "const" else stem
    return "generic"


def _access(machine: Machine, instruction: PtxInstruction, operand: Operand, kind: str, count: int) -> Access:
    addresses = machine.addresses(operand)
    return Access(machine.lanes, addresses, WIDTHS[kind], count, machine.step, instruction)


def _load(machine: Machine, instruction: PtxInstruction) -> int:
    kind, count, space = instruction.types[-1], instruction.vector, _space(instruction)
    target, source = instruction.operands[:2]
    targets = target.parts or (target,)
    if space == "param":
        width = WIDTHS[kind]
        content = machine.parameter(source, width * count)
        for place, each in enumerate(targets):
            value = np.frombuffer(content, dtype=BITS[width], count=1, offset=place * width)[0]
            machine.write(each, np.asarray(value), kind)
        return machine.step + 1
    values = machine.memory.load(space, _access(machine, instruction, source, kind, count))
    for place, each in enumerate(targets):
        machine.write(each, np.ascontiguousarray(values[:, place]).view(_bits(kind)), kind)
    return machine.step + 1


def _bits(kind: str) -> np.dtype[np.generic]:
    """Returns the integer dtype by whose sign a loaded value is extended."""
    return DTYPES[kind] if kind[0] in "su" else BITS[WIDTHS[kind]]


def _store(machine: Machine, instruction: PtxInstruction) -> int:
    kind, count, space = instruction.types[-1], instruction.vector, _space(instruction)
    target, source = instruction.operands[:2]
    if space == "param":
        raise unknown(instruction)
    columns = [machine.read(each, f"u{8 * WIDTHS[kind]}") for each in source.parts or (source,)]
    values = np.stack([np.broadcast_to(column, machine.lanes.shape) for column in columns], axis=1)
    machine.memory.store(space, _access(machine, instruction, target, kind, count), values)
    return machine.step + 1


def _atomic(machine: Machine, instruction: PtxInstruction) -> int:
    """Executes `atom` and `red`: lanes take turns in their order, which a GPU does not guarantee."""
    kind = instruction.types[-1]
    has_result = instruction.name == "atom"
    target = instruction.operands[0] if has_result else None
    place, *values = instruction.operands[1 if has_result else 0 :]
    if instruction.vector > 1:
        raise unknown(instruction)
    given = [np.broadcast_to(machine.read(each, kind), machine.lanes.shape) for each in values]
    function = _atomic_function(instruction, kind)
    bits = BITS[WIDTHS[kind]]

    def replace(old: Array, rows: IntArray) -> Array:
        new = function(old.view(DTYPES[kind]), *(each[rows] for each in given))
        return np.ascontiguousarray(new).view(bits)

    old = machine.memory.update(_space(instruction), _access(machine, instruction, place, kind, 1), replace)
    if target is not None:
        machine.write(target, old, f"b{8 * WIDTHS[kind]}")
    return machine.step + 1


def _atomic_function(instruction: PtxInstruction, kind: str) -> Callable[..., Array]:
    name = next((word for word in instruction.modifiers if word in _ATOMICS), "")
    if name in {"add", "min", "max"} and kind in {"f16x2", "bf16x2", "bf16"}:
        return lambda old, value: compute(_named(name, kind), kind, (old, value))
    if not name:
        raise unknown(instruction)
    function: Callable[..., Array] = _ATOMICS[name]
    return function


def _named(name: str, kind: str) -> PtxInstruction:
    return PtxInstruction(name, (kind,), (), None, NO_LINE)


_ATOMICS: dict[str, Callable[..., Any]] = {
    "add": lambda old, value: old + value,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda _old, value: value,
    "cas": lambda old, expected, value: np.where(old == expected, value, old),
    "inc": lambda old, limit: np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, limit: np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1)),
}


def _copy(machine: Machine, instruction: PtxInstruction) -> int:
    words = instruction.modifiers
    if "mbarrier" in words:
        return arrive_after_copies(machine, instruction)
    if "bulk" in words:
        return _bulk(machine, instruction)
    if "commit_group" in words:
        machine.copies.commit(machine.lanes, machine.ordering.now)
    elif "wait_group" in words:
        machine.copies.wait(machine.lanes, int(instruction.operands[0].text))
        done = machine.ordering.copies_done
        np.maximum(done, machine.copies.done, out=done)
    elif "wait_all" in words:
        machine.ordering.copies_done[machine.lanes] = machine.ordering.now
    else:
        _copy_lanes(machine, instruction)
    return machine.step + 1


def _copy_lanes(machine: Machine, instruction: PtxInstruction) -> None:
    target, source, size, *more = instruction.operands
    nbytes = int(size.text)
    taken = _bytes_taken(machine, nbytes, more[:-1] if instruction.has("L2__cache_hint") else more)
    places = [machine.addresses(each) for each in (source, target)]
    text = f"copies {nbytes} bytes from or to an address that is no multiple of {nbytes}"
    _check_multiples(machine, instruction, places, nbytes, text)
    accesses = [Access(machine.lanes, each, 1, nbytes, machine.step, instruction) for each in places]
    machine.memory.copy_in(("global", accesses[0]), ("shared", accesses[1]), taken, None)


def _bytes_taken(machine: Machine, nbytes: int, more: Sequence[Operand]) -> Array:
    """Returns how many bytes `cp.async` reads: all, as many as an operand says, or none where a predicate holds."""
    taken = np.full(len(machine.lanes), nbytes, dtype=np.int64)
    if not more:
        return taken
    if len(more) > 1:
        raise unknown(machine.instruction)
    if machine.program.registers.get(more[0].text) == "pred":
        return np.where(machine.read(more[0], "pred"), 0, taken)
    return np.broadcast_to(machine.read(more[0], "u32"), taken.shape).astype(np.int64)


def _check_multiples(
    machine: Machine, instruction: PtxInstruction, values: Sequence[Array], of: int, text: str
) -> None:
    bad = sum(int(np.count_nonzero(each % of)) for each in values)
    if bad:
        machine.findings.add(Fault.MISALIGNED, instruction.at, text, count=bad)


def _bulk(machine: Machine, instruction: PtxInstruction) -> int:
    words = instruction.modifiers
    if "prefetch" in words:
        return machine.step + 1
    if "commit_group" in words:
        machine.stores.commit(machine.lanes, machine.ordering.now)
    elif "wait_group" in words:
        machine.stores.wait(machine.lanes, int(instruction.operands[0].text))
        machine.end_reads("cp", machine.stores)
    elif "tensor" in words:
        copy_boxes(machine, instruction)
    elif "global" in words and instruction.has("mbarrier__complete_tx__bytes"):
        _bulk_in(machine, instruction)
    elif "bulk_group" in words:
        _bulk_out(machine, instruction)
    else:
        raise unknown(instruction)
    return machine.step + 1


def _bulk_in(machine: Machine, instruction: PtxInstruction) -> None:
    """Copies any number of bytes a lane into shared memory; an mbarrier's phase ends with the last byte."""
    target, source, size, barrier = instruction.operands[:4]
    sizes = np.broadcast_to(machine.read(size, "u32"), machine.lanes.shape).astype(np.int64)
    targets, sources = machine.addresses(target) & ~np.int64(SHARED_WINDOW), machine.addresses(source)
    barriers = machine.addresses(barrier) & ~np.int64(SHARED_WINDOW)
    _check_bulk(machine, instruction, [targets, sources, sizes])
    check_shown(machine, instruction, machine.lanes, barriers)
    for rows in _one_a_block(machine.block[machine.lanes], sizes):
        lanes, nbytes = machine.lanes[rows], int(sizes[rows[0]])
        blocks = machine.block[lanes]
        given = [(int(each), int(block)) for each, block in zip(barriers[rows], blocks, strict=True)]
        phases = [int(machine.mbarrier(each).phase[block]) for each, block in given]
        begin = machine.ordering.begin_transaction
        transactions = np.array([begin(each, phase) for (each, _), phase in zip(given, phases, strict=True)])
        reads, writes = (Access(lanes, each[rows], 1, nbytes, machine.step, instruction) for each in (sources, targets))
        machine.memory.copy_in(("global", reads), ("shared", writes), sizes[rows], transactions)
        for each in np.unique(barriers[rows]):
            named = blocks[barriers[rows] == each]
            machine.mbarrier(int(each)).expect(named, np.full(len(named), -nbytes))
    machine.mbarriers_changed()


def _one_a_block(blocks: IntArray, sizes: IntArray) -> Iterator[IntArray]:
    """Yields positions of bulk copies that are made at once: of one size, and of each block no more than one.

    Those of one block are made one after the other, so that overlaps are found.
    """
    order = np.argsort(blocks, kind="stable")
    first = np.searchsorted(blocks[order], blocks[order])
    turns = np.stack([np.arange(len(order)) - first, sizes[order]], axis=1)
    _, group = np.unique(turns, axis=0, return_inverse=True)
    for number in range(int(group.max()) + 1):
        yield order[group.ravel() == number]


def _bulk_out(machine: Machine, instruction: PtxInstruction) -> None:
    """Copies out of shared memory, one copy a lane; the asynchronous proxy reads until the lane waits for it."""
    target, source, size = instruction.operands[:3]
    sizes = np.broadcast_to(machine.read(size, "u32"), machine.lanes.shape).astype(np.int64)
    targets, sources = machine.addresses(target), machine.addresses(source) & ~np.int64(SHARED_WINDOW)
    _check_bulk(machine, instruction, [targets, sources, sizes])
    for row in range(len(machine.lanes)):
        one, nbytes = machine.lanes[row : row + 1], int(sizes[row])
        reads = Access(one, sources[row : row + 1], 1, nbytes, machine.step, instruction)
        writes = Access(one, targets[row : row + 1], 1, nbytes, machine.step, instruction)
        values, pending = machine.memory.begin_read(reads)
        machine.pending_reads += pending
        machine.memory.store("global", writes, values)


def _check_bulk(machine: Machine, instruction: PtxInstruction, values: Sequence[Array]) -> None:
    text = f"a bulk copy's addresses and size are multiples of {LEAST_BULK_BYTES} bytes; one is not"
    _check_multiples(machine, instruction, values, LEAST_BULK_BYTES, text)


TRANSFERS = {"ld": _load, "ldu": _load, "st": _store, "atom": _atomic, "red": _atomic, "cp": _copy}
