"""`gdnbench doctor --calibrate` on a simulated machine, and its planted kernel, which no other verb finds."""

import json
import re
from collections import Counter

import pytest
from calibration_data import H200, SimulatedMachine, SimulatedSession, calibration
from run_data import case, measured, store

from gdnbench.calibrate.measure import KERNEL, PLANTED_ROOT
from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.codegen.cubin import disassemble
from gdnbench.codegen.nvrtc import compile_cuda
from gdnbench.errors import ExitCode
from gdnbench.machine.provenance import host_name
from gdnbench.store.calibration import calibration_path, last_calibration, read_calibration, write_calibration
from gdnbench.store.find import list_runs

ARGUMENTS = ("doctor", "--calibrate", "--shape", "B=1,8", "--runs", "3", "--rounds", "12")


@pytest.fixture
def sessions(monkeypatch, tmp_path):
    """Every session begins on a simulated H200; gives those that were begun, and takes how some of them end."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gdnbench.machine.gpus.list_gpus", lambda *_: (H200,))
    machine, begun, endings = SimulatedMachine(), [], {}

    def begin(_catalog, plan, folder, _observer):
        ending = endings.get(len(begun), {})
        session = SimulatedSession(machine, plan, folder, **(ending(plan) if callable(ending) else ending))
        begun.append(session)
        return session

    monkeypatch.setattr("gdnbench.calibrate.measure.begin_session", begin)
    return begun, endings


def stored(tmp_path):
    (found,) = (tmp_path / "results" / "calibration").glob("*/calibration.json")
    return read_calibration(found)


def test_a_calibration_measures_a_pilot_and_its_runs_and_says_what_they_found(sessions, command_line, tmp_path):
    code, out, err = command_line(*ARGUMENTS)
    assert code == 0
    begun, _ = sessions
    assert [each.plan.request.label for each in begun] == ["pilot", "run-1", "run-2", "run-3"]
    assert "a pilot and 3 runs at B=1 qk4_v8, B=8 qk4_v8: 4 equal kernels" in " ".join(err.split())
    assert "at most" in err
    assert "calibration of the NVIDIA H200" in out
    assert "24" in next(line for line in out.splitlines() if line.startswith("all"))
    assert all(len(line) <= 80 for line in out.splitlines() if not line.startswith("stored in"))
    assert out.rstrip().endswith("next: gdnbench run --kernel all")
    kept = stored(tmp_path)
    assert (kept.runs, kept.asked, kept.all_equal.comparisons, kept.rounds) == (3, 3, 24, 12)
    assert len(kept.planted) == 8
    assert last_calibration(host_name(), "h200") == kept


def test_the_runs_lie_where_no_verb_looks_for_runs(sessions, command_line, tmp_path):
    command_line(*ARGUMENTS, "--out", "elsewhere")
    folders = {each.folder.relative_to(tmp_path) if each.folder.is_absolute() else each.folder for each in sessions[0]}
    (folder,) = folders
    assert folder.parts[:2] == ("elsewhere", "calibration")
    (folder / "20260102-030405-h200-decode-run-1").mkdir(parents=True, exist_ok=True)
    store(folder / "20260102-030405-h200-decode-run-1", [measured(case("decode-planted"))])
    assert list_runs(folder)
    assert not list_runs(folder.parent) + list_runs(folder.parent.parent, stopped=True)


def test_a_calibration_that_is_stopped_keeps_its_runs_and_not_the_machines_record(sessions, command_line, tmp_path):
    before = calibration(host=host_name())
    write_calibration(calibration_path(host_name(), "h200"), before)
    sessions[1][3] = {"interrupted": True}  # its third run
    code, out, _ = command_line(*ARGUMENTS)
    assert code == ExitCode.INTERRUPTED
    assert "partial: 3 runs were requested" in " ".join(out.split())
    assert stored(tmp_path).runs == 2
    assert last_calibration(host_name(), "h200") == before


def test_a_planted_kernel_that_does_not_run_ends_it(sessions, command_line):
    sessions[1][0] = lambda plan: {"failing": tuple(case.id for case in plan.cases if "CHAIN" in case.label)}
    code, out, err = command_line(*ARGUMENTS)
    assert (code, out) == (ExitCode.ENVIRONMENT, "")
    assert "has no time: the process died" in " ".join(err.split())
    assert "gdnbench doctor" in err


def test_a_case_that_is_lost_in_a_run_is_told_by_the_exit_code(sessions, command_line):
    sessions[1][2] = lambda plan: {"failing": tuple(case.id for case in plan.cases if case.label.endswith("COPY=1"))}
    code, out, _ = command_line(*ARGUMENTS)
    assert code == ExitCode.PARTIAL
    assert "22" in next(line for line in out.splitlines() if line.startswith("all"))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--runs", "1"), "--runs 1: runs are held against one another"),
        (("--rounds", "5"), "--rounds 5: each of 3 processes needs 2"),
        (("--rounds", "2", "--processes", "3"), "--processes 3"),
        (("--gpu", "b200"), "b200"),
        (("--shape", "B=0"), "B"),
    ],
)
def test_what_cannot_be_calibrated_with_is_refused_before_anything_is_measured(sessions, command_line, arguments, told):
    code, _, err = command_line("doctor", "--calibrate", *arguments)
    assert code in {ExitCode.USAGE, ExitCode.ENVIRONMENT}
    assert told in " ".join(err.split())
    assert not sessions[0]


@pytest.mark.gpu
def test_a_tiny_calibration_on_a_gpu(command_line, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    few = ("--runs", "2", "--processes", "2", "--rounds", "8")
    code, out, err = command_line("doctor", "--calibrate", "--shape", "B=1", *few, "--json", "--out", tmp_path)
    assert code == 0, err
    document = json.loads(out)
    assert document["all_equal"]["comparisons"] == 8
    by_target = {each["target"]: each for each in document["planted"]}
    assert 0.005 < by_target[0.02]["slowdown"] < 0.05
    assert by_target[0.02]["slowdown"] > by_target[0.003]["slowdown"]
    assert last_calibration(host_name(), document["gpu"]).runs == 2


CATALOG = load_catalog([default_roots()[0], PLANTED_ROOT])
WORKLOAD = CATALOG.ops["decode"].workload({"B": 1})


@pytest.fixture
def instructions(tmp_path):
    """Compiles a kernel with some params and gives its instructions."""

    def compiled(kernel=KERNEL, **params):
        entry = CATALOG.entries[kernel]
        code = compile_cuda(entry, entry.kernel.resolve(params), WORKLOAD, "sm_90")
        path = tmp_path / f"{kernel}-{'-'.join(map(str, params.values()))}.cubin"
        path.write_bytes(code.cubin)
        return re.findall(r"/\*[0-9a-f]{4}\*/\s+(.*?)\s*;", disassemble(path, code.symbol))

    return compiled


def additions(found):
    return sum(bool(re.search(r"\b(FADD|FFMA)\b", line)) for line in found)


def test_no_other_verb_sees_it(command_line):
    assert KERNEL not in load_catalog().entries
    assert KERNEL not in command_line("list")[1]


def test_without_additions_it_is_v9(instructions):
    assert instructions() == instructions("decode-v9", LANES=8, WARPS=4)


def test_an_equal_kernel_has_the_same_code(instructions):
    assert instructions(COPY=3) == instructions()


@pytest.mark.parametrize("chain", [1, 7, 64])
def test_every_addition_is_in_the_code(instructions, chain):
    assert additions(instructions(CHAIN=chain)) == additions(instructions()) + chain


def test_each_addition_waits_for_the_one_before_and_the_stores_for_the_last(instructions):
    found = instructions(CHAIN=32)
    onto_itself = [re.fullmatch(r"FADD (R\d+), \1, UR\d+", line) for line in found]
    ((register, count),) = Counter(each[1] for each in onto_itself if each).items()
    assert count == 31  # the first is one with the multiplication before it
    last = max(place for place, each in enumerate(onto_itself) if each)
    assert all(place > last for place, line in enumerate(found) if line.startswith("STG"))
    assert f"{register}.reuse" in found[last + 1]
