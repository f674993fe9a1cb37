"""What compute-sanitizer writes, and what of it makes a case unsafe, fails it, or does not count."""

import os
from pathlib import Path

import pytest
from decode_workloads import decode_at
from sanitizer_data import CLEAN, HELP, LAUNCHES, TOOLS, commands, fake_sanitizer, said

from gdnbench.catalog.catalog import load_catalog
from gdnbench.catalog.select import find_variant
from gdnbench.errors import ExitCode, MachineError
from gdnbench.model.case import Case
from gdnbench.model.gpu import Gpu
from gdnbench.model.status import GateResult, Status
from gdnbench.process.events import CaseChecked, PhaseBegun, StepChanged
from gdnbench.profile.sanitizer import SanitizerCheck, find_sanitizer, need_sanitizer
from gdnbench.profile.sanitizer_report import read_report
from gdnbench.store.journal import Examined
from gdnbench.verify.preflight import Verification

H200 = Gpu(0, "NVIDIA H200", "GPU-0000", (9, 0))
PASSED = GateResult("inputs unchanged", "typical", 0.0, 0.0, "", Status.OK)


@pytest.fixture(scope="module")
def catalog():
    return load_catalog()


@pytest.fixture
def sanitize(catalog, tmp_path, monkeypatch):
    """Adds to the verdicts on cases what a made-up compute-sanitizer says; gives them with what it printed."""

    def call(*cases, body=LAUNCHES, before=Status.OK, limit_s=60.0, help_text=HELP, **reports):
        fake_sanitizer(tmp_path, body, help_text, **reports)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        checked = {
            case.id: Examined(case.id, before, "" if before is Status.OK else "before", (PASSED,)) for case in cases
        }
        verification = Verification(7, H200.name, cases, checked, {})
        events = []
        check = SanitizerCheck(catalog, need_sanitizer(), H200, limit_s, events.append)
        return check.add_to(verification), events

    return call


def case_of(catalog, label="decode-v4", batch=1):
    return Case(find_variant(catalog, "decode", label)[1], decode_at(B=batch))


@pytest.fixture
def v4(catalog):
    return case_of(catalog)


def own(name):
    return said(name, "gdn_decode_v4")


def test_a_kernel_without_findings_passes_every_tool(sanitize, v4):
    found, events = sanitize(v4)
    verdict = found.checked[v4.id]
    assert (verdict.status, verdict.reason, verdict.notes) == (Status.OK, "", ())
    names = [f"compute-sanitizer {tool}" for tool in TOOLS]
    assert [gate.gate for gate in verdict.gates] == ["inputs unchanged", *names]
    assert found.exit_code is ExitCode.OK
    assert events[0] == PhaseBegun("sanitize", 4)
    steps = [each.what for each in events if isinstance(each, StepChanged)]
    assert steps == [f"decode-v4 {v4.workload}: {tool}" for tool in TOOLS]


@pytest.mark.parametrize(
    ("tool", "name", "told"),
    [
        ("memcheck", "memcheck", "memcheck: kernel.cu:25: gdn_decode_v4: Invalid __global__ read of size 4 bytes"),
        ("racecheck", "racecheck", "racecheck: kernel.cu:28: gdn_decode_v4: write races with read at kernel.cu:29"),
        ("initcheck", "initcheck", "initcheck: kernel.cu:37: gdn_decode_v4: Uninitialized __global__ memory read"),
        ("synccheck", "synccheck", "synccheck: kernel.cu:40: gdn_decode_v4: Barrier error detected. Divergent"),
    ],
)
def test_a_finding_makes_the_case_unsafe_and_names_kernel_and_line(sanitize, v4, tool, name, told):
    found, events = sanitize(v4, **{tool: own(name)})
    verdict = found.checked[v4.id]
    assert verdict.status is Status.UNSAFE
    assert verdict.reason.startswith(told)
    assert verdict.reason.endswith("(typical inputs)")
    [gate] = [gate for gate in verdict.gates if not gate.passed]
    assert (gate.gate, gate.status) == (f"compute-sanitizer {tool}", Status.UNSAFE)
    assert gate.where == told.split(": ")[1]
    assert found.exit_code is ExitCode.WRONG_NUMBERS
    assert [each.status for each in events if isinstance(each, CaseChecked)] == [Status.UNSAFE]


