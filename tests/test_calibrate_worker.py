"""The worker of `gdnbench doctor --latency` on a GPU that is simulated in this process's memory.

Its chases follow the addresses that the worker wrote. A trip takes as long as the nearest place that holds the line: an
L1 and an L2 that keep what was read last, and translations of so many pages; half of the L2's lines are farther.
"""

import ctypes
from collections import OrderedDict
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from gdnbench.calibrate import probe
from gdnbench.calibrate.latency import ProbeBegun, ProbedGpu
from gdnbench.store.latencies import DRAM, Cost, Peak, ReadRate, Unmeasured

SMS, MHZ, L2_BYTES = 4, 1000.0, 1 << 20
LAUNCH_NS = 900.0
TOO_MANY_PAGES = {"L2, 512 pages in turn", "L2, 2,048 pages in turn"}
MATRIX, MATMUL_NS = 16, 4000.0
FLOPS_PER_CYCLE = 128
SHARED, L1, NEAR, FAR, DRAM_CYCLES, WALK, BARRIER, BYTES_PER_CYCLE = 20, 30, 200, 300, 600, 400, 25, 64


class Kept(OrderedDict):
    """What was touched last, at most `most` things."""

    def __init__(self, most):
        super().__init__()
        self.most = most

    def touch(self, thing):
        """Whether it was there."""
        was = thing in self
        self[thing] = None
        self.move_to_end(thing)
        if len(self) > self.most:
            self.popitem(last=False)
        return was


