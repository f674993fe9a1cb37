"""The architectures to inspect for, and a GPU of each whose size is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gdnbench.binary.arch import capability
from gdnbench.binary.limits import limits_of
from gdnbench.errors import UsageError
from gdnbench.machine.specs import spec_of
from gdnbench.model import Gpu

DEFAULT_ARCHS = ("sm_90", "sm_100")
"""Where there is no GPU: those that the op's published figures are about."""

# A GPU of each capability among those that `gdnbench/machine/gpus.toml` tells of: NVIDIA's list of CUDA GPUs.
_EXAMPLES: Mapping[int, str] = {80: "a100", 86: "rtx3090", 90: "h200", 100: "b200"}


@dataclass(frozen=True)
class Device:
    """A GPU to count waves for.

    Attributes:
        name: its short name, `h200`.
        sms: streaming multiprocessors.
    """

    name: str
    sms: int


def choose_archs(wanted: str, gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """The architectures that `--arch` names; by default those of the GPUs at hand.

    Raises:
        UsageError: for one that is not understood.
    """
    named = [name.strip() for name in wanted.split(",") if name.strip()]
    if wanted and not named:
        raise UsageError(f"--arch {wanted}: no architecture is named", "write it as in --arch sm_90,sm_100")
    archs = named or [gpu.arch for gpu in gpus] or list(DEFAULT_ARCHS)
    for arch in archs:
        limits_of(arch)
    return tuple(dict.fromkeys(archs))


def device_of(arch: str, gpus: Sequence[Gpu]) -> Device | None:
    """A GPU of an architecture: the one at hand, else one whose size its maker tells; None if there is neither."""
    here = next((gpu for gpu in gpus if gpu.sms and gpu.arch == f"sm_{capability(arch)}"), None)
    if here:
        return Device(here.slug, here.sms)
    spec = spec_of(_EXAMPLES.get(capability(arch), ""))
    return Device(spec.slug, spec.sms) if spec else None
