"""What kernels must keep: `--fail-on spills,regs>64,smem>48K,occupancy<50`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gdnbench.errors import ExitCode, UsageError
from gdnbench.inspection.anatomy import Anatomy
from gdnbench.inspection.examine import Failure, Finding
from gdnbench.inspection.quantities import QUANTITIES

_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "%": 1}
_RULE = re.compile(r"([a-z_]+)\s*(?:(>=|<=|==|!=|>|<)\s*(\d+(?:\.\d+)?)\s*([KM%]?)B?)?")
_HINT = (
    f"a rule is NAME, which means NAME>0, or NAME, one of {' '.join(_COMPARISONS)}, and a number (K is 1024), "
    f"as in spills,regs>64,smem>48K,occupancy<50; names: {', '.join(QUANTITIES)}"
)


@dataclass(frozen=True)
class Rule:
    """What must not be.

    Attributes:
        text: as the user wrote it.
        key: the quantity.
        sign: how it is compared.
        bound: with what.
    """

    text: str
    key: str
    sign: str
    bound: float

    def value(self, anatomy: Anatomy) -> float | None:
        """The quantity, where it breaks the rule; what is not known breaks none."""
        value = QUANTITIES[self.key].read(anatomy)
        return value if value is not None and _COMPARISONS[self.sign](value, self.bound) else None


@dataclass(frozen=True)
class Breach:
    """A kernel that breaks a rule.

    Attributes:
        anatomy: the kernel.
        rule: the rule.
        value: the quantity that does.
    """

    anatomy: Anatomy
    rule: Rule
    value: float

    def __str__(self) -> str:
        subject = self.anatomy.subject
        title = QUANTITIES[self.rule.key].title
        return f"{subject.name} {subject.shape} {self.anatomy.arch}: {self.rule.text}: {title}: {self.value:.4g}"


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Reads `--fail-on`; no rules from an empty one.

    Raises:
        UsageError: for one that is not understood, saying what is.
    """
    return tuple(_parse(term.strip(), text) for term in text.split(",")) if text.strip() else ()


def _parse(term: str, text: str) -> Rule:
    found = _RULE.fullmatch(term)
    if found is None:
        raise UsageError(f"--fail-on {text}: `{term}` is not a rule", _HINT)
    key, sign, bound, unit = found.groups(default="")
    if key not in QUANTITIES:
        raise UsageError(f"--fail-on {text}: there is no {key}", _HINT)
    return Rule(term, key, sign or ">", float(bound or 0) * _UNITS[unit])


def breaches(findings: Iterable[Finding], rules: Sequence[Rule]) -> tuple[Breach, ...]:
    """Who breaks what."""
    return tuple(
        Breach(finding, rule, value)
        for finding in findings
        if isinstance(finding, Anatomy)
        for rule in rules
        if (value := rule.value(finding)) is not None
    )


def exit_code(findings: Iterable[Finding], broken: Sequence[Breach]) -> ExitCode:
    """6 if a kernel did not build, else 1 if one breaks a rule."""
    if any(isinstance(finding, Failure) for finding in findings):
        return ExitCode.BUILD
    return ExitCode.REGRESSION if broken else ExitCode.OK
