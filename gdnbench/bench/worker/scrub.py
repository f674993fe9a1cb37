"""Makes the next sample cold even after a kernel that asked the L2 to keep its data.

A load with an `evict_last` policy (TorchInductor emits them) leaves lines that NVBench's flush, an ordinary fill of
the cache, does not displace. They survive into the kernel's next sample, and into those of whichever kernel follows on
the same tensors: up to 7 % fast for a whole round on an H200 (docs/measuring.md). So, after
each timed launch, every line of the op's tensors is demoted to ordinary priority; the next flush does the rest.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence

import torch

from gdnbench.bench.worker.own import OwnKernel

_SOURCE = r"""
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
_FIRST_CAPABILITY = (8, 0)  # of applypriority; older GPUs have no eviction priorities to scrub


class Scrubber:
    """Demotes tensors in the L2, on the stream that is current when it is made."""

    def __init__(self) -> None:
        self._listed = self._one = None
        if torch.cuda.get_device_capability() < _FIRST_CAPABILITY:
            return
        blocks = _BLOCKS_PER_SM * torch.cuda.get_device_properties(0).multi_processor_count
        self._listed = OwnKernel("demote_listed", _SOURCE, blocks=blocks, threads=_THREADS)
        self._one = OwnKernel("demote_one", _SOURCE, blocks=blocks, threads=_THREADS)

    def __call__(self, listed: torch.Tensor, others: Sequence[torch.Tensor]) -> None:
        """Enqueues the demotion of tensors.

        Args:
            listed: what `list_ranges` made of those known before; nothing may be copied to the GPU now.
            others: those known only now, such as outputs that a kernel allocates itself.
        """
        if self._listed is None or self._one is None:
            return
        self._listed.launch(listed.data_ptr(), ctypes.c_int(len(listed)))
        for tensor in others:
            nbytes = ctypes.c_longlong(tensor.numel() * tensor.element_size())
            self._one.launch(tensor.data_ptr(), nbytes)


def list_ranges(tensors: Iterable[torch.Tensor]) -> torch.Tensor:
    """(address, bytes) of each tensor as int64 [n, 2] on the GPU."""
    rows = [(tensor.data_ptr(), tensor.numel() * tensor.element_size()) for tensor in tensors]
    return torch.tensor(rows, dtype=torch.int64, device="cuda")
