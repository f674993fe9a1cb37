"""A family: kernels of several ops, one for each call of a program, at the same sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from gdnbench.catalog.catalog import Catalog
from gdnbench.catalog.request import parse_profiles
from gdnbench.catalog.select import find_variant, resolve_op
from gdnbench.errors import ShapeError, UsageError
from gdnbench.model.case import Variant
from gdnbench.model.sequences import CALLS, Call, SequenceLayout
from gdnbench.model.workload import Sizes, Workload
from gdnbench.verify.programs import EventRow, Extent

FEWEST_SLOTS = 64
SLOTS = "slots="  # in `--shape`: of the pool, whatever ops say


@dataclass(frozen=True)
class Member:
    """A kernel of a family, by its variant; `sizes` are those that do not depend on the batch."""

    variant: Variant
    layout: SequenceLayout
    sizes: Sizes

    @property
    def call(self) -> Call:
        """What it is called for."""
        return self.layout.call

    def workload(self, counts: Sequence[int]) -> Workload:
        """The workload of a launch by the tokens of each sequence; ShapeError if the op does not define it."""
        return self.layout.op.workload({**self.sizes, **self.layout.sizes(counts)})

    def tokens(self, row: EventRow) -> int:
        """The tokens that a launch takes of a sequence of a program."""
        return {"prefill": row.count, "verify": self.drafts}.get(self.call, 1)

    def defines(self, rows: Sequence[EventRow]) -> bool:
        """Whether the op defines a launch on such a batch."""
        with suppress(ShapeError):
            return bool(rows and self.workload([self.tokens(row) for row in rows]))
        return False

    @property
    def smallest(self) -> Workload:
        """One sequence with a token, its drafts, or as many as a checkpoint takes."""
        return self.workload([self.drafts or self.every or 1])

    @property
    def drafts(self) -> int:
        """The tokens of a sequence that are verified at once; 0 for another call."""
        return self._size(self.layout.drafts)

    @property
    def every(self) -> int:
        """The tokens between two checkpoints; 0 without."""
        return self._size(self.layout.declared.every)

    @property
    def flush(self) -> int:
        """The tokens in the rings when the state is written; 0 without rings."""
        return self._size(self.layout.declared.flush)

    def _size(self, axis: str) -> int:
        return self.layout.op.workload(self.sizes).axes[axis] if axis else 0


Family = Mapping[Call, Member]


def find_family(catalog: Catalog, labels: Iterable[str], shape: str) -> Family:
    """The kernels that were named, by what they are called for.

    `shape` is as `--shape` takes it, for all ops: each has what it knows of it. Raises UnknownNameError for an unknown
    kernel, DeclarationError for an op that does not say how it takes sequences, and UsageError for a shape that no op
    knows, two kernels for one call, none that takes tokens, or ablations and floors.
    """
    members = [_member(catalog, label, shape) for label in labels]
    family: dict[Call, Member] = {}
    for member in members:
        other = family.setdefault(member.call, member)
        if other is not member:
            both = f"{other.variant.label} and {member.variant.label}"
            raise UsageError(f"{both} are both for {member.call}", "name one kernel for each call")
    if not set(family) - {"copy"}:
        raise UsageError("no kernel that takes tokens was named", f"name one each for some of {', '.join(CALLS)}")
    known = {name for member in members for name in _names(member.layout)}
    terms = [term for term in shape.split() if not term.startswith(SLOTS)]
    if unknown := [term for term in terms if term.partition("=")[0] not in known]:
        raise UsageError(f"--shape {shape}: {unknown[0]} sets no axis", f"there are {', '.join(sorted(known))}")
    return {call: family[call] for call in CALLS if call in family}


def _member(catalog: Catalog, label: str, shape: str) -> Member:
    op = catalog.ops[resolve_op(catalog, "", [label])]
    entry, variant = find_variant(catalog, op.name, label)
    if entry.kernel.floor:
        raise UsageError(f"{label} is a floor, and computes nothing", "name a kernel")
    layout = SequenceLayout.for_programs(op)
    own = " ".join(term for term in shape.split() if term.partition("=")[0] in _names(layout))
    sizes: dict[str, int | Sequence[int]] = {**layout.declared.shape}
    for setting in op.workloads.parse(own):
        if len(setting) > 1:
            raise UsageError(f"--shape {shape}: programs run at one size", "give one value for each axis")
        sizes |= setting[0]
    return Member(variant, layout, sizes)


def _names(layout: SequenceLayout) -> set[str]:
    workloads = layout.op.workloads
    return {*workloads.names, *(alias.name for alias in workloads.aliases)}


def typed_slots(shape: str) -> int:
    """The slots of the pool that `--shape` says, 0 if it says none; UsageError for what is no number of 2 or more."""
    typed = [term.partition("=")[2] for term in shape.split() if term.startswith(SLOTS)]
    if typed and not (typed[-1].isdecimal() and int(typed[-1]) > 1):
        raise UsageError(f"--shape {SLOTS}{typed[-1]}: a pool has 2 slots or more", f"as in --shape {SLOTS}1000")
    return int(typed[-1]) if typed else 0


def profile_of(family: Family, profile: str) -> str:
    """The one profile of these that `--profile` names; UsageError for several, or one that an op does not have."""
    if not profile:
        return ""
    named = {name for each in family.values() if each.layout.tokens for name in parse_profiles(each.layout.op, profile)}
    if len(named) != 1:
        raise UsageError(f"--profile {profile}: tokens are of one profile", "as in --profile never")
    return named.pop()


def slots_each(family: Family) -> int:
    """How many slots belong to a sequence: one for each draft, or for reading and writing, where an op has them."""
    layouts = [member.layout for member in family.values() if member.call != "copy"]
    drafts = [member.drafts for member in family.values() if member.layout.has_slot_each]
    return max([1, *drafts, *(2 for layout in layouts if layout.declared.to)])


def pool_slots(family: Family) -> int:
    """The slots of a pool at these sizes, the most that an op declares; `FEWEST_SLOTS` where none has a pool."""
    pools = [(member, member.layout.specs[member.layout.before]) for member in family.values() if member.layout.slots]
    return max([FEWEST_SLOTS, *(spec.sizes(each.layout.op.named_sizes(each.smallest))[0] for each, spec in pools)])


def extent_of(family: Family, slots: int, *, events: int = 0, batch: int = 1, tokens: int = 1) -> Extent:
    """The extent of programs for a family over a pool of so many slots, the first of which is nobody's."""
    drafts = max([1, *(member.drafts for member in family.values())])
    every = max([0, *(member.every for member in family.values())])
    has_trees = any(member.layout.declared.parent for member in family.values())
    apart = (slots - 1) // slots_each(family)
    return Extent(events, apart, batch, max(tokens, every), drafts, every=every, has_trees=has_trees)
