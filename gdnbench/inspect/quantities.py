"""The numbers of a compiled kernel and of its schedule, under one name each, and rules that bound them.

Tables show them, comparisons compare them and `--fail-on spills,regs>64,smem>48K,occupancy<50` bounds them.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.revision import GIT_PREFIX, catalog_at, check_was_there, find_revision
from gdnbench.catalog.select import find_variant
from gdnbench.codegen.sass import family_order, normalize
from gdnbench.codegen.schedule import IssuedInstruction, ScheduleSummary, count_waits
from gdnbench.errors import ExitCode, UsageError
from gdnbench.inspect.compiled import BuildOutcome, CompiledKernel, FailedBuild, Subject, launches_of
from gdnbench.model.kernel import TorchKernel

QuantityValue = int | float | None
"""A value; None if unknown."""


@dataclass(frozen=True)
class BuildQuantity:
    """One number of a compiled kernel; `key` is its name in JSON, CSV and rules, `title` in tables, with its unit."""

    key: str
    title: str
    read: Callable[[CompiledKernel], QuantityValue]


RESOURCES: tuple[BuildQuantity, ...] = (
    BuildQuantity("regs", "registers per thread", lambda it: it.resources.registers),
    BuildQuantity("spills", "spilled, bytes/thread", lambda it: it.resources.spill_bytes),
    BuildQuantity("spill_stores", "spill stores, bytes", lambda it: it.mix.spill_store_bytes),
    BuildQuantity("spill_loads", "spill loads, bytes", lambda it: it.mix.spill_load_bytes),
    BuildQuantity("serialized", "serialized wgmma", lambda it: it.serialized),
    BuildQuantity("stack", "stack, bytes/thread", lambda it: it.resources.stack_bytes),
    BuildQuantity("static_smem", "static shared, bytes", lambda it: it.resources.shared_bytes),
    BuildQuantity(
        "dynamic_smem", "dynamic shared, bytes", lambda it: it.request.shared_bytes - it.resources.shared_bytes
    ),
    BuildQuantity("smem", "shared per block, bytes", lambda it: it.request.shared_bytes),
)

OCCUPANCY: tuple[BuildQuantity, ...] = (
    BuildQuantity("threads", "threads per block", lambda it: it.request.threads),
    BuildQuantity("blocks", "blocks per SM", lambda it: it.occupancy.blocks),
    BuildQuantity("warps", "warps per SM", lambda it: it.occupancy.warps),
    BuildQuantity("occupancy", "occupancy, %", lambda it: it.occupancy.percent),
    BuildQuantity("grid", "blocks of the grid", lambda it: it.blocks),
    BuildQuantity("waves", "waves", lambda it: it.waves),
)

CODE: tuple[BuildQuantity, ...] = (
    BuildQuantity("instructions", "instructions", lambda it: it.mix.instructions),
    BuildQuantity("code", "code, bytes", lambda it: it.mix.code_bytes),
    BuildQuantity("predicated", "under a predicate", lambda it: it.mix.predicated),
    BuildQuantity("load_bits", "widest global load, bits", lambda it: it.build.load_bits),
    BuildQuantity("trips", "trips to memory in a row", lambda it: it.milestones.dependent_loads),
)

QUANTITIES: Mapping[str, BuildQuantity] = {one.key: one for one in (*RESOURCES, *OCCUPANCY, *CODE)}


def mix_rows(compiled: CompiledKernel) -> dict[str, int]:
    """Returns the instruction mix and the cache hints, under their names in tables."""
    hints = {f"hint .{name}": count for name, count in compiled.mix.hints.items()}
    return {**compiled.mix.families, **hints}


def mix_order(name: str) -> tuple[bool, tuple[int, int], str]:
    """Sort key for those names: families in their usual order, then hints."""
    hint = name.startswith("hint ")
    return hint, (0, 0) if hint else family_order(name), name


@dataclass(frozen=True)
class ScheduleQuantity:
    """One number of a schedule; `key` is its name in JSON and CSV, `title` in tables, below its section's."""

    key: str
    title: str
    read: Callable[[ScheduleSummary], int | None]  # None if the path has no such instruction


def _first(steps: Sequence[IssuedInstruction]) -> int | None:
    return steps[0].cycle if steps else None


def _last(steps: Sequence[IssuedInstruction]) -> int | None:
    return steps[-1].cycle if steps else None


