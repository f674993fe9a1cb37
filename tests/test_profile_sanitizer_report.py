"""Reading what compute-sanitizer writes: every kind of finding, its line, how often, and what it counts."""

from pathlib import Path

import pytest
from sanitizer_data import said

from gdnbench.profile.sanitizer_report import read_report


def told(name):
    return [str(finding) for finding in read_report(said(name)).findings]


def test_memcheck():
    assert told("memcheck") == [
        "kernel.cu:25: planted: Invalid __global__ read of size 4 bytes, by thread (255,0,0) in block (15,7,0), "
        "Access to 0x7f2c1a080000 is out of bounds, and is 1 bytes after the nearest allocation at 0x7f2c1a000000 of "
        "size 524,288 bytes (and 1 more)",
        "gdn.cuh:70, called at kernel.cu:31: planted: Invalid __shared__ write of size 16 bytes, "
        "by thread (0,0,0) in block (0,0,0), Access to 0x1001 is misaligned",
    ]
    assert read_report(said("memcheck")).errors == read_report(said("memcheck")).named_errors == 3


def test_versions_that_name_the_function_behind_the_line_or_no_line_at_all():
    with_line, without = read_report(said("memcheck-old")).findings
    assert (with_line.place, with_line.kernel) == ("kernel.cu:17", "planted")
    assert (without.place, without.kernel) == ("planted", "planted")


def test_errors_that_were_not_printed_are_counted_once():
    report = read_report(said("memcheck-old"))
    assert (report.errors, report.named_errors) == (769, 2)


def test_racecheck_names_both_accesses_and_tells_warnings_from_errors():
    report = read_report(said("racecheck"))
    error, warning = report.findings
    assert str(error) == (
        "kernel.cu:28: planted: write races with read at kernel.cu:29 and write at kernel.cu:33, 4,194,336 hazards"
    )
    assert (error.is_warning, warning.is_warning) == (False, True)
    assert (report.errors, report.named_errors) == (1, 1)


def test_a_race_in_one_line():
    assert told("racecheck-one-line") == ["kernel.cu:9: planted: write races with read at kernel.cu:12, 508 hazards"]


def test_initcheck_tells_global_from_shared():
    assert told("initcheck") == [
        "kernel.cu:37: planted: Uninitialized __global__ memory read of size 4 bytes, "
        "by thread (0,0,0) in block (0,0,0) (and 1 more)",
        "kernel.cu:34: planted: Uninitialized __shared__ memory read of size 4 bytes, "
        "by thread (0,0,0) in block (0,0,0)",
    ]


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
