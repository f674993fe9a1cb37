"""Chooses the next experiment, a command that runs, from the catalog and the measurements."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.diagnose.evidence import Evidence, Experiment, launched_entries
from gdnbench.model.case import Variant
from gdnbench.model.kernel import CudaKernel, TorchKernel, TritonKernel


def peers(evidence: Evidence) -> Iterator[tuple[CatalogEntry, Variant]]:
    """Yields the op's other kernels and presets that gdnbench compiles, without floors, in catalog order."""
    for entry in evidence.catalog.of_op(evidence.entry.op.name):
        if isinstance(entry.kernel, CudaKernel | TritonKernel) and not entry.kernel.floor:
            for variant in (entry.default, *entry.presets):
                if variant.label != evidence.label:
                    yield entry, entry.at(variant, evidence.workload)


def makes_the_same_launches(evidence: Evidence, other: CatalogEntry) -> bool:
    """Whether another kernel's launches can be compared with this one's, one by one."""
    own, its = launched_entries(evidence.entry), launched_entries(other)
    return own == its or len(own) == len(its) == 1


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
    """Suggests more warps, by the kernel's params; else by hand."""
    change = "split a warp's rows among several warps of the block"
    return other_params(evidence, "more warps, or fewer rows a warp", "warps", change)


def shorter_path(evidence: Evidence) -> Experiment:
    """Suggests to compare with a faster kernel of such launches; else to list late loads, sweep params, or by hand."""
    listing = ("--schedule",) if evidence.dependent_loads > 1 else ()
    faster = faster_peer(evidence)
    if faster and _is_comparable(evidence, faster):
        why = f"{_times(evidence, faster)}: what differs?"
        return _at_workload(evidence, why, "inspect", evidence.label, "--diff", faster, *listing)
    if listing:
        why = "which loads come late, and what is waited for before them?"
        return _at_workload(evidence, why, "inspect", evidence.label, *listing)
    change = "start every load before the first use, and overlap what does not depend"
    return other_params(evidence, "which params make the shortest path?", "early", change)


def less_traffic(evidence: Evidence) -> Experiment:
    """Suggests to measure the copy floor if unknown; else as `fewer_instructions`."""
    is_known = evidence.own_times is not None and evidence.own_times.copy_us is not None
    if not is_known and evidence.label != evidence.entry.op.floor:
        return measure(evidence)
    return fewer_instructions(evidence)


def fewer_instructions(evidence: Evidence) -> Experiment:
    """Suggests to compare with a faster kernel; else to sweep the kernel's params, or inspect its code."""
    if faster := faster_peer(evidence):
        both, change = (("--diff", faster), "move") if _is_comparable(evidence, faster) else ((faster,), "differ")
        why = f"{_times(evidence, faster)}: which counters {change}?"
        return _at_workload(evidence, why, "ncu", evidence.label, *both)
    if evidence.entry.kernel.params:
        return sweep(evidence, "which params do the least besides the work?")
    if isinstance(evidence.entry.kernel, TorchKernel):
        return measure(evidence)
    return _at_workload(evidence, "which instructions are not the op's own?", "inspect", evidence.label)


def _is_comparable(evidence: Evidence, label: str) -> bool:
    return any(
        variant.label == label and makes_the_same_launches(evidence, entry) for entry, variant in peers(evidence)
    )


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
    return sweep(evidence, why) if evidence.entry.kernel.params else by_hand(evidence, suffix, change)


def sweep(evidence: Evidence, why: str) -> Experiment:
    """Suggests every value of all params."""
    return _at_workload(evidence, why, "sweep", "--kernel", evidence.label)


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


def faster_peer(evidence: Evidence) -> str:
    """Returns the fastest kernel of the run that beat this one, both by current code, or "" if none did."""
    measured = evidence.own_times
    if measured is None:
        return ""
    times, known = measured.times_us, {variant.label for _, variant in peers(evidence)} - {*measured.changed}
    beating = [label for label, time in times.items() if label in known and time < measured.time_us]
    return min(beating, key=lambda label: times[label], default="")


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
