"""Finds the forms of copying floors; the run measures the form that is fastest on its GPU.

A form chosen on another GPU may be slower than a kernel, which would then read over 100 % of SOL. So the preflight
times the forms of each floor whose params nobody fixed (`worker/forms.py`), and the run measures the fastest under the
floor's name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from gdnbench.catalog.catalog import Catalog
from gdnbench.measuring.builds import Builds
from gdnbench.measuring.protocol import PreflightVerdicts
from gdnbench.model.case import Case, Variant
from gdnbench.model.kernel import Device
from gdnbench.model.params import Params, ParamValue
from gdnbench.model.status import Role

Forms = Mapping[str, tuple[Variant, ...]]
"""Forms of each case that has several, by case id, the declared one first."""


def find_forms(catalog: Catalog, cases: Sequence[Case], device: Device, measured: Collection[str] = ()) -> Forms:
    """The forms of the cases that have several on a device; a control takes the form of its baseline.

    Cases in `measured` have samples and keep the form of a resumed run's first part.
    """
    found = {}
    for case in cases:
        entry = catalog.entries[case.variant.kernel]
        if device in entry.kernel.devices and case.role is not Role.CONTROL and case.id not in measured:
            found[case.id] = entry.forms(case.variant, case.workload)
    return {case_id: forms for case_id, forms in found.items() if len(forms) > 1}


def in_every_form(cases: Sequence[Case], forms: Forms) -> list[Case]:
    """The cases, those with several forms once in each; all forms of a case have its id."""
    return [replace(case, variant=form) for case in cases for form in forms.get(case.id, (case.variant,))]


def forms_to_try(
    cases: Sequence[Case], forms: Forms, builds: Builds, archs: Sequence[str]
) -> dict[str, tuple[dict[str, ParamValue], ...]]:
    """Params of the forms that compiled and can be launched, by case id, as a task takes them."""
    tried: dict[str, tuple[dict[str, ParamValue], ...]] = {}
    for form in in_every_form([case for case in cases if case.id in forms], forms):
        if builds.can_launch(form, archs):
            tried[form.id] = (*tried.get(form.id, ()), dict(form.variant.params))
    return tried


def as_chosen(cases: Sequence[Case], checked: PreflightVerdicts) -> tuple[Case, ...]:
    """The cases, each in the form that the preflight chose if it has several."""
    return tuple(_as_chosen(case, checked[case.id].params if case.id in checked else {}) for case in cases)


def _as_chosen(case: Case, params: Mapping[str, ParamValue]) -> Case:
    return replace(case, variant=replace(case.variant, params=Params(params))) if params else case


def tell_forms(catalog: Catalog, cases: Sequence[Case]) -> dict[str, str]:
    """Notes on floors that are measured in another form than the one declared for their workload, by case id."""
    told = {}
    for case in cases:
        declared, *others = catalog.entries[case.variant.kernel].forms(case.variant, case.workload)
        if others and case.variant.params != declared.params:
            told[case.id] = f"as {case.variant.params}, faster here than as declared"
    return told
