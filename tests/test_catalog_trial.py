"""Declarations that end, crash or hang what runs them: listed by file, tried once, and stopping no other."""

import json
import os
import shutil
from pathlib import Path

import pytest
from faults import Gdnbench
from test_catalog_catalog import BUNDLED, BUNDLED_NAMES, PLAIN, add_kernel
from test_catalog_fields import OP

from gdnbench.catalog import load, trial
from gdnbench.catalog.catalog import load_catalog
from gdnbench.origin import cache_root

_ENDS = "ends the process that runs it"
LETHAL = {
    # how it ends: what is told of it, behind the file's name
    "exit-0": ("import os\nos._exit(0)", f": {_ENDS} (exit code 0)"),
    "exit-1": ("import os\nos._exit(1)", f": {_ENDS} (exit code 1)"),
    "c-exit": ("import ctypes\nctypes.CDLL(None).exit(0)", f": {_ENDS} (exit code 0)"),
    "c-exit-group": ("import ctypes\nctypes.CDLL(None)._exit(0)", f": {_ENDS} (exit code 0)"),
    "exec": ("import os\nos.execv('/bin/true', ['true'])", f": {_ENDS} (exit code 0)"),
    "null-pointer": ("import ctypes\nctypes.string_at(0)", f":2: {_ENDS} (SIGSEGV)"),
    "abort": ("import os\n\nos.abort()", f":3: {_ENDS} (SIGABRT)"),
    "kill": ("import os\nos.kill(os.getpid(), 9)", f": {_ENDS} (SIGKILL)"),
    "term": ("import os\nos.kill(os.getpid(), 15)", f": {_ENDS} (SIGTERM)"),
    "alarm": ("import signal, time\nsignal.setitimer(0, 0.01)\ntime.sleep(9)", f": {_ENDS} (SIGALRM)"),
    "closes-all": ("import os\nos.closerange(0, 4096)", f": {_ENDS} (exit code 1)"),
    "interrupt": ("import os\nraise KeyboardInterrupt", ":2: KeyboardInterrupt"),
    "interrupt-by-signal": ("import os, signal\nsignal.raise_signal(signal.SIGINT)", ":2: KeyboardInterrupt"),
    "generator-exit": ("raise GeneratorExit('x')", ":1: GeneratorExit: x"),
    "base-exception": ("class Odd(BaseException):\n    pass\n\n\nraise Odd('a\\nb')", ":5: Odd: a b"),
    "base-group": (
        "raise BaseExceptionGroup('two', [KeyboardInterrupt()])",
        ":1: BaseExceptionGroup: two (1 sub-exception)",
    ),
    "memory": ("held = bytearray(1 << 40)", ": takes more than 4 GiB of memory"),
    "thread": ("import os, threading\nthreading.Timer(9, os._exit, (0,)).start()", ": leaves a thread running"),
    "fork": ("import os\nos.fork()", ": forks the process that runs it"),
}
HANGS = {
    "loop": ("x = 1\nwhile True: x += 1", ":2: "),
    "sleep": ("import time\n\ntime.sleep(1e6)", ":3: "),
    "lock": ("import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()", ":4: "),
    "join": ("import signal\nsignal.pause()", ":2: "),
    "stopped": ("import os\nos.kill(os.getpid(), 19)", ": "),
    "prints": ("while True:\n    print('x' * 4096)", ":"),
    "inner": ("def wait():\n    while True: pass\n\n\nwait()", ":2: "),
}
WRONG = {
    # what raises an error in the child does so here, too
    "exit": ("import sys\nsys.exit(0)", ":2: SystemExit: 0"),
    "input": ("name = input('name? ')", ":1: EOFError"),
    "end-of-file": ("raise EOFError", ":1: EOFError"),
    "stack": ("def deeper():\n    deeper()\n\n\ndeeper()", "RecursionError"),
    "stop": ("raise StopIteration", ":1: StopIteration"),
    "own-name": ("import sys\nraise ImportError(__file__)", "variant.py"),
}
LIMIT_S = 1.0
NAMES = {"op", "variant"}


