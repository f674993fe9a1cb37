"""How the numbers of an inspected kernel are written."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from gdnbench.inspection.anatomy import Anatomy
from gdnbench.inspection.examine import Finding
from gdnbench.inspection.quantities import Number

NOTHING_BUILT = "next: mend what the compiler rejects, and inspect again"
STATIC = "counts are static: a loop's body counts once however often it runs"


def number(value: Number | str) -> str:
    """A value, a fraction to three digits; a dash where it is not known."""
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def spilled(anatomy: Anatomy) -> Text:
    """Bytes spilled per thread, red if there are any."""
    count = anatomy.resources.spill_bytes
    return Text(str(count), style="red" if count else "")


def refusals(findings: Sequence[Finding]) -> list[Text]:
    """A line for each kernel whose grid CUDA would refuse."""
    told = {
        f"{finding.subject.name} at {finding.subject.shape}": finding.refused
        for finding in findings
        if isinstance(finding, Anatomy) and finding.refused
    }
    return [Text(f"{name}: {why}", style="red") for name, why in told.items()]


def waves(anatomy: Anatomy) -> str:
    """How often the grid fills the GPU."""
    return number(anatomy.waves)


def described(anatomy: Anatomy) -> str:
    """A kernel in one line: its name, shape, params and what it is written in."""
    subject = anatomy.subject
    params = "".join(f" {name}={value}" for name, value in subject.variant.params.items())
    return f"{subject.name}  {subject.shape}{params}  ({subject.entry.kernel.language}, {anatomy.build.symbol})"
