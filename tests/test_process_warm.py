"""Workers that are forked from a process that has imported torch: as fresh as any, and none outlives its asker."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from processes import Told, is_alive, wait_until_gone, write_worker

from gdnbench.process import warm_parent
from gdnbench.process.warm import WarmParent
from gdnbench.process.worker import Worker, python_path

LIMIT_S = 60


class Parent:
    """A warm parent, and the workers asked of it."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {"PYTHONPATH": f"{python_path()}:{folder}"}
        self.warm = WarmParent(self.environment, idle_s=30.0)
        self.scripts = 0

    def start(self, script, *arguments, warm=None):
        module = f"warm_worker{self.scripts}"
        self.scripts += 1
        write_worker(self.folder / f"{module}.py", script)
        log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as its worker
        return Worker(module, arguments, [Told], log, self.environment, warm=warm or self.warm)

    def told(self, script, *arguments):
        """What a worker's only message says; it ends well."""
        with self.start(script, *arguments) as worker:
            message = receive(worker)
            assert message, worker.log_tail(5)
            assert worker.end() == 0, worker.log_tail(5)
        return message.text


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(dir="/tmp") as runtime:
        patch.setenv("XDG_RUNTIME_DIR", runtime)
        parent = Parent(tmp_path_factory.mktemp("warm"))
        yield parent
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(parent.told("tell(0, str(os.getppid()))")), signal.SIGKILL)


