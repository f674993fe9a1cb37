"""A Definition as an op's folder and a Solution as a kernel's folder: declarations beside their unchanged documents.

Texts from a file are written as literals, never as code; the reference is a file of its own, which only workers run.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from gdnbench.errors import UsageError
from gdnbench.exchange.definition import axis_names
from gdnbench.exchange.match import (
    BLOBS_FOLDER,
    WORKLOADS_FILE,
    definition_files,
    literal,
    one_line,
    read_blob,
    solution_files,
)
from gdnbench.exchange.schema import (
    DTYPE_NAMES,
    BuildSpec,
    DefinedTensor,
    Definition,
    Solution,
    Trace,
    as_lines,
    check_path,
    safe_name,
)
from gdnbench.model.declaration import CONTEST_TOLERANCE, FACTS, MOST_CHARACTERS, Dtype

_DTYPES: dict[str, Dtype] = {theirs: ours for ours, theirs in DTYPE_NAMES.items()}
_SUITE = "workloads"
_MOST_VERIFIED = 4


def op_files(definition: Definition, name: str, workloads: Sequence[tuple[Trace, Path]]) -> dict[Path, bytes]:
    """Returns the files of an op's folder; each workload has the folder that its paths are relative to.

    Raises UsageError for an element type, or scalars, that gdnbench's ops do not have, or inputs outside that folder.
    """
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
    """Returns the suite of all lines, from its file, and one of the smallest to verify."""
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
    """Returns a row for each setting of the variable axes (of all, if none varies), weighted by its number of lines."""
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
    """Reads the files of a workload's inputs, which must be in the data set's folder."""
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
    """Returns the Solution's name after the op's, unless it begins with that; long names are cut.

    Raises UsageError if the name has no letter or digit.
    """
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
