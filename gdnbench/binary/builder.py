"""The builder process: `python -m gdnbench.binary.builder`.

Reads jobs on stdin, one line of JSON each, and writes one line for each on stdout (see `wire`), until stdin ends. A
kernel that fails to build is a result like any other.
"""

from __future__ import annotations

import json
import os
from typing import TextIO

from gdnbench.binary.build import build
from gdnbench.binary.job import Result
from gdnbench.binary.wire import decode_job, encode_result
from gdnbench.errors import BuildError, GdnbenchError


def main() -> None:
    """Builds what stdin asks for."""
    jobs, results = _keep_from_kernels()
    for line in jobs:
        message = json.loads(line)
        results.write(encode_result(_attempt(message)))
        results.flush()


def _attempt(message: dict[str, object]) -> Result:
    try:
        job = decode_job(message)
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
