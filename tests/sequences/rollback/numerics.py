"""Inputs and oracle of verify, whose states go to a slot for each token."""

from types import SimpleNamespace

import torch

from gdnbench.launch.numerics import load_file
from gdnbench.origin import bundled_kernels

VERIFY = load_file(bundled_kernels() / "verify" / "numerics.py")
EACH = SimpleNamespace(KEEP=1)


def make_inputs(shape, seed, device, scenario):
    tensors, scalars = VERIFY.make_inputs(shape, seed, device, scenario)
    random = torch.Generator().manual_seed(seed)
    slots = 1 + torch.randperm(len(tensors["pool"]) - 1, generator=random)[: shape.B * shape.T].reshape(
        shape.B, shape.T
    )
    accepted = torch.randint(1, shape.T + 1, (shape.B,), generator=random)
    del tensors["slot"]
    return {**tensors, "slots": slots.int().to(device), "accepted": accepted.int().to(device)}, scalars


def oracle(tensors, scalars):
    return stored(tensors, VERIFY.oracle(read(tensors), scalars, EACH), tensors["pool"].double().clone())


def roundoff(tensors, scalars):
    return stored(tensors, VERIFY.roundoff(read(tensors), scalars, EACH), torch.zeros_like(tensors["pool"]).float())


def read(tensors):
    """With the one slot that each sequence reads."""
    slot = tensors["slots"].gather(1, tensors["accepted"][:, None].long() - 1)[:, 0]
    return {**tensors, "slot": slot}


def stored(tensors, found, pool):
    live = tensors["slots"][:, 0] > 0
    pool[tensors["slots"][live].long()] = found["states"][live].to(pool.dtype)
    return {"output": found["output"], "new_pool": pool}
