"""A stored run on stdout, in a terminal of 80 columns, as JSON and as CSV."""

import pytest
from committed import EVIDENCE
from decode_workloads import decode_at
from made import ROWS
from run_data import case, failed, info, measured, store

from gdnbench.errors import ExitCode, RunFormatError
from gdnbench.model.measurement import InputsEffect
from gdnbench.model.status import Status
from gdnbench.store.journal import Examined
from gdnbench.verbs.run_tables import print_run
from gdnbench.verbs.verify_tables import print_verdicts
from gdnbench.verify.preflight import Verification


@pytest.fixture
def stored(tmp_path):
    store(tmp_path, ROWS, warnings=["other processes are on the GPU: python (1234)"])
    return tmp_path


@pytest.fixture
def shown(stored, capsys, monkeypatch):
    def show(columns="80", folder=stored, **form):
        monkeypatch.setenv("COLUMNS", columns)
        print_run(folder, **{"json": False, "csv": False, **form})
        return capsys.readouterr().out

    return show


def test_the_next_command_can_be_copied_however_narrow_the_terminal(stored, shown):
    folder = stored / ("20260102-030405-h200-decode-" + "a-long-label-" * 8)
    folder.mkdir()
    store(folder, ROWS, run_id=folder.name)
    (line,) = (line for line in shown(folder=folder).splitlines() if line.startswith("next: "))
    assert line == f"next: gdnbench show {folder.name} --out {stored} --csv"


def test_a_run_that_was_stopped_is_to_be_finished_where_that_can_be(stored, shown, monkeypatch):
    folder = stored / ".20260102-030405-h200-decode.partial"
    folder.mkdir()
    store(folder, ROWS, complete=False)
    assert shown().splitlines()[-1].startswith("next: gdnbench show ")
    assert "(partial)" in shown(folder=folder)
    assert shown(folder=folder).splitlines()[-1] == f"next: gdnbench show {info().run_id} --out {stored} --csv"
    monkeypatch.setattr("gdnbench.machine.gpus.list_gpus", lambda: ("a GPU",))
    assert shown(folder=folder).splitlines()[-1] == f"next: gdnbench run --resume {info().run_id} --out {stored}"


def test_a_workload_without_kernel_times_shows_its_stream_times(shown):
    text = shown(folder=EVIDENCE / "20261126-074555-h200-decode-hopper")
    assert "kernel µs" in text.partition("B=128 ")[2].splitlines()[1]
    assert "stream µs" in text.partition("B=256 ")[2].splitlines()[1]


def test_a_run_that_lacks_a_row_of_its_description_is_refused(stored, shown):
    path = stored / "measurements.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(RunFormatError, match=r"measurements\.csv"):
        shown()


def test_what_another_profile_lost_is_told_where_the_lines_differ(shown, tmp_path):
    effect = InputsEffect("never", "forgetful", 1.5, 1.4, 1.6)
    one, both = (decode_at(B=1).at(profile) for profile in ("never", "mixed-heads"))
    store(
        tmp_path,
        [
            measured(case("decode-v4", workload=one, WARPS=8), inputs=effect),
            failed(case("decode-v8", workload=one)),
            measured(case("decode-v4", workload=both, WARPS=8), inputs=effect),
            measured(case("decode-v8", workload=both), inputs=effect),
        ],
    )
    lines = [line for line in shown("200", tmp_path).splitlines() if line.startswith("inputs:")]
    assert ["decode-v8" in line for line in lines] == [False, True]


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
