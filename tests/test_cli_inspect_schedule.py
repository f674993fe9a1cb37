"""`gdnbench inspect --schedule` as a user meets it; the builds are real."""

import json
import re
from functools import partial
from pathlib import Path

import pytest
from schedule_data import EXIT, STORE, does, load, sass, use

from gdnbench.codegen.schedule import read_schedule
from gdnbench.errors import ExitCode
from gdnbench.verbs.inspect import schedule_listing

_FAILED_PAIR = (
    "test-syntax-error  B=1 qk4_v8  sm_90, beside decode-v7\n"
    "  one of them did not build\n"
    "next: mend what the compiler rejects, and inspect again\n"
)
BROKEN = Path(__file__).parent / "data" / "binary" / "kernels"


@pytest.fixture
def run(command_line, monkeypatch):
    """Runs `gdnbench inspect ARGUMENTS --schedule` in this process, without a GPU; gives exit code, stdout, stderr."""
    monkeypatch.setattr("gdnbench.machine.gpus.list_gpus", tuple)
    return partial(command_line, "inspect", "--schedule")


def test_the_listing_has_each_instruction_that_the_machine_code_has(run, command_line):
    _, out, _ = run("decode-v9", "--arch", "sm_90")
    _, code, _ = command_line("inspect", "decode-v9", "--arch", "sm_90", "--sass", "-q")
    opcodes = [line.partition("*/  ")[2].removesuffix(" ;").split()[0] for line in code.splitlines()[1:]]
    listed = out.splitlines()[
        next(at for at, line in enumerate(out.splitlines()) if line.split()[:2] == ["at", "cycle"]) :
    ]
    found = [line for line in listed if re.match(r" *[0-9a-f]{4,} +(\d+|-) ", line)]
    assert len(found) + sum(opcode in ("NOP", "BRA") for opcode in opcodes[len(found) :]) == len(opcodes)
    assert all(opcode in line for opcode, line in zip(opcodes, found, strict=False))


def test_a_listing_says_who_sets_and_who_waits():
    lines = sass(
        load(4, 5, stall=3),
        load(8, 5, ".128", read=0),
        use(5, stall=4),
        does(STORE, waits=(0, 2)),
        EXIT,
        does("MOV R0, R1", waits=(1, 3), write=2),
    )
    assert [line.split() for line in schedule_listing(read_schedule(lines))] == [
        ["at", "cycle", "stall", "sets", "waits", "for", "instruction"],
        ["0000", "0", "3", "w5", "LDG.E", "R4,", "desc[UR4][R2.64]"],
        ["0010", "3", "1", "w5", "r0", "LDG.E.128", "R8,", "desc[UR4][R2.64]"],
        ["0020", "4", "4", "w5", "2", "LDG", "FADD", "R0,", "R4,", "R5"],
        ["0030", "8", "1", "r0", "LDG", "STG.E", "desc[UR4][R2.64],", "R0"],
        ["2"],
        ["0040", "9", "1", "EXIT"],
        ["0050", "-", "1", "w2", "1", "3", "MOV", "R0,", "R1"],
    ]


def test_a_kernel_that_does_not_build_is_told_and_exit_code_6(run, monkeypatch):
    monkeypatch.setenv("GDNBENCH_KERNELS", str(BROKEN))
    code, out, err = run("test-syntax-error", "decode-v7", "--arch", "sm_90", "-q")
    assert code == ExitCode.BUILD
    assert "kernel.cu:5: error" in err.replace("\n", "")
    assert "first global load" in out
    code, out, err = run("test-syntax-error", "--diff", "decode-v7", "--arch", "sm_90", "-q")
    assert (code, out) == (ExitCode.BUILD, _FAILED_PAIR)
    assert "kernel.cu:5: error" in err.replace("\n", "")
    _, out, _ = run("test-syntax-error", "--arch", "sm_90", "--json")
    [row] = json.loads(out)
    assert row["status"] == "build-failed"
    assert "schedule" not in row
