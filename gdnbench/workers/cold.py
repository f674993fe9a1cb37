"""Cold launches: flushing and scrubbing the L2, dithering the queue, the SM clock, and single ones without NVBench."""

from __future__ import annotations

import ctypes
import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache
from typing import Any

import torch
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, Stream, launch

from gdnbench.launch.bind import allow_shared
from gdnbench.machine.gpus import open_nvml
from gdnbench.workers.task import Task

OWN_PREFIX = "gdnbench_"
"""Prefix of their names, which distinguishes them in activity records."""


class OwnKernel:
    """A kernel of gdnbench's own, on the current stream; `name` is that in `source` without `OWN_PREFIX`."""

    def __init__(self, name: str, source: str, *, blocks: int = 1, threads: int = 32, shared_bytes: int = 0) -> None:
        device = Device(torch.cuda.current_device())
        device.set_current()
        self._kernel = _compile(source, device.arch).get_kernel(OWN_PREFIX + name)
        if shared_bytes:
            allow_shared(int(self._kernel.handle), shared_bytes, device.device_id)
        self._stream = Stream.from_handle(torch.cuda.current_stream().cuda_stream)
        self._config = LaunchConfig(grid=(blocks, 1, 1), block=(threads, 1, 1), shmem_size=shared_bytes)

    def launch(self, *arguments: Any) -> None:
        """Enqueues the kernel with addresses as int, and other arguments as ctypes of the parameters' types."""
        launch(self._stream, self._config, self._kernel, *arguments)


@cache
def _compile(source: str, arch: str) -> Any:
    return Program(source, "c++", ProgramOptions(arch=f"sm_{arch}")).compile("cubin")


class EmptyKernel(OwnKernel):
    """A kernel that does nothing: it shifts the launch queue, or marks a place in the activity records by its name."""

    def __init__(self, name: str) -> None:
        super().__init__(name, f'extern "C" __global__ void {OWN_PREFIX}{name}() {{}}')


BLOCKED_LIMIT_NS = 50_000_000  # a launch queue holds 1024 launches: further ones are enqueued after the wait
_NOW_NS = r"""
__device__ unsigned long long now_ns() {
  unsigned long long ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}
"""
BLOCKING_SOURCE = (
    _NOW_NS
    + r"""
extern "C" __global__ void gdnbench_block(const volatile int* released, const int number,
                                          const unsigned long long limit_ns) {
  const unsigned long long end_ns = now_ns() + limit_ns;
  while (*released < number && now_ns() < end_ns) {}
}
"""
)


class BlockingKernel:
    """Holds the GPU until the host has enqueued a sample, as NVBench's does.

    Each launch has a number, and the host writes the last one that may end, so that
    it can enqueue the next launch before the GPU has left this one.
    """

    def __init__(self) -> None:
        self._kernel = OwnKernel("block", BLOCKING_SOURCE, threads=1)
        self._released = torch.zeros(1, dtype=torch.int32, pin_memory=True)  # the host writes it, the GPU reads it
        self._number = 0

    def enqueue(self) -> None:
        """Blocks the stream: work enqueued after it starts on release, or after 50 ms."""
        self._number += 1
        self._kernel.launch(self._released.data_ptr(), ctypes.c_int(self._number), ctypes.c_ulonglong(BLOCKED_LIMIT_NS))

    def release(self) -> None:
        """Releases the stream."""
        self._released[0] = self._number


DEMOTE_SOURCE = r"""
// applypriority takes whole lines of 128 bytes (PTX ISA, "applypriority"); torch aligns allocations to 512.
__device__ void demote_range(long long begin, long long bytes) {
  const long long stride = 128LL * gridDim.x * blockDim.x;
  for (long long at = 128LL * (blockIdx.x * blockDim.x + threadIdx.x); at < bytes; at += stride)
    asm volatile("applypriority.global.L2::evict_normal [%0], 128;" ::"l"(begin + at) : "memory");
}

extern "C" __global__ void gdnbench_demote_listed(const longlong2* ranges, const int count) {
  for (int i = 0; i < count; ++i) demote_range(ranges[i].x, ranges[i].y);
}

extern "C" __global__ void gdnbench_demote_one(const long long begin, const long long bytes) {
  demote_range(begin, bytes);
}
"""
_THREADS = 256
_BLOCKS_PER_SM = 4
_FIRST_CAPABILITY = (8, 0)  # first with applypriority; older GPUs have no eviction priorities to scrub