def test_races_in_a_kernel_with_mbarriers_are_left_to_the_interpreter(sanitize, catalog):
    """Of prefill-v4 racecheck told 8 on an H200: one lane arrives for its warp, which the interpreter follows."""
    v8 = case_of(catalog, "decode-v8")
    [launch] = catalog.entries["decode-v8"].kernel.launches
    found, events = sanitize(v8, racecheck=said("racecheck", launch.entry), memcheck=CLEAN)
    verdict = found.checked[v8.id]
    assert verdict.status is Status.OK
    assert not any(isinstance(each, CaseChecked) for each in events)
    assert "compute-sanitizer racecheck" not in [gate.gate for gate in verdict.gates]
    assert f"racecheck: kernel.cu:28: {launch.entry}: write races with read at kernel.cu:29" in verdict.notes[-1]
    assert verdict.notes[-1].endswith("gdnbench verify decode-v8 --gpu cpu")


def test_findings_of_several_tools_are_all_told(sanitize, v4):
    found, _ = sanitize(v4, memcheck=own("memcheck"), racecheck=own("racecheck"))
    reason = found.checked[v4.id].reason
    assert "memcheck: kernel.cu:25" in reason
    assert "racecheck: kernel.cu:28" in reason
    assert found.checked[v4.id].notes == (
        "racecheck warns: kernel.cu:40: gdn_decode_v4: read races with write at kernel.cu:41, 8 hazards",
    )


def test_what_crashed_before_gets_its_line(sanitize, v4):
    dies = 'cp "$folder/$tool.txt" "$log"; echo "CUDA error: an illegal memory access"; exit 1'
    found, _ = sanitize(v4, body=dies, before=Status.CRASHED, memcheck=own("memcheck"))
    assert found.checked[v4.id].status is Status.UNSAFE
    assert "kernel.cu:25" in found.checked[v4.id].reason


def test_findings_in_other_kernels_are_a_note(sanitize, v4):
    found, _ = sanitize(v4, initcheck=said("foreign"))
    verdict = found.checked[v4.id]
    assert verdict.status is Status.OK
    assert verdict.notes == (
        "initcheck: 1 error in kernels that are not its own (vectorized_elementwise_kernel) do not count",
    )


UNREADABLE = CLEAN.replace("0 errors", "3 errors")


@pytest.mark.parametrize(
    ("options", "status", "told"),
    [
        ({"racecheck": UNREADABLE}, Status.FAILED, "racecheck counts 3 errors, and names none"),
        (
            {"memcheck": said("foreign").replace("1 error", "9 errors")},
            Status.FAILED,
            "memcheck counts 9 errors, and names 1 of them",
        ),
        ({"initcheck": said("not-attached")}, Status.FAILED, "came to no end: Error: No attachable process found"),
        ({"synccheck": ""}, Status.FAILED, "synccheck came to no end: its log has no summary"),
        (
            {"memcheck": CLEAN + "========= Internal Sanitizer Error: out of memory\n"},
            Status.FAILED,
            "Internal Sanitizer Error: out of memory",
        ),
        (
            {"body": 'cp "$folder/$tool.txt" "$log"; echo no memory; exit 1'},
            Status.CRASHED,
            "under compute-sanitizer memcheck: no memory",
        ),
        ({"body": "kill -9 $$"}, Status.CRASHED, "memcheck: its process ended with SIGKILL"),
        ({"body": "true"}, Status.CRASHED, "memcheck: its process ended with exit code 0"),
        ({"body": "sleep 60", "limit_s": 0.5}, Status.TIMED_OUT, "racecheck did not end within 0 s"),
    ],
)
def test_a_tool_without_an_answer_is_never_a_pass(sanitize, v4, options, status, told):
    found, _ = sanitize(v4, **options)
    verdict = found.checked[v4.id]
    assert verdict.status is status
    assert told in verdict.reason
    assert found.exit_code is ExitCode.PARTIAL


