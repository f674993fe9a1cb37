"""`CUDA_VISIBLE_DEVICES`, read as CUDA reads it."""

from __future__ import annotations

from collections.abc import Sequence

from gdnbench.model import Gpu


def visible_gpus(gpus: Sequence[Gpu], variable: str | None) -> tuple[Gpu, ...]:
    """Filters and orders GPUs as `CUDA_VISIBLE_DEVICES` asks.

    The rules are CUDA's: entries are indices or beginnings of UUIDs, the first entry that names no GPU ends the
    list, and a GPU named twice makes the whole list invalid. Indices count in PCI bus order, as `nvidia-smi` does.

    Args:
        gpus: every GPU of the machine, in PCI bus order.
        variable: the variable's value; None where it is not set, which hides nothing. An empty one hides all.
    """
    if variable is None:
        return tuple(gpus)
    chosen: list[Gpu] = []
    for entry in variable.split(","):
        gpu = _named(entry.strip(), gpus)
        if gpu is None:
            break
        if gpu in chosen:
            return ()
        chosen.append(gpu)
    return tuple(chosen)


def _named(entry: str, gpus: Sequence[Gpu]) -> Gpu | None:
    if entry.isdecimal():
        matches = [gpu for gpu in gpus if gpu.index == int(entry)]
    else:
        matches = [gpu for gpu in gpus if entry.startswith("GPU-") and gpu.uuid.startswith(entry)]
    return matches[0] if len(matches) == 1 else None
