"""`gdnbench score --watch` as its users use it: a line a save, keys in a terminal, documents in a pipe."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
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
            "EDITOR": "echo opened",
            "COLUMNS": "120",
            "TERM": "xterm",
        }
        self.environment.pop("XDG_RUNTIME_DIR", None)
        self._run("new", "decode-mine", "--from", "decode-v9", "--to", str(home / "kernels"))
        self.good = self.source.read_text()

    def _run(self, *words):
        subprocess.run(
            [sys.executable, "-m", "gdnbench", *words], env=self.environment, check=True, capture_output=True
        )

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


def test_a_kernel_that_is_not_there_is_refused(project):
    done = project.start("--turns", "1", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    done.communicate(timeout=LIMIT_S)
    assert done.returncode == 0
    words = [sys.executable, "-m", "gdnbench", "score", "--watch", "nothing-such", "--gpu", "b200"]
    refused = subprocess.run(words, env=project.environment, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "there is no kernel nothing-such" in refused.stderr


class Terminal:
    """A watch in a terminal of its own."""

    def __init__(self, project):
        self.master, terminal = pty.openpty()
        self.process = project.start(stdin=terminal, stdout=terminal, stderr=terminal)
        os.close(terminal)
        self.text = ""

    def wait_for(self, *texts, limit_s=LIMIT_S):
        """Reads until each of them has been printed since the last wait."""
        begin, deadline = len(self.text), time.monotonic() + limit_s
        while not all(text in self.text[begin:] for text in texts):
            assert time.monotonic() < deadline, self.text[begin:]
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self.master, 1 << 16).decode(errors="replace")
                except OSError:
                    assert all(text in self.text[begin:] for text in texts), self.text[begin:]
                    return

    def press(self, key):
        os.write(self.master, key.encode())


def test_keys_of_a_terminal(project):
    terminal = Terminal(project)
    terminal.wait_for("q stop", " regs ")
    terminal.press("d")
    terminal.wait_for("there is no earlier turn")
    project.save(project.good.replace("scale * fmaf", "2.0f * scale * fmaf"))
    terminal.wait_for(" regs ")
    terminal.press("d")
    terminal.wait_for("next: gdnbench inspect decode-mine --arch sm_100 --sass")
    terminal.press("o")
    terminal.wait_for("opened +", "kernel.cu")
    terminal.press("e")
    terminal.wait_for("next: gdnbench run decode-mine")
    terminal.press("h")
    terminal.wait_for("2 turns; best: ")
    terminal.press("s")
    terminal.wait_for(" regs ")
    project.save(project.good.replace("{", "{ no such thing;", 1))
    terminal.wait_for("build-failed", "kernel.cu:")
    terminal.press("o")
    terminal.wait_for("opened +")
    terminal.press("d")  # of the last two that built
    terminal.wait_for("the same code as")
    terminal.press("q")
    terminal.wait_for("4 turns; best: ")
    assert terminal.process.wait(LIMIT_S) == 0


def test_ctrl_c_gives_the_terminal_back(project):
    project.environment["EDITOR"] = "no-such-editor"
    terminal = Terminal(project)
    terminal.wait_for(" regs ")
    before = subprocess.run(["stty", "-a"], stdin=terminal.master, capture_output=True, text=True, check=True).stdout
    assert "-icanon" in before
    terminal.press("o")
    terminal.wait_for("no-such-editor: No such file or directory")
    terminal.press("\x03")
    terminal.process.send_signal(signal.SIGINT)  # the terminal's own signal goes to its foreground group alone
    assert terminal.process.wait(LIMIT_S) == 130
    after = subprocess.run(["stty", "-a"], stdin=terminal.master, capture_output=True, text=True, check=True).stdout
    assert " icanon" in after
    assert " echo " in after
