import pytest
from run_data import case, failed, measured, versus

from gdnbench.bench.exitcode import exit_code_of, exit_code_of_sweep
from gdnbench.errors import ExitCode
from gdnbench.model import Role, Status

BASELINE = measured(case("decode-fla", Role.BASELINE))
KERNEL = measured(case("decode-v4"), against=versus(0.5, "slower"))
SAME = measured(case("decode-fla", Role.CONTROL), against=versus(1.0, "same"))
UNCLEAR = measured(case("decode-fla", Role.CONTROL), against=versus(1.0, "unclear"))
APART = measured(case("decode-fla", Role.CONTROL), against=versus(1.02, "faster"))


def failure(status):
    return failed(case(f"decode-{status}"), status)


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([], ExitCode.OK),
        ([BASELINE, KERNEL, SAME], ExitCode.OK),
        ([BASELINE, KERNEL, UNCLEAR], ExitCode.OK),
        ([BASELINE, KERNEL, APART], ExitCode.NOISY),
        ([BASELINE, failure(Status.UNSUPPORTED), failure(Status.MISSING)], ExitCode.OK),
        ([BASELINE, failure(Status.CRASHED), APART], ExitCode.PARTIAL),
        ([failure(Status.CRASHED), failure(Status.BUILD_FAILED)], ExitCode.BUILD),
        ([failure(Status.BUILD_FAILED), failure(Status.UNWRITTEN), failure(Status.TIMED_OUT)], ExitCode.WRONG_NUMBERS),
        ([BASELINE, failure(Status.NOT_RUN)], ExitCode.PARTIAL),
    ],
)
def test_the_gravest_failure_decides(rows, code):
    for order in (rows, rows[::-1]):
        assert exit_code_of(order, interrupted=False) is code


def test_an_interruption_is_told_whatever_else_happened():
    assert exit_code_of([failure(Status.WRONG_NUMBERS)], interrupted=True) is ExitCode.INTERRUPTED


def test_rows_may_come_from_a_generator():
    assert exit_code_of((row for row in [APART]), interrupted=False) is ExitCode.NOISY


SWEPT = ["decode-v4", *(f"decode-{status}" for status in Status)]


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([BASELINE, KERNEL, SAME, failure(Status.BUILD_FAILED), failure(Status.WRONG_NUMBERS)], ExitCode.OK),
        ([BASELINE, KERNEL, APART, failure(Status.BUILD_FAILED)], ExitCode.NOISY),
        ([BASELINE, SAME, failure(Status.BUILD_FAILED), failure(Status.CRASHED)], ExitCode.BUILD),
        ([BASELINE, KERNEL, SAME, failure(Status.NOT_RUN)], ExitCode.PARTIAL),
        ([failure(Status.UNSUPPORTED)], ExitCode.OK),
        ([], ExitCode.OK),
    ],
)
def test_of_a_sweep_a_point_that_cannot_work_is_an_answer_unless_none_works(rows, code):
    for order in (rows, rows[::-1]):
        assert exit_code_of_sweep(order, SWEPT, interrupted=False) is code


FLOOR = measured(case("decode-floor-copy:WARPS=4", Role.FLOOR))
NO_FLOOR = failed(case("decode-floor-copy:WARPS=1", Role.FLOOR), Status.BUILD_FAILED)


def test_a_swept_floor_is_a_point_and_one_beside_the_points_is_none():
    assert exit_code_of_sweep([FLOOR, NO_FLOOR], ["decode-floor-copy"], interrupted=False) is ExitCode.OK
    assert exit_code_of_sweep([NO_FLOOR], ["decode-floor-copy"], interrupted=False) is ExitCode.BUILD
    assert exit_code_of_sweep([FLOOR, failure(Status.BUILD_FAILED)], SWEPT, interrupted=False) is ExitCode.BUILD


def test_an_interrupted_sweep_says_so():
    assert exit_code_of_sweep([BASELINE, KERNEL], SWEPT, interrupted=True) is ExitCode.INTERRUPTED
