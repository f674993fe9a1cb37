"""What travels between the parent and a builder: a job as a line of JSON, and lines back until one is its result."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Any

from gdnbench import errors
from gdnbench.binary.job import Job, Result
from gdnbench.catalog import Broken
from gdnbench.catalog.load import load_kernel, load_op
from gdnbench.errors import BuildError, GdnbenchError
from gdnbench.model import Build, Shape, Variant


class Stage(StrEnum):
    """How far a builder is with a job; it says so as each stage begins, for each has a limit of its own."""

    STARTING = "starting"  # it loads the compilers
    IMPORTING = "importing"  # it runs the kernel's source, which may do anything
    COMPILING = "compiling"


def encode_job(job: Job) -> str:
    """A job as a line."""
    message = {
        "op_folder": str(job.entry.op_folder),
        "folder": str(job.entry.folder),
        "label": job.variant.label,
        "params": dict(job.variant.params),
        "shape": job.shape.axes(),
        "arch": job.arch,
        "stamped": job.stamped,
    }
    return json.dumps(message) + "\n"


def decode_job(message: dict[str, Any]) -> Job:
    """The job that a line tells of, its kernel loaded again from its folder.

    Raises:
        BuildError: if the kernel cannot be loaded any more.
        ParamError: for params that it does not have.
    """
    op = load_op(Path(message["op_folder"]))
    entry = op if isinstance(op, Broken) else load_kernel(Path(message["folder"]), op)
    if isinstance(entry, Broken):
        raise BuildError(f"{entry.folder}: {entry.reason}")
    params = entry.kernel.resolve(message["params"])
    variant = Variant(entry.kernel.name, message["label"], params=params)
    return Job(entry, variant, Shape(**message["shape"]), message["arch"], message["stamped"])


def encode_result(result: Result) -> str:
    """A result as a line."""
    if isinstance(result, Build):
        return json.dumps({"build": asdict(result)}) + "\n"
    told = {"class": type(result).__name__, "error": result.message, "hint": result.hint}
    return json.dumps(told) + "\n"


def encode_stage(stage: Stage) -> str:
    """A stage that begins, as a line."""
    return json.dumps({"stage": stage}) + "\n"


def decode_reply(line: str) -> Stage | Result:
    """What a line tells of: a stage that begins, or the result, an error as the class that was raised."""
    message = json.loads(line)
    if "stage" in message:
        return Stage(message["stage"])
    if "build" in message:
        return Build(**message["build"])
    kind = getattr(errors, message["class"], BuildError)
    known = kind if issubclass(kind, GdnbenchError) else BuildError
    return known(message["error"], message["hint"])
