"""Kernels of several ops as an engine uses them: on one pool of states, a batch a launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch

from gdnbench.catalog.catalog import Catalog
from gdnbench.errors import UsageError
from gdnbench.launch.bind import load
from gdnbench.launch.workspace import TORCH_DTYPES, Workspace, lay_apart, poison
from gdnbench.model.kernel import TorchKernel
from gdnbench.model.sequences import Call
from gdnbench.model.workload import Workload
from gdnbench.verify.check import name_outputs
from gdnbench.verify.family import Family, Member
from gdnbench.verify.gates import differs

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class BatchRow:
    """A sequence of a batch, as a launch takes it; of padding, all slots are 0 or less."""

    tokens: Tensors  # by input, [tokens, …]
    slots: tuple[int, ...]  # one, or one for each draft; without a pool, its place among the states that are given
    accepted: int = 1  # drafts of the last round, which tell the slot to read where there is one for each
    to: int = 0  # the slot that is written, where an op has another for it
    kept: int = 1  # how many of the tokens the sequence keeps; of a tree of drafts, the token to which it keeps them
    parents: tuple[int, ...] = ()  # of drafts that are a tree, by their places
    filled: int = 0  # how many tokens stand in its rings

    @property
    def is_padding(self) -> bool:
        """Whether it is padding, not a sequence."""
        return self.slots[0] <= 0

    @property
    def count(self) -> int:
        """How many tokens it has; 1 for a copy."""
        return next((len(each) for each in self.tokens.values()), 1)


def lay(member: Member, rows: Sequence[BatchRow], held: Tensors, weights: Tensors) -> Tensors:
    """The inputs of a launch, by name.

    `held` has the pool and rings; where an op takes a state a sequence, those, in the order of the rows.
    """
    layout, declared = member.layout, member.layout.declared
    join = torch.stack if layout.call == "verify" else torch.cat
    device = held[layout.before].device
    numbers = {
        declared.slot: [row.slots if layout.has_slot_each else row.slots[0] for row in rows],
        declared.to: [row.to for row in rows],
        declared.accepted: [row.accepted for row in rows],
        declared.parent: [row.parents for row in rows],
        declared.filled: [row.filled for row in rows],
        declared.starts: [0, *accumulate(_checkpoints(member, rows))],
        layout.ends: [0, *accumulate(row.count for row in rows)],
    }
    return {
        **held,
        **{name: join([row.tokens[name] for row in rows]) for name in layout.tokens},
        **{name: weights[name] for name in layout.weights},
        **{
            name: torch.tensor(number, dtype=TORCH_DTYPES[layout.specs[name].settled], device=device)
            for name, number in numbers.items()
            if name
        },
    }


def outputs_of(member: Member, rows: Sequence[BatchRow], outputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """The outputs of each row's tokens, [tokens, …]; none for a copy."""
    layout = member.layout
    if not layout.output:
        return []
    found = outputs[layout.output]
    return [*found] if layout.call == "verify" else [*torch.split(found, [row.count for row in rows])]


