"""Programs of a Triton kernel that use the same elements: without a GPU a race is told with both of its lines."""

import pytest
from row_sums import Made, made, verdicts

pytestmark = pytest.mark.slow

HEAD = """import triton
import triton.language as tl


@triton.jit
def part_of(x, row, half, N: tl.constexpr):
    at = row * N + half * (N // 2) + tl.arange(0, N // 2)
    return tl.sum(tl.load(x + at), axis=0)


@triton.jit
def k(x, y{more}, N: tl.constexpr):
    row, half = tl.program_id(0) // 2, tl.program_id(0) % 2
    part = part_of(x, row, half, N)
    total = part_of(x, row, 0, N) + part_of(x, row, 1, N)
"""
FINISH = """

@triton.jit
def finish(x, y, parts, N: tl.constexpr):
    row = tl.program_id(0) // 2
    tl.store(y + row, tl.load(parts + 2 * row) + tl.load(parts + 2 * row + 1))
"""
HALVES, PARTS = "(2 * w.M,)", 'TensorSpec("parts", ("M", 2), "fp32"),'


def triton(*lines, status="ok", words="", scratch="", entries=("k",), after=""):
    source = HEAD.format(more=", parts" if scratch else "") + "".join(f"    {line}\n" for line in lines) + after
    return Made(source, status, words, scratch=scratch, grid=HALVES, entries=entries)


LAST = HEAD.count("\n")
KERNELS = {
    "adds-to-what-another-wrote": triton(
        "if half == 0:", "    tl.store(y + row, part)", "else:", "    tl.store(y + row, tl.load(y + row) + part)",
        status="unsafe",
        words=f"kernel.py:{LAST + 4}: program (1, 0, 0) reads 4 bytes of `y` that program (0, 0, 0) writes at "
        f"kernel.py:{LAST + 2}, in no order (and",
    ),
    "writes-over-another": triton(
        "tl.store(y + row, part)", "if half == 1:", "    tl.store(y + row, total)",
        status="unsafe", words="program (1, 0, 0) writes 4 bytes of `y` that program (0, 0, 0) writes at kernel.py:",
    ),
    "reads-what-another-will-write": triton(
        "tl.store(parts + 2 * row + half, part)",
        "seen = tl.load(parts + 2 * row + 1 - half)",
        "tl.store(y + row, total + 0 * tl.where(seen == seen, 0.0, 0.0))",
        status="unsafe", words="writes 4 bytes of `parts` that program (0, 0, 0) reads, in no order", scratch=PARTS,
    ),
    "rows-that-overlap": triton(
        "at = row + tl.arange(0, 2)",
        "if half == 0:", "    tl.store(y + at, tl.where(at == row, total, part), mask=at < 4)",
        status="unsafe", words="that program (0, 0, 0) writes",
    ),
    "two-values-at-once": triton(
        "if half == 0:", "    tl.store(y + row + tl.zeros([2], tl.int32), total + tl.arange(0, 2) * (1 - half) * 1e-3)",
        status="unsafe", words="program (0, 0, 0) writes two values to one element of `y` at once",
    ),
    "the-same-from-both": triton("tl.store(y + row, total)"),
    "the-same-from-both-read-again": triton("tl.store(y + row, total)", "tl.store(y + row, tl.load(y + row))"),
    "its-own-again": triton(
        "if half == 0:", "    tl.store(y + row, part)", "    tl.store(y + row, tl.load(y + row) * 0 + total)",
    ),
    "what-is-masked": triton(
        "at = row + tl.arange(0, 2)",
        "tl.store(y + at, tl.where(at == row, total, 7.0), mask=(at == row) & (half == 0))",
    ),
    "launches-that-hand-on": triton(
        "tl.store(parts + 2 * row + half, part)", scratch=PARTS, entries=("k", "finish"), after=FINISH
    ),
    "atomics-that-may-order": triton(
        "if half == 0:", "    tl.store(y + row, part)", "    tl.atomic_xchg(parts + row, 1)",
        "else:", "    while tl.atomic_add(parts + row, 0) != 1:", "        pass",
        "    tl.store(y + row, tl.load(y + row) + part)", scratch=PARTS.replace("fp32", "int32"),
    ),
    "volatile-loads-that-may-order": triton(
        "if half == 0:", "    tl.store(y + row, part)", "    tl.store(parts + row, 1.0)",
        "else:", "    while tl.load(parts + row, volatile=True) != 1.0:", "        pass",
        "    tl.store(y + row, tl.load(y + row) + part)", scratch=PARTS,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return verdicts(made(tmp_path_factory.mktemp("programs"), KERNELS))


@pytest.mark.parametrize("name", KERNELS)
def test_programs_that_use_the_same_elements(found, name):
    status, reason = found[name]
    assert (status, KERNELS[name].words in reason) == (KERNELS[name].status, True), reason
