"""Loads, stores, atomics and asynchronous copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gdnbench.ptx.arithmetic import compute
from gdnbench.ptx.findings import Fault
from gdnbench.ptx.machine import Machine
from gdnbench.ptx.numbers import BITS, DTYPES, Array, IntArray
from gdnbench.ptx.program import NO_LINE, WIDTHS, Operand, PtxInstruction, unknown
from gdnbench.ptx.segments import Access
from gdnbench.ptx.tensor_maps import copy_boxes, copy_pieces, one_a_block
from gdnbench.ptx.waiting import arrive_after_copies, check_shown

_SPACES = ("global", "shared", "local", "const", "param")
LEAST_BULK_BYTES = 16
_BULK_RULE = f"a bulk copy's addresses and size are multiples of {LEAST_BULK_BYTES} bytes; one is not"


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


def _load(machine: Machine, instruction: PtxInstruction) -> None:
    kind, count, space = instruction.types[-1], instruction.vector, _space(instruction)
    target, source = instruction.operands[:2]
    targets = target.parts or (target,)
    if space == "param":
        content = machine.parameter(source, WIDTHS[kind] * count)
        for each, value in zip(targets, np.frombuffer(content, dtype=BITS[WIDTHS[kind]]), strict=True):
            machine.write(each, value, kind)
        return
    values = machine.memory.load(space, _access(machine, instruction, source, kind, count))
    dtype = DTYPES[kind] if kind[0] in "su" else BITS[WIDTHS[kind]]  # by whose sign the value is extended
    for place, each in enumerate(targets):
        machine.write(each, np.ascontiguousarray(values[:, place]).view(dtype), kind)


def _store(machine: Machine, instruction: PtxInstruction) -> None:
    kind, count, space = instruction.types[-1], instruction.vector, _space(instruction)
    target, source = instruction.operands[:2]
    if space == "param":
        raise unknown(instruction)
    values = np.stack([machine.spread(each, f"u{8 * WIDTHS[kind]}") for each in source.parts or (source,)], axis=1)
    machine.memory.store(space, _access(machine, instruction, target, kind, count), values)


def _atomic(machine: Machine, instruction: PtxInstruction) -> None:
    """Executes `atom` and `red`: lanes take turns in their order, which a GPU does not guarantee."""
    kind = instruction.types[-1]
    target, place, *values = instruction.operands if instruction.name == "atom" else (None, *instruction.operands)
    if instruction.vector > 1 or place is None:
        raise unknown(instruction)
    operands = [machine.spread(each, kind) for each in values if each is not None]
    function = _atomic_function(instruction, kind)
    bits = BITS[WIDTHS[kind]]

    def replace(old: Array, rows: IntArray) -> Array:
        new = function(old.view(DTYPES[kind]), *(each[rows] for each in operands))
        return np.ascontiguousarray(new).view(bits)

    old = machine.memory.update(_space(instruction), _access(machine, instruction, place, kind, 1), replace)
    if target is not None:
        machine.write(target, old, f"b{8 * WIDTHS[kind]}")


def _atomic_function(instruction: PtxInstruction, kind: str) -> Callable[..., Any]:
    name = next((word for word in instruction.modifiers if word in _ATOMICS), "")
    if name in {"add", "min", "max"} and kind in {"f16x2", "bf16x2", "bf16"}:
        arithmetic = PtxInstruction(name, (kind,), (), None, NO_LINE)
        return lambda old, value: compute(arithmetic, kind, (old, value))
    if not name:
        raise unknown(instruction)
    return _ATOMICS[name]


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


def _copy(machine: Machine, instruction: PtxInstruction) -> None:
    words = instruction.modifiers
    if "mbarrier" in words:
        arrive_after_copies(machine, instruction)
    elif "bulk" in words:
        _bulk(machine, instruction)
    elif "commit_group" in words:
        machine.copies.commit(machine.lanes, machine.ordering.now)
    elif "wait_group" in words:
        machine.copies.wait(machine.lanes, int(instruction.operands[0].text))
        done = machine.ordering.copies_done
        np.maximum(done, machine.copies.done, out=done)
    elif "wait_all" in words:
        machine.ordering.copies_done[machine.lanes] = machine.ordering.now
    else:
        _copy_lanes(machine, instruction)


def _copy_lanes(machine: Machine, instruction: PtxInstruction) -> None:
    target, source, size, *more = instruction.operands
    nbytes = int(size.text)
    taken = _bytes_taken(machine, nbytes, more[:-1] if instruction.has("L2__cache_hint") else more)
    places = [machine.addresses(each) for each in (source, target)]
    text = f"copies {nbytes} bytes from or to an address that is no multiple of {nbytes}"
    _check_multiples(machine, places, nbytes, text)
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
    return machine.integers(more[0])


def _check_multiples(machine: Machine, values: Sequence[Array], of: int, text: str) -> None:
    machine.fault(Fault.MISALIGNED, np.concatenate(values) % of != 0, text)


def _bulk(machine: Machine, instruction: PtxInstruction) -> None:
    words = instruction.modifiers
    if "prefetch" in words:
        return
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


def _bulk_in(machine: Machine, instruction: PtxInstruction) -> None:
    """Copies any number of bytes a lane into shared memory; an mbarrier's phase ends with the last byte."""
    target, source, size, barrier = instruction.operands[:4]
    targets, sources, sizes = machine.shared_addresses(target), machine.addresses(source), machine.integers(size)
    barriers = machine.shared_addresses(barrier)
    _check_multiples(machine, [targets, sources, sizes], LEAST_BULK_BYTES, _BULK_RULE)
    check_shown(machine, instruction, machine.lanes, barriers)
    for rows in one_a_block(machine.block[machine.lanes], sizes):
        pieces = sources[rows, None], targets[rows, None], sizes[rows, None]
        copy_pieces(machine, instruction, machine.lanes[rows], barriers[rows], pieces, int(sizes[rows[0]]))
    machine.mbarriers_changed()


def _bulk_out(machine: Machine, instruction: PtxInstruction) -> None:
    """Copies out of shared memory, one copy a lane; the asynchronous proxy reads until the lane waits for it."""
    target, source, size = instruction.operands[:3]
    targets, sources, sizes = machine.addresses(target), machine.shared_addresses(source), machine.integers(size)
    _check_multiples(machine, [targets, sources, sizes], LEAST_BULK_BYTES, _BULK_RULE)
    for row in range(len(machine.lanes)):
        one, nbytes = machine.lanes[row : row + 1], int(sizes[row])
        reads = Access(one, sources[row : row + 1], 1, nbytes, machine.step, instruction)
        writes = Access(one, targets[row : row + 1], 1, nbytes, machine.step, instruction)
        values, pending = machine.memory.begin_read(reads)
        machine.pending_reads += pending
        machine.memory.store("global", writes, values)


TRANSFERS = {"ld": _load, "ldu": _load, "st": _store, "atom": _atomic, "red": _atomic, "cp": _copy}
