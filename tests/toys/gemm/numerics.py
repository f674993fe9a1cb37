import torch


def make_inputs(workload, seed, device, scenario):
    random = torch.Generator().manual_seed(seed)
    scale = {"typical": 1.0, "large": 100.0}[scenario]
    sizes = {"A": (workload.M, workload.Kd), "B": (workload.N, workload.Kd)}
    tensors = {name: scale * torch.randn(size, generator=random) for name, size in sizes.items()}
    return {name: tensor.bfloat16().to(device) for name, tensor in tensors.items()}, {}


def oracle(tensors, scalars):
    return {"C": tensors["A"].double() @ tensors["B"].double().T}


def roundoff(tensors, scalars):
    terms = tensors["A"].shape[1]
    return {"C": terms**0.5 * (tensors["A"].abs().float() @ tensors["B"].abs().float().T)}
