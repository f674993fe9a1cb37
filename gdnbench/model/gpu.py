"""A GPU as the driver describes it, the precisions of its peak, and a kernel as compiled for its architecture."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

CPU = "cpu"  # the short name in place of a GPU's where a run had none

Precision = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8"]
"""The precisions of a GPU's peak; fp32 is that of the ordinary cores, the others of the tensor cores."""

_VENDOR_WORDS = re.compile(r"\b(nvidia|geforce|tesla|quadro|graphics|device)\b", re.IGNORECASE)
_MODEL = re.compile(r"(rtx)?(pro)?[a-z]{0,2}\d{1,4}[a-z]{0,2}")


@dataclass(frozen=True)
class Gpu:
    """One GPU of this machine, numbered as `nvidia-smi` counts; `l2_bytes` is 0 if unknown."""

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


NO_CLUSTER = (1, 1, 1)  # the cluster of a kernel that launches without clusters
UNREAD = -1  # the `load_bits` of a build whose code was not read


@dataclass(frozen=True)
class Build:
    """One variant compiled for one architecture, `sm_90`."""

    arch: str
    registers: int  # per thread
    shared_bytes: int  # shared memory per block that the compiler allocates, without a launch's dynamic shared memory
    spill_bytes: int  # local memory per thread: spilled registers and arrays indexed at run time
    load_bits: int  # width of the widest global load; 0 where there is none, -1 where the code was not read
    code_bytes: int  # size of the cubin, whose path in the build cache is `cubin`
    cubin: str = ""
    symbol: str = ""  # mangled name of the entry in the cubin
    serialized_because: str = ""  # why ptxas serializes the warpgroup products (wgmma); empty if it does not
    required_threads: int = 0  # per block, where the code runs with this number only, as Triton's does; else 0
    most_threads: int = 0  # per block, by the code's `__launch_bounds__`; 0 where it has none
    cluster: tuple[int, int, int] = NO_CLUSTER  # blocks of a cluster along x, y and z

    def __post_init__(self) -> None:
        object.__setattr__(self, "cluster", tuple(self.cluster))  # JSON has lists


def format_serialized(because: str, launch: str = "") -> str:
    """The warning that ptxas serializes a kernel's warpgroup products, or those of one of its launches."""
    return f"ptxas serializes the wgmma{f' of {launch}' if launch else ''}: {because}"
