"""Schedules: of listings written by hand, of a recorded kernel, and of kernels built here."""

from pathlib import Path

import pytest
from bundled import CATALOG
from decode_workloads import decode_at
from schedule_data import EXIT, STORE, does, load, sass, use

from gdnbench.catalog.select import find_variant
from gdnbench.codegen.build import Job, build
from gdnbench.codegen.cubin import disassemble
from gdnbench.codegen.schedule import IssuedInstruction, count_waits, read_schedule, summarize
from gdnbench.errors import MachineError

DATA = Path(__file__).parent / "data" / "binary"
V6 = read_schedule((DATA / "decode_v6_sm_90.sass").read_text())


def _way(*lines):
    return read_schedule(sass(*lines)).path


def _milestones(*lines):
    return summarize(read_schedule(sass(*lines)))


def _texts(steps):
    return [str(step.instruction) for step in steps]


def _cycles(steps):
    return [step.cycle for step in steps]


def _awaited(step):
    return [(wait.scoreboard, [hold.instruction.operands for hold in wait.holds]) for wait in step.waits]


def _mbarrier(scoreboard):
    return does("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R13+URZ], R4", write=scoreboard)


def test_cycles_add_up_stalls_and_no_instruction_takes_none():
    steps = _way(does("MOV R0, R1", stall=5), does("MOV R1, R2", stall=0), does("MOV R2, R3", stall=15), EXIT)
    assert _cycles(steps) == [0, 5, 6, 21]


def test_a_wait_is_for_all_who_have_held_the_scoreboard_since_the_last_wait():
    steps = _way(
        does("SHFL.BFLY PT, R4, R5, 0x1, 0x1f", write=0),
        does("MUFU.EX2 R6, R7", write=0),
        use(0),
        use(0),
        does("S2R R9, SR_TID.X", write=0),
        use(0, 3),
        EXIT,
    )
    first, second, third = steps[2], steps[3], steps[5]
    assert _awaited(first) == [(0, ["PT, R4, R5, 0x1, 0x1f", "R6, R7"])]
    assert _awaited(second) == [(0, [])]
    assert _awaited(third) == [(0, ["R9, SR_TID.X"]), (3, [])]


def test_an_instruction_that_waits_counts_once_for_each_thing():
    lines = (
        does("SHFL.BFLY PT, R4, R5, 0x1, 0x1f", write=0),
        does("SHFL.BFLY PT, R6, R5, 0x2, 0x1f", write=1),
        does("MUFU.EX2 R6, R7", write=2, read=3),
        use(0, 1, 2),
        use(3),
    )
    assert count_waits(_way(*lines, EXIT)) == {"MUFU": 1, "MUFU operands": 1, "SHFL": 1}


def test_a_kernel_without_loads_has_no_milestones_but_its_stores():
    found = _milestones(does("MOV R0, R1", stall=4), STORE, EXIT)
    assert (found.early_loads, found.late_loads, found.arrivals, found.first, found.middle) == ((), (), (), (), ())
    assert _cycles(found.stores) == [4]
    assert (found.to_first_store, found.to_last_store, found.end) == (None, None, 5)


def test_loads_behind_a_wait_for_one_are_another_trip():
    found = _milestones(
        does("S2R R2, SR_TID.X", write=0),
        use(0, stall=4),
        load(4, 1, stall=2),
        load(5, 2, stall=3),
        use(1),
        load(6, 3),
        does("LDG.E R7, desc[UR4][R2.64]", write=4, waits=(2,)),
        use(3, 4),
        does(STORE, stall=7),
        STORE,
        EXIT,
    )
    assert _cycles(found.early_loads) == [5, 7]
    assert _cycles(found.late_loads) == [11, 12]
    assert _cycles(found.arrivals) == [10, 12, 13]
    assert (_cycles(found.stores), found.to_first_store, found.to_last_store) == ([14, 21], 4, 11)
    assert count_waits(found.first) == {"S2R": 1}
    assert count_waits(found.middle) == {"LDG": 3}


def test_a_store_before_the_first_wait_is_no_end_of_it():
    found = _milestones(STORE, load(4, 0), use(0), does("MOV R0, R1", stall=9), STORE, EXIT)
    assert _cycles(found.stores) == [12]
    assert found.to_first_store == 10


