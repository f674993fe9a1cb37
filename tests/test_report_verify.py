"""What verification found, in a terminal of 80 columns, as JSON and as CSV."""

import pytest
from decode_workloads import decode_at
from run_data import case

from gdnbench.errors import ExitCode
from gdnbench.measure.preflight import Verification
from gdnbench.measure.protocol import Examined
from gdnbench.model.status import Status
from gdnbench.report.verify import print_verdicts


def test_a_failure_at_other_heads_is_repeated_there(capsys):
    other = case("decode-bad", workload=decode_at(B=3, HQ=16, HV=32))
    checked = {other.id: Examined(other.id, Status.CRASHED, "SIGSEGV")}
    print_verdicts(Verification(7, "cpu", (other,), checked, {}), json=False, csv=False)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "next: gdnbench verify decode-bad --shape B=3 --shape heads=qk16_v32 --seed 7"


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ([Status.OK], ExitCode.OK),
        ([Status.OK, Status.UNSUPPORTED], ExitCode.OK),
        ([Status.UNSUPPORTED, Status.MISSING], ExitCode.ENVIRONMENT),
        ([Status.OK, Status.WRONG_NUMBERS, Status.BUILD_FAILED], ExitCode.WRONG_NUMBERS),
        ([Status.OK, Status.BUILD_FAILED, Status.CRASHED], ExitCode.BUILD),
        ([Status.CRASHED], ExitCode.PARTIAL),
    ],
)
def test_the_exit_code_tells_the_gravest(statuses, code):
    checked = {str(status): Examined(str(status), status, "" if status is Status.OK else "why") for status in statuses}
    assert Verification(1, "cpu", (), checked, {}).exit_code is code
