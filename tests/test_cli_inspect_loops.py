"""The outermost loops of machine code: which they are, what a trip takes, and how they are printed."""

from schedule_data import EXIT, STORE, load, sass, use

from gdnbench.inspect.outline import outermost_loops, outline_code

ADD = "FADD R0, R4, R5"


def loops(*lines, frames=None):
    return outermost_loops(outline_code(sass(*lines), {}, frames or {}))


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
