"""Machine code for a language model: what each form tells, of code written by hand and of kernels built here."""

import re
from collections import Counter
from functools import partial

import pytest
from schedule_data import EXIT, STORE, does, load, sass, use

from gdnbench.codegen import cubin
from gdnbench.codegen.cubin import parse_live_registers, parse_source_lines
from gdnbench.errors import MachineError
from gdnbench.inspect.outline import outline_code
from gdnbench.process.command import Completed
from gdnbench.ptx.program import SourceLine
from gdnbench.report.outline import Detail, choose_view, estimate_tokens

ADD = "FADD R0, R4, R5"
PLENTY = 100_000
# What a text may never leave out, by the beginning of the opcode; written apart from how the package decides it.
TOLD = (
    "LD", "ST", "ULDC", "ATOM", "RED", "UTMA", "UBLK", "SYNCS", "BAR", "DEPBAR", "WARPGROUP", "WARPSYNC", "FENCE",
    "MEMBAR", "ARRIVES", "ERRBAR", "BRA", "CALL", "RET", "BSSY", "BSYNC", "EXIT", "CCTL", "BPT",
)  # fmt: skip
_LINE = re.compile(r"^ (?:(?:#\d+(?:-#\d+)? ?)+ )?(?:(\d+) )?(?:@!?\w+ )?([A-Z][A-Z0-9_.a-z]*)", re.MULTILINE)


def _view(*lines, budget=PLENTY, live=None, frames=None, head=()):
    return choose_view(head, 32, outline_code(sass(*lines), live or {}, frames or {}), budget)


def _body(view):
    return [line for line in view.text.splitlines() if not line.startswith("//")]


def _forms(*lines):
    """The view of each form, by asking for less and less."""
    found = {}
    budget = PLENTY
    while budget > 0:
        view = _view(*lines, budget=budget)
        found.setdefault(view.detail, view)
        budget = min(budget, view.tokens) - 1
    return found


def _told(text):
    """How often each opcode is told by itself, as the lines of a view have it."""
    counts = Counter()
    for count, opcode in _LINE.findall(text):
        counts[opcode] += int(count or 1)
    return {opcode: count for opcode, count in counts.items() if opcode.startswith(TOLD)}


def test_branches_go_to_blocks_and_loops_are_named():
    view = _view(ADD, load(4, 2), use(2), "@P0 BRA 0x10", EXIT)
    assert _body(view) == [
        "BB0 entry: 1 instruction",
        " FADD R0, R4, R5",
        "loop L1 { // 3 instructions a trip, back from BB1",
        "BB1: 3 instructions",
        " #1 LDG.E R4, [R2.64]",
        " FADD R0, R4, R5  waits LDG #1",
        " @P0 BRA BB1",
        "}",
        "BB2 exit: 1 instruction",
        " EXIT",
    ]


def test_less_is_told_as_the_budget_shrinks_and_no_access_is_lost():
    waits = [part for number in range(5) for part in (does("MUFU.EX2 R4, R5", write=number), use(number))]
    lines = [ADD, "MOV R1, R2", *[load(4, 0)] * 6, ADD, ADD, *waits, "@P0 BRA 0x10", STORE, STORE, EXIT]
    forms = _forms(*lines)
    assert list(forms) == list(Detail)
    sizes = [view.tokens for view in forms.values()]
    assert sizes == sorted(sizes, reverse=True)
    for detail, view in forms.items():
        assert _told(view.text) == {"LDG.E": 6, "BRA": 1, "STG.E": 2, "EXIT": 1}, detail
        assert "waits LDG #1-#6" in view.text
    assert " … 2 FADD" in _body(forms[Detail.SUMMED])
    assert " #1-#6 6 LDG.E" in _body(forms[Detail.JOINED])


def test_what_is_over_the_budget_says_by_how_much_and_drops_nothing():
    small, smaller = _view(load(4, 0), use(0), STORE, EXIT, budget=1), _view(load(4, 0), use(0), STORE, EXIT, budget=2)
    assert _body(small) == _body(smaller)
    assert small.excess == small.tokens - 1
    assert f"{small.excess} over" in small.text
    assert estimate_tokens(small.text) <= small.tokens


