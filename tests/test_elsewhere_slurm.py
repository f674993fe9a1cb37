"""Commands on a cluster: by a `srun` that is made up, and by Slurm's own where there is one at hand."""

import json
import signal

import pytest
from elsewhere_data import SHORT, far_results, has_measured, is_alone
from faults import ADVERSARIAL, LONG, ROUNDS, answer, wait_for
from slurm_data import MadeUpSlurm, SlurmAtHand, cluster_laptop

pytestmark = pytest.mark.slow

SLOW = (
    *("run", "test-slow", "--gpu", "cpu", "--baseline", "test-slow", *LONG, "--shape", "B=1"),
    *("--on", "cluster", "--json"),
)
ROOTS = {"GDNBENCH_KERNELS": str(ADVERSARIAL / "cpu")}


@pytest.fixture(params=["made up", "at hand"])
def slurm(request, tmp_path):
    (tmp_path / "bin").mkdir()
    found = MadeUpSlurm(tmp_path / "bin") if request.param == "made up" else SlurmAtHand()
    yield found
    found.free()


@pytest.fixture
def laptop(slurm, tmp_path):
    return cluster_laptop(tmp_path, slurm)


def start_slow(laptop):
    return type(laptop)(laptop.home, laptop.workdir, {**laptop.environment, **ROOTS}).start(*SLOW)


def test_a_run_on_a_node_is_as_one_here_and_leaves_no_job(laptop, slurm):
    done = laptop("run", "decode-reference", *SHORT, "--on", "cluster", "--json")
    assert done.code == 0, done.err
    assert [run.name for run in laptop.runs] == [done.info["run_id"]]
    assert laptop.jobs == []
    assert slurm.left == set()
    wrong = laptop("verify", "test-wrong", "--gpu", "cpu", "--shape", "B=1", "--on", "cluster", **ROOTS)
    assert wrong.code == 3, wrong.err


def test_ctrl_c_in_the_queue_leaves_no_job(laptop, slurm):
    slurm.occupy()
    process = start_slow(laptop)
    wait_for(lambda: (laptop.workdir / "jobs").exists() and laptop.jobs, "the job's folder")
    wait_for(lambda: slurm.left, "a job in the queue")
    process.send_signal(signal.SIGINT)
    stopped = laptop.finish(process)
    assert stopped.code == 130, stopped.err
    assert laptop.runs == []
    assert slurm.left == set()


def test_ctrl_c_ends_the_job_and_brings_home_what_is_finished(laptop, slurm):
    process = start_slow(laptop)
    wait_for(has_measured(laptop, 2, process), "the second round")
    process.send_signal(signal.SIGINT)
    stopped = laptop.finish(process)
    assert stopped.code == 130, stopped.err
    assert 1 <= stopped.rows["test-slow"]["rounds"] < ROUNDS
    assert len(laptop.runs) == 1
    assert slurm.left == set()


def test_a_job_that_is_cancelled_comes_home_with_what_is_finished_and_resume_goes_on(laptop, slurm):
    process = start_slow(laptop)
    wait_for(has_measured(laptop, 2, process), "the second round")
    slurm.cancel()
    cancelled = laptop.finish(process)
    assert cancelled.code == 130, cancelled.err
    assert not cancelled.info["complete"]
    assert is_alone(laptop)
    assert laptop.jobs == []
    [run] = laptop.runs

    done = laptop("run", "--resume", run.name, "--on", "cluster", "--json", **ROOTS)
    assert done.code == 0, done.err
    assert done.info["complete"]
    assert {row["rounds"] for row in done.rows.values()} == {ROUNDS}
    assert slurm.left == set()


def test_of_a_node_that_fails_what_is_finished_stays_there_and_resume_goes_on(tmp_path):
    (tmp_path / "bin").mkdir()
    slurm = MadeUpSlurm(tmp_path / "bin")
    laptop = cluster_laptop(tmp_path, slurm)
    process = start_slow(laptop)
    wait_for(has_measured(laptop, 2, process), "the second round")
    slurm.fail()
    cut = laptop.finish(process)
    assert (cut.code, cut.out) == (5, "")
    assert "was cut" in cut.err
    assert laptop.runs == []
    wait_for(lambda: is_alone(laptop), "the end of the command there")
    [run] = far_results(laptop).iterdir()
    run_id = run.name.removeprefix(".").removesuffix(".partial")
    assert f"gdnbench run --resume {run_id} --on cluster" in cut.err

    done = laptop("run", "--resume", run_id, "--on", "cluster", "--json", **ROOTS)
    assert done.code == 0, done.err
    assert done.info["complete"]
    assert slurm.left == set()


def test_options_that_slurm_refuses_are_told_with_where_they_stand(tmp_path):
    (tmp_path / "bin").mkdir()
    slurm = MadeUpSlurm(tmp_path / "bin")
    laptop = cluster_laptop(tmp_path, slurm, "--partition=nowhere")
    done = laptop("run", "decode-reference", *SHORT, "--on", "cluster")
    assert (done.code, done.out) == (5, "")
    assert "invalid partition specified: nowhere" in done.err
    assert "options of [targets.cluster]" in done.err


@pytest.mark.parametrize("option", ["gpu", "-p gpu\\n", "--gres=gpu\\u0000", "-"])
def test_a_word_that_srun_would_take_for_the_program_is_no_option(tmp_path, option):
    (tmp_path / "gdnbench.toml").write_text(f'[targets.cluster]\nkind = "slurm"\noptions = ["{option}"]\n')
    done = answer("targets", folder=tmp_path)
    assert done.code == 2
    assert "targets.cluster" in done.err


def test_init_writes_a_cluster(tmp_path):
    words = ("targets", "init", "farm", "--slurm", "--ssh", "login1", "--option=--gres=gpu:b200:1", "--gpu", "b200")
    assert answer(*words, folder=tmp_path).code == 0
    (row,) = json.loads(answer("targets", "--json", folder=tmp_path).out)
    assert (row["kind"], row["host"], row["gpus"]) == ("slurm", "login1", ["b200"])
    refused = answer("targets", "init", "lab", "--ssh", "gpu1", "--option=--time=5", folder=tmp_path)
    assert refused.code == 2
    assert "--option is for --slurm" in refused.err
