"""`gdnbench mcp` as a process: what is cancelled ends, calls wait for each other, and stdout has the protocol alone."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from faults import is_running, measured, wait_for
from tools_client import checked, connected, environment, make_project, server_command

pytestmark = pytest.mark.slow

LONG = {"kernel": "test-slow", "gpu": "cpu", "against": "decode-reference", "rounds": 500, "samples": 5}
FIRST = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path)


def descendants(pid):
    """All processes that a process has started, and those that they have."""
    found = []
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):
            for child in map(int, (thread / "children").read_text().split()):
                found += [child, *descendants(child)]
    return found


def server_of(project):
    """The server of a project, started by this process."""
    for pid in descendants(os.getpid()):
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            if "mcp" in words and str(project) in words:
                return pid
    raise AssertionError("no server")


def begin(client, tool, heard, arguments):
    """Begins a call; gives its future, which can be cancelled."""

    async def hear(_progress, _total, message):
        heard.append(message)

    async def call():
        return checked(await client.session.call_tool(tool, arguments, progress_callback=hear))

    return client.portal.start_task_soon(call)


def test_calls_wait_for_one_that_measures_and_a_cancelled_one_ends_what_it_started_and_keeps_what_is_finished(project):
    with connected(project, forks=False) as client:
        heard, told = [], []
        running = begin(client, "run", heard, LONG)
        wait_for(measured(project / "results", 3), "a few rounds")
        started = descendants(server_of(project))
        assert len(started) >= 2  # the command and its worker
        waiting = begin(client, "verify", told, {"kernel": "decode-reference", "shape": "B=1"})
        wait_for(lambda: told, "word from the second call")
        assert told[0] == "another call is measuring; waiting for it to finish"
        for tool, arguments in (
            ("list", {"op": "decode"}),
            ("show", {"run": "hopper"}),
            ("explain", {"kernel": "decode-v1"}),
        ):
            assert client.call(tool, **arguments).document["exit_code"] == 0
        assert not running.done()
        assert not waiting.done()
        running.cancel()
        assert waiting.result(60).document["exit_code"] == 0
        wait_for(lambda: not any(map(is_running, started)), "the end of what was started")
        shown = client.call("show").document
        assert shown["run_id"].endswith("-cpu-decode")
        assert shown["complete"] is False
        assert {case["label"] for case in shown["cases"]} >= {"test-slow", "decode-reference"}
        assert not list((project / "results").glob(".*"))
        assert any(message.startswith("measuring") for message in heard)


def test_a_call_goes_to_a_target_and_its_progress_comes_back(project):
    target = f'[targets.lab]\nkind = "local"\nworkdir = "{project / "tmp" / "jobs"}"\n'
    (project / "gdnbench.toml").write_text(target)
    with connected(project) as client:
        heard = []
        words = {"kernel": "decode-reference", "rounds": 3, "samples": 5, "gpu": "cpu", "on": "lab"}
        told = client.call("run", heard, **words).document
        assert told["exit_code"] in {0, 4}, told
        assert (project / "results" / told["run_id"] / "measurements.csv").exists()
        messages = [message for _, _, message in heard]
        assert any("on lab" in message for message in messages)
        assert any(message.startswith("measuring") for message in messages)


class Talk:
    """The protocol by hand, line by line."""

    def __init__(self, process):
        self._process = process
        self.lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.send("initialize", FIRST, number=1)
        wait_for(lambda: self.lines, "the server")
        self.send("notifications/initialized")

    def _read(self):
        for line in self._process.stdout:
            self.lines.append(line)

    def send(self, method, params=None, number=None):
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        message |= {} if number is None else {"id": number}
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def call(self, number, tool, **arguments):
        self.send("tools/call", {"name": tool, "arguments": arguments}, number)

    def answer(self, number):
        def look():
            return next((line for line in map(json.loads, list(self.lines)) if line.get("id") == number), None)

        return wait_for(look, f"answer {number}")


@contextmanager
def by_hand(project, *, forks=False):
    process = subprocess.Popen(
        server_command(project),
        env={**os.environ, **environment(project, forks=forks)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process, Talk(process)
    finally:
        process.kill()
        process.wait()


def test_stdout_has_the_protocol_alone(project):
    with by_hand(project, forks=True) as (process, talk):
        talk.call(2, "verify", kernel="test-talks,test-raises,test-dies", shape="B=1")
        talk.call(3, "show", run="nowhere")
        talk.send("no/such/method", number=4)
        for number in (2, 3, 4):
            talk.answer(number)
        process.stdin.write('this is no message\n{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}\n')
        process.stdin.flush()
        talk.answer("\ufffd")
        talk.call(5, "list", op="decode")
        talk.answer(5)
        process.stdin.close()
        assert process.wait(30) == 0
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in talk.lines)
        assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize("end", ["stdin", signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_server_that_ends_leaves_no_command_behind(project, end):
    with by_hand(project) as (process, talk):
        talk.call(2, "run", **LONG)
        wait_for(measured(project / "results", 1), "a round")
        started = descendants(process.pid)
        assert len(started) >= 2
        process.stdin.close() if end == "stdin" else process.send_signal(end)
        code = process.wait(60)
        wait_for(lambda: not any(map(is_running, started)), "the end of what was started")
        assert code == {"stdin": 0, signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGKILL: -9}[end]
        [run] = [path for path in (project / "results").iterdir() if "-cpu-" in path.name]
        assert run.name.startswith(".") == (end == signal.SIGKILL)  # that one can be resumed


def test_without_the_extra_it_says_what_to_install(command_line, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    code, out, err = command_line("mcp")
    assert code == 5
    assert out == ""
    assert "pip install 'gdnbench[mcp]'" in err


def test_a_project_that_is_no_folder_is_refused(command_line, tmp_path):
    code, out, err = command_line("mcp", "--project", tmp_path / "nowhere", columns="500")
    assert code == 2
    assert out == ""
    assert "is not a folder" in " ".join(err.split())
