"""The builder process, a worker: `python -m gdnbench.codegen.builder FD`.

Reads jobs on stdin until it ends, and sends each one's progress and, last, its result. A kernel that fails to build is
a result like any other.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gdnbench.catalog.entry import Broken
from gdnbench.catalog.load import load_kernel, load_op
from gdnbench.codegen.ahead import BuildStage, Built, Job, NotBuilt, Reply, StageBegan
from gdnbench.codegen.build import build
from gdnbench.codegen.triton import load_function
from gdnbench.errors import BuildError, GdnbenchError
from gdnbench.model.case import Variant
from gdnbench.model.kernel import TritonKernel, launch_of
from gdnbench.process.channel import Channel
from gdnbench.process.worker import die_with_parent, take_requests


def main(arguments: list[str]) -> None:
    """Builds the jobs that stdin brings."""
    die_with_parent()
    channel = Channel[Reply](int(arguments[0]))
    for line in take_requests():
        channel.send(_attempt(line, channel))


def _decoded(line: str) -> Job:
    """Decodes a job and loads its kernel again from its folder, where it may have changed meanwhile."""
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


def _attempt(line: str, channel: Channel[Reply]) -> Reply:
    try:
        job = _decoded(line)
        kernel = job.entry.kernel
        if isinstance(kernel, TritonKernel):
            import triton  # noqa: F401 - the source imports it, and is not to blame for how long that takes

            channel.send(StageBegan(BuildStage.IMPORTING))
            load_function(job.entry.source, launch_of(kernel, job.launch).entry)
        channel.send(StageBegan(BuildStage.COMPILING))
        what = job.entry, job.variant, job.workload, job.arch
        return Built(build(*what, launch=job.launch, stamped=job.stamped, disassembled=job.disassembled))
    except GdnbenchError as error:
        return NotBuilt(type(error).__name__, error.message, error.hint)
    except Exception as error:
        return NotBuilt("BuildError", f"{json.loads(line)['label']}: {type(error).__name__}: {error}", "")


if __name__ == "__main__":
    main(sys.argv[1:])