_CYCLES: tuple[ScheduleQuantity, ...] = (
    ScheduleQuantity("first_load", "first global load", lambda it: _last(it.first)),
    ScheduleQuantity("last_early_load", "last one before a load is waited for", lambda it: _last(it.early_loads)),
    ScheduleQuantity("first_wait", "first wait for a load or mbarrier", lambda it: _first(it.arrivals)),
    ScheduleQuantity("last_wait", "last such wait before the last store", lambda it: _last(it.arrivals)),
    ScheduleQuantity("first_store", "first global store", lambda it: _first(it.stores)),
    ScheduleQuantity("last_store", "last global store", lambda it: _last(it.stores)),
    ScheduleQuantity("end", "last instruction", lambda it: it.end),
)

_BETWEEN: tuple[ScheduleQuantity, ...] = (
    ScheduleQuantity("to_first_store", "to the first store", lambda it: it.to_first_store),
    ScheduleQuantity("to_last_store", "to the last store", lambda it: it.to_last_store),
)

_LOADS: tuple[ScheduleQuantity, ...] = (
    ScheduleQuantity("early_loads", "before one is waited for", lambda it: len(it.early_loads)),
    ScheduleQuantity("late_loads", "only after", lambda it: len(it.late_loads)),
    ScheduleQuantity("trips", "trips to memory in a row", lambda it: it.dependent_loads),
)

SCHEDULE_SECTIONS: Mapping[str, tuple[ScheduleQuantity, ...]] = {
    "issue cycle": _CYCLES,
    "issue cycles from the first such wait": _BETWEEN,
    "global loads": _LOADS,
}

SCHEDULE_WAITS: Mapping[str, tuple[str, Callable[[ScheduleSummary], Mapping[str, int]]]] = {
    "waits_before": ("waits until the first global load", lambda it: count_waits(it.first)),
    "waits_after": ("waits from the first such one to the last store", lambda it: count_waits(it.middle)),
}
"""Counts of instructions by what they wait for: by name in JSON, a section's title and the counts."""


def schedule_numbers(found: ScheduleSummary) -> dict[str, int | None]:
    """Returns every number by its key."""
    return {each.key: each.read(found) for quantities in SCHEDULE_SECTIONS.values() for each in quantities}


_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "%": 1}
_RULE = re.compile(r"([a-z_]+)\s*(?:(>=|<=|==|!=|>|<)\s*(\d+(?:\.\d+)?)\s*([KM%]?)B?)?")
_HINT = (
    f"a rule is NAME, which means NAME>0, or NAME, one of {' '.join(_COMPARISONS)}, and a number (K is 1024), "
    f"as in spills,regs>64,smem>48K,occupancy<50; names: {', '.join(QUANTITIES)}"
)


@dataclass(frozen=True)
class Rule:
    """A condition that no kernel may meet; `text` is as the user wrote it."""

    text: str
    key: str
    sign: str
    bound: float

    def value(self, compiled: CompiledKernel) -> float | None:
        """Returns the quantity if it breaks the rule, else None; an unknown one breaks no rule."""
        value = QUANTITIES[self.key].read(compiled)
        return value if value is not None and _COMPARISONS[self.sign](value, self.bound) else None