class L2Scrubber:
    """Demotes tensors in the L2, on the stream that is current at construction, so that the next flush evicts them.

    A load with an `evict_last` policy (TorchInductor emits them) leaves lines that NVBench's flush, an ordinary fill of
    the cache, does not displace. They survive into the next samples on the same tensors, of any kernel: up to 7 % fast
    for a whole round on an H200 (docs/measuring.md).
    """

    def __init__(self) -> None:
        self._listed = self._one = None
        if torch.cuda.get_device_capability() < _FIRST_CAPABILITY:
            return
        blocks = _BLOCKS_PER_SM * torch.cuda.get_device_properties(0).multi_processor_count
        self._listed = OwnKernel("demote_listed", DEMOTE_SOURCE, blocks=blocks, threads=_THREADS)
        self._one = OwnKernel("demote_one", DEMOTE_SOURCE, blocks=blocks, threads=_THREADS)

    def __call__(self, listed: torch.Tensor, others: Sequence[torch.Tensor]) -> None:
        """Enqueues the demotion of `listed` ranges, made earlier as nothing may be copied now, and of other tensors."""
        if self._listed is None or self._one is None:
            return
        self._listed.launch(listed.data_ptr(), ctypes.c_int(len(listed)))
        for tensor in others:
            nbytes = ctypes.c_longlong(tensor.numel() * tensor.element_size())
            self._one.launch(tensor.data_ptr(), nbytes)


# A NaN in fp64, fp32, fp16, bf16 and both kinds of fp8, and as an integer an index out of range.
SHARED_POISON = 0x7FFF7FFF
_STARTED_LIMIT_NS = 200_000  # blocks start within microseconds, unless an SM is occupied
SHARED_POISON_SOURCE = (
    _NOW_NS
    + r"""
// A block that ended early would leave its SM to the next one, and another SM without any.
extern "C" __global__ void gdnbench_poison_shared(unsigned long long* started, const unsigned long long all_started,
                                                  const unsigned long long limit_ns, const unsigned pattern,
                                                  const unsigned bytes) {
  extern __shared__ uint4 memory[];
  for (unsigned i = threadIdx.x; i < bytes / sizeof(uint4); i += blockDim.x)
    memory[i] = make_uint4(pattern, pattern, pattern, pattern);
  __syncthreads();
  if (threadIdx.x) return;
  asm volatile("" ::"l"(memory) : "memory");  // what nobody reads is written all the same
  const unsigned long long end_ns = now_ns() + limit_ns;
  atomicAdd(started, 1ULL);
  while (*static_cast<volatile unsigned long long*>(started) < all_started && now_ns() < end_ns) {}
}
"""
)
_POISONING_THREADS = 1024


class SharedMemoryPoison:
    """Fills the shared memory of every SM with NaN, on the stream that is current at construction.

    A kernel that reads shared memory before it writes it may find the right values of its own earlier launch. Each
    block takes the most shared memory that it may have, so that an SM holds one, and ends when as many have started as
    there are SMs.
    """

    def __init__(self) -> None:
        properties = Device(torch.cuda.current_device()).properties
        self._blocks = properties.multiprocessor_count
        self._bytes = properties.max_shared_memory_per_block_optin
        self._kernel = OwnKernel(
            "poison_shared",
            SHARED_POISON_SOURCE,
            blocks=self._blocks,
            threads=_POISONING_THREADS,
            shared_bytes=self._bytes,
        )
        self._started = torch.zeros(1, dtype=torch.int64, device="cuda")
        self._launches = 0

    def __call__(self) -> None:
        """Enqueues the kernel, whose blocks wait for each other for at most 0.2 ms."""
        self._launches += 1
        self._kernel.launch(
            self._started.data_ptr(),
            ctypes.c_ulonglong(self._launches * self._blocks),
            ctypes.c_ulonglong(_STARTED_LIMIT_NS),
            ctypes.c_uint(SHARED_POISON),
            ctypes.c_uint(self._bytes),
        )


