"""Three ways of one normalisation, for docs/functions.md: as written, as PyTorch has it, and without its weights."""

import torch


def plain(x: torch.Tensor, w: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Each row over its root mean square, times the weights; x is [rows, columns], w is [columns]."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * w.float()).to(x.dtype)


def fused(x: torch.Tensor, w: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """The same in one call."""
    return torch.nn.functional.rms_norm(x, w.shape, w, eps)


def unweighted(x: torch.Tensor, w: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Wrong: it leaves the weights out, and gets no time."""
    return torch.nn.functional.rms_norm(x, w.shape, None, eps)
