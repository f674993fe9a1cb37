"""Makes an op's folder of a Definition and a kernel's of a Solution: declarations beside their unchanged documents.

Runs no code in the files. Their texts are written as literals, never as code; the reference is a file of its own, which
only workers run.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from gdnbench.catalog.catalog import KERNELS_VARIABLE, Catalog, default_roots, find_op, load_catalog
from gdnbench.catalog.entry import Broken
from gdnbench.catalog.load import LoadedOp, load_kernel, load_op
from gdnbench.catalog.new import folder_of, write_folder
from gdnbench.errors import DeclarationError, GdnbenchError, UsageError
from gdnbench.exchange.match import (
    BLOBS_FOLDER,
    DEFINITION_FILE,
    WORKLOADS_FILE,
    axis_names,
    definition_files,
    literal,
    match,
    one_line,
    read_blob,
    solution_files,
    stored_definition,
)
from gdnbench.exchange.schema import (
    DTYPE_NAMES,
    BuildSpec,
    DataSetFiles,
    DefinedTensor,
    Definition,
    Solution,
    Trace,
    as_lines,
    check_path,
    read_files,
    safe_name,
)
from gdnbench.model.declaration import CONTEST_TOLERANCE, FACTS, MOST_CHARACTERS, Dtype


@dataclass
class Imported:
    """The result of an import: names of new ops and kernels, and their folders in the folder of kernels, `root`."""

    root: Path
    ops: list[str] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def next_steps(self) -> list[str]:
        """Commands that continue with the import."""
        is_elsewhere = bool(self.ops or self.kernels) and self.root not in default_roots()
        steps = [f"export {KERNELS_VARIABLE}={quote(str(self.root))}"] if is_elsewhere else []
        steps += [f"gdnbench verify {' '.join(self.kernels)}"] if self.kernels else []
        return steps or ["gdnbench list"]


def import_files(paths: list[Path], to: Path, op: str = "", name: str = "") -> Imported:
    """Reads files, or folders of data sets, and makes an op of a Definition, a kernel of a Solution.

    `op` is one of the catalog for the Solutions, or empty for one made from their Definition; `name` is the kernel's,
    for a single Solution. Raises UsageError for an invalid file, a Solution whose Definition is unknown, a name that is
    taken, or a folder that cannot be written; DeclarationError if the result would not load; it is removed.
    """
    files, to = read_files(paths), to.expanduser().resolve()
    if to.exists() and not to.is_dir():
        raise UsageError(f"{to} is not a folder", "--to takes a folder of kernels, as `kernels/` is")
    if name and len(files.solutions) != 1:
        raise UsageError(f"--name names one kernel, and there are {len(files.solutions)} Solutions", "import one")
    imported, catalog = Imported(to), _catalog(to)
    if not (files.definitions or files.solutions):
        raise UsageError("the files have no Definition and no Solution", "name one, or the folder of a data set")
    if op:
        find_op(catalog, op)
    else:
        for definition in files.definitions.values():
            _import_op(to, definition, files, imported)
        catalog = _catalog(to)
    folders = [folder for folder in catalog.op_folders.values() if (folder / DEFINITION_FILE).is_file()]
    known = {each.name: each for each in (*map(stored_definition, folders), *files.definitions.values())}
    try:
        for solution in files.solutions:
            if solution.definition not in known:
                message = f"the Definition {solution.definition[:80]!r} is not among the files"
                raise UsageError(message, "name its file, too")
            _import_kernel(catalog, solution, known[solution.definition], op, name, imported)
            catalog = _catalog(to)
    except GdnbenchError:
        for made in imported.ops:  # those that have none of their kernels, so that the import can be repeated
            if not any(to / made in folder.parents for folder in imported.folders):
                shutil.rmtree(to / made)
        raise
    return imported


def _catalog(root: Path) -> Catalog:
    roots = default_roots()
    return load_catalog(roots if root in roots or not root.is_dir() else (*roots, root))


def op_name(definition: Definition) -> str:
    """Returns the op's name for a Definition."""
    name = safe_name(definition.name)
    if not name:
        raise UsageError(f"the Definition's name {definition.name[:40]!r} has no letter", "rename it")
    return name


def _import_op(to: Path, definition: Definition, files: DataSetFiles, imported: Imported) -> None:
    name = op_name(definition)
    if name in _catalog(to).ops:
        folder = _catalog(to).op_folders[name]
        if (folder / DEFINITION_FILE).is_file() and stored_definition(folder) == definition:
            imported.notes.append(f"the op {name} was imported before, and stays as it is")
            return
        raise UsageError(f"there is an op {name}: {folder}", "with --op its kernels are added to that")
    lines = [(trace, root) for trace, root in files.workloads if trace.definition == definition.name]
    folder = to / name
    write_folder(folder, op_files(definition, name, lines), _check_op)
    imported.ops.append(name)
    imported.folders.append(folder)
    if definition.constraints:
        imported.notes.append(f"{name}: its constraints are stored in {DEFINITION_FILE}, and not checked")


