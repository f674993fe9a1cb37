"""What travels between the parent and a builder: one line of JSON each way a job, in turn."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gdnbench import errors
from gdnbench.binary.job import Job, Result
from gdnbench.catalog import Broken
from gdnbench.catalog.load import load_kernel, load_op
from gdnbench.errors import BuildError, GdnbenchError
from gdnbench.model import Build, Shape, Variant


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


def decode_result(line: str) -> Result:
    """The result that a line tells of, an error as the class that was raised."""
    message = json.loads(line)
    if "build" in message:
        return Build(**message["build"])
    kind = getattr(errors, message["class"], BuildError)
    known = kind if issubclass(kind, GdnbenchError) else BuildError
    return known(message["error"], message["hint"])
