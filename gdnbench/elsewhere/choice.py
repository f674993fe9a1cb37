"""Where a command runs: here, or on the one target that has its GPU."""

from __future__ import annotations

from gdnbench.elsewhere.targets import NamedTarget, load_targets, targets_with, told
from gdnbench.elsewhere.trust import check_trusted
from gdnbench.errors import GpuNotFoundError, UsageError
from gdnbench.machine import gpus
from gdnbench.machine.gpus import names_model
from gdnbench.model.gpu import CPU


def choose_target(gpu: str) -> NamedTarget | None:
    """The target for `--gpu`, where `--on` names none: a GPU here comes first, else the one target that has the model.

    Args:
        gpu: as `--gpu` takes it.

    Returns:
        The target; None to run here.

    Raises:
        GpuNotFoundError: if targets are known, and none has the model.
        UsageError: if several have it, a `gdnbench.toml` is wrong, or it is a project's that was not confirmed.
    """
    if not names_model(gpu):
        return None
    try:
        gpus.select_gpu(gpu, gpus.list_gpus())
    except GpuNotFoundError as error:
        having = targets_with(gpu)
        if len(having) == 1:
            check_trusted(having[0], gpu)
            return having[0]
        if having:
            message = f"{len(having)} targets have a GPU {gpu!r}: {told(having)}"
            raise UsageError(message, f"name one: --on {having[0].name}") from error
        others = load_targets()
        known = f"No target has one: {told(others.values())}." if others else "No target has one: none is known."
        hint = f"gdnbench targets init NAME --ssh HOST --gpu {gpu} adds one; {error.hint}"
        raise GpuNotFoundError(f"{error.message} {known}", hint) from error
    return None


def models_asked(named: NamedTarget, gpu: str) -> list[str]:
    """The models of which the GPU there must be: the one that `--gpu` names, else those that the target has."""
    if gpu.strip().lower() == CPU:
        return []
    return [gpu] if names_model(gpu) else list(named.target.gpus)
