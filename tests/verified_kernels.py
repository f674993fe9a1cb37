"""Kernels that one `gdnbench verify` tries together on a machine without a GPU: one worker, and one oracle for all."""

import json
from functools import cache

import pytest
from deep import cases_to_run
from faults import answer


@cache
def verify_together(kernels: tuple[str, ...], *shapes: str) -> dict[str, set[str]]:
    """The statuses of each kernel's gates, by its label; tried once for the same kernels and shapes.

    Args:
        kernels: labels, of one op.
        shapes: as `--shape` takes them, and options.
    """
    words = [word for shape in shapes for word in ([shape] if shape.startswith("--") else ["--shape", shape])]
    done = answer("verify", *kernels, "--gpu", "cpu", *words, "--json")
    found: dict[str, set[str]] = {}
    for gate in json.loads(done.out)["gates"]:
        found.setdefault(gate["label"], set()).add(gate["status"])
    assert found.keys() == set(kernels), done.err
    return found


def gate_statuses(request: pytest.FixtureRequest, kernel: str, *shapes: str) -> set[str]:
    """The statuses of a kernel's gates, verified with those of its test's cases that differ in `kernel` alone.

    Args:
        request: the test's; of its cases those that this run of the tests leaves out are not verified.
        kernel: its label.
        shapes: as `--shape` takes them, and options.
    """
    case = request.node.callspec.params
    cases = cases_to_run(request, request.node.originalname)
    together = [other["kernel"] for other in cases if other | {"kernel": kernel} == case]
    return verify_together(tuple(together), *shapes)[kernel]
