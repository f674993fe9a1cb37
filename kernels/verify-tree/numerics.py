"""Inputs of a tree of draft tokens, its float64 oracle, and roundoff: those of `verify`, along each token's path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import torch

from gdnbench.launch import load_file

if TYPE_CHECKING:
    from gdnbench import Shape

Tensors = dict[str, torch.Tensor]

LAST_KEPT = SimpleNamespace(KEEP=0)  # of `verify`: the state after the last token
WILD = 1000  # a parent of padding

verify = load_file(Path(__file__).parent.parent / "verify" / "numerics.py")


def make_inputs(shape: Shape, seed: int, device: str, scenario: str) -> tuple[Tensors, dict[str, float]]:
    """Draws the inputs of `verify`, and a parent of each token.

    A token's parent is one of those before it or none, each as likely, and none for the first.

    Args:
        shape: the workload.
        seed: of every draw.
        device: a torch device.
        scenario: one of `verify`'s, of which `padded` gives padding parents that are nobody's; `chain`, each token's
            parent is the one before; `siblings`, all others' is the first; or a profile of `gdnbench.decays`.

    Returns:
        The input tensors and the scalars, by name.
    """
    tensors, scalars = verify.make_inputs(shape, seed, device, scenario)
    random = torch.Generator(device="cpu").manual_seed(seed)
    tokens = torch.arange(shape.T)
    parent = (torch.rand(shape.B, shape.T, generator=random) * (tokens + 1)).long() - 1
    parent[:, 0] = -1
    if scenario == "chain":
        parent[:] = tokens - 1
    if scenario == "siblings":
        parent[:, 1:] = 0
    parent[tensors["slot"].cpu() <= 0] = WILD
    return tensors | {"parent": parent.int().to(device)}, scalars


def oracle(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """The outputs in float64, from the inputs as they are."""
    return _along_paths(tensors, torch.float64, lambda chains: verify.oracle(chains, scalars, LAST_KEPT))


def roundoff(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """What fp32 arithmetic may make of outputs and states, as for `verify` along the path to each token."""
    return _along_paths(tensors, torch.float32, lambda chains: verify.roundoff(chains, scalars, LAST_KEPT))


def _along_paths(tensors: Tensors, dtype: torch.dtype, last: Callable[[Tensors], Tensors]) -> Tensors:
    """The outputs by token, from what `last` gives of the last tokens of chains; zeros for padding."""
    paths: dict[int, list[tuple[int, int, list[int]]]] = {}
    for n, (slot, parents) in enumerate(zip(tensors["slot"].tolist(), tensors["parent"].tolist(), strict=True)):
        for token in range(len(parents) if slot > 0 else 0):
            path = [token]
            while parents[path[0]] >= 0:
                path.insert(0, parents[path[0]])
            paths.setdefault(len(path), []).append((n, token, path))
    B, T, HV = tensors["a"].shape
    V, K = tensors["pool"].shape[2:]
    found = {"output": tensors["a"].new_zeros(B, T, HV, V, dtype=dtype)}
    found["states"] = tensors["a"].new_zeros(B, T, HV, V, K, dtype=dtype)
    for listed in paths.values():
        n, token = (torch.tensor(each, device=tensors["a"].device) for each in list(zip(*listed, strict=True))[:2])
        tokens = torch.tensor([path for _, _, path in listed], device=n.device)
        own = {name: tensors[name][n[:, None], tokens] for name in ("mixed_qkv", "a", "b")}
        for name, each in last(tensors | own | {"slot": tensors["slot"][n]}).items():
            found[name][n, token] = each[:, -1]
    return found
