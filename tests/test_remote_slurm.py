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


GRID = ("sweep", "decode-v4", "--param", "WARPS", "--shape", "B=1,2,8,64", "--budget", "5m", "--seed", "7")


def test_a_sweep_over_four_tasks_is_the_sweep_of_one_point_by_point(slurm, tmp_path):
    found = {}
    for tasks in (1, 4):
        folder = tmp_path / str(tasks)
        folder.mkdir()
        laptop = cluster_laptop(folder, slurm, tasks=tasks, **{VARIABLE: "0"})
        done = laptop(*GRID, "--on", "cluster", "--json")
        assert done.code == 0, done.err
        assert [run.name for run in laptop.runs] == [done.info["run_id"]]
        assert (laptop.jobs, slurm.left) == ([], set())
        found[tasks] = done.document["sweep"]
        assert len(done.info.get("merged", [])) == (4 if tasks == 4 else 0)
    one, four = found[1], found[4]
    assert four["axes"] == one["axes"]
    assert [plateau["shape"] for plateau in four["plateaus"]] == [plateau["shape"] for plateau in one["plateaus"]]
    points = [{(point["label"], str(point["shape"])): point for point in sweep["points"]} for sweep in (one, four)]
    assert points[0].keys() == points[1].keys()
    for key, point in points[0].items():
        assert points[1][key]["place"] == point["place"], key
        assert points[1][key]["slower_by"] == pytest.approx(point["slower_by"], abs=0.004), key
    assert [each["label"] for each in four["one_for_all"]] == [each["label"] for each in one["one_for_all"]]


def test_parts_that_are_stopped_are_finished_one_by_one_and_merged(slurm, tmp_path):
    laptop = cluster_laptop(tmp_path, slurm, tasks=2, **{VARIABLE: "0.3"})
    words = ("run", "decode-v4", "--baseline", "decode-v1", "--quick", "--shape", "B=1,8", "--margin", "0.5")
    process = laptop.start(*words, "--on", "cluster", "--json")
    journals = (laptop.workdir / "jobs").glob
    name = "*/out/results/.*/journal.jsonl"
    wait_for(lambda: any('"round":2' in path.read_text() for path in journals(name)), "the second round")
    process.send_signal(signal.SIGINT)
    stopped = laptop.finish(process)
    assert (stopped.code, stopped.out) == (130, "")
    assert len(laptop.runs) == 2
    for run in laptop.runs:
        resume = f"gdnbench run --resume {run.name} --on cluster"
        assert resume in stopped.err
        assert laptop(*resume.split()[1:]).code == 0
    in_order = sorted((run.name for run in laptop.runs), key=lambda name: name.rpartition("-")[2])
    merge = f"gdnbench runs merge {' '.join(in_order)}"
    assert f"once all parts are complete: {merge}" in stopped.err
    done = laptop(*merge.split()[1:], "--json")
    assert done.code == 0, done.err
    assert done.info["complete"]
    assert [run.name for run in laptop.runs] == [done.info["run_id"]]
    assert slurm.left == set()


def test_a_kernel_that_is_not_there_is_told_before_a_task_begins(slurm, tmp_path):
    done = cluster_laptop(tmp_path, slurm, tasks=4)("run", "decode-v99", "--shape", "B=1,8", "--on", "cluster")
    assert done.code == 2
    assert "decode-v99" in done.err
    assert slurm.left == set()


@pytest.fixture
def beyond(slurm, tmp_path):
    """A laptop without Slurm, from which a login node with it is reached by ssh."""
    with ssh_laptop(tmp_path, **slurm.environment) as (laptop, _):
        yield laptop


def test_ctrl_c_in_the_queue_of_a_login_node_leaves_no_job(beyond, slurm):
    beyond.configure(cluster(beyond.workdir, login=HOST, tasks=2, **{VARIABLE: "0"}))
    slurm.occupy()
    process = beyond.start("run", "decode-v4", "--baseline", "decode-v1", "--shape", "B=1,8", "--on", "cluster")
    wait_for(lambda: len(slurm.left) == 2, "two jobs in the queue")
    wait_for(lambda: len(beyond.jobs) == 2, "their folders")
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
    assert init("wide --slurm --tasks 4").code == 0
    assert "tasks = 4" in (tmp_path / "gdnbench.toml").read_text()
    for option in ("--option=--time=5", "--tasks 4"):
        refused = init(f"lab --ssh gpu1 {option}")
        assert refused.code == 2
        assert f"{option.partition('=')[0].partition(' ')[0]} is for --slurm" in refused.err
