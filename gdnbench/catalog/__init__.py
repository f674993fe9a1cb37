"""Finds `kernels/` and loads its declarations; imports no torch."""

from gdnbench.catalog.catalog import KERNELS_VARIABLE, Catalog, default_roots, load_catalog
from gdnbench.catalog.entry import Broken, Entry
from gdnbench.catalog.select import find_variant, select_variants

__all__ = [
    "KERNELS_VARIABLE",
    "Broken",
    "Catalog",
    "Entry",
    "default_roots",
    "find_variant",
    "load_catalog",
    "select_variants",
]