_CACHES = 2  # size of the fill in L2 sizes: with one, the L2's hashing leaves some lines
_MOST_DITHER = 8  # exclusive limit of the empty launches before a sample
RAISE_CLOCK_S = 0.5  # the SM clock rises from 345 MHz idle to 1980 MHz under load within this time on an H200
_SM_CLOCK = 1  # NVML_CLOCK_SM
_RAISED = 0.95  # share of the highest clock


class L2Flush:
    """Fills twice the L2's size, as NVBench does before cold samples, by a memset, which no kernel's record is."""

    def __init__(self) -> None:
        nbytes = _CACHES * torch.cuda.get_device_properties(0).L2_cache_size
        self._buffer = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
        self._stream = torch.cuda.current_stream().cuda_stream

    def __call__(self) -> None:
        """Enqueues the fill; raises RuntimeError if the driver refuses."""
        (status,) = driver.cuMemsetD8Async(self._buffer.data_ptr(), 0, self._buffer.numel(), self._stream)
        if status != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"the L2 cannot be flushed: {status.name}")


def raise_clock(clock: SmClock | None = None) -> None:
    """Keeps the GPU busy for `RAISE_CLOCK_S`, or until `clock` reads nearly the highest clock.

    The load is the one between samples: matrix products draw so much power that the clock falls, to 1650 MHz on an
    H200, and launches right after them are measured at that clock.
    """
    flush = L2Flush()
    end = time.monotonic() + RAISE_CLOCK_S
    while time.monotonic() < end and not (clock and clock.is_raised()):
        flush()
        torch.cuda.synchronize()


class DitherAndScrub:
    """Dithers the launch queue before each sample and scrubs the L2 after it, on the stream current at construction.

    The GPU reads commands from a ring, and a launch costs more where its commands straddle some boundary of it. Every
    sample enqueues as many commands, so without a random number of empty launches all samples of a round share one
    phase, and rounds fall into two groups, 0.17 µs apart on an H200 (docs/measuring.md).
    """

    def __init__(self, seed: int) -> None:
        self._nothing = EmptyKernel("nothing")
        self._random = random.Random(seed)
        self._scrub = L2Scrubber()

    def before(self) -> None:
        """Dithers the launch queue, before a sample."""
        for _ in range(self._random.randrange(_MOST_DITHER)):
            self._nothing.launch()

    def after(self, ranges: torch.Tensor, others: Sequence[torch.Tensor]) -> None:
        """Scrubs the L2, after a sample, of listed ranges and of other tensors."""
        self._scrub(ranges, others)


class NothingBetween:
    """Leaves the launch queue and the L2 unchanged between samples, as NVBench alone does."""

    def before(self) -> None:
        """Does nothing."""

    def after(self, ranges: torch.Tensor, others: Sequence[torch.Tensor]) -> None:
        """Does nothing."""


def choose_between(task: Task) -> DitherAndScrub | NothingBetween:
    """Returns the actions between the samples of a task."""
    return NothingBetween() if task.plain else DitherAndScrub(task.seed)


class SmClock:
    """Reads the SM clock of the worker's GPU from the driver; readings are meaningful only while the GPU is busy."""

    def __init__(self, stack: ExitStack) -> None:
        nvml = stack.enter_context(open_nvml())
        uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
        handle = nvml.ask("DeviceGetHandleByUUID", uuid) if nvml else None
        self._ask: Callable[[], int | None] = lambda: None
        self._highest_mhz: int | None = None
        if nvml and handle is not None:
            self._ask = lambda: nvml.ask("DeviceGetClockInfo", handle, _SM_CLOCK)
            self._highest_mhz = nvml.ask("DeviceGetMaxClockInfo", handle, _SM_CLOCK)

    def read(self) -> tuple[float, ...]:
        """The current clock in MHz, as `Sampled` takes it; empty if the driver does not report it."""
        mhz = self._ask()
        return () if mhz is None else (float(mhz),)

    def is_raised(self) -> bool:
        """Whether the clock is nearly the GPU's highest; False if the driver does not report it."""
        mhz = self._ask()
        return bool(mhz and self._highest_mhz and mhz >= _RAISED * self._highest_mhz)
