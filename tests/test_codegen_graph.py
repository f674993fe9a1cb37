"""Blocks and loops of listings written by hand."""

import pytest
from schedule_data import EXIT, sass

from gdnbench.codegen.schedule import read_schedule
from gdnbench.inspect.loops import find_loops, read_blocks

ADD = "FADD R0, R4, R5"


def _code(*lines):
    return read_schedule(sass(*lines)).code


def _blocks(*lines):
    return read_blocks([one.instruction for one in _code(*lines)])


def _shape(*lines):
    return [(block.places.start, len(block.places), block.successors) for block in _blocks(*lines)]


def _loops(*lines):
    return [
        (loop.header, sorted(loop.blocks), loop.latches, loop.shortest, loop.longest)
        for loop in find_loops(_blocks(*lines))
    ]


CODE = {
    # of each listing its blocks: where each begins, how many instructions it has, and what may follow
    "straight code is one block without its padding": ((ADD, EXIT, "BRA 0x20", "NOP", "NOP"), [(0, 2, ())]),
    "a predicated branch goes on and an unconditional one does not": (
        ("@P0 BRA 0x30", ADD, "BRA 0x40", ADD, EXIT), [(0, 1, (2, 1)), (1, 2, (3,)), (3, 1, (3,)), (4, 1, ())],
    ),
    **{
        f"a condition before or behind the opcode: {branch}": (
            (branch, EXIT, EXIT), [(0, 1, (2, 1)), (1, 1, ()), (2, 1, ())],
        )
        for branch in ("BRA.U UP0, 0x20", "BRA.DIV UR4, 0x20", "@!P3 BRA 0x20")
    },
    "a predicated exit goes on": (("@P0 EXIT", ADD, EXIT), [(0, 1, (1,)), (1, 2, ())]),
    "a return is followed nowhere and a call to both": (
        (ADD, "CALL.REL.NOINC 0x30", EXIT, ADD, "RET.REL.NODEC R2 0x0"), [(0, 2, (2, 1)), (2, 1, ()), (3, 2, ())],
    ),
    "threads that part meet where BSSY says": (
        ("BSSY B0, 0x50", "@P0 BRA 0x40", ADD, "BSYNC B0", "BSYNC B0", ADD, EXIT),
        [(0, 2, (2, 1)), (2, 2, (3,)), (4, 1, (3,)), (5, 2, ())],
    ),
    "a computed branch goes nowhere known": (("BRX R4 -0x10", EXIT), [(0, 1, ()), (1, 1, ())]),
    "a loop without a way out": ((ADD, ADD, ADD, "BRA 0x10"), [(0, 1, (1,)), (1, 3, (1,))]),
}  # fmt: skip
LOOPS = {
    # header, blocks, blocks that go back, and the shortest and longest trip in instructions
    "a loop without a way out": (CODE["a loop without a way out"][0], [(1, [1], (1,), 3, 3)]),
    "a trip is as long as the way through the loop": (
        (ADD, "@P0 BRA 0x40", ADD, ADD, ADD, "@P1 BRA 0x0", EXIT), [(0, [0, 1, 2], (2,), 4, 6)],
    ),
    "a loop in a loop counts once in a trip of the outer": (
        (ADD, ADD, "@P0 BRA 0x10", ADD, "@P1 BRA 0x0", EXIT), [(0, [0, 1, 2], (2,), 5, 5), (1, [1], (1,), 2, 2)],
    ),
    "two branches back to one place are one loop": (
        (ADD, "@P0 BRA 0x0", ADD, "@P1 BRA 0x0", EXIT), [(0, [0, 1], (0, 1), 2, 4)],
    ),
    "a retry out of line that goes back into the way is no loop of it": (
        ("@!P0 BRA 0x30", ADD, EXIT, ADD, "@!P0 BRA 0x30", "BRA 0x10"), [(2, [2], (2,), 2, 2)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CODE)
def test_code_has_these_blocks(name):
    lines, blocks = CODE[name]
    assert _shape(*lines) == blocks


@pytest.mark.parametrize("name", CODE | LOOPS)
def test_code_has_these_loops(name):
    lines, loops = LOOPS.get(name) or (CODE[name][0], [])
    assert _loops(*lines) == loops


def test_no_code_has_no_blocks():
    assert read_blocks([]) == ()
    assert find_loops([]) == ()
