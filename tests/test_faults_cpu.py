"""Kernels that misbehave on the CPU, all in one run: each gets a status and a reason, and the others get times."""

import csv
import json
import math

import pytest
from faults import ADVERSARIAL, CPU, SHORT, Gdnbench

# Label: status, and a part of the reason.
FAULTS = {
    "test-dies:HOW=abort": ("crashed", "died in step `first launch` (SIGABRT)"),
    "test-dies:HOW=segfault": ("crashed", "SIGSEGV"),
    "test-dies:HOW=exit": ("crashed", "died in step `first launch` (exit code 0)"),
    "test-dies:HOW=ramble": ("crashed", "the last word"),
    "test-hangs": ("timed-out", "step `verify typical` did not end within 8 s"),
    "test-late:HOW=abort": ("crashed", "died in step `measure` (SIGABRT)"),
    "test-late:HOW=hang": ("timed-out", "step `measure` did not end within 4 s"),
    "test-late:HOW=raise": ("failed", "ValueError: tired of being measured"),
    "test-raises": ("failed", "ValueError: no [/bold] tile [red] fits"),
    "test-returns:HOW=one": ("failed", "must return output, new_state"),
    "test-returns:HOW=shape": ("failed", "output is torch.bfloat16 (1, 8, 128), not bf16 (1, 1, 8, 128)"),
    "test-returns:HOW=dtype": ("failed", "output is torch.float32"),
    "test-returns:HOW=none": ("failed", "returned NoneType"),
    "test-returns:HOW=text": ("failed", ""),
    "test-wrong": ("wrong-numbers", "output fp32 roundoff"),
    "test-nan": ("wrong-numbers", "error inf"),
    "test-drifts": ("wrong-numbers", "output fp32 roundoff"),
    "test-partial": ("unwritten-output", "new_state written: fails for 16384 elements, first at [0, 7, 0, 0]"),
    "test-changes-state": ("changed-input", "state unchanged: fails for 1 elements, first at [0, 0, 0, 0]"),
    "test-in-place": ("changed-input", "state unchanged"),
    "test-tampers:HOW=gates": ("tampers", "gdnbench.verify.examine.verify_kernel"),
    "test-tampers:HOW=code": ("tampers", "gdnbench.verify.gates.unchanged_gate"),
    "test-tampers:HOW=torch": ("tampers", "torch.Tensor.double"),
    "test-tampers:HOW=channel": ("tampers", "gdnbench.process.channel.Channel.send"),
    "test-tampers:HOW=clock": ("tampers", "time.perf_counter"),
    "test-forges:HOW=examined": ("tampers", "wrote to the channel of results, in step `first launch`"),
    "test-forges:HOW=sampled": ("tampers", "wrote to the channel of results, in step `measure`"),
    "test-forges:HOW=junk": ("tampers", "something else than gdnbench wrote to the channel of results"),
    "test-peeks:AT=answers": ("wrong-numbers", "output fp32 roundoff"),
    "test-peeks:AT=inputs": ("wrong-numbers", "output fp32 roundoff"),
    "test-updates:HOW=never": ("wrong-numbers", "new_state fp32 roundoff"),
    "test-updates:HOW=half": ("wrong-numbers", "new_state fp32 roundoff"),
    "test-updates:HOW=once": ("wrong-numbers", "right at first, wrong after 20 launches: new_state"),
    "test-updates:HOW=input": ("changed-input", "state unchanged"),
}
# Last on the command line: what the others leave behind in the worker must not reach them.
HEALTHY = ("test-talks", "test-slow", "test-updates")


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return Gdnbench(tmp_path_factory.mktemp("faults"), (ADVERSARIAL / "cpu",), in_process=True)


@pytest.fixture(scope="module")
def done(bench):
    return bench.run(",".join([*FAULTS, *HEALTHY]), *CPU, *SHORT, "-q")


@pytest.mark.slow
@pytest.mark.parametrize("label", FAULTS)
def test_a_fault_is_a_status_and_a_reason_on_its_own_row(done, label):
    status, reason = FAULTS[label]
    row = done.rows[label]
    assert row["status"] == status, row["reason"]
    assert reason in row["reason"]
    assert len(row["reason"]) < 1500


@pytest.mark.slow
@pytest.mark.parametrize("label", [*HEALTHY, "decode-reference", "decode-reference@again"])
def test_the_others_are_measured_in_every_round(done, label):
    row = done.rows[label]
    assert (row["status"], row["reason"]) == ("ok", "")
    assert (row["timer"], row["rounds"], row["samples"]) == ("cpu", 3, 15)
    # Of three rounds on a busy machine, the interval may reach anywhere: JSON has null for an end that is infinite.
    assert (row["time_lo_us"] or 0) <= row["time_us"] <= (row["time_hi_us"] or math.inf)
    assert row["time_us"] > 0


@pytest.mark.slow
def test_the_run_is_complete_and_its_exit_code_says_wrong_numbers(done):
    assert done.code == 3
    assert done.info["complete"]
    assert done.err == ""


@pytest.mark.slow
def test_the_stored_run_reads_back_as_it_was_printed(done, bench):
    shown = bench("show", done.info["run_id"], "--out", str(bench.results), "--json")
    assert shown.code == 0
    assert shown.document == done.document
    table = bench("show", "--out", str(bench.results))
    assert table.code == 0
    assert "no [/bold] tile [red] fits" in table.out
    with (bench.only_run() / "measurements.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == len(done.rows)


@pytest.mark.slow
def test_a_workload_larger_than_the_memory_costs_only_its_own_cases(tmp_path):
    """Without wrong numbers the exit code says partial; and `--plain` reaches the run's record and its worker."""
    bench = Gdnbench(tmp_path, in_process=True)
    done = bench.run("decode-reference", *CPU, *SHORT, "-q", "--shape", "B=1,2147483647", "--plain")
    assert done.code == 8
    assert done.info["settings"]["plain"] is True
    assert json.loads((bench.only_run() / "measure-0.json").read_text())["plain"] is True
    rows = done.document["measurements"]
    assert [(row["B"], row["status"]) for row in rows] == [(1, "ok")] * 2 + [(2_147_483_647, "failed")] * 2
    assert "memory" in rows[-1]["reason"]
