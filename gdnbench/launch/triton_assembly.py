"""Inline PTX of Triton kernels without a GPU: each call becomes a kernel of its own for the interpreter of PTX.

A thread is one instance of the text, which takes `pack` elements of each operand, as
`triton.language.inline_asm_elementwise` says; elements below 32 bits are packed into registers. What reaches beyond its
registers, to memory, other lanes or special registers, depends on where a GPU runs it, and is not interpreted.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gdnbench.errors import NotInterpretedError
from gdnbench.ptx.launch import run_program
from gdnbench.ptx.program import WARP, LaunchGrid, Program
from gdnbench.ptx.reader import read_program
from gdnbench.ptx.segments import Tensor

_ENTRY, _TARGET, _THREADS = "inline_asm", "sm_90a", 4 * WARP
_REGISTER_TYPES = {"h": "b16", "r": "b32", "l": "b64", "f": "f32", "d": "f64"}
"""PTX's type of a register by LLVM's letter for it."""

_BITS = {"b16": 16, "b32": 32, "b64": 64, "f32": 32, "f64": 64}
_REACHES_OUT = frozenset(
    {"atom", "red", "cp", "prefetch", "shfl", "vote", "match", "redux", "activemask", "elect", "bar", "barrier"}
    | {"mbarrier", "mma", "wmma", "wgmma", "ldmatrix", "stmatrix", "tcgen05"}
)


@dataclass(frozen=True)
class _Form:
    """What a call compiles to: its text and, of outputs then inputs, each register's type; `count` are outputs."""

    text: str
    registers: tuple[str, ...]
    count: int


