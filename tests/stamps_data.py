"""Stamps of a GPU whose clocks are known."""

from dataclasses import replace

import numpy as np
from decode_workloads import decode_at

from gdnbench.profile.stamps import HEAD, UNWRITTEN, Passes, StampedKernel, Stamps

MHZ = 1500
STEP_NS = 32


def about(phases=("load", "update", "store"), workload=None, **changes):
    fields = {
        "op": "decode",
        "label": "decode-v4",
        "shape": (workload or decode_at(B=2)).sizes,
        "gpu": "NVIDIA H200",
        "arch": "sm_90",
        "phases": phases,
        "asked": 50,
        "registers": 30,
        "stamped_registers": 32,
        "stamped_spill_bytes": 0,
    }
    return StampedKernel(**{**fields, **changes})


def records(cycles, after=0, skew_ns=0.0, origin_ns=0):
    """Records of warps that took these cycles in each phase, [launches, warps, phases].

    Args:
        after: cycles after the last mark.
        skew_ns: how much later each warp begins than the one before it.
        origin_ns: what the global timer shows when the first launch begins; launches begin anywhere in its steps.
    """
    launches, warps, phases = cycles.shape
    total = cycles.sum(axis=2) + after
    phase_of_step = np.random.default_rng(1).uniform(0, STEP_NS, (launches, 1))
    begin = origin_ns + np.arange(launches)[:, None] * 100_000 + phase_of_step + np.arange(warps) * skew_ns
    end = begin + total * 1e3 / MHZ
    made = np.zeros((launches, warps, HEAD + phases), dtype=np.uint32)
    made[:, :, 0], made[:, :, 1] = (_shown(begin), _shown(end))
    made[:, :, 2] = np.arange(warps) % 132
    made[:, :, 3] = total
    made[:, :, 4:] = cycles
    return made


def _shown(ns):
    """The low word of what the global timer shows: whole steps."""
    return (np.floor(ns / STEP_NS).astype(np.int64) * STEP_NS % 2**32).astype(np.uint32)


def stamps(launches=50, warps=64, about_=None, **options):
    """Warps that differ in the first phase only: 1500 cycles, a µs, and 30 more for each further warp."""
    cycles = np.zeros((launches, warps, 3), dtype=np.int64)
    cycles[:, :, 0] = 1500 + 30 * np.arange(warps)
    cycles[:, :, 1] = 750
    cycles[:, :, 2] = 300
    ticks = np.random.default_rng(2).integers(0, 8, (2, 200)) * 0.032
    return Stamps(about_ or about(), records(cycles, **options), 4.0 + ticks[0], 4.4 + ticks[1])


def specialised(block_warps=4, blocks=5):
    """Stamps of blocks whose warp 0 loads and whose others update and store; the last block has nothing to store."""
    cycles = np.zeros((20, blocks * block_warps, 3), dtype=np.int64)
    cycles[:, ::block_warps, 0] = 3000
    for place in range(1, block_warps):
        cycles[:, place::block_warps, 1] = 1500 * place
        cycles[:, place::block_warps, 2] = 300
    cycles[:, -block_warps + 1 :, 2] = 0
    return Stamps(about(asked=20, block_warps=block_warps), records(cycles), np.array([4.0]), np.array([4.2]))


def looping(turns=4, blocks=5):
    """`specialised`, with each pass noted: warp 0 of a block loads several times, the last time twice as long."""
    whole = specialised(blocks=blocks)
    warps = whole.records.shape[1]
    load, update, store = range(3)
    lengths = np.array([*[1500] * (turns - 1), 3000])
    words = np.full((2, warps, turns + 1), UNWRITTEN, dtype=np.uint32)
    words[:, ::4, :turns] = load << 26 | np.cumsum(lengths)
    for place in range(1, 4):
        words[:, place::4, :2] = [update << 26 | 1500 * place, store << 26 | 1500 * place + 300]
    counts = np.where(np.arange(warps) % 4 == 0, turns, 2)
    heads = np.repeat(whole.records[:1, :, :HEAD], 2, axis=0)
    noted = np.concatenate([heads, np.broadcast_to(counts[None, :, None], (2, warps, 1))], axis=2)
    return replace(whole, passes=Passes(noted.astype(np.uint32), words))
