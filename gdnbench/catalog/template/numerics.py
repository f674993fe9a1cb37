"""What is right: inputs, outputs in float64, and how far rounding errors take them."""

import torch


def make_inputs(workload, seed, device, scenario):
    """Draws tensors and scalars, each by name; a seed gives the same numbers on every device."""
    random = torch.Generator().manual_seed(seed)
    size = {"typical": 1.0, "large": 1e3, "small": 1e-3}[scenario]
    x = size * torch.randn(workload.M, workload.N, generator=random)
    w = 1.0 + 0.1 * torch.randn(workload.N, generator=random)
    return {"x": x.bfloat16().to(device), "w": w.bfloat16().to(device)}, {"eps": 1e-6}


def oracle(tensors, scalars):
    """Computes the outputs in float64, by name."""
    x, w = tensors["x"].double(), tensors["w"].double()
    mean = x.square().mean(dim=-1, keepdim=True)
    return {"y": x * (mean + scalars["eps"]).rsqrt() * w}


def roundoff(tensors, scalars):
    """How far one rounding error of fp32 in each operation takes each element (docs/verifying.md).

    The sum of N squares is off by sqrt(N) times itself, its root by half of that, and four more operations follow.
    """
    columns = tensors["x"].shape[1]
    return {"y": (columns**0.5 / 2 + 4) * oracle(tensors, scalars)["y"].abs()}
