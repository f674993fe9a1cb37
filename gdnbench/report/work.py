"""The work of an op at a workload: bytes by tensor, arithmetic intensity, and what a GPU's rated peaks make of it.

Bytes are of the tensors that the op declares, each read or written once, FLOPs as the op counts them, peaks those of
the maker's data sheet. What is not declared or not rated is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.machine.gpus import GpuSpec, spec_of
from gdnbench.model.case import Variant
from gdnbench.model.declaration import TensorSpec
from gdnbench.model.gpu import Precision
from gdnbench.model.kernel import CudaKernel, TritonKernel
from gdnbench.model.workload import Workload
from gdnbench.render.table import Block, Column, Note, Table
from gdnbench.render.units import tflops_text
from gdnbench.report.ncu import value_text


@dataclass(frozen=True)
class TensorBytes:
    """One tensor of the op, or of a kernel's scratch memory, with its size at a workload."""

    name: str
    use: str  # `read`, `written` or `scratch`
    sizes: tuple[int, ...]
    dtype: str
    bytes: int


@dataclass(frozen=True)
class Work:
    """What a kernel has to do at a workload, whatever it does in fact."""

    tensors: tuple[TensorBytes, ...]
    least_bytes: int  # the least traffic to device memory: of all inputs and outputs, or as the op declares it
    flops: Mapping[Precision, int]  # by precision; empty where the op declares none
    spec: GpuSpec | None  # of the GPU that is meant; None if unknown
    instead: Mapping[Precision, Precision]

    def total(self, use: str) -> int:
        """The bytes of all tensors of a use."""
        return sum(each.bytes for each in self.tensors if each.use == use)

    @property
    def intensity(self) -> float | None:
        """FLOPs a byte of the least traffic; None where the op declares no FLOPs, or moves nothing."""
        return sum(self.flops.values()) / self.least_bytes if self.flops and self.least_bytes else None

    @property
    def memory_us(self) -> float | None:
        """The time of the least traffic at the rated bandwidth, in µs; None without a data sheet."""
        return self.least_bytes / (self.spec.bandwidth_gbs * 1e3) if self.spec else None

    @property
    def flops_us(self) -> float | None:
        """The time of the FLOPs, of one precision after another, at the rated peaks, in µs; None if one is unknown."""
        if not (self.spec and self.flops):
            return None
        peaks = {precision: self.spec.peak_for(precision, self.instead) for precision in self.flops}
        times = [count / (peak[1] * 1e6) for name, count in self.flops.items() if (peak := peaks[name])]
        return sum(times) if len(times) == len(self.flops) else None

    @property
    def balance(self) -> float | None:
        """The FLOPs a byte at which traffic and FLOPs take as long at the rated peaks; None if one is unknown."""
        if not (self.intensity and self.memory_us and self.flops_us):
            return None
        return self.intensity * self.memory_us / self.flops_us

    @property
    def document(self) -> dict[str, Any]:
        """The work as JSON has it."""
        return {
            "tensors": [asdict(each) for each in self.tensors],
            "read_bytes": self.total("read"),
            "written_bytes": self.total("written"),
            "least_bytes": self.least_bytes,
            "flops": dict(self.flops),
            "intensity": self.intensity,
            "gpu": self.spec.slug if self.spec else None,
            "balance": self.balance,
            "memory_us": self.memory_us,
            "flops_us": self.flops_us,
        }


def work_of(entry: CatalogEntry, variant: Variant, workload: Workload, gpu: str) -> Work:
    """The work of a kernel at a workload; `gpu` is a short name, `h200`, empty for none."""
    op, kernel = entry.op, entry.kernel
    named = op.named_sizes(workload)
    sizes = {**named, **{name: value for name, value in variant.params.items() if isinstance(value, int)}}
    scratch = kernel.scratch if isinstance(kernel, CudaKernel | TritonKernel) else ()
    tensors = (
        *(_tensor(each, "read", named) for each in op.inputs),
        *(_tensor(each, "written", named) for each in op.outputs),
        *(_tensor(each, "scratch", sizes) for each in scratch),
    )
    flops = {precision: count for precision, count in op.flops(workload).items() if count}
    return Work(tensors, op.traffic_bytes(workload), flops, spec_of(gpu), op.instead)


def _tensor(spec: TensorSpec, use: str, named: Mapping[str, int]) -> TensorBytes:
    return TensorBytes(spec.name, use, spec.sizes(named), spec.dtype_at(named), spec.nbytes(named))


_LEAST_SHARE = 0.01  # of all tensors' bytes: smaller ones stand in one row


def work_blocks(work: Work) -> Iterator[Block]:
    """Yields the table of bytes, and lines on FLOPs and peaks below it."""
    every = sum(each.bytes for each in work.tensors)
    large = [each for each in work.tensors if each.bytes >= _LEAST_SHARE * every]
    small = [each for each in work.tensors if each.bytes < _LEAST_SHARE * every]
    if len(small) == 1:
        large, small = [*large, *small], []
    rows = [(each.name, each.use, " x ".join(map(str, each.sizes)), each.dtype, each.bytes) for each in large]
    if small:
        names = ", ".join(each.name for each in small)
        rows.append((f"{len(small)} others", "", names, "", sum(each.bytes for each in small)))
    yield Table(_COLUMNS, rows, notes=[Note(line, "legend") for line in work_lines(work)])


_COLUMNS: list[Column[tuple[str, str, str, str, int]]] = [
    Column("", lambda row: row[0], "tensor"),
    Column("", lambda row: row[1], "use"),
    Column("", lambda row: row[2], "sizes", fold=True),
    Column("", lambda row: row[3], "dtype", drop=1),
    Column("", lambda row: value_text(float(row[4]), "B"), "bytes", right=True),
]


def work_lines(work: Work) -> Iterator[str]:
    """Yields in sentences without a full stop: what is moved, what is computed, and which of the two takes longer."""
    read, written = (value_text(float(work.total(use)), "B") for use in ("read", "written"))
    least = value_text(float(work.least_bytes), "B")
    moved = "are" if work.total("read") + work.total("written") <= work.least_bytes * 1.01 else "can be"
    yield f"{read} {moved} read and {written} written; the least traffic is {least}"
    if work.intensity is None:
        yield "the op declares no FLOPs"
        return
    counts = " and ".join(f"{value_text(float(count), '')} of {name}" for name, count in work.flops.items())
    yield f"FLOPs: {counts}; intensity {work.intensity:.3g} FLOPs a byte"
    if not work.spec or work.balance is None or work.memory_us is None or work.flops_us is None:
        return
    binds = "memory binds" if work.memory_us >= work.flops_us else "FLOPs bind"
    yield f"balance {work.balance:.3g} on {work.spec.name}: {binds}"
    yield (
        f"at its rated peaks, {work.spec.bandwidth_gbs:,.0f} GB/s and {_peaks(work, work.spec)} at "
        f"{work.spec.boost_mhz:g} MHz, traffic takes {work.memory_us:.3g} µs and FLOPs {work.flops_us:.3g} µs"
    )


def _peaks(work: Work, spec: GpuSpec) -> str:
    peaks = [spec.peak_for(precision, work.instead) for precision in work.flops]
    return ", ".join(f"{tflops_text(peak[1])} TFLOP/s {peak[0]}" for peak in dict.fromkeys(peaks) if peak)
