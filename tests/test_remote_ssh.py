"""Commands on a machine that ssh reaches: a real server on this machine, and the system's own client."""

import json
import resource
import shutil
import signal

import pytest
from faults import ROUNDS, wait_for
from remote_data import ROOTS, SHORT, far_results, has_measured, is_alone, ssh_laptop

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with ssh_laptop(tmp_path_factory.mktemp("it's a laptop")) as (laptop, _):
        yield laptop


@pytest.fixture
def laptop(lab):
    """The laptop, without what a test before this one left."""
    shutil.rmtree(lab.results, ignore_errors=True)
    return lab


@pytest.fixture
def own(tmp_path):
    """A laptop and a server of this test's own, for one that kills the server."""
    with ssh_laptop(tmp_path) as both:
        yield both


def test_a_run_elsewhere_is_as_one_here(laptop):
    done = laptop("run", "decode-reference", *SHORT, "--on", "lab", "--json", "--label", 'it\'s "one"; $HOME `x` \\')
    assert done.code == 0, done.err
    [run] = laptop.runs
    assert run.name == done.info["run_id"]
    assert {path.name for path in run.iterdir()} >= {"run.json", "measurements.csv", "rounds.csv", "samples.parquet"}
    info = json.loads((run / "run.json").read_text())
    assert info["complete"]
    assert info["machine"]["target"] == "lab"
    assert info["machine"]["host"]["hostname"]
    assert info["label"] == 'it\'s "one"; $HOME `x` \\'
    assert "--on" not in info["command"]
    assert laptop.jobs == []


def test_another_gpu_than_the_one_asked_for_is_refused_before_anything_is_measured(laptop):
    for words in (("--gpu", "h200"), ("--on", "lab")):
        done = laptop("run", "decode-reference", *SHORT[2:], *words)
        assert (done.code, done.out) == (5, "")
        assert "lab is to have a GPU of model h200" in done.err
        assert "no NVIDIA GPU" in done.err
    assert laptop.runs == []
    assert laptop.jobs == []


def test_a_host_that_is_not_reached_is_told_with_what_to_try(laptop, tmp_path):
    (tmp_path / "gdnbench.toml").write_text('[targets.far]\nkind = "ssh"\nhost = "127.0.0.1:no such"\n')
    from faults import answer

    done = answer("doctor", "--on", "far", folder=tmp_path, **laptop.environment)
    assert (done.code, done.out) == (5, "")
    assert "ssh does not reach 127.0.0.1:no such" in done.err
    assert "ssh '127.0.0.1:no such' true" in done.err


def test_ctrl_c_ends_the_job_there_brings_home_what_is_finished_and_resume_goes_on(laptop):
    process = laptop.start_slow("lab")
    wait_for(has_measured(laptop, 2, process), "the second round")
    process.send_signal(signal.SIGINT)
    stopped = laptop.finish(process)
    assert stopped.code == 130, stopped.err
    assert not stopped.info["complete"]
    assert 1 <= stopped.rows["test-slow"]["rounds"] < ROUNDS
    [run] = laptop.runs
    assert laptop.jobs == []
    assert is_alone(laptop)
    before = (run / "journal.jsonl").read_text()

    done = laptop("run", "--resume", run.name, "--on", "lab", "--json", **ROOTS)
    assert done.code == 0, done.err
    assert done.info["complete"]
    assert done.info["run_id"] == run.name
    assert {row["rounds"] for row in done.rows.values()} == {ROUNDS}
    assert laptop.runs == [run]
    assert before
    again = laptop("run", "--resume", run.name, "--on", "lab", **ROOTS)
    assert again.code == 2
    assert "is complete" in again.err


def test_a_cut_connection_is_told_the_worker_there_stops_and_resume_has_it_all(own):
    laptop, server = own
    process = laptop.start_slow("lab")
    wait_for(has_measured(laptop, 2, process), "the second round")
    server.kill()
    cut = laptop.finish(process)
    assert (cut.code, cut.out) == (5, "")
    assert "the connection to gpu1 was cut" in cut.err
    assert laptop.runs == []
    wait_for(lambda: is_alone(laptop), "the end of the worker there")
    [run] = far_results(laptop).iterdir()
    assert not run.name.startswith(".")  # as after Ctrl-C
    assert f"gdnbench run --resume {run.name} --on lab" in cut.err

    server.start()
    done = laptop("run", "--resume", run.name, "--on", "lab", "--json", **ROOTS)
    assert done.code == 0, done.err
    assert done.info["complete"]
    assert {row["rounds"] for row in done.rows.values()} == {ROUNDS}
    assert [path.name for path in laptop.runs] == [run.name]
    assert laptop.jobs == []


def test_a_full_disk_here_leaves_the_run_there_and_resume_brings_it_home(laptop):
    words = ("run", "decode-reference", *SHORT, "--on", "lab", "--json")
    laptop("run", "decode-nonsense", "--gpu", "cpu", "--on", "lab")  # the sources are there
    process = laptop.start(*words, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000)))
    full = laptop.finish(process)
    assert full.code == 5, full.err
    assert "cannot be written: File too large" in full.err
    assert laptop.runs == []
    [run] = far_results(laptop).iterdir()
    assert f"gdnbench run --resume {run.name} --on lab" in full.err

    done = laptop("run", "--resume", run.name, "--on", "lab", "--json")
    assert done.code == 0, done.err
    assert done.info["run_id"] == run.name
    assert [path.name for path in laptop.runs] == [run.name]
    assert laptop.jobs == []


def test_a_full_disk_there_is_told_and_leaves_no_part_of_a_tree(own):
    laptop, server = own
    tar = server.folder / "bin" / "tar"
    tar.write_text(
        "#!/bin/sh\ncat >/dev/null\necho 'tar: x.py: Cannot write: No space left on device' >&2\n"
        "echo 'tar: Exiting with failure status due to previous errors' >&2\nexit 2\n"
    )
    tar.chmod(0o755)
    server.kill()
    server.start(PATH=server.path)
    done = laptop("run", "decode-reference", *SHORT, "--on", "lab")
    assert (done.code, done.out) == (5, "")
    assert "No space left on device" in done.err
    assert laptop.sources == set()
    tar.unlink()
    assert laptop("verify", "decode-nonsense", "--on", "lab", "--gpu", "cpu").code == 2
    assert len(laptop.sources) == 2
