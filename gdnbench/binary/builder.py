"""The builder process: `python -m gdnbench.binary.builder`.

Reads jobs on stdin, one line of JSON each, and writes lines on stdout (see `wire`) that tell how far it is and, last,
the result, until stdin ends. A kernel that fails to build is a result like any other.
"""

from __future__ import annotations

import json
import os
from typing import TextIO

from gdnbench.binary.build import build
from gdnbench.binary.job import Result
from gdnbench.binary.python_source import load_function
from gdnbench.binary.wire import Stage, decode_job, encode_result, encode_stage
from gdnbench.errors import BuildError, GdnbenchError
from gdnbench.model import TritonKernel


def main() -> None:
    """Builds what stdin asks for."""
    jobs, results = _keep_from_kernels()
    for line in jobs:
        message = json.loads(line)
        results.write(encode_result(_attempt(message, results)))
        results.flush()


def _attempt(message: dict[str, object], replies: TextIO) -> Result:
    def begin(stage: Stage) -> None:
        replies.write(encode_stage(stage))
        replies.flush()

    try:
        job = decode_job(message)
        kernel = job.entry.kernel
        if isinstance(kernel, TritonKernel):
            import triton  # noqa: F401 - the source imports it, and is not to blame for how long that takes

            begin(Stage.IMPORTING)
            load_function(job.entry.source, kernel.entry)
        begin(Stage.COMPILING)
        return build(job.entry, job.variant, job.shape, job.arch, stamped=job.stamped)
    except GdnbenchError as error:
        return error
    except Exception as error:
        return BuildError(f"{message['label']}: {type(error).__name__}: {error}")


def _keep_from_kernels() -> tuple[TextIO, TextIO]:
    """The pipes of the protocol, moved to descriptors that neither a kernel's source nor a compiler writes to.

    What they print goes to stderr, and they find stdin empty.
    """
    jobs, results = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return jobs, results


if __name__ == "__main__":
    main()