def _check_op(folder: Path) -> None:
    loaded = load_op(folder)
    if isinstance(loaded, Broken):
        raise DeclarationError(f"the op does not load: {loaded.reason}", "what its Definition says contradicts itself")


def _import_kernel(
    catalog: Catalog, solution: Solution, definition: Definition, op_given: str, name_given: str, imported: Imported
) -> None:
    own = op_given or op_name(definition)
    if own not in catalog.ops:
        raise UsageError(f"there is no op {own} for {solution.name[:80]}", "name the Definition's file, too, or --op")
    op = catalog.ops[own]
    if op_given:
        match(op, definition)  # raises if its tensors are not this op's
    name = name_given or kernel_name(solution, own)
    taken = {label for entry in catalog.entries.values() for label in (entry.kernel.name, *entry.kernel.presets)}
    if name in taken:
        raise UsageError(f"there is a kernel {name}", "choose another name with --name")
    loaded = LoadedOp(op, catalog.op_folders[own])
    folder = imported.root / own / safe_name(folder_of(name, own))

    def check(made: Path) -> None:
        kernel = load_kernel(made, loaded)
        if isinstance(kernel, Broken):
            raise DeclarationError(f"the kernel does not load: {kernel.reason}", "choose another name with --name")

    write_folder(folder, kernel_files(solution, definition, name), check)
    imported.kernels.append(name)
    imported.folders.append(folder)


_DTYPES: dict[str, Dtype] = {theirs: ours for ours, theirs in DTYPE_NAMES.items()}
_SUITE = "workloads"
_MOST_VERIFIED = 4


def op_files(definition: Definition, name: str, workloads: Sequence[tuple[Trace, Path]]) -> dict[Path, bytes]:
    """The files of an op's folder; UsageError for element types or scalars that ops here do not have."""
    lines = [trace for trace, _ in workloads if all(size > 0 for size in trace.workload.axes.values())]
    for line in lines:
        if missing := [axis for axis in definition.variable_axes if axis not in line.workload.axes]:
            raise UsageError(f"the workload {line.workload.uuid[:40]} lacks the axis {missing[0]}", "correct the file")
    files = definition_files(definition)
    files[Path("op.py")] = _op(definition, name, lines).encode()
    files[Path("numerics.py")] = _numerics(definition, lines).encode()
    if lines:
        files[Path(f"{_SUITE}.csv")] = _suite(definition, lines).encode()
        files[Path(WORKLOADS_FILE)] = as_lines(lines)
    for trace, root in workloads:
        files |= _blobs(trace, root)
    return files


def _op(definition: Definition, name: str, lines: Sequence[Trace]) -> str:
    names = axis_names(definition)
    title = one_line(definition.description or definition.name)
    variable = definition.variable_axes
    first = lines[0].workload.axes if lines else {}
    axes = []
    for axis, defined in definition.axes.items():
        size = first.get(axis, 1) if defined.value is None else defined.value
        limits = "" if defined.value is None else f", compile_time=True, terse=True, least={size}, most={size}"
        doc = one_line(defined.description or axis)
        axes.append(f"            Axis({literal(names[axis])}, default={size}, doc={literal(doc)}{limits}),\n")
    sizes = "".join(f"{literal(names[each])}, " for each in variable)
    along = f"        x={literal(names[variable[0]])},\n        size=({sizes}),\n" if variable else ""
    scalars = [each for each, defined in definition.inputs.items() if defined.shape is None]
    if wrong := [each for each in scalars if definition.inputs[each].dtype != "float32"]:
        text = f"{definition.name}: the scalar {wrong[0]} is {definition.inputs[wrong[0]].dtype[:20]}"
        raise UsageError(text, "gdnbench's ops have fp32 scalars")
    inputs = {each: defined for each, defined in definition.inputs.items() if defined.shape is not None}
    return f"""\
{literal(title)}

from gdnbench import Axis, ExactGate, Op, RmsGate, Shape, TensorSpec, UlpGate, WorkloadSpec

op = Op(
    name={literal(name)},
    title={literal(title)},
    workloads=WorkloadSpec(
        axes=(
{"".join(axes)}        ),
{along}    ),
    inputs=(
{_tensors(inputs, names)}    ),
    scalars=({"".join(f"{literal(each)}, " for each in scalars)}),
    outputs=(
{_tensors(definition.outputs, names)}    ),
    # The contest's tolerance for each element, and for each tensor as a whole, which zeros in the place of small
    # outputs do not pass. A RoundoffGate is far stricter: CONTRIBUTING, Add an op.
    gates=(
{_gates(definition)}    ),
    suites={{
{_suites(definition, lines)}    }},
)
"""


