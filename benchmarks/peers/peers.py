"""The tools that are compared, and how each one's users decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from .rules import Judgement, one_percent, smaller_wins

FUNCTIONS, NVBENCH, QUICK, DEFAULT = "functions", "nvbench", "gdnbench-quick", "gdnbench"
"""The groups: functions that a Python program calls share a process, the others are processes of their own."""
NVBENCH_TIMEOUT_S = 0.5
"""NVBench's own default is 15 s for each kernel, which kernels of 4 µs use up: 75 s a trial at B=1 alone.

More samples would not change its verdicts: they rest on the spread of the samples, not on how well the mean is known.
"""
NAMES = 2
"""Names that each kernel has in a run of gdnbench, whose time is mostly the start of its processes and its checks."""
MOST_NAMES = 8
"""Names that the planted kernel has beside its own."""
SMALLER, ONE_PERCENT = "smaller wins", "1 % is real"
LEGACY, ROBUST, OWN = "compare-legacy's rule", "compare-robust", "its verdict"


@dataclass(frozen=True)
class Peer:
    """A way of timing.

    Attributes:
        name: as `--peers` takes it.
        title: as the table names it.
        group: what it is started with.
        needs: the module without which it is left out.
        rules: how its times are judged, each a row of the table.
    """

    name: str
    title: str
    group: str
    needs: str
    rules: tuple[str, ...]


ONE_NUMBER: dict[str, Callable[[float, float], Judgement]] = {SMALLER: smaller_wins, ONE_PERCENT: one_percent}
"""The rules for tools that print one number."""

PEERS = {
    peer.name: peer
    for peer in (
        Peer("do_bench", "triton do_bench", FUNCTIONS, "triton", tuple(ONE_NUMBER)),
        Peer("do_bench_cudagraph", "triton do_bench_cudagraph", FUNCTIONS, "triton", tuple(ONE_NUMBER)),
        Peer("flashinfer", "FlashInfer bench_gpu_time", FUNCTIONS, "flashinfer", tuple(ONE_NUMBER)),
        Peer("nvbench", f"NVBench --timeout {NVBENCH_TIMEOUT_S}", NVBENCH, "cuda.bench", (LEGACY, ROBUST)),
        Peer("gdnbench-quick", "gdnbench run --quick", QUICK, "cuda.bench", (OWN,)),
        Peer("gdnbench", "gdnbench run", DEFAULT, "cuda.bench", (OWN,)),
    )
}


def comparisons_of(group: str, names: int) -> int:
    """How many comparisons of each kind a trial of a group makes.

    Args:
        group: the group.
        names: that each kernel has in a run of gdnbench.
    """
    return names if group in {QUICK, DEFAULT} else 1


def why_missing(peer: Peer) -> str:
    """Why a peer cannot be tried here; empty if it can."""
    return "" if _is_there(peer.needs) else "not installed"


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of a package above it
        return False
