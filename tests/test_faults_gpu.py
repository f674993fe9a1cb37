"""Kernels that misbehave on a GPU, all in one run, and what a healthy run on a GPU must look like."""

import signal

import pytest
from faults import ADVERSARIAL, Gdnbench, failures, finish, measured, statuses, wait_for

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

OPTIONS = ("--gpu", "auto", "--baseline", "decode-reference", "--margin", "0.9", "-q")
# Label: the statuses that are right, and a part of the reason.
FAULTS = {
    "test-illegal-address": ({"crashed"}, "illegal"),
    "test-triton-fault": ({"crashed"}, "illegal"),
    "test-endless": ({"timed-out"}, "step `first launch` did not end within 5 s"),
    # The compiler does not know what a launch will ask for: it is the launch that fails, or the binding.
    "test-too-much-shared": ({"failed", "broken"}, ""),
    "test-too-many-threads": ({"failed"}, ""),
    "test-side-stream": ({"wrong-stream"}, "stream"),
    "test-default-stream": ({"wrong-stream"}, "stream"),
    "test-half-stream": ({"wrong-stream"}, "stream"),
    "test-waits": ({"synchronises"}, "cannot be captured"),
    "test-asks": ({"synchronises"}, "cannot be captured"),
    "test-allocates": ({"synchronises"}, "cannot be captured"),
    "test-partial-cuda": ({"unwritten-output"}, "new_state written: fails for 1024 elements"),
    "test-changed-cuda": ({"changed-input"}, "state unchanged"),
    "test-wrong-cuda": ({"wrong-numbers"}, "output fp32 roundoff"),
    "test-stale-shared": ({"wrong-numbers"}, "roundoff"),
    "test-drifting-cuda": ({"wrong-numbers"}, "output fp32 roundoff"),
    "test-switches": ({"wrong-when-timed"}, ""),
    "test-switches:AFTER=60": ({"wrong-when-timed"}, ""),  # honest in the burn-in, whose 51 calls count, and no further
    "test-persists": ({"tampers"}, "bytes of it for lines that persist"),
    "test-persists:BY=window": ({"tampers"}, "an access-policy window of "),
    "test-persists:TIMED=1": ({"tampers"}, "bytes of it for lines that persist"),
    "test-late-raise": ({"failed"}, "ValueError: tired of being measured"),
}
# Last on the command line: what the others leave behind in the worker must not reach them.
HEALTHY = (
    *("test-large-shared", "test-updates"),
    *("decode-v4", "decode-triton", "decode-triton-tma", "decode-triton-ws", "decode-floor-empty"),
)


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return Gdnbench(tmp_path_factory.mktemp("gpu"), (ADVERSARIAL / "gpu",), takes_turns=True)


@pytest.fixture(scope="module")
def faulty(bench):
    kernels = ",".join([*FAULTS, *HEALTHY])
    return bench.run(kernels, *OPTIONS, "--rounds", "3", "--samples", "50", "--step-limit", "5", "--label", "faults")


@pytest.fixture(scope="module")
def healthy(bench):
    kernels = "decode-floor-empty,decode-floor-copy,decode-v4"
    return bench.run(kernels, *OPTIONS, "--rounds", "5", "--samples", "100", "--label", "healthy")


@pytest.mark.parametrize("label", FAULTS)
def test_a_fault_is_a_status_and_a_reason_on_its_own_row(faulty, label):
    right, reason = FAULTS[label]
    row = faulty.rows[label]
    assert row["status"] in right, row["reason"]
    assert reason in row["reason"]
    assert row["reason"]


@pytest.mark.parametrize("label", [*HEALTHY, "decode-floor-copy", "decode-reference", "decode-reference@again"])
def test_the_others_are_measured_in_every_round(faulty, label):
    row = faulty.rows[label]
    assert (row["status"], row["reason"]) == ("ok", "")
    assert (row["timer"], row["rounds"]) == ("nvbench", 3)


def test_the_run_is_complete_and_its_exit_code_says_wrong_numbers(faulty):
    assert faulty.code == 3
    assert faulty.info["complete"]
    assert all(row.get("time_us") is None for row in failures(faulty.rows))


def test_a_healthy_run_counts_launches_and_knows_its_builds(healthy):
    v4, reference = healthy.rows["decode-v4"], healthy.rows["decode-reference"]
    assert (v4["launches"], v4["spill_bytes"]) == (1, 0)
    assert reference["launches"] > 5
    assert 0 < v4["registers"] <= 255
    assert 0 < v4["sol"] < 1.1


def test_nvbench_alone_measures_too(bench):
    done = bench.run("decode-v4", *OPTIONS, "--rounds", "3", "--samples", "50", "--plain", "--label", "plain")
    assert done.code == 0, done.err
    assert set(statuses(done.rows).values()) == {"ok"}
    assert done.info["settings"]["plain"] is True


def test_ctrl_c_keeps_what_was_measured_and_resume_adds_the_rest(tmp_path):
    bench, rounds = Gdnbench(tmp_path, takes_turns=True), 40
    process = bench.start_run("decode-v4", *OPTIONS, "--rounds", str(rounds), "--samples", "100")
    wait_for(measured(bench.results, 2), "the second round", bench.limit_s)
    process.send_signal(signal.SIGINT)
    stopped = finish(process, bench.limit_s)
    assert stopped.code == 130
    assert not stopped.info["complete"]
    assert all(1 <= row["rounds"] < rounds for row in stopped.rows.values())
    done = bench.resume(stopped.info["run_id"])
    assert done.code == 0, done.err
    assert done.info["complete"]
    assert {row["rounds"] for row in done.rows.values()} == {rounds}
    assert bench.only_run().name == stopped.info["run_id"]
