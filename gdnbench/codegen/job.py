"""One thing to build, how it ends, and the messages about it between the parent and a builder process."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from gdnbench import errors
from gdnbench.catalog.entry import Broken, Entry
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
    """A variant to build for an architecture.

    Attributes:
        entry: the kernel.
        variant: its params.
        workload: the workload; its run-time axes matter where `warps` or `stages` ask for them.
        arch: the target, `sm_90`.
        launch: the entry of the launch that is meant; empty for the kernel's first.
        stamped: for a CUDA kernel, whether its marks read the clock, as `gdnbench phases` needs.
        disassembled: whether its code is read for the widest load; where only that it compiles is asked, it need not.

    Raises:
        TypeError: for a kernel that is not compiled, such as a `TorchKernel`.
    """

    entry: Entry = field(hash=False)  # holds dicts; the variant tells kernels apart
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
        """What the cache calls its build; jobs of equal key are one build.

        Raises:
            BuildError: if the kernel's `warps` or `stages` fails.
        """
        return build_key(
            self.entry, self.variant.params, self.workload, self.arch, launch=self.launch, stamped=self.stamped
        )

    def __str__(self) -> str:
        marks = " with its phases stamped" if self.stamped else ""
        of = f", {self.launch}" if self.launch else ""
        return f"{self.variant.label}{of} at {self.workload.series or self.workload} for {self.arch}{marks}"


def encode_job(job: Job) -> str:
    """A job as a line of JSON, to ask a builder process for."""
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
    """The job that a line asks for, its kernel loaded again from its folder.

    Raises:
        BuildError: if the kernel cannot be loaded any more.
        ParamError: for params that it does not have.
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
    """How far a builder is with a job; each stage has a limit of its own."""

    STARTING = "starting"  # it loads the compilers
    IMPORTING = "importing"  # it runs the kernel's source, which may do anything
    COMPILING = "compiling"


@dataclass(frozen=True)
class StageBegan:
    """A builder begins a stage of its job."""

    stage: BuildStage


@dataclass(frozen=True)
class Built:
    """A job is done."""

    build: Build


@dataclass(frozen=True)
class NotBuilt:
    """A job failed.

    Attributes:
        error: the name of the class in `gdnbench.errors` that was raised.
        message: its message.
        hint: its hint.
    """

    error: str
    message: str
    hint: str


Reply = StageBegan | Built | NotBuilt
REPLIES: tuple[type[Reply], ...] = (StageBegan, Built, NotBuilt)


def reply_of(result: Result) -> Built | NotBuilt:
    """A result as a message."""
    if isinstance(result, Build):
        return Built(result)
    return NotBuilt(type(result).__name__, result.message, result.hint)


def result_of(reply: Built | NotBuilt) -> Result:
    """The inverse of `reply_of`: an error has the class that was raised."""
    if isinstance(reply, Built):
        return reply.build
    kind = getattr(errors, reply.error, BuildError)
    known = kind if issubclass(kind, GdnbenchError) else BuildError
    return known(reply.message, reply.hint)
