"""Kernels that one `gdnbench verify` tries together on a machine without a GPU: one worker, and one oracle for all."""

import json
from functools import cache

from faults import answer


@cache
def verify_together(kernels: tuple[str, ...], *shapes: str) -> dict[str, set[str]]:
    """The statuses of each kernel's gates, by its label; tried once for the same kernels and shapes.

    Args:
        kernels: labels, of one op.
        shapes: as `--shape` takes them.
    """
    words = [word for shape in shapes for word in ("--shape", shape)]
    done = answer("verify", *kernels, "--gpu", "cpu", *words, "--json")
    found: dict[str, set[str]] = {}
    for gate in json.loads(done.out)["gates"]:
        found.setdefault(gate["label"], set()).add(gate["status"])
    assert found.keys() == set(kernels), done.err
    return found
