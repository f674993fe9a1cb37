"""One check of a kernel that is to be sent, and what all of them say together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gdnbench.errors import ExitCode
from gdnbench.measuring.exit_code import gravest_code


class CheckStatus(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    UNCHECKED = "unchecked"  # it cannot be answered here, or what would answer it is missing


@dataclass(frozen=True)
class Check:
    """One check of a kernel.

    Attributes:
        name: what was looked at, in a word.
        status: how it ended.
        what: what was found, in one sentence without a full stop.
        command: the words of the command that shows more, or that does what is missing.
        code: the exit code that it calls for; OK if it passed.
    """

    name: str
    status: CheckStatus
    what: str
    command: tuple[str, ...]
    code: ExitCode = ExitCode.OK


def passed(name: str, what: str, command: Sequence[str]) -> Check:
    """A check without complaints."""
    return Check(name, CheckStatus.PASSED, what, tuple(command))


def failed(name: str, what: str, command: Sequence[str], code: ExitCode) -> Check:
    """A check that found something wrong."""
    return Check(name, CheckStatus.FAILED, what, tuple(command), code)


def unchecked(name: str, what: str, command: Sequence[str], code: ExitCode) -> Check:
    """A check without an answer."""
    return Check(name, CheckStatus.UNCHECKED, what, tuple(command), code)


@dataclass(frozen=True)
class Readiness:
    """What all checks say of a kernel.

    Attributes:
        kernel: its label.
        op: its op.
        suite: the suite that it is to be measured by.
        checks: in the order in which they ran.
    """

    kernel: str
    op: str
    suite: str
    checks: tuple[Check, ...]

    def of_status(self, status: CheckStatus) -> tuple[Check, ...]:
        """The checks that ended so."""
        return tuple(check for check in self.checks if check.status is status)

    @property
    def is_ready(self) -> bool:
        """Whether every check passed."""
        return len(self.of_status(CheckStatus.PASSED)) == len(self.checks)

    @property
    def exit_code(self) -> ExitCode:
        """0 if it is ready, else the code of the gravest failure; without failures, that of what is not checked."""
        wanting = self.of_status(CheckStatus.FAILED) or self.of_status(CheckStatus.UNCHECKED)
        return gravest_code(check.code for check in wanting)

    @property
    def next_command(self) -> tuple[str, ...]:
        """The first failure's command, else the first of what is not checked, else that which tells the last result."""
        wanting = (*self.of_status(CheckStatus.FAILED), *self.of_status(CheckStatus.UNCHECKED), self.checks[-1])
        return wanting[0].command
