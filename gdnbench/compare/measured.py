"""A stored run as a source of figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gdnbench.compare.figure import Figure, Kind, Source
from gdnbench.model import Measurement, Params, Role, Shape, Variant
from gdnbench.stats import FloatArray
from gdnbench.store import RunInfo, read_info, read_measurements, read_rounds
from gdnbench.store.schema import GpuDocument

VERSIONS = ("torch", "triton", "cuda-bench", "cuda-core", "nvidia-cuda-nvrtc", "fla-core", "flashinfer-python")


def load_run(folder: Path) -> Source:
    """Reads a run's folder.

    Raises:
        RunFormatError: if it holds no run that this gdnbench can read.
    """
    info, measurements = read_info(folder), read_measurements(folder)
    rounds = read_rounds(folder)
    return Source(
        name=info.run_id,
        kind=Kind.MEASURED,
        gpu=info.gpu,
        figures=tuple(_figure(info, row, rounds) for row in measurements if row.role is not Role.CONTROL),
        noise=_noise(measurements),
        conditions=conditions_of(info),
        warnings=tuple(info.warnings),
    )


def _figure(info: RunInfo, row: Measurement, rounds: dict[str, FloatArray]) -> Figure:
    timing, variant = row.timing, row.case.variant
    return Figure(
        op=info.op,
        kernel=variant.kernel,
        label=variant.label,
        params=_params(variant),
        shape=row.case.shape,
        role=row.role,
        timer=timing.timer if timing else "",
        time_us=timing.time_us if timing else float("nan"),
        low_us=timing.time_lo_us if timing else float("nan"),
        high_us=timing.time_hi_us if timing else float("nan"),
        rounds_us=rounds.get(row.case.id, np.empty(0)),
        nbytes=row.nbytes,
        sm_mhz=timing.sm_mhz if timing else float("nan"),
        status=row.status,
        reason=row.reason,
        source_hash=info.sources.get(variant.kernel, ""),
    )


def _params(variant: Variant) -> Params:
    """What a dispatcher picked tells one case from another as a param does."""
    return Params({"KERNEL": variant.kernel, **variant.params}) if variant.is_picked else variant.params


def _noise(measurements: list[Measurement]) -> dict[Shape, float]:
    """How far the baseline may be apart from itself: the farther end of the A/A interval."""
    controls = [row for row in measurements if row.role is Role.CONTROL and row.versus]
    return {
        row.case.shape: float(max(abs(np.log(row.versus.low)), abs(np.log(row.versus.high))))
        for row in controls
        if row.versus and row.versus.low > 0 and np.isfinite(row.versus.high)
    }


def conditions_of(info: RunInfo) -> dict[str, str]:
    """What a time depends on beside the kernel, by name; what is unknown is left out."""
    gpu = info.machine.get("gpu") or GpuDocument()
    versions = info.machine.get("versions", {})
    known = {
        "GPU": gpu.get("uuid"),
        "driver": gpu.get("driver"),
        "memory clock": gpu.get("memory_mhz"),
        "highest SM clock": gpu.get("sm_max_mhz"),
        "power limit": gpu.get("power_limit_w"),
        "ECC": gpu.get("ecc"),
        "commit": info.git.get("commit"),
        **{name: versions.get(name) for name in VERSIONS},
        "samples": info.settings.get("samples"),
        "plain": info.settings.get("plain"),
    }
    return {name: str(value) for name, value in known.items() if value is not None}
