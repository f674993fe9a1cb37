"""Tells why a call could not be captured: because it waits or allocates, or because it works on another stream."""

from __future__ import annotations

import time

import torch

from gdnbench.bench.worker.device import CudaDevice
from gdnbench.launch import Launcher, Workspace
from gdnbench.launch.workspace import is_poison

_ASLEEP_CYCLES = 200_000_000  # a tenth of a second at 2 GHz
_HEAD_START_S = 0.01  # plenty for a decode step on a stream that is awake


def works_elsewhere(run: Launcher, workspace: Workspace, device: CudaDevice) -> bool:
    """Whether a call writes its outputs while the stream that it was given is held asleep.

    For a process that is about to end: a failed capture has left torch's allocator in doubt, so any failure here
    counts as "no".
    """
    try:
        workspace.poison_all()
        device.synchronize()
        torch.cuda._sleep(_ASLEEP_CYCLES)  # type: ignore[no-untyped-call]
        outputs = run()
        if device.stream.query():  # the call has waited for the stream to wake up
            return False
        time.sleep(_HEAD_START_S)
        with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
            written = any(bool((~is_poison(output)).any()) for output in outputs)
        return written and not device.stream.query()
    except Exception:
        return False
