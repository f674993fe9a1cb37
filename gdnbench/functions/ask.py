"""Has a process of its own make an op of functions: the code of a user runs in workers alone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from gdnbench.errors import DeclarationError, UsageError
from gdnbench.functions.reference import GRAMMAR, FunctionName, parse_functions, parse_tensors
from gdnbench.model.gpu import Gpu
from gdnbench.origin import is_file
from gdnbench.process.channel import encode
from gdnbench.process.worker import Worker
from gdnbench.store.journal import BUILD_STEPS
from gdnbench.workers.supervision import LOG_LINES, worker_environment
from gdnbench.workers.task import START_LIMIT_S


@dataclass(frozen=True)
class FunctionsRequest:
    """Functions to measure as they were typed, all of the same `inputs`; the first is `against`, if that is empty.

    `inputs` are tensors as text, or the path of a safetensors file, whose tensors are taken as they are. `output`,
    `grid` and `block` are of kernels in CUDA C++ files: one grid for all, or one for each in the order typed, that of
    `against` last.
    """

    functions: tuple[str, ...]
    against: str = ""
    inputs: str = ""
    shapes: str = ""
    output: str = ""
    grid: tuple[str, ...] = ()
    block: tuple[str, ...] = ()

    @property
    def given(self) -> str:
        """The path of the file of inputs; empty if they are drawn."""
        return str(Path(self.inputs).resolve()) if self.inputs.endswith(".safetensors") else ""

    def named(self) -> tuple[FunctionName, ...]:
        """The functions, the one that others are compared with first; raises as `parse_functions`."""
        return parse_functions((*filter(None, [self.against]), *self.functions))

    def check(self) -> None:
        """Raises UsageError for what needs no look into a file of Python."""
        named = self.named()
        if self.given and not is_file(Path(self.given)):
            raise UsageError(f"--inputs {self.given}: there is no such file", f"or write {GRAMMAR}")
        if not self.given and (self.inputs or all(each.is_cuda for each in named)):
            parse_tensors(self.inputs, "--inputs", {})
        cuda = [each.title for each in named if each.is_cuda]
        for option, values in (("--grid", self.grid), ("--block", self.block)):
            if values and not cuda:
                raise UsageError(f"{option} is of a kernel in a .cu file, and none is named", f"leave {option} out")
            if cuda and len(values) not in {1, len(cuda)}:
                message = f"{', '.join(cuda)}: {option} is given {len(values)} times"
                raise UsageError(
                    message, "once for all, or once for each: --grid 'M,K//256' --block 256, sizes by name"
                )
        if named[0].is_cuda is not bool(self.output):
            message = f"--output is what a .cu writes that others are compared with, and that is {named[0].title}"
            raise UsageError(message, "say --output y=bf16[M,K]" if named[0].is_cuda else "leave --output out")


@dataclass(frozen=True)
class FunctionsMade:
    """The op: the folder that holds it, its name, the requested kernels, and what they are compared with."""

    root: str
    op: str
    kernels: tuple[str, ...]
    reference: str


@dataclass(frozen=True)
class FunctionsRefused:
    """Why functions cannot be measured; `misnamed` where what was typed does not fit, and the code may."""

    message: str
    hint: str
    misnamed: bool = False


KINDS: Sequence[type[FunctionsMade | FunctionsRefused]] = (FunctionsMade, FunctionsRefused)


def make_functions_op(request: FunctionsRequest, gpu: Gpu | None, step_limit_s: float) -> FunctionsMade:
    """Loads the functions in a process of their own, calls the one they are compared with, and makes the op.

    Raises UsageError for inputs that are not their parameters, and DeclarationError for a function that does not load,
    fails, ends its process or does not end.
    """
    request.check()
    limit_s = START_LIMIT_S + BUILD_STEPS * step_limit_s
    with TemporaryDirectory(prefix="gdnbench-") as folder, Path(folder, "log").open("w+b") as log:
        typed = Path(folder, "request.json")
        typed.write_text(encode(request))
        arguments = [str(typed), "cuda" if gpu else "cpu"]
        with Worker("gdnbench.functions.make", arguments, KINDS, log, worker_environment(gpu)) as worker:
            try:
                answer = worker.receive(time.monotonic() + limit_s)
            except TimeoutError as error:
                message = f"loading and calling the functions did not end in {limit_s:g} s"
                raise DeclarationError(message, "--step-limit sets a tenth of the time for the call") from error
            worker.end()
            ending = f"({worker.describe_end()}): {' | '.join(worker.log_tail(LOG_LINES))}"
    if isinstance(answer, FunctionsMade):
        return answer
    if answer is None:
        raise DeclarationError(f"the process that loads the functions ended {ending}", "see what their files do")
    raise (UsageError if answer.misnamed else DeclarationError)(answer.message, answer.hint)
