"""Inputs of Kimi Delta Attention's decode step, oracle, and roundoff: those of `kda-verify` for one token."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import torch

from gdnbench.launch import load_file

if TYPE_CHECKING:
    from gdnbench import Shape

Tensors = dict[str, torch.Tensor]

OF_TOKENS = ("mixed_qkv", "g", "b")
KEPT = SimpleNamespace(KEEP=1)  # of `kda-verify`: the state after each token

verify = load_file(Path(__file__).parent.parent / "kda-verify" / "numerics.py")


def make_inputs(shape: Shape, seed: int, device: str, scenario: str) -> tuple[Tensors, dict[str, float]]:
    """Draws one step's inputs: those of `kda-verify` for one token.

    q, k, v and b ~ N(0, 1); A_log = log U(1, 16), or log U(0.5, 1.5) with a bound; dt_bias is the inverse softplus of
    U(1e-3, 0.1); g gives the profile's decays with these. The batch's slots are drawn from 1 on without repetition; to
    their states a few keys and values have been written, and all other slots hold other numbers.

    Args:
        shape: the workload.
        seed: of every draw.
        device: a torch device.
        scenario: `typical`, decays as in `spread`, and so in the others; `padded`, every third entry of the batch, the
            first among them, is none, by a slot of 0 and of -1 in turn; `saturated-gates`, g and b at ±30;
            `large-state`, states of about 1e3; `small-keys`, queries and keys so small that the norms' epsilon counts;
            or a profile of `gdnbench.decays.CHANNEL_PROFILES`.

    Returns:
        The input tensors and the scalars, by name.
    """
    tensors, scalars = verify.make_inputs(SimpleNamespace(**shape.axes, T=1), seed, device, scenario)
    return tensors | {name: tensors[name][:, 0] for name in OF_TOKENS}, scalars


def oracle(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """The outputs in float64, from the inputs as they are."""
    return _in_pool(tensors, verify.oracle(_of_one_token(tensors), scalars, KEPT), tensors["pool"].double())


def roundoff(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """What the outputs may be off by in fp32, in unit roundoffs; what is not touched has none."""
    found = verify.roundoff(_of_one_token(tensors), scalars, KEPT)
    return _in_pool(tensors, found, torch.zeros_like(tensors["pool"], dtype=torch.float32))


def _of_one_token(tensors: Tensors) -> Tensors:
    return tensors | {name: tensors[name][:, None] for name in OF_TOKENS}


def _in_pool(tensors: Tensors, found: Tensors, pool: torch.Tensor) -> Tensors:
    """The outputs, with the states [B, 1, H, V, K] in the slots of the pool."""
    live = tensors["slot"] > 0
    pool[tensors["slot"][live].long()] = found["states"][live, 0]
    return {"output": found["output"][:, 0], "new_pool": pool}
