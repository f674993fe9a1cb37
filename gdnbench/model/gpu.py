"""A GPU as the driver describes it, and the precisions for which its peak is known."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

CPU = "cpu"
"""The short name in place of a GPU's where a run had none."""

Precision = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8"]
"""The precisions of a GPU's peak; fp32 is that of the ordinary cores, the others of the tensor cores."""

_VENDOR_WORDS = re.compile(r"\b(nvidia|geforce|tesla|quadro|graphics|device)\b", re.IGNORECASE)
_MODEL = re.compile(r"(rtx)?(pro)?[a-z]{0,2}\d{1,4}[a-z]{0,2}")


@dataclass(frozen=True)
class Gpu:
    """One GPU of this machine; `l2_bytes` is 0 if unknown.

    `index` is the position in PCI bus order, as `nvidia-smi` counts; `capability` is (9, 0) for sm_90.
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
