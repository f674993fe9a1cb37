"""The GPUs of this machine, the selection by `--gpu`, specifications of GPU models, and each GPU's share of the cores.

This machine's GPUs are read through NVML without touching CUDA: no context, no memory, no clock change. The makers'
values are in `gpus.toml`, each with its source.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdnbench.errors import GpuNotFoundError, MachineError, UsageError
from gdnbench.model.gpu import CPU, Gpu, Precision
from gdnbench.process.events import NoteMade, Observer

if TYPE_CHECKING:
    from filelock import BaseFileLock


# FP32 cores per SM by compute capability: the row "32-bit floating-point add, multiply, multiply-add" of the
# CUDA programming guide's table of arithmetic throughput. NVML counts cores, not SMs.
_CORES_PER_SM = {
    (7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64,
    (8, 6): 128, (8, 7): 128, (8, 9): 128, (9, 0): 128,
    (10, 0): 128, (10, 3): 128, (11, 0): 128, (12, 0): 128, (12, 1): 128,
}  # fmt: skip
_HINT = (
    "`--gpu auto` takes the first GPU there is, `--gpu cpu` times the torch kernels on the CPU, "
    "and `gdnbench show` prints a stored run."
)
TABLE = Path(__file__).with_name("gpus.toml")


class NvmlReader:
    """Calls NVML's functions; returns None where the driver refuses or the GPU lacks the property."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml

    def ask(self, function: str, *args: Any) -> Any:
        """Calls `nvml<function>`; returns None where NVML reports an error."""
        try:
            return getattr(self._nvml, f"nvml{function}")(*args)
        except self._nvml.NVMLError:
            return None


@contextmanager
def open_nvml() -> Iterator[NvmlReader | None]:
    """Opens NVML for reading; yields None if there is no NVML library or no driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield NvmlReader(pynvml)
    finally:
        pynvml.nvmlShutdown()


def list_gpus(environ: Mapping[str, str] | None = None) -> tuple[Gpu, ...]:
    """Lists the GPUs that a CUDA program started from here would see; empty without a driver or GPU.

    The order is PCI bus order, or that of `CUDA_VISIBLE_DEVICES`, read from `environ` or by default from the process's
    environment; `Gpu.index` is always the position in PCI bus order. The L2 size is 0: NVML does not know it. A GPU
    that has fallen off the bus is left out.
    """
    with open_nvml() as nvml:
        if nvml is None:
            return ()
        found = [_read_gpu(nvml, index) for index in range(nvml.ask("DeviceGetCount") or 0)]
    variables = os.environ if environ is None else environ
    return visible_gpus(tuple(gpu for gpu in found if gpu), variables.get("CUDA_VISIBLE_DEVICES"))


def _read_gpu(nvml: NvmlReader, index: int) -> Gpu | None:
    handle = nvml.ask("DeviceGetHandleByIndex", index)
    uuid = nvml.ask("DeviceGetUUID", handle)
    capability = nvml.ask("DeviceGetCudaComputeCapability", handle)
    if handle is None or uuid is None or capability is None:
        return None
    major, minor = capability
    memory = nvml.ask("DeviceGetMemoryInfo", handle)
    return Gpu(
        index=index,
        name=nvml.ask("DeviceGetName", handle) or "NVIDIA GPU",
        uuid=uuid,
        capability=(major, minor),
        sms=_count_sms(nvml.ask("DeviceGetNumGpuCores", handle), (major, minor)),
        memory_bytes=memory.total if memory else 0,
    )


def _count_sms(cores: int | None, capability: tuple[int, int]) -> int:
    per_sm = _CORES_PER_SM.get(capability)
    return cores // per_sm if cores and per_sm else 0


def visible_gpus(gpus: Sequence[Gpu], variable: str | None) -> tuple[Gpu, ...]:
    """Filters and orders GPUs by `CUDA_VISIBLE_DEVICES`; None (unset) hides nothing, an empty value all.

    The rules are CUDA's: entries are indices or beginnings of UUIDs, the first entry that names no GPU ends the list,
    and a GPU named twice makes the whole list invalid. Indices count in PCI bus order, as `nvidia-smi` does, which is
    the order of `gpus`.
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


