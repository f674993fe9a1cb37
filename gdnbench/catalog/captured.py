"""Reads captured inputs: safetensors files of an op's inputs as a model produced them, checked against the op.

A file's workload follows from the shapes of its tensors and from the tensors of list offsets. The workload's profile
names the file and a part of its hash, so that the inputs are part of the identity of what is measured.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, deserialize

from gdnbench.errors import ShapeError, UsageError
from gdnbench.model.declaration import Dtype, DtypeOf, TensorSpec, captured_profile
from gdnbench.model.op import Op
from gdnbench.model.workload import Sizes, Workload
from gdnbench.origin import is_folder
from gdnbench.store.schema import InputsDocument

ENDING = ".safetensors"

_DTYPES: Mapping[Dtype, str] = {
    "bf16": "BF16",
    "fp16": "F16",
    "fp32": "F32",
    "fp64": "F64",
    "fp8e4m3": "F8_E4M3",
    "fp4x2": "U8",
    "int8": "I8",
    "int32": "I32",
    "int64": "I64",
    "bool": "BOOL",
}
"""Names of the element types in safetensors."""

_EXPONENTS = {
    "BF16": (np.uint16, 0x7F80),
    "F16": (np.uint16, 0x7C00),
    "F32": (np.uint32, 0x7F800000),
    "F64": (np.uint64, 0x7FF0000000000000),
    "F8_E4M3": (np.uint8, 0x7F),  # no infinity; one NaN
}
"""Integer type and exponent bits of each float type: all are set in an infinity or a NaN."""
_INTEGERS = {"I32": np.int32, "I64": np.int64}


@dataclass(frozen=True)
class CapturedFile:
    """A file of captured inputs that fits its op; `sha256` is the hex digest of its content."""

    path: Path
    sha256: str
    workload: Workload

    @property
    def profile(self) -> str:
        """The name of its inputs in tables: `file:layer-3-1f0c2d3e`."""
        return self.workload.profile


@dataclass(frozen=True)
class _Stored:
    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @property
    def values(self) -> list[int]:
        return [int(each) for each in np.frombuffer(self.data, _INTEGERS[self.dtype])]


def read_captured(op: Op, path: Path, sizes: Sizes) -> tuple[CapturedFile, ...]:
    """Reads a file of captured inputs, or all files of a folder in the order of their names.

    `sizes` are of axes that no input's shape shows, such as one that decides what is written. Raises UsageError for a
    file that cannot be read, is truncated or does not hold the op's inputs; the hint lists them.
    """
    paths = captured_files(path)
    if not paths:
        raise UsageError(f"--inputs {path}: the folder holds no *{ENDING}", _expected(op))
    return tuple({each.profile: each for each in (_read(op, file, sizes) for file in paths)}.values())


def document_of(file: CapturedFile) -> InputsDocument:
    """The description of a file in `run.json`."""
    return {"profile": file.profile, "path": str(file.path), "sha256": file.sha256}


def find_again(stored: Sequence[InputsDocument], path: Path | None, run: str) -> list[InputsDocument]:
    """Finds a stopped run's captured inputs by hash, in `path` or where they were; UsageError if one is gone."""
    if path is not None and not stored:
        raise UsageError(f"{run} has no captured inputs", "leave --inputs out")
    by_hash = {_hash(each): each for each in captured_files(path)} if path is not None and stored else {}
    documents: list[InputsDocument] = []
    for each in stored:
        now = Path(each["path"]) if path is None else by_hash.get(each["sha256"])
        if now is None or _hash(now) != each["sha256"]:
            message = f"{each['path']}, whose inputs {run} measures, is gone or has changed"
            raise UsageError(message, "say where it lies now: --inputs FILE.safetensors, or start a new run")
        documents.append({**each, "path": str(now)})
    return documents


def captured_files(path: Path) -> list[Path]:
    """The absolute path of a file, or of each captured file in a folder."""
    path = path.absolute()
    return sorted(path.glob(f"*{ENDING}")) if is_folder(path) else [path]


def _hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _read(op: Op, path: Path, sizes: Sizes) -> CapturedFile:
    try:
        content = path.read_bytes()
        stored = deserialize(content)  # type: ignore[no-untyped-call]
    except OSError as error:
        raise UsageError(f"--inputs {path}: {error.strerror or error}", "name a file or a folder of files") from error
    except SafetensorError as error:
        raise UsageError(f"--inputs {path} is not a whole file of safetensors: {error}", _expected(op)) from error
    tensors = {name: _Stored(each["dtype"], tuple(each["shape"]), each["data"]) for name, each in stored}
    try:
        workload = _workload_of(op, tensors, sizes)
    except UsageError as error:
        raise UsageError(f"--inputs {path}: {error.message}", error.hint or _expected(op)) from error
    sha256 = hashlib.sha256(content).hexdigest()
    return CapturedFile(path, sha256, replace(workload, profile=captured_profile(path.stem, sha256)))


