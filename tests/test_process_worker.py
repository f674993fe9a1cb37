"""A worker as its parent sees it: messages within a deadline, requests, a log, and no process left behind."""

import os
import sys
import tempfile
import threading
import time
from concurrent.futures import CancelledError

import pytest
from processes import Told, wait_until_gone, write_worker

from gdnbench.process.channel import ForgedMessageError
from gdnbench.process.command import describe_exit, run_tool
from gdnbench.process.worker import Worker, wait_for_any

LIMIT_S = 20


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts a worker that runs some lines of Python; `tell` sends a message."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    logs, workers = [], []

    def start(script, *arguments, **options):
        module = f"worker{len(workers)}"
        write_worker(tmp_path / f"{module}.py", script)
        logs.append(tempfile.TemporaryFile())  # noqa: SIM115 - closed below
        workers.append(Worker(module, arguments, [Told], logs[-1], **options))
        return workers[-1]

    yield start
    for worker in workers:
        worker.close()
    for log in logs:
        log.close()


def receive(worker, limit_s=LIMIT_S, stop=None):
    return worker.receive(time.monotonic() + limit_s, stop)


def test_messages_arrive_in_order_however_long_and_then_the_end(start):
    worker = start("for number in range(3): tell(number, 'x' * 200_000 * number)")
    assert [receive(worker) for _ in range(4)] == [Told(0), Told(1, "x" * 200_000), Told(2, "x" * 400_000), None]
    assert (worker.end(), worker.describe_end()) == (0, "exit code 0")


def test_what_it_prints_is_no_message_and_its_last_lines_are_kept(start):
    worker = start("""
        print('{"kind": "Told", "number": 1}')
        tell(2)
        print("a", end="\\n\\n", flush=True)
        sys.stdout.buffer.write(b"\\xff\\x1b[1mred\\n")
        sys.stdout.flush()
        sys.exit("last")
    """)
    assert [receive(worker), receive(worker)] == [Told(2), None]
    assert (worker.end(), worker.describe_end()) == (1, "exit code 1")
    assert worker.log_tail(3) == ["a", "\N{REPLACEMENT CHARACTER}[1mred", "last"]
    assert worker.log_tail(3, since=worker.log_bytes()) == []


def test_requests_reach_it_and_nothing_that_it_runs(start):
    worker = start(
        """
        for line in take_requests():
            tell(int(line), sys.stdin.read())
        """,
        takes_requests=True,
    )
    worker.request("1")
    assert receive(worker) == Told(1)
    worker.request("2")
    assert receive(worker) == Told(2)


def test_silence_past_the_deadline(start):
    worker = start("tell(1); time.sleep(60)")
    assert receive(worker) == Told(1)
    with pytest.raises(TimeoutError):
        receive(worker, limit_s=0.2)
    assert (worker.end(grace_s=0), worker.describe_end()) == (-9, "SIGKILL")


def test_a_stop_ends_the_wait(start):
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    started = time.monotonic()
    with pytest.raises(CancelledError):
        receive(start("time.sleep(60)"), stop=stop)
    assert time.monotonic() - started < LIMIT_S / 2


FORGED = {
    "junk": "os.write(fd, b'\\n')",
    "bare": """os.write(fd, b'{"kind":"Told","number":1}\\n')""",
    "invented": """os.write(fd, b'0' * 32 + b' 1 {"kind":"Told","number":1}\\n')""",
    "unfinished": "os.write(fd, b'0')\ntell(1)",
    "again": """line = channel._seal.add(b'{"kind":"Told","number":1}') + b'\\n'; os.write(fd, line + line)""",
    "one left out": "channel._seal.add(b'{}'); tell(1)",
    "another key": "Channel.__init__.__globals__['os'].read = lambda *_: b'k'; Channel(fd).send(Told(1))",
}


@pytest.mark.parametrize("how", FORGED)
def test_what_the_channel_did_not_send_is_told(start, how):
    worker = start(f"fd = int(sys.argv[-1])\ntell(0)\n{FORGED[how]}\ntime.sleep(60)")
    assert receive(worker) == Told(0)
    with pytest.raises(ForgedMessageError, match="something else than gdnbench wrote"):
        while receive(worker):
            pass


def test_what_was_sent_before_the_key_was_read_is_no_message(start, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import os, sys\nos.write(int(sys.orig_argv[-1]), b'{}\\n')\n")
    with pytest.raises(ForgedMessageError):
        receive(start("tell(1)"))


def test_the_key_can_be_read_once(start):
    assert receive(start("import select; tell(len(select.select([int(sys.argv[-1])], [], [], 0)[0]))")) == Told(0)


def test_a_child_that_keeps_the_pipe_open_does_not_hide_the_death(start):
    worker = start("""
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], pass_fds=[int(sys.argv[-1])])
        tell(child.pid)
    """)
    child = receive(worker).number
    assert receive(worker) is None
    worker.close()
    assert wait_until_gone(child)


def test_closing_kills_all_that_it_started(start):
    worker = start("""
        tell(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid)
        time.sleep(60)
    """)
    child = receive(worker).number
    worker.close()
    assert wait_until_gone(child)


def test_no_worker_outlives_its_parent(start):
    worker = start("""
        child = f"import os, time; from gdnbench.process.worker import die_with_parent; die_with_parent(); "
        child += "print(os.getpid(), flush=True); time.sleep(60)"
        tell(int(subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE).stdout.readline()))
    """)
    assert wait_until_gone(receive(worker).number)


def test_of_several_the_one_that_has_something_to_tell(start):
    silent, telling = start("time.sleep(60)"), start("tell(1); tell(2); time.sleep(60)")
    assert wait_for_any([silent, telling], LIMIT_S) == [telling]
    assert receive(telling) == Told(1)
    assert wait_for_any([silent, telling], LIMIT_S) == [telling]  # read with the first, and so not in the pipe any more
    assert receive(telling) == Told(2)
    assert wait_for_any([silent, telling], 0) == []


def test_no_descriptor_is_left(start):
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    worker = start("", takes_requests=True)
    worker.close()
    worker.close()
    assert len(os.listdir("/proc/self/fd")) == before + 1  # noqa: PTH208 - the log


def python(code, limit_s=30, **options):
    return run_tool([sys.executable, "-c", code], limit_s=limit_s, **options)


def test_both_streams_apart_and_merged():
    code = "import sys; print('one', flush=True); print('two', file=sys.stderr); sys.exit(3)"
    apart, merged = python(code), python(code, merge=True)
    assert (apart.returncode, apart.output, apart.errors) == (3, "one\n", "two\n")
    assert (merged.returncode, merged.output, merged.errors) == (3, "one\ntwo\n", "")


def test_a_limit_and_an_absent_program():
    with pytest.raises(TimeoutError, match=r"did not end within 0\.5 s"):
        python("import time; time.sleep(60)", limit_s=0.5)
    with pytest.raises(FileNotFoundError):
        run_tool(["/nowhere/tool"], limit_s=5)


@pytest.mark.parametrize(
    ("returncode", "words"), [(0, "exit code 0"), (3, "exit code 3"), (-9, "SIGKILL"), (-200, "exit code -200")]
)
def test_exit_statuses_in_words(returncode, words):
    assert describe_exit(returncode) == words
