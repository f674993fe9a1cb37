from itertools import accumulate, pairwise

import torch


def make_inputs(workload, seed, device, scenario):
    random = torch.Generator().manual_seed(seed)
    x = torch.randn((sum(workload.lengths), workload.H, workload.W), generator=random)
    offsets = torch.tensor([0, *accumulate(workload.lengths)], dtype=torch.int64)
    return {"x": x.to(device), "offsets": offsets.to(device)}, {"scale": 0.5}


def oracle(tensors, scalars):
    x, ends = tensors["x"].double(), tensors["offsets"].tolist()
    y = torch.empty_like(x)
    owner = torch.empty(len(x), dtype=torch.int64, device=x.device)
    for number, (begin, end) in enumerate(pairwise(ends)):
        y[begin:end] = scalars["scale"] * x[begin:end].cumsum(0)
        owner[begin:end] = number
    return {"y": y, "owner": owner}


def roundoff(tensors, scalars):
    x, size = tensors["x"].abs(), torch.empty_like(tensors["x"])
    for begin, end in pairwise(tensors["offsets"].tolist()):
        terms = torch.arange(1, end - begin + 1, device=x.device)[:, None, None]
        size[begin:end] = scalars["scale"] * terms.sqrt() * x[begin:end].cumsum(0)
    return {"y": size}
