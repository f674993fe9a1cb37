"""A case's role in a run, its clocks, what bounds it, its status, and the results of gates and tests of invariance."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, get_args

from gdnbench.errors import ExitCode

Timer = Literal["nvbench", "cpu", "cupti", "graph", "events", ""]
Clock = Literal["cupti", "graph", "events"]  # a clock that a run can read beside its own timer
Bound = Literal["", "copy", "flops"]  # what bounds a workload from below

CLOCKS: tuple[Clock, ...] = get_args(Clock)


class Role(StrEnum):
    """Why a case is in a run."""

    KERNEL = "kernel"
    BASELINE = "baseline"  # the others are compared with it
    CONTROL = "control"  # the baseline once more: its apparent difference is the run's noise floor
    FLOOR = "floor"  # a bound on what is possible
    ABLATION = "ablation"  # wrong on purpose: what remains of a kernel's time without a part of its work

    @property
    def does_the_work(self) -> bool:
        """Whether the case claims to compute the op, as neither floors nor ablations do."""
        return self not in {Role.FLOOR, Role.ABLATION}


class Status(StrEnum):
    """How a case ended. Only `OK` has a time."""

    OK = "ok"  # verified, and measured where a device is available
    MISSING = "missing"  # needs a module that is not installed
    BROKEN = "broken"  # its declaration or its implementation could not be loaded
    BUILD_FAILED = "build-failed"  # the compiler rejected it
    WRONG_NUMBERS = "wrong-numbers"  # outside the gates around the oracle
    UNWRITTEN = "unwritten-output"  # left part of an output unwritten
    CHANGED_INPUT = "changed-input"  # wrote to a read-only input
    UNSAFE = "unsafe"  # an access out of bounds, a read of unwritten memory, a race, a misused barrier
    TAMPERS = "tampers"  # interferes with what it is verified or timed with
    WRONG_WHEN_TIMED = "wrong-when-timed"  # right when verified, wrong when timed
    IMPLAUSIBLE = "implausible"  # faster than its least traffic and operations allow
    WRONG_STREAM = "wrong-stream"  # launched work on another stream than the given one
    SYNCHRONISES = "synchronises"  # waits or allocates inside, which cannot be timed or captured
    CRASHED = "crashed"  # its process died, or the GPU reported a fault
    TIMED_OUT = "timed-out"  # a step exceeded its time limit
    FAILED = "failed"  # raised an exception
    UNSUPPORTED = "unsupported"  # cannot run on this device
    NOT_RUN = "not-run"  # the run was stopped before its turn

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a run with such a case."""
        return _EXIT_CODES.get(self, ExitCode.PARTIAL)

    @property
    def is_failure(self) -> bool:
        """Whether something went wrong; a case that is missing or unsupported here did not fail."""
        return self not in {Status.OK, Status.MISSING, Status.UNSUPPORTED}


_EXIT_CODES = {
    Status.OK: ExitCode.OK,
    Status.MISSING: ExitCode.OK,
    Status.UNSUPPORTED: ExitCode.OK,
    Status.BUILD_FAILED: ExitCode.BUILD,
    Status.BROKEN: ExitCode.BUILD,
    Status.WRONG_NUMBERS: ExitCode.WRONG_NUMBERS,
    Status.UNWRITTEN: ExitCode.WRONG_NUMBERS,
    Status.CHANGED_INPUT: ExitCode.WRONG_NUMBERS,
    Status.UNSAFE: ExitCode.WRONG_NUMBERS,
    Status.WRONG_WHEN_TIMED: ExitCode.WRONG_NUMBERS,
    Status.IMPLAUSIBLE: ExitCode.WRONG_NUMBERS,
    Status.TAMPERS: ExitCode.WRONG_NUMBERS,
}


@dataclass(frozen=True)
class WrongElements:
    """The elements of a tensor that a gate refuses: `count` of `of`.

    `got` and `expected` are the values at `GateResult.where`, None for an element that was never written and where any
    value would do. `spread` tells where the elements are, axis by axis: `HV 4-7 of 8; V 0 of 128; every B`.
    """

    count: int
    of: int
    got: float | None
    expected: float | None
    spread: str

    def __str__(self) -> str:
        values = [f"got {self.got:.6g}"] if self.got is not None else []
        values += [f"expected {self.expected:.6g}"] if self.expected is not None else []
        return "; ".join([*filter(None, [", ".join(values)]), f"{self.count:,} of {self.of:,} wrong", self.spread])


