"""Which GPU a `--gpu` means."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gdnbench.errors import GpuNotFoundError
from gdnbench.model import Gpu

_HINT = (
    "`--gpu auto` takes the first GPU there is, `--gpu cpu` times the torch kernels on the CPU, "
    "and `gdnbench show` prints a stored run."
)


def select_gpu(wanted: str, gpus: Sequence[Gpu]) -> Gpu | None:
    """Picks the GPU to measure on.

    Args:
        wanted: `auto` (the first), `cpu`, an index as `nvidia-smi` counts, a model (`h200`, `RTX 3090`), or the
            beginning of a UUID (`GPU-8ffb`). Of equal models the first is taken.
        gpus: the GPUs there are, from `list_gpus`.

    Returns:
        The GPU; None means to measure on the CPU.

    Raises:
        GpuNotFoundError: no GPU here is the one asked for.
    """
    word = wanted.strip().lower()
    if word == "cpu":
        return None
    if word == "auto":
        return gpus[0] if gpus else None
    for gpu in gpus:
        if _matches(word, gpu):
            return gpu
    raise GpuNotFoundError(f"No GPU here is {wanted!r}: this machine has {_inventory(gpus)}.", _HINT)


def _matches(word: str, gpu: Gpu) -> bool:
    if word.isdecimal() and int(word) == gpu.index:
        return True
    if word.startswith("gpu-"):
        return gpu.uuid.lower().startswith(word)
    return _bare(word) in {gpu.slug, gpu.slug.removeprefix("rtx"), _bare(gpu.name)}


def _bare(name: str) -> str:
    """A model's name as one word, without the vendor's: `NVIDIA GeForce RTX 3090` gives `rtx3090`."""
    word = re.sub(r"[^a-z0-9]", "", name.lower())
    return re.sub(r"^(nvidia)?(geforce|tesla|quadro)?", "", word)


def _inventory(gpus: Sequence[Gpu]) -> str:
    if not gpus:
        return "no NVIDIA GPU that CUDA may use"
    return ", ".join(f"{gpu.index}: {gpu.name}" for gpu in gpus)
