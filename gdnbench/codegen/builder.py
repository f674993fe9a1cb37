"""The builder process, a worker: `python -m gdnbench.codegen.builder FD`.

Reads jobs on stdin until it ends, and sends each one's progress and, last, its result. A kernel that fails to build is
a result like any other.
"""

from __future__ import annotations

import json
import sys

from gdnbench.codegen.ahead import BuildStage, Reply, Result, StageBegan, decode_job, reply_of
from gdnbench.codegen.build import build
from gdnbench.codegen.triton import load_function
from gdnbench.errors import BuildError, GdnbenchError
from gdnbench.model.kernel import TritonKernel, launch_of
from gdnbench.process.channel import Channel
from gdnbench.process.worker import die_with_parent, take_requests


def main(arguments: list[str]) -> None:
    """Builds the jobs that stdin brings."""
    die_with_parent()
    channel = Channel[Reply](int(arguments[0]))
    for line in take_requests():
        channel.send(reply_of(_attempt(line, channel)))


def _attempt(line: str, channel: Channel[Reply]) -> Result:
    try:
        job = decode_job(line)
        kernel = job.entry.kernel
        if isinstance(kernel, TritonKernel):
            import triton  # noqa: F401 - the source imports it, and is not to blame for how long that takes

            channel.send(StageBegan(BuildStage.IMPORTING))
            load_function(job.entry.source, launch_of(kernel, job.launch).entry)
        channel.send(StageBegan(BuildStage.COMPILING))
        return build(
            *(job.entry, job.variant, job.workload, job.arch),
            launch=job.launch,
            stamped=job.stamped,
            disassembled=job.disassembled,
        )
    except GdnbenchError as error:
        return error
    except Exception as error:
        return BuildError(f"{json.loads(line)['label']}: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
