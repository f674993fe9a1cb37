"""Checks how well verdicts on this machine were calibrated."""

from __future__ import annotations

from gdnbench.doctor.software import Level, MachineCheck
from gdnbench.errors import RunFormatError
from gdnbench.model.gpu import Gpu
from gdnbench.store.calibration import Calibration, in_words, last_calibration

_CALIBRATION = "calibration"


def check_calibration(host: str, gpu: Gpu, driver: str | None) -> MachineCheck:
    """Checks the last whole calibration of a GPU model on a host; `driver` is today's version, or None if unknown."""
    calibrate = f"gdnbench doctor --calibrate --gpu {gpu.slug}"
    try:
        found = last_calibration(host, gpu.slug)
    except RunFormatError as error:
        return MachineCheck(_CALIBRATION, Level.WARN, error.message, calibrate)
    if found is None:
        return MachineCheck(
            _CALIBRATION, Level.OK, f"none of the {gpu.name} here: how often verdicts are wrong is not known", calibrate
        )
    text = in_words(found.summary)
    if _claims_too_often(found):
        return MachineCheck(
            _CALIBRATION,
            Level.WARN,
            f"{text}: equal kernels are called different too often",
            "measure on a quieter machine, or with more --processes; then gdnbench doctor --calibrate",
        )
    if found.driver != driver:
        return MachineCheck(_CALIBRATION, Level.OK, f"{text}, with driver {found.driver or 'unknown'}", calibrate)
    return MachineCheck(_CALIBRATION, Level.OK, text)


def _claims_too_often(calibration: Calibration) -> bool:
    """Whether the share of false claims exceeds what the confidence level allows, beyond chance."""
    return calibration.all_equal.false_claims.low > 1.0 - calibration.confidence
