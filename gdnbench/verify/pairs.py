"""Pairs of batches that have sequences in common, the same bytes in both, by the kind of invariance that they try."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import torch

from gdnbench.launch.numerics import Numerics
from gdnbench.launch.workspace import Workspace
from gdnbench.model.declaration import TensorSpec, is_captured
from gdnbench.model.op import Op
from gdnbench.model.sequences import OTHERS, SequenceLayout
from gdnbench.model.status import Invariance
from gdnbench.model.workload import Workload
from gdnbench.verify.rotation import Workspaces

MOST_OTHERS = 1024  # tokens of one on a GPU

FURTHER_SEED = 1009  # between the seeds of a workload's draws, of which some have a sequence of another in them

MOST_BYTES = 1 << 30  # of a workload's tensors, of which up to a dozen batches are held at once
MOST_STEPS: Mapping[str, int] = {"cuda": 192, "cpu": 70, "interpreter": 6}
"""Tokens of a sequence that `--path` computes one by one."""
COUNTS: Mapping[str, tuple[int, ...]] = {"cuda": (1, 2, 8, 32), "cpu": (1, 2, 8), "interpreter": (1, 2)}
"""Sizes of the batches that a sequence is launched in, by where that is; kernels choose by size what they launch."""


@dataclass(frozen=True)
class TokenSpan:
    """A sequence by its place in the batch, and of its tokens those from `first` to before `last`, None for its end."""

    place: int
    first: int = 0
    last: int | None = None


@dataclass(frozen=True)
class Batch:
    """A workspace, and its sequences; DeclarationError for these if its op says nothing of them."""

    workspace: Workspace

    @cached_property
    def layout(self) -> SequenceLayout:
        """How the tensors hold sequences."""
        return SequenceLayout.of(self.workspace.op)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Tokens of each sequence."""
        return self.layout.counts(self.workspace.workload)

    @cached_property
    def _slots(self) -> list[int]:
        slot = self.layout.declared.slot
        slots: list[int] = self.workspace.pristine[slot].tolist() if slot else []
        return slots

    def part(self, spec: TensorSpec, tensor: torch.Tensor, span: TokenSpan) -> torch.Tensor:
        """The view of a sequence's own elements, with all axes; of all elements, where they are the whole batch's."""
        layout, length = self.layout, self.lengths[span.place]
        last = length if span.last is None else span.last
        for axis, dim in enumerate(spec.dims):
            if dim == layout.declared.axis:
                tensor = tensor.narrow(axis, span.place, 1)
            elif dim == layout.slots:
                tensor = tensor.narrow(axis, self._slots[span.place], 1)
            elif dim in layout.token_axes and (layout.lengths or tensor.shape[axis] == length):
                begin = sum(self.lengths[: span.place]) if layout.lengths else 0
                tensor = tensor.narrow(axis, begin + span.first, last - span.first)
        return tensor

    def has_tokens(self, spec: TensorSpec) -> bool:
        """Whether a tensor has elements for each token."""
        sizes = self.workspace.op.named_sizes(self.workspace.workload)
        tokens = {dim: sizes[dim] for dim in spec.dims if isinstance(dim, str) and dim in self.layout.token_axes}
        return bool(tokens) and (bool(self.layout.lengths) or self.lengths[0] in tokens.values())

    def adopt(self, source: Batch, span: TokenSpan, to: TokenSpan, names: Sequence[str] = ()) -> None:
        """Gives a span of this batch's inputs, by default of all, the bytes of a span of another's, by their names.

        What tells where sequences lie stays as it is; what belongs to the whole batch becomes the other's. The other
        may be of another op, with some inputs of the same names.
        """
        op, given = self.workspace.op, {spec.name: spec for spec in source.workspace.op.inputs}
        placing = {self.layout.declared.slot, self.layout.ends}
        scalars = self.workspace.scalars
        scalars.update({name: value for name, value in source.workspace.scalars.items() if name in scalars})
        for spec in op.inputs:
            if spec.name in placing or spec.name not in given or (names and spec.name not in names):
                continue
            part = _bytes(source.part(given[spec.name], source.workspace.pristine[spec.name], span))
            for tensors in (self.workspace.inputs, self.workspace.pristine):
                target = _bytes(self.part(spec, tensors[spec.name], to))
                target.copy_(part.reshape(target.shape))

    def adopt_state(self, source: Batch, outputs: dict[str, torch.Tensor], span: TokenSpan, to: TokenSpan) -> None:
        """Begins a sequence with the state that another call left in its `outputs`, after its last token."""
        begun, left = (self.layout.specs[name] for name in (self.layout.before, self.layout.after))
        given = source.part(left, outputs[left.name], span)
        for axis, dim in reversed(list(enumerate(left.dims))):
            if dim in self.layout.token_axes:
                given = given.select(axis, given.shape[axis] - 1)
        for tensors in (self.workspace.inputs, self.workspace.pristine):
            target = self.part(begun, tensors[begun.name], to)
            target.copy_(given.reshape(target.shape))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements as integers: a copy of them keeps the payload of a NaN, and PyTorch copies no float8."""
    return tensor.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])


@dataclass(frozen=True)
class Same:
    """A span of the first batch of a pair, and the span of the other that has the same inputs."""

    one: TokenSpan
    other: TokenSpan


@dataclass(frozen=True)
class Pair:
    """Two batches, and what they have in common; only outputs of tokens are compared if `tokens_only`.

    `difference` is what differs between them: `B=1 | B=8`. With a `second` batch the other's sequences
    go on there, from the state that the call before has left.
    """

    difference: str
    one: Batch
    other: Batch
    same: tuple[Same, ...]
    tokens_only: bool = False
    second: Batch | None = None
    same_in_second: tuple[Same, ...] = ()


class InvariancePairs:
    """Makes the pairs of a workload, by kind; drawn inputs are kept for the kernels that follow at the same one."""

    def __init__(self, workspaces: Workspaces, where: str) -> None:
        self.op = workspaces.op
        self._where, self._workspaces = where, workspaces
        self._makers: Mapping[Invariance, Callable[[Workload], Iterator[Pair]]] = {
            "batch": self._batch,
            "order": self._order,
            "append": self._append,
            "chunking": self._chunking,
        }
        self.of = lru_cache(maxsize=len(self._makers))(self._of)
        self.base = lru_cache(maxsize=2)(self.drawn)
        self.of_size = lru_cache(maxsize=8)(self._of_size)

    def _of(self, workload: Workload, kind: Invariance) -> tuple[Pair, ...]:
        """The pairs of a kind; none where the workload has nothing that could differ."""
        return tuple(self._makers[kind](workload))

    @cached_property
    def _layout(self) -> SequenceLayout:
        return SequenceLayout.of(self.op)

    def drawn(self, workload: Workload, number: int = 0) -> Batch:
        """A batch with inputs of its own by its number: of the timed kind, or the first for captured ones."""
        worker, timed = self._workspaces, self._workspaces.kinds(workload)[0]
        kind = self.op.scenarios[0] if is_captured(timed) else timed
        seed, device = worker.task.seed + self.op.seed_offset(kind) + FURTHER_SEED * number, worker.task.device
        return Batch(Workspace.make(self.op, worker.numerics, workload, seed=seed, device=device, scenario=kind))

    def forget(self) -> None:
        """Drops what was drawn, which a kernel may have changed."""
        for cached in (self.of, self.base, self.of_size):
            cached.cache_clear()

    def steps(self, workload: Workload, op: Op, numerics: Numerics) -> tuple[Batch, list[Batch]]:
        """A batch of the workload's sequences, or of the beginning of its first, and one of another op for each token.

        The first of these begins with the batch's states. What the ops do not both have stays as it was drawn.
        """
        step = SequenceLayout.of(op)
        lengths = self._layout.counts(workload)
        if self._layout.lengths:
            lengths = (min(max(lengths), MOST_STEPS[self._where]),)
        base = self.base(self._layout.resized(workload, lengths) or workload)
        sizes = {name: size for name, size in workload.axes.items() if name in op.workloads.default.axes}
        of_step = op.workload({**sizes, **step.sizes((1,) * len(lengths))})
        device, seed = self._workspaces.task.device, self._workspaces.task.seed + FURTHER_SEED
        made = Workspace.make(op, numerics, of_step, seed=seed, device=device, scenario=op.scenarios[0])
        steps = []
        for token in range(max(lengths)):
            pristine = {name: each.clone() for name, each in made.pristine.items()}
            steps.append(Batch(replace(made.copy(), pristine=pristine)))
            for place in range(len(lengths)):
                steps[-1].adopt(base, TokenSpan(place, token, token + 1), TokenSpan(place))
        return base, steps

    def _batch(self, workload: Workload) -> Iterator[Pair]:
        base = self.base(workload)
        count = len(base.lengths)
        if count > 1:
            others = self.drawn(workload, 1)
            others.adopt(base, TokenSpan(0), TokenSpan(0))
            first = Same(TokenSpan(0), TokenSpan(0))
            yield Pair(f"{workload} | other sequences beside the first", base, others, (first,))
        for size in COUNTS[self._where]:
            other = self.of_size(workload, size) if size != count else None
            if other is not None:
                same = tuple(Same(TokenSpan(place), TokenSpan(place)) for place in range(min(size, count)))
                sizes = [each.workspace.workload for each in (base, other)]
                axis, has_lengths = self._layout.declared.axis, bool(self._layout.lengths)
                terms = [each.x_term if has_lengths else f"{axis}={each.axes[axis]}" for each in sizes]
                yield Pair(" | ".join(terms), base, other, same)

    def _of_size(self, workload: Workload, size: int) -> Batch | None:
        """A batch of so many sequences, the first as those of the workload; None if the op does not define it."""
        base = self.base(workload)
        length = min(max(base.lengths[0], OTHERS), MOST_OTHERS) if self._where == "cuda" else OTHERS
        changed = self._layout.resized(workload, [*base.lengths[:size], *([length, length // 2 + 1] * size)][:size])
        if changed is None or self.op.tensor_bytes(changed) > MOST_BYTES:
            return None
        other = self.drawn(changed, 1)
        for place in range(min(size, len(base.lengths))):
            other.adopt(base, TokenSpan(place), TokenSpan(place))
        return other

    def _order(self, workload: Workload) -> Iterator[Pair]:
        base = self.base(workload)
        if len(base.lengths) == 1:
            base = self.of_size(workload, 2) or base
        lengths = base.lengths
        turned = self._layout.resized(workload, [*lengths[-1:], *lengths[:-1]])
        if turned is None:
            return
        one, other = base.workspace.workload, self.drawn(turned, 2)
        same = tuple(Same(TokenSpan(place), TokenSpan((place + 1) % len(lengths))) for place in range(len(lengths)))
        for each in same:
            other.adopt(base, each.one, each.other)
        slots = ", and each in another slot" if self._layout.slots else ""
        yield Pair(f"{one} | the last sequence first{slots}", base, other, same)

    def _append(self, workload: Workload) -> Iterator[Pair]:
        """Perturbs the gates of the tokens behind P, in the middle of a chunk, then all of their inputs; cuts at P."""
        base, declared = self.base(workload), self._layout.declared
        cut = self._layout.cut(workload)
        places = [place for place, tokens in enumerate(cut) if tokens]
        if not self._layout.token_axes or not places:
            return
        same = tuple(Same(TokenSpan(place, 0, cut[place]), TokenSpan(place, 0, cut[place])) for place in places)
        every = [spec.name for spec in base.workspace.op.inputs if base.has_tokens(spec)]
        behind = f"behind token {cut[places[0]]:,}"
        for names, changed in ((declared.gates, f"other gates {behind}"), (every, f"other tokens {behind}")):
            further, other = self.drawn(workload, 1), self.drawn(workload)
            for place in places if names else ():
                span = TokenSpan(place, cut[place])
                other.adopt(further, span, span, names)
            if names:
                yield Pair(f"{workload} | {changed}", base, other, same, tokens_only=True)
        shorter = self._layout.resized(workload, [tokens or base.lengths[place] for place, tokens in enumerate(cut)])
        if shorter is not None:
            other = self.drawn(shorter, 1)
            for place, length in enumerate(base.lengths):
                tokens = cut[place] or length
                other.adopt(base, TokenSpan(place, 0, tokens), TokenSpan(place, 0, tokens))
            yield Pair(f"{workload} | cut {behind}", base, other, same, tokens_only=True)

    def _chunking(self, workload: Workload) -> Iterator[Pair]:
        """Cuts each sequence at a multiple of the op's grid; one that is shorter than two chunks is made longer."""
        halves = self._layout.halves(workload)
        if halves is None or not self._has_exact_state(workload):
            return
        firsts, rests = halves
        lengths = [first + rest for first, rest in zip(firsts, rests, strict=True)]
        whole, begun, ended = (self._layout.resized(workload, each) for each in (lengths, firsts, rests))
        if whole is None or begun is None or ended is None:
            return
        base, one, two = self.base(whole), self.drawn(begun, 1), self.drawn(ended, 1)
        same, later = [], []
        for place, (first, rest) in enumerate(zip(firsts, rests, strict=True)):
            same.append(Same(TokenSpan(place, 0, first), TokenSpan(place, 0, first)))
            later.append(Same(TokenSpan(place, first), TokenSpan(place, 0, rest)))
            one.adopt(base, same[-1].one, same[-1].other)
            two.adopt(base, later[-1].one, later[-1].other)
        yield Pair(f"{whole} | {firsts[0]:,} tokens, then the rest", base, one, tuple(same), True, two, tuple(later))

    def _has_exact_state(self, workload: Workload) -> bool:
        """Whether a call leaves its state, and as it was, in fp32."""
        at, held = self.op.at(workload.axes), (self._layout.before, self._layout.after)
        sizes, states = at.named_sizes(workload), [spec for spec in at.tensors if spec.name in held]
        return all(spec.settled == "fp32" and spec.nbytes(sizes) > 0 for spec in states)
