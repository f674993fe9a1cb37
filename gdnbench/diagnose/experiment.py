"""Chooses the next experiment, a command that runs, from the catalog and the measurements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from math import prod

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.diagnose.evidence import Evidence, Experiment, launched_entries
from gdnbench.errors import BuildError
from gdnbench.inspect.compiled import Subject
from gdnbench.model.case import CodeState, Variant
from gdnbench.model.kernel import CudaKernel, TorchKernel, TritonKernel
from gdnbench.model.workload import Workload


@dataclass(frozen=True)
class KernelGrid:
    """A kernel's grid at a workload: its blocks, and the threads of a block."""

    label: str
    language: str
    blocks: int
    threads: int

    @property
    def total(self) -> int:
        """Threads of the whole grid."""
        return self.blocks * self.threads


def declared_grid(entry: CatalogEntry, variant: Variant, workload: Workload, launch: str = "") -> KernelGrid | None:
    """Returns the grid of a variant or one of its launches, or None if its declaration has none or fails."""
    if not isinstance(entry.kernel, CudaKernel | TritonKernel):
        return None
    try:
        request = Subject(variant.label, entry, variant, workload, launch).request()
    except BuildError:
        return None
    return KernelGrid(variant.label, entry.kernel.language, prod(request.grid), request.threads)


def own_grid(evidence: Evidence) -> KernelGrid | None:
    """Returns the explained kernel's grid: as profiled, else as declared; ignores a profile of other code."""
    declared = declared_grid(evidence.entry, evidence.variant, evidence.workload, evidence.entry_name)
    launch = evidence.launch
    if launch and not (declared and evidence.profile_code is CodeState.CHANGED):
        return KernelGrid(evidence.label, evidence.entry.kernel.language, launch.blocks, launch.threads)
    return declared


def peers(evidence: Evidence) -> Iterator[tuple[CatalogEntry, Variant]]:
    """Yields the op's other kernels and presets that gdnbench compiles, without floors, in catalog order."""
    for entry in evidence.catalog.of_op(evidence.entry.op.name):
        if isinstance(entry.kernel, CudaKernel | TritonKernel) and not entry.kernel.floor:
            for variant in (entry.default, *entry.presets):
                if variant.label != evidence.label:
                    yield entry, entry.at(variant, evidence.workload)


def peer_grids(evidence: Evidence) -> Iterator[KernelGrid]:
    """Yields the grids of peers with comparable launches: one each, or several of the same entries."""
    for entry, variant in peers(evidence):
        found = declared_grid(entry, variant, evidence.workload, evidence.entry_name)
        if found and makes_the_same_launches(evidence, entry):
            yield found


def makes_the_same_launches(evidence: Evidence, other: CatalogEntry) -> bool:
    """Whether another kernel's launches can be compared with this one's, one by one."""
    own, its = launched_entries(evidence.entry), launched_entries(other)
    return own == its or len(own) == len(its) == 1


def grids_by_param(evidence: Evidence) -> Iterator[tuple[str, KernelGrid]]:
    """Yields the kernel's grids with one param at another value, each with the param's name."""
    entry, variant = evidence.entry, evidence.variant
    for name, param in entry.kernel.params.items():
        for value in param.choices:
            if value != variant.params[name]:
                other = entry.with_params(variant, {name: value})
                if found := declared_grid(entry, other, evidence.workload, evidence.entry_name):
                    yield name, found


GridPredicate = Callable[[KernelGrid, KernelGrid], bool]
"""Whether the second grid, compared with the kernel's own, is wanted."""


def profile(evidence: Evidence) -> Experiment:
    """Suggests to collect the missing counters."""
    return _at_workload(evidence, "counters tell what warps wait for", "ncu", evidence.label)


