"""A pool of normal numbers, and slots without repetition; a copy is exact."""

import torch


def make_inputs(shape, seed, device, scenario):
    del scenario
    random = torch.Generator().manual_seed(seed)
    pool = torch.randn(shape.slots, shape.HV, shape.V, shape.K, generator=random)
    order = 1 + torch.randperm(shape.slots - 1, generator=random).int()
    tensors = {"pool": pool, "source": order[: shape.B].clone(), "target": order[shape.B : 2 * shape.B].clone()}
    return {name: tensor.to(device) for name, tensor in tensors.items()}, {}


def oracle(tensors, scalars):
    del scalars
    pool = tensors["pool"].double()
    return {"new_pool": pool.index_copy(0, tensors["target"].long(), pool[tensors["source"].long()])}