def select_gpu(wanted: str, gpus: Sequence[Gpu]) -> Gpu | None:
    """Returns the GPU to measure on, or None for the CPU; GpuNotFoundError if no GPU here is the wanted one.

    `wanted` is `auto` (the first), `cpu`, an index as `nvidia-smi` counts, a model (`h200`, `RTX 3090`; the first of
    several), or the beginning of a UUID (`GPU-8ffb`). `gpus` are those of `list_gpus`.
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


ALL = "all"


def select_cards(wanted: str, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Returns the GPUs of one model to measure on at once; empty if `wanted` names a single device.

    `wanted` is `all`, or several GPUs as `select_gpu` takes them, separated by commas. Raises GpuNotFoundError if one
    is not here; UsageError if one was named twice, or they are of different models.
    """
    word = wanted.strip().lower()
    if word != ALL and "," not in word:
        return ()
    terms = [term.strip() for term in word.split(",") if term.strip()]
    found = tuple(gpus) if word == ALL else tuple(gpu for term in terms if (gpu := select_gpu(term, gpus)))
    if not found or (word != ALL and len(found) < len(terms)):
        raise GpuNotFoundError(f"No GPU here is {wanted!r}: this machine has {_inventory(gpus)}.", _HINT)
    if len(set(found)) < len(found):
        raise UsageError(f"--gpu {wanted} names a GPU twice", "as in --gpu 0,1; a model means its first GPU")
    models = dict.fromkeys(gpu.name for gpu in found)
    if len(models) > 1:
        raise UsageError(
            f"--gpu {wanted} means GPUs of several models: {', '.join(models)}",
            "run each model by itself, then `gdnbench compare` the runs",
        )
    return found


def _matches(word: str, gpu: Gpu) -> bool:
    if word.isdecimal() and int(word) == gpu.index:
        return True
    if word.startswith("gpu-"):
        return gpu.uuid.lower().startswith(word)
    return is_model(word, gpu)


def is_model(word: str, gpu: Gpu) -> bool:
    """Whether a GPU is of the model that a word names: `h200`, `RTX 3090`, `3090`."""
    return same_model(word, gpu.slug) or _bare(word) == _bare(gpu.name)


def same_model(word: str, slug: str) -> bool:
    """Whether a word names the model with that short name."""
    return _bare(word) in {slug, slug.removeprefix("rtx")}


def names_model(wanted: str) -> bool:
    """Whether `--gpu` names a model, rather than `auto`, `cpu`, an index, a UUID or several cards."""
    word = wanted.strip().lower()
    is_other = word in {"", "auto", CPU, ALL} or word.isdecimal() or word.startswith("gpu-") or "," in word
    return not is_other


def _bare(name: str) -> str:
    """A model's name as one word, without the vendor's: `NVIDIA GeForce RTX 3090` gives `rtx3090`."""
    word = re.sub(r"[^a-z0-9]", "", name.lower())
    return re.sub(r"^(nvidia)?(geforce|tesla|quadro)?", "", word)


def _inventory(gpus: Sequence[Gpu]) -> str:
    if not gpus:
        return "no NVIDIA GPU that CUDA may use"
    return ", ".join(f"{gpu.index}: {gpu.name}" for gpu in gpus)


@dataclass(frozen=True, kw_only=True)
class GpuSpec:
    """A GPU model's specification, as its maker gives it.

    Attributes:
        name: the model and the board whose values these are.
        bandwidth_gbs: peak bandwidth of the device memory, GB/s (1e9 bytes a second).
        boost_mhz: the highest SM clock that the maker rates it for, MHz.
        peak_tflops: TFLOP/s (1e12 a second) by precision, of dense products; of fp32 on the ordinary cores.
        tensor_mhz: the SM clock at which the tensor cores' share of `peak_tflops` is rated, MHz.
    """

    slug: str
    name: str
    bandwidth_gbs: float
    boost_mhz: float
    sms: int
    l2_bytes: int
    peak_tflops: Mapping[Precision, float] = field(hash=False)
    tensor_mhz: float
    sources: Mapping[str, str] = field(hash=False)

    def most_tflops(self, precision: Precision) -> float:
        """Returns the TFLOP/s of a precision at `boost_mhz`, which no kernel can exceed."""
        rated_mhz = self.boost_mhz if precision in {"fp64", "fp32"} else self.tensor_mhz
        return self.peak_tflops[precision] * self.boost_mhz / rated_mhz

    def peak_for(self, precision: Precision, instead: Mapping[Precision, Precision]) -> tuple[Precision, float] | None:
        """Returns the precision whose peak counts, and its TFLOP/s; `instead` says which, of one that the GPU lacks."""
        at = precision if precision in self.peak_tflops else instead.get(precision, precision)
        return (at, self.most_tflops(at)) if at in self.peak_tflops else None


