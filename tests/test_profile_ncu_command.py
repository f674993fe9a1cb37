"""What ncu says when it fails, and what gdnbench makes of it."""

import pytest

from gdnbench import errors
from gdnbench.process.command import Completed
from gdnbench.profile.ncu.command import failure_of, find_ncu

# Said by ncu 2025.3.1.
NOTHING = """==PROF== Connected to process 3215 (/usr/bin/python3.12)
==PROF== Disconnected from process 3215
==WARNING== No kernels were profiled.
==WARNING== Note that specified NVTX include expressions match only start/end ranges.
"""
WORKER = """==PROF== Connected to process 3215 (/usr/bin/python3.12)
BuildError: kernel.cu(3): error: expected a ";"
==PROF== Disconnected from process 3215
==ERROR== The application returned an error code (1).
"""
UNWRITABLE = "==ERROR== Unable to write to file x.ncu-rep. Please verify this file is not locked, and writable.\n"
# As users of other versions and machines report them.
PERMISSION = """==PROF== Connected to process 7 (/usr/bin/python3)
==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target \
device 0. For instructions on enabling permissions and to get more information see \
https://developer.nvidia.com/ERR_NVGPUCTRPERM
==PROF== Disconnected from process 7
==WARNING== No kernels were profiled.
"""
TAKEN = """==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool (like DCGM) \
is concurrently collecting profiling data. See https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#faq.
==ERROR== Failed to profile "gdn_decode_v4" in process 7
==WARNING== No kernels were profiled.
"""
TOO_OLD = """==ERROR== Profiling is not supported on device 0. To find out supported GPUs refer --list-chips option.
==WARNING== No kernels were profiled.
"""
OTHER_DRIVER = """==ERROR== An error was reported by the driver:
==ERROR== Cuda driver is not compatible with Nsight Compute.
==PROF== Connected to process 7 (/usr/bin/python3)
==ERROR== The application returned an error code (11).
"""


@pytest.mark.parametrize(
    ("output", "returncode", "kind", "message", "hint"),
    [
        (NOTHING, 0, errors.NothingProfiledError, "no launch", "verify"),
        (WORKER, 1, errors.WorkerFailedError, 'expected a ";"', "verify"),
        (UNWRITABLE, 1, errors.MachineError, "x.ncu-rep", "--profiles"),
        (PERMISSION, 1, errors.CounterPermissionError, "ERR_NVGPUCTRPERM", "NVreg_RestrictProfilingToAdminUsers=0"),
        (TAKEN, 1, errors.CountersTakenError, "DCGM", "dcgmi profile --pause"),
        (TOO_OLD, 0, errors.ProfilerTooOldError, "this GPU", "--list-chips"),
        (OTHER_DRIVER, 11, errors.ProfilerTooOldError, "this driver", "--ncu"),
        ("", -9, errors.ProfilerError, "-9", "doctor"),
        ("==ERROR== Unknown Error on device 0.\n", 9, errors.ProfilerError, "Unknown Error", "doctor"),
    ],
)
def test_messages(output, returncode, kind, message, hint):
    error = failure_of(Completed(returncode, output))
    assert type(error) is kind
    assert message in error.message
    assert hint in error.hint
    expected = errors.ExitCode.ENVIRONMENT if kind is errors.MachineError else errors.ExitCode.PROFILER
    assert error.exit_code is expected


def test_what_a_kernel_prints_is_not_taken_for_ncus_word():
    printed = "my kernel: Profiling is not supported on device 0, ERR_NVGPUCTRPERM\n"
    assert type(failure_of(Completed(0, printed + NOTHING))) is errors.NothingProfiledError


def test_the_newest_ncu_is_found_and_that_on_the_path_first(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert find_ncu(tmp_path) is None
    for place in ("usr/local/cuda-12.9/bin", "usr/local/cuda-13.0/bin", "usr/local/cuda/bin"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "ncu").touch(0o755)
    assert find_ncu(tmp_path) == tmp_path / "usr/local/cuda-13.0/bin/ncu"
    monkeypatch.setenv("PATH", str(tmp_path / "usr/local/cuda/bin"))
    assert find_ncu(tmp_path) == tmp_path / "usr/local/cuda/bin/ncu"
