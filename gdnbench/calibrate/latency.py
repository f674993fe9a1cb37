"""Measures what trips to memory, barriers, launches and bytes cost on a GPU, in a worker that runs the probes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gdnbench.errors import MachineError
from gdnbench.machine.gpus import alone_on
from gdnbench.machine.provenance import host_name, read_state
from gdnbench.model.gpu import Gpu
from gdnbench.process.events import Observer, StepChanged
from gdnbench.process.worker import Worker
from gdnbench.store.latencies import Cost, Latencies, Peak, ReadRate, Unmeasured
from gdnbench.workers.supervision import worker_environment

WORKER = "gdnbench.calibrate.probe"
"""The module that the worker runs."""
SOURCE = Path(__file__).with_name("probes.cu")
LIMIT_S = 180.0  # the first import of torch from a network disk takes most of a minute
_LOG_LINES = 3


@dataclass(frozen=True)
class ProbedGpu:
    """A worker's first message: the GPU as the probes use it; `pages` of 2 MiB that a cold chase visits."""

    sms: int
    l2_bytes: int
    pages: int


@dataclass(frozen=True)
class ProbeBegun:
    """A worker's message: it begins to measure something."""

    what: str


ProbeMessage = ProbedGpu | ProbeBegun | Cost | ReadRate | Peak | Unmeasured
_KINDS: Sequence[type[ProbeMessage]] = (ProbedGpu, ProbeBegun, Cost, ReadRate, Peak, Unmeasured)


def measure_latencies(gpu: Gpu, observer: Observer, limit_s: float = LIMIT_S) -> Latencies:
    """Measures all costs of a GPU that no other gdnbench uses meanwhile; what cannot be measured is named, with why.

    Raises MachineError if the worker measures nothing, as where torch does not load.
    """
    began, found = datetime.now(UTC), list[Cost | ReadRate | Peak | Unmeasured]()
    probed, now = ProbedGpu(sms=gpu.sms, l2_bytes=gpu.l2_bytes, pages=0), "loading torch"
    deadline = time.monotonic() + limit_s
    with (
        alone_on(gpu, observer),
        tempfile.TemporaryFile() as log,
        Worker(WORKER, [], _KINDS, log, worker_environment(gpu)) as worker,
    ):
        observer(StepChanged(now))
        try:
            while message := worker.receive(deadline):
                match message:
                    case ProbedGpu():
                        probed = message
                    case ProbeBegun(what=now):
                        observer(StepChanged(now))
                    case Cost() | ReadRate() | Peak() | Unmeasured():
                        found.append(message)
            why = f"the process died ({worker.describe_end()})" if worker.end() else ""
        except TimeoutError:
            why = f"it did not end in {limit_s:.0f} s"
        if why:
            found.append(Unmeasured(what=now, why=": ".join([why, *worker.log_tail(_LOG_LINES)[-1:]])))
    if not any(isinstance(each, Cost) for each in found):
        reasons = "; ".join(f"{each.what}: {each.why}" for each in found if isinstance(each, Unmeasured))
        raise MachineError(f"no cost was measured: {reasons}", "see `gdnbench doctor`")
    return Latencies(
        timestamp=began.isoformat(timespec="seconds"),
        host=host_name(),
        gpu=gpu.slug,
        gpu_name=gpu.name,
        uuid=gpu.uuid,
        driver=read_state(gpu).driver_version,
        sms=probed.sms,
        l2_bytes=probed.l2_bytes,
        pages=probed.pages,
        costs=[each for each in found if isinstance(each, Cost)],
        rates=[each for each in found if isinstance(each, ReadRate)],
        peaks=[each for each in found if isinstance(each, Peak)],
        unmeasured=[each for each in found if isinstance(each, Unmeasured)],
    )