def _tensors(tensors: dict[str, DefinedTensor], names: dict[str, str]) -> str:
    lines = []
    for name, defined in tensors.items():
        if defined.dtype not in _DTYPES:
            raise UsageError(f"{name} is {defined.dtype[:20]}, which gdnbench has not", f"it has {', '.join(_DTYPES)}")
        dims = "".join(f"{literal(names[axis])}, " for axis in defined.shape or ())
        lines.append(f"        TensorSpec({literal(name)}, ({dims.rstrip()}), {literal(_DTYPES[defined.dtype])}),\n")
    return "".join(lines)


def _gates(definition: Definition) -> str:
    lines = []
    for name, defined in definition.outputs.items():
        bits = FACTS[_DTYPES[defined.dtype]].significand_bits
        if not bits:
            lines.append(f"        ExactGate({literal(name)}),\n")
            continue
        ulps = max(1.0, CONTEST_TOLERANCE * 2 ** (bits - 1))
        lines.append(f"        UlpGate({literal(name)}, ulps={ulps:g}, atol={CONTEST_TOLERANCE}),\n")
        lines.append(f"        RmsGate({literal(name)}, limit={max(CONTEST_TOLERANCE, 2.0**-bits):g}),\n")
    return "".join(lines)


def _suites(definition: Definition, lines: Sequence[Trace]) -> str:
    names, variable = axis_names(definition), definition.variable_axes
    if not (lines and variable):
        return ""
    settings = {tuple(line.workload.axes[axis] for axis in variable) for line in lines}
    verified = "".join(
        f"Shape({', '.join(f'{names[axis]}={size}' for axis, size in zip(variable, sizes, strict=True))}), "
        for sizes in sorted(settings)[:_MOST_VERIFIED]
    )
    return f'        "verify": ({verified}),\n        {literal(_SUITE)}: {literal(f"{_SUITE}.csv")},\n'


def _suite(definition: Definition, lines: Sequence[Trace]) -> str:
    names = axis_names(definition)
    columns = definition.variable_axes or list(definition.axes)
    sizes = {axis: each.value for axis, each in definition.axes.items()}
    rows = Counter(tuple({**sizes, **line.workload.axes}[axis] for axis in columns) for line in lines)
    text = [",".join([*(names[axis] for axis in columns), "weight"])]
    text += [",".join(map(str, (*row, count))) for row, count in rows.items()]
    return "\n".join(text) + "\n"


def _numerics(definition: Definition, lines: Sequence[Trace]) -> str:
    digest = hashlib.sha256(as_lines(lines)).hexdigest()[:16]
    return f"""\
{literal(f"Inputs and the float64 oracle of {one_line(definition.name)}: as definition.json and reference.py say.")}

from pathlib import Path

from gdnbench.exchange.imported import ImportedNumerics

WORKLOADS = {literal(digest)}  # of workloads.jsonl, for the op's hash: inputs are as it says

_numerics = ImportedNumerics(Path(__file__).parent)
make_inputs, oracle = _numerics.make_inputs, _numerics.oracle
"""


def _blobs(trace: Trace, root: Path) -> dict[Path, bytes]:
    files = {}
    for given in trace.workload.inputs.values():
        if given.type == "safetensors":
            path = root / check_path(given.path or "", f"workload {trace.workload.uuid[:40]}")
            if not path.resolve().is_relative_to(root.resolve()):
                raise UsageError(f"{path} leads out of the data set", "put the file itself there")
            files[Path(BLOBS_FOLDER, str(given.path))] = read_blob(path)
    return files


_CPU = "cpu"


def kernel_files(solution: Solution, definition: Definition, name: str) -> dict[Path, bytes]:
    """Returns the files of a kernel's folder; raises UsageError for a language that gdnbench does not run."""
    spec = solution.spec
    if spec.language == "tilelang":
        raise UsageError(f"{solution.name[:80]} is in TileLang, which gdnbench does not run", "import the others")
    files = solution_files(solution)
    files[Path("variant.py")] = _declaration(solution, name).encode()
    files[Path("kernel.py")] = _binding(spec, definition).encode()
    return files


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
    devices = ["cuda", _CPU] if _CPU in spec.target_hardware and spec.language in {"python", "cpp"} else ["cuda"]
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
    if spec.language in {"python", "triton"}:
        modules = [each for each in spec.dependencies or () if each.isidentifier() and each not in {"torch", "triton"}]
        return [(module, "") for module in modules]
    return [("tvm_ffi", "exchange")] if spec.binding != "torch" else [("ninja", "exchange")]


def _binding(spec: BuildSpec, definition: Definition) -> str:
    inputs, outputs = (repr(list(names)) for names in (definition.inputs, definition.outputs))
    return f"""\
{literal(one_line(f"Calls {spec.entry_name} of {spec.entry_file} in the order of the Definition."))}

from pathlib import Path

from gdnbench.exchange.imported import solution_binder

bind = solution_binder(Path(__file__).parent, inputs={inputs}, outputs={outputs})
"""