@pytest.fixture
def runtime(monkeypatch):
    """An empty folder for sockets, whose path is short enough for one; pytest's are not always."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


def receive(worker, limit_s=LIMIT_S):
    return worker.receive(time.monotonic() + limit_s)


def test_one_process_forks_them_all_and_has_torch(parent):
    script = "tell(0, f'{os.getppid()} {\"torch\" in sys.modules} {os.getpgrp() == os.getpid()}')"
    told = {parent.told(script) for _ in range(3)}
    assert len(told) == 1
    assert told.pop().split()[1:] == ["True", "True"]


def test_a_worker_has_its_askers_environment_folder_and_arguments(parent, tmp_path, monkeypatch):
    monkeypatch.setenv("OF_THE_ASKER", "yes")
    monkeypatch.chdir(tmp_path)
    script = "tell(0, repr((os.environ.get('OF_THE_ASKER'), os.getcwd(), sys.argv[1:-1])))"
    assert eval(parent.told(script, "a b", "--c")) == ("yes", str(tmp_path), ["a b", "--c"])
    monkeypatch.delenv("OF_THE_ASKER")
    assert eval(parent.told(script))[0] is None


def test_a_worker_holds_no_descriptor_but_its_own(parent):
    held = "sorted(map(int, os.listdir('/proc/self/fd')))"
    found = eval(parent.told(f"tell(0, repr(({held}, int(sys.argv[-1]))))"))
    numbers, channel = found
    assert len(set(numbers) - {0, 1, 2, channel}) == 1  # what lists them is open, too


@pytest.mark.parametrize(
    ("how", "ended"),
    [
        ("sys.exit(3)", "exit code 3"),
        ("sys.exit('no')", "exit code 1"),
        ("os._exit(0)", "exit code 0"),
        ("raise ValueError('bad')", "exit code 1"),
        ("os.kill(os.getpid(), 11)", "SIGSEGV"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
    ],
)
def test_how_it_ends_is_told_and_costs_the_next_nothing(parent, how, ended):
    with parent.start(f"tell(7)\nprint('a line', flush=True)\n{how}") as worker:
        assert receive(worker) == Told(7)
        assert receive(worker) is None
        worker.end()
        assert worker.describe_end() == ended
        assert "a line" in worker.log_tail(50)
    assert parent.told("tell(0, 'well')") == "well"


def test_one_that_hangs_is_killed_with_what_it_started(parent):
    script = """
        import subprocess
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        tell(child.pid)
        time.sleep(600)
    """
    with parent.start(script) as worker:
        pid = receive(worker).number
        with pytest.raises(TimeoutError):
            receive(worker, 0.1)
        assert worker.end(0) == -9
    assert wait_until_gone(pid, LIMIT_S)


def test_what_a_worker_does_to_torch_ends_with_it(parent):
    parent.told("import torch; torch.add = None; sys.path.clear(); os.environ.clear(); tell(0, '')")
    assert parent.told("import torch; tell(0, str(torch.add(torch.ones(1), 1).item()))") == "2.0"


def test_random_numbers_differ_from_worker_to_worker_as_those_of_processes_do(parent):
    script = "import torch, numpy, random; tell(0, f'{torch.rand(1)} {numpy.random.rand()} {random.random()}')"
    first, second = (parent.told(script).split() for _ in range(2))
    assert not set(first) & set(second)


def test_many_in_a_row_leave_the_parent_as_it_was(parent):
    measure = """
        status = open(f"/proc/{os.getppid()}/status").read()
        memory = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        tell(int(memory.split()[1]), str(len(os.listdir(f"/proc/{os.getppid()}/fd"))))
    """
    write_worker(parent.folder / "many.py", measure)
    found = []
    for _ in range(100):
        with tempfile.TemporaryFile() as log, Worker("many", [], [Told], log, warm=parent.warm) as worker:
            found.append(receive(worker))
            assert worker.end() == 0
    assert found[-1].text == found[4].text  # descriptors
    assert found[-1].number - found[4].number < 2_000  # KB


def test_it_dies_with_its_asker(parent, tmp_path):
    script = f"""
        import tempfile, time
        from dataclasses import dataclass
        from gdnbench.process.warm import WarmParent
        from gdnbench.process.worker import Worker
        @dataclass
        class Told:
            number: int
            text: str = ""
        warm = WarmParent({{"PYTHONPATH": {python_path() + ":" + str(parent.folder)!r}}}, idle_s=30.0)
        worker = Worker("sleeps", [], [Told], tempfile.TemporaryFile(), warm=warm)
        print(worker.receive(time.monotonic() + 60).number, flush=True)
        time.sleep(600)
    """
    write_worker(parent.folder / "sleeps.py", "tell(os.getpid())\ntime.sleep(600)\n")
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True) as asker:
        pid = int(asker.stdout.readline())
        assert is_alive(pid)
        asker.kill()
    assert wait_until_gone(pid, LIMIT_S)
    assert parent.told("tell(0, 'well')") == "well"


def test_workers_die_with_their_parent_and_the_next_gets_another(tmp_path, runtime):
    own = Parent(tmp_path)
    script = """
        from gdnbench.process.worker import die_with_parent
        die_with_parent()
        tell(os.getppid())
        time.sleep(600)
    """
    with own.start(script) as worker:
        first = receive(worker).number
        os.kill(first, signal.SIGKILL)
        assert receive(worker) is None
        assert worker.end() == -9
    second = int(own.told("tell(0, str(os.getppid()))"))
    assert second != first
    os.kill(second, signal.SIGKILL)


def test_it_ends_when_nobody_asks_and_removes_its_socket(tmp_path, runtime):
    own = Parent(tmp_path)
    own.warm = WarmParent({"PYTHONPATH": f"{python_path()}:{tmp_path}"}, idle_s=0.3)
    pid = int(own.told("tell(0, str(os.getppid()))"))
    assert wait_until_gone(pid, LIMIT_S)
    folder = next(runtime.glob("gdnbench-warm-*"))
    assert [path.suffix for path in folder.iterdir()] == [".log"]


def others_may_enter(runtime, monkeypatch):
    (runtime / f"gdnbench-warm-{os.getuid()}").mkdir(mode=0o755)


def too_long(runtime, monkeypatch):
    (runtime / ("x" * 100)).mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime / ("x" * 100)))


def not_there(runtime, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime / "none"))


@pytest.mark.parametrize("spoil", [others_may_enter, too_long, not_there])
def test_where_there_can_be_no_socket_a_worker_is_a_process_of_its_own(tmp_path, runtime, monkeypatch, spoil):
    spoil(runtime, monkeypatch)
    assert int(Parent(tmp_path).told("tell(0, str(os.getppid()))")) == os.getpid()


@pytest.mark.parametrize("asked", [False, True])
def test_a_process_that_has_asked_the_driver_for_gpus_forks_no_workers_for_them(monkeypatch, asked):
    cuda = SimpleNamespace(_is_in_bad_fork=lambda: asked)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert warm_parent._can_fork() is not asked


def test_an_import_that_asks_the_driver_is_left_out_after_a_restart(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    for name, value in {
        "IMPORTED_FOR_GPUS": ("wave", "this"), "_can_fork": lambda: "this" not in sys.modules,
        "_Parent": lambda _listener: SimpleNamespace(serve=lambda _idle_s: None),
    }.items():  # fmt: skip
        monkeypatch.setattr(warm_parent, name, value)
    monkeypatch.setattr(os, "execv", lambda _python, command: sys.exit(command[-1]))
    with pytest.raises(SystemExit, match="this"):
        warm_parent.main([str(tmp_path / "socket"), "0"])
    del sys.modules["this"]
    assert warm_parent.main([str(tmp_path / "socket"), "0", "this"]) == 0


def test_modules_that_ask_for_gpus_when_imported_are_answered_without_asking_the_driver(monkeypatch, tmp_path):
    asked: list[str] = []
    cuda = SimpleNamespace(is_available=lambda: asked.append("driver"), _is_in_bad_fork=lambda: bool(asked))
    (tmp_path / "asks_for_gpus.py").write_text("import sys\nANSWER = sys.modules['torch'].cuda.is_available()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(warm_parent, "IMPORTED", ())
    monkeypatch.setattr(warm_parent, "IMPORTED_FOR_GPUS", ("asks_for_gpus",))
    monkeypatch.setattr(warm_parent, "_Parent", lambda _listener: SimpleNamespace(serve=lambda _idle_s: None))
    assert warm_parent.main([str(tmp_path / "socket"), "0"]) == 0
    assert sys.modules.pop("asks_for_gpus").ANSWER is True
    assert not asked
    cuda.is_available()  # the driver's own answer again
    assert asked == ["driver"]
