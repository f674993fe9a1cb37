"""A GPU as the driver describes it, and the precisions that its peak is told for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

CPU = "cpu"
"""What stands in the place of a GPU's short name where there was none."""

Precision = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8"]
"""What a GPU's peak is told for; fp32 is that of the ordinary cores, the others' that of the tensor cores."""

_VENDOR_WORDS = re.compile(r"\b(nvidia|geforce|tesla|quadro|graphics|device)\b", re.IGNORECASE)
_MODEL = re.compile(r"(rtx)?(pro)?[a-z]{0,2}\d{1,4}[a-z]{0,2}")


@dataclass(frozen=True)
class Gpu:
    """One GPU of this machine.

    Attributes:
        index: position in PCI bus order, as `nvidia-smi` counts.
        name: the driver's name, `NVIDIA H200`.
        uuid: `GPU-…`.
        capability: compute capability, (9, 0).
        sms: streaming multiprocessors.
        l2_bytes: L2 cache in bytes; 0 where unknown.
        memory_bytes: device memory in bytes.
    """

    index: int
    name: str
    uuid: str
    capability: tuple[int, int]
    sms: int = 0
    l2_bytes: int = 0
    memory_bytes: int = 0

    @property
    def slug(self) -> str:
        """The model in lower case without spaces, for folder names and `--gpu`: `h200`, `rtx3090`."""
        return gpu_slug(self.name)

    @property
    def arch(self) -> str:
        """The compilation target, `sm_90`."""
        return f"sm_{self.capability[0]}{self.capability[1]}"


def gpu_slug(name: str) -> str:
    """The model's short name: `NVIDIA GeForce RTX 3090` gives `rtx3090`, `NVIDIA H100 80GB HBM3` gives `h100`."""
    words = re.split(r"[^a-z0-9]+", _VENDOR_WORDS.sub(" ", name.lower()).strip())
    for count in range(1, len(words) + 1):
        model = "".join(words[:count])
        if _MODEL.fullmatch(model):
            return model + "".join(takewhile({"ti", "super"}.__contains__, words[count:]))
    return "".join(words) or "gpu"