def spec_of(slug: str) -> GpuSpec | None:
    """Returns the specification of a model by its short name, `h200`, or None if the table lacks it."""
    values = _table().get(slug)
    return None if values is None else GpuSpec(slug=slug, **values)


@cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


Cores = frozenset[int]

_MOST_CORES = 4096
_WORD_BITS = 64


def share_cores(usable: Collection[int], near: Sequence[Cores]) -> tuple[tuple[Cores, ...], bool]:
    """Splits `usable` cores among GPUs, evenly; returns each GPU's part, and whether it was chosen by its NUMA node.

    `usable` has the cores of one physical core side by side, `near` the cores of each GPU's node, empty if unknown.
    Parts are disjoint; each is all cores if there are fewer cores than GPUs.
    """
    groups = {each: [number for number, other in enumerate(near) if other == each] for each in near}
    own = {each: [core for core in usable if core in each] for each in groups}
    whole = sum(map(len, own.values()))
    apart = whole == len({core for cores in own.values() for core in cores})
    if apart and all(len(own[each]) >= len(numbers) for each, numbers in groups.items()):
        parts: dict[int, Cores] = {}
        for each, numbers in groups.items():
            parts |= dict(zip(numbers, _even(own[each], len(numbers)), strict=True))
        return tuple(parts[number] for number in range(len(near))), any(not each.issuperset(usable) for each in near)
    if len(usable) < len(near):
        return (frozenset(usable),) * len(near), False
    return tuple(_even(list(usable), len(near))), False


def _even(cores: Sequence[int], parts: int) -> list[Cores]:
    """Parts of equal size; a remainder stays unused."""
    size = len(cores) // parts
    return [frozenset(cores[number * size : (number + 1) * size]) for number in range(parts)]


def usable_cores() -> list[int]:
    """The logical cores that this process may use, those of one physical core side by side."""
    return sorted(os.sched_getaffinity(0), key=lambda core: (_first_sibling(core), core))


def _first_sibling(core: int) -> int:
    try:
        text = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list").read_text(encoding="ascii")
        return int(text.replace("-", ",").split(",")[0])
    except (OSError, ValueError):
        return core


def near_cores(gpus: Sequence[Gpu]) -> tuple[Cores, ...]:
    """The cores of each GPU's NUMA node, by NVML; empty sets if unknown."""
    with open_nvml() as nvml:
        if nvml is None:
            return (frozenset(),) * len(gpus)
        words = _MOST_CORES // _WORD_BITS
        masks = [
            nvml.ask("DeviceGetCpuAffinity", nvml.ask("DeviceGetHandleByUUID", gpu.uuid), words) or () for gpu in gpus
        ]
    return tuple(
        frozenset(
            place * _WORD_BITS + bit for place, mask in enumerate(each) for bit in range(_WORD_BITS) if mask >> bit & 1
        )
        for each in masks
    )


_FOR_EVERY_USER = 0o666  # `filelock` opens the file for writing, so every user needs that permission


@contextmanager
def gpu_lock(gpu: Gpu | None, on_wait: Callable[[], None]) -> Iterator[None]:
    """Holds the GPU, or the CPU for None, against every gdnbench process of every user of this machine.

    The operating system releases the lock when the process ends, however it ends. The file stays. `on_wait` is called
    once, before waiting, if another process holds the GPU. MachineError is raised if the lock file cannot be opened.
    """
    from filelock import FileLock

    # FileLock follows no link that someone left in the file's place, and does not remove the file.
    lock = FileLock(_lock_file(gpu), mode=_FOR_EVERY_USER)
    if not _acquire(lock, wait=False):
        on_wait()
        _acquire(lock, wait=True)
    try:
        yield
    finally:
        lock.release()


def _acquire(lock: BaseFileLock, *, wait: bool) -> bool:
    from filelock import Timeout

    try:
        lock.acquire(blocking=wait)
    except Timeout:
        return False
    except OSError as error:
        raise MachineError(
            f"The lock file {lock.lock_file} cannot be opened: {error.strerror}.",
            "Remove it, or point TMPDIR to another folder.",
        ) from error
    return True


def _lock_file(gpu: Gpu | None) -> Path:
    import tempfile

    return Path(tempfile.gettempdir()) / f"gdnbench-{gpu.uuid if gpu else 'cpu'}.lock"


@contextmanager
def alone_on(gpu: Gpu | None, observer: Observer) -> Iterator[None]:
    """As `gpu_lock`, with a note for the user where it has to wait."""
    with gpu_lock(gpu, lambda: observer(NoteMade("another gdnbench is measuring here; waiting for it to finish"))):
        yield
