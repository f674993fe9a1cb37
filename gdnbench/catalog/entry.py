"""A kernel as found: declaration, op, folder, what its source includes or imports, and a dispatcher's table."""

from __future__ import annotations

import ast
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gdnbench.errors import DeclarationError, UsageError
from gdnbench.model.case import CodeState, Variant
from gdnbench.model.declaration import Params, ParamValue
from gdnbench.model.kernel import CudaKernel, Device, Kernel, Requirement, TritonKernel
from gdnbench.model.status import Status
from gdnbench.model.workload import Workload, nearest_workload
from gdnbench.origin import bundled_kernels, is_file

if TYPE_CHECKING:
    from gdnbench.model.op import Op

HEADERS = Path(__file__).parents[1] / "include"
"""Headers that gdnbench brings to kernels: `#include <gdnbench/phases.cuh>`."""

PHASES = ("gdnbench/phases.cuh", "gdnbench/phases.py")
"""The header and the file for CuTe DSL whose marks are empty in a build that is timed."""

_DIRECTIVE = re.compile(rb'^[ \t]*#[ \t]*include\b[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|\w)', re.MULTILINE)


def include_path(folder: Path, op_folder: Path) -> tuple[Path, ...]:
    """The folders of a kernel's includes: its own, that above it, its op's, `include/` beside the ops, gdnbench's.

    That above it is its op's, except for a kernel in another root than its op, as one of a git revision may be.
    """
    roots = (folder.parent.parent, op_folder.parent, bundled_kernels())
    return tuple(dict.fromkeys((folder, folder.parent, op_folder, *(root / "include" for root in roots), HEADERS)))


def included_files(source: Path, folders: Sequence[Path]) -> list[tuple[str, Path]]:
    """Returns the files that a source includes or imports, through others or itself, each with the name it has there.

    They are in the order of the text, each before those that it includes. Both sides of an `#if` count, and for an
    include that is a macro every header in the folders. Names that are not found are the compiler's, or Python's.
    """
    find = _imports_in if source.suffix == ".py" else _includes_in
    found: dict[Path, tuple[str, Path]] = {}
    waiting = find(source, folders, source.name)[::-1]
    while waiting:
        name, path = waiting.pop()
        if (itself := path.resolve()) not in found and itself != source.resolve():
            found[itself] = name, path
            waiting += find(path, folders, name)[::-1]
    return list(found.values())


def _includes_in(source: Path, folders: Sequence[Path], _named: str) -> list[tuple[str, Path]]:
    try:
        text = source.read_bytes()
    except OSError:  # the reader of its text reports it
        return []
    included: list[tuple[str, Path]] = []
    for quoted, angled in _DIRECTIVE.findall(text):
        if name := os.fsdecode(quoted or angled):
            paths = (folder / name for folder in ([source.parent] if quoted else []) + [*folders])
            included += [(name, path) for path in paths if is_file(path)][:1]
        else:
            every = ((folder, path) for folder in folders for path in sorted(folder.rglob("*")))
            headers = (each for each in every if each[1].suffix in {".cuh", ".h", ".hpp"} and each[1].is_file())
            included += [(path.relative_to(folder).as_posix(), path) for folder, path in headers]
    return included


_LOADED = re.compile(r"Path\(__file__\)(?:((?:\.parent)+)|\.parents\[(\d+)\])((?: / '[^']+')+)")
_IMPORT = re.compile(rb"^[ \t]*from[ \t]*\.|\bload_file\b", re.MULTILINE)  # most files have none, and are not parsed


def _imports_in(source: Path, folders: Sequence[Path], named: str) -> list[tuple[str, Path]]:
    """The files of `from .tiles import load` in the folders, and of `load_file(Path(__file__).parent / "tiles.py")`.

    What `gdn/tiles.py`, so `named`, imports from beside it is `gdn/…`, too.
    """
    package = Path(named).parts
    imported: list[tuple[str, Path]] = []
    try:
        text = source.read_bytes()
        nodes = [*ast.walk(ast.parse(text))] if _IMPORT.search(text) else []
    except (OSError, SyntaxError, ValueError):  # what builds it reports that
        return []
    for node in nodes:
        match node:
            case ast.ImportFrom(module=module, names=names, level=level) if 0 < level <= len(package):
                parts = [*package[:-level], *(module.split(".") if module else [])]
                for each in (parts, *([*parts, alias.name] for alias in names)):
                    name = "/".join(each) + ".py"
                    paths = (folder / name for folder in (source.parents[len(package) - 1], *folders))
                    imported += [(name, path) for path in paths if is_file(path)][:1]
            case ast.Call(func=ast.Name(id="load_file"), args=[each]) if found := _LOADED.fullmatch(ast.unparse(each)):
                up = int(found[2]) + 1 if found[2] else found[1].count(".parent")
                path = Path(*source.parts[:-up], name := "/".join(re.findall("'([^']+)'", found[3])))
                imported += [(name, path)] if is_file(path) else []
    return imported


