"""The worker that probes a GPU: `python -m gdnbench.calibrate.probe FD`; it sends each cost as soon as it is known.

A chase is one thread that follows addresses from place to place, so its time is that of the trips alone. Which caches
and translations hold what it visits is decided by what it, or a read of other memory, visited before.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from statistics import median
from typing import Any

import torch
from cuda.core import Device

from gdnbench.calibrate.latency import SOURCE, ProbeBegun, ProbedGpu, ProbeMessage
from gdnbench.model.gpu import Precision
from gdnbench.process.channel import Channel
from gdnbench.process.worker import die_with_parent
from gdnbench.store.latencies import DRAM, Cost, CostGroup, Peak, ReadRate, Unmeasured
from gdnbench.workers.cold import BlockingKernel, EmptyKernel, OwnKernel, raise_clock

REPEATS = 5  # loops of each probe
PAGE = 2 << 20  # bytes of a page of device memory
MOST_MEMORY = 32 << 30  # bytes whose pages are visited, and at most half of what is free
LINE = 128
SPREAD = 4096 + LINE  # bytes from line to line, so that they lie in all parts and sets of the L2
L1_LINES = 128
L2_LINES = 2048
TRANSLATED_PAGES = 32  # whose translations an SM holds
PAGES_IN_TURN = (32, 128, 512, 2048)
SYNC_STEPS = 2048
SYNC_THREADS = 128
GRID_STEPS = 256
GRID_LIMIT_NS = 1_000_000  # of one meeting of all blocks
LAUNCHES = 64
READ_THREADS = 1024  # the most of a block, and one block an SM
READ_STEP = READ_THREADS * 8 * 16  # bytes that a block has in flight
MOST_SLICE = 16 << 20  # bytes that each SM reads
CHAINS = 8  # of dependent operations in each thread, as probes.cu has them
CHAIN_STEPS = 1 << 16
MATRIX = 8192  # rows and columns of the matrices that are multiplied
MOST_SMS = 1024

Step = tuple[float, float | None]
"""The time of a step of a loop: ns, and cycles of the SM's clock where an SM counts them."""


class UnmeasurableError(Exception):
    """A probe that cannot be had on this GPU, or whose loop did not do what it is for."""


