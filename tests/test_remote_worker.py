"""A job is a file: what travels in it, and what a worker does with it."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from faults import ADVERSARIAL, LIMIT_S, LONG, REPOSITORY, answer, is_running, python_path, wait_for, workers_of
from remote_data import SHORT

from gdnbench.errors import UsageError
from gdnbench.model.gpu import Gpu
from gdnbench.process.channel import decode
from gdnbench.process.events import EVENTS, JobEnded, TextPrinted
from gdnbench.remote.job import RemoteJob, forwarded_args, read_job, work

KERNELS = str(REPOSITORY / "kernels")
SLOW = ["run", "test-slow", "--gpu", "cpu", "--baseline", "test-slow", *LONG, "--shape", "B=1"]


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "jobs" / "one"
    path.mkdir(parents=True)
    return path


def start(folder, job):
    (folder / "job.json").write_text(job.to_json())
    return subprocess.Popen(
        [sys.executable, "-m", "gdnbench", "worker", "job.json", "--out", "out"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": python_path(REPOSITORY, ADVERSARIAL), "TMPDIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def events_of(text):
    return [decode(line, EVENTS) for line in text.splitlines()]


def printed(events, stream="stdout"):
    return "".join(event.text for event in events if isinstance(event, TextPrinted) and event.stream == stream)


def in_process(folder, job):
    """Does a job in this process, its command in another; gives its exit code and events."""
    (folder / "job.json").write_text(job.to_json())
    stops, stop = os.pipe()
    with (folder / "events").open("wb") as told:
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        environment = dict(os.environ)
        try:
            code = work(folder / "job.json", folder / "out", told.fileno(), stops)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            os.environ.clear()
            os.environ.update(environment)
            os.close(stops)
            os.close(stop)
    return code, events_of((folder / "events").read_text())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"schema": 2}, "of schema 2; this gdnbench knows 1"),
        ({"words": []}, "words"),
        ({"words": ["sh", "-c", "true"]}, "'sh' is not a job"),
        ({"words": "run --kernel all"}, "words: Expected `array`, got `str`"),
        ({"words": ["run", 1]}, "words[1]"),
        ({"environment": {"A=B": "c"}}, "environment"),
        ({"width": 0}, "width"),
        ({"patience_s": -1.0}, "patience_s"),
    ],
)
def test_a_file_that_is_no_job_is_refused_by_field(folder, change, told):
    document = {**json.loads(RemoteJob(words=["run"]).to_json()), **change}
    (folder / "job.json").write_text(json.dumps(document))
    with pytest.raises(UsageError) as caught:
        read_job(folder / "job.json")
    assert told in caught.value.message
    done = answer("worker", folder / "job.json", "--out", folder / "out")
    assert done.code == 2
    assert not (folder / "out").exists()


def test_a_job_is_read_as_it_was_written(folder):
    job = RemoteJob(
        words=["run", "--label", "a \"b\" 'c' \n $d"], gpu="h200", models=["h200"], environment={"A": "ü"}, width=80
    )
    (folder / "job.json").write_text(job.to_json())
    assert read_job(folder / "job.json") == job


def test_the_output_has_the_width_and_the_names_of_who_asked(folder):
    words = ["run", "decode-reference", *SHORT, "--dry-run"]
    job = RemoteJob(words=words, roots=[KERNELS], target="lab", results="/my/results", width=60, models=["h200"])
    code, events = in_process(folder, replace(job, gpu="cpu"))
    assert code == 0, printed(events, "stderr")
    out = printed(events)
    assert "--out /my/results --on lab" in out
    assert max(map(len, out.splitlines()[:-1])) <= 60
    assert "\x1b" not in out
    assert events[-1] == JobEnded(0, [])
    colourful = in_process(folder, replace(job, gpu="cpu", colour=True))
    assert "\x1b[" in printed(colourful[1])


def test_only_the_roots_that_travelled_count_and_no_variable_of_this_machine(folder, monkeypatch):
    monkeypatch.setenv("GDNBENCH_KERNELS", str(ADVERSARIAL / "cpu"))
    job = RemoteJob(words=["verify", "test-wrong", "--gpu", "cpu"], roots=[KERNELS])
    code, events = in_process(folder, job)
    assert code == 2
    assert "test-wrong" in printed(events, "stderr")


@pytest.mark.parametrize(
    ("there", "gpu", "models", "is_right"),
    [
        ([], "auto", ["h200"], False),
        (["NVIDIA H100 80GB HBM3"], "auto", ["h200"], False),
        (["NVIDIA H100 80GB HBM3", "NVIDIA H200"], "auto", ["h200"], False),  # the first one would be taken
        (["NVIDIA H100 80GB HBM3", "NVIDIA H200"], "h200", ["h200"], True),
        (["NVIDIA H100 80GB HBM3", "NVIDIA H200"], "1", ["h200"], True),
        (["NVIDIA H100 80GB HBM3", "NVIDIA H200"], "0", ["h200"], False),
        (["NVIDIA H200", "NVIDIA H200"], "all", ["h200"], True),
        (["NVIDIA H200"], "auto", ["b200", "h200"], True),
        (["NVIDIA H200"], "auto", [], True),
        ([], "cpu", ["h200"], True),
    ],
)
def test_a_gpu_of_another_model_is_refused_before_the_command_begins(folder, monkeypatch, there, gpu, models, is_right):
    gpus = tuple(Gpu(index, name, f"GPU-{index}", (9, 0)) for index, name in enumerate(there))
    monkeypatch.setattr("gdnbench.remote.job.list_gpus", lambda: gpus)
    began = []
    monkeypatch.setattr("gdnbench.remote.job._Command.run", lambda self: began.append(self) or 0)
    job = RemoteJob(words=["run", "decode-reference"], gpu=gpu, models=models, target="lab")
    code, events = in_process(folder, job)
    assert (code, len(began)) == ((0, 1) if is_right else (5, 0))
    assert is_right or "lab is to have a GPU of model" in printed(events, "stderr")
    assert isinstance(events[-1], JobEnded)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["the end of stdin", "silence", "SIGTERM"])
def test_a_worker_that_nobody_listens_to_stops_its_command_and_keeps_what_is_finished(folder, how):
    job = RemoteJob(words=SLOW, roots=[KERNELS, str(ADVERSARIAL / "cpu")], gpu="cpu")
    if how == "silence":
        job = replace(job, patience_s=3.0)
    process = start(folder, job)
    command = wait_for(lambda: workers_of(process.pid), "the command")

    def has_run():
        if how == "silence":
            print(file=process.stdin, flush=True)
        return any((folder / "out").glob("results/.*/journal.jsonl"))

    wait_for(has_run, "the run")
    if how == "the end of stdin":
        process.stdin.close()
    elif how == "SIGTERM":
        process.terminate()
    out = process.stdout.read()
    assert process.wait(LIMIT_S) == 130
    events = events_of(out)
    assert events[-1].code == 130
    [run] = (folder / "out" / "results").iterdir()
    assert events[-1].folders == [f"results/{run.name}"]
    assert not json.loads((run / "run.json").read_text())["complete"]
    assert not any(map(is_running, command))
    process.stdin and process.stdin.close()
    process.stdout.close()
    process.stderr.close()


@pytest.mark.slow
def test_a_command_does_not_outlive_its_worker(folder):
    job = RemoteJob(words=SLOW, roots=[KERNELS, str(ADVERSARIAL / "cpu")], gpu="cpu")
    process = start(folder, job)
    command = wait_for(lambda: workers_of(process.pid), "the command")
    process.kill()  # perhaps before the command has asked to be killed with it
    process.communicate()
    wait_for(lambda: not any(map(is_running, command)), "the end of the command")


SPELLINGS = {
    "--kernel": ("kernel", True),
    "-k": ("kernel", True),
    "--out": ("results", True),
    "--on": ("on", True),
    "--label": ("label", True),
    "--quiet": ("quiet", False),
    "-q": ("quiet", False),
    "-y": ("yes", False),
}


@pytest.mark.parametrize(
    ("typed", "travels"),
    [
        ("a --on lab b", "a b"),
        ("--on=lab --out=x a", "a"),
        ("--label --on --on lab", "--label --on"),  # the label is `--on`
        ("-k --out -q --out x", "-k --out -q"),
        ("-k--out -qy --on lab", "-k--out -qy"),
        ("a -- --on lab", "a -- --on lab"),
        ("--on lab -- --out", "-- --out"),
        ("--label=--out=x", "--label=--out=x"),
        ("a --out", "a"),
        ("--unknown --on x", "--unknown"),
        ("- --on lab", "-"),
        ("", ""),
    ],
)
def test_options_of_this_machine_stay_and_values_that_look_like_them_travel(typed, travels):
    assert forwarded_args(typed.split(), SPELLINGS, {"on", "results"}) == travels.split()
    assert forwarded_args(typed.split(), SPELLINGS, set()) == typed.split()