def test_only_the_smallest_workload_of_each_kernel_runs(sanitize, catalog, tmp_path):
    cases = [case_of(catalog, label, batch) for batch in (64, 1) for label in ("decode-v4", "decode-triton")]
    found, _ = sanitize(*cases)
    assert found.sanitized == {cases[2].id, cases[3].id}
    assert len(commands(tmp_path)) == 8
    assert found.checked[cases[0].id].gates == (PASSED,)


def test_a_kernel_behind_python_is_left_out_and_that_is_said(sanitize, catalog, tmp_path):
    reference = case_of(catalog, "decode-reference")
    found, events = sanitize(reference)
    assert found.checked[reference.id].status is Status.OK
    assert "compute-sanitizer was not run" in found.checked[reference.id].notes[0]
    assert events == [PhaseBegun("sanitize", 0)]
    assert not (tmp_path / "arguments").exists()


@pytest.mark.parametrize("status", [Status.BUILD_FAILED, Status.UNSUPPORTED, Status.WRONG_NUMBERS])
def test_what_cannot_be_launched_and_what_was_wrong_before_stays_so(sanitize, v4, tmp_path, status):
    found, _ = sanitize(v4, before=status, memcheck="")
    assert (found.checked[v4.id].status, found.checked[v4.id].reason) == (status, "before")
    assert (tmp_path / "arguments").exists() == (status is Status.WRONG_NUMBERS)


def test_what_does_not_end_is_asked_for_its_barriers_alone(sanitize, v4, tmp_path):
    found, _ = sanitize(v4, before=Status.TIMED_OUT, synccheck=own("synccheck"))
    assert found.checked[v4.id].status is Status.UNSAFE
    assert [command[1] for command in commands(tmp_path)] == ["synccheck"]


def test_options_that_the_program_does_not_know_are_left_out(sanitize, v4, tmp_path):
    sanitize(v4)
    sanitize(v4, help_text=HELP.replace("--initcheck-address-space arg", ""))
    initcheck, older = (command for command in commands(tmp_path) if "initcheck" in command)
    assert initcheck[initcheck.index("--initcheck-address-space") + 1] == "all"
    assert "--initcheck-address-space" not in older


def test_it_is_found_on_the_path_in_cuda_home_and_in_the_newest_toolkit(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    assert find_sanitizer(tmp_path) is None
    for version in ("12.9", "13.0"):
        folder = tmp_path / f"usr/local/cuda-{version}/bin"
        folder.mkdir(parents=True)
        fake_sanitizer(folder)
    assert find_sanitizer(tmp_path) == tmp_path / "usr/local/cuda-13.0/bin/compute-sanitizer"
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "usr/local/cuda-12.9"))
    assert find_sanitizer(tmp_path) == tmp_path / "usr/local/cuda-12.9/bin/compute-sanitizer"
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    on_path = fake_sanitizer(tmp_path / "bin")
    assert find_sanitizer(tmp_path) == on_path


def test_one_that_does_not_run_is_refused(tmp_path, monkeypatch):
    path = fake_sanitizer(tmp_path)
    path.write_text("#!/bin/sh\necho cannot open libsanitizer-collection.so\nexit 127\n")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(MachineError, match="does not run: cannot open libsanitizer"):
        need_sanitizer()


TOLD = {
    "memcheck": [
        "kernel.cu:25: planted: Invalid __global__ read of size 4 bytes, by thread (255,0,0) in block (15,7,0), "
        "Access to 0x7f2c1a080000 is out of bounds, and is 1 bytes after the nearest allocation at 0x7f2c1a000000 of "
        "size 524,288 bytes (and 1 more)",
        "gdn.cuh:70, called at kernel.cu:31: planted: Invalid __shared__ write of size 16 bytes, "
        "by thread (0,0,0) in block (0,0,0), Access to 0x1001 is misaligned",
    ],
    "racecheck-one-line": ["kernel.cu:9: planted: write races with read at kernel.cu:12, 508 hazards"],
    "initcheck": [
        "kernel.cu:37: planted: Uninitialized __global__ memory read of size 4 bytes, "
        "by thread (0,0,0) in block (0,0,0) (and 1 more)",
        "kernel.cu:34: planted: Uninitialized __shared__ memory read of size 4 bytes, "
        "by thread (0,0,0) in block (0,0,0)",
    ],
}


