"""One check of a kernel that is to be sent, the terms of its checks, and the result of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gdnbench.catalog.catalog import Catalog
from gdnbench.errors import ExitCode
from gdnbench.inspect.quantities import Rule
from gdnbench.measure.exit_code import gravest_code
from gdnbench.model.gpu import Gpu
from gdnbench.model.op import DEFAULT_SUITE, Op, Suite
from gdnbench.process.events import Observer


class CheckStatus(StrEnum):
    """The outcome of a check."""

    PASSED = "passed"
    FAILED = "failed"
    UNCHECKED = "unchecked"  # it cannot be answered here, or the tool or run that would answer it is missing


@dataclass(frozen=True)
class ReadyCheck:
    """One check of a kernel.

    `what` is one sentence without a full stop; `command` shows more, or does what is missing.
    """

    name: str
    status: CheckStatus
    what: str
    command: tuple[str, ...]
    code: ExitCode = ExitCode.OK


def passed(name: str, what: str, command: Sequence[str]) -> ReadyCheck:
    """Makes a check without complaints."""
    return ReadyCheck(name, CheckStatus.PASSED, what, tuple(command))


def failed(name: str, what: str, command: Sequence[str], code: ExitCode) -> ReadyCheck:
    """Makes a check that found something wrong."""
    return ReadyCheck(name, CheckStatus.FAILED, what, tuple(command), code)


def unchecked(name: str, what: str, command: Sequence[str], code: ExitCode) -> ReadyCheck:
    """Makes a check without an answer."""
    return ReadyCheck(name, CheckStatus.UNCHECKED, what, tuple(command), code)


@dataclass(frozen=True)
class Readiness:
    """The result of all checks of a kernel, in the order in which they ran."""

    kernel: str
    op: str
    suite: str
    checks: tuple[ReadyCheck, ...]

    def of_status(self, status: CheckStatus) -> tuple[ReadyCheck, ...]:
        """Returns the checks of a status."""
        return tuple(check for check in self.checks if check.status is status)

    @property
    def is_ready(self) -> bool:
        """Whether every check passed."""
        return len(self.of_status(CheckStatus.PASSED)) == len(self.checks)

    @property
    def exit_code(self) -> ExitCode:
        """0 if ready, else the code of the gravest failure; without failures, that of the gravest unanswered check."""
        wanting = self.of_status(CheckStatus.FAILED) or self.of_status(CheckStatus.UNCHECKED)
        return gravest_code(check.code for check in wanting)

    @property
    def next_command(self) -> tuple[str, ...]:
        """The command of the first failure, else of the first unanswered check, else of the last check."""
        wanting = (*self.of_status(CheckStatus.FAILED), *self.of_status(CheckStatus.UNCHECKED), self.checks[-1])
        return wanting[0].command


CONTEST_SUITE = "contest"


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms by which a kernel is checked.

    `archs` are as `--arch` gives them, empty for those that fit the kernel; `rules` say what no build may do. An empty
    `suite` is the op's contest, or its default suite if it has none; `gpu_asked` is the value of `--gpu`.
    """

    archs: str
    rules: tuple[Rule, ...]
    suite: str
    gpu: Gpu | None
    gpu_asked: str
    step_limit_s: float
    results: Path
    observer: Observer


@dataclass(frozen=True)
class Candidate:
    """A kernel that loaded, by the user's label with params, and the suite that measures it."""

    catalog: Catalog
    op: Op
    label: str
    suite: Suite
    terms: Terms


def choose_suite(op: Op, wanted: str) -> Suite:
    """Returns the suite of a name, by default the contest's if the op has one; raises UnknownNameError."""
    return op.suite(wanted or (CONTEST_SUITE if CONTEST_SUITE in op.suites else DEFAULT_SUITE))