def test_waits_behind_the_last_store_are_not_on_the_way_to_it():
    found = _milestones(load(4, 0), use(0), does(STORE, read=1), use(1), EXIT)
    assert count_waits(found.middle) == {"LDG": 1}


def test_a_wait_for_an_mbarrier_is_one_for_memory():
    copy = "UBLKCP.S.G [UR6], [UR4], UR8"
    found = _milestones(
        copy, _mbarrier(0), does("@!P0 BRA 0x60", waits=(0,)), STORE, "UBLKCP.G.S [UR4], [UR6], UR8", EXIT
    )
    assert _cycles(found.early_loads) == [0]
    assert _cycles(found.arrivals) == [2]
    assert _cycles(found.stores) == [3, 4]
    assert count_waits(found.middle) == {"SYNCS": 1}


def test_a_depbar_may_leave_the_last_ones_under_way():
    lines = [does("LDGDEPBAR", write=0) for _ in range(3)]
    one, rest, named = _way(*lines, "DEPBAR.LE SB0, 0x1", "DEPBAR.LE SB0, 0x0", "DEPBAR {5,0}", EXIT)[3:6]
    assert [len(wait.holds) for wait in one.waits] == [2]
    assert [len(wait.holds) for wait in rest.waits] == [1]
    assert [wait.scoreboard for wait in named.waits] == [0, 5]


def test_loads_that_share_a_scoreboard_are_told_with_their_sizes():
    found = _milestones(load(4, 5), load(8, 5, ".128.CONSTANT"), load(9, 5, ".U16"), load(3, 2), use(2), use(5), EXIT)
    [shared] = found.shared
    assert (shared.scoreboard, shared.sizes, shared.cycle) == (5, (4, 16, 2), 5)


def test_a_load_that_shares_only_with_other_things_shares_with_no_load():
    assert _milestones(load(4, 5, read=5), does("MUFU.EX2 R6, R7", write=5), use(5), EXIT).shared == ()


def test_a_loop_is_passed_once_and_told():
    schedule = read_schedule(sass("MOV R0, R1", "MOV R1, R2", "@P0 BRA 0x10", STORE, EXIT))
    assert _cycles(schedule.path) == [0, 1, 2, 3, 4]
    assert schedule.loops == 1


def test_a_loop_that_is_entered_at_its_test_is_passed_too():
    schedule = read_schedule(
        sass("BRA 0x20", "FADD R1, R2, R3", "ISETP.NE.AND P0, PT, R1, RZ, PT", "@P0 BRA 0x10", EXIT)
    )
    assert len(schedule.path) == 5
    assert schedule.loops == 1


@pytest.mark.parametrize(
    ("branch", "passed"),
    [("@P0 BRA 0x30", True), ("BRA.U UP0, 0x30", True), ("BRA.DIV UR4, 0x30", True), ("BRA 0x30", False)],
)
def test_only_a_branch_that_is_always_taken_skips(branch, passed):
    texts = _texts(_way(branch, "MOV R0, R1", "MOV R1, R2", STORE, EXIT))
    assert ("MOV R0, R1" in texts) == passed
    assert texts[-2:] == [STORE, "EXIT"]


def test_what_is_behind_the_final_exit_is_beside_the_way_and_padding_is_left_out():
    behind = (does("MOV R0, R1", waits=(2,)), "@P1 EXIT", "BRA 0x10")
    lines = ("@!P0 BRA 0x40", "@P1 EXIT", STORE, "EXIT", *behind, "BRA 0x70", "NOP")
    schedule = read_schedule(sass(*lines))
    assert _texts(schedule.path) == ["@!P0 BRA 0x40", "@P1 EXIT", STORE, "EXIT"]
    beside = [one for one in schedule.code if not isinstance(one, IssuedInstruction)]
    assert [(str(one.instruction), one.control.waits) for one in beside] == [
        ("MOV R0, R1", (2,)),
        ("@P1 EXIT", ()),
        ("BRA 0x10", ()),
    ]
    assert schedule.loops == 0