@dataclass(frozen=True)
class GateResult:
    """The result of one gate, `output within 1 ulp + 1e-05`, on one kind of inputs, `saturated-gates`."""

    gate: str
    scenario: str
    worst: float  # the largest error, in the unit of `limit`, the largest error that passes
    limit: float
    where: str  # index of the worst element, as text; empty where no element stands out
    status: Status  # OK, or the status that a failure here gives the case
    wrong: WrongElements | None = None  # None if the gate passed, or the run is too old to have them
    told: str = ""  # what is wrong, where that is not a number; of wrong elements, the mistake that explains them

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", Status(self.status))

    @property
    def passed(self) -> bool:
        """Whether the gate passed."""
        return self.status is Status.OK

    @property
    def reason(self) -> str:
        """Why the gate failed, in a line."""
        if self.told and not self.wrong:
            return f"{self.told} ({self.scenario} inputs)"
        if self.limit == 0:
            error = f"fails for {self.worst:.0f} elements, first at {self.where}"
        else:
            error = f"error {self.worst:.3g}, at most {self.limit:g} passes, worst at {self.where}"
        elements = f": {self.wrong}" if self.wrong else ""
        mistake = f"; {self.told}" if self.told else ""
        return f"{self.gate}: {error}{elements}{mistake} ({self.scenario} inputs)"


@dataclass(frozen=True)
class LengthMark:
    """How far sequences of one kind are off after so many tokens; errors are relative, in the 2-norm.

    Those of the last 64 tokens: of the outputs, and of the states after each call. `emulated_*` are of the recurrence
    in float64 that rounds the state as the op stores it, and the output. `gate_share` is the largest error of one call
    from the kernel's own state, of what the op's gates allow.
    """

    profile: str
    keys: str  # isotropic, or alike
    state_type: str  # as torch names it: float32, bfloat16, float16
    tokens: int
    state_error: float
    emulated_state_error: float
    output_error: float
    emulated_output_error: float
    largest_state: float
    gate_share: float


Invariance = Literal["batch", "order", "append", "chunking", "split", "rerun"]
"""A kind of invariance. A kernel that has it gives a sequence the same bits, whatever

- `batch`: else is in the batch, and however much;
- `order`: its place in the batch, and its slot in the pool;
- `append`: tokens follow, for the outputs before them;
- `chunking`: part of it was another call's, from whose state this one begins;
- `split`: the kernel's params are, by which long sequences are cut;
- `rerun`: ran before: the same launch once more.
"""

INVARIANCES: tuple[Invariance, ...] = get_args(Invariance)
PATH: Literal["path"] = "path"  # what `--path` compares, which nothing claims: calls of a kernel of single steps
GATE_SUFFIX = " invariance"
"""Behind a claimed kind in the name of its gate: `batch invariance`."""

NEED_SEQUENCES: frozenset[Invariance] = frozenset(INVARIANCES) - {"split", "rerun"}


@dataclass(frozen=True)
class InvarianceResult:
    """What one kind of invariance was found to be of a kernel at a workload.

    `differing` of `of` elements that had to have the same bits have others, in the `pair` of launches where most do;
    0 if all `pairs` agree. Nothing was compared if `skipped` says why.
    """

    kind: Invariance | Literal["path"]
    claimed: bool
    pair: str = ""  # `B=1 | B=8`
    pairs: int = 0
    differing: int = 0
    of: int = 0
    by_tensor: str = ""  # how many differ in each: `output 12 of 1,024; new_state 0 of 16,384`
    first: str = ""  # the first element that differs, `output[0, 0, 3, 5]`, and both values
    # Largest difference, where 1 is what the op's gate lets an element differ from the oracle; None if not computed
    in_gates: float | None = None
    between: str = ""  # what the kernel itself does otherwise in one of the two: `LANES=8 | LANES=16`
    skipped: str = ""

    @property
    def share(self) -> float:
        """The share of compared elements that differ."""
        return self.differing / self.of if self.of else 0.0

    @property
    def reason(self) -> str:
        """Why a claim does not hold, in a line."""
        between = f"; between them: {self.between}" if self.between else ""
        return (
            f"claims {self.kind} invariance, and {self.pair} differ in the bits of {self.differing:,} of {self.of:,} "
            f"elements, the first {self.first}{between}"
        )