class Probes:
    """The probes' kernels, and the device memory in which they run."""

    def __init__(self) -> None:
        properties = torch.cuda.get_device_properties(0)
        self.sms: int = properties.multi_processor_count
        self.l2_bytes: int = properties.L2_cache_size
        self._has_clusters = properties.major >= 9
        self._shared_bytes: int = Device(0).properties.max_shared_memory_per_block_optin
        self.pages = min(MOST_MEMORY, torch.cuda.mem_get_info()[0] // 2) // PAGE
        self._memory = torch.empty(self.pages * PAGE // 8, dtype=torch.int64, device="cuda")
        self._middle = self._memory.data_ptr() + self.pages // 2 * PAGE
        # What each SM reads at most: all of them read half of the memory, the filling of the L2 reads the other.
        self._slice_bytes = min(MOST_SLICE, self.pages // 2 * PAGE // self.sms) // READ_STEP * READ_STEP
        self._sm = -1  # that of the last loop
        self._out = torch.zeros(4, dtype=torch.int64, device="cuda")
        self._sums = torch.zeros(self.sms * READ_THREADS, dtype=torch.int32, device="cuda")
        self._blocking, self._empty = BlockingKernel(), EmptyKernel("nothing")
        self._kernel = cache(partial(OwnKernel, source=SOURCE.read_text()))

    def trips(self) -> Iterator[tuple[str, Callable[[], Step]]]:
        """The trips to memory, by name, nearest first."""
        yield "shared memory", self._shared
        yield "L1", self._l1
        yield "L2", self._l2
        yield "L2, nearest quarter of lines", partial(self._l2_part, slice(L2_LINES // 4))
        yield "L2, farthest quarter of lines", partial(self._l2_part, slice(-L2_LINES // 4, None))
        for count in PAGES_IN_TURN:
            yield f"L2, {count:,} pages in turn", partial(self._pages_in_turn, count)
        yield "L2, cold translation", partial(self._other_pages, is_in_l2=True)
        yield DRAM, self._dram
        yield "DRAM, cold translation", partial(self._other_pages, is_in_l2=False)

    def barriers(self) -> Iterator[tuple[str, Callable[[], Step]]]:
        """The barriers, by name, of few threads first."""
        for threads in (32, 128, 256, 512, 1024):
            yield f"block of {threads} threads", partial(self._barrier, "block_barrier", 1, threads)
        for blocks in (2, 4, 8):
            name = f"cluster of {blocks} blocks of {SYNC_THREADS}"
            yield name, partial(self._barrier, f"cluster_barrier_{blocks}", blocks, SYNC_THREADS)
        yield f"grid of {self.sms} blocks of {SYNC_THREADS}", self._grid_barrier

    def launches(self) -> Iterator[tuple[str, Callable[[], Step]]]:
        """Launches of an empty kernel that the GPU finds in its queue, by name."""
        yield "two events, nothing between", lambda: (self._queued_ns(0), None)
        yield "empty kernel, event to event", lambda: (self._queued_ns(1), None)
        yield "each further one", lambda: ((self._queued_ns(1 + LAUNCHES) - self._queued_ns(1)) / LAUNCHES, None)

    def _result(self, steps: int, expected: int | None = None) -> Step:
        """The time of one of a loop's steps; UnmeasurableError if it ended with another result than expected."""
        cycles, ns, self._sm, result = self._out.tolist()
        self._out.zero_()
        if expected not in {None, result}:
            raise UnmeasurableError(f"its loop ended with {result}, not with {expected}")
        if ns <= 0 or cycles <= 0:
            raise UnmeasurableError(f"its loop took {ns} ns and {cycles} cycles by the GPU's clocks")
        return ns / steps, cycles / steps

    def _ring(self, offsets: torch.Tensor) -> list[int]:
        """Writes to each place, by its byte in the memory, the address of the next; returns the addresses."""
        addresses = offsets + self._memory.data_ptr()
        self._memory[offsets // 8] = addresses.roll(-1)
        found: list[int] = addresses.tolist()
        return found

    def _chase(self, before: int, untimed: int, first: int, steps: int, end: int, *, by: str = "l2") -> Step:
        """Visits `untimed` places from the address `before` on, then times `steps` from `first` on, to `end`."""
        kernel, counts = self._kernel(f"chase_{by}", threads=1), (ctypes.c_int(untimed), ctypes.c_int(steps))
        kernel.launch(before, counts[0], first, counts[1], self._out.data_ptr())
        return self._result(steps, end)

    def _laps(self, ring: list[int], laps: int, *, by: str = "l2") -> Step:
        """Visits a whole ring once, and then times some laps of it."""
        return self._chase(ring[0], len(ring), ring[0], laps * len(ring), ring[0], by=by)

    def _shared(self) -> Step:
        self._kernel("chase_shared", threads=1).launch(ctypes.c_int(SYNC_STEPS), self._out.data_ptr())
        return self._result(SYNC_STEPS)

    def _l1(self) -> Step:
        return self._laps(self._ring(LINE * _shuffled(L1_LINES)), 32, by="l1")

    def _l2(self) -> Step:
        return self._laps(self._ring(SPREAD * _shuffled(L2_LINES)), 2)

    def _l2_part(self, part: slice) -> Step:
        """The lines to which single trips take least, or longest, chased on the SM that timed them."""
        lines = SPREAD * torch.arange(L2_LINES, device="cuda")
        self._memory[lines // 8] = lines + self._memory.data_ptr()
        single = torch.zeros(L2_LINES, dtype=torch.int32, device="cuda")
        kernel, counts = self._kernel("line_cycles", threads=1), (ctypes.c_int(SPREAD), ctypes.c_int(L2_LINES))
        kernel.launch(self._memory.data_ptr(), *counts, single.data_ptr(), self._out.data_ptr())
        sm = int(self._out[2].item())
        chosen = lines[single.argsort()[part]]
        step = self._laps(self._ring(chosen[_shuffled(len(chosen))]), 8)
        if self._sm != sm:
            raise UnmeasurableError("the chase ran on another SM than the one that told near lines from far ones")
        return step

    def _dram(self) -> Step:
        """Lines that were read by nobody since other memory filled the L2, in pages that the SM has just visited."""
        slots = TRANSLATED_PAGES * PAGE // SPREAD - 1  # without the first, which begins a page
        lines = self._ring(SPREAD * (1 + _shuffled(slots)[:L2_LINES]))
        pages = self._ring(PAGE * _shuffled(TRANSLATED_PAGES))
        self._fill_l2(self._middle)
        return self._chase(pages[0], 2 * len(pages), lines[0], len(lines), lines[0])

    def _pages_in_turn(self, count: int) -> Step:
        """A line in each of some pages, lap after lap: where translations no longer fit, each trip waits for one."""
        if count > self.pages:
            raise UnmeasurableError(f"there is memory for {self.pages} pages")
        lines = torch.randint(1, PAGE // LINE, (count,), device="cuda")
        return self._laps(self._ring(PAGE * _shuffled(count) + LINE * lines), -(-L2_LINES // count))

    def _other_pages(self, *, is_in_l2: bool) -> Step:
        """A line in each page of half of the memory, after one in each page of the other half."""
        lines = torch.randint(1, PAGE // LINE, (self.pages,), device="cuda")
        ring = self._ring(PAGE * _shuffled(self.pages) + LINE * lines)
        half = self.pages // 2
        if is_in_l2:
            return self._chase(ring[0], len(ring), ring[0], half, ring[half])
        self._fill_l2(self._middle)
        return self._chase(ring[half], len(ring) - half, ring[0], half, ring[half])

    def _barrier(self, name: str, blocks: int, threads: int) -> Step:
        if blocks > 1 and not self._has_clusters:
            raise UnmeasurableError("this GPU has no clusters")
        self._kernel(name, blocks=blocks, threads=threads).launch(ctypes.c_int(SYNC_STEPS), self._out.data_ptr())
        return self._result(SYNC_STEPS, SYNC_STEPS)

    def _grid_barrier(self) -> Step:
        arrived = torch.zeros(1, dtype=torch.int32, device="cuda")
        kernel = self._kernel("grid_barrier", blocks=self.sms, threads=SYNC_THREADS)
        limit = ctypes.c_longlong(GRID_LIMIT_NS)
        kernel.launch(ctypes.c_int(GRID_STEPS), arrived.data_ptr(), limit, self._out.data_ptr())
        return self._result(GRID_STEPS, GRID_STEPS)

    def _queued_ns(self, launches: int) -> float:
        """Ns from event to event, with launches between them that were all enqueued before the GPU came to them."""
        self._blocking.enqueue()
        with _Events() as events:
            for _ in range(launches):
                self._empty.launch()
        self._blocking.release()
        return events.ns

    def _fill_l2(self, address: int) -> None:
        """Reads four times as much memory as the L2 has, so that nothing else is left there, nor has to be written."""
        slice_bytes = -(-4 * self.l2_bytes // self.sms // READ_STEP) * READ_STEP
        self._read(address, 16, self.sms, min(slice_bytes, self._slice_bytes))
        self._out.zero_()

    def _read(self, address: int, lane_bytes: int, sms: int, slice_bytes: int) -> None:
        name, shared = f"read_{lane_bytes}", self._shared_bytes  # all of it, so that an SM holds one block
        kernel = self._kernel(name, blocks=sms, threads=READ_THREADS, shared_bytes=shared)
        words = ctypes.c_longlong(slice_bytes // lane_bytes)
        kernel.launch(address, words, self._sums.data_ptr(), self._out.data_ptr())

    def read_rate(self, lane_bytes: int, sms: int) -> ReadRate:
        """Bytes per second of one block an SM, eight loads of a thread in flight, of memory that is in no cache."""
        rates, clocks = [], []
        for _ in range(1 + REPEATS):
            self._fill_l2(self._memory.data_ptr())
            with _Events() as events:
                self._read(self._middle, lane_bytes, sms, self._slice_bytes)
            rates.append(sms * self._slice_bytes / events.ns * 1e9)
            ns, cycles = self._result(1)
            clocks.append(1e3 * (cycles or 0.0) / ns)
        rates, clocks = rates[1:], clocks[1:]  # the first loads the kernel
        return ReadRate(lane_bytes=lane_bytes, sms=sms, **_range("bytes_per_s", rates), sm_mhz=median(clocks))

    def fp32_peak(self) -> Peak:
        """Fused multiplications and additions in registers, 1,024 threads on each SM."""
        kernel = self._kernel("multiply_add", blocks=self.sms, threads=READ_THREADS)
        steps, one = ctypes.c_int(CHAIN_STEPS), ctypes.c_float(1.0)

        def work() -> None:
            kernel.launch(steps, one, one, self._out.data_ptr())

        flops = 2 * CHAINS * CHAIN_STEPS * READ_THREADS * self.sms
        return self._peak("fp32", flops, work, lambda: self._result(1, sum(range(CHAINS)) + CHAINS * CHAIN_STEPS))

    def bf16_peak(self) -> Peak:
        """The product of two matrices of normal numbers, by the library that torch calls, in the tensor cores."""
        left, right = (torch.randn(MATRIX, MATRIX, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        product = torch.empty_like(left)
        return self._peak("bf16", 2 * MATRIX**3, lambda: torch.matmul(left, right, out=product))

    def _peak(
        self, precision: Precision, flops: int, work: Callable[[], object], check: Callable[[], object] = lambda: None
    ) -> Peak:
        rates, clocks = [], []
        for _ in range(1 + REPEATS):
            begun = self._noted_clocks()
            with _Events() as events:
                work()
            passed = self._noted_clocks() - begun
            rates.append(flops / events.ns * 1e9)
            check()
            cycles, ns = passed[(begun > 0).all(1) & (passed > 0).all(1)].T
            clocks.append(float((1e3 * cycles / ns).median()))
        rates, clocks = rates[1:], clocks[1:]  # the first loads the kernel
        return Peak(precision=precision, **_range("flops_per_s", rates), sm_mhz=median(clocks))

    def _noted_clocks(self) -> torch.Tensor:
        """Cycles and ns now of each SM by its number, an array [SMs, 2]; 0 of one that had no block."""
        noted = torch.zeros((MOST_SMS, 2), dtype=torch.int64, device="cuda")
        kernel = self._kernel("note_clocks", blocks=self.sms, threads=1, shared_bytes=self._shared_bytes)
        kernel.launch(noted.data_ptr())
        return noted


class _Events:
    """Two events around what is enqueued within it; `ns` waits for the second one."""

    def __enter__(self) -> _Events:
        self._start, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        self._start.record()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.record()

    @property
    def ns(self) -> float:
        self._end.synchronize()
        return float(self._start.elapsed_time(self._end)) * 1e6


def _shuffled(count: int) -> torch.Tensor:
    return torch.randperm(count, device="cuda")


def _range(name: str, values: Sequence[float]) -> dict[str, float]:
    """The median, the least and the most of a result that was measured several times, by the names of its fields."""
    return {name: median(values), f"least_{name}": min(values), f"most_{name}": max(values)}


def measure_cost(group: CostGroup, what: str, loop: Callable[[], Step]) -> Cost:
    """The median of several loops after an untimed one, which loads the kernel."""
    loop()
    steps = [loop() for _ in range(REPEATS)]
    counted = [cycles for _, cycles in steps if cycles is not None]
    times, cycles = _range("ns", [ns for ns, _ in steps]), median(counted) if counted else None
    return Cost(group=group, what=what, **times, cycles=cycles, sm_mhz=1e3 * cycles / times["ns"] if cycles else None)


def measure_all(send: Callable[[ProbeMessage], None]) -> None:
    """Measures everything, and sends each result, or why there is none."""
    torch.cuda.init()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        torch.manual_seed(1)
        probes = Probes()
        send(ProbedGpu(probes.sms, probes.l2_bytes, probes.pages // 2))
        raise_clock()
        work: list[tuple[str, Callable[[], Cost | ReadRate | Peak]]] = []
        groups: tuple[tuple[CostGroup, Any], ...]
        groups = ("trip", probes.trips()), ("barrier", probes.barriers()), ("launch", probes.launches())
        for group, loops in groups:
            work += [(what, partial(measure_cost, group, what, loop)) for what, loop in loops]
        counts = [1 << bit for bit in range(probes.sms.bit_length()) if 1 << bit < probes.sms]
        reads = [*((lane_bytes, probes.sms) for lane_bytes in (2, 4, 8, 16)), *((16, sms) for sms in counts)]
        work += [(f"{lane} bytes a lane, {sms} SMs", partial(probes.read_rate, lane, sms)) for lane, sms in reads]
        work += [("peak of fp32", probes.fp32_peak), ("peak of bf16", probes.bf16_peak)]
        for what, measure in work:
            send(ProbeBegun(what))
            try:
                send(measure())
            except UnmeasurableError as error:
                send(Unmeasured(what=what, why=str(error)))


def main(descriptor: int) -> None:
    """Measures everything, for the parent that reads the channel."""
    die_with_parent()
    channel = Channel[ProbeMessage](descriptor)
    measure_all(channel.send)


if __name__ == "__main__":
    main(int(sys.argv[1]))