def test_an_exit_of_some_warps_does_not_end_the_way_of_others():
    texts = _texts(_way("@P0 BRA 0x30", "UBLKCP.S.G [UR6], [UR4], UR8", "EXIT", load(4, 0), "EXIT"))
    assert len(texts) == 5


def test_calls_are_counted_and_their_code_is_not():
    found = _milestones("CALL.REL.NOINC 0x30", STORE, EXIT, does("FADD R1, R2, R3", stall=15), "RET.REL.NODEC R4 0x0")
    assert (found.calls, found.end) == (1, 2)


def test_encodings_are_needed():
    with pytest.raises(MachineError):
        read_schedule((DATA / "decode_v4_sm_100.sass").read_text())


def test_a_recorded_kernel_that_copies_in_the_background():
    found = summarize(V6)
    assert (len(V6.code), len(V6.path)) == (263, 206)
    assert [step.instruction.name for step in found.early_loads].count("LDGSTS") == 1
    assert (_cycles(found.early_loads)[0], _cycles(found.early_loads)[-1], found.late_loads) == (45, 114, ())
    assert _cycles(found.arrivals) == [118, 263, 276]
    assert (_cycles(found.stores), found.to_first_store, found.to_last_store) == ([426, 498], 308, 380)
    assert count_waits(found.first) == {"S2R": 3, "LDC": 1, "S2UR": 1}
    assert count_waits(found.middle)["SHFL"] == 10
    assert [(one.scoreboard, one.sizes) for one in found.shared] == [(2, (2, 4, 4)), (5, (2, 8, 8, 2))]
    assert found.calls == 1


def _copy(operands, **control):
    return does(f"LDGSTS.E.BYPASS.128 {operands}", **control)


TRIPS = {
    "none": ((STORE,), 0),
    "all go out first": ((load(4, 1), load(5, 2), use(1), use(2)), 1),
    "a chain of three": ((load(4, 1), use(1), load(5, 2), use(2), load(6, 3), use(3)), 3),
    # The second wait is for a load of the first trip, so that the last load is of the second, as the one before it.
    "what was waited for late, but was under way": (
        (load(4, 1), load(5, 2), use(1), load(6, 3), use(2), load(7, 4), use(3, 4)),
        2,
    ),
    "a wait for no memory": ((load(4, 1), does("MUFU.EX2 R6, R7", write=0), use(0), load(5, 2), use(1, 2)), 1),
    "a wait until operands are read": ((load(4, 5, read=1), use(1), load(5, 5), use(5)), 1),
    "a copy to shared memory": (
        (_copy("[R4], desc[UR4][R2.64]"), does("LDGDEPBAR", write=0), use(0), load(5, 2), use(2)),
        2,
    ),
    "a copy in bulk": (
        (
            does("UBLKCP.S.G [UR8], [UR4], UR7"),
            _mbarrier(1),
            use(1),
            does("LDG.E R7, desc[UR4][R2.64]", write=2),
            use(2),
        ),
        2,
    ),
    "a barrier without a copy": ((_mbarrier(1), use(1), load(5, 2), use(2)), 1),
    "a loop that loads and waits": ((load(4, 1), use(1), "@P0 BRA 0x0"), None),
    "a loop that only loads": ((load(4, 1), "@P0 BRA 0x0", use(1), load(5, 2), use(2)), 2),
    "a loop that only waits": ((load(4, 1), use(1), "@P0 BRA 0x10", load(5, 2), use(2)), 2),
}


@pytest.mark.parametrize("name", TRIPS)
def test_trips_are_loads_behind_what_was_waited_for(name):
    lines, dependent_loads = TRIPS[name]
    assert _milestones(*lines, EXIT).dependent_loads == dependent_loads


@pytest.mark.parametrize(
    ("label", "dependent_loads"), [("decode-v1", 4), ("decode-v4", 2), ("decode-v6", 1), ("decode-v8", 1)]
)
def test_trips_of_kernels(label, dependent_loads):
    entry, variant = find_variant(CATALOG, "decode", label)
    built = build(Job(entry, entry.at(variant, decode_at()), decode_at(), "sm_90"))
    assert summarize(read_schedule(disassemble(Path(built.cubin), built.symbol))).dependent_loads == dependent_loads
