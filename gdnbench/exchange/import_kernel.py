"""A Solution as a kernel's folder: a declaration, a `bind` that calls it, and its unchanged sources."""

from __future__ import annotations

import hashlib
from pathlib import Path

from gdnbench.errors import UsageError
from gdnbench.exchange.dataset import safe_name
from gdnbench.exchange.kept import literal, one_line, solution_files
from gdnbench.exchange.schema import BuildSpec, Definition, Solution
from gdnbench.model.name import MOST_CHARACTERS

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
