"""One thing to build, its result, and the messages about it between the parent and a builder process."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from gdnbench import errors
from gdnbench.catalog.entry import Broken, CatalogEntry
from gdnbench.catalog.load import load_kernel, load_op
from gdnbench.codegen.build import build_key
from gdnbench.errors import BuildError, GdnbenchError
from gdnbench.model.case import Variant
from gdnbench.model.code import Build
from gdnbench.model.kernel import CudaKernel, TritonKernel
from gdnbench.model.workload import Workload

Result = Build | GdnbenchError


@dataclass(frozen=True)
class Job:
    """A variant to build for an architecture; raises TypeError if its kernel is not compiled, such as a `TorchKernel`.

    Attributes:
        workload: its run-time axes matter only to the kernel's `warps` or `stages`.
        launch: the entry of the launch; empty for the kernel's first.
        stamped: for a CUDA kernel, whether its marks read the clock, as `gdnbench phases` needs.
        disassembled: whether the widest load is read from its code; not needed to see whether it compiles.
    """

    entry: CatalogEntry = field(hash=False)  # holds dicts; the variant tells kernels apart
    variant: Variant
    workload: Workload
    arch: str
    launch: str = ""
    stamped: bool = False
    disassembled: bool = True

    def __post_init__(self) -> None:
        kernel = self.entry.kernel
        if not isinstance(kernel, CudaKernel | TritonKernel):
            raise TypeError(f"{kernel.name} is a {type(kernel).__name__}, which has no cubin")

    @property
    def key(self) -> str:
        """The cache's key, shared by jobs of one build; raises BuildError if the kernel's `warps` or `stages` fails."""
        return build_key(
            self.entry, self.variant.params, self.workload, self.arch, launch=self.launch, stamped=self.stamped
        )

    def __str__(self) -> str:
        marks = " with its phases stamped" if self.stamped else ""
        of = f", {self.launch}" if self.launch else ""
        return f"{self.variant.label}{of} at {self.workload.series or self.workload} for {self.arch}{marks}"


def encode_job(job: Job) -> str:
    """Encodes a job as a line of JSON, for a builder process."""
    request = {
        "op_folder": str(job.entry.op_folder),
        "folder": str(job.entry.folder),
        "label": job.variant.label,
        "params": dict(job.variant.params),
        "shape": job.workload.sizes,
        "arch": job.arch,
        "launch": job.launch,
        "stamped": job.stamped,
        "disassembled": job.disassembled,
    }
    return json.dumps(request)


def decode_job(line: str) -> Job:
    """Decodes a job and loads its kernel again from its folder.

    Raises BuildError if the kernel cannot be loaded any more, and ParamError for params that it does not have.
    """
    request = json.loads(line)
    op = load_op(Path(request["op_folder"]))
    entry = op if isinstance(op, Broken) else load_kernel(Path(request["folder"]), op)
    if isinstance(entry, Broken):
        raise BuildError(f"{entry.folder}: {entry.reason}")
    params = entry.kernel.resolve(request["params"])
    variant = Variant(entry.kernel.name, request["label"], params=params)
    workload = entry.op.workload(request["shape"])
    how = (request["launch"], request["stamped"], request["disassembled"])
    return Job(entry, variant, workload, request["arch"], *how)


class BuildStage(StrEnum):
    """The stage of a job in a builder; each has a limit of its own."""

    STARTING = "starting"  # it loads the compilers
    IMPORTING = "importing"  # it runs the kernel's source, which may do anything
    COMPILING = "compiling"


@dataclass(frozen=True)
class StageBegan:
    """The message that a builder begins a stage of its job."""

    stage: BuildStage


@dataclass(frozen=True)
class Built:
    """The message that a job is done."""

    build: Build


@dataclass(frozen=True)
class NotBuilt:
    """The message that a job failed; `error` names a class in `gdnbench.errors`."""

    error: str
    message: str
    hint: str


Reply = StageBegan | Built | NotBuilt
REPLIES: tuple[type[Reply], ...] = (StageBegan, Built, NotBuilt)


def reply_of(result: Result) -> Built | NotBuilt:
    """Returns the message for a result."""
    if isinstance(result, Build):
        return Built(result)
    return NotBuilt(type(result).__name__, result.message, result.hint)


def result_of(reply: Built | NotBuilt) -> Result:
    """Returns the result in a message; an error has the class that was raised."""
    if isinstance(reply, Built):
        return reply.build
    kind = getattr(errors, reply.error, BuildError)
    known = kind if issubclass(kind, GdnbenchError) else BuildError
    return known(reply.message, reply.hint)
