"""Makes a kernel's folder of a Solution: a declaration beside its unchanged document and sources.

Runs no code in the files. Their texts are written as literals, never as code.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from gdnbench.catalog.catalog import KERNELS_VARIABLE, Catalog, default_roots, find_op, load_catalog
from gdnbench.catalog.entry import Broken
from gdnbench.catalog.load import LoadedOp, load_kernel
from gdnbench.catalog.new import folder_of, write_folder
from gdnbench.errors import DeclarationError, UsageError
from gdnbench.exchange.match import literal, match, one_line, solution_files
from gdnbench.exchange.schema import BuildSpec, Definition, Solution, read_files, safe_name
from gdnbench.model.declaration import MOST_CHARACTERS
from gdnbench.model.kernel import CuteKernel


@dataclass
class Imported:
    """The result of an import: names of new kernels, and their folders in the folder of kernels, `root`."""

    root: Path
    kernels: list[str] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)

    @property
    def next_steps(self) -> list[str]:
        """Commands that continue with the import."""
        steps = [] if self.root in default_roots() else [f"export {KERNELS_VARIABLE}={quote(str(self.root))}"]
        return [*steps, f"gdnbench verify {' '.join(self.kernels)}"]


def import_files(paths: list[Path], to: Path, op: str, name: str = "") -> Imported:
    """Reads files, or folders of data sets, and makes a kernel of `op` of each Solution.

    `name` is the kernel's, for a single Solution. Raises UsageError for an invalid file, a Solution whose Definition is
    not among the files or not the op's, a name that is taken, or a folder that cannot be written; DeclarationError if
    the result would not load; it is removed.
    """
    files, to = read_files(paths), to.expanduser().resolve()
    if to.exists() and not to.is_dir():
        raise UsageError(f"{to} is not a folder", "--to takes a folder of kernels, as `kernels/` is")
    if not files.solutions:
        raise UsageError("the files have no Solution", "name one, or the folder of a data set")
    if name and len(files.solutions) != 1:
        raise UsageError(f"--name names one kernel, and there are {len(files.solutions)} Solutions", "import one")
    imported = Imported(to)
    for solution in files.solutions:
        if solution.definition not in files.definitions:
            message = f"the Definition {solution.definition[:80]!r} is not among the files"
            raise UsageError(message, "name its file, too")
        _import_kernel(_catalog(to), solution, files.definitions[solution.definition], op, name, imported)
    return imported


def _catalog(root: Path) -> Catalog:
    roots = default_roots()
    return load_catalog(roots if root in roots or not root.is_dir() else (*roots, root))


def _import_kernel(
    catalog: Catalog, solution: Solution, definition: Definition, op_name: str, given: str, imported: Imported
) -> None:
    op = find_op(catalog, op_name)
    match(op, definition)  # raises if its tensors are not this op's
    name = given or kernel_name(solution, op_name)
    taken = {label for entry in catalog.entries.values() for label in (entry.kernel.name, *entry.kernel.presets)}
    if name in taken:
        raise UsageError(f"there is a kernel {name}", "choose another name with --name")
    loaded = LoadedOp(op, catalog.op_folders[op_name])
    folder = imported.root / op_name / safe_name(folder_of(name, op_name))

    def check(made: Path) -> None:
        kernel = load_kernel(made, loaded)
        if isinstance(kernel, Broken):
            raise DeclarationError(f"the kernel does not load: {kernel.reason}", "choose another name with --name")

    write_folder(folder, kernel_files(solution, definition, name), check)
    imported.kernels.append(name)
    imported.folders.append(folder)


_CPU = "cpu"
_MODULES = {"nvidia-cutlass-dsl": "cutlass"}  # of packages that a Solution may name instead
_EXTRAS = {need.module: need.extra for need in CuteKernel.requires}


def kernel_files(solution: Solution, definition: Definition, name: str) -> dict[Path, bytes]:
    """Returns the files of a kernel's folder."""
    made = {"variant.py": _declaration(solution, name), "kernel.py": _binding(solution.spec, definition)}
    return solution_files(solution) | {Path(path): text.encode() for path, text in made.items()}


def kernel_name(solution: Solution, op: str) -> str:
    """The Solution's name after the op's, cut if long; UsageError if it has no letter or digit."""
    plain = safe_name(solution.name).lower().replace("_", "-").replace(".", "-").replace("+", "-")
    plain = "-".join(filter(None, plain.split("-")))
    if not plain:
        raise UsageError(f"the Solution's name {solution.name[:40]!r} has no letter", "name the kernel with --name")
    full = plain if plain.startswith(f"{op.lower()}-") else f"{op}-{plain}"
    if len(full) <= MOST_CHARACTERS and len(solution.name) <= MOST_CHARACTERS:
        return full
    # The digest keeps cut names distinct.
    digest = hashlib.sha256(solution.name.encode()).hexdigest()[:8]
    return f"{full[: MOST_CHARACTERS - 9].rstrip('-')}-{digest}"


def _declaration(solution: Solution, name: str) -> str:
    spec = solution.spec
    idea = one_line(solution.description or f"{solution.name}, by {solution.author}")
    devices = ["cuda", _CPU] if _CPU in spec.target_hardware and spec.language not in {"triton", "cuda"} else ["cuda"]
    needs = "".join(f"Requirement({literal(module)}, extra={literal(extra)}), " for module, extra in _needs(spec))
    return f"""\
{literal(idea)}

from gdnbench import Requirement, TorchKernel

kernel = TorchKernel(
    name={literal(name)},
    runs_on=({"".join(f"{literal(each)}, " for each in devices)}),
    requires=({needs}),
)
"""


def _needs(spec: BuildSpec) -> list[tuple[str, str]]:
    """Returns the required modules, each with its extra of gdnbench; C++ libraries are up to the compiler."""
    if spec.is_python:
        named = (_MODULES.get(each, each) for each in (spec.language, *(spec.dependencies or ())))
        ours = {"python", "torch", "triton"}
        modules = [each for each in dict.fromkeys(named) if each.isidentifier() and each not in ours]
        return [(module, _EXTRAS.get(module, "")) for module in modules]
    return [("tvm_ffi", "exchange")] if spec.binding != "torch" else [("ninja", "exchange")]


def _binding(spec: BuildSpec, definition: Definition) -> str:
    inputs, outputs = (repr(list(names)) for names in (definition.inputs, definition.outputs))
    return f"""\
{literal(one_line(f"Calls {spec.entry_name} of {spec.entry_file} in the order of the Definition."))}

from pathlib import Path

from gdnbench.exchange.imported import solution_binder

bind = solution_binder(Path(__file__).parent, inputs={inputs}, outputs={outputs})
"""