def test_lines_are_those_of_the_file_that_tells_most_apart():
    helper, calls = SourceLine("/a/b.cuh", 7), [SourceLine("/a/kernel.cu", line) for line in (12, 15, 20)]
    frames = {0: (helper, calls[0]), 16: (helper, calls[1]), 32: (SourceLine("/a/b.cuh", 3),), 48: (calls[2],)}
    more = _body(_view(load(4, 0), load(5, 0), "LDS R3, [R4]", EXIT, frames=frames))
    assert [line.split()[-1] for line in more[:4]] == [":12-20", ":12", ":15", "b.cuh:3"]


def test_lines_and_live_registers_are_read_of_the_kernel_alone():
    text = """
    .section .text.other,"ax",@progbits
    //## File "/x.cu", line 1
            /*0000*/   EXIT ;   // |  9  |
    .section .text.mine,"ax",@progbits
            /*0000*/   MOV R0, R1 ;   // |  12   |   1    |
    //## File "/a.cuh", line 4 inlined at "/k.cu", line 9
    //## File "/k.cu", line 9
            /*0010*/   MOV R0, R1 ;   // |       |   1    |
            /*0020*/   EXIT ;         // |   3   |        |
    """
    inlined = (SourceLine("/a.cuh", 4), SourceLine("/k.cu", 9))
    assert parse_source_lines(text, "mine") == {16: inlined, 32: inlined}
    assert parse_live_registers(text, "mine") == {0: 12, 16: 0, 32: 3}
    assert parse_live_registers(text, "min") == {}


@pytest.fixture
def run(command_line, monkeypatch):
    """Runs `gdnbench inspect ARGUMENTS --sass` in this process, without a GPU; gives exit code, stdout and stderr."""
    monkeypatch.setattr("gdnbench.machine.gpus.list_gpus", tuple)
    return partial(command_line, "inspect", "--sass")


@pytest.mark.parametrize(
    ("kernel", "arch", "fits"),
    [("decode-v9", "sm_90", True), ("decode-v4", "sm_100", True), ("prefill-v4", "sm_90a", False)],
)
def test_every_access_wait_and_branch_of_the_machine_code_is_told(run, kernel, arch, fits):
    code, listed, _ = run(kernel, "--arch", arch)
    assert code == 0
    opcodes = Counter(re.findall(r"^/\*[0-9a-f]+\*/  (?:@!?\w+ )?(\S+)", listed, re.MULTILINE))
    opcodes["BRA"] -= len(re.findall(r"^/\*0*([0-9a-f]+)\*/  BRA 0x\1 ;$", listed, re.MULTILINE))  # padding
    expected = {opcode: count for opcode, count in opcodes.items() if opcode.startswith(TOLD) and count}
    _, summed, _ = run(kernel, "--arch", arch, "--for-model")
    assert _told(summed) == expected
    assert (estimate_tokens(summed) <= 2000) is fits
    assert (" over, " in summed) is not fits
    _, whole, _ = run(kernel, "--arch", arch, "--for-model", "--budget", "1000000")
    assert _told(whole) == expected
    told = [line for line in whole.splitlines() if line.startswith(" ")]
    assert len(told) == sum(opcodes.values()) - opcodes["NOP"] + whole.count("\n NOP")


def test_live_registers_that_nvdisasm_does_not_follow_are_unknown(monkeypatch, tmp_path):
    refused = Completed(255, "", "Cannot print life ranges as flow analysis is disabled")
    monkeypatch.setattr(cubin, "run_tool", lambda *_, **_more: refused)
    assert cubin.read_live_registers(tmp_path / "a.cubin", "a") == {}
    with pytest.raises(MachineError, match="flow analysis"):
        cubin.read_source_lines(tmp_path / "a.cubin", "a")
