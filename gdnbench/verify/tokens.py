"""Tokens for the sequences of programs, drawn once by each op's `make_inputs`, and a model's weights."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from gdnbench.errors import DeclarationError
from gdnbench.launch.numerics import Numerics, call_numerics, check_named
from gdnbench.model.sequences import Call
from gdnbench.verify.family import Family, Member

BANK = 128
_BATCH = 16  # sequences of a draw: pools of 64 slots are drawn with them
_APART = 37  # tokens between two of a sequence, and prime to BANK: no token is a sequence's next but one's
_BEGINS = 11  # tokens between the beginnings of two sequences

Tensors = dict[str, torch.Tensor]


class TokenBank:
    """BANK tokens for each layout of tokens; ops whose tokens have the same names and sizes share them.

    Weights of the same name are the same tensor for all ops, the first one's, but of tokens of a `profile`, whose gates
    are drawn for the weights of their own draw. `scalars` are each op's own.
    """

    def __init__(
        self, family: Family, numerics: Mapping[Call, Numerics], seed: int, device: str, profile: str = ""
    ) -> None:
        self.weights: dict[Call, Tensors] = {}
        self.scalars: dict[Call, dict[str, float]] = {}
        self._banks: dict[tuple[object, ...], Tensors] = {}
        self._keys: dict[Call, tuple[object, ...]] = {}
        shared: Tensors = {}
        for call, member in family.items():
            drawn = self._draw(member, numerics[call], seed, device, profile)
            self.weights[call] = {}
            for name in member.layout.weights:
                mine = shared.setdefault(name, drawn[name])
                self.weights[call][name] = drawn[name] if profile else mine
                if (mine.shape, mine.dtype) != (drawn[name].shape, drawn[name].dtype):
                    what = f"{name} of {member.layout.op.name} is {list(drawn[name].shape)} {drawn[name].dtype}"
                    raise DeclarationError(f"{what}, and of another op {list(mine.shape)} {mine.dtype}")
            if member.layout.tokens:
                key = (call, *_key(member)) if profile else _key(member)
                self._banks.setdefault(key, {name: drawn[name] for name in member.layout.tokens})
                self._keys[call] = key

    def _draw(self, member: Member, numerics: Numerics, seed: int, device: str, profile: str) -> Tensors:
        op, layout = member.layout.op, member.layout
        each = member.drafts or member.every or 1
        batch = -(-BANK // each) if profile else _BATCH
        kind = profile if profile and layout.tokens else op.scenarios[0]
        found: list[Tensors] = []
        for number in range(-(-BANK // (each * batch)) if layout.tokens else 1):
            workload = member.workload([each] * batch)
            tensors, scalars = call_numerics(op, numerics, "make_inputs", workload, seed + number, device, kind)
            check_named(op, "make_inputs", tensors, [spec.name for spec in op.inputs])
            self.scalars[member.call] = dict(scalars)
            dims = len(layout.lead)
            found.append({name: tensors[name].flatten(0, dims - 1) for name in layout.tokens})
        joined = {name: torch.cat([drawn[name] for drawn in found])[:BANK] for name in layout.tokens}
        return joined | {name: tensors[name] for name in layout.weights}

    def tokens(self, member: Member, begun: int, position: int, count: int) -> Tensors:
        """A sequence's tokens from a position on, by input: the same whatever came between."""
        places = [(_BEGINS * begun + _APART * (position + number)) % BANK for number in range(count)]
        return {name: drawn[places] for name, drawn in self._banks[self._keys[member.call]].items()}


def _key(member: Member) -> tuple[object, ...]:
    op, lead = member.layout.op, len(member.layout.lead)
    named = op.named_sizes(member.smallest)
    specs = [member.layout.specs[name] for name in member.layout.tokens]
    return tuple((spec.name, spec.sizes(named)[lead:], spec.dtype_at(named)) for spec in specs)
