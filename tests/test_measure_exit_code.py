from dataclasses import replace

import pytest
from run_data import case, failed, measured, versus

from gdnbench.analyse.exit_code import exit_code_of_rows, exit_code_of_sweep, refuse_nothing_measured
from gdnbench.errors import ExitCode, MachineError
from gdnbench.model.status import Role, Status

BASELINE = measured(case("decode-fla", Role.BASELINE))
KERNEL = measured(case("decode-v4"), against=versus(0.5, "slower"))
SAME = measured(case("decode-fla", Role.CONTROL), against=versus(1.0, "same"))
UNCLEAR = measured(case("decode-fla", Role.CONTROL), against=versus(1.0, "unclear"))
FLOOR = measured(case("decode-floor-copy:WARPS=4", Role.FLOOR))
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
        ([BASELINE, KERNEL, failure(Status.UNSUPPORTED), failure(Status.MISSING)], ExitCode.OK),
        ([BASELINE, failure(Status.UNSUPPORTED), failure(Status.MISSING)], ExitCode.ENVIRONMENT),
        ([BASELINE, FLOOR, failure(Status.MISSING)], ExitCode.ENVIRONMENT),
        ([BASELINE, SAME, FLOOR], ExitCode.OK),
        ([BASELINE, SAME, failed(case("decode-floor-copy", Role.FLOOR), Status.UNSUPPORTED)], ExitCode.ENVIRONMENT),
        ([BASELINE, SAME, failure(Status.UNSUPPORTED), failure(Status.BUILD_FAILED)], ExitCode.BUILD),
        ([BASELINE, failure(Status.CRASHED), APART], ExitCode.PARTIAL),
        ([failure(Status.CRASHED), failure(Status.BUILD_FAILED)], ExitCode.BUILD),
        ([failure(Status.BUILD_FAILED), failure(Status.UNWRITTEN), failure(Status.TIMED_OUT)], ExitCode.WRONG_NUMBERS),
        ([BASELINE, failure(Status.NOT_RUN)], ExitCode.PARTIAL),
    ],
)
def test_the_gravest_failure_decides(rows, code):
    for order in (rows, rows[::-1]):
        assert exit_code_of_rows(order, interrupted=False) is code


NO_GPU = failed(case("decode-v4"), Status.UNSUPPORTED, "needs a GPU")


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([BASELINE, SAME], ExitCode.OK),
        ([BASELINE, SAME, NO_GPU], ExitCode.OK),
        ([BASELINE, SAME, failed(case("decode-floor-copy", Role.FLOOR), Status.UNSUPPORTED)], ExitCode.OK),
        ([BASELINE, APART], ExitCode.NOISY),
        ([BASELINE, SAME, failure(Status.BUILD_FAILED)], ExitCode.BUILD),
        ([failed(case("decode-fla", Role.BASELINE), Status.MISSING), NO_GPU], ExitCode.ENVIRONMENT),
    ],
)
def test_a_baseline_that_was_named_was_asked_for(rows, code):
    for order in (rows, rows[::-1]):
        assert exit_code_of_rows(order, interrupted=False, baseline_named=True) is code


def test_a_baseline_that_was_named_is_told_among_what_cannot_be_measured():
    lost = failed(case("decode-fla", Role.BASELINE), Status.MISSING, "needs a module")
    with pytest.raises(MachineError, match="decode-fla: needs a module; decode-v4: needs a GPU"):
        refuse_nothing_measured(ExitCode.ENVIRONMENT, [lost, NO_GPU], baseline_named=True)


def test_on_a_cpu_noise_is_a_warning_and_no_failure():
    """Other programs share the CPU: a first try on a laptop must not end as a failure."""
    on_cpu = replace(APART, timing=replace(APART.timing, timer="cpu"))
    assert exit_code_of_rows([BASELINE, KERNEL, on_cpu], interrupted=False) is ExitCode.OK


def test_nothing_measured_says_of_what_and_why():
    rows = [BASELINE, SAME, failed(case("decode-v4"), Status.UNSUPPORTED, "needs a GPU")]
    with pytest.raises(MachineError, match="nothing requested can be measured here: decode-v4: needs a GPU"):
        refuse_nothing_measured(ExitCode.ENVIRONMENT, rows)
    refuse_nothing_measured(ExitCode.BUILD, rows)


SWEPT = ["decode-v4", *(f"decode-{status}" for status in Status)]


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([BASELINE, KERNEL, SAME, failure(Status.BUILD_FAILED), failure(Status.WRONG_NUMBERS)], ExitCode.OK),
        ([BASELINE, KERNEL, APART, failure(Status.BUILD_FAILED)], ExitCode.NOISY),
        ([BASELINE, SAME, failure(Status.BUILD_FAILED), failure(Status.CRASHED)], ExitCode.BUILD),
        ([BASELINE, KERNEL, SAME, failure(Status.NOT_RUN)], ExitCode.PARTIAL),
        ([failure(Status.UNSUPPORTED)], ExitCode.ENVIRONMENT),
        ([BASELINE, SAME, failure(Status.UNSUPPORTED), failure(Status.UNSUPPORTED)], ExitCode.ENVIRONMENT),
        ([], ExitCode.OK),
    ],
)
def test_of_a_sweep_a_point_that_cannot_work_is_an_answer_unless_none_works(rows, code):
    for order in (rows, rows[::-1]):
        assert exit_code_of_sweep(order, SWEPT, interrupted=False) is code
