"""Tests what a sequence's bits depend on: launches pairs that have a sequence in common, and compares its outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal

import numpy as np
import torch

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.select import find_variant
from gdnbench.errors import GdnbenchError, tell_raised
from gdnbench.launch.numerics import load_numerics
from gdnbench.launch.workspace import Workspace
from gdnbench.model.case import Case, Variant
from gdnbench.model.declaration import TensorSpec
from gdnbench.model.gpu import CPU, gpu_slug
from gdnbench.model.kernel import CudaKernel, TritonKernel
from gdnbench.model.sequences import SequenceLayout
from gdnbench.model.status import GATE_SUFFIX, INVARIANCES, PATH, GateResult, Invariance, InvarianceResult, Status
from gdnbench.model.workload import Workload
from gdnbench.verify.check import Oracle, consult_oracle
from gdnbench.verify.gates import differs, in_gate
from gdnbench.verify.pairs import MOST_BYTES, Batch, InvariancePairs, Pair, Same, TokenSpan
from gdnbench.verify.rotation import Workspaces

Outputs = dict[str, torch.Tensor]
LaunchTimes = Callable[[CatalogEntry, Variant, Workspace, int], Iterator[tuple[torch.Tensor, ...]]]
"""Launches a variant on a workspace so many times, each time as `launch_once`, and yields what each launch returns."""

NameFunctions = Callable[[CatalogEntry, Variant, Workspace], tuple[str, ...]]
"""Names the GPU's functions that a variant launches on a workspace; none where they are declared, or not known."""

RERUNS: Mapping[str, int] = {"cuda": 20, "cpu": 3, "interpreter": 1}


@dataclass(frozen=True)
class _Launched:
    """What one side of a comparison ran, and copies of what it gave."""

    batch: Batch
    entry: CatalogEntry
    variant: Variant
    outputs: Outputs