def _workload_of(op: Op, tensors: Mapping[str, _Stored], hidden: Sizes) -> Workload:
    """The workload that these inputs belong to; raises UsageError if there is none."""
    declared = {spec.name: spec for spec in op.inputs}
    if missing := [name for name in declared if name not in tensors]:
        raise UsageError(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing", _expected(op))
    if extra := [name for name in tensors if name not in declared]:
        raise UsageError(f"{', '.join(extra)}: no input of {op.name}", _expected(op))
    for name, spec in declared.items():
        _check_form(spec, tensors[name])
    sizes: dict[str, int | Sequence[int]] = {**_axes_shown(op, tensors)}
    sizes |= {name: _between(source, tensors[source].values) for name, source in op.ends.items()}
    for name, size in hidden.items():
        if sizes.setdefault(name, size) != size:
            raise UsageError(f"its tensors have {name}={sizes[name]}, and --shape sets {size}", "leave --shape out")
    try:
        workload = op.workload(sizes)
    except ShapeError as error:
        raise UsageError(error.message, _expected(op)) from error
    _check_sizes(op, workload, tensors)
    _check_numbers(tensors)
    return workload


def _check_form(spec: TensorSpec, tensor: _Stored) -> None:
    if tensor.dtype not in {_DTYPES[dtype] for dtype in spec.dtypes} or len(tensor.shape) != len(spec.dims):
        raise UsageError(f"{spec.name} is {_form(tensor)}, and {_wanted(spec)} is expected")


def _axes_shown(op: Op, tensors: Mapping[str, _Stored]) -> dict[str, int]:
    axes = {axis.name for axis in op.workloads.axes}
    agreed: dict[str, tuple[int, str]] = {}
    for spec in op.inputs:
        tensor = tensors[spec.name]
        shown = [(str(dim), size) for dim, size in zip(spec.dims, tensor.shape, strict=True) if dim in axes]
        if isinstance(spec.dtype, DtypeOf):
            sizes = (size for size, dtype in spec.dtype.dtypes.items() if _DTYPES[dtype] == tensor.dtype)
            shown.append((spec.dtype.axis, next(sizes)))
        for axis, size in shown:
            before, first = agreed.setdefault(axis, (size, spec.name))
            if before != size:
                text = f"its tensors do not fit: {first} has {axis}={before}, and {spec.name} has {axis}={size}"
                raise UsageError(text)
    return {axis: size for axis, (size, _) in agreed.items()}


def _between(source: str, ends: Sequence[int]) -> tuple[int, ...]:
    lengths = tuple(end - begin for begin, end in pairwise(ends))
    if not lengths or ends[0] != 0 or min(lengths) < 0:
        raise UsageError(f"{source} does not begin with 0, or one of its numbers is below that before it")
    return lengths


def _check_sizes(op: Op, workload: Workload, tensors: Mapping[str, _Stored]) -> None:
    named = op.named_sizes(workload)
    for spec in op.inputs:
        wanted = spec.sizes(named)
        if tensors[spec.name].shape != wanted:
            message = f"{spec.name} is {_form(tensors[spec.name])}, and {_wanted(spec)} is {list(wanted)} at {workload}"
            raise UsageError(message, f"no tensor shows {_hidden(op)}: --shape sets that" if _hidden(op) else "")


def _hidden(op: Op) -> str:
    shown = {*op.ends, *(dim for spec in op.inputs for dim in spec.dims)}
    shown |= {spec.dtype.axis for spec in op.inputs if isinstance(spec.dtype, DtypeOf)}
    return ", ".join(name for name in op.workloads.names if name not in shown)


def _check_numbers(tensors: Mapping[str, _Stored]) -> None:
    for name, tensor in tensors.items():
        if tensor.dtype in _EXPONENTS:
            bits, mask = _EXPONENTS[tensor.dtype]
            strange = np.frombuffer(tensor.data, bits) & bits(mask) == mask
            if strange.any():
                index = [int(each) for each in np.unravel_index(strange.argmax(), tensor.shape)]
                raise UsageError(f"{name} holds a NaN or an infinity at {index}", "inputs are finite numbers")


def _expected(op: Op) -> str:
    return f"the inputs of {op.name} are {', '.join(f'{spec.name} {_wanted(spec)}' for spec in op.inputs)}"


def _wanted(spec: TensorSpec) -> str:
    return f"{' or '.join(spec.dtypes)} [{', '.join(map(str, spec.dims))}]"


def _form(tensor: _Stored) -> str:
    names = {stored: dtype for dtype, stored in _DTYPES.items()}
    return f"{names.get(tensor.dtype, tensor.dtype)} {list(tensor.shape)}"
