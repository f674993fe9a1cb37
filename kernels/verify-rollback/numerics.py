"""Inputs of draft tokens with slots of their own, the float64 oracle, and roundoff: those of `verify`, in a pool."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import torch

from gdnbench.launch import load_file

if TYPE_CHECKING:
    from gdnbench import Shape

Tensors = dict[str, torch.Tensor]

SPARE_SLOTS = 64  # of the pool, as op.py declares its size
EACH_KEPT = SimpleNamespace(KEEP=1)  # of `verify`: the state after each token

verify = load_file(Path(__file__).parent.parent / "verify" / "numerics.py")


def make_inputs(shape: Shape, seed: int, device: str, scenario: str) -> tuple[Tensors, dict[str, float]]:
    """Draws a step's inputs: those of `verify`, and the slots of each sequence, anywhere in the pool.

    The state that a sequence begins with stands in the slot of its last accepted token, which is drawn from 1 to T. All
    other slots, its own among them, hold other numbers: its own are what was drafted and not accepted.

    Args:
        shape: the workload.
        seed: of every draw.
        device: a torch device.
        scenario: one of `verify`'s; `padded`, every third row, the first among them, is none, by slots of 0 and of -1
            in turn, with accepted counts of 0 and of T + 1, which lead into the rows beside it; `one-accepted` and
            `all-accepted`, counts of 1 and of T; or a profile of `gdnbench.decays`.

    Returns:
        The input tensors and the scalars, by name.
    """
    random = torch.Generator(device="cpu").manual_seed(seed)
    tensors, states = verify.draw_step(shape, random, device, scenario)
    count = SPARE_SLOTS + shape.B * shape.T
    slots = 1 + torch.randperm(count - 1, generator=random)[: shape.B * shape.T].reshape(shape.B, shape.T)
    accepted = torch.randint(1, shape.T + 1, (shape.B,), generator=random)
    if scenario in {"one-accepted", "all-accepted"}:
        accepted = torch.full_like(accepted, 1 if scenario == "one-accepted" else shape.T)
    pool = verify.other_states(shape, count, random, device)
    read = slots.gather(1, accepted[:, None] - 1)[:, 0]
    pool[read.to(device)] = states.to(pool.dtype)
    if scenario == "padded":
        for first, slot, wild in ((0, 0, 0), (3, -1, shape.T + 1)):
            slots[first::6], accepted[first::6] = slot, wild
    tensors |= {"pool": pool, "slots": slots.int(), "accepted": accepted.int()}
    scalars = {"scale": shape.K**-0.5, "beta_limit": float(shape.BETA)}
    return {name: tensor.contiguous().to(device) for name, tensor in tensors.items()}, scalars


def oracle(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """The outputs in float64, from the inputs as they are."""
    found = verify.oracle(_read(tensors), scalars, EACH_KEPT)
    return _in_pool(tensors, found, tensors["pool"].double())


def roundoff(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """What fp32 arithmetic may make of outputs and states, as for `verify`; slots that nobody writes have none."""
    found = verify.roundoff(_read(tensors), scalars, EACH_KEPT)
    return _in_pool(tensors, found, torch.zeros_like(tensors["pool"], dtype=torch.float32))


def _read(tensors: Tensors) -> Tensors:
    """The tensors of `verify`, whose slot is the one that each sequence reads; that of padding is 0 or less."""
    slots = tensors["slots"]
    last = (tensors["accepted"].long() - 1).clamp(0, slots.shape[1] - 1)
    return tensors | {"slot": slots.gather(1, last[:, None])[:, 0]}


def _in_pool(tensors: Tensors, found: Tensors, pool: torch.Tensor) -> Tensors:
    """The outputs, with the states [B, T, HV, V, K] in the slots of the pool that are theirs."""
    live = tensors["slots"] > 0
    pool[tensors["slots"][live].long()] = found["states"][live]
    return {"output": found["output"], "new_pool": pool}