def interpret_inline_asm(
    text: str, constraints: str, values: Sequence[Any], types: Sequence[Any], _is_pure: bool, pack: int
) -> Any:
    """Computes `inline_asm_elementwise` on handles of one shape; raises NotImplementedError for what is not known."""
    from triton.runtime.interpreter import TensorHandle, _get_np_dtype

    shape = np.shape(values[0].data) if values else ()
    elements = int(np.prod(shape, dtype=int))
    if not values or pack < 1 or elements % pack:
        raise NotImplementedError("inline_asm without operands, or not in whole packs, is not interpreted")
    kinds = [np.dtype(_get_np_dtype(each.scalar)) for each in types]
    instances = elements // pack
    inputs = [_packed(np.asarray(each.data).reshape(instances, pack)) for each in values]
    widths = [*(_register_bytes(kind, pack) for kind in kinds), *(each.itemsize for each in inputs)]
    packs = [pack * kind.itemsize // width for kind, width in zip(kinds, widths, strict=False)]
    counts = [*packs, *(each.shape[1] for each in inputs)]
    form = _read_constraints(
        text, constraints, [width for width, n in zip(widths, counts, strict=True) for _ in range(n)]
    )
    if form.count != sum(packs):
        raise NotImplementedError(f"inline_asm has {form.count} outputs, and its types fill {sum(packs)} registers")
    outputs = [np.zeros((instances, count), f"u{width}") for count, width in zip(packs, widths, strict=False)]
    _run(_program(form), [*outputs, *inputs], counts, instances)
    results = [
        TensorHandle(output.view(kind).reshape(shape), each.scalar)
        for output, kind, each in zip(outputs, kinds, types, strict=True)
    ]
    return _Call(results)


@dataclass(frozen=True)
class _Call:
    results: list[Any]

    def get_result(self, index: int) -> Any:
        """The handle of one result, as Triton asks its builder for it."""
        return self.results[index]


def _register_bytes(kind: np.dtype[Any], pack: int) -> int:
    """Bytes of a register of elements: 4 where several smaller ones fill it, else their own."""
    return 4 if kind.itemsize < 4 <= pack * kind.itemsize else kind.itemsize


def _packed(elements: NDArray[Any]) -> NDArray[Any]:
    """The elements [instances, pack] as registers [instances, n] of unsigned integers."""
    width = _register_bytes(elements.dtype, elements.shape[1])
    if elements.shape[1] * elements.itemsize % width:
        raise NotImplementedError("inline_asm on packs that fill no whole registers is not interpreted")
    return np.ascontiguousarray(elements).view(f"u{width}")


def _read_constraints(text: str, constraints: str, widths: Sequence[int]) -> _Form:
    letters = [each.strip() for each in constraints.split(",")]
    types = [_REGISTER_TYPES.get(each.lstrip("=")) for each in letters]
    count = sum(each.startswith("=") for each in letters)
    fit = [each is not None and _BITS[each] == 8 * width for each, width in zip(types, widths, strict=False)]
    if len(letters) != len(widths) or not all(fit) or any(each.startswith("=") for each in letters[count:]):
        raise NotImplementedError(f"inline_asm with the constraints {constraints!r} is not interpreted")
    return _Form(text, tuple(each for each in types if each), count)


def _lines(form: _Form) -> Iterator[str]:
    """A kernel whose parameters are a tensor for each register, a row an instance, and the number of instances."""
    count = len(form.registers)
    tensors = ", ".join(f".param .u64 p{number}" for number in range(count))
    yield f".version 8.0\n.target {_TARGET}\n.address_size 64\n.visible .entry {_ENTRY}({tensors}, .param .u32 last) {{"
    yield ".reg .pred %over; .reg .b32 %at<4>; .reg .b64 %offset, %place;"
    yield from (f".reg .{kind} %asm{number};" for number, kind in enumerate(form.registers))
    yield "mov.u32 %at0, %ctaid.x; mov.u32 %at1, %ntid.x; mov.u32 %at2, %tid.x; mad.lo.s32 %at3, %at0, %at1, %at2;"
    yield "ld.param.u32 %at0, [last]; setp.ge.u32 %over, %at3, %at0; @%over ret;"
    for number in range(form.count, count):
        yield from _address(form, number)
        yield f"ld.global.{form.registers[number]} %asm{number}, [%place];"
    body = re.sub(r"\$(\d+)", lambda found: f"%asm{found[1]}", form.text.replace("$$", "\0"))
    yield f"{{\n{body.replace(chr(0), '$')}\n}}"
    for number in range(form.count):
        yield from _address(form, number)
        yield f"st.global.{form.registers[number]} [%place], %asm{number};"
    yield "ret;\n}"


def _address(form: _Form, number: int) -> Iterator[str]:
    yield f"ld.param.u64 %place, [p{number}]; mul.wide.u32 %offset, %at3, {_BITS[form.registers[number]] // 8};"
    yield "add.s64 %place, %place, %offset;"


@lru_cache(maxsize=64)
def _program(form: _Form) -> Program:
    """The kernel, read once; NotImplementedError if ptxas refuses it, or it does more than compute."""
    text = "\n".join(_lines(form))
    _assemble(text)
    try:
        program = read_program(text, _ENTRY)
    except NotInterpretedError as error:
        raise NotImplementedError(f"inline_asm: {error.message}") from error
    accesses = [each.name for each in program.instructions if each.name in {"ld", "st"}]
    own = 2 * len(form.registers) + 1  # of a register its address and its value, and the number of instances
    reaches_out = any(each.name in _REACHES_OUT for each in program.instructions) or "%" in form.text
    if len(accesses) > own or reaches_out:
        raise NotImplementedError("inline_asm that reaches memory, other lanes or special registers is not interpreted")
    return program


def _assemble(text: str) -> None:
    """Raises NotImplementedError for PTX that ptxas refuses: the kernel's build says why, with its line."""
    from triton import knobs

    with tempfile.TemporaryDirectory(prefix="gdnbench-asm-") as folder:
        source = Path(folder) / "asm.ptx"
        source.write_text(text)
        command = [knobs.nvidia.ptxas.path, f"-arch={_TARGET}", "-o", "/dev/null", str(source)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            raise NotImplementedError("inline_asm is refused by ptxas")


def _run(program: Program, operands: Sequence[NDArray[Any]], counts: Sequence[int], instances: int) -> None:
    """Runs the kernel on operands [instances, n], each column of which is a register; changes outputs in place."""
    columns = [
        (operand, column, np.ascontiguousarray(operand[:, column]))
        for operand, count in zip(operands, counts, strict=True)
        for column in range(count)
    ]
    tensors = [Tensor(f"register {number}", data.view(np.uint8)) for number, (*_, data) in enumerate(columns)]
    grid = LaunchGrid((-(-instances // _THREADS), 1, 1), _THREADS, 0)
    try:
        faults, _ = run_program(program, grid, [*tensors, np.uint32(instances).tobytes()], counts_traffic=False)
    except NotInterpretedError as error:
        raise NotImplementedError(f"inline_asm: {error.message}") from error
    if faults:
        raise NotImplementedError(f"inline_asm: {faults[0]}")
    for operand, column, data in columns:
        operand[:, column] = data
