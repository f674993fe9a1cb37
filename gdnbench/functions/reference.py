"""What is typed of functions: their names, and their tensors.

A function is `mine.py::fast`, `mine.cu::kernel` or `torch.nn.functional::silu`; a name for tables may stand before it:
`mine=mine.py::fast`. Tensors are `x=bf16[M=4096,K=4096],w=bf16[K],rows=int64[M]<32000`: names, element types, sizes,
limits. A size with a name is an axis, which `--shape` may set; one without a name is an axis of its own, `x0`. Integers
are drawn from 0 up to the limit behind `<`, which is an axis, too, since times may depend on it; other numbers are
drawn from the standard normal distribution.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path

from gdnbench.errors import UnknownNameError, UsageError
from gdnbench.model.declaration import FACTS, Dtype
from gdnbench.model.workload import Workload
from gdnbench.model.workload_spec import Axis, WorkloadSpec
from gdnbench.origin import is_file

_MARK = "::"
_FILES = (".py", ".cu")
_LABELLED = re.compile(r"([A-Za-z0-9][\w.+-]*)=(.+)")
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_HOW = "write FILE.py::NAME, MODULE::NAME or FILE.cu::NAME"


@dataclass(frozen=True)
class FunctionName:
    """A function: `place` is the absolute path of a file, or a module's name; `label` is its name in tables."""

    place: str
    function: str
    label: str

    @property
    def is_cuda(self) -> bool:
        """Whether it is a kernel of a CUDA C++ file."""
        return self.place.endswith(".cu")

    @property
    def stem(self) -> str:
        """The name of its file or module: `mine` of `/home/me/mine.py`, `functional` of `torch.nn.functional`."""
        return Path(self.place).stem if self.place.endswith(_FILES) else self.place.rpartition(".")[2]

    @property
    def title(self) -> str:
        """As it is typed, without the folder: `mine.py::fast`."""
        return f"{Path(self.place).name}{_MARK}{self.function}"


def names_functions(words: Iterable[str]) -> bool:
    """Whether what was typed as kernels, or a stored command, names functions."""
    return any(_MARK in word for word in words)


def parse_functions(texts: Iterable[str]) -> tuple[FunctionName, ...]:
    """Reads functions, each once; UnknownNameError for a file that is not there, UsageError for two of one label."""
    named: dict[str, FunctionName] = {}
    for each in map(_parse, texts):
        if named.setdefault(each.label, each) != each:
            raise UsageError(f"two functions are called {each.label}", f"name one: new={each.title}")
    return tuple(named.values())


def _parse(text: str) -> FunctionName:
    labelled = _LABELLED.fullmatch(text.strip())
    label, typed = labelled.groups() if labelled else ("", text.strip())
    place, mark, function = typed.rpartition(_MARK)
    if not (mark and _NAME.fullmatch(function) and (place.endswith(_FILES) or _NAME.fullmatch(place))):
        raise UsageError(f"{text} names no function", f"{_HOW}; kernels of an op are measured without functions")
    if place.endswith(_FILES):
        if not is_file(Path(place)):
            raise UnknownNameError(f"there is no file {place}", _HOW)
        place = str(Path(place).resolve())
    return FunctionName(place, function, label or function.strip("_") or "function")


GRAMMAR = "NAME=DTYPE[SIZE,…] for each, as in 'x=bf16[M=4096,K=512],w=bf16[K],rows=int64[M]<100' (integers below 100)"

_DTYPES: Mapping[str, Dtype] = {
    word: dtype for dtype, facts in FACTS.items() if dtype != "fp4x2" for word in (dtype, facts.torch)
}
_TENSOR = re.compile(r"\s*([A-Za-z]\w*)\s*=\s*(\w+)\s*\[([^][]*)\]\s*(?:<\s*([1-9]\d{0,9})\s*)?(?:,|$)")
_SIZE = re.compile(r"\s*(?:([A-Za-z][A-Za-z0-9]*)\s*(?:=\s*([1-9]\d{0,9}))?|([1-9]\d{0,9}))\s*")


@dataclass(frozen=True)
class TensorText:
    """One tensor as it was typed: `dims` are names of axes; `below` is the axis of an integer's limit, or empty."""

    name: str
    dtype: Dtype
    dims: tuple[str, ...]
    below: str = ""


def parse_tensors(text: str, option: str, axes: dict[str, int | None]) -> tuple[TensorText, ...]:
    """Reads the tensors of an option, and adds their axes to `axes`, each with its size or None.

    UsageError, with the grammar, is raised for other text, and for an axis of two sizes.
    """
    tensors: list[TensorText] = []
    at = 0
    while at < len(text) or not tensors:
        found = _TENSOR.match(text, at)
        if not found:
            raise UsageError(f"{option}: cannot read {text[at : at + 60]!r}", f"write {GRAMMAR}")
        at = found.end()
        tensors.append(_tensor(found, option, axes))
    names = [*(each.name for each in tensors), *axes]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise UsageError(f"{option}: {twice} is the name of two tensors, or of an axis, too", "rename one")
    return tuple(tensors)


def _tensor(found: re.Match[str], option: str, axes: dict[str, int | None]) -> TensorText:
    name, word, sizes, limit = found.groups()
    if word not in _DTYPES:
        raise UsageError(f"{option}: {name} has the unknown dtype {word}", f"there are {', '.join(_DTYPES)}")
    is_integer, own = word.startswith("int"), name.replace("_", "")
    if is_integer is not bool(limit) or (word == "int8" and int(limit) > 128):
        rule = "integers need a limit, of int8 at most 128" if is_integer else "only integers have a limit"
        raise UsageError(f"{option}: {name} is of {word}: {rule}", f"write {GRAMMAR}")
    dims = tuple(
        _size(part, f"{own}{place}", option, axes) for place, part in enumerate(sizes.split(",") if sizes else ())
    )
    if limit:
        axes[f"{own}below"] = int(limit)
    return TensorText(name, _DTYPES[word], dims, f"{own}below" if limit else "")


def _size(part: str, own: str, option: str, axes: dict[str, int | None]) -> str:
    found = _SIZE.fullmatch(part)
    if not found:
        raise UsageError(f"{option}: {part!r} is not a size", f"write {GRAMMAR}")
    name, size = found[1] or own, int(found[2] or found[3] or 0) or None
    before = axes.setdefault(name, size)
    if size and before not in {None, size}:
        raise UsageError(f"{option}: {name} is {before} and {size} at once", "give it one size, or use two names")
    axes[name] = size or before
    return name


def workloads_of(axes: Mapping[str, int | None], shapes: str) -> tuple[Workload, ...]:
    """The workloads of these sizes and `--shape`, by default the first; UsageError for an axis without a size."""
    if not axes:
        raise UsageError("no input has a size, and workloads differ in sizes", f"write {GRAMMAR}")
    settings = WorkloadSpec(axes=tuple(Axis(name, size or 1) for name, size in axes.items())).parse(shapes)
    first = {**axes, **dict(chain.from_iterable(sizes[0].items() for sizes in settings))}
    if unset := next((name for name, size in first.items() if size is None), ""):
        raise UsageError(f"{unset} has no size", f"write [{unset}=4096], or --shape {unset}=4096")
    spec = WorkloadSpec(axes=tuple(Axis(name, int(str(size))) for name, size in first.items()))
    combined = (dict(chain.from_iterable(each.items() for each in sizes)) for sizes in product(*settings))
    return tuple(dict.fromkeys(map(spec.workload, combined)))
