"""What a history is of: the label, the GPU and the shapes that a user meant, among the stored runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from gdnbench.compare.figure import Figure
from gdnbench.compare.filter import some
from gdnbench.compare.recorded import Recorded
from gdnbench.errors import UnknownNameError, UsageError
from gdnbench.model import CPU, Shape, gpu_slug


def choose_label(runs: Sequence[Recorded], wanted: str) -> str:
    """The label as the runs have it; params may come in another order.

    Raises:
        UnknownNameError: if no run has it, with the nearest that some have.
    """
    labels = list(dict.fromkeys(figure.label for run in reversed(runs) for figure in run.figures))
    if wanted in labels:
        return wanted
    for label in labels:
        if _parts(label) == _parts(wanted):
            return label
    near = get_close_matches(wanted, labels, n=3, cutoff=0.6)
    plain = [label for label in labels if ":" not in label]
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {some(sorted(plain or labels))}"
    raise UnknownNameError(f"no stored run has the kernel {wanted}", hint)


def choose_gpu(runs: Sequence[Recorded], label: str, wanted: str) -> str:
    """The GPU model whose runs are meant: unless one is named, that of the latest run which timed the kernel on a GPU.

    Where none did, it is what the latest run that has the kernel was on.

    Raises:
        UnknownNameError: if no run on that GPU has the kernel, with the GPUs whose runs do.
    """
    having = [run.source.gpu for run in runs if any(figure.label == label for figure in run.figures)]
    if wanted in ("", "auto"):
        timed = [run.source.gpu for run in runs if any(_is_timed(figure, label) for figure in run.figures)]
        return next((gpu for gpu in reversed(timed) if gpu != CPU), (timed or having)[-1])
    slug = wanted.lower() if wanted.lower() in having else gpu_slug(wanted)
    if slug not in having:
        known = ", ".join(dict.fromkeys(having))
        raise UnknownNameError(f"no stored run has {label} on {wanted}", f"there are runs of it on {known}")
    return slug


def check_shapes(runs: Sequence[Recorded], label: str, gpu: str, shapes: Iterable[Shape]) -> None:
    """Refuses a shape that no run has the kernel at.

    Raises:
        UnknownNameError: with the shapes that there are.
    """
    known = sorted({figure.shape for run in of_gpu(runs, gpu) for figure in run.figures if figure.label == label})
    for shape in shapes:
        if shape not in known:
            told = some([str(each) for each in known])
            raise UnknownNameError(f"no stored run has {label} at {shape} on {gpu}", f"there are {told}")


def check_margin(margin: float) -> None:
    """Refuses a margin that is none.

    Raises:
        UsageError: unless it lies between 0 and 1.
    """
    if not 0 <= margin < 1:
        raise UsageError(f"--margin {margin}: a margin lies between 0 and 1", "0.01 is one percent")


def of_op(runs: Sequence[Recorded], op: str) -> list[Recorded]:
    """The runs of one op."""
    return [run for run in runs if run.op == op]


def of_gpu(runs: Sequence[Recorded], gpu: str) -> list[Recorded]:
    """The runs on one GPU model."""
    return [run for run in runs if run.source.gpu == gpu]


def _is_timed(figure: Figure, label: str) -> bool:
    return figure.label == label and math.isfinite(figure.time_us)


def _parts(label: str) -> tuple[str, frozenset[str]]:
    name, *settings = label.split(":")
    return name, frozenset(settings)