class InvarianceTest:
    """The kinds of invariance of one case, by launches `where` it is verified: `cuda`, `cpu` or `interpreter`."""

    def __init__(
        self,
        case: Case,
        workspaces: Workspaces,
        pairs: InvariancePairs,
        where: str,
        launch: LaunchTimes,
        name_functions: NameFunctions = lambda *_: (),
    ) -> None:
        self._case, self._workspaces, self._pairs, self._launch_times = case, workspaces, pairs, launch
        self._where, self._name_functions = where, name_functions
        self._entry, self._owner = workspaces.entry(case), workspaces.catalog.owner(case.variant.label)
        on_gpu = workspaces.task.device == "cuda"
        self._gpu = gpu_slug(torch.cuda.get_device_properties(0).name) if on_gpu else CPU
        self._kept: dict[int, _Launched] = {}  # by the batch's id
        self._oracles: dict[int, Oracle] = {}

    @property
    def claims(self) -> tuple[Invariance, ...]:
        """The kinds that the kernel of the case's label claims."""
        return (self._owner or self._entry).kernel.invariant

    def tests(self) -> Iterator[tuple[str, Callable[[], InvarianceResult]]]:
        """Yields tests by name: of all kinds if the task says so, and of its path, unless the kernel is a floor.

        Else those of what is claimed, and none where only the timed inputs are verified.
        """
        task, kinds = self._workspaces.task, self._workspaces.kinds(self._case.workload)
        is_whole = len(task.scenarios.get(self._case.id, kinds)) > 1 or len(kinds) == 1
        for kind in INVARIANCES if not self._entry.kernel.floor else ():
            if task.invariance or (kind in self.claims and is_whole):
                yield f"{kind} invariance", partial(self.result, kind, in_gates=task.invariance)
        if task.path and not self._entry.kernel.floor:
            yield f"path by {task.path}", partial(self.result, PATH, in_gates=True)

    def result(self, kind: Invariance | Literal["path"], *, in_gates: bool) -> InvarianceResult:
        """Compares every pair of a kind; with `in_gates` also by how much what differs does, which takes the oracle.

        A kind that is not claimed is skipped, with the reason, where a launch raises.
        """
        claimed = kind in self.claims
        if self._pairs.op.tensor_bytes(self._case.workload) > MOST_BYTES:
            return InvarianceResult(kind, claimed, skipped=_TOO_LARGE)
        try:
            found = [self._compared(kind, *pair, claimed=claimed, in_gates=in_gates) for pair in self._launched(kind)]
        except Exception as error:
            if claimed:
                raise
            return InvarianceResult(kind, claimed, skipped=tell_raised(error, self._entry.folder))
        finally:
            self._oracles.clear()
        if not found:
            return InvarianceResult(kind, claimed, skipped=_SKIPPED[kind])
        worst = max(found, key=lambda each: each.share)
        return replace(worst, pairs=len(found))

    def _launched(self, kind: Invariance | Literal["path"]) -> Iterator[tuple[str, _Comparison]]:
        """Launches the pairs of a kind, one after the other; those that the kernel cannot do are left out."""
        workload = self._case.workload
        if kind == "rerun":
            yield from self._rerun()
        elif kind == "split":
            yield from self._split()
        elif kind == "path":
            yield from self._path(self._workspaces.task.path)
        else:
            for pair in self._pairs.of(workload, kind):
                if all(map(self._can_do, (pair.one, pair.other, *([pair.second] if pair.second else [])))):
                    yield pair.difference, _Comparison(pair, self._first(pair.one), *self._others(pair))
            if kind == "batch":
                yield from self._by_params_of_other_sizes()

    def _compared(
        self, kind: Invariance | Literal["path"], pair: str, comparison: _Comparison, *, claimed: bool, in_gates: bool
    ) -> InvarianceResult:
        first, largest, counts = "", 0.0 if in_gates else None, dict[str, tuple[int, int]]()
        for spec, one, other in comparison.parts():
            wrong = differs(one, other)
            count, (differing, of) = int(wrong.sum()), counts.get(spec.name, (0, 0))
            counts[spec.name] = differing + count, of + wrong.numel()
            if count and not first:
                first = _first(spec, wrong, one, other, comparison.one.outputs[spec.name])
        differing, of = (sum(each) for each in zip((0, 0), *counts.values(), strict=True))
        by_tensor = "; ".join(f"{name} {some:,} of {every:,}" for name, (some, every) in counts.items())
        if differing and largest is not None:
            largest = self._largest_in_gates(comparison)
        between = self._between(comparison.one, comparison.other) if differing else ""
        return InvarianceResult(kind, claimed, pair, 1, differing, of, by_tensor, first, largest, between)

    def _between(self, one: _Launched, other: _Launched) -> str:
        """What the kernel does otherwise in one of two launches, as it declares it or as its launches show it."""
        functions = [self._name_functions(each.entry, each.variant, each.batch.workspace) for each in (one, other)]
        alone = [
            ", ".join(name for name in dict.fromkeys(own) if name not in others)
            for own, others in (functions, functions[::-1])
        ]
        launched = f"launches {' | '.join(each or 'no other' for each in alone)}" if any(alone) else ""
        return "; ".join(filter(None, [_declared_between(one, other), launched]))

    def _variant_at(self, workload: Workload) -> tuple[CatalogEntry, Variant]:
        """The kernel and the params that the case's label stands for at another workload on this device."""
        if workload == self._case.workload:
            return self._entry, self._case.variant
        return self._workspaces.catalog.at(self._named, workload, self._gpu)

    @cached_property
    def _named(self) -> Variant:
        return find_variant(self._workspaces.catalog, self._pairs.op.name, self._case.variant.label)[1]

    def _can_do(self, batch: Batch) -> bool:
        entry, _ = self._variant_at(batch.workspace.workload)
        return not entry.kernel.unsupported_reason(batch.workspace.workload)

    def _launch(self, batch: Batch, variant: tuple[CatalogEntry, Variant] | None = None) -> _Launched:
        entry, chosen = variant or self._variant_at(batch.workspace.workload)
        (launched,) = self._all_launched(batch, entry, chosen, 1)
        return launched

    def _all_launched(self, batch: Batch, entry: CatalogEntry, variant: Variant, times: int) -> Iterator[_Launched]:
        for outputs in self._launch_times(entry, variant, batch.workspace, times):
            copies = [each.contiguous().clone() for each in outputs]  # which the next launch does not overwrite
            yield _Launched(batch, entry, variant, dict(zip(batch.workspace.outputs, copies, strict=True)))

    def _first(self, batch: Batch) -> _Launched:
        """The first launch of a batch, which pairs share."""
        if id(batch) not in self._kept:
            self._kept[id(batch)] = self._launch(batch)
        return self._kept[id(batch)]

    def _others(self, pair: Pair) -> tuple[_Launched, _Launched | None]:
        other = self._first(pair.other)
        if pair.second is None:
            return other, None
        for one, two in zip(pair.same, pair.same_in_second, strict=True):
            pair.second.adopt_state(pair.other, other.outputs, one.other, two.other)
        return other, self._launch(pair.second)

    def _rerun(self) -> Iterator[tuple[str, _Comparison]]:
        batch = self._pairs.base(self._case.workload)
        first = self._first(batch)
        for number, again in enumerate(self._all_launched(batch, self._entry, self._case.variant, RERUNS[self._where])):
            yield f"launch 1 | launch {number + 2}", _Comparison(None, first, again)

    def _split(self) -> Iterator[tuple[str, _Comparison]]:
        """Other params one at a time, the first and the last choice of each: those that cannot launch are left out."""
        batch = self._pairs.base(self._case.workload)
        entry, variant = self._entry, self._case.variant
        for difference, changed in entry.changed(variant):
            try:
                other = self._launch(batch, (entry, changed))
            except (GdnbenchError, AssertionError, ValueError):  # not for this workload
                continue
            yield difference, _Comparison(None, self._first(batch), other)

    def _path(self, label: str) -> Iterator[tuple[str, _Comparison]]:
        """A call of another kernel, by its label, for each token: decode steps, for drafts or prompts."""
        catalog = self._workspaces.catalog
        owner = catalog.owner(label)
        assert owner
        chosen = find_variant(catalog, owner.op.name, label)[1]
        numerics = load_numerics(owner.op, catalog.op_folders[owner.op.name])
        base, steps = self._pairs.steps(self._case.workload, owner.op, numerics)
        if not self._can_do(base):
            return
        one, launched = self._first(base), list[_Launched]()
        for step in steps:
            for place in range(len(step.lengths) if launched else 0):
                step.adopt_state(launched[-1].batch, launched[-1].outputs, TokenSpan(place), TokenSpan(place))
            launched.append(self._launch(step, catalog.at(chosen, step.workspace.workload, self._gpu)))
        pair = f"{base.workspace.workload} | {len(launched)} calls of {label}"
        yield pair, _Comparison(None, one, launched[-1], steps=tuple(launched))

    def _by_params_of_other_sizes(self) -> Iterator[tuple[str, _Comparison]]:
        """The same batch by the kernels and params that are chosen for batches of other sizes."""
        workload = self._case.workload
        tried = [self._chosen(workload)]
        for other in SequenceLayout.of(self._pairs.op).other_sizes(workload):
            entry, variant = self._variant_at(other)
            if self._chosen(other) in tried or entry.kernel.unsupported_reason(workload):
                continue
            tried.append(self._chosen(other))
            batch = self._pairs.base(workload)
            pair = f"{workload} | with the params of {other.x_term}"
            yield pair, _Comparison(None, self._first(batch), self._launch(batch, (entry, variant)))

    def _chosen(self, workload: Workload) -> tuple[str, object]:
        _, variant = self._variant_at(workload)
        return variant.kernel, variant.params

    def _largest_in_gates(self, comparison: _Comparison) -> float:
        batch, op = comparison.one.batch, self._pairs.op
        key = id(batch)
        if key not in self._oracles:
            as_drawn = replace(batch.workspace, inputs=batch.workspace.pristine)
            self._oracles[key] = consult_oracle(as_drawn, self._workspaces.numerics)
        expected, largest = self._oracles[key], 0.0
        for gate in op.gates:
            right = expected.outputs[gate.tensor]
            size = expected.roundoff.get(gate.tensor, torch.zeros((), device=right.device)).expand_as(right)
            given = ({**comparison.one.outputs, gate.tensor: each} for each in (right, size))
            rights, sizes = (replace(comparison, one=replace(comparison.one, outputs=each)) for each in given)
            for (spec, one, other), (_, wanted, _), (_, off, _) in zip(
                comparison.parts(), rights.parts(), sizes.parts(), strict=True
            ):
                if spec.name == gate.tensor and one.numel():
                    largest = max(largest, in_gate(gate, one, other, wanted, off))
        return largest