@dataclass(frozen=True)
class Violation:
    """A kernel that breaks a rule, and the value that does."""

    compiled: CompiledKernel
    rule: Rule
    value: float

    def __str__(self) -> str:
        subject = self.compiled.subject
        title = QUANTITIES[self.rule.key].title
        return f"{subject.title} {subject.workload} {self.compiled.arch}: {self.rule.text}: {title}: {self.value:.4g}"


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Parses `--fail-on`, which may be empty; raises UsageError, with the syntax as its hint, for an invalid rule."""
    return tuple(_parse(term.strip(), text) for term in text.split(",")) if text.strip() else ()


def _parse(term: str, text: str) -> Rule:
    found = _RULE.fullmatch(term)
    if found is None:
        raise UsageError(f"--fail-on {text}: `{term}` is not a rule", _HINT)
    key, sign, bound, unit = found.groups(default="")
    if key not in QUANTITIES:
        raise UsageError(f"--fail-on {text}: there is no {key}", _HINT)
    return Rule(term, key, sign or ">", float(bound or 0) * _UNITS[unit])


def find_violations(outcomes: Iterable[BuildOutcome], rules: Sequence[Rule]) -> tuple[Violation, ...]:
    """Returns each pair of a kernel and a rule that it breaks."""
    return tuple(
        Violation(outcome, rule, value)
        for outcome in outcomes
        if isinstance(outcome, CompiledKernel)
        for rule in rules
        if (value := rule.value(outcome)) is not None
    )


def exit_code(outcomes: Iterable[BuildOutcome], broken: Sequence[Violation]) -> ExitCode:
    """Returns 6 if a kernel did not build, else 8 if CUDA would refuse a launch, else 1 if one breaks a rule."""
    found = tuple(outcomes)
    if any(isinstance(outcome, FailedBuild) for outcome in found):
        return ExitCode.BUILD
    if any(isinstance(outcome, CompiledKernel) and outcome.refused for outcome in found):
        return ExitCode.PARTIAL
    return ExitCode.REGRESSION if broken else ExitCode.OK


@dataclass(frozen=True)
class BuildChange:
    """A number or word that differs between two builds; `key` is its name in JSON, `title` in tables."""

    key: str
    title: str
    before: QuantityValue | str
    after: QuantityValue | str


@dataclass(frozen=True)
class BuildPair:
    """A kernel and its counterpart, for one architecture."""

    before: BuildOutcome
    after: BuildOutcome

    @property
    def built(self) -> tuple[CompiledKernel, CompiledKernel] | tuple[()]:
        """Before and after; empty if one did not build."""
        if isinstance(self.before, FailedBuild) or isinstance(self.after, FailedBuild):
            return ()
        return self.before, self.after

    @property
    def changes(self) -> tuple[BuildChange, ...]:
        """The numbers that differ; empty if one did not build."""
        return _changes(*self.built) if self.built else ()

    def sass_diff(self, context: int = 3) -> list[str]:
        """Returns a unified diff of the code, with registers and addresses normalized; empty if it is the same."""
        if not self.built:
            return []
        one, other = (normalize(compiled.sass) for compiled in self.built)
        before, after = (f"{compiled.subject.title} {compiled.arch}" for compiled in self.built)
        return list(unified_diff(one, other, before, after, lineterm="", n=context))

    @property
    def same(self) -> bool:
        """Whether both built, into the same code with the same numbers."""
        return bool(self.built) and not self.changes and not self.sass_diff()


def is_revision(other: str) -> bool:
    """Whether the argument of `--diff` is a git revision, not a kernel."""
    return other.startswith(GIT_PREFIX)


def find_counterparts(subjects: Sequence[Subject], catalog: Catalog, op: str, wanted: str) -> tuple[Subject, ...]:
    """Returns each subject's counterpart: of the kernel `wanted`, or of the same kernel at revision `git:REV`."""
    if not is_revision(wanted):
        return tuple(_find_counterpart(catalog, op, wanted, subject, wanted) for subject in subjects)
    revision = wanted.removeprefix(GIT_PREFIX)
    if not revision:
        raise UsageError("--diff git: names no revision", "as in --diff git:HEAD~1")
    roots = dict.fromkeys(subject.entry.root for subject in subjects)
    then = {root: catalog_at(catalog, root, find_revision(root, revision)) for root in roots}
    for subject in subjects:
        check_was_there(then[subject.entry.root], subject.entry.kernel.name, revision, subject.entry.folder)
    return tuple(
        _find_counterpart(then[subject.entry.root], op, subject.variant.label, subject, wanted) for subject in subjects
    )


def _find_counterpart(catalog: Catalog, op: str, label: str, subject: Subject, name: str) -> Subject:
    _, named = find_variant(catalog, op, label)
    entry, variant = catalog.behind(named, subject.workload)
    if isinstance(entry.kernel, TorchKernel):
        raise UsageError(f"{label} has no build of gdnbench's own", "compare with a CUDA or Triton kernel")
    return _counterpart(launches_of(name, entry, variant, subject.workload), subject)


def _counterpart(launches: Sequence[Subject], subject: Subject) -> Subject:
    """Returns the other kernel's launch of the same entry, else the one in the same position."""
    own = [each.launch for each in launches_of(subject.name, subject.entry, subject.variant, subject.workload)]
    place = own.index(subject.launch)
    found = next((each for each in launches if subject.launch and each.launch == subject.launch), None)
    if found is None and place >= len(launches):
        problem = f"{launches[0].name} has no launch to compare {subject.title} with"
        raise UsageError(problem, f"{launches[0].name} has {len(launches)} and {subject.name} {len(own)}")
    return found or launches[place]


def _changes(before: CompiledKernel, after: CompiledKernel) -> tuple[BuildChange, ...]:
    numbers = [BuildChange(key, one.title, one.read(before), one.read(after)) for key, one in QUANTITIES.items()]
    limits = BuildChange("limited_by", "limited by", before.occupancy.limited_by, after.occupancy.limited_by)
    there, here = mix_rows(before), mix_rows(after)
    names = sorted({*there, *here}, key=mix_order)
    mixed = [BuildChange(name.replace(" ", "_"), name, there.get(name, 0), here.get(name, 0)) for name in names]
    return tuple(change for change in (*numbers, limits, *mixed) if change.before != change.after)