def measure(evidence: Evidence) -> Experiment:
    """Suggests to time the kernel beside the copy floor."""
    floor, measured = evidence.entry.op.floor, evidence.measured
    labels = dict.fromkeys(filter(None, (evidence.label, floor)))
    flops_bind = not floor or (measured and measured.flops_us is not None)
    bound = "what FLOPs take at the GPU's peak" if flops_bind else "the copying floor"
    return _at_workload(evidence, f"{bound} is the bound: how far is it?", "run", "--kernel", ",".join(labels))


def more_warps(evidence: Evidence) -> Experiment:
    """Suggests more warps at the same grid, by a param or another kernel; else more warps by any grid, else by hand."""
    grid = own_grid(evidence)

    def has_more(own: KernelGrid, other: KernelGrid) -> bool:
        return other.blocks == own.blocks and other.threads > own.threads

    if same_grid := _by_param(evidence, has_more):
        return sweep(evidence, same_grid, "more warps at the same grid")
    if grid and (peer := _peer(evidence, has_more)):
        warps, own = peer.threads // 32, grid.threads // 32
        why = f"{peer.label} has the same {peer.blocks} blocks, each of {warps} warps instead of {own}"
        return _at_workload(evidence, why, "run", "--kernel", f"{evidence.label},{peer.label}")
    if in_all := _by_param(evidence, lambda own, other: other.total > own.total):
        return sweep(evidence, in_all, "fewer rows a warp make more warps in all")
    return by_hand(evidence, "warps", "split a warp's rows among several warps of the block")


def another_grid(evidence: Evidence, why: str, change: str) -> Experiment:
    """Suggests another number of blocks, by the kernel's own params; else by hand."""
    names = _by_param(evidence, lambda own, other: other.blocks != own.blocks)
    return sweep(evidence, names, why) if names else by_hand(evidence, "grid", change)


def shorter_path(evidence: Evidence) -> Experiment:
    """Suggests to compare with a faster kernel of the same grid; else to list late loads, sweep params, or by hand."""
    listing = ("--schedule",) if evidence.dependent_loads > 1 else ()
    if faster := faster_peer(evidence, same_grid=True):
        why = f"{_times(evidence, faster)} on the same grid: what differs?"
        return _at_workload(evidence, why, "inspect", evidence.label, "--diff", faster, *listing)
    if listing:
        why = "which loads come late, and what is waited for before them?"
        return _at_workload(evidence, why, "inspect", evidence.label, *listing)
    if evidence.entry.kernel.params:
        return sweep(evidence, (), "which params make the shortest path?")
    return by_hand(evidence, "early", "start every load before the first use, and overlap what does not depend")


def less_traffic(evidence: Evidence) -> Experiment:
    """Suggests to measure the copy floor if unknown; else as `fewer_instructions`."""
    is_known = evidence.own_times is not None and evidence.own_times.copy_us is not None
    if not is_known and evidence.label != evidence.entry.op.floor:
        return measure(evidence)
    return fewer_instructions(evidence)


def fewer_instructions(evidence: Evidence) -> Experiment:
    """Suggests to compare with a faster kernel of any grid; else to sweep the kernel's params, or inspect its code."""
    if faster := faster_peer(evidence, same_grid=False):
        comparable = any(
            variant.label == faster and makes_the_same_launches(evidence, entry) for entry, variant in peers(evidence)
        )
        both, change = (("--diff", faster), "move") if comparable else ((faster,), "differ")
        why = f"{_times(evidence, faster)}: which counters {change}?"
        return _at_workload(evidence, why, "ncu", evidence.label, *both)
    if evidence.entry.kernel.params:
        return sweep(evidence, (), "which params do the least besides the work?")
    if isinstance(evidence.entry.kernel, TorchKernel):
        return measure(evidence)
    return _at_workload(evidence, "which instructions are not the op's own?", "inspect", evidence.label)


def more_work_a_launch(evidence: Evidence) -> Experiment:
    """Suggests a run at larger sizes of the x axis: how much more work the launch carries at no cost."""
    x = evidence.workload.spec.x
    if x not in evidence.workload.axes:
        return measure(evidence)
    sizes = ",".join(str(evidence.workload.x * times) for times in (1, 2, 4, 8))
    why = f"how large an {x} does the launch carry at no cost?"
    return _at_workload(evidence, why, "run", "--kernel", evidence.label, sizes=sizes)


