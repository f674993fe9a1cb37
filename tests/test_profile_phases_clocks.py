"""What the clocks of phases.cuh write, run by the interpreter of PTX: one in a warp, and several, one after another."""

from importlib.resources import files

import numpy as np
import pytest
from ptx_data import run

from gdnbench.profile import stamps

HEADER = (files("gdnbench") / "include/gdnbench/phases.cuh").read_text()
KERNEL = """
GDNBENCH_PHASE_NAMES(load, sum);

__device__ __forceinline__ void turn(const int* numbers, int* sums, int steps) {
  GDNBENCH_PHASES_BEGIN();
  int sum = 0;
#pragma unroll 1
  for (int i = 0; i < steps; ++i) {
    const int number = numbers[i];
    GDNBENCH_PHASE_USING(load, number);
    sum += number;
    GDNBENCH_PHASE_USING(sum, sum);
  }
  sums[threadIdx.x] += sum;
}

extern "C" __global__ void k(const int* numbers, int* sums, unsigned* records, unsigned* passes, int turns, int steps) {
  gdnbench_phase_records = records;
  SET_PASSES
  if (threadIdx.x >= 64) return;  // a warp without a clock
#pragma unroll 1
  for (int i = 0; i < turns; ++i) turn(numbers, sums, threadIdx.x < 32 ? steps : 1);
}
"""
WARPS, ROOM = 3, 1024


def stamped(marks, turns, steps):
    """The records and words of passes of three warps, of which the second goes through its loop once a turn."""
    set_passes = "gdnbench_phase_passes = passes;" if marks == 2 else ""
    source = f"#define GDNBENCH_PHASES {marks}\n{HEADER}{KERNEL.replace('SET_PASSES', set_passes)}"
    words = stamps.HEAD + 2 if marks == 1 else stamps.COUNTED + 1
    records = np.full(WARPS * (words + 1), stamps.UNWRITTEN, dtype=np.uint32)
    passes, sums = np.zeros((WARPS, ROOM), dtype=np.uint32), np.zeros(32 * WARPS, dtype=np.int32)
    run(source, np.arange(1, 9, dtype=np.int32), sums, records, passes, turns, steps, threads=32 * WARPS, limit=10**5)
    assert sums.reshape(WARPS, 32)[:, 0].tolist() == [turns * sum(range(1, steps + 1)), turns, 0]
    return records[: WARPS * words].reshape(WARPS, words), passes


@pytest.mark.parametrize("turns", [1, 2, 5])
def test_clocks_of_a_warp_go_on_in_one_record(turns):
    records, _ = stamped(1, turns, 4)
    assert (records[2] == stamps.UNWRITTEN).all()
    cycles = records[:2, stamps.HEAD :].astype(np.int64)
    assert (cycles > 0).all()
    between = records[:2, stamps.TOTAL] - cycles.sum(axis=1)
    assert (between >= 0).all()
    one = stamped(1, 1, 4)[0]
    assert (cycles >= turns * one[:2, stamps.HEAD :] * 0.9).all()  # all turns, not the last one
    assert (records[:2, stamps.TOTAL] >= turns * (one[:2, stamps.TOTAL] * 0.9)).all()
    assert (records[:2, stamps.SM] != stamps.UNWRITTEN).all()
    assert (records[:2, stamps.END_NS] > records[:2, stamps.BEGIN_NS]).all()


@pytest.mark.parametrize("turns", [1, 2, 5])
def test_passes_of_all_clocks_are_noted_and_what_lies_between_belongs_to_no_phase(turns):
    records, words = stamped(2, turns, 4)
    passes = stamps.Passes(records[None], words[None])
    gaps = turns - 1
    assert records[:2, stamps.COUNTED].tolist() == [8 * turns + gaps, 2 * turns + gaps]
    assert passes.is_there.sum(axis=2).tolist() == [[8 * turns + gaps, 2 * turns + gaps, 0]]
    own = passes.phases[0, 0, : 8 * turns + gaps].tolist()
    assert own == ([*[0, 1] * 4, stamps.BETWEEN_CLOCKS] * turns)[:-1]
    ends = passes.ends[0, 0, : len(own)].astype(np.int64)
    assert (np.diff(ends) > 0).all()
    assert ends[-1] <= records[0, stamps.TOTAL] < 1 << stamps.CYCLE_BITS
