"""Builds the C loop with the machine's C compiler, at first use, and calls it through ctypes."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from gdnbench.codegen.cache import cache_folder
from gdnbench.errors import GdnbenchError, MachineError
from gdnbench.process.command import describe_exit, run_tool
from gdnbench.wording import first_line

SOURCE = Path(__file__).with_name("chain.c")
DRIVER = "libcuda.so.1"
_FLAGS = ("-O2", "-shared", "-fPIC")
_LIMIT_S = 60


class Launch(ctypes.Structure):
    """One launch, in the layout of `chain.c`."""

    _fields_ = (
        ("function", ctypes.c_void_p),  # a `CUfunction`, or a `CUkernel`
        ("arguments", ctypes.c_void_p),  # address of the list of the arguments' addresses
        ("window_base", ctypes.c_void_p),  # of the access policy window
        ("window_bytes", ctypes.c_uint64),  # 0 for no window
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),  # dynamic
        ("hit_ratio", ctypes.c_float),  # share of the window's accesses that persist
        ("programmatic", ctypes.c_int32),  # it may begin before the previous launch has ended
        ("cooperative", ctypes.c_int32),  # all of its blocks must be resident at once
    )


class NoCompilerError(MachineError):
    """There is no C compiler, so there is no C loop."""


def build_loop() -> Path:
    """The shared library, built at first use, named by the source's hash; NoCompilerError if it fails."""
    text = SOURCE.read_bytes()
    target = cache_folder().parent / "step" / f"chain-{hashlib.sha256(text).hexdigest()[:16]}.so"
    if target.is_file():
        return target
    compiler = os.environ.get("CC") or next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise NoCompilerError("there is no C compiler here (cc, gcc or clang)", "install one, or name it in CC")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(f".{os.getpid()}")
    command = [compiler, *_FLAGS, "-o", str(temporary), str(SOURCE), "-ldl"]
    try:
        done = run_tool(command, limit_s=_LIMIT_S)
    except OSError as error:  # a time limit among it
        raise NoCompilerError(f"{compiler} does not run: {error}", "name another compiler in CC") from error
    if done.returncode:
        said = first_line(done.errors) or describe_exit(done.returncode)
        raise NoCompilerError(f"{compiler} does not compile {SOURCE.name}: {said}", "name another compiler in CC")
    temporary.replace(target)
    return target


class CLoop:
    """The C loop; NoCompilerError if it cannot be built, MachineError if the driver lacks a function."""

    def __init__(self, driver: str = DRIVER) -> None:
        self._library = ctypes.CDLL(str(build_loop()))
        for name in ("gdnbench_launch_plain", "gdnbench_launch_extended"):
            getattr(self._library, name).argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
        self._library.gdnbench_read_node.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
        if status := self._library.gdnbench_open(driver.encode()):
            raise MachineError(f"{driver} lacks a function that the C loop needs ({status})", "update the driver")

    def read_node(self, node: int) -> Launch:
        """A graph's kernel launch, which lives as long as the graph; LaunchRefusedError if the driver refuses."""
        launch = Launch()
        _check(self._library.gdnbench_read_node(node, ctypes.addressof(launch)), "cuGraphKernelNodeGetParams")
        return launch

    def launch_plain(self, launches: ctypes.Array[Launch], stream: int) -> None:
        """Launches all by `cuLaunchKernel`; raises LaunchRefusedError if the driver refuses one."""
        _check(self._library.gdnbench_launch_plain(launches, len(launches), stream), "cuLaunchKernel")

    def launch_extended(self, launches: ctypes.Array[Launch], stream: int) -> None:
        """Launches all by `cuLaunchKernelEx`, with attributes; raises LaunchRefusedError if the driver refuses one."""
        _check(self._library.gdnbench_launch_extended(launches, len(launches), stream), "cuLaunchKernelEx")


def listed(launches: Sequence[Launch]) -> ctypes.Array[Launch]:
    """The launches as a C array."""
    return (Launch * len(launches))(*launches)


class LaunchRefusedError(GdnbenchError):
    """The driver refuses a launch."""


def _check(status: int, function: str) -> None:
    if status:
        raise LaunchRefusedError(f"{function} of the C loop returned {status}", "see CUresult in the driver's manual")