_CLAIM = re.compile(rb'(?m)^ *(?:invariant|strided)=\((?:"[a-z_]+",? ?)*\),\n')


def without_claims(declaration: bytes) -> bytes:
    """A `variant.py` without the lines that claim invariance and strides, which say nothing of what runs."""
    return _CLAIM.sub(b"", declaration)


_SEPARATOR = ":"  # in a label, before each param that was set by hand


def label_parts(label: str) -> tuple[str, list[str]]:
    """Splits `decode-triton:BV=16:WARPS=4` into the name and the params that were set by hand."""
    name, *settings = label.split(_SEPARATOR)
    return name, settings


@dataclass(frozen=True)
class Pick:
    """A row of a dispatcher's table: a kernel with every param's value; `source` is the run that found it the best."""

    kernel: str
    params: Params
    source: str


@dataclass(frozen=True)
class Dispatch:
    """A dispatcher's table; `picks` has its rows by GPU's short name, then by workload, at least one."""

    picks: Mapping[str, Mapping[Workload, Pick]]

    @property
    def rows(self) -> tuple[Pick, ...]:
        """What it picks, in the order of the table."""
        return tuple(pick for rows in self.picks.values() for pick in rows.values())

    @property
    def first_gpu(self) -> str:
        """The GPU that stands in for one without rows."""
        return next(iter(self.picks))

    def pick(self, workload: Workload, gpu: str = "") -> Pick:
        """The row for a workload on a GPU, by its short name; empty for none in particular."""
        rows = self.picks.get(gpu) or self.picks[self.first_gpu]
        return rows[nearest_workload(rows, workload)]