class SimulatedGpu:
    """Runs the probes one at a time; `sm` is where the next block runs."""

    def __init__(self):
        self.l1, self.l2, self.pages, self.sm = Kept(512), Kept(L2_BYTES // 128), Kept(64), 1
        self.now_ns, self.grid_meets, self.works, self.is_restless, self.began = 0.0, True, True, False, []
        self.properties = SimpleNamespace(multi_processor_count=SMS, L2_cache_size=L2_BYTES, major=9)

    def trip(self, at, by="l2"):
        line = at // 128
        held = by == "l1" and self.l1.touch(line)
        if held:
            return L1
        walk = 0 if self.pages.touch((at - self.memory.data_ptr()) // probe.PAGE) else WALK
        return walk + ((FAR if line // 33 % 2 else NEAR) if self.l2.touch(line) else DRAM_CYCLES)

    def launch(self, kernel, arguments):
        name, arguments = kernel.name, [getattr(each, "value", each) for each in arguments]
        self.began.append(name)
        self.sm += self.is_restless
        if name == "note_clocks":
            self._note_clocks(kernel, *arguments)
            return
        out = (ctypes.c_int64 * 4).from_address(arguments[-1])
        cycles, result = getattr(self, f"_{name.rstrip('_0123456789')}")(kernel, *arguments)
        self.now_ns += 1e3 * cycles / MHZ
        out[:] = [int(cycles), int(1e3 * cycles / MHZ), self.sm, result]

    def _note_clocks(self, kernel, noted):
        """Of all SMs but the first, which has no block; each has its own clock, at the same rate."""
        assert (kernel.blocks, kernel.threads) == (SMS, 1)
        for sm in range(1, SMS):
            now = (ctypes.c_int64 * 2).from_address(noted + 16 * sm)
            now[:] = [int(self.now_ns * MHZ / 1e3) + 1000 * sm + 1, int(self.now_ns) + 1]

    def _multiply_add(self, kernel, steps, factor, addend, _out):
        assert (kernel.blocks, kernel.threads, factor, addend) == (SMS, 1024, 1.0, 1.0)
        result = sum(range(probe.CHAINS)) + probe.CHAINS * steps * self.works
        return 2 * probe.CHAINS * steps * 1024 / FLOPS_PER_CYCLE, result

    def _follow(self, at, steps, by):
        cycles = 0
        for _ in range(steps):
            cycles += self.trip(at, by)
            at = ctypes.c_int64.from_address(at).value
        return cycles, at

    def _chase_l(self, kernel, before, untimed, first, steps, _out):
        by = kernel.name.removeprefix("chase_")
        self._follow(before, untimed, by)
        return self._follow(first, steps, by)

    def _chase_shared(self, _kernel, steps, _out):
        return SHARED * steps, 33 * steps % 1024

    def _line_cycles(self, _kernel, first, stride, lines, cycles, _out):
        found = (ctypes.c_int32 * lines).from_address(cycles)
        for line in range(lines):
            assert ctypes.c_int64.from_address(first + stride * line).value == first + stride * line
            self.trip(first + stride * line)
            found[line] = self.trip(first + stride * line)
        return 1, 0

    def _block_barrier(self, _kernel, steps, _out):
        return BARRIER * steps, steps

    def _cluster_barrier(self, kernel, steps, _out):
        return 2 * BARRIER * kernel.blocks * steps, steps

    def _grid_barrier(self, _kernel, steps, arrived, _limit, _out):
        assert ctypes.c_int32.from_address(arrived).value == 0
        return 10 * BARRIER * steps, steps if self.grid_meets else 3

    def _read(self, kernel, address, words, _sums, _out):
        nbytes = kernel.blocks * words * int(kernel.name.removeprefix("read_"))
        fresh = sum(not self.l2.touch(line) for line in range(address // 128, (address + nbytes) // 128))
        assert kernel.threads == 1024
        return fresh * 128 / BYTES_PER_CYCLE / kernel.blocks, 0


@pytest.fixture
def gpu(monkeypatch):
    made = SimulatedGpu()

    class Kernel:
        def __init__(self, name, source="", blocks=1, threads=32, shared_bytes=0):
            assert f"gdnbench_{name}(" in source.replace("\n", "")
            self.name, self.blocks, self.threads = name, blocks, threads

        def launch(self, *arguments):
            made.launch(self, arguments)

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            self.at_ns = made.now_ns

        def synchronize(self):
            pass

        def elapsed_time(self, end):
            return (end.at_ns - self.at_ns) / 1e6

    class HostTorch:
        """torch, with the GPU's memory in the host's."""

        cuda = SimpleNamespace(
            Event=Event,
            Stream=lambda: None,
            init=lambda: None,
            stream=lambda _stream: nullcontext(),
            mem_get_info=lambda: (512 << 20, 0),
            get_device_properties=lambda _: made.properties,
        )

        def empty(self, size, dtype, device):
            assert device == "cuda"
            made.memory = torch.empty(size, dtype=dtype)
            return made.memory

        def matmul(self, left, right, out):
            made.now_ns += MATMUL_NS
            return torch.matmul(left, right, out=out)

        def __getattr__(self, name):
            function = getattr(torch, name)
            if not callable(function) or isinstance(function, type):
                return function
            return lambda *arguments, **more: function(
                *arguments, **{**more, **({"device": "cpu"} if "device" in more else {})}
            )

    def empty_kernel(_name):
        def launch():
            made.now_ns += LAUNCH_NS

        return SimpleNamespace(launch=launch)

    monkeypatch.setattr(probe, "torch", HostTorch())
    monkeypatch.setattr(probe, "OwnKernel", Kernel)
    monkeypatch.setattr(probe, "EmptyKernel", empty_kernel)
    monkeypatch.setattr(probe, "BlockingKernel", lambda: SimpleNamespace(enqueue=lambda: None, release=lambda: None))
    monkeypatch.setattr(
        probe, "Device", lambda _: SimpleNamespace(properties=SimpleNamespace(max_shared_memory_per_block_optin=1))
    )
    monkeypatch.setattr(probe, "raise_clock", lambda: None)
    monkeypatch.setattr(probe, "REPEATS", 2)
    monkeypatch.setattr(probe, "MATRIX", MATRIX)
    monkeypatch.setattr(probe, "MOST_SLICE", 1 << 20)
    return made


@pytest.fixture
def costs(gpu):
    """Measures everything; gives what the worker sends: costs and reasons by name, rates by width and SMs."""

    def measure():
        sent = []
        probe.measure_all(sent.append)
        assert sent[0] == ProbedGpu(SMS, L2_BYTES, 64)
        begun = [each.what for each in sent if isinstance(each, ProbeBegun)]
        found = {each.what: each for each in sent if isinstance(each, Cost | Unmeasured)}
        rates = {(each.lane_bytes, each.sms): each for each in sent if isinstance(each, ReadRate)}
        gpu.peaks = {each.precision: each for each in sent if isinstance(each, Peak)}
        assert {*begun} >= {*found}
        assert len(begun) == len(found) + len(rates) + len(gpu.peaks)
        return found, rates

    return measure


def test_every_trip_goes_where_its_name_says(gpu, costs):
    measured = costs()[0]
    assert measured.pop("L2, 512 pages in turn").why == "there is memory for 128 pages"
    found = {what: cost.cycles for what, cost in measured.items() if isinstance(cost, Cost)}
    assert found["shared memory"] == SHARED
    assert found["L1"] == L1
    assert NEAR < found["L2"] < FAR
    assert found["L2, nearest quarter of lines"] == NEAR
    assert found["L2, farthest quarter of lines"] == FAR
    assert found[DRAM] == DRAM_CYCLES
    assert NEAR < found["L2, 32 pages in turn"] < FAR
    assert NEAR + WALK < found["L2, 128 pages in turn"] < FAR + WALK
    assert NEAR + WALK < found["L2, cold translation"] < FAR + WALK
    assert found["DRAM, cold translation"] == DRAM_CYCLES + WALK


def test_times_are_by_the_clock_that_the_sm_had(gpu, costs):
    found, _ = costs()
    assert found["L1"].ns == pytest.approx(1e3 * L1 / MHZ)
    assert found["L1"].sm_mhz == pytest.approx(MHZ)


def test_barriers_and_launches_are_of_one_each(gpu, costs):
    found, _ = costs()
    assert found["block of 1024 threads"].cycles == BARRIER
    assert found["cluster of 4 blocks of 128"].cycles == 8 * BARRIER
    assert found[f"grid of {SMS} blocks of 128"].cycles == 10 * BARRIER
    assert found["each further one"].ns == pytest.approx(LAUNCH_NS)
    assert (found["each further one"].cycles, found["each further one"].sm_mhz) == (None, None)


def test_reads_are_of_memory_that_is_in_no_cache(gpu, costs):
    _, rates = costs()
    assert {*rates} == {*((lane, SMS) for lane in (2, 4, 8, 16)), (16, 1), (16, 2)}
    for (_, sms), rate in rates.items():
        assert rate.bytes_per_s == pytest.approx(sms * BYTES_PER_CYCLE * MHZ * 1e6, rel=0.01)
        assert rate.sm_mhz == pytest.approx(MHZ, rel=0.01)


def test_peaks_count_multiplications_and_additions_and_have_the_clock_meanwhile(gpu, costs):
    costs()
    assert gpu.peaks["fp32"].flops_per_s == pytest.approx(SMS * FLOPS_PER_CYCLE * MHZ * 1e6, rel=0.01)
    assert gpu.peaks["bf16"].flops_per_s == pytest.approx(2 * MATRIX**3 / MATMUL_NS * 1e9)
    assert {round(peak.sm_mhz) for peak in gpu.peaks.values()} == {MHZ}


def test_a_peak_whose_chains_left_steps_out_is_none(gpu, costs):
    gpu.works = False
    found, _ = costs()
    assert "its loop ended with 28, not with" in found["peak of fp32"].why
    assert {*gpu.peaks} == {"bf16"}


def test_what_does_not_do_its_work_is_named_and_loses_nothing_else(gpu, costs):
    gpu.grid_meets, gpu.is_restless = False, True
    found, rates = costs()
    assert found.pop(f"grid of {SMS} blocks of 128").why == "its loop ended with 3, not with 256"
    for part in ("nearest", "farthest"):
        assert "on another SM" in found.pop(f"L2, {part} quarter of lines").why
    assert {what for what, each in found.items() if isinstance(each, Unmeasured)} == TOO_MANY_PAGES
    assert len(rates) == 6


def test_a_gpu_without_clusters_has_the_other_costs(gpu, costs):
    gpu.properties.major = 8
    found, _ = costs()
    why = {what: each.why for what, each in found.items() if isinstance(each, Unmeasured)}
    assert {*why.values()} == {"this GPU has no clusters", "there is memory for 128 pages"}
    assert {what for what in why if "cluster" not in what} == TOO_MANY_PAGES
    assert not any(name.startswith("cluster") for name in gpu.began)
