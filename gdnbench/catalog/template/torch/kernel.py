import torch


def bind(tensors, workload, params):
    """Returns a function that launches on the current stream; `tensors` has inputs, scalars and outputs by name."""
    x, w, eps, y = tensors.x, tensors.w, tensors.eps, tensors.y

    def run():
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
        y.copy_(wide * scale * w.float())
        return (y,)

    return run