@dataclass(frozen=True)
class CatalogEntry:
    """A kernel that loaded; `idea` is the first line of `variant.py`'s docstring, `dispatch` a dispatcher's table."""

    kernel: Kernel
    op: Op
    folder: Path
    op_folder: Path
    idea: str
    dispatch: Dispatch | None = None

    @property
    def root(self) -> Path:
        """The folder of kernels in which it was found."""
        return self.folder.parent.parent

    @property
    def source(self) -> Path:
        """The implementing file."""
        return self.folder / self.kernel.source

    @property
    def include_path(self) -> tuple[Path, ...]:
        """The folders where a CUDA kernel's includes are looked for, in order, without those of CUDA."""
        return include_path(self.folder, self.op_folder)

    @property
    def default(self) -> Variant:
        """The kernel with every param at its default."""
        return Variant(self.kernel.name, label=self.kernel.name, params=self.kernel.resolve({}))

    @property
    def presets(self) -> tuple[Variant, ...]:
        """The kernel's presets, in the order declared."""
        return tuple(
            Variant(self.kernel.name, label=name, preset=name, params=self.kernel.resolve(values))
            for name, values in self.kernel.presets.items()
        )

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The kernel at its defaults, then its presets."""
        return (self.default, *self.presets)

    def at(self, variant: Variant, workload: Workload, gpu: str = "") -> Variant:
        """This kernel's variant at a workload; a dispatcher's is of the kernel that it picks, under its label."""
        if variant != self.default:
            return variant
        if self.dispatch:
            pick = self.dispatch.pick(workload, gpu)
            return Variant(pick.kernel, label=variant.label, params=pick.params)
        return replace(variant, params=self.defaults(workload))

    def defaults(self, workload: Workload) -> Params:
        """All params at their defaults for a workload."""
        by_shape = self.kernel.by_shape
        return self.kernel.resolve(by_shape[self.op.nearest(by_shape, workload)] if by_shape else {})

    def forms(self, variant: Variant, workload: Workload) -> tuple[Variant, ...]:
        """What a variant may be measured as at a workload, the default there first.

        A copying floor by its bare name has several forms: the settings of `by_shape`, wherever they hold, and the
        params' own defaults. Anything else is only itself.
        """
        if self.kernel.floor != "copy" or variant.label != self.kernel.name:
            return (variant,)
        settings = [self.kernel.resolve(values) for values in ({}, *self.kernel.by_shape.values())]
        return tuple(replace(variant, params=params) for params in dict.fromkeys([self.defaults(workload), *settings]))

    def changed(self, variant: Variant) -> Iterator[tuple[str, Variant]]:
        """Yields variants with one other param, the first and the last choice of each, by which: `LANES=8 | 16`."""
        for name, param in self.kernel.params.items():
            choices = [each for each in param.choices if each != variant.params[name]]
            for choice in dict.fromkeys([*choices[:1], *choices[-1:]]):
                params = self.kernel.resolve({**variant.params, name: choice})
                yield f"{name}={variant.params[name]} | {choice}", replace(variant, params=params)

    def able_workload(self) -> Workload | None:
        """The first of its op's suites that the kernel can do, by its `check`; None where it can do none of them."""
        return next((each for each in self.op.suite_workloads if not self.kernel.unsupported_reason(each)), None)

    def refuse_unable(self, label: str, workload: Workload, verb: str) -> None:
        """Raises UsageError for an unsupported workload; `label` and `verb` are what the user typed."""
        if reason := self.kernel.unsupported_reason(workload):
            able = self.able_workload()
            hint = f"ask for one that it can do: gdnbench {verb} {label} {' '.join(able.options)}" if able else ""
            raise UsageError(f"{label} cannot do {workload.titled}: {reason}", hint or f"see {self.folder}/variant.py")

    def named(self, params: Params, workload: Workload) -> Variant:
        """The variant that has these params at a workload, with the shortest label that gives them there."""
        for known in self.variants:
            resolved = self.at(known, workload)
            if resolved.params == params:
                return resolved
        changed = {name: value for name, value in params.items() if value != self.default.params[name]}
        return self.with_params(self.default, changed or params)

    def with_params(self, base: Variant, values: Mapping[str, ParamValue]) -> Variant:
        """A variant of this kernel with some params changed by hand; ParamError for an unknown param or value."""
        if not values:
            return base
        params = self.kernel.resolve({**base.params, **values})
        settings = "".join(f"{_SEPARATOR}{name}={params[name]}" for name in values)
        return Variant(self.kernel.name, label=base.label + settings, params=params)

    def included(self) -> list[tuple[str, Path]]:
        """The files that a source in CUDA C++, Triton or CuTe DSL includes or imports, without the marks of phases."""
        if not isinstance(self.kernel, CudaKernel | TritonKernel):
            return []
        return [each for each in included_files(self.source, self.include_path) if each[0] not in PHASES]

    def source_files(self) -> list[tuple[str, Path]]:
        """The files that the kernel's code is made of, by name: `v4/kernel.cu` of its folder, then those of others."""
        own = sorted(path for path in self.folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        known = {path.resolve() for path in own}
        others = [each for each in self.included() if each[1].resolve() not in known]
        files = [(path.relative_to(self.folder.parent).as_posix(), path) for path in own]
        return files + sorted(others, key=lambda each: each[0])

    def source_hash(self) -> str:
        """SHA-256, shortened, of `source_files`; behind the number of the rule, `2:`, where it can be another.

        What the op says of inputs and tolerances is not in it: a kernel is the same, and two runs of it can be
        compared, when a gate changes. Nor are the kernel's claims. By the first rule all headers of the op
        counted, and none of other folders, nor what is imported from there.
        """
        digest, files = hashlib.sha256(), self.source_files()
        is_second = isinstance(self.kernel, CudaKernel) or any(self.folder not in path.parents for _, path in files)
        for name, path in files:
            named = name.removeprefix(f"{self.folder.name}/") if is_second else path.name
            content = path.read_bytes()
            content = without_claims(content) if path.name == "variant.py" else content
            digest.update(named.encode() + b"\0" + content + b"\0")
        return ("2:" if is_second else "") + digest.hexdigest()[:16]

    def code_state(self, stored: str) -> CodeState:
        """Whether a stored `source_hash`, empty if not stored, is that of the present code."""
        return CodeState.of(stored, self.known_source()) if stored else CodeState.UNKNOWN

    def known_source(self) -> str:
        """The first `source_hash` of this process, to compare with a stored one; empty if a file cannot be read."""
        return self._known_source

    @cached_property
    def _known_source(self) -> str:
        try:
            return self.source_hash()
        except OSError:
            return ""

    def missing(self) -> Requirement | None:
        """The first module it needs and this Python lacks, if any."""
        from importlib.util import find_spec  # on demand: `--help` needs no module finder

        for need in self.kernel.requires:
            try:
                if find_spec(need.module) is None:
                    return need
            except ModuleNotFoundError:  # the package that should hold it
                return need
        return None

    def unavailable(self, device: Device) -> tuple[Status, str] | None:
        """Why it cannot run on a device at any workload, or None, without loading it."""
        if need := self.missing():
            return Status.MISSING, f"needs the module {need.module}: {need.remedy}"
        if device not in self.kernel.devices:
            return Status.UNSUPPORTED, "needs a GPU"
        return None

    def unfit(self, device: Device, workload: Workload) -> tuple[Status, str] | None:
        """Why it cannot run on a device at a workload, or None, without loading it."""
        if unavailable := self.unavailable(device):
            return unavailable
        reason = self.kernel.unsupported_reason(workload)
        return (Status.UNSUPPORTED, reason) if reason else None


@dataclass(frozen=True)
class Broken:
    """A folder that did not load: op and name, as `list` shows them, and the taken name that it `claims`, if any."""

    name: str
    folder: Path
    reason: str
    claims: str = ""

    @property
    def is_op(self) -> bool:
        """Whether it is an op, and with it all of its kernels."""
        return "/" not in self.name and os.path.lexists(self.folder / "op.py")

    @property
    def error(self) -> DeclarationError:
        """The error for a command that asks for it."""
        what = f"op {self.name}" if self.is_op else f"kernel {self.name.replace('/', '-').replace('_', '-')}"
        return DeclarationError(f"{what} could not be loaded: {self.reason}", f"mend {self.folder}")
