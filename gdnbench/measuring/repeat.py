"""The commands that reproduce a case's failure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gdnbench.asked import command_origin
from gdnbench.model.case import Case
from gdnbench.model.workload import Workload

_NONE: Mapping[str, str] = MappingProxyType({})


def repeat_words(case: Case, seed: int, captured: Mapping[str, str] = _NONE) -> list[str]:
    """The command that verifies a case on the same inputs: `gdnbench verify decode-x --shape B=3 --seed 7`."""
    return ["gdnbench", "verify", case.label, *inputs_words(case.workload, captured), "--seed", str(seed)]


def rerun_words(case: Case, gpu: str, captured: Mapping[str, str] = _NONE) -> list[str]:
    """The command that measures a case again: `gdnbench run --kernel decode-x --shape B=3 --gpu h200`."""
    return ["gdnbench", "run", "--kernel", case.label, *inputs_words(case.workload, captured), "--gpu", gpu]


def inputs_words(workload: Workload, captured: Mapping[str, str]) -> list[str]:
    """Options for a workload and its inputs: `--shape B=3 --profile never`, or the captured file of the profile."""
    spec = workload.spec
    if path := captured.get(workload.profile):
        lists = {each.name for each in spec.lists}  # the file has them in full
        pairs = zip(workload.options[::2], workload.options[1::2], strict=True)
        shown = [word for pair in pairs if pair[1].partition("=")[0] not in lists for word in pair]
        elsewhere = command_origin()
        return ["--inputs", (elsewhere.inputs if elsewhere else "") or path, *shown]
    usual = workload.inputs == (spec.profile or next(iter(spec.profiles), ""))
    return [*workload.options, *([] if usual else ["--profile", workload.inputs])]
