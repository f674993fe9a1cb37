"""The commands that show a case's failure again."""

from __future__ import annotations

from gdnbench.model.case import Case


def repeat_words(case: Case, seed: int) -> list[str]:
    """The command that verifies a case on the same inputs again: `gdnbench verify decode-x --shape B=3 --seed 7`.

    Args:
        case: the case that failed.
        seed: of the inputs, as `verify` or `run` used it.
    """
    return ["gdnbench", "verify", case.label, *case.workload.options, "--seed", str(seed)]


def rerun_words(case: Case, gpu: str) -> list[str]:
    """The command that measures a case again: `gdnbench run --kernel decode-x --shape B=3 --gpu h200`.

    Args:
        case: the case that failed while it was measured.
        gpu: the GPU's short name, or `cpu`.
    """
    return ["gdnbench", "run", "--kernel", case.label, *case.workload.options, "--gpu", gpu]
