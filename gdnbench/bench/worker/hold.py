"""Holds the GPU back while the host enqueues, so that what is enqueued runs without waiting for the host."""

from __future__ import annotations

import ctypes

import torch

from gdnbench.bench.worker.own import OwnKernel

LIMIT_NS = 50_000_000  # a launch queue is 1024 deep: what exceeds it is enqueued when the hold has ended by itself

_SOURCE = r"""
__device__ unsigned long long now_ns() {
  unsigned long long ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

extern "C" __global__ void gdnbench_hold(const volatile int* released, const int number,
                                         const unsigned long long limit_ns) {
  const unsigned long long end_ns = now_ns() + limit_ns;
  while (*released < number && now_ns() < end_ns) {}
}
"""


class Hold:
    """Kernels that wait for the host's word, as NVBench's blocking kernel does; on the stream current when it is made.

    Each hold has a number, and the host's word is the number of the last one that may end: so the host can enqueue the
    next hold before the GPU has left this one.
    """

    def __init__(self) -> None:
        self._kernel = OwnKernel("hold", _SOURCE, threads=1)
        self._word = torch.zeros(1, dtype=torch.int32, pin_memory=True)  # the GPU reads it where the host writes it
        self._number = 0

    def begin(self) -> None:
        """Enqueues a hold: what is enqueued after it starts when it is released, or after 50 ms."""
        self._number += 1
        self._kernel.launch(self._word.data_ptr(), ctypes.c_int(self._number), ctypes.c_ulonglong(LIMIT_NS))

    def release(self) -> None:
        """Lets the GPU go on."""
        self._word[0] = self._number
