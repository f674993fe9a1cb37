"""The name of a build: everything that decides the code, hashed."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from gdnbench.binary import nvrtc, triton_aot
from gdnbench.catalog import Entry
from gdnbench.errors import BuildError
from gdnbench.model import CudaKernel, Kernel, Params, Shape, TritonKernel

_SCHEMA = 1  # raise it when what is stored, or how it is read from a cubin, changes


def build_key(entry: Entry, params: Params, shape: Shape, arch: str, *, stamped: bool = False) -> str:
    """SHA-256, shortened, of what decides the code; equal for shapes that differ only in the batch size.

    Loads no compiler, so the parent process can ask.

    Raises:
        BuildError: if the kernel's `warps` or `stages` fails, or a file in its folder cannot be read.
        TypeError: for a kernel that is not compiled, such as a `TorchKernel`.
    """
    facts = {
        "schema": _SCHEMA,
        "source": str(entry.source),  # line tables name it, so a copy elsewhere is another build
        "source_hash": _source_hash(entry),
        "arguments": [*((spec.name, spec.dtype) for spec in (*entry.op.inputs, *entry.op.outputs)), *entry.op.scalars],
        "params": dict(params),
        "heads": {axis: size for axis, size in shape.axes().items() if axis != "B"},
        "arch": arch,
        "compiler": _fingerprint(entry.kernel, params, shape, stamped=stamped),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def _source_hash(entry: Entry) -> str:
    try:
        return entry.source_hash()
    except OSError as error:
        raise BuildError(f"{entry.folder}: a file in it cannot be read: {error.strerror or error}") from error


def _fingerprint(kernel: Kernel, params: Params, shape: Shape, *, stamped: bool) -> dict[str, Any]:
    if isinstance(kernel, CudaKernel):
        return nvrtc.fingerprint(stamped=stamped)
    if isinstance(kernel, TritonKernel):
        return triton_aot.fingerprint(kernel, params, shape)
    raise TypeError(f"{kernel.name} is a {type(kernel).__name__}, which has no cubin")