@dataclass(frozen=True)
class _Comparison:
    """What two launches have in common, by a pair; without one all of their outputs."""

    pair: Pair | None
    one: _Launched
    other: _Launched
    second: _Launched | None = None
    steps: tuple[_Launched, ...] = ()  # a call for each token, the other way to what `one` computes

    def parts(self) -> Iterator[tuple[TensorSpec, torch.Tensor, torch.Tensor]]:
        """The views of each output that have to be equal."""
        one, pair = self.one, self.pair
        if self.steps:
            yield from self._of_steps()
            return
        for spec in one.batch.workspace.op.outputs:
            left, right = one.outputs[spec.name], self.other.outputs[spec.name]
            if pair is None:
                yield spec, left, right
                continue
            has_tokens = one.batch.has_tokens(spec)
            for each in pair.same if has_tokens or not pair.tokens_only else ():
                yield spec, one.batch.part(spec, left, each.one), pair.other.part(spec, right, each.other)
            if pair.second is None or self.second is None:
                continue
            for each in pair.same_in_second:
                spans = each if has_tokens else Same(TokenSpan(each.one.place), TokenSpan(each.other.place))
                later = pair.second.part(spec, self.second.outputs[spec.name], spans.other)
                yield spec, one.batch.part(spec, left, spans.one), later

    def _of_steps(self) -> Iterator[tuple[TensorSpec, torch.Tensor, torch.Tensor]]:
        """Each token's outputs of the same name, and the states after the last one."""
        one, last = self.one, len(self.steps) - 1
        left = one.batch.layout.after
        for spec in one.batch.workspace.op.outputs:
            for token, step in enumerate(self.steps):
                specs = {each.name: each for each in step.batch.workspace.op.outputs}
                name = step.batch.layout.after if spec.name == left else spec.name
                if name not in specs or (token < last and not one.batch.has_tokens(spec)):
                    continue
                for place in range(len(one.batch.lengths)):
                    span = TokenSpan(place, token, token + 1) if one.batch.has_tokens(spec) else TokenSpan(place)
                    own = one.batch.part(spec, one.outputs[spec.name], span)
                    other = step.batch.part(specs[name], step.outputs[name], TokenSpan(place))
                    yield spec, own, other.reshape(own.shape)


