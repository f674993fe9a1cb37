"""Loads functions of Python files, in workers: the kernels, and the numerics, of the op that is made of them."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from gdnbench.catalog.catalog import Catalog, load_catalog
from gdnbench.catalog.declaration import load_source
from gdnbench.errors import DeclarationError, UnknownNameError, tell_raised
from gdnbench.functions.reference import TensorText
from gdnbench.launch.bind import Binder, Launcher, load
from gdnbench.launch.workspace import TORCH_DTYPES, Workspace
from gdnbench.model.workload import Workload
from gdnbench.wording import did_you_mean

Tensors = dict[str, torch.Tensor]

_places: list[str] = []


def is_loading() -> bool:
    """Whether this process is a worker that has begun to load functions: what they import must not measure."""
    return bool(_places)


def load_function(place: str, name: str) -> Callable[..., Any]:
    """A function by its file or module and its name; DeclarationError says where loading fails."""
    _places.append(place)
    file = Path(place).name
    try:
        module = _load_module(Path(place)) if place.endswith(".py") else import_module(place)
    except (Exception, SystemExit) as error:
        reason = tell_raised(error, Path(place).parent) if isinstance(error, Exception) else "it ends its process"
        raise DeclarationError(f"{file} cannot be loaded: {reason}", "mend it") from error
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise UnknownNameError(f"{file} has no function {name}", did_you_mean(name, vars(module), f"see {place}"))
    function: Callable[..., Any] = found
    return function


@cache
def _load_module(path: Path) -> ModuleType:
    """A file as a module: of its package if it is in one, else by its path.

    Its folder comes last in the search path: a file there that is called `json.py` replaces nothing of gdnbench's.
    """
    root, name = root_of(path)
    if str(root) not in sys.path:
        sys.path.append(str(root))
    if "." not in name:
        return load_source("gdnbench_function_" + hashlib.sha256(str(path).encode()).hexdigest()[:8], path)
    module = import_module(name)
    if Path(module.__file__ or "").resolve() != path:
        raise ImportError(f"another package called {name.partition('.')[0]} is installed")
    return module


def root_of(path: Path) -> tuple[Path, str]:
    """The folder that imports of a file begin in, and its module's name there: packages have an `__init__.py`."""
    folder, parts = path.parent, [path.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(part for part in parts if part != "__init__")


def source_files(places: Sequence[str]) -> dict[str, str]:
    """SHA-256 by path of loaded functions' files, and of what they imported from beside them, but not installed."""
    files = [Path(place) for place in places if place.endswith(".py")]
    roots = tuple(f"{str(root_of(path)[0]).rstrip('/')}/" for path in files)
    # As texts: a thousand modules are loaded, and to make a Path of each takes 40 ms.
    loaded = [getattr(each, "__file__", None) or "" for each in [*sys.modules.values()]]
    beside = (Path(name) for name in loaded if name.endswith(".py") and name.startswith(roots))
    files += [path for path in beside if not _is_installed(path)]
    return {str(path): sha256_of(path) for path in sorted(set(files)) if path.is_file()}


def _is_installed(path: Path) -> bool:
    own = (Path(__file__).parents[1], sys.base_prefix)
    installed = {"site-packages", "dist-packages"} & {*path.parts}
    return bool(installed) or any(path.is_relative_to(each) for each in own)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def bind_function(
    tensors: Any, inputs: Sequence[str], place: str, name: str, files: Mapping[str, str] | None = None
) -> Launcher:
    """Binds a function to inputs by name.

    `files` are the sources that the run is of, with their SHA-256. DeclarationError is raised if one has changed, and
    by the launcher, with file and line, for what the function raises.
    """
    for path, digest in (files or {}).items():
        if not Path(path).is_file() or sha256_of(Path(path)) != digest:
            raise DeclarationError(f"{path} has changed since this run began", "start a new run")
    call = partial(load_function(place, name), **{each: getattr(tensors, each) for each in inputs})

    def launch() -> tuple[torch.Tensor, ...]:
        try:
            returned = call()
        except Exception as error:
            raise DeclarationError(tell_raised(error, Path(place).parent)) from error
        return tuple(returned) if isinstance(returned, tuple | list) else (returned,)

    return launch


def draw(inputs: Sequence[TensorText], sizes: Mapping[str, int], seed: int, device: str) -> Tensors:
    """Draws inputs: normal numbers, integers from 0 up to their limit, truth values; `sizes` are of axes."""
    random, drawn = torch.Generator(device=device).manual_seed(seed), {}
    for each in inputs:
        shape, dtype = [sizes[dim] for dim in each.dims], TORCH_DTYPES[each.dtype]
        if dtype.is_floating_point:
            tensor = torch.randn(shape, generator=random, device=device)
        else:
            below = sizes[each.below] if each.below else 2
            tensor = torch.randint(below, shape, generator=random, device=device, dtype=torch.int64)
        drawn[each.name] = tensor.to(dtype)
    return drawn


class ReferenceNumerics:
    """The numerics of an op made of functions: its inputs are drawn or given, its oracle is one of its kernels.

    Kernels are held to what the reference returns on the same inputs, in its own arithmetic. What `roundoff` allows of
    each element is in unit roundoffs of its type: the element's own size, and the output's root mean square.
    """

    def __init__(self, folder: Path, reference: str, inputs: Sequence[TensorText], given: str = "") -> None:
        self._folder, self._reference, self._inputs, self._given = folder, reference, inputs, given
        self._binders: dict[Workload, Binder] = {}

    @cached_property
    def _catalog(self) -> Catalog:
        return load_catalog([self._folder.parent])

    def make_inputs(
        self, workload: Workload, seed: int, device: str, scenario: str
    ) -> tuple[Tensors, dict[str, float]]:
        """Draws the inputs; given ones are the same in each draw."""
        del scenario
        return read_given(self._given, device) or draw(self._inputs, workload.axes, seed, device), {}

    def oracle(self, tensors: Tensors, scalars: dict[str, float], workload: Workload) -> Tensors:
        """What the reference returns, numbers in float64."""
        entry, op = self._catalog.entries[self._reference], self._catalog.ops[self._folder.name]
        if workload not in self._binders:
            self._binders[workload] = load(entry, entry.default, workload)
        device = str(next(iter(tensors.values())).device)
        copies = {name: tensor.clone() for name, tensor in tensors.items()}
        workspace = Workspace.holding(op, workload, copies, scalars, device=device)
        returned = self._binders[workload](workspace)()
        named = zip((spec.name for spec in op.outputs), returned, strict=True)
        return {name: each.double() if each.is_floating_point() else each for name, each in named}

    def roundoff(self, tensors: Tensors, scalars: dict[str, float], workload: Workload) -> Tensors:
        """The size of each element of an output of floats, and the output's root mean square, in sum."""
        expected = self.oracle(tensors, scalars, workload)
        numbers = {name: each for name, each in expected.items() if each.is_floating_point()}
        return {name: each.abs() + each.square().mean().sqrt() for name, each in numbers.items()}


def read_given(path: str, device: str) -> Tensors:
    """The tensors of a safetensors file, none for an empty path."""
    if not path:
        return {}
    from safetensors.torch import load_file

    tensors: Tensors = load_file(path, device=device)
    return tensors


def text_of_given(path: str) -> str:
    """The tensors of a safetensors file as text, integers with the limit that they keep to."""
    texts = []
    for name, each in read_given(path, "cpu").items():
        dtype, sizes = str(each.dtype).removeprefix("torch."), ",".join(map(str, each.shape))
        limit = f"<{max(int(each.max()), 0) + 1}" if dtype.startswith("int") and each.numel() else ""
        texts.append(f"{name}={dtype}[{sizes}]{limit}")
    return ",".join(texts)
