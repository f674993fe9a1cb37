"""Inputs of a decode step with slots to read and to write, a float64 oracle, and roundoff: `verify`'s, of one token."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import torch

from gdnbench.launch import load_file

if TYPE_CHECKING:
    from gdnbench import Shape

Tensors = dict[str, torch.Tensor]

FEWEST_SLOTS, SLOTS_PER_SEQUENCE = 64, 4  # of the pool, as op.py declares its size
OF_TOKENS = ("mixed_qkv", "a", "b")
KEPT = SimpleNamespace(KEEP=1)  # of `verify`: the state after each token

verify = load_file(Path(__file__).parent.parent / "verify" / "numerics.py")


def make_inputs(shape: Shape, seed: int, device: str, scenario: str) -> tuple[Tensors, dict[str, float]]:
    """Draws one step's inputs: those of `verify` for one token, and two slots for each sequence, anywhere in the pool.

    All slots differ but where a scenario says otherwise; those that are written hold other numbers before.

    Args:
        shape: the workload.
        seed: of every draw.
        device: a torch device.
        scenario: one of `verify`'s; `padded`, every third entry, the first among them, is none, by a slot to read of 0
            and of -1 in turn, while its slot to write is drawn as the others' are; `in-place`, each sequence writes the
            slot that it reads; `unwritten`, every other one, the first among them, writes none, by 0 and -1 in turn;
            `forked`, all read the same slot, as those do that go on from one prefix; or a profile of `gdnbench.decays`.

    Returns:
        The input tensors and the scalars, by name.
    """
    random = torch.Generator(device="cpu").manual_seed(seed)
    tensors, states = verify.draw_step(SimpleNamespace(**shape.axes, T=1), random, device, scenario)
    tensors |= {name: tensors[name][:, 0] for name in OF_TOKENS}
    count = max(FEWEST_SLOTS, SLOTS_PER_SEQUENCE * shape.B)
    read, write = (1 + torch.randperm(count - 1, generator=random)[: 2 * shape.B]).reshape(2, shape.B)
    pool = verify.other_states(shape, count, random, device)
    pool[read.to(device)] = states.to(pool.dtype)
    match scenario:
        case "padded":
            read[::6], read[3::6] = 0, -1
        case "in-place":
            write = read
        case "unwritten":
            write[::4], write[2::4] = 0, -1
        case "forked":
            read = read[:1].expand(shape.B)
    tensors |= {"pool": pool, "read_slot": read.int(), "write_slot": write.int()}
    scalars = {"scale": shape.K**-0.5, "beta_limit": float(shape.BETA)}
    return {name: tensor.contiguous().to(device) for name, tensor in tensors.items()}, scalars


def oracle(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """The outputs in float64, from the inputs as they are."""
    return _in_pool(tensors, verify.oracle(_of_one_token(tensors), scalars, KEPT), tensors["pool"].double())


def roundoff(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """What fp32 arithmetic may make of outputs and states, as for `verify`; slots that nobody writes have none."""
    found = verify.roundoff(_of_one_token(tensors), scalars, KEPT)
    return _in_pool(tensors, found, torch.zeros_like(tensors["pool"], dtype=torch.float32))


def _of_one_token(tensors: Tensors) -> Tensors:
    return tensors | {name: tensors[name][:, None] for name in OF_TOKENS} | {"slot": tensors["read_slot"]}


def _in_pool(tensors: Tensors, found: Tensors, pool: torch.Tensor) -> Tensors:
    """The outputs, with the states [B, 1, HV, V, K] in the slots of the pool where they are written."""
    written = (tensors["read_slot"] > 0) & (tensors["write_slot"] > 0)
    pool[tensors["write_slot"][written].long()] = found["states"][written, 0]
    return {"output": found["output"][:, 0], "new_pool": pool}