def claim_gates(results: Sequence[InvarianceResult], scenario: str) -> Iterator[GateResult]:
    """Yields the gates of claims, but for those of which there was nothing to compare."""
    for each in results:
        if each.claimed and not each.skipped:
            status, told = (Status.WRONG_NUMBERS, each.reason) if each.differing else (Status.OK, "")
            yield GateResult(f"{each.kind}{GATE_SUFFIX}", scenario, float(each.differing), 0.0, "", status, told=told)


_TOO_LARGE = f"its tensors take more than {MOST_BYTES >> 30} GiB: name a smaller workload"
_SKIPPED: Mapping[Invariance | Literal["path"], str] = {
    PATH: "the kernel can do no batch of another size",
    "batch": "the kernel can do no batch of another size",
    "order": "the kernel can do no batch in another order",
    "append": "there are no sequences of two tokens or more",
    "chunking": "no sequence goes on from another call's state in fp32",
    "split": "the kernel has no params that it can do otherwise",
    "rerun": "it was launched once",
}


def _first(spec: TensorSpec, wrong: torch.Tensor, one: torch.Tensor, other: torch.Tensor, whole: torch.Tensor) -> str:
    """Names the first wrong element by its index in the first launch's output, with both values."""
    place = tuple(int(axis) for axis in np.unravel_index(int(wrong.flatten().int().argmax()), wrong.shape))
    begin = np.unravel_index(int(one.storage_offset()) - int(whole.storage_offset()), whole.shape)
    index = ", ".join(str(int(at) + step) for at, step in zip(begin, place, strict=True))
    return f"{spec.name}[{index}], {float(one[place]):.9g} and {float(other[place]):.9g}"


def _declared_between(one: _Launched, other: _Launched) -> str:
    """What a kernel declares to do otherwise in one of two launches: the kernel picked, its params, its launches."""
    if one.variant.kernel != other.variant.kernel:
        return f"{one.variant.in_full} | {other.variant.in_full}"
    values = {name: (value, other.variant.params[name]) for name, value in one.variant.params.items()}
    differing = [f"{name}={value} | {changed}" for name, (value, changed) in values.items() if value != changed]
    kernel = one.entry.kernel
    for launch in kernel.launches if isinstance(kernel, CudaKernel | TritonKernel) else ():
        grids = [tuple(launch.grid(each.batch.workspace.workload, each.variant.params)) for each in (one, other)]
        if grids[0] != grids[1]:
            differing.append(f"grid of {launch.entry} {_grid(grids[0])} | {_grid(grids[1])}")
    return "; ".join(differing)


def _grid(blocks: Sequence[int]) -> str:
    return "x".join(map(str, blocks))
