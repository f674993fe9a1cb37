"""The outermost loops of machine code: which they are, what a trip takes, and how they are printed."""

import pytest
from schedule_data import EXIT, STORE, load, sass, use

from gdnbench.codegen import cubin
from gdnbench.codegen.cubin import parse_source_lines
from gdnbench.errors import MachineError
from gdnbench.inspect.loops import outermost_loops
from gdnbench.process.command import Completed
from gdnbench.ptx.program import SourceLine

ADD = "FADD R0, R4, R5"


def loops(*lines, frames=None):
    return outermost_loops(sass(*lines), frames or {})


def test_straight_code_has_none():
    assert loops(load(4, 5), use(5), STORE, EXIT) == ()


def test_a_loop_within_another_is_part_of_it():
    [outer] = loops(load(4, 5), ADD, ADD, "@P0 BRA 0x10", STORE, "@P1 BRA 0x0", EXIT)
    assert (outer.within, outer.instructions) == (1, 6)
    assert outer.families == {"global load 32": 1, "global store 32": 1, "fp32 add": 2, "branch": 2}
    assert (outer.trip.shortest, outer.trip.longest) == (6, 6)


def test_loops_one_after_the_other_are_two_and_a_way_round_may_be_shorter():
    first, second = loops(ADD, "@P0 BRA 0x0", load(4, 5), "@P2 BRA 0x50", ADD, "@P1 BRA 0x20", EXIT)
    assert (first.within, first.trip.shortest, first.trip.longest) == (0, 2, 2)
    assert (second.trip.shortest, second.trip.longest, second.instructions) == (3, 4, 4)


def test_a_loop_has_the_line_of_the_file_that_tells_most_apart():
    helper, calls = SourceLine("/a/b.cuh", 7), [SourceLine("/a/kernel.cu", line) for line in (12, 15, 20)]
    frames = {0: (helper, calls[0]), 16: (helper, calls[1]), 32: (SourceLine("/a/b.cuh", 3),), 48: (calls[2],)}
    code = (load(4, 0), "@P0 BRA 0x0", "@P1 BRA 0x20", EXIT)
    assert [str(loop.line) for loop in loops(*code, frames=frames)] == ["kernel.cu:15", "b.cuh:3"]
    assert [loop.line for loop in loops(*code)] == [None, None]


def test_lines_are_read_of_the_kernel_alone():
    text = """
    .section .text.other,"ax",@progbits
    //## File "/x.cu", line 1
            /*0000*/   EXIT ;
    .section .text.mine,"ax",@progbits
            /*0000*/   MOV R0, R1 ;
    //## File "/a.cuh", line 4 inlined at "/k.cu", line 9
    //## File "/k.cu", line 9
            /*0010*/   MOV R0, R1 ;
            /*0020*/   EXIT ;
    """
    inlined = (SourceLine("/a.cuh", 4), SourceLine("/k.cu", 9))
    assert parse_source_lines(text, "mine") == {16: inlined, 32: inlined}
    assert parse_source_lines(text, "min") == {}


def test_code_that_nvdisasm_cannot_read_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(cubin, "run_tool", lambda *_, **_more: Completed(255, "", "flow analysis is disabled"))
    with pytest.raises(MachineError, match="flow analysis"):
        cubin.read_source_lines(tmp_path / "a.cubin", "a")
