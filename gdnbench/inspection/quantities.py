"""The numbers that are shown of a kernel, compared and held against rules, under one name each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gdnbench.binary.mix import family_order
from gdnbench.inspection.anatomy import Anatomy

Number = int | float | None
"""A value; None where it is not known."""


@dataclass(frozen=True)
class Quantity:
    """One number of every kernel.

    Attributes:
        key: its name in JSON, CSV and rules.
        title: its name in tables, with its unit.
        read: its value.
    """

    key: str
    title: str
    read: Callable[[Anatomy], Number]


RESOURCES: tuple[Quantity, ...] = (
    Quantity("regs", "registers per thread", lambda it: it.resources.registers),
    Quantity("spills", "spilled, bytes/thread", lambda it: it.resources.spill_bytes),
    Quantity("spill_stores", "spill stores, bytes", lambda it: it.mix.spill_store_bytes),
    Quantity("spill_loads", "spill loads, bytes", lambda it: it.mix.spill_load_bytes),
    Quantity("stack", "stack, bytes/thread", lambda it: it.resources.stack_bytes),
    Quantity("static_smem", "static shared, bytes", lambda it: it.resources.shared_bytes),
    Quantity("dynamic_smem", "dynamic shared, bytes", lambda it: it.dynamic_shared_bytes),
    Quantity("smem", "shared per block, bytes", lambda it: it.shared_bytes),
)

OCCUPANCY: tuple[Quantity, ...] = (
    Quantity("threads", "threads per block", lambda it: it.threads),
    Quantity("blocks", "blocks per SM", lambda it: it.occupancy.blocks),
    Quantity("warps", "warps per SM", lambda it: it.occupancy.warps),
    Quantity("occupancy", "occupancy, %", lambda it: it.occupancy.percent),
    Quantity("grid", "blocks of the grid", lambda it: it.blocks),
    Quantity("waves", "waves", lambda it: it.waves),
)

CODE: tuple[Quantity, ...] = (
    Quantity("instructions", "instructions", lambda it: it.mix.instructions),
    Quantity("code", "code, bytes", lambda it: it.mix.code_bytes),
    Quantity("predicated", "under a predicate", lambda it: it.mix.predicated),
    Quantity("load_bits", "widest global load, bits", lambda it: it.build.load_bits),
    Quantity("trips", "trips to memory in a row", lambda it: it.order.trips),
)

QUANTITIES: Mapping[str, Quantity] = {one.key: one for one in (*RESOURCES, *OCCUPANCY, *CODE)}


def mix_rows(anatomy: Anatomy) -> dict[str, int]:
    """The instruction mix, and the cache hints, under the names that tables show."""
    hints = {f"hint .{name}": count for name, count in anatomy.mix.hints.items()}
    return {**anatomy.mix.families, **hints}


def mix_order(name: str) -> tuple[bool, tuple[int, int], str]:
    """Sorts those names: families as they are shown everywhere, then hints."""
    hint = name.startswith("hint ")
    return hint, (0, 0) if hint else family_order(name), name
