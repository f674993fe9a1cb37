"""Commands on a cluster, by a `srun` that is made up."""

import json
import signal

import pytest
from faults import ROUNDS, answer, wait_for
from remote_data import HOST, ROOTS, SHORT, has_measured, is_alone, ssh_laptop
from simulated_workers import VARIABLE
from slurm_data import MadeUpSlurm, cluster, cluster_laptop

pytestmark = pytest.mark.slow


@pytest.fixture
def slurm(tmp_path):
    (tmp_path / "bin").mkdir()
    made = MadeUpSlurm(tmp_path / "bin")
    yield made
    made.free()


@pytest.fixture
def laptop(slurm, tmp_path):
    return cluster_laptop(tmp_path, slurm)


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
    process = laptop.start_slow("cluster")
    wait_for(lambda: (laptop.workdir / "jobs").exists() and laptop.jobs, "the job's folder")
    wait_for(lambda: slurm.left, "a job in the queue")
    process.send_signal(signal.SIGINT)
    stopped = laptop.finish(process)
    assert stopped.code == 130, stopped.err
    assert laptop.runs == []
    assert slurm.left == set()


def test_a_job_that_is_cancelled_comes_home_with_what_is_finished_and_resume_goes_on(laptop, slurm):
    process = laptop.start_slow("cluster")
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


@pytest.fixture
def beyond(slurm, tmp_path):
    """A laptop without Slurm, from which a login node with it is reached by ssh."""
    with ssh_laptop(tmp_path, **slurm.environment) as (laptop, _):
        yield laptop


def test_ctrl_c_in_the_queue_of_a_login_node_leaves_no_job(beyond, slurm):
    beyond.configure(cluster(beyond.workdir, login=HOST, **{VARIABLE: "0"}))
    slurm.occupy()
    process = beyond.start("run", "decode-v4", "--baseline", "decode-v1", "--shape", "B=1,8", "--on", "cluster")
    wait_for(lambda: slurm.left, "a job in the queue")
    wait_for(lambda: beyond.jobs, "its folder")
    process.send_signal(signal.SIGINT)
    stopped = beyond.finish(process)
    assert stopped.code == 130, stopped.err
    assert beyond.runs == []
    assert slurm.left == set()


def test_options_that_slurm_refuses_are_told_with_where_they_stand(slurm, tmp_path):
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
    def init(words):
        return answer("targets", "init", *words.split(), folder=tmp_path)

    assert init("farm --slurm --ssh login1 --option=--gres=gpu:b200:1 --gpu b200").code == 0
    (row,) = json.loads(answer("targets", "--json", folder=tmp_path).out)
    assert (row["kind"], row["host"], row["gpus"]) == ("slurm", "login1", ["b200"])
    refused = init("lab --ssh gpu1 --option=--time=5")
    assert refused.code == 2
    assert "--option is for --slurm" in refused.err
