"""Runs kernels without a GPU: Triton's in Triton's interpreter, CUDA kernels in the interpreter of PTX."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.codegen.build import compile_ptx
from gdnbench.codegen.builds import ARCHS_WITHOUT_GPU
from gdnbench.errors import NotInterpretedError, raised_at
from gdnbench.launch.bind import three
from gdnbench.launch.numerics import load_file
from gdnbench.launch.triton_memory import TritonMemory
from gdnbench.launch.triton_rounding import round_to_nearest
from gdnbench.launch.workspace import Workspace, memory_of
from gdnbench.model.case import Passed, Variant, arguments_of, check_arguments
from gdnbench.model.declaration import Params, TensorExtent
from gdnbench.model.kernel import CudaKernel, CudaLaunch, TensorMap, TritonKernel
from gdnbench.model.workload import Workload
from gdnbench.ptx.launch import ModuleMemory, run_program
from gdnbench.ptx.program import LaunchGrid, LocatedFault, Program, Traffic
from gdnbench.ptx.reader import read_program
from gdnbench.ptx.segments import Argument, MappedTensor, Tensor


@dataclass(frozen=True)
class InterpretedRun:
    """What the interpreter saw in the launches of a kernel."""

    findings: tuple[LocatedFault, ...]
    traffic: tuple[Traffic, ...]
    leaves_behind: bool = False  # whether the module's variables have changed, which later launches find
    # Which line stored an element, by the tensor's name and its index; empty where that was not watched
    place_of_stores: Callable[[str, Sequence[int]], str] = lambda _name, _index: ""


class InterpretedTriton:
    """A Triton kernel, whose findings are of what it `watches`.

    The interpreter is chosen when a kernel's file is imported, so `TRITON_INTERPRET=1` must already be set.
    """

    watches = "memory"

    def __init__(self, entry: CatalogEntry, variant: Variant) -> None:
        kernel = entry.kernel
        assert isinstance(kernel, TritonKernel)
        round_to_nearest()
        self._kernel, self._params = kernel, variant.params
        self._module, self._folder = load_file(entry.source, entry.include_path), entry.folder

    def run(self, workspace: Workspace, *, counts_traffic: bool = True) -> InterpretedRun:
        """Runs every launch on CPU tensors, and watches that programs stay inside and apart; counts no traffic."""
        values, memory = workspace.by_name(self._kernel.scratch, self._params), TritonMemory()
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                whole = value if value.is_contiguous() else memory_of(value)
                values[name] = memory.pointer(name, whole, is_input=name in workspace.inputs)
        with memory.watched():
            for launch in self._kernel.launches:
                function = getattr(self._module, launch.entry)
                bound = [values[name] for name in function.arg_names]
                with memory.launch(), self._unknown_told():
                    function[launch.grid(workspace.workload, self._params)](*bound)
        return InterpretedRun(memory.findings.all(), (), place_of_stores=memory.place_of_stores)

    @contextmanager
    def _unknown_told(self) -> Iterator[None]:
        """Raises NotInterpretedError, with the line, for what Triton's interpreter does not know, as inline PTX."""
        try:
            yield
        except Exception as error:
            cause: BaseException = error
            while cause.__cause__ is not None:
                cause = cause.__cause__
            if isinstance(cause, NotImplementedError):
                place = raised_at(error, self._folder)
                at = f"{place[0].name}:{place[1]}: " if place else ""
                raise NotInterpretedError(f"{at}{cause}", "its numbers need a GPU") from error
            raise