def _checkpoints(member: Member, rows: Sequence[BatchRow]) -> list[int]:
    """How many checkpoints each row has."""
    return [row.count // member.every if member.every else 0 for row in rows]


def checkpoints_of(member: Member, rows: Sequence[BatchRow], outputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """The checkpoints of each row, [checkpoints, …]; nothing of an op without."""
    found = outputs.get(member.layout.declared.checkpoints)
    return [] if found is None else [*torch.split(found, _checkpoints(member, rows))]


def written_slot(member: Member, row: BatchRow) -> int:
    """The slot where a row's state is when it has taken its tokens."""
    if member.layout.has_slot_each:
        return row.slots[row.kept - 1]
    return row.to if member.layout.declared.to else row.slots[0]


def states_of(member: Member, rows: Sequence[BatchRow], outputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """The state of each row behind the tokens that it keeps; of padding in a pool that of a slot which is nobody's."""
    after = outputs[member.layout.after]
    match member.layout.states_lie:
        case "pool":
            return [after[written_slot(member, row)] for row in rows]
        case "rows":
            return [*after]
        case "tokens":
            return [each[row.kept - 1] for each, row in zip(after, rows, strict=True)]


class _Bound:
    """A kernel bound to tensors of its own but for the pool; `in_place` are the inputs that are outputs, too."""

    def __init__(self, workspace: Workspace, run: Callable[[], tuple[torch.Tensor, ...]]) -> None:
        self.workspace, self.run = workspace, run
        self.findings: Sequence[object] = ()  # of an interpreter
        outputs = {id(tensor) for tensor in workspace.outputs.values()}
        self.in_place = {name for name, tensor in workspace.inputs.items() if id(tensor) in outputs}

    def launch(self, inputs: Tensors) -> tuple[Tensors, list[str]]:
        """Launches on these inputs; gives the outputs by name, and what the launch did that it must not."""
        given, outputs = self.workspace.inputs, self.workspace.outputs
        for name, tensor in inputs.items():
            if given[name] is not tensor:
                given[name].copy_(tensor)
        held = [given[name] for name in self.in_place]
        poison([tensor for tensor in outputs.values() if not any(tensor is each for each in held)])
        before = {name: tensor.clone() for name, tensor in given.items() if name not in self.in_place}
        named = name_outputs(self.workspace.op, self.run(), {name: each.shape for name, each in outputs.items()})
        faults = [str(each) for each in self.findings]
        faults += [
            f"{name} has changed, which is an input" for name in before if differs(before[name], given[name]).any()
        ]
        return named, faults


class Engine:
    """A pool of states, and a kernel for each call, bound to it.

    What kernels leave in their other tensors goes where an engine puts it: states that are given one a sequence are
    gathered and scattered, those of accepted drafts stored.
    """

    def __init__(
        self, catalog: Catalog, family: Family, scalars: Mapping[Call, dict[str, float]], slots: int, device: str
    ) -> None:
        self.family, self.pool = family, _pool_for(family.values(), slots, device)
        self.rings = _rings_for(family.values(), slots, device)
        if _are_all_strided(catalog, family.values()):
            self.pool, self.rings = lay_apart(self.pool), {name: lay_apart(each) for name, each in self.rings.items()}
        self._catalog, self._scalars, self._device = catalog, scalars, device
        self._bound: dict[tuple[Call, Workload], _Bound] = {}

    def begin(self) -> None:
        """Binds kernels anew, so that what they keep between launches is not of an earlier program."""
        self._bound.clear()

    @property
    def held(self) -> tuple[torch.Tensor, ...]:
        """The tensors that have slots of sequences: the pool and the rings."""
        return (self.pool, *self.rings.values())

    def launch(self, call: Call, rows: Sequence[BatchRow], weights: Tensors) -> tuple[Tensors, list[str]]:
        """Launches on a batch; gives the outputs by name, and what the launch did that it must not."""
        member = self.family[call]
        layout, lies = member.layout, member.layout.states_lie
        states = self.pool[[row.slots[0] for row in rows]] if lies == "rows" else self.pool
        held = {layout.before: states, **{name: self.rings[name] for name in layout.declared.rings}}
        inputs = lay(member, rows, held, weights)
        bound = self._bind(member, member.workload([row.count for row in rows]), inputs)
        named, faults = bound.launch(inputs)
        if lies != "pool":
            for row, state in zip(rows, states_of(member, rows, named), strict=True):
                if not row.is_padding:
                    self.pool[row.slots[0]] = state.to(self.pool.dtype)
        else:
            for name, after in layout.held.items():
                if named[after].data_ptr() != held[name].data_ptr():
                    held[name].copy_(named[after])
        return named, faults

    def _bind(self, member: Member, workload: Workload, inputs: Tensors) -> _Bound:
        key = (member.call, workload)
        if key not in self._bound:
            self._bound[key] = self._bind_anew(member, workload, inputs)
        return self._bound[key]

    def _bind_anew(self, member: Member, workload: Workload, inputs: Tensors) -> _Bound:
        op = member.layout.op.at(workload.axes)
        state = member.layout.before
        entry, variant = self._catalog.at(member.variant, workload)
        entry.refuse_unable(member.variant.label, workload, "verify")
        named = op.named_sizes(workload) | {str(member.layout.specs[state].dims[0]): len(inputs[state])}
        given = {spec.name: self._own(inputs[spec.name], TORCH_DTYPES[spec.settled]) for spec in op.inputs}
        outputs = {
            spec.name: torch.empty(spec.sizes(named), dtype=TORCH_DTYPES[spec.settled], device=self._device)
            for spec in op.outputs
        }
        for name, after in member.layout.held.items():
            if entry.kernel.in_place.get(after) == name:
                outputs[after] = given[name]
        workspace = Workspace(op, workload, given, self._scalars[member.call], outputs, given)
        if self._device == "cuda" or isinstance(entry.kernel, TorchKernel):
            return _Bound(workspace, load(entry, variant, workload)(workspace))
        # On demand: interpreters are much to load, and other kernels need none.
        from gdnbench.launch.interpret import interpreter_for

        interpreted = interpreter_for(entry, variant, workload)

        def run() -> tuple[torch.Tensor, ...]:
            bound.findings = interpreted.run(workspace, counts_traffic=False).findings
            return workspace.output_tensors

        bound = _Bound(workspace, run)
        return bound

    def _own(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """A tensor that launches are bound to: the pool and rings themselves, of another a copy."""
        return tensor if any(tensor is each for each in self.held) else tensor.to(dtype, copy=True)


def _are_all_strided(catalog: Catalog, family: Iterable[Member]) -> bool:
    """Whether slots may lie apart: each kernel with a pool claims it of all that it is given in slots."""
    for member in family:
        kernel, held = catalog.entries[member.variant.kernel].kernel, member.layout.held
        given = {after if kernel.in_place.get(after) == name else name for name, after in held.items()}
        if member.layout.declared.slot and not given <= {*kernel.strided}:
            return False
    return True


def _rings_for(family: Iterable[Member], slots: int, device: str) -> Tensors:
    """Rings [slots, …] by name, not filled, which members with the same names share."""
    found: Tensors = {}
    for member in family:
        named = member.layout.op.named_sizes(member.smallest)
        for name in member.layout.declared.rings:
            spec = member.layout.specs[name]
            size = (slots, *spec.sizes(named)[1:])
            found.setdefault(name, torch.empty(size, dtype=TORCH_DTYPES[spec.dtype_at(named)], device=device))
    return found


def _pool_for(family: Iterable[Member], slots: int, device: str) -> torch.Tensor:
    """A pool [slots, …] for the states of all members, not filled; UsageError where theirs are not alike.

    Its elements are of the type that ops with a pool have, or else that of the states which they are given.
    """
    kinds: dict[bool, dict[tuple[tuple[int, ...], torch.dtype], str]] = {True: {}, False: {}}
    for member in family:
        op, workload = member.layout.op, member.smallest
        spec = member.layout.specs[member.layout.before]
        named = op.named_sizes(workload)
        kind = spec.sizes(named)[1:], TORCH_DTYPES[spec.dtype_at(named)]
        kinds[bool(member.layout.declared.slot)].setdefault(kind, member.variant.label)
    pools = kinds[True] or kinds[False]
    sizes = {size for held in kinds.values() for size, _ in held}
    if len(pools) > 1 or len(sizes) > 1:
        every = [(label, *kind) for held in kinds.values() for kind, label in held.items()]
        listed = "; ".join(f"{label} has {list(size)} {dtype}" for label, size, dtype in every)
        raise UsageError(f"the states of these kernels are not alike: {listed}", "give sizes that all have by --shape")
    [(size, dtype)] = pools
    return torch.empty(slots, *size, dtype=dtype, device=device)