def other_params(evidence: Evidence, why: str, suffix: str, change: str) -> Experiment:
    """Suggests to sweep the kernel's params, if it has any; else by hand."""
    return sweep(evidence, (), why) if evidence.entry.kernel.params else by_hand(evidence, suffix, change)


def sweep(evidence: Evidence, names: Sequence[str], why: str) -> Experiment:
    """Suggests every value of the named params, or of all params if none is named."""
    params = [word for name in names for word in ("--param", name)]
    return _at_workload(evidence, why, "sweep", "--kernel", evidence.label, *params)


def by_hand(evidence: Evidence, suffix: str, change: str) -> Experiment:
    """Suggests a copy of the kernel to change; a library's kernel is compared with those of the catalog instead."""
    if isinstance(evidence.entry.kernel, TorchKernel):
        return fewer_instructions(evidence)
    op, kernel = evidence.entry.op.name, evidence.entry.kernel.name
    own_part = kernel.removeprefix(f"{op}-") if kernel.startswith(f"{op}-") else kernel.partition("-")[2]
    name = f"{op}-{own_part}-{suffix}"
    taken = evidence.catalog.entries
    free = next(each for number in count(1) if (each := name if number == 1 else f"{name}-{number}") not in taken)
    return Experiment(("gdnbench", "new", free, "--from", evidence.label), f"in the copy: {change}")


def faster_peer(evidence: Evidence, *, same_grid: bool) -> str:
    """Returns the fastest kernel of the run that beat this one, both by current code, or "" if none did."""
    measured = evidence.own_times
    if measured is None:
        return ""
    own, times = own_grid(evidence), measured.known_us
    known = {variant.label for _, variant in peers(evidence)}
    if same_grid:
        known = {
            other.label
            for other in peer_grids(evidence)
            if own and (own.blocks, own.threads) == (other.blocks, other.threads)
        }
    beating = [label for label, time in times.items() if label in known and time < measured.time_us]
    return min(beating, key=lambda label: times[label], default="")


def _by_param(evidence: Evidence, wanted: GridPredicate) -> tuple[str, ...]:
    own = own_grid(evidence)
    return tuple(dict.fromkeys(name for name, other in grids_by_param(evidence) if own and wanted(own, other)))


def _peer(evidence: Evidence, wanted: GridPredicate) -> KernelGrid | None:
    """Returns a kernel whose grid is wanted, preferably one that was faster, or one of the same language.

    If a run timed this kernel, the other must be timed in it, as it may be a draft otherwise. A kernel known to be
    slower is left out; one whose code changed since counts as unknown.
    """
    own, measured = own_grid(evidence), evidence.own_times
    times = measured.known_us if measured else {}
    bound = measured.time_us if measured else math.inf
    fitting = [
        other
        for other in peer_grids(evidence)
        if own and wanted(own, other) and times.get(other.label, 0.0) < bound
        if measured is None or other.label in measured.times_us
    ]
    language = evidence.entry.kernel.language
    return min(fitting, key=lambda other: (other.label not in times, other.language != language), default=None)


def _times(evidence: Evidence, label: str) -> str:
    measured = evidence.measured
    assert measured
    return f"{label} takes {measured.times_us[label]:.3g} of this one's {measured.time_us:.3g} µs"


def _at_workload(evidence: Evidence, why: str, *words: str, sizes: str = "") -> Experiment:
    """Suggests a command at the workload, of its x axis the `sizes` if given."""
    options = evidence.workload.options
    if sizes:
        x = evidence.workload.spec.x
        rest = [option for option in options if option != "--shape" and not option.startswith(f"{x}=")]
        options = ["--shape", f"{x}={sizes}", *(word for option in rest for word in ("--shape", option))]
    return Experiment(("gdnbench", *words, *options), why)