class InterpretedCuda:
    """A CUDA kernel at a workload, compiled to PTX, read, and loaded: its variables keep what launches write to them.

    Raises BuildError if it does not compile for the target `arch`, `sm_90`; NotInterpretedError for an unknown form.
    """

    watches = "memory and barriers"

    def __init__(self, entry: CatalogEntry, variant: Variant, workload: Workload, arch: str) -> None:
        kernel = entry.kernel
        assert isinstance(kernel, CudaKernel)
        self._entry, self._kernel, self._params = entry, kernel, variant.params
        programs = _programs(entry, variant.params, workload, arch)
        self._programs: list[tuple[CudaLaunch, Program]] = list(zip(kernel.launches, programs, strict=True))
        self._module = ModuleMemory(programs[0].variables.values())

    def run(self, workspace: Workspace, *, counts_traffic: bool = True) -> InterpretedRun:
        """Runs every launch on the workspace's CPU tensors; NotInterpretedError leaves outputs written in part."""
        named = workspace.by_name(self._kernel.scratch, self._params)
        unwritten = {*workspace.outputs, *(spec.name for spec in self._kernel.scratch)} - {*self._kernel.in_place}
        findings: list[LocatedFault] = []
        traffic: list[Traffic] = []
        before = self._module.content()
        is_any_early = any(launch.begins_early for launch in self._kernel.launches)
        changed = {
            name: np.zeros(value.nbytes, dtype=bool)
            for name, value in named.items()
            if is_any_early and isinstance(value, torch.Tensor) and name not in workspace.inputs
        }
        for launch, program in self._programs:
            sizes = [parameter.nbytes for parameter in program.parameters]
            check_arguments(self._entry.op, self._entry.kernel, launch, sizes)
            earlier = {name: each.copy() for name, each in changed.items()} if launch.begins_early else {}
            tensors = {
                name: Tensor(
                    f"`{name}`",
                    bytes_of(value),
                    name not in unwritten,
                    name in workspace.inputs,
                    changed.get(name),
                    earlier.get(name),
                )
                for name, value in named.items()
                if isinstance(value, torch.Tensor)
            }
            declared = arguments_of(self._entry.op, self._entry.kernel, launch)
            arguments = [self._argument(each, named, tensors, workspace.workload) for each in declared]
            shape = three(launch.grid(workspace.workload, self._params))
            threads = launch.block(workspace.workload, self._params)
            shared_bytes = launch.shared_bytes(workspace.workload, self._params)
            grid = LaunchGrid(shape, threads, shared_bytes, launch.begins_early)
            faults, requests = run_program(program, grid, arguments, counts_traffic=counts_traffic, module=self._module)
            findings += faults
            traffic += requests
            # What one launch may have left unwritten is the next one's to find out, which shares no memory of that.
            unwritten = set()
        return InterpretedRun(tuple(findings), tuple(traffic), self._module.content() != before)

    def _argument(
        self, declared: Passed, named: Mapping[str, Any], tensors: Mapping[str, Tensor], workload: Workload
    ) -> Argument:
        """Returns a tensor's memory, a map, or a C value: float for a scalar, int for an axis, 64 bits if derived."""
        if isinstance(declared, TensorExtent):
            return np.int32(declared.of(named[declared.tensor])).tobytes()
        if isinstance(declared, TensorMap):
            tensor = named[declared.tensor]
            if not tensor.is_contiguous():
                raise NotInterpretedError("a map of a tensor whose members lie apart is not read", "use a GPU")
            sizes, box = declared.sizes_and_box(workload, self._params, tensor.shape, tensor.itemsize)
            return MappedTensor(tensors[declared.tensor], sizes, box, tensor.itemsize, declared.swizzle)
        if declared in tensors:
            return tensors[declared]
        value = named[declared]
        if declared in self._entry.op.scalars:
            return np.float32(value).tobytes()
        return (np.int32(value) if declared in self._entry.op.workloads.names else np.int64(value)).tobytes()


_READ: dict[tuple[object, ...], tuple[Program, ...]] = {}


def _programs(entry: CatalogEntry, params: Params, workload: Workload, arch: str) -> tuple[Program, ...]:
    """Returns each launch's, compiled and read once in a process: workloads share code but for compile-time axes."""
    key = (entry.source, params, *workload.compile_time.items(), arch)
    if key not in _READ:
        made = compile_ptx(entry, params, workload, arch)
        _READ[key] = tuple(read_program(text, symbol) for text, symbol in made.values())
    return _READ[key]


def bytes_of(tensor: torch.Tensor) -> npt.NDArray[np.uint8]:
    """Returns a CPU tensor's memory, not a copy, with what lies between its members."""
    return memory_of(tensor).detach().view(torch.uint8).numpy()


def interpreter_for(entry: CatalogEntry, variant: Variant, workload: Workload) -> InterpretedCuda | InterpretedTriton:
    """The variant at a workload, for its interpreter; NotInterpretedError for a kernel that has none."""
    match entry.kernel:
        case CudaKernel():
            fitting = [arch for arch in ARCHS_WITHOUT_GPU if entry.kernel.fits(arch)]
            return InterpretedCuda(entry, variant, workload, (fitting or ARCHS_WITHOUT_GPU)[0])
        case TritonKernel():
            return InterpretedTriton(entry, variant)
    raise NotInterpretedError(f"{entry.kernel.name} is reached through Python, and is not interpreted", "use a GPU")
