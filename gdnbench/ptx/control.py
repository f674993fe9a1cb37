"""Executes one instruction: branches, moves and comparisons here, all others by the module that knows them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gdnbench.ptx.arithmetic import FLOATS, compare_all, compute, convert, is_arithmetic
from gdnbench.ptx.machine import APART, Handler, LaneState, Machine
from gdnbench.ptx.numbers import BITS, Array, joined_halves
from gdnbench.ptx.program import WIDTHS, Fault, PtxInstruction, unknown
from gdnbench.ptx.reader import ASSERT_FAILS
from gdnbench.ptx.registers import is_known
from gdnbench.ptx.segments import LOCAL_WINDOW, SHARED_WINDOW, text_at
from gdnbench.ptx.tcgen05 import TENSOR_CORE
from gdnbench.ptx.transfers import TRANSFERS
from gdnbench.ptx.waiting import WAITS
from gdnbench.ptx.warpgroups import WARPGROUP_WIDE, watched
from gdnbench.ptx.warps import MATRICES, WARP_WIDE

_IGNORED = (
    "nanosleep", "prefetch", "prefetchu", "setmaxnreg", "pmevent", "createpolicy",
)  # fmt: skip
"""Instructions that change when something happens, and no values."""


def execute(machine: Machine) -> int:
    """Executes the current instruction as `Execute` says; raises NotInterpretedError if it is unknown."""
    instruction = machine.instruction
    handler = machine.handlers.get(machine.step)
    if handler is None:
        handler = machine.handlers[machine.step] = watched(machine, instruction, _handler(instruction))
    lanes, left = machine.lanes, None
    if instruction.guard is not None and instruction.name not in {"bra", "brx"}:
        wanted = machine.spread(instruction.guard, "pred")
        if not wanted.any():
            return machine.step + 1
        if not wanted.all():
            left = lanes[~wanted]
            machine.select(lanes[wanted])
    following = handler(machine, instruction)
    if following is None:
        following = machine.step + 1
    if left is not None and following == APART:
        machine.pc[left] = machine.step + 1
    elif left is not None:  # the handler may have added lanes that waited for these
        machine.select(np.union1d(machine.lanes, left))
    return following


def _handler(instruction: PtxInstruction) -> Handler:
    if not is_known(instruction) or "b128" in instruction.types:
        raise unknown(instruction)
    handler = _HANDLERS.get(instruction.name, _arithmetic if is_arithmetic(instruction) else None)
    if handler is None:
        raise unknown(instruction)
    return handler


def _arithmetic(machine: Machine, instruction: PtxInstruction) -> None:
    if not instruction.types or (instruction.has("sat") and instruction.types[-1] not in FLOATS):
        raise unknown(instruction)
    target, *sources = instruction.operands
    kind = instruction.types[0] if instruction.name == "dp4a" else instruction.types[-1]
    kinds = [kind] * len(sources)
    if instruction.name in {"shl", "shr"}:
        kinds[1] = "u32"
    elif instruction.name in {"bfe", "bfi"}:
        kinds[-2:] = ["u32", "u32"]
    elif instruction.name == "lop3":
        kinds[3:] = ["u32"]
    elif instruction.name in {"mad", "mul"} and instruction.has("wide"):
        kinds[2:] = [f"{kind[0]}{16 * WIDTHS[kind]}"] * (len(kinds) - 2)
    elif instruction.name == "dp4a":
        kinds = ["u32"] * 3
    result = compute(instruction, kind, tuple(map(machine.read, sources, kinds)))
    machine.write(target, result, _result_kind(instruction, kind, result))


def _result_kind(instruction: PtxInstruction, kind: str, result: Array) -> str:
    """Returns the type of a result, by whose sign it is extended into a wider register."""
    if instruction.name in {"popc", "clz", "bfind", "dp4a"}:
        return "u32"
    if result.dtype.kind == "i":
        return f"s{8 * result.dtype.itemsize}"
    return kind if result.dtype.itemsize == WIDTHS[kind] else f"u{8 * result.dtype.itemsize}"


def _branch(machine: Machine, instruction: PtxInstruction) -> int:
    target = machine.program.labels.get(instruction.operands[0].text)
    if target is None:
        raise unknown(instruction)
    if instruction.guard is None:
        return target
    taken = machine.spread(instruction.guard, "pred")
    if taken.all() or not taken.any():
        return target if taken.any() else machine.step + 1
    machine.pc[machine.lanes] = np.where(taken, target, machine.step + 1)
    return APART


def _branch_by_index(machine: Machine, instruction: PtxInstruction) -> int:
    index, table = instruction.operands
    labels = machine.program.tables.get(table.text)
    if labels is None or instruction.guard is not None:
        raise unknown(instruction)
    targets = np.array([machine.program.labels[label] for label in labels])
    machine.pc[machine.lanes] = targets[machine.spread(index, "u32")]
    return APART


def _end(machine: Machine, _instruction: PtxInstruction) -> int:
    machine.state[machine.lanes] = LaneState.ENDED
    machine.progressed()
    return APART


def _trap(machine: Machine, instruction: PtxInstruction) -> int:
    """Executes `trap`, and a call of `__assertfail`, which a failed `assert` makes and which ends the grid."""
    text = "the kernel stops itself with a trap"
    if instruction.name == ASSERT_FAILS:
        condition = text_at(machine.memory.tensors, int(machine.spread(instruction.operands[0], "u64")[0]))
        text = f"the kernel stops itself, for assert({condition}) fails"
    machine.findings.add(Fault.TRAP, instruction.at, text, count=len(machine.lanes))
    return _end(machine, instruction)


def _move(machine: Machine, instruction: PtxInstruction) -> None:
    target, source = instruction.operands
    kind = instruction.types[-1]
    width = 8 * WIDTHS[kind] // len(target.parts or source.parts or (source,))
    if target.parts:
        values = machine.read(source, f"u{8 * WIDTHS[kind]}").astype(np.uint64)
        for place, part in enumerate(target.parts):
            machine.write(part, (values >> np.uint64(width * place)).astype(BITS[width // 8]), f"b{width}")
    elif source.parts:
        joined = np.zeros((), dtype=np.uint64)
        for place, part in enumerate(source.parts):
            joined = joined | machine.read(part, f"u{width}").astype(np.uint64) << np.uint64(width * place)
        machine.write(target, joined.astype(BITS[WIDTHS[kind]]), kind)
    else:
        machine.write(target, machine.read(source, kind), kind)


_WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "global": 0, "const": 0, "param": 0}


def _convert_address(machine: Machine, instruction: PtxInstruction) -> None:
    target, source = instruction.operands
    kind, space = instruction.types[-1], next((word for word in instruction.modifiers if word in _WINDOWS), "")
    if not space:
        raise unknown(instruction)
    window, width = np.int64(_WINDOWS[space]), WIDTHS[kind]
    values = machine.read(source, f"u{8 * width}").astype(np.int64)
    machine.write(target, (values & ~window if instruction.has("to") else values | window).astype(BITS[width]), kind)


def _is_space(machine: Machine, instruction: PtxInstruction) -> None:
    target, source = instruction.operands
    values = machine.read(source, "u64").astype(np.int64)
    window = _WINDOWS.get(instruction.modifiers[0].split("__")[0])
    machine.write(target, values & window != 0 if window else values & (SHARED_WINDOW | LOCAL_WINDOW) == 0, "pred")


def _convert(machine: Machine, instruction: PtxInstruction) -> None:
    if len(instruction.types) != 2:
        raise unknown(instruction)
    target, *sources = instruction.operands
    result = convert(instruction, tuple(machine.read(each, instruction.types[-1]) for each in sources))
    machine.write(target, result, instruction.types[0])


_JOINED: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
}  # fmt: skip


def _set_predicate(machine: Machine, instruction: PtxInstruction) -> None:
    target, a, b, *more = instruction.operands
    kind = instruction.types[-1]
    results = compare_all(instruction, kind, machine.read(a, kind), machine.read(b, kind))
    both = results if len(results) > 1 else (results[0], ~results[0])
    join = next((each for name, each in _JOINED.items() if instruction.has(name)), None)
    for each, values in zip(target.parts or (target,), both, strict=False):
        machine.write(each, join(values, machine.read(more[0], "pred")) if more and join else values, "pred")


def _set(machine: Machine, instruction: PtxInstruction) -> None:
    target, a, b, *more = instruction.operands
    to, kind = instruction.types
    if more:
        raise unknown(instruction)
    results = compare_all(instruction, kind, machine.read(a, kind), machine.read(b, kind))
    width = 8 * WIDTHS[to] // len(results)
    true = _ONES_OF.get(to.removesuffix("x2"), (1 << width) - 1)
    bits = [np.where(result, true, 0).astype(BITS[width // 8]) for result in results]
    machine.write(target, joined_halves(*bits) if len(bits) > 1 else bits[0], f"b{8 * WIDTHS[to]}")


_ONES_OF = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}
"""Bits that `set` writes for true, by type of float; integers are all ones."""


def _select(machine: Machine, instruction: PtxInstruction) -> None:
    target, a, b, by = instruction.operands
    kind = f"b{8 * WIDTHS[instruction.types[0]]}"
    chosen = machine.read(by, "pred") if instruction.name == "selp" else machine.read(by, instruction.types[1]) >= 0
    machine.write(target, np.where(chosen, machine.read(a, kind), machine.read(b, kind)), kind)


def _logic(machine: Machine, instruction: PtxInstruction) -> None:
    if instruction.types[-1] != "pred":
        _arithmetic(machine, instruction)
        return
    target, *sources = instruction.operands
    values = [machine.read(each, "pred") for each in sources]
    machine.write(target, ~values[0] if instruction.name == "not" else _JOINED[instruction.name](*values), "pred")


_HANDLERS: dict[str, Handler] = {
    "bra": _branch,
    "brx": _branch_by_index,
    "ret": _end,
    "exit": _end,
    "trap": _trap,
    ASSERT_FAILS: _trap,
    "mov": _move,
    "cvta": _convert_address,
    "isspacep": _is_space,
    "cvt": _convert,
    "setp": _set_predicate,
    "set": _set,
    "selp": _select,
    "slct": _select,
    **dict.fromkeys(("and", "or", "xor", "not"), _logic),
    **dict.fromkeys(_IGNORED, lambda _machine, _instruction: None),
    **TRANSFERS, **WAITS, **WARP_WIDE, **MATRICES, **WARPGROUP_WIDE, **TENSOR_CORE,
}  # fmt: skip
