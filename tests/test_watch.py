"""`gdnbench score --watch` as its users use it: a line a save, or a document."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from faults import answer
from warm_processes import end_warm_parents

TESTS = Path(__file__).parent
LIMIT_S = 60


class Project:
    """A folder with a copy of decode-v9, and a B200 that is made up."""

    def __init__(self, home):
        self.home = home
        self.source = home / "kernels" / "decode" / "mine" / "kernel.cu"
        self.environment = {
            **os.environ,
            "GDNBENCH_SIMULATED": "0",
            "GDNBENCH_KERNELS": str(home / "kernels"),
            "PYTHONPATH": os.pathsep.join(map(str, (TESTS.parent, TESTS / "simulated", TESTS))),
            "TMPDIR": str(home),
            "COLUMNS": "120",
        }
        self.environment.pop("XDG_RUNTIME_DIR", None)
        assert answer("new", "decode-mine", "--from", "decode-v9", "--to", home / "kernels").code == 0
        self.good = self.source.read_text()

    def start(self, *options, **streams):
        words = ("score", "--watch", "decode-mine", "--against", "decode-v8", "--gpu", "b200", *options)
        return subprocess.Popen([sys.executable, "-m", "gdnbench", *words], env=self.environment, **streams)

    def save(self, text):
        self.source.write_text(text)


@pytest.fixture
def project():
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="gdnbench-watch-") as home:
        yield Project(Path(home))
        end_warm_parents(Path(home))


class Watched:
    """A watch in a pipe: a document a line."""

    def __init__(self, project, *options):
        self.process = project.start(
            "--json", *options, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
        )

    def turn(self, limit_s=LIMIT_S):
        ready, _, _ = select.select([self.process.stdout], [], [], limit_s)
        assert ready, "no line in time"
        return json.loads(self.process.stdout.readline())

    def is_silent(self, seconds):
        return not select.select([self.process.stdout], [], [], seconds)[0]

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        _, err = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, err.decode()


def test_each_save_is_a_turn_and_a_touch_is_none(project):
    watched = Watched(project)
    first = watched.turn()
    assert (first["turn"], first["kernel"], first["against"]) == (1, "decode-mine", "decode-v8")
    assert first["verdict"] in {"faster", "slower", "same", "unclear"}
    project.source.touch()
    assert watched.is_silent(1.0)
    project.save(project.good.replace("\n", "\n// a comment\n", 1))
    assert watched.turn()["turn"] == 2
    project.save(project.good.replace("{", "{ no such thing;", 1))
    broken = watched.turn()
    assert (broken["turn"], broken["verdict"], broken["exit_code"]) == (3, "build-failed", 6)
    assert "kernel.cu" in broken["failure"]
    project.save(project.good)
    assert watched.turn()["verdict"] == first["verdict"]
    assert watched.stop() == (130, "")


def test_a_declaration_that_does_not_load_is_a_turn_like_any_other(project):
    variant = project.source.with_name("variant.py")
    good = variant.read_text()
    watched = Watched(project)
    watched.turn()
    variant.write_text(good + "\nsyntax error here\n")
    broken = watched.turn()
    assert broken["verdict"] == "broken"
    assert "SyntaxError" in broken["failure"]
    variant.write_text(good.replace('"decode-mine"', '"decode-other"'))
    renamed = watched.turn()
    assert (renamed["verdict"], renamed["failure"]) == ("broken", "there is no kernel decode-mine")
    variant.unlink()
    assert watched.turn()["verdict"] == "broken"
    variant.write_text(good)
    assert "ratio" in watched.turn()
    watched.stop()


def test_people_have_a_line_a_turn(project):
    watch = project.start("--turns", "2", stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert " regs " in watch.stdout.readline().decode()
    project.save(project.good.replace("scale * fmaf", "2.0f * scale * fmaf"))
    out, _ = watch.communicate(timeout=LIMIT_S)
    assert watch.returncode == 0
    [line] = out.decode().splitlines()
    assert line.split()[1] == "2"
