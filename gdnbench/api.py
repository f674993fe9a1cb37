"""The library: functions timed from Python as `gdnbench run` times them, in workers that import them by their files.

```python
result = gdnbench.compare({"mine": fast, "theirs": slow}, {"x": "bf16[M=4096,K=512]", "w": "bf16[K]"}, against="theirs")
print(result, result["mine"].versus.verdict)
```
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from gdnbench.errors import UsageError
from gdnbench.origin import functions_folder, writing_cache
from gdnbench.verb_table import VERBS

if TYPE_CHECKING:
    import torch

    from gdnbench.model.measurement import Measurement

    Function = Callable[..., Any] | str
    """A function at the top level of a file, or text as on the command line: `torch.nn.functional::silu`."""
    Inputs = Mapping[str, str] | Mapping[str, torch.Tensor]
    """By parameter how a tensor is drawn, `bf16[M=4096,K=512]`, or all tensors as they are."""


class RunOptions(TypedDict, total=False):
    """Options of `gdnbench run`, by their names; `out` is the folder of runs."""

    gpu: str
    shape: str
    rounds: int
    samples: int
    processes: int
    margin: float
    seed: int
    step_limit: float
    quick: bool
    label: str
    out: str | Path


@dataclass(frozen=True)
class ComparedFunctions:
    """What was measured: a row per function and workload. `folder` holds the run, which `gdnbench show` reads.

    A row has its `status`, with a `reason` if that is not `ok`, its `timing` (`time_us`, with an interval from
    `time_lo_us` to `time_hi_us`) and `versus` the reference: `speedup`, from `low` to `high`, and `verdict`.
    """

    folder: Path
    rows: tuple[Measurement, ...]

    def __getitem__(self, name: str) -> Measurement:
        """A function's row, the first of several workloads; KeyError for another name."""
        for row in self.rows:
            if row.case.label == name:
                return row
        raise KeyError(name)

    def __str__(self) -> str:
        """The table that `gdnbench run` prints."""
        from gdnbench.verbs.run_tables import print_run

        with redirect_stdout(io.StringIO()) as printed:
            print_run(self.folder, json=False, csv=False)
        return printed.getvalue()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def compare(
    functions: Mapping[str, Function], inputs: Inputs, *, against: str = "", **options: Unpack[RunOptions]
) -> ComparedFunctions:
    """Measures functions by name, interleaved, and compares times and outputs with those of `against`, or the first.

    Nothing is timed in this process: workers import each function from its file. Raises UsageError for a function that
    they cannot import, as one of a notebook or a closure, or for inputs that are not its parameters; DeclarationError
    for one that fails; and MachineError if nothing can be measured here.
    """
    loader = sys.modules.get("gdnbench.functions.load")
    if loader and loader.is_loading():
        remedy = 'measure below `if __name__ == "__main__":`'
        raise UsageError("a file that workers import to measure its functions measures them itself", remedy)
    if not functions or against not in {"", *functions}:
        known = ", ".join(functions) or "none"
        raise UsageError(f"no function is called {against!r}", f"there are: {known}")
    reference = against or next(iter(functions))
    words = {name: f"{name}={_words_of(name, function)}" for name, function in functions.items()}
    named = [each for name, each in words.items() if name != reference]
    return _run([*named, "--against", words[reference], "--inputs", _inputs_text(inputs)], options)


def bench(function: Function, inputs: Inputs, **options: Unpack[RunOptions]) -> ComparedFunctions:
    """Measures one function alone; see `compare`."""
    name = function if isinstance(function, str) else getattr(function, "__name__", "")
    return compare({name.rpartition("::")[2].strip("_<>") or "function": function}, inputs, **options)


def _words_of(name: str, function: Function) -> str:
    """The function as the command line names it; UsageError if it is not at the top level of a file's module."""
    if isinstance(function, str):
        return function
    qualified = str(getattr(function, "__qualname__", ""))
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    found: Any = module
    for part in qualified.split("."):
        found = getattr(found, part, None)
    file = str(getattr(module, "__file__", None) or "")
    if found is not function or not file.endswith(".py"):
        message = f"{name}: workers cannot import {qualified or f'a {type(function).__name__}'} from a file"
        raise UsageError(message, 'put it at the top level of a .py file; of a library, name it: "torch::neg"')
    return f"{file}::{qualified}"


def _inputs_text(inputs: Inputs) -> str:
    """What `--inputs` is: text for all, or the path of a file with all tensors; UsageError for some of each."""
    texts = [f"{name}={value}" for name, value in inputs.items() if isinstance(value, str)]
    tensors = {name: each.detach().cpu().contiguous() for name, each in inputs.items() if not isinstance(each, str)}
    if texts and tensors:
        raise UsageError("some inputs are text and some are tensors", "give tensors for all, or text for all")
    if not tensors:
        return ",".join(texts)
    from safetensors.torch import save

    content = save(tensors)
    path = functions_folder() / f"given-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
    with writing_cache(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return str(path)


def _run(words: list[str], options: RunOptions) -> ComparedFunctions:
    """Runs the command, which raises as it does for the command line, and reads what it stored."""
    from gdnbench.store.measurements import read_run
    from gdnbench.verbs.base import Listed

    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        words += ([option] if value else []) if isinstance(value, bool) else [option, str(value)]
    typed, sys.argv = sys.argv, ["gdnbench", "run", *words]  # the run stores the command
    try:
        with redirect_stdout(io.StringIO()) as printed:
            Listed(VERBS["run"]).with_options().main([*words, "--quiet", "--json"], "run", standalone_mode=False)
    finally:
        sys.argv = typed
    folder = Path(options.get("out", "results"), json.loads(printed.getvalue())["run"]["run_id"])
    rows = read_run(folder)[1]
    return ComparedFunctions(folder, tuple(row for row in rows if row.role != "control"))