@pytest.mark.parametrize("name", TOLD)
def test_findings_are_told_with_their_place_and_kernel(name):
    assert [str(finding) for finding in read_report(said(name)).findings] == TOLD[name]


@pytest.mark.parametrize(
    ("name", "errors", "named"), [("memcheck", 3, 3), ("memcheck-old", 769, 2), ("racecheck", 1, 1)]
)
def test_errors_are_counted_once_whether_they_are_printed_or_not(name, errors, named):
    report = read_report(said(name))
    assert (report.errors, report.named_errors) == (errors, named)


def test_versions_that_name_the_function_behind_the_line_or_no_line_at_all():
    with_line, without = read_report(said("memcheck-old")).findings
    assert (with_line.place, with_line.kernel) == ("kernel.cu:17", "planted")
    assert (without.place, without.kernel) == ("planted", "planted")


def test_racecheck_names_both_accesses_and_tells_warnings_from_errors():
    error, warning = read_report(said("racecheck")).findings
    assert str(error) == (
        "kernel.cu:28: planted: write races with read at kernel.cu:29 and write at kernel.cu:33, 4,194,336 hazards"
    )
    assert (error.is_warning, warning.is_warning) == (False, True)


def test_synccheck_names_the_kernel_that_called_what_it_found():
    divergent, arguments = read_report(said("synccheck")).findings
    assert (divergent.place, divergent.kernel) == ("kernel.cu:40", "planted")
    assert divergent.what == "Barrier error detected. Divergent thread(s) in block"
    assert (arguments.place, arguments.kernel) == ("sm_30_intrinsics.hpp:110, called at kernel.cu:48", "planted")


def test_what_it_says_besides_is_kept():
    report = read_report(said("not-attached"))
    assert (report.findings, report.errors) == ((), None)
    assert report.remarks[0] == "Error: No attachable process found. compute-sanitizer timed-out."
    assert read_report(said("clean")).remarks == ()


@pytest.mark.parametrize("name", ["memcheck", "initcheck", "synccheck"])
def test_a_new_kind_of_error_is_a_finding_all_the_same(name):
    heading = read_report(said(name)).findings[0].what
    unknown = said(name).replace(heading, "Tensor core misused by 3 warps")
    assert read_report(unknown).findings[0].what == "Tensor core misused by 3 warps"
    assert read_report(unknown).named_errors == read_report(said(name)).named_errors


@pytest.mark.parametrize("name", ["memcheck", "racecheck", "initcheck", "synccheck"])
def test_wherever_the_log_is_cut_off_it_is_read(name):
    text = said(name)
    for end in range(len(text)):
        report = read_report(text[:end])
        assert report.errors is None or "SUMMARY" in text[:end]


@pytest.mark.parametrize(
    ("kernels", "folder", "is_own"),
    [
        ({"planted"}, "/elsewhere", True),
        ({"plant"}, "/elsewhere", False),
        ({"other"}, "/kernels/decode/planted", True),
        ({"other"}, "/kernels/decode/plant", False),
    ],
)
def test_whose_a_finding_is_by_name_or_by_file(kernels, folder, is_own):
    assert read_report(said("memcheck")).findings[0].is_in(kernels, [Path(folder)]) is is_own


@pytest.mark.parametrize(
    "function",
    [
        "planted", "void planted<(int)8>(float *)", "void ns::planted<float, (bool)1>(T1 *)",
        "(anonymous namespace)::planted(int)", "<unnamed>::planted(int)",
    ],
)  # fmt: skip
def test_a_kernel_is_known_by_its_own_name(function):
    text = said("initcheck").replace("planted(const float *, float *)", function)
    assert {finding.kernel for finding in read_report(text).findings} == {"planted"}


def test_what_has_no_function_may_be_anyones():
    text = said("initcheck").replace("planted(const float *, float *)+", "")
    [first, *_] = read_report(text).findings
    assert first.is_in({"other"}, [])
