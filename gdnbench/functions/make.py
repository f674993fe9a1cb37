"""The worker that makes an op of functions: `python -P -m gdnbench.functions.make REQUEST.json DEVICE FD`.

The op is a folder of the cache, named by its content: an `op.py` and a kernel a function. From there on a run of
functions is a run like any other.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from gdnbench.errors import DeclarationError, GdnbenchError, UnknownNameError, UsageError
from gdnbench.functions import load
from gdnbench.functions.ask import FunctionsMade, FunctionsRefused, FunctionsRequest
from gdnbench.functions.cuda_source import read_kernels
from gdnbench.functions.reference import FunctionName, parse_tensors, workloads_of
from gdnbench.launch.workspace import TORCH_DTYPES
from gdnbench.model.declaration import Dtype, ExactGate, RoundoffGate, TensorSpec
from gdnbench.origin import cached_folder, functions_folder
from gdnbench.process.channel import Channel, decode
from gdnbench.process.worker import die_with_parent

LIMITS: Mapping[Dtype, int] = {"bf16": 4, "fp16": 8, "fp32": 256, "fp64": 256, "fp8e4m3": 2}
"""Unit roundoffs of an output's type by which an element may differ, relative to its size plus the output's RMS.

They are 1.6 % of bf16, 0.4 % of fp16, 1.5e-5 of fp32: room for another order of summation, and for a few roundings of
intermediate results to the type. Integers and truth values are equal.
"""

_NAMES = {dtype: name for name, dtype in TORCH_DTYPES.items() if name != "fp4x2"}
_SIZES = re.compile(r"[\w\s,()+*/%-]+")


def main(request: Path, device: str, descriptor: int) -> None:
    """Makes the op, says which, and ends the process without the exit handlers of libraries."""
    die_with_parent()
    channel: Channel[FunctionsMade | FunctionsRefused] = Channel(descriptor)
    try:
        typed = decode(request.read_bytes(), [FunctionsRequest])
        channel.send(_Op(typed, typed.named(), device).make())
    except GdnbenchError as error:
        channel.send(FunctionsRefused(error.message, error.hint, isinstance(error, UsageError)))
    os._exit(0)


@dataclass
class _Op:
    """The op: what others are compared with is the first of the functions; `device` is torch's."""

    request: FunctionsRequest
    functions: Sequence[FunctionName]
    device: str

    def make(self) -> FunctionsMade:
        """Loads the functions, holds them to the inputs, and writes the op's folder."""
        places = [each.place for each in self.functions if not each.is_cuda]
        for each in (each for each in self.functions if not each.is_cuda):
            _check_parameters(load.load_function(each.place, each.function), each.title, self.names)
        self.files = load.source_files(places)  # after loading, for what they import
        labels = tuple(each.label for each in self.functions)
        kernels = (labels[1:] if self.request.against else ()) or labels
        return FunctionsMade(str(_write(self._texts())), self.name, kernels, labels[0])

    def __post_init__(self) -> None:
        axes: dict[str, int | None] = {}
        typed = self.request
        text = load.text_of_given(typed.given) if typed.given else typed.inputs
        self.inputs = parse_tensors(text, "--inputs", axes) if text else ()
        self.declared = parse_tensors(typed.output, "--output", axes) if typed.output else ()
        self.names = tuple(each.name for each in self.inputs)
        self.workloads = workloads_of(axes, typed.shapes) if typed.inputs else ()
        self.given = load.sha256_of(Path(typed.given)) if typed.given else ""
        dtypes = [each.dtype for each in self.inputs]
        shown = dtypes[:1] if len(set(dtypes)) == 1 else dtypes
        # Times depend on types and on given inputs, which sizes do not determine.
        stem = self.functions[0].stem.strip("_") or "functions"
        self.name = "-".join(filter(None, [stem, *shown, self.given[:8]]))

    def _texts(self) -> dict[str, str]:
        """The files of the op's folder, by path."""
        texts = {f"{self.name}/op.py": self._op(), f"{self.name}/numerics.py": self._numerics()}
        for each in self.functions:
            folder = f"{self.name}/{each.label}"
            texts[f"{folder}/variant.py"] = self._variant(each)
            if each.is_cuda:
                texts[f"{folder}/kernel.cu"] = f'#include "{each.place}"\n'
            else:
                texts[f"{folder}/kernel.py"] = self._kernel(each)
        return texts

    def _op(self) -> str:
        fields = {
            "name": self.name,
            "title": f"functions compared with {self.functions[0].title}",
            "workloads": self.workloads[0].spec,
            "inputs": tuple(TensorSpec(each.name, each.dims, each.dtype) for each in self.inputs),
            "outputs": self.outputs,
            "gates": tuple(
                RoundoffGate(each.name, LIMITS[each.settled], each.settled)
                if each.settled in LIMITS
                else ExactGate(each.name)
                for each in self.outputs
            ),
            "baselines": (self.functions[0].label,),
        }
        text = ",\n    ".join(f"{name}={value!r}" for name, value in fields.items())
        imports = "Axis, ExactGate, Op, RoundoffGate, TensorSpec, WorkloadSpec"
        return f"{fields['title']!r}\n\nfrom gdnbench import {imports}\n\nop = Op(\n    {text}\n)\n"

    @cached_property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """What the first function returns, or what `--output` says that it writes."""
        if self.functions[0].is_cuda:
            return tuple(TensorSpec(each.name, each.dims, each.dtype) for each in self.declared)
        returned = [self._call({**each.axes}) for each in self.workloads]
        specs = []
        for place, tensors in enumerate(zip(*returned, strict=True)):
            name = "out" if len(returned[0]) == 1 else f"out{place}"
            name += "_" if name in {*self.names, *self.workloads[0].axes} else ""
            dims = tuple(self._dim(name, sizes) for sizes in zip(*(each.shape for each in tensors), strict=True))
            specs.append(TensorSpec(name, dims, _NAMES[tensors[0].dtype]))
        return tuple(specs)

    def _dim(self, name: str, sizes: Sequence[int]) -> str | int:
        """A size of an output, by workload: the axis that is as large at each, else a number."""
        dims = dict.fromkeys(dim for each in self.inputs for dim in each.dims)
        alike = (dim for dim in dims if [*sizes] == [each.axes[dim] for each in self.workloads])
        if dim := next(alike, ""):
            return dim
        if len(set(sizes)) > 1:
            message = f"{name} has a size of {', '.join(map(str, sizes))}, which is that of no input"
            raise UsageError(message, "measure one size at a time: leave --shape out, or give each axis one value")
        return sizes[0]

    def _call(self, sizes: Mapping[str, int]) -> tuple[torch.Tensor, ...]:
        """Calls the first function; DeclarationError if it fails, or returns what cannot be compared."""
        function = self.functions[0]
        inputs = load.read_given(self.request.given, self.device) or load.draw(self.inputs, sizes, 1, self.device)
        launch = load.bind_function(SimpleNamespace(**inputs), self.names, function.place, function.function)
        try:
            outputs = launch()
        except DeclarationError as error:
            raise DeclarationError(f"{function.title} fails: {error.message}", "mend it, or its inputs") from error
        for each in outputs or [None]:
            if not isinstance(each, torch.Tensor) or each.dtype not in _NAMES:
                what = f"a tensor of {each.dtype}" if isinstance(each, torch.Tensor) else f"a {type(each).__name__}"
                hint = f"return a tensor, or several in a tuple, of {', '.join(_NAMES.values())}"
                raise DeclarationError(f"{function.title} returns {what}, which cannot be compared", hint)
            if each.is_floating_point() and not each.double().isfinite().all():
                message = f"{function.title} returns NaN or infinity, with which nothing can be compared"
                raise DeclarationError(message, "scale its inputs in a function of your own, or compare with another")
        return outputs

    def _numerics(self) -> str:
        tensors = "".join(f"    {each!r},\n" for each in self.inputs)
        given = (self.request.given, self.given)
        return (
            f"{f'The inputs, and what {self.functions[0].title} returns.'!r}\n\nfrom pathlib import Path\n\n"
            "from gdnbench.functions.load import ReferenceNumerics\n"
            "from gdnbench.functions.reference import TensorText\n\n"
            f"INPUTS = (\n{tensors})\nGIVEN = {given!r}  # file and SHA-256 of those that are not drawn\n"
            f"numerics = ReferenceNumerics(Path(__file__).parent, {self.functions[0].label!r}, INPUTS, GIVEN[0])\n"
            "make_inputs, oracle, roundoff = numerics.make_inputs, numerics.oracle, numerics.roundoff\n"
        )

    def _kernel(self, function: FunctionName) -> str:
        files = "".join(f"    {path!r}: {digest!r},\n" for path, digest in self.files.items())
        return (
            f"{function.title!r}\n\nfrom gdnbench.functions.load import bind_function\n\nFILES = {{\n{files}}}\n\n\n"
            "def bind(tensors, workload, params):\n"
            f"    return bind_function(tensors, {self.names!r}, {function.place!r}, {function.function!r}, FILES)\n"
        )

    def _variant(self, function: FunctionName) -> str:
        head = f"{function.title!r}\n\nfrom gdnbench import CudaKernel, CudaLaunch, TorchKernel\n\n"
        if not function.is_cuda:
            return f"{head}kernel = TorchKernel(name={function.label!r})\n"
        grid = self._sizes(function, "--grid", self.request.grid)
        block = self._sizes(function, "--block", self.request.block)
        return (
            f"{head}launch = CudaLaunch(\n    entry={function.function!r},\n"
            f"    arguments={self._arguments(function)!r},\n"
            f"    grid=lambda shape, params: ({grid},),\n    block=lambda shape, params: {block},\n)\n"
            f"kernel = CudaKernel(name={function.label!r}, launches=(launch,))\n"
        )

    def _sizes(self, function: FunctionName, option: str, values: Sequence[str]) -> str:
        """The grid or block of a kernel as Python, `shape.M, shape.K // 4`; UsageError for anything but arithmetic."""
        cuda = [each for each in (*self.functions[1:], self.functions[0]) if each.is_cuda]
        text, axes = values[cuda.index(function) if len(values) > 1 else 0], self.workloads[0].axes
        unknown = [name for name in re.findall(r"[A-Za-z_]\w*", text) if name not in axes]
        try:
            compile(text if _SIZES.fullmatch(text) else "", option, "eval")
        except SyntaxError:
            unknown.append("that")
        if unknown:
            hint = f"there are {', '.join(axes)}, numbers, + - * // and brackets: {option} '(M+3)//4'"
            raise UsageError(f"{option} {text}: {unknown[0]} is not a size", hint)
        return re.sub(r"([A-Za-z_]\w*)", r"shape.\1", text)

    def _arguments(self, function: FunctionName) -> tuple[str, ...]:
        """By parameter of a kernel, the input or axis of its name; other pointers are outputs, in order."""
        kernels = read_kernels(Path(function.place).read_text(encoding="utf-8"))
        if function.function not in kernels:
            hint = f"it has {', '.join(kernels) or 'none'}"
            raise UnknownNameError(f"{Path(function.place).name} has no kernel {function.function}", hint)
        outputs, axes, arguments = [each.name for each in self.outputs], self.workloads[0].axes, []
        for each in kernels[function.function]:
            if each.name in (self.names if each.is_pointer else axes):
                arguments.append(each.name)
            elif each.is_pointer and outputs:
                arguments.append(outputs.pop(0))
            else:
                hint = f"inputs are {', '.join(self.names)}, sizes int {', '.join(axes)}, further pointers are outputs"
                raise UsageError(f"{function.title} has the parameter {each.name}, which is not one of these", hint)
        if outputs:
            raise UsageError(f"{function.title} has no parameter for {outputs[0]}", "outputs are its further pointers")
        return tuple(arguments)


def _check_parameters(function: Callable[..., Any], title: str, names: Sequence[str]) -> None:
    """Raises UsageError, with the signature, unless a function takes the inputs and needs no more."""
    try:
        parameters = signature(function)
    except (TypeError, ValueError):  # a function in C
        return
    try:
        parameters.bind(**dict.fromkeys(names))
    except TypeError as error:
        unlisted = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        needed = [each for each in parameters.parameters.values() if each.default is each.empty]
        tensors = ",".join(f"{each.name}=bf16[4096]" for each in needed if each.kind not in unlisted)
        why = f"does not take the inputs {', '.join(names)}: {error}" if names else "needs --inputs"
        raise UsageError(f"{title}{parameters} {why}", f"name them as it does: --inputs '{tensors}'") from error


def _write(texts: Mapping[str, str]) -> Path:
    content = "".join(f"{path}\0{text}\0" for path, text in sorted(texts.items()))

    def write(folder: Path) -> None:
        for path, text in texts.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")

    folders = functions_folder()
    return cached_folder(folders / hashlib.sha256(content.encode()).hexdigest()[:16], f"to {folders}", write)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
