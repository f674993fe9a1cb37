"""What an instruction moves between global memory and a thread or block, and what shows that it has arrived."""

from __future__ import annotations

from gdnbench.binary.instruction import Instruction

_LOADS = frozenset({"LDG", "LD", "LDGSTS", "UTMALDG"})
_STORES = frozenset({"STG", "ST", "UTMASTG"})

# What holds a scoreboard until data of global memory are there: LDGDEPBAR stands for the copies (cp.async) before it.
_ARRIVALS = frozenset({"LDG", "LD", "LDGDEPBAR"})


def loads_global(one: Instruction) -> bool:
    """Whether it reads global memory: a load, or a copy to shared memory, of threads or in bulk (TMA)."""
    return one.name in _LOADS or (one.name == "UBLKCP" and one.modifiers[:2] == ("S", "G"))


def stores_global(one: Instruction) -> bool:
    """Whether it writes global memory, by threads or in bulk; atomics do not count."""
    return one.name in _STORES or (one.name == "UBLKCP" and one.modifiers[:2] == ("G", "S"))


def tells_arrival(one: Instruction) -> bool:
    """Whether waiting for its result is waiting for global memory: a load, or a try at an mbarrier."""
    return one.name in _ARRIVALS or (one.name == "SYNCS" and "TRYWAIT" in one.modifiers)