@pytest.fixture(scope="module")
def bundled(tmp_path_factory):
    """What is kept once the bundled kernels were tried."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GDNBENCH_CACHE", str(folder))
        trial.try_all([trial.Declaration.read(path) for path in BUNDLED.rglob("*.py") if path.stem in NAMES])
    return folder / "trials.txt"


@pytest.fixture(autouse=True)
def own_trials(monkeypatch, tmp_path, bundled):
    """No trials but those of the bundled kernels, and a limit that tests can wait for."""
    (tmp_path / "cache").mkdir()
    shutil.copy(bundled, tmp_path / "cache")
    monkeypatch.setenv("GDNBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(trial, "LIMIT_S", LIMIT_S)


def _reasons(root, wanted):
    add_kernel(root, "aa-first", variant=PLAIN.replace("mine", "first"))
    add_kernel(root, "zz-last", variant=PLAIN.replace("mine", "last"))
    for name, (variant, _) in wanted.items():
        add_kernel(root, name, variant=f"{variant}\n")
    catalog = load_catalog([BUNDLED, root])
    assert set(catalog.entries) == {*BUNDLED_NAMES, "decode-first", "decode-last"}
    assert {broken.name for broken in catalog.broken} == {f"decode/{name}" for name in wanted}
    return {broken.folder.name: broken.reason for broken in catalog.broken}


@pytest.mark.parametrize("kinds", [LETHAL, WRONG, HANGS], ids=["lethal", "wrong", "hangs"])
def test_each_is_broken_by_its_file_and_stops_no_other(tmp_path, kinds):
    reasons = _reasons(tmp_path, kinds)
    for name, (_, told) in kinds.items():
        assert reasons[name].startswith("variant.py"), name
        assert told in reasons[name], name
        assert kinds is not HANGS or f"does not come to its end in {LIMIT_S:g} s" in reasons[name]


@pytest.mark.parametrize("kind", LETHAL)
def test_an_op_that_does_so_takes_only_its_own_kernels_with_it(tmp_path, kind):
    add_kernel(tmp_path, op="gemm")
    (tmp_path / "gemm" / "op.py").write_text(LETHAL[kind][0])
    catalog = load_catalog([BUNDLED, tmp_path])
    [broken] = catalog.broken
    assert (broken.name, broken.reason) == ("gemm", f"op.py{LETHAL[kind][1]}")
    assert set(catalog.entries) == BUNDLED_NAMES


FUNCTIONS = {
    # what a function of a kernel does when it is called, and what is told of it
    "exit-0": ("os._exit(0)", f": {_ENDS} (exit code 0)"),
    "system-exit": ("sys.exit(0)", ": a function of it raises SystemExit"),
    "interrupt": ("signal.raise_signal(signal.SIGINT)", ": KeyboardInterrupt"),
    "crash": ("ctypes.string_at(0)", f": {_ENDS} (SIGSEGV)"),
    "loop": ("[0 for _ in iter(int, 1)]", "does not come to its end"),
}
KERNEL = """
import ctypes, os, signal, sys
from gdnbench import CudaKernel
def does(*_): {does}
kernel = CudaKernel(name="gemm-mine", entry="f", **{{
    **dict(grid=lambda s, p: (1,), block=lambda s, p: 32), {field!r}: does,
}})
"""


@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize("field", ["check", "grid", "block", "shared_bytes"])
def test_a_function_that_does_so_breaks_its_kernel(tmp_path, kind, field):
    shutil.copytree(BUNDLED / "decode", tmp_path / "decode", ignore=lambda at, names: _kernels(at))
    does, told = FUNCTIONS[kind]
    add_kernel(tmp_path, variant=KERNEL.format(does=does, field=field), source="kernel.cu")
    [broken] = load_catalog([tmp_path]).broken
    assert broken.reason.startswith("variant.py")
    assert told in broken.reason


def _kernels(at):
    return [path.name for path in Path(at).iterdir() if path.is_dir()]


@pytest.mark.parametrize("field", ["check", "flops", "least_bytes"])
def test_a_function_of_an_op_that_does_so_breaks_it(tmp_path, field):
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "op.py").write_text(OP.format(name=field, value="lambda *_: __import__('os')._exit(0)"))
    [broken] = load_catalog([tmp_path]).broken
    assert broken.reason == f"op.py: {_ENDS} (exit code 0)"


def test_a_function_that_raises_an_error_breaks_nothing(tmp_path):
    add_kernel(tmp_path, variant=PLAIN.replace('"decode-mine"', '"decode-mine", check=lambda s: s.no_such_axis'))
    assert load_catalog([BUNDLED, tmp_path]).broken == ()


def _count(path):
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.mark.parametrize("kind", ["healthy", "raises", *LETHAL, "loop"])
def test_a_content_is_tried_once_wherever_it_lies(tmp_path, monkeypatch, kind):
    tried = tmp_path / "tried"
    code = {"healthy": PLAIN, "raises": "raise ValueError"}.get(kind) or (LETHAL | HANGS)[kind][0]
    # Where its own process is the tests' it is not tried, but run.
    code = f"import os\nif os.getpid() != {os.getpid()}:\n    open({str(tried)!r}, 'a').write('x\\n')\n{code}\n"
    for root in ("one", "other"):
        folder = add_kernel(tmp_path / root, variant=code)
        os.utime(folder / "variant.py", (1e9, 1e9))
        load_catalog([BUNDLED, tmp_path / root])
        trial._results.clear()  # as another process begins
        monkeypatch.setattr(load, "_RUN", {})  # in this test: later ones would have all bundled files tried anew
    assert _count(tried) == 1


def test_what_failed_is_tried_again_when_it_was_touched_or_mended(tmp_path):
    tried = tmp_path / "tried"
    variant = add_kernel(tmp_path, variant=f"open({str(tried)!r}, 'a').write('x\\n')\n{HANGS['sleep'][0]}")
    reasons = {load_catalog([BUNDLED, tmp_path]).broken[0].reason for _ in range(3)}
    assert len(reasons) == 1
    assert "touch" in reasons.pop()
    assert _count(tried) == 1
    variant /= "variant.py"
    os.utime(variant)
    assert load_catalog([BUNDLED, tmp_path]).broken
    assert _count(tried) == 2
    variant.write_text(PLAIN)
    assert not load_catalog([BUNDLED, tmp_path]).broken


@pytest.fixture
def small(tmp_path):
    """Kernels with one op, and one kernel that ends what runs it."""
    root = tmp_path / "small"
    shutil.copytree(BUNDLED / "decode", root / "decode", ignore=lambda at, names: _kernels(at))
    add_kernel(root, variant=LETHAL["exit-0"][0])
    return root


DAMAGED = {"empty": "", "half": "half a line", "binary": "\0\xff\n", "large": "x " * 1_000_000, "lines": "a b\nc\n\n"}


@pytest.mark.parametrize("damage", DAMAGED)
def test_what_is_kept_of_trials_may_be_anything(small, damage):
    (cache_root() / "trials.txt").write_text(DAMAGED[damage], encoding="latin-1")
    for _ in range(2):
        assert [broken.name for broken in load_catalog([small]).broken] == ["decode/mine"]
        trial._results.clear()


@pytest.mark.parametrize("place", ["a-file", "/proc/gdnbench", "/dev/null"])
def test_without_a_place_to_keep_trials_all_are_tried_again(small, tmp_path, monkeypatch, place):
    (tmp_path / "a-file").write_text("")
    monkeypatch.setenv("GDNBENCH_CACHE", str(tmp_path / place))
    assert _ENDS in load_catalog([small]).broken[0].reason


VERBS = {
    # what each says where all is well
    "list": (("list", "decode-first"), "decode-first"),
    "list-json": (("list", "--json"), '"decode-first"'),
    "lint": (("lint", "decode-v4"), ""),
    "verify": (("verify", "decode-first", "--gpu", "cpu"), "decode-first"),
    "inspect": (("inspect", "decode-v4"), "decode-v4"),
    "ready": (("verify", "--ready", "decode-first", "--gpu", "cpu"), "decode-first"),
    "run": (("run", "--kernel", "decode-first", "--gpu", "cpu", "--dry-run"), "decode-first"),
    "history": (("history", "decode-v4"), ""),
}


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_ends_well_in_silence(tmp_path, verb):
    root = tmp_path / "kernels"
    add_kernel(root, "aa", variant=LETHAL["exit-0"][0])
    source = add_kernel(root, "first", variant=PLAIN.replace("mine", "first")) / "kernel.py"
    source.write_text('def bind(tensors, workload, params):\n    raise ValueError("no such kernel yet")\n')
    words, told = VERBS[verb]
    done = Gdnbench(tmp_path, (root,), forks=True)(*words)
    assert done.out.strip() or done.code, (done.code, done.err)
    assert told in done.out + done.err
    if verb == "list-json":
        assert json.loads(done.out)
