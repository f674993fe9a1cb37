"""Inspected kernels for programs: a row each, all that is known."""

from __future__ import annotations

from typing import Any

from gdnbench.binary.instruction import listing
from gdnbench.inspection.anatomy import Anatomy
from gdnbench.inspection.difference import Change, Pair
from gdnbench.inspection.examine import Finding
from gdnbench.inspection.quantities import QUANTITIES
from gdnbench.inspection.rules import Breach
from gdnbench.model import Status


def row(finding: Finding, broken: tuple[Breach, ...] = (), *, sass: bool = False) -> dict[str, Any]:
    """One kernel at one shape for one architecture; numbers are missing where it did not build."""
    known = identity(finding)
    if not isinstance(finding, Anatomy):
        return {**known, "status": Status.BUILD_FAILED.value, "reason": finding.error.message}
    texts = [breach.rule.text for breach in broken if breach.anatomy is finding]
    status = Status.UNSUPPORTED if finding.refused else Status.OK
    known |= {"status": status.value, "reason": finding.refused}
    return {**known, "breaks": texts, **_numbers(finding), **_code(finding, sass)}


def identity(finding: Finding) -> dict[str, Any]:
    """What was built, and for which architecture."""
    subject = finding.subject
    return {
        "kernel": subject.variant.kernel,
        "label": subject.name,
        "language": subject.entry.kernel.language,
        "params": dict(subject.variant.params),
        **subject.shape.axes(),
        "arch": finding.arch,
    }


def _numbers(anatomy: Anatomy) -> dict[str, Any]:
    numbers = {key: quantity.read(anatomy) for key, quantity in QUANTITIES.items()}
    device = anatomy.device.name if anatomy.device else ""
    return {**numbers, "limited_by": anatomy.occupancy.limited_by, "waves_on": device}


def _code(anatomy: Anatomy, sass: bool) -> dict[str, Any]:
    mix = anatomy.mix
    known = {
        "symbol": anatomy.build.symbol,
        "cubin": anatomy.build.cubin,
        "mix": dict(mix.families),
        "hints": dict(mix.hints),
        "opcodes": dict(mix.opcodes),
    }
    return known | ({"sass": listing(anatomy.sass)} if sass else {})


def pair_document(pair: Pair, broken: tuple[Breach, ...], *, sass: bool) -> dict[str, Any]:
    """Two kernels and what differs, as JSON has it."""
    document = {
        "before": row(pair.before),
        "after": row(pair.after, broken),
        "same": pair.same,
        "changes": [change_row(change) for change in pair.changes],
    }
    return document | ({"sass_diff": pair.sass_diff()} if sass else {})


def change_rows(pair: Pair) -> list[dict[str, Any]]:
    """What differs, a row each, as CSV has it."""
    return [{**pair_identity(pair), **change_row(change)} for change in pair.changes]


def pair_identity(pair: Pair) -> dict[str, Any]:
    """What is compared, and for which architecture."""
    subject = pair.after.subject
    return {"before": pair.before.subject.name, "after": subject.name, **subject.shape.axes(), "arch": pair.after.arch}


def change_row(change: Change) -> dict[str, Any]:
    """One difference."""
    return {"quantity": change.key, "value_before": change.before, "value_after": change.after}
