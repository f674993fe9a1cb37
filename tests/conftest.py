"""What every test may rely on: no kernels but the bundled ones, no colours, and no GPU tests without a GPU."""

import gc
import hashlib
import os
import re
import shutil
import signal
import sys
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from deep import KEPT, deep_places

from gdnbench.catalog import catalog
from gdnbench.machine.gpus import list_gpus
from gdnbench.origin import bundled_kernels

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in its background so, and every command that a test starts would ignore Ctrl-C, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Images of containers often set it, and each process that a test starts would compile all of gdnbench anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False  # nor the tests themselves

# A folder that cannot be: commands that tests start as processes start workers, and leave no process to fork them.
os.environ["XDG_RUNTIME_DIR"] = os.devnull

if not list_gpus():
    # Tests run on as many processes as there are cores. Torch's threads on top of that wait for each other, spinning.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

GPU_PATIENCE_S = 900  # tests that run side by side take turns on the GPU, as gdnbench itself sees to


def pytest_configure(config):
    """The processes of a run fork workers from the same ones; and each declares the bundled ops and kernels once.

    Most commands load those, a tenth of a second.
    """
    from forked_workers import forking

    if not hasattr(config, "workerinput"):  # it starts the others
        stack = ExitStack()
        stack.enter_context(forking())
        config.add_cleanup(stack.close)
    bundled, kept = bundled_kernels(), {}

    def once(load_folder):
        def call(folder, *ops):
            if bundled not in folder.parents:
                return load_folder(folder, *ops)
            key = (folder, *map(id, ops))
            if key not in kept:
                kept[key] = load_folder(folder, *ops), ops  # which keeps the ops' ids theirs
            return kept[key][0]

        return call

    catalog.load_op, catalog.load_kernel = once(catalog.load_op), once(catalog.load_kernel)


def pytest_collection_modifyitems(items):
    # The files that take longest first: one that begins last would keep the other workers waiting.
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    marked = [item for item in items if item.get_closest_marker("gpu")]
    has_gpu = bool(marked) and bool(list_gpus())
    _mark_deep(items)
    for item in marked:
        item.add_marker(pytest.mark.timeout(GPU_PATIENCE_S))
        if not has_gpu:
            item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU here"))


def _mark_deep(items):
    """Marks the cases that `make test` leaves to `make test-all`."""
    cases = defaultdict(list)
    for item in items:
        cases[f"{item.path.name}::{item.originalname}"].append(item)
    for name in KEPT.keys() & cases.keys():
        ids = [item.callspec.id if hasattr(item, "callspec") else "" for item in cases[name]]
        for place in deep_places(ids, KEPT[name]):
            cases[name][place].add_marker(pytest.mark.deep)


def pytest_collection():
    gc.disable()


def pytest_collection_finish():
    gc.freeze()  # six thousand tests and what they import stay: no later collection of garbage looks at them
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _kept_builds(request, tmp_path_factory):
    """Builds of one run of the tests serve the next, and all processes of it: a kernel takes half a second to compile.

    They lie in pytest's cache, apart from the user's, for as long as no line of what compiles has changed. Tests of the
    cache have one of their own. Without pytest's cache it is one for this run.
    """
    cache = getattr(request.config, "cache", None)
    kept = cache.mkdir(f"gdnbench-{_hash_of_codegen()}") if cache else tmp_path_factory.mktemp("builds")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GDNBENCH_CACHE", str(kept))
        yield kept


@pytest.fixture
def same_folder(_kept_builds, request):
    """A folder of this test's own, the same in each run and empty: builds are known by the path of their source."""
    return _emptied(_kept_builds / "sources" / re.sub(r"\W+", "-", request.node.nodeid))


def _emptied(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


@pytest.fixture(scope="module")
def same_root(_kept_builds, request):
    """A module's folder that is the same in each run, and empty at first: what is built of it is built once."""
    return _emptied(_kept_builds / "sources" / request.module.__name__)


def _hash_of_codegen():
    from gdnbench import codegen

    digest = hashlib.sha256()
    for path in sorted(Path(codegen.__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


@pytest.fixture(scope="session", autouse=True)
def _one_builder():
    """Commands that run in this process build in one more: a second saves no time where tests run on every core."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gdnbench.codegen.ahead.build_processes", lambda: 1)
        yield


@pytest.fixture(scope="session", autouse=True)
def _forked_workers():
    """Commands that run in this process fork their workers where there is no GPU: see `forked_workers`."""
    from forked_workers import SUPERVISION, forked_workers

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{SUPERVISION}.Worker", forked_workers())
        patch.setattr("gdnbench.functions.ask.Worker", forked_workers())
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_lines_of_progress():
    """However loaded the machine is, what a verb prints on stderr is the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gdnbench.verbs.progress.EVERY_S", 3600.0)
        yield


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch, tmp_path_factory):
    """The developer's settings, targets and calibrations change nothing."""
    for name in ("GDNBENCH_KERNELS", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config" / uuid4().hex))


@pytest.fixture(scope="module")
def one_thread():
    """Torch on one thread: on a busy machine its threads wait for each other in tests of many small operations."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def command_line(monkeypatch, capsys):
    """Runs `gdnbench ARGUMENTS` in this process; gives exit code, stdout and stderr."""
    from gdnbench.verbs.app import main

    def call(*arguments, columns="80"):
        monkeypatch.setenv("COLUMNS", columns)
        monkeypatch.setattr(sys, "argv", ["gdnbench", *map(str, arguments)])
        try:
            code = main()
        except SystemExit as stop:
            code = stop.code or 0
        out, err = capsys.readouterr()
        return int(code), out, err

    return call


@pytest.fixture(scope="module")
def mine_root(tmp_path_factory):
    return tmp_path_factory.mktemp("mine") / "kernels"


@pytest.fixture
def mine(tmp_path, mine_root, monkeypatch):
    """`decode-mine`, a copy of decode-v4, with what `code_data` stores of it; compiled once a module."""
    from code_data import make_mine

    return make_mine(tmp_path, mine_root, monkeypatch)
